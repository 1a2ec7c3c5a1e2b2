"""`migrate`: give a table of an old storage version the one of new tables."""

from __future__ import annotations

from typing import Any

from lance_spark.actions.action import NOTED, Action, Job, noted
from lance_spark.table.changes.migrate import STAGES, commit_migration, migrate
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions


def _asked(snapshot: Snapshot, **given: Any) -> WriteOptions:
    return noted(given)


def _run(runner: Runner, snapshot: Snapshot, asked: WriteOptions) -> Any:
    return migrate(runner, snapshot, asked)


ACTIONS = (
    Action(
        "migrate",
        "write a table of an old storage version anew in the one of new tables",
        {"version": "bigint", "storage_version": "string", "fragments": "bigint", "bytes_written": "bigint"},
        Job(_asked, STAGES, commit_migration, _run),
        NOTED,
        effect="keeps",
        methods={"Dataset": ("migrate",), "LanceTable": ("migrate",)},
        see="See [migration](versioning.md#migrate-old-tables).",
    ),
)
