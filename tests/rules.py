"""The rules of written rows as cases: a column that has the rule, what a row gives it, and what the table has then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lance_spark import Dataset
from lance_spark.errors import TableNotFoundError
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.table.changes import alter

if TYPE_CHECKING:
    from tests.doors import Door, Place

Kind = Literal["inserted", "updated", "values", "created", "added", "retyped"]
"""How a door writes: whole new rows, new values in rows that it moves, or new values of some columns of rows that stay in place; or it
creates the table with rows, whose columns say what is declared, adds the columns, or gives those that the table has their types."""
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

    @property
    def names(self) -> tuple[str, str]:
        """What a door may be without: the case, or its rule."""
        return self.name, self.rule

    def __str__(self) -> str:
        return self.name


def _computed(text: str) -> dict[str, str]:
    return {"lance-spark:generated": text}


IDENTITY = {"lance-spark:identity": '{"start": 5, "step": 5, "always": true}'}


def _default(text: str) -> dict[str, str]:
    return {"CURRENT_DEFAULT": text, "EXISTS_DEFAULT": "NULL"}


_INSERTS: tuple[Kind, ...] = ("inserted",)
_WITH_NEW: tuple[Kind, ...] = (*ALL, "created", "added")
_TEXT, _INT, _LONG, _SHORT = pa.string(), pa.int32(), pa.int64(), pa.int16()
_VECTOR, _BLOB = pa.list_(pa.float32(), 2), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
_NULL = "is not nullable|must not be nullable|NOT_NULL_ASSERT_VIOLATION"
_LACKING = f"{_NULL}|requires it|CANNOT_FIND_DATA|No assignment for|must assign"
CASES: tuple[Rule, ...] = (
    Rule("match", "a name in another case", pa.field("match", _INT), 3, 3, 0, given_name="MATCH"),
    Rule("match", "a column that the table lacks", pa.field("known", _INT), 3, given_name="unknown", error="(?i)unknown"),
    Rule(
        "match",
        "a new column that the table has",
        pa.field("match", _INT),
        3,
        given_name="HELD",
        beside=pa.field("held", _INT),
        error="already has",
        kinds=("added",),
    ),
    Rule("default", "a text", pa.field("d", _TEXT, metadata=_default("'it''s'")), LACKS, "it's", "old", kinds=_INSERTS),
    Rule("default", "a number", pa.field("e", _LONG, metadata=_default("7")), LACKS, 7, 0, kinds=_INSERTS),
    Rule("default", "a list", pa.field("l", pa.list_(_INT), metadata=_default("ARRAY(1, 2)")), LACKS, [1, 2], [0], kinds=_INSERTS),
    Rule("default", "NOT NULL", pa.field("f", _INT, False, _default("8")), LACKS, 8, 0, kinds=_INSERTS),
    Rule("default", "a CHAR", pa.field("g", _TEXT, metadata={**_default("'x'"), DECLARED: "char(3)"}), LACKS, "x  ", "old", kinds=_INSERTS),
    Rule("default", "a stranger's", pa.field("h", _TEXT, metadata=_default("reflect('a', 'b')")), LACKS, None, "old", kinds=_INSERTS),
    Rule("default", "a given null", pa.field("n", _TEXT, metadata=_default("'dd'")), None, None, "old", kinds=(*ALL, "created")),
    Rule("generate", "a computed column", pa.field("gc", _INT, metadata=_computed("id * 2")), LACKS, 2 * NEW, 2 * OLD, kinds=_INSERTS),
    Rule("generate", "an identity", pa.field("gi", _LONG, metadata=IDENTITY), LACKS, 10, None, kinds=_INSERTS),
    Rule(
        "generate",
        "another value than the computed one",
        pa.field("go", _INT, metadata=_computed("id * 2")),
        7,
        old=2 * OLD,
        error="GENERATED",
    ),
    Rule("generate", "a number of an identity", pa.field("gn", _LONG, metadata=IDENTITY), 7, error="GENERATED", kinds=_INSERTS),
    Rule("cast", "a number that fits", pa.field("w", _LONG), 3, 3, 0, given_type=_INT, kinds=(*ALL, "added", "retyped")),
    Rule(
        "cast",
        "a number that is too large",
        pa.field("s", _SHORT),
        70_000,
        given_type=_INT,
        old=0,
        error="does not fit|CAST_OVERFLOW|wider only",
        kinds=(*ALL, "added", "retyped"),
    ),
    Rule(
        "cast",
        "a vector",
        pa.field("v", _VECTOR),
        [1.0, 2.0],
        [1.0, 2.0],
        [0.0, 0.0],
        given_type=pa.list_(pa.float32()),
        kinds=("inserted", "added"),
    ),
    Rule(
        "cast",
        "a vector of another size",
        pa.field("v", _VECTOR),
        [1.0],
        given_type=pa.list_(pa.float32()),
        error="has 1 items; expected 2",
        kinds=("inserted", "added"),
    ),
    Rule("cast", "a blob", _BLOB, b"xyz", b"xyz", b"old", given_type=pa.binary(), kinds=("inserted", "added")),
    Rule("length", "CHAR pads", pa.field("c", _TEXT, metadata={DECLARED: "char(3)"}), "a", "a  ", "old", kinds=_WITH_NEW),
    Rule(
        "length",
        "CHAR that is too long",
        pa.field("c", _TEXT, metadata={DECLARED: "char(3)"}),
        "long",
        error=r"(?i)exceeds.*\b3\b|char\(3\)",
        old="old",
        kinds=(*_WITH_NEW, "retyped"),
    ),
    Rule(
        "length",
        "VARCHAR that is too long",
        pa.field("c", _TEXT, metadata={DECLARED: "varchar(3)"}),
        "long",
        error=r"(?i)exceeds.*\b3\b|varchar\(3\)",
        old="old",
        kinds=(*_WITH_NEW, "retyped"),
    ),
    Rule("not null", "a null", pa.field("q", _INT, False), None, error=_NULL, old=0, kinds=(*ALL, "created")),
    Rule("not null", "a missing column", pa.field("q", _INT, False), LACKS, error=_LACKING, old=0, kinds=_INSERTS),
    Rule("not null", "a null in a primary key", pa.field("p", _INT, False, KEY), None, error=_NULL, old=0, kinds=(*ALL, "created")),
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
    Rule(
        "within",
        "a row outside of replaceWhere",
        pa.field("k", _INT),
        3,
        error="condition of replaceWhere|does not satisfy",
        old=1,
        id=-1,
        kinds=_INSERTS,
    ),
)
TYPES = {case.column.name: case.column.type for case in CASES}
"""The types of the columns. What else is declared depends on the case."""
ACCEPTED = tuple(case for case in CASES if case.error is None)
REFUSED = tuple(case for case in CASES if case.error is not None)


def applies(door: Door, case: Rule) -> bool:
    """Whether the case is one for the door."""
    if case.rule == "within":
        return "replaceWhere" in door.name
    return door.kind in case.kinds and not any(name in door.without for name in case.names)


def make(place: Place, cases: Sequence[Rule], door: Door) -> None:
    """Make what the door writes to: a table, a declared one, or a partitioned namespace; nothing if the door creates the table itself."""
    uri = place.uri
    if door.kind == "created":
        return
    fields, old = [pa.field("id", _INT)], {"id": [OLD]}
    for case in cases:
        if door.kind == "retyped":
            fields.append(pa.field(case.column.name, case.given_type or case.column.type))
            old[case.column.name] = [case.given]
        elif door.kind != "added":
            fields.append(case.column)
            old[case.column.name] = [case.old]
        if case.beside is not None:
            fields.append(case.beside)
            old[case.beside.name] = [5]
    if door.declare is not None:
        door.declare(place, pa.schema(fields))
        return
    data = pa.table(old, schema=pa.schema(fields))
    if door.partitioned:
        PartitionedNamespace.create(uri, data.schema, ["id"]).write(data)
        return
    Dataset.write(uri, data)
    for name, condition in [check for case in cases for check in case.checks.items()]:
        alter.add_constraint(Dataset.open(uri).snapshot, name, condition)


def rows_at(uri: str, door: Door) -> list[dict[str, Any]]:
    """The rows of the table or namespace; none if there is none."""
    try:
        opened = PartitionedNamespace.open(uri) if door.partitioned else Dataset.open(uri, mem_wal="base")
    except TableNotFoundError:
        return []
    rows: list[dict[str, Any]] = opened.scan(blob_handling="bytes").to_table().to_pylist()
    return rows


def rows_of(cases: Iterable[Rule], kind: Kind) -> pa.Table:
    """The row that a door writes: the first column is its id. The columns of a new table, and new columns, say what is declared."""
    fields, given, ids = [pa.field("id", _INT)], [], []
    for case in cases:
        ids.append(case.id if kind in ("inserted", "created") else OLD)
        if case.given is not LACKS:
            t, name = case.given_type or case.column.type, case.given_name or case.column.name
            fields.append(case.column.with_type(t).with_name(name) if kind in ("created", "added", "retyped") else pa.field(name, t))
            given.append(pa.array([case.given], t))
        if case.beside is not None and kind == "inserted":
            fields.append(case.beside)
            given.append(pa.array([5], case.beside.type))
    return pa.table([pa.array(ids[:1], _INT), *given], schema=pa.schema(fields))


def written_row(uri: str, door: Door) -> dict[str, Any]:
    """The row that a door has written, which must have left the others that it leaves."""
    rows = rows_at(uri, door)
    assert len(rows) == (2 if door.kind == "inserted" and not door.overwrites else 1)
    [row] = [row for row in rows if row["id"] == (NEW if door.kind in ("inserted", "created") else OLD)]
    return row
