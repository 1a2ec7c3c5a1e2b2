"""A stream that reads a table: which rows, or changes, belong to a batch, and where the next batch begins.

A batch lies between two offsets, which name versions. Versions do not change, so a batch that is repeated has the same rows, whatever has
happened to the table meanwhile. Nothing but the options and the offsets decides what a batch has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lance_spark.errors import SchemaMismatchError, VersionNotFoundError
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.feed.appended import appended
from lance_spark.table.feed.changes import Changes
from lance_spark.table.feed.differences import differences
from lance_spark.table.feed.offset import Offset, beginning
from lance_spark.table.feed.options import LATEST, FeedOptions
from lance_spark.table.feed.place import Place
from lance_spark.table.feed.task import ChangesTask, changes_tasks, fragment_tasks
from lance_spark.table.scan.parts import all_live_rows, live_rows
from lance_spark.table.scan.plan import MAX_TASK_BYTES, plan_tasks
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import (
    MADE_ANEW,
    Snapshot,
    find_version,
    has_successor,
    in_use,
    list_versions,
    reopened,
    version_since,
)

_LISTING_SECONDS = 60
"""So often the versions are listed: the next version alone does not tell that it was removed, or that the table was made anew."""
_OPEN = 4
"""Versions that stay in memory: each is compared with the one before it."""

_LOG = logging.getLogger(__name__)


@dataclass
class _Budget:
    """What a batch may still take. The first part always fits."""

    files: float
    size: float
    rows: float
    is_new: bool = True

    def take(self, files: int, size: int, rows: int) -> bool:
        """Take a part if it fits."""
        fits = self.is_new or (files <= self.files and size <= self.size and rows <= self.rows)
        self.files -= files
        self.size -= size
        self.rows -= rows
        self.is_new = False
        return fits


class TableStream:
    """Reads the table of `shape`, whose columns the stream has; of its versions, only the options tell which are read."""

    def __init__(self, shape: Changes, options: FeedOptions, cores: int = 1, max_bytes: int = MAX_TASK_BYTES) -> None:
        self._shape, self._options, self._cores, self._max_bytes = shape, options, cores, max_bytes
        self._seen: Snapshot | None = None
        self._listed = 0.0
        self._target: Snapshot | None = None
        self._initial: Offset | None = None
        self._open: dict[int, Snapshot] = {}
        self._parts: tuple[tuple[int, bool], np.ndarray] | None = None
        self._is_checked = False
        self._place = None if options.consumer is None else Place(options.consumer, options.consumer_expiration)

    @property
    def max_files(self) -> int:
        """The most fragments of a batch."""
        return self._options.max_files or 2**31 - 1

    @property
    def is_limited(self) -> bool:
        """True if an option limits batches."""
        return self._budget is not None

    def latest(self) -> Snapshot:
        """The latest version. While there is no next version, this is one look for it."""
        now = time.monotonic()
        if self._seen is None or now - self._listed > _LISTING_SECONDS or has_successor(self._seen):
            found = reopened(self._shape.snapshot if self._seen is None else self._seen)
            self._listed = now
            if self._seen is not None and found.version != self._seen.version:
                self._keep(self._seen)
            self._seen = found if self._seen is None or found.version != self._seen.version else self._seen
        return self._seen

    def end_now(self) -> None:
        """Read no version that is committed from now on."""
        self._target = self.latest()

    def initial(self) -> Offset:
        """Where a stream without a checkpoint begins. Later calls return the same."""
        if self._initial is None:
            self._initial = self._beginning(self._target or self.latest())
        return self._initial

    def _beginning(self, latest: Snapshot) -> Offset:
        start = self._options.starting_version
        if self._options.starting_timestamp is not None:
            start = version_since(latest.store, self._options.starting_timestamp) or LATEST
        if start is None:
            return beginning(latest.version, True, latest.identity)
        # Tables of Delta Lake begin with version 0, ours with version 1.
        return beginning(latest.version + 1 if start == LATEST else max(int(start), 1))

    def known(self, start: Offset) -> Offset:
        """The offset after all versions that are known now, for a stream that is at `start`."""
        seen = self._seen or self.latest()
        return start if start.version > seen.version else self._offset(seen.version + 1, 0, False, start)

    def advance(self, start: Offset, limited: bool = True) -> Offset:
        """The end of the batch that begins at `start`: after the latest version, or `limited`, where the options say so.

        Raises UnsupportedFeatureError for commits that a stream of rows cannot follow, SchemaMismatchError for columns that are no longer
        those of the stream, and VersionNotFoundError for versions that are needed and were removed.
        """
        last = (self._target or self.latest()).version
        self._check(start)
        if start.version > last:
            return start
        budget = self._budget if limited else None
        self._view(self._version(last))
        if budget is None and self._options.changes:
            self._check_there(start, last)
            return self._offset(last + 1, 0, False, start)
        for place in self._walk(start, last):
            parts = self._added(place)
            if budget is None:
                continue
            for i in range(start.done if place == start.place else 0, len(parts)):
                if not budget.take(*self._weight(place, int(parts[i]))):
                    return self._offset(place[0], i, place[1], start)
        return self._offset(last + 1, 0, False, start)

    def record(self, start: Offset) -> None:
        """Record with the table that the stream has read all before `start`, the beginning of a batch that is about to run.

        All batches before it are committed then. So what is recorded may be older than the checkpoint, but is never newer.
        """
        if self._place is None:
            return
        # A commit is compared with the version before it.
        version = start.version if start.snapshot else max(start.version - 1, 1)
        try:
            self._place.move(self._version(min(version, (self._seen or self.latest()).version)))
        except VersionNotFoundError as e:
            _LOG.warning("the place of the consumer %s is not recorded: %s", self._options.consumer, e)

    def renew(self) -> None:
        """Keep the recorded place from expiring while there is nothing to read."""
        if self._place is not None:
            self._place.renew()

    def tasks(self, start: Offset, end: Offset) -> Sequence[ScanTask | ChangesTask]:
        """The tasks that read the batch between two offsets."""
        if start == end:
            return []
        self._check(end)
        if start.start != end.start:
            # Spark has no offset of the start: it has asked for a new one.
            start = beginning(*end.start)
        tasks: list[ScanTask | ChangesTask] = []
        commits: list[int] = []
        for place in self._walk(start, end.last if not end.snapshot else end.version - 1):
            if self._options.changes and not place[1]:
                commits.append(place[0])
                continue
            parts = self._added(place)
            first = start.done if place == start.place else 0
            stop = end.done if place == end.place else len(parts)
            tasks += self._row_tasks(self._version(place[0]), parts[first:stop])
        for run in np.split(np.array(commits, np.int64), np.flatnonzero(np.diff(commits) != 1) + 1):
            if len(run):
                shape = self._view(self._version(int(run[-1])))
                tasks += changes_tasks(replace(shape, begin=int(run[0]) - 1, end=int(run[-1])))
        return tasks

    def _walk(self, start: Offset, last: int) -> Iterator[tuple[int, bool]]:
        """The places from an offset to the commit `last`: the snapshot, if it is not read yet, and the commits."""
        first = start.version
        fails, there = self._options.fail_on_data_loss, None
        if not fails and first <= max(last, start.last):
            there = set(list_versions(self._shape.snapshot.store))
        if start.snapshot:
            if there is None or first in there:
                yield start.place
            else:
                _LOG.warning("%s: version %d was removed before the stream has read all of it", self._shape.snapshot.store.uri, first)
            first += 1
        for version in range(first, last + 1):
            if there is None or (version in there and (version == 1 or version - 1 in there)):
                yield version, False
            else:
                _LOG.warning("%s: the stream leaves out version %d, which was removed", self._shape.snapshot.store.uri, version)

    def _added(self, place: tuple[int, bool]) -> np.ndarray:
        """The places in the manifest of the fragments with rows that a commit has added, or that a snapshot has.

        A commit whose changes are read is one part, whatever it has changed.
        """
        if self._options.changes and not place[1]:
            return np.zeros(1, np.int64)
        if self._parts is None or self._parts[0] != place:
            after = self._version(place[0])
            before = self._version(place[0] - 1) if place[0] > 1 and not place[1] else None
            with in_use(after):
                parts = appended(before, after, self._options)
                rows = all_live_rows(after)
            self._parts = place, parts[rows[parts] > 0]
        return self._parts[1]

    @property
    def _budget(self) -> _Budget | None:
        options = self._options
        files, size, rows = (float("inf") if most is None else most for most in (options.max_files, options.max_bytes, options.max_rows))
        return _Budget(files, size, rows) if min(files, size, rows) < float("inf") else None

    def _weight(self, place: tuple[int, bool], part: int) -> tuple[int, int, int]:
        """The numbers of fragments, bytes and rows of a part."""
        after = self._version(place[0])
        if self._options.changes and not place[1]:
            with in_use(after):
                found = differences(self._version(place[0] - 1) if place[0] > 1 else None, after)
            parts = [*found.deleted, *found.inserted]
            fragments = {(part.snapshot.version, part.fragment.id): part.fragment for part in parts}.values()
            size = sum(file.size or 0 for fragment in fragments for file in fragment.files)
            # An updated row is read twice: before and after.
            rows = sum(len(part.offsets) for part in parts) + 2 * len(found.updated[0])
            return len(fragments), size, rows
        fragment = after.manifest.lazy_fragments[part]
        return 1, sum(file.size or 0 for file in fragment.files), live_rows(fragment, after.locations)

    def _row_tasks(self, snapshot: Snapshot, places: np.ndarray) -> Sequence[ScanTask | ChangesTask]:
        """The tasks for all rows of these fragments."""
        if not len(places):
            return []
        shape, ids = self._view(snapshot), snapshot.manifest.lazy_fragments.ids[places].tolist()
        if self._options.changes or (shape.snapshot.version != snapshot.version and not self._has_columns(snapshot)):
            return fragment_tasks(replace(shape, begin=snapshot.version, end=snapshot.version), ids)
        plan = replace(shape.plan, predicate=shape.predicate, fragments=frozenset(ids))
        return plan_tasks(snapshot, plan, self._cores, self._max_bytes)

    def _has_columns(self, snapshot: Snapshot) -> bool:
        """True if an earlier version has the fields of the stream."""
        try:
            return replace(self._shape, snapshot=snapshot).to_read == self._shape.to_read
        except SchemaMismatchError:
            return False

    def _view(self, snapshot: Snapshot) -> Changes:
        """The columns of the stream for rows of a version: as of then, if it is later than the start of the stream.

        Raises SchemaMismatchError if it has other columns.
        """
        if snapshot.version <= self._shape.snapshot.version:
            return self._shape
        plan = self._shape.plan
        if plan.columns is None:
            shown = self._shape.plan.fields(self._shape.snapshot)
            plan = replace(plan, columns=tuple(quoted([f.name]) for f in shown.fields))
            plan = replace(plan, with_row_id=False, with_row_address=False)
        view = replace(self._shape, snapshot=snapshot, plan=plan)
        try:
            same, why = _types(view.to_read) == self._types, "columns have other types or nullability"
        except SchemaMismatchError as e:
            same, why = False, str(e)
        if same:
            return view
        raise SchemaMismatchError(
            f"{snapshot}: the columns are no longer those that the stream has read since version {self._shape.snapshot.version}: {why}. "
            "Load the table and start the stream again, with the same checkpoint: it goes on with the new columns"
        )

    @cached_property
    def _types(self) -> list[tuple[str, object, bool]]:
        return _types(self._shape.to_read)

    def _version(self, version: int) -> Snapshot:
        seen = self.latest() if self._seen is None else self._seen
        if version == seen.version:
            return seen
        if version not in self._open:
            try:
                found = reopened(seen, version)
            except VersionNotFoundError as e:
                there = list_versions(seen.store)
                first = min((v for v in there if v >= version), default=None)
                if first is None:
                    raise
                raise VersionNotFoundError(
                    f"{seen.store.uri}: the stream needs version {version}, which was removed; the next one is version {first}. With the "
                    "option failOnDataLoss=false, the stream goes on after it; without the checkpoint, it reads the whole table again"
                ) from e
            self._keep(found)
        return self._open[version]

    def _keep(self, snapshot: Snapshot) -> None:
        while len(self._open) >= _OPEN:
            del self._open[next(iter(self._open))]
        self._open[snapshot.version] = snapshot

    def _check_there(self, start: Offset, last: int) -> None:
        """Raise VersionNotFoundError unless all versions are there that tell what has changed."""
        needed = range(start.version if start.snapshot else max(start.version - 1, 1), last + 1)
        if self._options.fail_on_data_loss:
            # Two are those of a stream that has read all before.
            there = needed if len(needed) <= 2 else list_versions(self._shape.snapshot.store)
            for version in (needed[0], *(v for v in needed if v not in there)):
                self._version(version)

    def _offset(self, version: int, rows_read: int, snapshot: bool, start: Offset) -> Offset:
        offset = Offset(version, rows_read, snapshot, start.start)
        return replace(offset, identity=self._version(offset.last).identity if offset.last else "")

    def _check(self, offset: Offset) -> None:
        """Raise VersionNotFoundError if the offset is one of another table that was at the same place."""
        if self._is_checked or not offset.identity:
            return
        store, last = self._shape.snapshot.store, offset.last
        found = find_version(store, last)
        if (found is None and self.latest().version < last) or (found is not None and found.identity != offset.identity):
            anew = MADE_ANEW.removesuffix("; open it again")
            raise VersionNotFoundError(f"{store.uri}, version {last}, which the stream has read, {anew}; start it with a new checkpoint")
        self._is_checked = True


def _types(fields: Sequence[Field]) -> list[tuple[str, object, bool]]:
    return [(f.name, f.type, f.nullable) for f in Schema(tuple(fields)).to_arrow()]
