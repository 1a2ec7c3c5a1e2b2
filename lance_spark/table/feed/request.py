"""The changes that the options of a read ask for."""

from __future__ import annotations

from dataclasses import replace

from lance_spark.errors import InvalidOptionError
from lance_spark.table.feed.changes import Changes, changes
from lance_spark.table.feed.options import FeedOptions
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import Snapshot, version_since


def feed(snapshot: Snapshot, plan: ScanPlan, filter: str | None, begin: int, options: FeedOptions) -> Changes:
    """The changes after the version `begin`, up to that of `snapshot`, in the columns of `plan`."""
    found = changes(snapshot, begin, plan.columns, filter, options.net, plan.blob_handling)
    return replace(found, plan=plan, updates=options.updates)


def begin_of(snapshot: Snapshot, options: FeedOptions) -> int:
    """The version before the first one whose changes a batch reads, up to that of `snapshot`.

    Raises InvalidOptionError if the options describe no range of versions.
    """
    options.check_batch()
    start = options.starting_version
    if options.starting_timestamp is not None:
        start = version_since(snapshot.store, options.starting_timestamp)
        start = snapshot.version + 1 if start is None else start
    assert isinstance(start, int), "checked before"
    # A job that reads what is new since its last run may find nothing.
    if start > snapshot.version + 1:
        raise InvalidOptionError(f"{snapshot}: the changes begin with version {start}, after the last version to be read")
    # Tables of Delta Lake begin with version 0, ours with version 1.
    return max(start - 1, 0)
