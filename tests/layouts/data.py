"""Random Arrow data of any nesting, and files of it written by pylance."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
from hypothesis import strategies as st

from lance_spark.file.data_file import open_data_file
from lance_spark.file.reader import DataFileReader
from lance_spark.schema.schema import Field
from lance_spark.storage.store import Store

_LEAVES: list[pa.DataType] = [
    pa.bool_(),
    pa.int8(),
    pa.uint16(),
    pa.int32(),
    pa.int64(),
    pa.float16(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(7),
    pa.decimal128(20, 3),
    pa.decimal256(50, 3),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.list_(pa.float32(), 3),
    pa.list_(pa.list_(pa.int16(), 2), 2),
    pa.list_(pa.bool_(), 5),
    pa.list_(pa.float32(), 80),
    pa.dictionary(pa.int16(), pa.string()),
]


def types(depth: int, maps: bool) -> st.SearchStrategy[pa.DataType]:
    """Types nested up to `depth`: structs, lists, and maps if `maps`."""

    def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        structs = st.lists(inner, min_size=1, max_size=2).map(lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)]))
        lists = st.one_of(inner.map(pa.list_), inner.map(pa.large_list))
        return st.one_of(structs, lists, inner.map(lambda t: pa.map_(pa.string(), t))) if maps else st.one_of(structs, lists)

    strategy: st.SearchStrategy[pa.DataType] = st.sampled_from(_LEAVES)
    for _ in range(depth):
        strategy = st.one_of(st.sampled_from(_LEAVES), nested(strategy))
    return strategy


def marked(field: pa.Field, metadata: dict[str, str]) -> pa.Field:
    """The field with `metadata` on it and on all nested fields, where pylance looks for encoding options of leaves."""
    t = field.type
    if pa.types.is_struct(t):
        t = pa.struct([marked(f, metadata) for f in t])
    elif pa.types.is_map(t):
        t = pa.map_(t.key_field, marked(t.item_field, metadata))
    elif pa.types.is_list(t):
        t = pa.list_(marked(t.value_field, metadata))
    elif pa.types.is_large_list(t):
        t = pa.large_list(marked(t.value_field, metadata))
    return pa.field(field.name, t, field.nullable, metadata)


def random_array(t: pa.DataType, count: int, rng: random.Random, nulls: float, variety: int) -> pa.Array:
    """`count` values of type `t`. A fraction `nulls` is null at each level; leaves have about `variety` different values."""
    make = maker(t, rng, nulls, variety)
    return pa.array([make() for _ in range(count)], t)


def maker(t: pa.DataType, rng: random.Random, nulls: float, variety: int) -> Callable[[], Any]:
    """A function that returns a new random value of type `t` at each call."""
    value = _maker(t, rng, nulls, variety)
    return lambda: None if rng.random() < nulls else value()


def _maker(t: pa.DataType, rng: random.Random, nulls: float, variety: int) -> Callable[[], Any]:
    if pa.types.is_struct(t):
        children = [(f.name, maker(f.type, rng, nulls, variety)) for f in t]
        return lambda: {name: make() for name, make in children}
    if pa.types.is_map(t):
        item = maker(t.item_type, rng, nulls, variety)
        return lambda: [(f"k{i}", item()) for i in range(rng.choice((0, 1, 3)))]
    if pa.types.is_fixed_size_list(t):
        item = maker(t.value_type, rng, nulls if rng.random() < 0.5 else 0, variety)
        return lambda: [item() for _ in range(t.list_size)]
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        item, longest = maker(t.value_type, rng, nulls, variety), rng.choice((2, 5, 40))
        return lambda: [item() for _ in range(rng.choice((0, 1, rng.randrange(longest))))]
    if pa.types.is_dictionary(t):
        return lambda: f"word{rng.randrange(min(variety, 9))}"
    return lambda: _leaf(t, rng.randrange(variety), variety)


def _leaf(t: pa.DataType, n: int, variety: int) -> Any:
    """The value number `n` of a primitive type."""
    if pa.types.is_boolean(t):
        return bool(n % 2)
    if pa.types.is_integer(t):
        return n % 127
    if pa.types.is_float16(t):
        return float(n % 512)
    if pa.types.is_floating(t):
        return n / 7
    if pa.types.is_decimal(t):
        return decimal.Decimal(n).scaleb(-3)
    if pa.types.is_date(t):
        return dt.date(2000, 1, 1) + dt.timedelta(n)
    if pa.types.is_timestamp(t):
        return dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n)
    if pa.types.is_fixed_size_binary(t):
        return n.to_bytes(t.byte_width, "big")
    word = f"value {n} " * (n % (60 if variety % 2 else 4))
    return word if pa.types.is_string(t) or pa.types.is_large_string(t) else word.encode()


def written_by_pylance(table: pa.Table, folder: Path, version: str) -> tuple[DataFileReader, dict[int, int]]:
    """The data file that pylance writes for `table`, opened by us, and its columns by field id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = lance.write_dataset(table, str(folder), data_storage_version=cast(Any, version), mode="overwrite")
        (file,) = dataset.get_fragments()[0].data_files()
    reader = open_data_file(Store(str(folder)), f"data/{file.path}")
    return reader, dict(zip(file.fields, file.column_indices))


def read_rows(reader: DataFileReader, columns: dict[int, int], field: Field, rows: Any, batch_rows: int) -> pa.Array:
    """One column's rows, with all batches joined."""
    batches = [arrays[0] for arrays in reader.read([field], columns, rows, batch_rows)]
    for batch in batches:
        batch.validate(full=True)
    return pa.concat_arrays(batches) if batches else pa.array([], field.type)
