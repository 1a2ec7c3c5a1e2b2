"""The options of change feeds and of streams that read a table.

Names and meanings are those of Delta Lake, where it has them. Parsers and docs/options.md come from
the fields of `FeedOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from lance_spark.errors import InvalidOptionError
from lance_spark.options.field import NotWith, changed, option, used

LATEST = "latest"


@dataclass(frozen=True)
class FeedOptions:
    """Which changes are read, and how a stream reads a table. None: not given."""

    changes: bool = option(
        False,
        "flag",
        "`true` reads changes instead of rows (see [change feed](change-feed.md)).",
        name="readChangeFeed",
        not_with=(
            NotWith(("version", "tag", "timestamp"), because="startingVersion and endingVersion choose the changes"),
            NotWith(("fullTextQuery", "hybrid", "nearest"), because="changes cannot be searched"),
            NotWith(("fragments",), because="changes are those of all fragments"),
            NotWith(("limit",), because="limit the DataFrame"),
        ),
    )
    starting_version: int | str | None = option(
        None,
        "count",
        "The first version that is read; `latest`, in a stream: only what comes after the latest version.",
        name="startingVersion",
        words=(LATEST,),
    )
    starting_timestamp: datetime | None = option(
        None,
        "moment",
        "As `startingVersion`: the first version at this time, in ISO 8601, or after it.",
        name="startingTimestamp",
    )
    ending_version: int | None = option(
        None,
        "count",
        "The last version whose changes are read (default: the latest).",
        name="endingVersion",
        use=("batch",),
    )
    ending_timestamp: datetime | None = option(
        None,
        "moment",
        "As `endingVersion`: the last version at this time, in ISO 8601, or before it.",
        name="endingTimestamp",
        use=("batch",),
    )
    net: bool = option(
        False,
        "flag",
        "`true` reads one change for each row, over all versions.",
        name="netChanges",
        use=("batch",),
    )
    updates: bool = option(
        True,
        "flag",
        "`false` reads an update as the delete of the row before it and the insert of the row after it (default: `true`).",
        name="computeUpdates",
    )
    max_files: int | None = option(
        None,
        "count",
        "At most so many fragments in one batch of a stream, but at least one.",
        name="maxFilesPerTrigger",
        least=1,
        use=("stream",),
    )
    max_bytes: int | None = option(
        None,
        "count",
        "As `maxFilesPerTrigger`: at most so many bytes of data files.",
        name="maxBytesPerTrigger",
        least=1,
        use=("stream",),
    )
    max_rows: int | None = option(
        None,
        "count",
        "As `maxFilesPerTrigger`: at most so many rows.",
        name="maxRowsPerTrigger",
        least=1,
        use=("stream",),
    )
    skip_change_commits: bool = option(
        False,
        "flag",
        "`true`: a stream leaves out commits that change or delete rows.",
        name="skipChangeCommits",
        use=("stream",),
    )
    ignore_deletes: bool = option(
        False,
        "flag",
        "`true`: a stream leaves out commits that only delete rows.",
        name="ignoreDeletes",
        use=("stream",),
    )
    fail_on_data_loss: bool = option(
        True,
        "flag",
        "`false`: a stream goes on after versions that were removed before it read them.",
        name="failOnDataLoss",
        use=("stream",),
    )
    consumer: str | None = option(
        None,
        "new tag",
        "A stream records its place with the table under this name, and cleanups keep the versions that it needs.",
        name="consumerId",
        use=("stream",),
    )
    consumer_expiration: timedelta = option(
        timedelta(days=30),
        "duration",
        "Cleanups no longer respect the place of a `consumerId` that has not been seen for so long (default: `30days`).",
        name="consumerExpiration",
        use=("stream",),
    )

    def check_batch(self) -> None:
        """Raise InvalidOptionError if the options do not describe what a batch reads."""
        found = changed(self)
        if others := [name for name in used(FeedOptions, "stream") if name in found]:
            raise InvalidOptionError(f"the option {others[0]!r} applies only to readStream")
        if not self.changes:
            if found:
                name = min(found)
                raise InvalidOptionError(f"the option {name!r} needs readChangeFeed=true, or readStream; version and timestamp choose rows")
            return
        starts = [value for value in (self.starting_version, self.starting_timestamp) if value is not None]
        if len(starts) != 1:
            raise InvalidOptionError("readChangeFeed needs a start: give either startingVersion or startingTimestamp")
        if self.starting_version == LATEST:
            raise InvalidOptionError("the option 'startingVersion' takes 'latest' in a stream only; give the number of a version")
        if self.ending_version is not None and self.ending_timestamp is not None:
            raise InvalidOptionError("give either endingVersion or endingTimestamp")

    def check_stream(self) -> None:
        """Raise InvalidOptionError if the options do not describe what a stream reads."""
        found = changed(self)
        if others := [name for name in used(FeedOptions, "batch") if name in found]:
            raise InvalidOptionError(f"the option {others[0]!r} does not apply to readStream: a stream has no end")
        if self.starting_version is not None and self.starting_timestamp is not None:
            raise InvalidOptionError("give either startingVersion or startingTimestamp")
        if self.consumer is None and "consumerExpiration" in found:
            raise InvalidOptionError("the option 'consumerExpiration' needs consumerId, the name under which the stream records its place")


NO_FEED = FeedOptions()
