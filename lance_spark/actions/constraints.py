"""Constraints: the primary key, NOT NULL and CHECK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance_spark.actions.action import NOTED, REQUIRED, Action, Command, Parameter, noted
from lance_spark.display.words import printable
from lance_spark.table.changes import alter
from lance_spark.table.versions.snapshot import Snapshot

_Version = list[tuple[int]]


def set_primary_key(snapshot: Snapshot, columns: Sequence[str], **given: Any) -> _Version:
    """The row of `set_primary_key`."""
    return [(alter.set_primary_key(snapshot, columns, noted(given).noted).version,)]


def set_not_null(snapshot: Snapshot, columns: Sequence[str], **given: Any) -> _Version:
    """The row of `set_not_null`."""
    alterations: list[alter.AlterColumn] = [{"path": c, "nullable": False} for c in columns]
    return [(alter.alter_columns(snapshot, alterations, noted(given)).version,)]


def add_constraint(snapshot: Snapshot, name: str, condition: str, **given: Any) -> _Version:
    """The row of `add_constraint`."""
    return [(alter.add_constraint(snapshot, name, condition, noted(given).noted).version,)]


def drop_constraint(snapshot: Snapshot, name: str, if_exists: bool = False, **given: Any) -> _Version:
    """The row of `drop_constraint`."""
    return [(alter.drop_constraint(snapshot, name, if_exists, noted(given).noted).version,)]


_COLUMNS = Parameter("columns", "array<string>", "the columns", REQUIRED)
_NAME = Parameter("name", "string", "the name of the constraint", REQUIRED)
_SEE = "See [constraints](statements.md#constraints)."
ACTIONS = (
    Action(
        "set_primary_key",
        "declare the columns that identify rows",
        {"version": "bigint"},
        set_primary_key,
        (_COLUMNS, *NOTED),
        effect="keeps",
        methods={"LanceTable": ("setPrimaryKey",)},
        see="The key is declared once; see [merge](verbs/merge.md).",
    ),
    Action(
        "set_not_null",
        "forbid nulls in columns that have none",
        {"version": "bigint"},
        set_not_null,
        (_COLUMNS, *NOTED),
        effect="columns",
        see=_SEE,
    ),
    Action(
        "add_constraint",
        "declare a condition that no row may fail",
        {"version": "bigint"},
        add_constraint,
        (
            _NAME,
            Parameter("condition", "string", "a condition of Spark's SQL on the columns", REQUIRED),
            *NOTED,
        ),
        effect="keeps",
        command=Command("constraints add"),
        see=_SEE,
    ),
    Action(
        "drop_constraint",
        "remove a constraint",
        {"version": "bigint"},
        drop_constraint,
        (_NAME, Parameter("if_exists", "boolean", "do nothing if there is none", False), *NOTED),
        effect="keeps",
        command=Command(
            "constraints drop",
            question=lambda snapshot, given: printable(f"Drop the constraint {given['name']}?"),
        ),
        see=_SEE,
    ),
)
