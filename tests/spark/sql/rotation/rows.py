"""Tables of random rows with all types that Parquet and Lance both have in Spark."""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.spark.sql.rotation.names import distinct, quoted, spelled

ROWS = 48
UTC = dt.UTC
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 0.5, 2.5, 3.0, 1e9, math.inf, math.nan]
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "abc",
    "a%c",
    "a_c",
    "\u00e9t\u00e9",
    "e\u0301",
    "\U0001f600",
    "\uffff",
    " a ",
    "3",
    "-1.5",
    "true",
    "2024-03-10",
    "a\nb",
    "\\",
]
TEXTS += ["\u0130", "i", "\u00df", "SS", "x" * 40, "a,b,c", "\x00"]
STAMPS = [
    dt.datetime(1, 1, 1),
    dt.datetime(1883, 11, 18, 17, 0),
    dt.datetime(1937, 6, 30, 23, 59, 59, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2011, 12, 30, 10, 0),
    dt.datetime(2024, 3, 10, 2, 30),
    dt.datetime(2024, 3, 10, 7, 30),
    dt.datetime(2024, 11, 3, 5, 30, 0, 123456),
    dt.datetime(9999, 12, 30, 23, 59, 59, 999999),
]
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, -1, 0, 1, 3, 127]),
    "short": (pa.int16(), [-(2**15), -5, 0, 3, 7, 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), -5, 0, 1, 3, 4, 5, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -3, 0, 1, 3, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), FLOATS),
    "double": (pa.float64(), [*FLOATS, 0.1, 1e300, 5e-324]),
    "decimal": (pa.decimal128(12, 2), [Decimal(x) for x in ("-1.05", "0.00", "1.00", "1.05", "3.00", "9999999999.99")]),
    "wide": (pa.decimal128(38, 18), [Decimal(x) for x in ("-1.5", "0", "1.05", "3", "12345678901234567890.5")]),
    "string": (pa.string(), TEXTS),
    "binary": (pa.binary(), [b"", b"\x00", b"a", b"\x7f", b"\x80", b"\xff\x00", b"abc"]),
    "date": (pa.date32(), [s.date() for s in STAMPS] + [dt.date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us", "UTC"), [s.replace(tzinfo=UTC) for s in STAMPS]),
    "ntz": (pa.timestamp("us"), STAMPS),
    "interval": (
        pa.duration("us"),
        [dt.timedelta(0), dt.timedelta(microseconds=-1), dt.timedelta(1), dt.timedelta(-400, 5), dt.timedelta(hours=30)],
    ),
    "ints": (pa.list_(pa.int32()), [[], [1], [3, None, 5], [None], [0, 0, -5], list(range(9))]),
    "texts": (pa.list_(pa.string()), [[], ["a"], ["", None, "\u00e9t\u00e9"], ["ab", "A", "a"]]),
    "doubles": (pa.list_(pa.float64()), [[], [math.nan, -0.0], [0.0, None, math.inf], [1.5]]),
    "map": (pa.map_(pa.string(), pa.int32()), [[], [("a", 1)], [("", None), ("\u00e9", 3)], [("a", -1), ("b", 0), ("c", None)]]),
    "lists": (pa.list_(pa.list_(pa.int32())), [[], [[]], [[1, None], None], [[3], [], [5, 5]]]),
}
"""The types by name, with values."""
SIMPLE = [k for k in POOLS if k not in ("ints", "texts", "doubles", "map", "lists")]


@dataclass(frozen=True)
class Column:
    """A column or a field of a struct: its names, outermost first, and its type, a key of POOLS or "struct"."""

    names: tuple[str, ...]
    kind: str

    def sql(self, rng: random.Random, case_sensitive: bool, alias: str = "") -> str:
        """A reference to it."""
        return ".".join([quoted(alias)] * bool(alias) + [spelled(rng, name, case_sensitive) for name in self.names])


@dataclass(frozen=True)
class Table:
    """Rows, and what statements can refer to. `key` is a column of type long with another value in each row."""

    rows: pa.Table
    key: Column
    columns: list[Column]
    case_sensitive: bool


def random_table(rng: random.Random, case_sensitive: bool) -> Table:
    """A table with a key, columns of most types, a struct in a struct, and an array of structs."""
    kinds = [kind for kind in POOLS if rng.random() < 0.9] + rng.choices(SIMPLE, k=3)
    rng.shuffle(kinds)
    key, *names = distinct(rng, len(kinds) + 3, case_sensitive)
    fields, columns = [pa.field(key, pa.int64())], [Column((key,), "long")]
    arrays = [pa.array(rng.sample(range(-5, ROWS), ROWS), pa.int64())]
    for name, kind in zip(names, kinds):
        arrays.append(pa.array(some(rng, POOLS[kind][1]), POOLS[kind][0]))
        fields.append(pa.field(name, POOLS[kind][0]))
        columns.append(Column((name,), kind))
    struct, inside = random_struct(rng, case_sensitive, (names[-2],), 2)
    elements = pa.struct([pa.field(n, pa.int32()) for n in distinct(rng, 2, case_sensitive, nested=True)])
    listed = [[dict(zip((f.name for f in elements), (1, None))), None], [], [dict(zip((f.name for f in elements), (3, 5)))]]
    for name, array in ((names[-2], struct), (names[-1], pa.array(some(rng, listed), pa.list_(elements)))):
        arrays.append(array)
        fields.append(pa.field(name, array.type))
    columns += [Column((names[-2],), "struct"), *inside, Column((names[-1],), "structs")]
    order = rng.sample(range(len(fields)), len(fields))
    rows = pa.Table.from_arrays([arrays[i] for i in order], schema=pa.schema([fields[i] for i in order]))
    return Table(rows, Column((key,), "long"), columns, case_sensitive)


def some(rng: random.Random, pool: list[Any]) -> list[Any]:
    """A value, or null, for each row."""
    nulls = rng.choice([0.0, 0.15, 0.15, 0.9])
    return [None if rng.random() < nulls else rng.choice(pool) for _ in range(ROWS)]


def random_struct(rng: random.Random, case_sensitive: bool, path: tuple[str, ...], depth: int) -> tuple[pa.Array, list[Column]]:
    """Structs that are null in some rows, and their fields, with structs in them down to a depth."""
    kinds = rng.choices(list(POOLS), k=3)
    names = distinct(rng, 4, case_sensitive, nested=True)
    arrays = [pa.array(some(rng, POOLS[kind][1]), POOLS[kind][0]) for kind in kinds]
    columns = [Column((*path, name), kind) for name, kind in zip(names, kinds)]
    if depth > 1:
        array, inside = random_struct(rng, case_sensitive, (*path, names[3]), depth - 1)
        arrays.append(array)
        columns += [Column((*path, names[3]), "struct"), *inside]
    mask = pa.array([rng.random() < 0.2 for _ in range(ROWS)])
    return pa.StructArray.from_arrays(arrays, names[: len(arrays)], mask=mask), columns


def literal(rng: random.Random, kind: str) -> str:
    """A SQL constant of a simple type: a value that columns have, or NULL."""
    value = rng.choice(POOLS[kind][1])
    texts = {
        "byte": lambda: f"{value}Y" if value != -128 else "CAST(-128 AS TINYINT)",
        "short": lambda: f"{value}S" if value != -(2**15) else "CAST(-32768 AS SMALLINT)",
        "long": lambda: f"{value}L" if value != -(2**63) else "(-9223372036854775807L - 1L)",
        "float": lambda: f"float('{value}')",
        "double": lambda: f"double('{value}')",
        "decimal": lambda: rng.choice([f"{value}", f"{value}BD", f"{value}001", str(int(value))]),
        "wide": lambda: f"CAST('{value}' AS DECIMAL(38, 18))",
        "string": lambda: text(value),
        "binary": lambda: f"X'{value.hex()}'",
        "date": lambda: f"DATE '{value.isoformat()}'",
        "timestamp": lambda: f"TIMESTAMP_LTZ '{value.replace(tzinfo=None).isoformat()}Z'",
        "ntz": lambda: f"TIMESTAMP_NTZ '{value.isoformat()}'",
        "interval": lambda: f"make_dt_interval({value.days}, 0, 0, {value.seconds}.{value.microseconds:06})",
    }
    if rng.random() < 0.03:
        return "NULL"
    return texts[kind]() if kind in texts else str(value)


def text(value: str) -> str:
    """A SQL string."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\x00", "\\u0000").replace("\n", "\\n")
    return f"'{escaped}'"
