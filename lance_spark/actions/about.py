"""What a table is: its versions and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lance_spark.actions.action import Action, Command, Outcome, Parameter, Said
from lance_spark.errors import one_line
from lance_spark.table.compaction.clustered import Clustered
from lance_spark.table.versions.history import History, history
from lance_spark.table.versions.snapshot import Snapshot, to_datetime


def _history(snapshot: Snapshot, limit: int | None = None) -> History:
    return history(snapshot.store, limit)


def _history_told(outcome: Outcome) -> str:
    entries: History = outcome.value
    return str(entries.table(len(entries)))


def _detail(snapshot: Snapshot) -> Iterable[Sequence[Any]]:
    manifest = snapshot.manifest
    files = [file for fragment in manifest.fragments for file in fragment.files]
    size = sum(file.size or 0 for file in files)
    columns = list(Clustered.in_config(manifest.config).columns)
    figures = (len(files), size, manifest.num_rows, snapshot.version)
    properties = {key: one_line(value) for key, value in manifest.config.items()}
    modified = to_datetime(manifest.timestamp)
    yield ("lance", snapshot.root.uri, modified, [], columns, *figures, properties)


ACTIONS = (
    Action(
        "history",
        "list existing versions, newest first, each with its time, operation, properties and commit message",
        {
            "version": "bigint",
            "timestamp": "timestamp",
            "operation": "string",
            "message": "string",
            "properties": "map<string,string>",
        },
        _history,
        (
            Parameter(
                "limit",
                "bigint",
                "the most versions",
                least=1,
                says={"command": Said("a terminal shows so many lines", default=100)},
            ),
        ),
        methods={"Dataset": ("history",), "LanceTable": ("history",)},
        command=Command(told=_history_told, plain=lambda outcome: outcome.value),
    ),
    Action(
        "detail",
        "tell the location, files, bytes, rows, version and properties",
        {
            "format": "string",
            "location": "string",
            "lastModified": "timestamp",
            "partitionColumns": "array<string>",
            "clusteringColumns": "array<string>",
            "numFiles": "bigint",
            "sizeInBytes": "bigint",
            "numRows": "bigint",
            "version": "bigint",
            "properties": "map<string,string>",
        },
        _detail,
        # The command info tells more.
        command=None,
    ),
)
