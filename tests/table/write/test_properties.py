"""Properties that look like ours and are none are refused with the right name; others are the user's."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError


@pytest.fixture
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset.write(str(tmp_path_factory.mktemp("properties") / "t"), pa.table({"id": [1]}))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("lance.auto_cleanup.intervall", "did you mean 'lance.auto_cleanup.interval'?"),
        ("lance.auto_cleanup.intervla", "did you mean 'lance.auto_cleanup.interval'?"),
        ("Lance.auto_cleanup.interval", "did you mean 'lance.auto_cleanup.interval'?"),
        ("lance_spark.clusterin", "did you mean 'lance_spark.clustering'?"),
        ("stable_row_id", "did you mean 'stable_row_ids'?"),
        ("lance.something", "known are lance.auto_cleanup.interval"),
    ],
)
def test_a_misspelled_property_is_refused(table: Dataset, key: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match="which would have no effect") as raised:
        table.update_config({key: "1"})
    assert message in str(raised.value)
    assert Dataset.open(table.uri).version == 1


@pytest.mark.parametrize(
    "key", ["team", "lanced", "stable", "lance.auto_cleanup.interval", "lance.compaction.batch_size", "id.lance.compression"]
)
def test_other_properties_are_kept(table: Dataset, key: str) -> None:
    assert table.update_config({key: "1"}).snapshot.manifest.config[key] == "1"


def test_an_old_unknown_property_stays_and_can_be_removed(table: Dataset) -> None:
    lance.dataset(table.uri).update_config({"lance.old": "1"})
    kept = Dataset.open(table.uri).update_config({"lance.old": "1", "team": "x"})
    assert kept.update_config({"lance.old": None}).snapshot.manifest.config == {"team": "x"}
