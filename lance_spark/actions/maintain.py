"""`maintain`: a table looks after itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lance_spark.actions.action import Action, Command, Given, Outcome, Parameter
from lance_spark.actions.cleanup import CLEANUP
from lance_spark.actions.compact import TARGET_ROWS
from lance_spark.table.scan.runner import Here
from lance_spark.table.upkeep.maintain import Maintenance, MaintenanceStep, Upkeep, maintain
from lance_spark.table.upkeep.steps import cleanups
from lance_spark.table.versions.snapshot import Snapshot


def _maintain(snapshot: Snapshot, **given: Any) -> Maintenance:
    return maintain(Here(), snapshot, Upkeep(**given))


def _rows(steps: Maintenance) -> Iterable[MaintenanceStep]:
    return steps


def _question(snapshot: Snapshot, given: Given) -> str | None:
    """What is asked before old versions are removed, as by `cleanup`."""
    upkeep = Upkeep(**given)
    steps = () if upkeep.dry_run else cleanups(snapshot, upkeep.cleanup)
    return next((f"Remove {step.what} of {snapshot.store.uri}?" for step in steps), None)


def _told(outcome: Outcome) -> str:
    return str(outcome.value) if outcome.value else "nothing to do"


_COLUMNS = {
    "action": "string",
    "what": "string",
    "why": "string",
    "bytes_to_rewrite": "bigint",
    "expected_gain": "bigint",
    "outcome": "string",
    "bytes_rewritten": "bigint",
    "gain": "bigint",
    "milliseconds": "bigint",
    "version": "bigint",
}
MAINTAIN = Action(
    "maintain",
    "do what a table needs, what gains most for each byte first, within a budget",
    _COLUMNS,
    _maintain,
    (
        Parameter("budget_bytes", "bigint", "the most bytes that are rewritten", least=0),
        Parameter("budget_seconds", "double", "no step begins after so many seconds"),
        CLEANUP.parameter("older_than"),
        CLEANUP.parameter("retain_versions"),
        TARGET_ROWS,
        Parameter("filter_log", "string", "a log of filters, of which indexes and columns to cluster by are recommended"),
        Parameter("apply_recommendations", "boolean", "make what is recommended", False),
        Parameter("dry_run", "boolean", "tell what would be done, without doing it", False),
    ),
    effect="rows",
    methods={"Dataset": ("maintain",), "LanceTable": ("maintain",)},
    command=Command(
        about="Small fragments, deleted rows, clustering, indexes, the write-ahead log and old versions are looked at.",
        question=_question,
        told=_told,
    ),
    as_rows=_rows,
    see="See [maintenance](maintenance.md#a-table-that-looks-after-itself).",
)
ACTIONS = (MAINTAIN,)
