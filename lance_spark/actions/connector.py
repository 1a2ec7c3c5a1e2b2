"""The rows of SHOW statements with the columns that the JVM connector returns: times are in seconds since 1970."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from lance_spark.actions.action import Action
from lance_spark.actions.indexes import COVERAGE, statistics
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import Snapshot

Rows = Iterable[Sequence[Any]]


def _indexes(snapshot: Snapshot) -> Rows:
    rows = statistics(snapshot)
    return [(name, fields, kind.lower(), *coverage) for name, fields, kind, *coverage in rows]


def _branches(snapshot: Snapshot) -> Rows:
    found = refs.branches(snapshot.root)
    return [(b.name, b.parent_branch, b.parent_version, b.created_at, b.manifest_size or 0) for _, b in sorted(found.items())]


def _tags(snapshot: Snapshot) -> Rows:
    found = refs.tags(snapshot.root)
    return [
        (t.name, t.branch, t.version, _seconds(t.created_at), _seconds(t.updated_at), t.manifest_size or 0)
        for _, t in sorted(found.items())
    ]


def _seconds(time: str | None) -> int | None:
    return None if time is None else int(datetime.fromisoformat(time).timestamp())


_SEE = "See [statements](statements.md)."
ACTIONS = (
    Action(
        "show_indexes",
        "list what indexes cover, as SHOW INDEXES",
        {"name": "string", "fields": "array<string>", "index_type": "string", **COVERAGE},
        _indexes,
        command=None,
        see=_SEE,
    ),
    Action(
        "show_branches",
        "list the branches, as SHOW BRANCHES",
        {
            "name": "string NOT NULL",
            "parent_branch": "string",
            "parent_version": "bigint NOT NULL",
            "created_at": "bigint NOT NULL",
            "manifest_size": "int NOT NULL",
        },
        _branches,
        command=None,
        see=_SEE,
    ),
    Action(
        "show_tags",
        "list the tags, as SHOW TAGS",
        {
            "name": "string NOT NULL",
            "branch": "string",
            "version": "bigint NOT NULL",
            "created_at": "bigint",
            "updated_at": "bigint",
            "manifest_size": "int NOT NULL",
        },
        _tags,
        command=None,
        see=_SEE,
    ),
)
"""A `manifest_size` that its writer left out is 0."""
