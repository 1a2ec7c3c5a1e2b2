"""The values of partition transforms: those of the specification's SQL expressions as DataFusion evaluates them, and known hashes."""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOptionError
from lance_spark.kernels.murmur3 import murmur3
from lance_spark.namespace.partitioned.expressions import CustomExpression, transform_of
from lance_spark.namespace.partitioned.transforms import KINDS, XXHASH64, Transform

pytestmark = pytest.mark.spec("partitioned-namespace.md", "Partition Expression")

HASHES = [
    (struct.pack("<q", 34), 2017239379),
    (struct.pack("<i", 34), -1928742653),
    (b"iceberg", 1210000089),
    (b"US", -629525236),
    (b"", 0),
]
FAR = [1_700_000_000_123_456, -2_208_988_800_000_000, -62_135_596_800_000_000, 1_710_054_000_000_000, 1_730_613_600_000_000]
MICROS = [0, -1, 1, None, *FAR]


def hashes(values: list[bytes]) -> list[int]:
    out = np.empty(len(values), np.int64)
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    murmur3(np.frombuffer(b"".join(values), np.uint8), offsets, out)
    return [int(h) for h in out]


def test_the_hash_is_murmur3_with_the_seed_0() -> None:
    assert hashes([value for value, _ in HASHES]) == [expected for _, expected in HASHES]


def test_a_bucket_is_the_absolute_hash_modulo_the_number_of_buckets() -> None:
    bucket = Transform("bucket", 16)
    assert bucket.apply(pa.array(["US", None, "iceberg"])).to_pylist() == [4, None, 1210000089 % 16]
    assert bucket.apply(pa.array([b"US"], pa.large_binary())).to_pylist() == [4]
    assert bucket.apply(pa.array([34, None], pa.int64())).to_pylist() == [2017239379 % 16, None]
    assert bucket.apply(pa.array(["xx", "US", None, "a"]).slice(1, 2)).to_pylist() == [4, None]


SQL = [
    *((kind, None, pa.timestamp(unit, zone), f"date_part('{kind}', x)") for kind in ("year", "month", "day", "hour") for unit, zone in
      (("us", None), ("ns", None), ("us", "UTC"), ("us", "America/New_York"), ("ms", "Asia/Kolkata"))),
    *((kind, None, pa.date32(), f"date_part('{kind}', x)") for kind in ("year", "month", "day")),
    ("truncate", 10, pa.int64(), "x - (x % 10)"),
    ("truncate", 10, pa.int8(), "x - (x % 10)"),
    ("truncate", 3, pa.decimal128(20, 2), "x - (x % 3)"),
    ("truncate", 2, pa.string(), "left(x, 2)"),
]  # fmt: skip


def values(t: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(t):
        factor = {"ms": 1 / 1000, "us": 1, "ns": 1000}[t.unit]
        kept = [m for m in MICROS if t.unit != "ns" or m is None or abs(m) < 9e15]
        return pa.array([None if m is None else int(m * factor // 1) for m in kept], pa.int64()).view(t)
    if pa.types.is_date(t):
        return pa.array([0, -1, None, 19_000, -719_162, -25_567], pa.int32()).view(t)
    if pa.types.is_string(t):
        return pa.array(["", "a", None, "ab", "abc", "é漢字x", "🙂🙂🙂"])
    if pa.types.is_decimal(t):
        return pa.array([Decimal("-7.25"), None, Decimal("7.99"), Decimal(0), Decimal("-3"), Decimal(10) ** 15], t)
    return pa.array([-7, 7, None, 0, -10, 10, 127, -128], t)


@pytest.mark.parametrize(("kind", "parameter", "type", "sql"), SQL, ids=lambda v: str(v))
def test_values_are_those_of_the_sql_expression(kind: str, parameter: int | None, type: pa.DataType, sql: str, tmp_path: Path) -> None:
    source = values(type)
    table = lance.write_dataset(pa.table({"x": source}), str(tmp_path / "t"))
    expected = table.scanner(columns={"v": sql}).to_table()["v"].combine_chunks()
    transform = Transform(kind, parameter)
    assert transform.apply(source).to_pylist() == expected.cast(transform.result_type(type)).to_pylist()


def test_hours_before_1970_and_in_other_zones_are_local() -> None:
    assert Transform("hour").apply(pa.array([-1], pa.timestamp("us"))).to_pylist() == [23]
    new_york = pa.array([0], pa.timestamp("us", "America/New_York"))
    assert Transform("year").apply(new_york).to_pylist() == [1969]
    assert Transform("hour").apply(new_york).to_pylist() == [19]
    assert Transform("hour").apply(pa.array([0], pa.timestamp("us", "-05:30"))).to_pylist() == [18]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("col0", Transform("identity")),
        ("col", Transform("identity")),
        ("date_part('year', col0)", Transform("year")),
        ("left(col0, 3)", Transform("truncate", 3)),
        ("col0 - (col0 % 10)", Transform("truncate", 10)),
        ("abs(murmur3(col0)) % 16", Transform("bucket", 16)),
        ("abs(hash(col)) % 16", Transform("bucket", 16, XXHASH64)),
        ("upper(col0)", CustomExpression("upper(col0)")),
        ("left(col0, 99999999999999999999)", CustomExpression("left(col0, 99999999999999999999)")),
        ("left(col0, -1)", CustomExpression("left(col0, -1)")),
    ],
)
def test_an_expression_that_writes_out_a_transform_is_that_transform(expression: str, expected: object) -> None:
    assert transform_of(expression) == expected


@pytest.mark.parametrize(
    ("kind", "parameter", "type"),
    [
        ("bucket", 4, pa.int32()),
        ("multi_bucket", 4, pa.int64()),
        ("hour", None, pa.date32()),
        ("year", None, pa.string()),
        ("truncate", 4, pa.float64()),
        ("identity", None, pa.list_(pa.int32())),
    ],
)
def test_a_transform_that_does_not_apply_is_refused_with_advice(kind: str, parameter: int | None, type: pa.DataType) -> None:
    with pytest.raises(InvalidOptionError, match="; "):
        Transform(kind, parameter).result_type(type)


@pytest.mark.parametrize(("kind", "parameter"), [("bucket", None), ("bucket", 0), ("year", 3), ("truncate", -1), ("nope", None)])
def test_invalid_transforms_are_refused(kind: str, parameter: int | None) -> None:
    with pytest.raises(InvalidOptionError):
        Transform(kind, parameter)
    assert set(KINDS) == {"identity", "year", "month", "day", "hour", "bucket", "multi_bucket", "truncate"}
