"""The rows of SHOW statements with the columns that the JVM connector returns: times are in seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lance_spark.spark.catalog.procedures import PROCEDURES, Procedure, Rows
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import Snapshot

_COVERAGE = "num_indexed_fragments bigint, num_indexed_rows bigint, num_unindexed_fragments bigint, num_unindexed_rows bigint"


def _indexes(snapshot: Snapshot) -> Rows:
    work = PROCEDURES["index_statistics"].work
    assert callable(work)
    return [(name, fields, kind.lower(), *coverage) for name, fields, kind, *coverage in work(snapshot)]


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


SHOWN: Mapping[str, Procedure] = {
    "show_indexes": Procedure(f"name string, fields array<string>, index_type string, {_COVERAGE}", _indexes),
    "show_branches": Procedure(
        "name string NOT NULL, parent_branch string, parent_version bigint NOT NULL, created_at bigint NOT NULL, "
        "manifest_size int NOT NULL",
        _branches,
    ),
    "show_tags": Procedure(
        "name string NOT NULL, branch string, version bigint NOT NULL, created_at bigint, updated_at bigint, manifest_size int NOT NULL",
        _tags,
    ),
}
"""By name. A `manifest_size` that its writer left out is 0."""
