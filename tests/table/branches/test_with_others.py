"""Merges of rows of every type, and beside other writers."""

from __future__ import annotations

import datetime
import decimal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset

KEY = {"lance-schema:unenforced-primary-key": "true"}
COLUMNS = {
    "text": pa.array(["a", None, "c"]),
    "struct": pa.array([{"x": 1, "y": ["p"]}, None, {"x": None, "y": None}], pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())})),
    "list": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
    "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6), pa.float32()), 2),
    "json": pa.array(['{"a":1}', None, "[]"], pa.json_()),
    "dictionary": pa.array(["x", "y", None]).dictionary_encode(),
    "decimal": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("2.20")], pa.decimal128(10, 2)),
    "moment": pa.array([datetime.datetime(2020, 1, 1), None, datetime.datetime(2021, 1, 1)], pa.timestamp("us", "UTC")),
    "bytes": pa.array([b"a", None, b"c"]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "unsigned": pa.array([1, None, 3], pa.uint64()),
    "double": pa.array([1.5, None, -0.0]),
    "flag": pa.array([True, None, False]),
    "date": pa.array([datetime.date(2020, 1, 1), None, None]),
}


@pytest.mark.parametrize("with_key", [True, False], ids=["primary key", "row ids"])
def test_rows_of_every_type_are_merged_as_they_are(tmp_path: Path, with_key: bool) -> None:
    uri = str(tmp_path / "t.lance")
    fields = [pa.field(name, column.type) for name, column in COLUMNS.items()]
    schema = pa.schema([pa.field("id", pa.int64(), False, KEY if with_key else None), *fields, lance.blob_field("blob")])
    columns = [*COLUMNS.values(), lance.blob_array([b"abc", None, b"x" * 100_000])]
    lance.write_dataset(pa.table([[1, 2, 3], *columns], schema=schema), uri, enable_stable_row_ids=not with_key, data_storage_version="2.2")
    table = Dataset.open(uri)
    dev = table.create_branch("dev")
    lance.write_dataset(pa.table([[4, 5, 6], *columns], schema=schema), dev.uri, mode="append")
    # Rows that only move are the same.
    Dataset.open(uri, branch="dev").optimize.compact_files()
    summary = table.branches.diff("main", "dev").summary()
    assert (summary.num_inserted_rows, summary.num_updated_rows, summary.num_deleted_rows) == (3, 0, 0)
    assert table.branches.merge("dev").num_inserted_rows == 3
    theirs = lance.dataset(uri)
    theirs.validate()
    names = list(COLUMNS)
    found = theirs.to_table(columns=["id", *names]).sort_by("id")
    assert found.slice(3).select(names).to_pylist() == found.slice(0, 3).select(names).to_pylist()
    blobs = Dataset.open(uri).to_table(columns=["id", "blob"]).sort_by("id")["blob"].to_pylist()
    assert blobs == [b"abc", None, b"x" * 100_000] * 2


def test_merges_beside_other_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    schema = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])

    def rows(start: int, count: int, value: str) -> pa.Table:
        return pa.table([list(range(start, start + count)), [value] * count], schema=schema)

    table = Dataset.write(uri, rows(0, 20, "old"))
    for number in (1, 2):
        branch = table.create_branch(f"dev{number}")
        branch.update({"v": f"'dev{number}'"}, f"id = {number}").insert(rows(100 * number, 5, "new"))

    def merged(number: int) -> None:
        Dataset.open(uri).branches.merge(f"dev{number}")

    def appended(number: int) -> None:
        lance.write_dataset(rows(1000 + 10 * number, 2, "pylance"), uri, mode="append")

    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(merged, number) for number in (1, 2)]
        waiting += [pool.submit(appended, number) for number in range(4)]
        for future in waiting:
            future.result()
    found = {row["id"]: row["v"] for row in Dataset.open(uri).to_table().to_pylist()}
    assert len(found) == Dataset.open(uri).count_rows() == 20 + 10 + 8
    assert (found[1], found[2]) == ("dev1", "dev2")
    for number in (1, 2):
        assert table.branches.merge(f"dev{number}").num_inserted_rows == 0
