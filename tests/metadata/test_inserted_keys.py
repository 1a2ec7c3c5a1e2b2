"""Two concurrent upserts of one new key, by any library: the second one finds the row of the first and updates it."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata.inserted_keys import KeyFilter
from lance_spark.metadata.operations import InsertedKeys, Update
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import Schema, from_arrow
from lance_spark.table.versions.history import transaction_of

KEY = "lance-schema:unenforced-primary-key"
IN_BLOOM: dict[str, list[Any]] = {
    "int64": [-(2**63), 0, 7, 2**63 - 1],
    "int32": [-(2**31), 7],
    "uint64": [2**64 - 1, 7],
    "string": ["é" * n for n in range(70)],
    "binary": [bytes(range(n)) for n in range(100)],
}
"""Keys that pylance records, by type."""
EXACT: dict[str, list[Any]] = {
    "int16": [-1, 7],
    "float": [0.5, 7.0],
    "bool": [True],
    "date32[day]": [datetime.date(2026, 1, 1), datetime.date(1969, 1, 1)],
    "timestamp[us]": [datetime.datetime(2026, 1, 1)],
    "decimal128(10, 2)": [Decimal("7.00"), Decimal("-1.50")],
}
"""Keys that pylance leaves out."""
TYPES = {str(t): t for t in (
    pa.int64(), pa.int32(), pa.uint64(), pa.string(), pa.binary(), pa.int16(), pa.float32(), pa.bool_(), pa.date32(),
    pa.timestamp("us"), pa.decimal128(10, 2),
)}  # fmt: skip


def schema_of(*types: pa.DataType) -> pa.Schema:
    """A table with a primary key of these types: k0, k1, .., and a value."""
    keys = [pa.field(f"k{i}", t, nullable=False, metadata={KEY: "true", f"{KEY}:position": str(i + 1)}) for i, t in enumerate(types)]
    return pa.schema([*keys, pa.field("v", pa.string())])


def rows(schema: pa.Schema, keys: list[Any], value: str) -> pa.Table:
    """Rows with these keys, each the values of all columns of the key, or the value of the only one."""
    count = len(schema) - 1
    columns = [[key[i] if count > 1 else key for key in keys] for i in range(count)]
    arrays = [pa.array(column, schema.field(i).type) for i, column in enumerate(columns)]
    return pa.Table.from_arrays([*arrays, pa.array([value] * len(keys))], schema=schema)


def upsert(dataset: Any, source: pa.Table) -> None:
    keys = [name for name in source.column_names if name != "v"]
    dataset.merge_insert(keys).when_matched_update_all().when_not_matched_insert_all().execute(source)


def keys_in_transaction(uri: str) -> InsertedKeys | None:
    operation = transaction_of(Dataset.open(uri).snapshot).operation
    assert isinstance(operation, Update)
    return operation.inserted_keys


@pytest.mark.parametrize(
    ("types", "keys"),
    [*(((TYPES[name],), keys) for name, keys in IN_BLOOM.items()), ((pa.string(), pa.int32()), [("a", 1), ("", -1), ("é" * 40, 7)])],
    ids=[*IN_BLOOM, "string and int32"],
)
def test_the_filter_is_the_one_that_pylance_writes(tmp_path: Path, types: tuple[pa.DataType, ...], keys: list[Any]) -> None:
    schema = schema_of(*types)
    for name, library in (("ours", Dataset.open), ("theirs", lance.dataset)):
        lance.write_dataset(schema.empty_table(), str(tmp_path / name))
        upsert(library(str(tmp_path / name)), rows(schema, keys, "new"))
    ours, theirs = (keys_in_transaction(str(tmp_path / name)) for name in ("ours", "theirs"))
    assert ours is not None
    assert len(ours.bloom) == 32768
    assert ours == theirs


OPEN: dict[str, Callable[[str], Any]] = {"ours": Dataset.open, "theirs": lance.dataset}


@pytest.mark.parametrize(("first", "second"), [("ours", "ours"), ("ours", "theirs"), ("theirs", "ours")])
@pytest.mark.parametrize("name", [*IN_BLOOM, *EXACT])
def test_one_new_key_is_inserted_once(tmp_path: Path, name: str, first: str, second: str) -> None:
    uri, schema, key = str(tmp_path / "t.lance"), schema_of(TYPES[name]), (IN_BLOOM | EXACT)[name][-1]
    lance.write_dataset(schema.empty_table(), uri)
    one, other = OPEN[first](uri), OPEN[second](uri)
    upsert(one, rows(schema, [key], "first"))
    upsert(other, rows(schema, [key], "second"))
    lance.dataset(uri).validate()
    assert lance.dataset(uri).to_table().to_pylist() == [{"k0": key, "v": "second"}]


@pytest.mark.parametrize(("first", "second"), [("ours", "ours"), ("ours", "theirs"), ("theirs", "ours")])
def test_different_keys_do_not_wait_for_each_other(tmp_path: Path, first: str, second: str) -> None:
    uri, schema = str(tmp_path / "t.lance"), schema_of(pa.int64(), pa.string())
    lance.write_dataset(schema.empty_table(), uri)
    one, other = OPEN[first](uri), OPEN[second](uri)
    upsert(one, rows(schema, [(1, "a"), (2, "b")], "first"))
    upsert(other, rows(schema, [(1, "b"), (2, "a")], "second"))
    assert lance.dataset(uri).count_rows() == 4
    assert lance.dataset(uri).version == 3
    if second == "ours":
        assert transaction_of(Dataset.open(uri).snapshot).read_version == 1  # it was not run again


def test_a_merge_on_other_columns_records_no_keys(tmp_path: Path) -> None:
    schema = schema_of(pa.int64())
    table = Dataset.write(tmp_path / "t.lance", rows(schema, [1], "a"))
    source = rows(schema, [2], "b")
    merged = table.merge_insert("v").when_not_matched_insert_all().execute(source)
    assert keys_in_transaction(merged.uri) is None
    merged = merged.merge_insert(["v", "k0"]).when_not_matched_insert_all().execute(rows(schema, [3], "c"))
    assert keys_in_transaction(merged.uri) is not None


def test_the_position_orders_the_key(tmp_path: Path) -> None:
    fields = [
        pa.field("x", pa.int64(), nullable=False, metadata={KEY: "true", f"{KEY}:position": "2"}),
        pa.field("y", pa.string(), nullable=False, metadata={KEY: "true", f"{KEY}:position": "1"}),
    ]
    source = pa.table({"x": [1], "y": ["one"]}, schema=pa.schema(fields))
    for name, library in OPEN.items():
        lance.write_dataset(source.schema.empty_table(), str(tmp_path / name))
        library(str(tmp_path / name)).merge_insert(["y", "x"]).when_not_matched_insert_all().execute(source)
    ours, theirs = (keys_in_transaction(str(tmp_path / name)) for name in OPEN)
    assert ours == theirs
    assert ours is not None
    assert ours.field_ids == (1, 0)


@pytest.mark.parametrize("t", [pa.int64(), pa.int16()], ids=str)
def test_many_writers_at_once_insert_each_key_once(tmp_path: Path, t: pa.DataType) -> None:
    uri, schema = str(tmp_path / "t.lance"), schema_of(t)
    lance.write_dataset(schema.empty_table(), uri)

    def write(number: int) -> None:
        chosen = random.Random(number)
        for _ in range(5):
            # pylance does not notice other writers of its own for int16.
            upsert(OPEN["ours" if number else "theirs"](uri), rows(schema, chosen.sample(range(20), 5), f"{number}"))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    lance.dataset(uri).validate()
    keys = lance.dataset(uri).to_table()["k0"].to_pylist()
    assert len(keys) == len(set(keys))
    assert lance.dataset(uri).version == 16


def _columns(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    return rows.select(schema.names)


def filters(t: pa.DataType, *parts: list[Any]) -> Iterator[InsertedKeys]:
    for values in parts:
        key = primary_key(from_arrow(schema_of(t)))
        keys = KeyFilter(key)
        inserted = pa.record_batch({"k0": pa.array(values, t)})
        keys.add(partial(_columns, inserted))
        yield keys.finish()


def test_equal_keys_have_equal_hashes() -> None:
    positive, negative = filters(pa.float64(), [0.0, float("nan")], [-0.0, -float("nan")])
    assert positive == negative
    with_null, without = filters(pa.string(), ["a", None], ["a"])
    assert with_null == without
    lists = list(filters(pa.list_(pa.int32()), [[1]], [[2]]))
    assert lists[0] == lists[1] == replace(lists[0], hashes=(0,))
