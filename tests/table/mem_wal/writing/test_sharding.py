"""Sharding specs give each row the value that pylance gives it, and refuse what it refuses."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import mem_wal as theirs

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.table.build.sharding import ShardingField, ShardingSpec, evaluate_sharding_spec

TYPES: dict[str, pa.DataType] = {
    **{str(t): t for t in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(t): t for t in (pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"))},
    **{str(t): t for t in (pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.string(), pa.large_string(), pa.binary())},
    **{str(t): t for t in (pa.decimal128(10, 2), pa.duration("s"), pa.list_(pa.int64()))},
}
ROWS = 500


def column(t: pa.DataType) -> pa.Array:
    """Random values, nulls, and the ends of the range."""
    choice = random.Random(str(t))
    if pa.types.is_boolean(t):
        values: list[Any] = [choice.random() < 0.5 for _ in range(ROWS)]
    elif pa.types.is_integer(t):
        low, high = np.iinfo(t.to_pandas_dtype()).min, np.iinfo(t.to_pandas_dtype()).max
        values = [low, high, 0, *(choice.randint(low, high) for _ in range(ROWS))]
    elif pa.types.is_floating(t):
        values = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), *(choice.gauss(0, 100) for _ in range(ROWS))]
        return pa.array(np.array(values, t.to_pandas_dtype()), t)
    elif pa.types.is_string(t) or pa.types.is_large_string(t):
        values = ["", *("".join(choice.choices("aé\x00漢 z", k=choice.randrange(12))) for _ in range(ROWS))]
    elif pa.types.is_binary(t):
        values = [b"a", b"\xff"]
    elif pa.types.is_decimal(t):
        values = [Decimal("1.50")]
    elif pa.types.is_list(t):
        values = [[1], []]
    elif pa.types.is_date64(t):
        values = [datetime.date(1960, 5, 1)]
    else:
        values = [choice.randint(0, 80_000) for _ in range(ROWS)]
        return pa.array([None, *values], pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    return pa.array([None, *values], t)


def both(table: pa.Table, fields: list[dict[str, Any]], folder: Path) -> tuple[object, object]:
    """What both libraries make of a spec with these fields: the values, or that they refuse it."""
    dataset = lance.write_dataset(table, str(folder / "t.lance"), mode="overwrite")
    [batch] = dataset.to_table().combine_chunks().to_batches()
    found: list[object] = []
    for module, schema in ((theirs, dataset.lance_schema), (None, Dataset.open(str(folder / "t.lance")).snapshot.manifest.schema)):
        try:
            if module is None:
                own = ShardingSpec(1, [ShardingField(**field) for field in fields])
                found.append(evaluate_sharding_spec(batch, own, schema).to_pydict())
            else:
                spec = theirs.ShardingSpec(1, [theirs.ShardingField(**field) for field in fields])
                found.append(theirs.evaluate_sharding_spec(batch, spec, schema).to_pydict())
        except (ValueError, LanceError):
            found.append("refused")
    return found[0], found[1]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("transform", ["bucket", "identity"])
def test_each_type_has_pylances_values(name: str, transform: str, tmp_path: Path) -> None:
    for buckets in ("1", "7", "1024") if transform == "bucket" else ("",):
        parameters = {"num_buckets": buckets} if buckets else {}
        field = {"field_id": "f", "source_ids": [0], "transform": transform, "result_type": "int32", "parameters": parameters}
        expected, found = both(pa.table({"c": column(TYPES[name])}), [field], tmp_path)
        assert str(found) == str(expected), buckets


SPECS: dict[str, list[dict[str, Any]]] = {
    "unsharded": [{"field_id": "f", "source_ids": [], "transform": "unsharded"}],
    "two fields": [
        {"field_id": "f", "source_ids": [1], "transform": "bucket", "parameters": {"num_buckets": "3"}},
        {"field_id": "g", "source_ids": [0], "transform": "identity"},
    ],
    "two sources": [{"field_id": "f", "source_ids": [1, 0], "transform": "bucket", "parameters": {"num_buckets": "3"}}],
    "an expression": [{"field_id": "f", "source_ids": [0], "expression": "a + 1"}],
    "a transform and an expression": [{"field_id": "f", "source_ids": [0], "transform": "identity", "expression": "a + 1"}],
    "neither": [{"field_id": "f", "source_ids": [0]}],
    "another transform": [{"field_id": "f", "source_ids": [0], "transform": "year"}],
    "no number of buckets": [{"field_id": "f", "source_ids": [0], "transform": "bucket"}],
    "a wrong number": [{"field_id": "f", "source_ids": [0], "transform": "bucket", "parameters": {"num_buckets": "x"}}],
    "no buckets": [{"field_id": "f", "source_ids": [0], "transform": "bucket", "parameters": {"num_buckets": "0"}}],
    "too many buckets": [{"field_id": "f", "source_ids": [0], "transform": "bucket", "parameters": {"num_buckets": "1025"}}],
    "a column that is not there": [{"field_id": "f", "source_ids": [9], "transform": "identity"}],
    "no column": [{"field_id": "f", "source_ids": [], "transform": "identity"}],
    "no fields": [],
}


@pytest.mark.parametrize("name", SPECS)
def test_each_spec_has_pylances_answer(name: str, tmp_path: Path) -> None:
    expected, found = both(pa.table({"a": pa.array([1, None, 3], pa.int32()), "b": ["x", "", None]}), SPECS[name], tmp_path)
    assert found == expected


def test_specs_name_what_is_wrong() -> None:
    batch = pa.record_batch({"a": [1]})
    schema = Dataset.write("memory://sharding/t", pa.table({"a": [1], "b": [2]})).snapshot.manifest.schema
    with pytest.raises(UnsupportedFeatureError, match="expression"):
        evaluate_sharding_spec(batch, ShardingSpec(1, [ShardingField("f", [0], expression="a + 1")]), schema)
    with pytest.raises(SchemaMismatchError, match="'b'"):
        evaluate_sharding_spec(batch, ShardingSpec(1, [ShardingField("f", [1], "identity")]), schema)


MODES: dict[str, dict[str, Any]] = {
    "bucket": {"bucket_column": "c", "num_buckets": 5},
    "identity": {"identity_column": "c"},
    "unsharded": {"unsharded": True},
    "by hand": {},
    "no number": {"bucket_column": "c"},
    "no column": {"num_buckets": 5},
    "two modes": {"bucket_column": "c", "num_buckets": 5, "unsharded": True},
    "too many": {"bucket_column": "c", "num_buckets": 2000},
    "unknown column": {"identity_column": "x"},
}


@pytest.mark.parametrize("name", ["int32", "string", "bool", "double", "date32[day]", "decimal128(10, 2)"])
@pytest.mark.parametrize("mode", MODES)
def test_a_log_is_initialized_as_pylance_does(mode: str, name: str, tmp_path: Path) -> None:
    found: list[object] = []
    for library in ("ours", "pylance"):
        uri = str(tmp_path / library)
        lance.write_dataset(pa.table({"c": column(TYPES[name])}), uri)
        try:
            dataset: Any = Dataset.open(uri) if library == "ours" else lance.dataset(uri)
            dataset.initialize_mem_wal(**MODES[mode])
            assert Dataset.open(uri).mem_wal_index_details() == lance.dataset(uri).mem_wal_index_details()
            found.append(lance.dataset(uri).mem_wal_index_details())
        except InvalidOptionError:
            found.append("refused")
        except (ValueError, OSError):
            found.append("refused")
    assert found[0] == found[1]
