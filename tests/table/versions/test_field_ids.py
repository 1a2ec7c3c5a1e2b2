"""Ids of dropped columns are not used again, whoever dropped them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata.field_ids import KEY, Mark, mark_of
from lance_spark.metadata.operations import UpdateConfig, UpdateMap
from lance_spark.table.versions.field_ids import next_field_id

pytestmark = [pytest.mark.spec("schema.md", "Field ID Properties"), pytest.mark.spec("schema.md", "Using Field IDs")]

X = pa.field("x", pa.int64())


def ids(uri: str) -> dict[str, int]:
    return {f.name: f.id for f in Dataset.open(uri).snapshot.manifest.schema.fields}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the columns a (0), b (1) and x (2)."""
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"a": [1, 2], "b": [3, 4]})).add_columns({"x": "a + 1"})
    assert ids(uri) == {"a": 0, "b": 1, "x": 2}
    return uri


MEANWHILE: dict[str, Callable[[str], object]] = {
    "we drop": lambda uri: Dataset.open(uri).drop_columns(["x"]),
    "pylance drops": lambda uri: lance.dataset(uri).drop_columns(["x"]),
    "we change the type": lambda uri: Dataset.open(uri).alter_columns({"path": "x", "data_type": pa.int32()}).drop_columns(["x"]),
    "pylance overwrites": lambda uri: lance.write_dataset(pa.table({"a": [1]}), uri, mode="overwrite"),
    "we restore": lambda uri: Dataset.open(uri, version=1).restore(),
    "pylance restores": lambda uri: lance.dataset(uri, version=1).restore(),
}


@pytest.mark.parametrize("change", MEANWHILE)
def test_a_new_column_has_an_id_that_no_version_has(uri: str, change: str) -> None:
    MEANWHILE[change](uri)
    used = [f.id for v in lance.dataset(uri).versions() for f in Dataset.open(uri, version=v["version"]).snapshot.manifest.schema.walk()]
    Dataset.open(uri).add_columns(X)
    assert ids(uri)["x"] == max(used) + 1


def test_the_mark_outlives_the_versions_and_commits_of_pylance(uri: str) -> None:
    Dataset.open(uri).drop_columns(["x"])
    theirs = lance.dataset(uri)
    theirs.insert(pa.table({"a": [5], "b": [6]}))
    theirs.delete("true")
    theirs.optimize.compact_files()
    theirs.cleanup_old_versions(timedelta(0))
    assert len(lance.dataset(uri).versions()) == 1
    Dataset.open(uri).add_columns(X)
    assert ids(uri) == {"a": 0, "b": 1, "x": 3}
    lance.dataset(uri).validate()


def test_columns_that_pylance_drops_after_the_mark_count(uri: str) -> None:
    lance.dataset(uri).add_columns(pa.field("y", pa.int64()))
    lance.dataset(uri).drop_columns(["y"])
    assert mark_of(Dataset.open(uri).snapshot.manifest) == Mark(2, 2)
    assert next_field_id(Dataset.open(uri).snapshot) == 4


def test_replacing_the_metadata_of_the_table_keeps_the_mark(uri: str) -> None:
    Dataset.open(uri).drop_columns(["x"])
    replaced = Dataset.commit(uri, UpdateConfig(table_metadata_updates=UpdateMap({"k": "v"}, replace=True)), read_version=3)
    assert dict(replaced.snapshot.manifest.table_metadata) == {"k": "v", KEY: "2 2"}


@pytest.mark.parametrize("mark", ["", "x", "-1 0", "1", "9 9 9", "99999999999 1", "9" * 5000 + " 1"])
def test_an_invalid_mark_is_none(uri: str, mark: str) -> None:
    ds = Dataset.commit(uri, UpdateConfig(table_metadata_updates=UpdateMap({KEY: mark})), read_version=2)
    assert next_field_id(ds.snapshot) == 3
    assert ids(uri) == {"a": 0, "b": 1, "x": 2}
