"""Operations that Delta Lake has and no other: those of its statements."""

from __future__ import annotations

from lance_spark.actions.action import REQUIRED, Action, Parameter
from lance_spark.table.changes import identity
from lance_spark.table.versions.snapshot import Snapshot


def sync_identity(snapshot: Snapshot, column: str) -> list[tuple[int]]:
    """The row of `sync_identity`: the next number."""
    return [(identity.sync_identity(snapshot, column),)]


ACTIONS = (
    Action(
        "sync_identity",
        "let the next numbers of an identity column come after those that the table has",
        {"next": "bigint"},
        sync_identity,
        (Parameter("column", "string", "the column", REQUIRED),),
        effect="keeps",
        command=None,
        see="See [GENERATED columns](statements.md#generated-columns).",
    ),
)
