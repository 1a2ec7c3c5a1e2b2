"""The rules of written rows as cases: a column that has the rule, what a row gives it, and what the table has then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lance_spark import Dataset
from lance_spark.table.changes import alter

if TYPE_CHECKING:
    from tests.doors import Door

Kind = Literal["inserted", "updated", "values"]
"""How a door writes: whole new rows, new values in rows that it moves, or new values of some columns of rows that stay in place."""
ALL: tuple[Kind, ...] = ("inserted", "updated", "values")
DECLARED = "lance-spark:declared-type"
LACKS = object()
"""The row does not have the column."""
KEY = {"lance-schema:unenforced-primary-key": "true"}
OLD, NEW = 1, 2
"""The ids of the row that the table has, and of the row that a door inserts."""


@dataclass(frozen=True)
class Rule:
    """A case of the rule `rule`: `old` is the value that the table has before; `error` is what a refusal says, if it must be refused."""

    rule: str
    name: str
    column: pa.Field
    given: Any
    expected: Any = None
    old: Any = None
    error: str | None = None
    given_type: pa.DataType | None = None
    given_name: str | None = None
    kinds: tuple[Kind, ...] = ALL
    checks: Mapping[str, str] = field(default_factory=dict)
    """The CHECK constraints of the table, by name."""
    beside: pa.Field | None = None
    """Another column, which has the value 5, and which rows that are updated keep."""
    id: int = NEW

    def __str__(self) -> str:
        return self.name


def _default(text: str) -> dict[str, str]:
    return {"CURRENT_DEFAULT": text, "EXISTS_DEFAULT": "NULL"}


_INSERTS: tuple[Kind, ...] = ("inserted",)
_TEXT, _INT, _LONG, _SHORT = pa.string(), pa.int32(), pa.int64(), pa.int16()
_VECTOR, _BLOB = pa.list_(pa.float32(), 2), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
CASES: tuple[Rule, ...] = (
    Rule("match", "a name in another case", pa.field("match", _INT), 3, 3, 0, given_name="MATCH"),
    Rule("match", "a column that the table lacks", pa.field("known", _INT), 3, given_name="unknown", error="unknown|UNKNOWN"),
    Rule("default", "a text", pa.field("d", _TEXT, metadata=_default("'it''s'")), LACKS, "it's", "old", kinds=_INSERTS),
    Rule("default", "a number", pa.field("e", _LONG, metadata=_default("7")), LACKS, 7, 0, kinds=_INSERTS),
    Rule("default", "a list", pa.field("l", pa.list_(_INT), metadata=_default("ARRAY(1, 2)")), LACKS, [1, 2], [0], kinds=_INSERTS),
    Rule("default", "NOT NULL", pa.field("f", _INT, False, _default("8")), LACKS, 8, 0, kinds=_INSERTS),
    Rule("default", "a CHAR", pa.field("g", _TEXT, metadata={**_default("'x'"), DECLARED: "char(3)"}), LACKS, "x  ", "old", kinds=_INSERTS),
    Rule("default", "a stranger's", pa.field("h", _TEXT, metadata=_default("reflect('a', 'b')")), LACKS, None, "old", kinds=_INSERTS),
    Rule("default", "a given null", pa.field("n", _TEXT, metadata=_default("'dd'")), None, None, "old"),
    Rule("cast", "a number that fits", pa.field("w", _LONG), 3, 3, 0, given_type=_INT),
    Rule("cast", "a number that is too large", pa.field("s", _SHORT), 70_000, given_type=_INT, old=0, error="s|OVERFLOW"),
    Rule("cast", "a vector", pa.field("v", _VECTOR), [1.0, 2.0], [1.0, 2.0], [0.0, 0.0], given_type=pa.list_(pa.float32()), kinds=_INSERTS),
    Rule("cast", "a vector of another size", pa.field("v", _VECTOR), [1.0], given_type=pa.list_(pa.float32()), error="2", kinds=_INSERTS),
    Rule("cast", "a blob", _BLOB, b"xyz", b"xyz", b"old", given_type=pa.binary(), kinds=_INSERTS),
    Rule("length", "CHAR pads", pa.field("c", _TEXT, metadata={DECLARED: "char(3)"}), "a", "a  ", "old"),
    Rule("length", "CHAR that is too long", pa.field("c", _TEXT, metadata={DECLARED: "char(3)"}), "long", error="3|LIMIT", old="old"),
    Rule("length", "VARCHAR that is too long", pa.field("c", _TEXT, metadata={DECLARED: "varchar(3)"}), "long", error="3|LIMIT", old="old"),
    Rule("not null", "a null", pa.field("q", _INT, False), None, error="q|NULL|null", old=0),
    Rule("not null", "a missing column", pa.field("q", _INT, False), LACKS, error="q|NULL|null", old=0, kinds=_INSERTS),
    Rule("not null", "a null in a primary key", pa.field("p", _INT, False, KEY), None, error="p|NULL|null", old=0),
    Rule("check", "a row that satisfies it", pa.field("k", _INT), 3, 3, 1, checks={"positive": "k > 0"}),
    Rule("check", "a row that fails it", pa.field("k", _INT), 0, error="positive", old=1, checks={"positive": "k > 0"}),
    Rule(
        "check",
        "a row that fails it by another column",
        pa.field("x", _INT),
        6,
        error="ordered",
        old=1,
        checks={"ordered": "x < y"},
        beside=pa.field("y", _INT),
    ),
    Rule("within", "a row outside of replaceWhere", pa.field("k", _INT), 3, error="replaceWhere|condition", old=1, id=-1, kinds=_INSERTS),
)
ACCEPTED = tuple(case for case in CASES if case.error is None)
REFUSED = tuple(case for case in CASES if case.error is not None)


def applies(door: Door, case: Rule) -> bool:
    """Whether the case is one for the door."""
    if case.rule == "within":
        return "replaceWhere" in door.name
    return door.kind in case.kinds and case.name not in door.without


def table_of(uri: str, cases: Sequence[Rule]) -> Dataset:
    """A table with the columns of some cases, and one row."""
    fields, old = [pa.field("id", _INT)], {"id": [OLD]}
    for case in cases:
        fields.append(case.column)
        old[case.column.name] = [case.old]
        if case.beside is not None:
            fields.append(case.beside)
            old[case.beside.name] = [5]
    data = pa.table(old, schema=pa.schema(fields))
    Dataset.write(uri, data)
    for name, condition in [check for case in cases for check in case.checks.items()]:
        alter.add_constraint(Dataset.open(uri).snapshot, name, condition)
    return Dataset.open(uri)


def rows_of(cases: Iterable[Rule], kind: Kind) -> pa.Table:
    """The row that a door writes: the first column is its id."""
    given: dict[str, pa.Array] = {}
    ids = []
    for case in cases:
        ids.append(OLD if kind != "inserted" else case.id)
        if case.given is not LACKS:
            t = case.given_type or case.column.type
            given[case.given_name or case.column.name] = pa.array([case.given], t)
        if case.beside is not None and kind == "inserted":
            given[case.beside.name] = pa.array([5], case.beside.type)
    return pa.table({"id": pa.array(ids[:1], _INT), **given})
