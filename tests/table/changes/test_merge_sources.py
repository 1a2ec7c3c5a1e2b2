"""Sources of a merge with other columns than the table: what pylance takes is taken, and what it refuses is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("q", pa.int64(), False), pa.field("v", pa.int64())])
ROWS = pa.table({"id": [1, 2], "q": [1, 2], "v": [1, 2]}, schema=SCHEMA)
ACTIONS: dict[str, Callable[[Any], Any]] = {
    "update": lambda m: m.when_matched_update_all(),
    "delete": lambda m: m.when_matched_delete(),
    "fail": lambda m: m.when_matched_fail(),
    "insert": lambda m: m.when_not_matched_insert_all(),
    "delete by source": lambda m: m.when_not_matched_by_source_delete(),
    "update, delete by source": lambda m: m.when_matched_update_all().when_not_matched_by_source_delete(),
    "update, insert": lambda m: m.when_matched_update_all().when_not_matched_insert_all(),
    "delete, insert": lambda m: m.when_matched_delete().when_not_matched_insert_all(),
    "fail, insert": lambda m: m.when_matched_fail().when_not_matched_insert_all(),
}
SOURCES = {
    "lacks a column that is not nullable": pa.table({"id": [1], "v": [9]}),
    "that, and no row matches": pa.table({"id": [3], "v": [9]}),
    "only the key": pa.table({"id": [1]}),
    "a column that the table lacks": pa.table({"id": [1], "q": [5], "v": [9], "other": ["x"]}),
    "the key, and a column that the table lacks": pa.table({"id": [1], "other": ["x"]}),
    "a column of another type": pa.table({"id": [1], "v": ["x"]}),
}


def outcome(table: Any, uri: str, action: str, source: str) -> Any:
    try:
        ACTIONS[action](table.merge_insert("id")).execute(SOURCES[source])
    except (LanceError, OSError):
        return "refused"
    return sorted(lance.dataset(uri).to_table().to_pylist(), key=lambda row: row["id"])


@pytest.mark.matrix
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_source_is_taken_as_pylance_takes_it(action: str, source: str, tmp_path: Path) -> None:
    expected = outcome(lance.write_dataset(ROWS, tmp_path / "theirs"), str(tmp_path / "theirs"), action, source)
    lance.write_dataset(ROWS, tmp_path / "ours")
    assert outcome(Dataset.open(tmp_path / "ours"), str(tmp_path / "ours"), action, source) == expected
