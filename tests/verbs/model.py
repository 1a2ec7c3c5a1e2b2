"""A simple model of a table, conditions and values, which computes expected rows in Python, one row at a time."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

Values = Mapping[str, Any]
Truth = bool | None

INT, LONG, DOUBLE, TEXT = pa.int32(), pa.int64(), pa.float64(), pa.string()
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
VECTOR = pa.list_(pa.float32(), 2)
MOMENT, LOCAL, DECIMAL, MAP = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(12, 2), pa.map_(pa.string(), pa.int32())
STRUCTS = pa.list_(pa.struct([("k", pa.int32()), ("w", pa.string())]))
COLUMNS: Mapping[str, pa.DataType] = {"id": LONG, "n": INT, "x": DOUBLE, "s": TEXT, "st": STRUCT, "v": VECTOR}
NAN = float("nan")
TEXTS = ["", "a", "abc", "b%", "été", "it's", "long " * 40]
DDL = {
    INT: "INT",
    LONG: "BIGINT",
    DOUBLE: "DOUBLE",
    TEXT: "STRING",
    STRUCT: "STRUCT<a: INT, b: ARRAY<STRING>>",
    VECTOR: "ARRAY<FLOAT>",
    MOMENT: "TIMESTAMP",
    LOCAL: "TIMESTAMP_NTZ",
    DECIMAL: "DECIMAL(12, 2)",
    MAP: "MAP<STRING, INT>",
    STRUCTS: "ARRAY<STRUCT<k: INT, w: STRING>>",
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.uint16(): "INT",
}
CARRIED: Mapping[pa.DataType, list[Any]] = {
    MOMENT: [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC)],
    LOCAL: [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1, 1, 1)],
    DECIMAL: [Decimal("-1.05"), Decimal("9999999999.99"), Decimal("0.00")],
    MAP: [[], [("a", 1)], [("a", None), ("b", 2)]],
    STRUCTS: [[], [None], [{"k": 1, "w": None}, {"k": None, "w": "x"}]],
    pa.binary(): [b"", b"\x00\xff", b"long" * 50],
    pa.bool_(): [True, False],
    pa.float32(): [0.5, NAN, -0.0],
    pa.uint16(): [0, 65535],
}
"""Values of columns of other types, which verbs carry along, copy or set to null."""


@dataclass(frozen=True)
class Row:
    """The values of a row; its id (None: not seen yet), and the versions that made it and changed it last."""

    values: Values
    created: int = 0
    updated: int = 0
    row_id: int | None = None

    def with_values(self, version: int | None, **values: Any) -> Row:
        """The row with new values, changed by a version (None: not by one that counts)."""
        return replace(self, values={**self.values, **values}, updated=self.updated if version is None else version)


@dataclass(frozen=True)
class Condition:
    """An SQL condition, and whether it is true for a row; None is SQL's unknown."""

    sql: str
    holds: Callable[[Values], Truth]


@dataclass(frozen=True)
class Value:
    """An SQL expression, and its value for a row."""

    sql: str
    of: Callable[[Values], Any]


@dataclass
class Table:
    """The rows and columns that a version must have."""

    columns: dict[str, pa.DataType] = field(default_factory=lambda: dict(COLUMNS))
    rows: list[Row] = field(default_factory=list)

    def copy(self) -> Table:
        """The same table, which changes do not reach."""
        return Table(dict(self.columns), list(self.rows))

    def plain(self) -> list[str]:
        """The rows in any comparable form."""
        return sorted(shown([row.values[name] for name in self.columns]) for row in self.rows)


def shown(values: Sequence[Any]) -> str:
    """The values of a row in a form that tells apart what is not the same: 0.0 and -0.0, but not two names of one zone."""
    return repr([v.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(v, dt.datetime) and v.tzinfo is not None else v for v in values])


def quoted(name: str) -> str:
    """The name of a column in SQL."""
    return f"`{name}`" if " " in name else name


def random_value(rng: random.Random, kind: pa.DataType) -> Any:
    """A value of a column."""
    if rng.random() < 0.2:
        return None
    if kind in CARRIED:
        return rng.choice(CARRIED[kind])
    if kind == STRUCT:
        return {"a": random_value(rng, INT), "b": rng.choice([None, [], ["p", None], ["q"] * 3])}
    if kind == VECTOR:
        return [rng.randrange(8) / 2, rng.randrange(8) / 2]
    if kind == DOUBLE:
        return rng.choice([NAN, 0.0, -0.0, 1.5, -2.25, float("inf"), 7.0])
    return rng.choice(TEXTS) if kind == TEXT else rng.randrange(20)


def _known(test: Callable[[Any], bool], name: str) -> Callable[[Values], Truth]:
    return lambda row: None if row[name] is None else test(row[name])


def _order(x: float) -> tuple[bool, float]:
    return (x != x, 0.0 if x != x else x)


