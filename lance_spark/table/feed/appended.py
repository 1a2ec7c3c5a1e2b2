"""What a commit means to a stream of rows: the fragments that it has added, or that it has changed or deleted rows."""

from __future__ import annotations

import numpy as np

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.operations import (
    Append,
    CreateIndex,
    Delete,
    Merge,
    Overwrite,
    Project,
    ReserveFragments,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
)
from lance_spark.table.feed.differences import touched
from lance_spark.table.feed.options import FeedOptions
from lance_spark.table.versions.history import operation_of
from lance_spark.table.versions.snapshot import Snapshot

_WITHOUT_ROWS = (CreateIndex, Merge, Project, ReserveFragments, Rewrite, UpdateBases, UpdateConfig, UpdateMemWalState)
"""Operations that move rows and change columns, but neither add, change nor delete rows."""


def appended(before: Snapshot | None, after: Snapshot, options: FeedOptions) -> np.ndarray:
    """The places in the manifest of the fragments that a commit has added; none of a commit that the options leave out.

    Raises UnsupportedFeatureError if the commit has changed or deleted rows.
    """
    ids, none = after.manifest.lazy_fragments.ids, np.empty(0, np.int64)
    operation = operation_of(after)
    if before is None:
        return np.flatnonzero(ids >= 0)
    if isinstance(operation, _WITHOUT_ROWS):
        return none
    there = before.manifest.lazy_fragments.ids
    if isinstance(operation, Append):
        return np.flatnonzero(~np.isin(ids, there))
    deletes_only = False
    if isinstance(operation, Delete | Update | Overwrite):
        found = touched(before, after, operation)
        came = np.array([part.fragment.id for part in found.came], np.int64)
        if not found.left and not found.updated and not np.isin(came, there).any():
            return np.flatnonzero(np.isin(ids, came))
        deletes_only = not found.came and not found.updated
    if options.skip_change_commits or (deletes_only and options.ignore_deletes):
        return none
    did = "deleted" if deletes_only else "changed or deleted"
    raise UnsupportedFeatureError(
        f"{after}: the commit ({type(operation).__name__}) has {did} rows, which a stream of rows cannot take back. "
        "Start the stream again with the option skipChangeCommits=true, which leaves out such commits, or ignoreDeletes=true, which "
        "leaves out those that only delete; or read the changes, with readChangeFeed=true and a new checkpoint"
    )
