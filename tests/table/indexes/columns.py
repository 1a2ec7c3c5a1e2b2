"""A table with a column of each type that can be indexed, and conditions on each."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa


def table(rows: int, seed: int = 3) -> pa.Table:
    """Rows with nulls, NaN, infinities, both zeros and empty texts."""
    rng = np.random.default_rng(seed)
    null = rng.random(rows) < 0.05
    floats = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, 2.5, -3.25, 100.0], rows)
    numbers = rng.integers(-100, 100, rows)
    texts = [["", "é日", f"v{n}", "abc def", f"s{n}"][n % 5] for n in numbers.tolist()]
    lists = [None if n % 11 == 0 else [None if i % 9 == 0 else f"t{i % 12}" for i in range(n, n + abs(n) % 4)] for n in numbers.tolist()]
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "flag": pa.array(numbers > 0, mask=null),
            "small": pa.array(numbers.astype(np.int8), mask=null),
            "big": pa.array((numbers + 100).astype(np.uint64), mask=null),
            "half": pa.array(floats.astype(np.float16), pa.float16(), mask=null),
            "float": pa.array(floats.astype(np.float32), mask=null),
            "double": pa.array(floats, mask=null),
            "day": pa.array(numbers, pa.int32(), mask=null).cast(pa.date32()),
            "time": pa.array((numbers + 100) * 10**6, pa.time64("us"), mask=null),
            "span": pa.array(numbers, pa.duration("us"), mask=null),
            "at": pa.array(numbers * 10**9, pa.timestamp("us"), mask=null),
            "nanos": pa.array(numbers * 10**9 + rng.integers(0, 999, rows), pa.timestamp("ns", "UTC"), mask=null),
            "price": pa.array([decimal.Decimal(n).scaleb(-2) for n in numbers.tolist()], pa.decimal128(10, 2), mask=null),
            "text": pa.array(texts, mask=null),
            "long": pa.array(texts, pa.large_string(), mask=null),
            "bytes": pa.array([t.encode() for t in texts], mask=null),
            "code": pa.array([f"{n:+04d}".encode() for n in numbers.tolist()], pa.binary(4), mask=null),
            "labels": pa.array(lists, pa.list_(pa.string())),
            "numbers": pa.array([list(range(n, n + abs(n) % 4)) for n in numbers.tolist()], pa.list_(pa.int64())),
        }
    )


_NUMBER = ("{c} = 5", "{c} > 90", "{c} BETWEEN 3 AND 7", "{c} IN (3, 4, 120)", "{c} IS NULL", "{c} <> 3")
_FLOAT = ("{c} = 0.0", "{c} > 2.0", "{c} IN (1.5, 0)", "isnan({c})", "{c} < -3", "{c} IS NULL")
_TEXT = ("{c} = 's4'", "{c} = ''", "{c} LIKE 's-%'", "{c} IN ('s14', 'v3', 'zz')", "{c} IS NULL", "contains({c}, 'def')", "{c} > 'v9'")
_TIME = ("{c} = TIMESTAMP'1970-01-01 01:23:20'", "{c} > TIMESTAMP'1970-01-02 00:00:00'", "{c} IS NULL")
CONDITIONS: dict[str, tuple[str, ...]] = {
    "flag": ("{c}", "NOT {c}", "{c} IS NULL"),
    **dict.fromkeys(("id", "small", "big"), _NUMBER),
    **dict.fromkeys(("half", "float", "double"), _FLOAT),
    "day": ("{c} = DATE'1970-01-06'", "{c} > DATE'1970-04-01'", "{c} IS NULL"),
    **dict.fromkeys(("at", "nanos"), _TIME),
    "price": ("{c} = 0.05", "{c} > 0.9", "{c} IS NULL"),
    **dict.fromkeys(("text", "long"), _TEXT),
    "bytes": ("{c} = X'7334'", "{c} IS NULL"),
    **dict.fromkeys(("time", "span", "code"), ("{c} IS NULL", "{c} IS NOT NULL")),
    "labels": (
        "array_contains({c}, 't3')",
        "arrays_overlap({c}, array('t4', 't5'))",
        "array_has_all({c}, array('t4', 't5'))",
        "{c} IS NULL",
    ),
    "numbers": ("array_contains({c}, 3)", "array_has_any({c}, array(4, 5))", "array_contains({c}, 1000)"),
}
"""By column; {c} stands for its name."""


def conditions(column: str) -> list[str]:
    """The conditions on a column."""
    return [c.format(c=column) for c in CONDITIONS[column]]
