"""`add_bases`: register base paths of a table."""

from __future__ import annotations

from typing import Any

from lance_spark.actions.action import NOTED, REQUIRED, Action, Parameter, noted
from lance_spark.errors import InvalidOptionError
from lance_spark.options.values import bases
from lance_spark.table.changes import add_bases as changes
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.bases import given_bases


def add_bases(snapshot: Snapshot, new_bases: str, **given: Any) -> list[tuple[int]]:
    """The row of `add_bases`."""
    try:
        asked = bases(new_bases)
    except ValueError as e:
        raise InvalidOptionError(f"new_bases takes {e}, not {new_bases!r}") from None
    return [(changes.add_bases(snapshot, given_bases(asked), noted(given).noted).version,)]


ACTIONS = (
    Action(
        "add_bases",
        "register base paths, to which data files can be written from then on",
        {"version": "bigint"},
        add_bases,
        (
            Parameter(
                "new_bases",
                "string",
                "a JSON list of objects with path, and optionally name, is_dataset_root and id",
                REQUIRED,
            ),
            *NOTED,
        ),
        effect="keeps",
        methods={"Dataset": ("add_bases",), "LanceTable": ("addBases",)},
        see="See [base paths](base-paths.md).",
    ),
)
