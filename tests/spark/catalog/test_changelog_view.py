"""The options of `create_changelog_view`, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.spark.catalog.changelog_view import changelog_view
from lance_spark.table.versions.snapshot import Snapshot


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """A table of three versions."""
    table = Dataset.write(tmp_path / "t.lance", pa.table({"a": [1]}))
    for value in (2, 3):
        table = table.insert(pa.table({"a": [value]}))
    return table.snapshot


@pytest.mark.parametrize("end", ["start", "end"])
def test_a_version_and_a_time_for_the_same_end_are_refused(snapshot: Snapshot, end: str) -> None:
    options = {f"{end}-snapshot-id": "1", f"{end}-timestamp": "0"}
    message = f"give '{end}-snapshot-id' or '{end}-timestamp', not both"
    with pytest.raises(InvalidOptionError, match=message):
        changelog_view(snapshot, ["ns", "t"], {"options": options})


def test_one_end_may_be_a_version_and_the_other_a_time(snapshot: Snapshot) -> None:
    options = {"start-timestamp": "0", "end-snapshot-id": "2"}
    view = changelog_view(snapshot, ["ns", "t"], {"options": options})
    assert (view.first, view.last) == (1, 2)