def _simple(rng: random.Random, name: str, kind: pa.DataType, prefix: str) -> Condition:
    sql, k = f"{prefix}{quoted(name)}", rng.randrange(20)
    if kind == STRUCT:
        field_of = Condition(f"{sql}.a < {k}", lambda row: None if (row[name] or {}).get("a") is None else row[name]["a"] < k)
        return rng.choice([field_of, Condition(f"{sql} IS NULL", lambda row: row[name] is None)])
    if kind == VECTOR or kind in CARRIED or rng.random() < 0.15:
        wanted = rng.random() < 0.5
        return Condition(f"{sql} IS {'' if wanted else 'NOT '}NULL", lambda row: (row[name] is None) == wanted)
    if kind == DOUBLE:
        return rng.choice([
            Condition(f"{sql} > 1.25", _known(lambda x: _order(x) > _order(1.25), name)),
            Condition(f"{sql} <= 0", _known(lambda x: _order(x) <= _order(0.0), name)),
            Condition(f"{sql} = 0", _known(lambda x: x == 0, name)),
        ])  # fmt: skip
    if kind == TEXT:
        return rng.choice([
            Condition(f"{sql} LIKE 'a%'", _known(lambda s: s.startswith("a"), name)),
            Condition(f"{sql} = 'it''s'", _known(lambda s: s == "it's", name)),
            Condition(f"length({sql}) > 2", _known(lambda s: len(s) > 2, name)),
            Condition(f"{sql} IN ('a', 'b%', '')", _known(lambda s: s in ("a", "b%", ""), name)),
        ])  # fmt: skip
    return rng.choice([
        Condition(f"{sql} % 5 = {k % 5}", _known(lambda i: i % 5 == k % 5, name)),
        Condition(f"{sql} > {k}", _known(lambda i: i > k, name)),
        Condition(f"{sql} < {k}", _known(lambda i: i < k, name)),
        Condition(f"{sql} IN (1, {k}, {k + 30})", _known(lambda i: i in (1, k, k + 30), name)),
        Condition(f"{sql} BETWEEN {k} AND {k + 15}", _known(lambda i: k <= i <= k + 15, name)),
    ])  # fmt: skip


def _and(a: Truth, b: Truth) -> Truth:
    return False if a is False or b is False else None if a is None or b is None else True


def _not(a: Truth) -> Truth:
    return None if a is None else not a


def both(a: Condition, b: Condition) -> Condition:
    """Both conditions."""
    return Condition(f"({a.sql}) AND ({b.sql})", lambda row: _and(a.holds(row), b.holds(row)))


def condition(rng: random.Random, columns: Mapping[str, pa.DataType], prefix: str = "") -> Condition:
    """A condition on columns; `prefix` is the alias of the table with a dot."""
    a, b = (_simple(rng, name, columns[name], prefix) for name in rng.choices(list(columns), k=2))
    draw = rng.random()
    if draw < 0.2:
        return both(a, b)
    if draw < 0.35:
        return Condition(f"{a.sql} OR {b.sql}", lambda row: _not(_and(_not(a.holds(row)), _not(b.holds(row)))))
    if draw < 0.5:
        return Condition(f"NOT ({a.sql})", lambda row: _not(a.holds(row)))
    return a


def value(rng: random.Random, kind: pa.DataType, columns: Mapping[str, pa.DataType], prefix: str = "") -> Value:
    """A value for a column of this type, calculated from others of the row or constant."""
    same = [name for name, other in columns.items() if other == kind]
    options = [Value(f"CAST(NULL AS {DDL[kind]})", lambda row: None)]
    if same:
        name = rng.choice(same)
        sql = f"{prefix}{quoted(name)}"

        def known(of: Callable[[Any], Any]) -> Callable[[Values], Any]:
            return lambda row: None if row[name] is None else of(row[name])

        options += [Value(sql, lambda row: row[name])]
        if kind in (INT, LONG):
            options += [Value(f"{sql} + 1", known(lambda i: i + 1))] * 3
        elif kind == DOUBLE:
            options += [Value(f"{sql} * 2", known(lambda x: x * 2)), Value(f"-{sql}", known(lambda x: -x))]
        elif kind == TEXT:
            options += [Value(f"upper({sql})", known(str.upper)), Value(f"concat({sql}, '!')", known(lambda s: f"{s}!"))]
            options += [Value(f"coalesce({sql}, 'none')", lambda row: "none" if row[name] is None else row[name])]
        elif kind == VECTOR:
            options += [Value(f"reverse({sql})", known(lambda v: v[::-1]))]
    if kind in (INT, LONG):
        texts = [name for name, other in columns.items() if other == TEXT]
        options += [Value("7", lambda row: 7)]
        if texts and kind == INT:
            text = rng.choice(texts)
            options += [Value(f"length({prefix}{quoted(text)})", lambda row: None if row[text] is None else len(row[text]))]
    elif kind == DOUBLE:
        options += [Value("DOUBLE('NaN')", lambda row: NAN), Value("0.5D", lambda row: 0.5)]
    elif kind == TEXT:
        options += [Value("'new'", lambda row: "new")]
    elif kind == STRUCT:
        made = {"a": 5, "b": ["p", None]}
        options += [Value("named_struct('a', 5, 'b', array('p', NULL))", lambda row: made)] * 2
    elif kind == VECTOR:
        options += [Value("array(CAST(1 AS FLOAT), CAST(2 AS FLOAT))", lambda row: [1.0, 2.0])]
    return rng.choice(options)
