"""The options of change feeds and of streams that read a table: each field of `FeedOptions` says all there is to know of one.

Names and meanings are those of Delta Lake, where it has them. Parsers and docs/options.md come from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal

from lance_spark.errors import InvalidOptionError

Kind = Literal["flag", "version", "start", "count", "moment", "tag", "duration"]
"""What the text of an option says. A start is a version, or `LATEST`."""
Use = Literal["batch", "stream", "both"]
LATEST = "latest"
_OPTION = "option"


@dataclass(frozen=True)
class FeedOption:
    """How users give a field of `FeedOptions` as text. `use`: for the change feed of a batch, for streams, or for both."""

    name: str
    kind: Kind
    use: Use
    help: str


def _said(name: str, kind: Kind, use: Use, help: str) -> dict[str, Any]:
    return {_OPTION: FeedOption(name, kind, use, help)}


@dataclass(frozen=True)
class FeedOptions:
    """Which changes are read, and how a stream reads a table. None: not given. `given` has the names of all options that are given."""

    changes: bool = field(
        default=False,
        metadata=_said("readChangeFeed", "flag", "both", "`true` reads changes instead of rows (see [change feed](change-feed.md))."),
    )
    starting_version: int | str | None = field(
        default=None,
        metadata=_said(
            "startingVersion",
            "start",
            "both",
            "The first version that is read; `latest`, in a stream: only what comes after the latest version.",
        ),
    )
    starting_timestamp: datetime | None = field(
        default=None,
        metadata=_said(
            "startingTimestamp", "moment", "both", "As `startingVersion`: the first version at this time, in ISO 8601, or after it."
        ),
    )
    ending_version: int | None = field(
        default=None, metadata=_said("endingVersion", "version", "batch", "The last version whose changes are read (default: the latest).")
    )
    ending_timestamp: datetime | None = field(
        default=None,
        metadata=_said(
            "endingTimestamp", "moment", "batch", "As `endingVersion`: the last version at this time, in ISO 8601, or before it."
        ),
    )
    net: bool = field(
        default=False, metadata=_said("netChanges", "flag", "batch", "`true` reads one change for each row, over all versions.")
    )
    updates: bool = field(
        default=True,
        metadata=_said(
            "computeUpdates",
            "flag",
            "both",
            "`false` reads an update as the delete of the row before it and the insert of the row after it (default: `true`).",
        ),
    )
    max_files: int | None = field(
        default=None,
        metadata=_said("maxFilesPerTrigger", "count", "stream", "At most so many fragments in one batch of a stream, but at least one."),
    )
    max_bytes: int | None = field(
        default=None,
        metadata=_said("maxBytesPerTrigger", "count", "stream", "As `maxFilesPerTrigger`: at most so many bytes of data files."),
    )
    max_rows: int | None = field(
        default=None, metadata=_said("maxRowsPerTrigger", "count", "stream", "As `maxFilesPerTrigger`: at most so many rows.")
    )
    skip_change_commits: bool = field(
        default=False,
        metadata=_said("skipChangeCommits", "flag", "stream", "`true`: a stream leaves out commits that change or delete rows."),
    )
    ignore_deletes: bool = field(
        default=False, metadata=_said("ignoreDeletes", "flag", "stream", "`true`: a stream leaves out commits that only delete rows.")
    )
    fail_on_data_loss: bool = field(
        default=True,
        metadata=_said(
            "failOnDataLoss", "flag", "stream", "`false`: a stream goes on after versions that were removed before it read them."
        ),
    )

    consumer: str | None = field(
        default=None,
        metadata=_said(
            "consumerId",
            "tag",
            "stream",
            "A stream records its place with the table under this name, and cleanups keep the versions that it needs.",
        ),
    )
    consumer_expiration: timedelta = field(
        default=timedelta(days=30),
        metadata=_said(
            "consumerExpiration",
            "duration",
            "stream",
            "Cleanups no longer respect the place of a `consumerId` that has not been seen for so long (default: `30days`).",
        ),
    )

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that have other values than their defaults."""
        return frozenset(o.name for name, o in DESCRIBED.items() if getattr(self, name) != getattr(NO_FEED, name))

    def check_batch(self) -> None:
        """Raise InvalidOptionError if the options do not describe what a batch reads."""
        if others := [o.name for o in DESCRIBED.values() if o.name in self.given and o.use == "stream"]:
            raise InvalidOptionError(f"the option {others[0]!r} applies only to readStream")
        if not self.changes:
            if self.given:
                name = min(self.given)
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
        if others := [o.name for o in DESCRIBED.values() if o.name in self.given and o.use == "batch"]:
            raise InvalidOptionError(f"the option {others[0]!r} does not apply to readStream: a stream has no end")
        if self.starting_version is not None and self.starting_timestamp is not None:
            raise InvalidOptionError("give either startingVersion or startingTimestamp")
        if self.consumer is None and "consumerExpiration" in self.given:
            raise InvalidOptionError("the option 'consumerExpiration' needs consumerId, the name under which the stream records its place")


DESCRIBED: dict[str, FeedOption] = {f.name: f.metadata[_OPTION] for f in fields(FeedOptions)}
"""The options that users give as text, by field."""
NO_FEED = FeedOptions()
