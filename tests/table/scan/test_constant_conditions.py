"""Conditions without columns: they are true in all rows, or in none, for scans and counts of all kinds of tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark import Dataset, create_partitioned_namespace

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
TABLES: dict[str, Callable[[Path], Any]] = {
    "table": lambda uri: Dataset.write(uri, ROWS, max_rows_per_file=4),
    "table with an index": lambda uri: Dataset.write(uri, ROWS).create_scalar_index("id", "BTREE"),
    "partitioned namespace": lambda uri: create_partitioned_namespace(uri, ROWS.schema, [("bucket", "id", 2)]).write(ROWS),
}
CONDITIONS = {"true": True, "false": False, "NULL": False, "1 = 2": False, "1 < 2 OR NULL": True, "NOT NULL": False}


@pytest.mark.parametrize("condition", [*CONDITIONS, *(pc.scalar(value) for value in (True, False))], ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_all_rows_or_none(tmp_path: Path, kind: str, condition: Any) -> None:
    table = TABLES[kind](tmp_path / "t")
    is_true = CONDITIONS.get(str(condition), False)
    expected = ROWS["id"].to_pylist() if is_true else []
    assert table.count_rows(condition) == len(expected)
    assert table.scan([], condition).to_table().num_rows == len(expected)
    assert sorted(table.scan(filter=condition).to_table()["id"].to_pylist()) == expected
    assert len(table.scan(filter=condition, limit=3, offset=1).to_table()) == (3 if expected else 0)
