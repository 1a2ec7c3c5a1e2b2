"""`migrate`: give a table of an old storage version the one of new tables."""

from __future__ import annotations

from typing import Any

from lance_spark.actions.action import NOTED, Action, Job, Parameter, absent, noted
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.changes.migrate import STAGES, commit_migration, migrate
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions

_ABSENT = absent("Iceberg has them in CALL alone")
_OF_ICEBERG = tuple(
    Parameter(name, kind, "must be left out", says={"Dataset": _ABSENT, "LanceTable": _ABSENT, "command": _ABSENT, "statement": _ABSENT})
    for name, kind in {
        "properties": "map<string,string>",
        "drop_backup": "boolean",
        "backup_table_name": "string",
        "parallelism": "bigint",
        "ignore_missing_files": "boolean",
    }.items()
)
"""Arguments of Iceberg's procedure, which makes an Iceberg table of one of another format."""


def _asked(snapshot: Snapshot, **given: Any) -> WriteOptions:
    write = noted(given)
    if given:
        raise UnsupportedFeatureError(
            f"migrate is for lance tables of an old storage version, and has no {next(iter(given))}; for a table of another format write "
            "CREATE TABLE t USING lance AS SELECT * FROM it"
        )
    return write


def _run(runner: Runner, snapshot: Snapshot, asked: WriteOptions) -> Any:
    return migrate(runner, snapshot, asked)


ACTIONS = (
    Action(
        "migrate",
        "write a table of an old storage version anew in the one of new tables",
        {"version": "bigint", "storage_version": "string", "fragments": "bigint", "bytes_written": "bigint"},
        Job(_asked, STAGES, commit_migration, _run),
        (*_OF_ICEBERG, *NOTED),
        effect="keeps",
        methods={"Dataset": ("migrate",), "LanceTable": ("migrate",)},
        see="See [migration](versioning.md#migrate-old-tables).",
    ),
)
