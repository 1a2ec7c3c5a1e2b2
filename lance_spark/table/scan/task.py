"""One task of a scan, read fragment by fragment, only the pages that its rows need; `selection` has the steps with a predicate."""

from __future__ import annotations

import contextlib
import logging
import pickle
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import keep_rows, size_up_to, window
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.locations import Locations
from lance_spark.predicate import Predicate, evaluate
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Schema
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.parts import Part, Parts
from lance_spark.table.scan.projection import Projection
from lance_spark.table.scan.read_ahead import prefetch
from lance_spark.table.scan.selection import WINDOW_ROWS, Selection, concatenated, rows_of, true_at
from lance_spark.table.scan.together import FEW, FewRows, SmallFragments, runs
from lance_spark.table.scan.top_n import SortKey, Top
from lance_spark.table.versions.identity import Pin
from lance_spark.table.versions.snapshot import in_use

_LOG = logging.getLogger(__name__)
OPEN_BYTES = 256 << 10
"""What could be read in the time that it takes to open a fragment: many small ones are work by their number."""
_SMALL_BYTES = 1 << 20
_FEW_ROWS = 1 << 12


@dataclass(frozen=True)
class Common:
    """What all tasks of a scan have in common. It is pickled once for all of them: there may be 100,000.

    `pin` is the version, and `table` its name for error messages; `fields` are read and `given` are returned. With an `order`,
    the first `limit` rows in it: they are found by the fields `first`, before `fields` are read. `indexes` names the indexes that found
    the rows of the whole scan. `with_dictionaries`: see `ScanPlan`.
    """

    table: str
    pin: Pin
    locations: Locations
    fields: Schema
    given: Schema
    predicate: Predicate | None
    offset: int
    limit: int | None
    batch_rows: int
    stable_row_ids: bool
    order: tuple[SortKey, ...] = ()
    first: Schema | None = None
    counts_rows: bool = False
    indexes: str = ""
    with_dictionaries: bool = False

    @cached_property
    def pickled(self) -> bytes:
        """The pickle of a dict of the members."""
        return pickle.dumps({f.name: getattr(self, f.name) for f in fields(self)})

    def __reduce__(self) -> tuple[Any, ...]:
        return _common, (self.pickled,)


def _common(pickled: bytes) -> Common:
    return Common(**pickle.loads(pickled))


class ScanTask(NamedTuple):
    """Part of a scan: the rows of `parts` that satisfy the predicate, in order, without the first `offset` and at most `limit` of them.

    The parts are those at the places from `start` to `stop` of a `pool`, which many tasks share before they are pickled. `num_rows` and
    `num_bytes` estimate what the task returns and reads; if no field is read, the number of rows is exact and there are no parts.
    """

    common: Common
    pool: Parts
    start: int
    stop: int
    num_rows: int
    num_bytes: int

    @property
    def parts(self) -> Parts:
        """The parts of this task."""
        return self.pool if self.stop - self.start == len(self.pool) else self.pool[self.start : self.stop]

    @property
    def fragment_ids(self) -> np.ndarray:
        """The id of the fragment of each part. None is parsed."""
        return self.pool.fragments.ids[self.start : self.stop]

    @property
    def work(self) -> int:
        """The bytes to be read: at least one of each row, and `OPEN_BYTES` for each fragment that is opened."""
        return max(self.num_bytes, self.num_rows) + (self.stop - self.start) * OPEN_BYTES

    def __reduce__(self) -> tuple[Any, ...]:
        return _task, (self.common.pickled, self.pool.packed(self.start, self.stop), self.num_rows, self.num_bytes)

    @property
    def table(self) -> str:
        """The version that is read, for error messages."""
        return self.common.table

    @property
    def fields(self) -> Schema:
        """The fields that are read."""
        return self.common.fields

    @property
    def given(self) -> Schema:
        """The fields that are returned."""
        return self.common.given

    @property
    def indexes(self) -> str:
        """The indexes that found the rows of the whole scan."""
        return self.common.indexes

    @property
    def scans(self) -> tuple[ScanTask, ...]:
        """This task: a task of several tables has one of each."""
        return (self,)

    @property
    def tables(self) -> tuple[int, int]:
        """The numbers of tables of a namespace: those to be read, and all. Here is none."""
        return (0, 0)

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in batches with the schema of the plan, or the row with their number. Errors name the table, version and file.

        What the reading costs is added to `cost`. Raises VersionNotFoundError if the version was removed, or its table dropped, since
        planning.
        """
        with in_use(self.common.pin):
            yield from _read(self, cost)

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """The number of rows, split into batches; if no field is needed, nothing is read. What it costs is added to `cost`."""
        if self.fields.fields:
            yield from (batch.num_rows for batch in self.read(cost))
            return
        cost.rows += self.num_rows
        for start in range(0, self.num_rows, self.common.batch_rows):
            yield min(self.common.batch_rows, self.num_rows - start)


def _task(common: bytes, packed: tuple[Any, ...], num_rows: int, num_bytes: int) -> ScanTask:
    """A pickled task."""
    parts = Parts.unpacked(*packed)
    return ScanTask(_common(common), parts, 0, len(parts), num_rows, num_bytes)


def _read(task: ScanTask, cost: Cost | None) -> Iterator[pa.RecordBatch]:
    own, start = Cost() if cost is None else Cost(cost.elsewhere), time.perf_counter()
    try:
        if task.common.counts_rows:
            own.rows = _count(task, own) if task.fields.fields else task.num_rows
            yield counted(own.rows)
            return
        # A small limit is answered faster without reading more rows, and few rows without another thread.
        batches = _batches(task, own)
        if task.common.limit is None:
            batches = _merged(batches, Projection.of(task.given), task.common.batch_rows)
        batches = own.timed(batches)
        if task.common.limit is None and task.num_rows > _FEW_ROWS:
            batches = prefetch(batches)
        with contextlib.closing(batches):
            for batch in window(batches, task.common.offset, task.common.limit):
                own.rows += batch.num_rows
                yield batch
    except (CorruptFileError, UnsupportedFeatureError) as e:
        raise type(e)(f"{task.table}: {e}") from e
    finally:
        _log(task, own, time.perf_counter() - start)
        if cost is not None:
            cost.include(own)


def _count(task: ScanTask, cost: Cost) -> int:
    """The number of rows. Nothing is read of those of which an index has shown that they satisfy the predicate."""
    parts, rows = task.parts, 0
    for part in parts.chosen(np.flatnonzero(parts.exact)):
        reader = _reader(task, part)
        rows += len(rows_of(part, reader))
        cost.add((task.table, part.fragment.id), reader.counts())
    rest = parts.chosen(np.flatnonzero(~parts.exact))
    read = _batches(task._replace(pool=rest, start=0, stop=len(rest)), cost)
    return rows + int(sum(batch.num_rows for batch in cost.timed(read)))


def _reader(task: ScanTask, part: Part) -> FragmentReader:
    """The reader of the fragment of a part."""
    return FragmentReader(part.fragment, task.common.locations, task.common.stable_row_ids, part.first_row)


def counted(rows: int) -> pa.RecordBatch:
    """The batch of a task that counts its rows."""
    return pa.record_batch({"rows": pa.array([rows], pa.int64())})


def _log(task: ScanTask, cost: Cost, seconds: float) -> None:
    """Log what a task has read and skipped, for each fragment after it has been read."""
    if not _LOG.isEnabledFor(logging.INFO):
        return
    counts = cost.counts
    _LOG.info(
        "%s: %d of %d rows in %d fragments; read %d of %d pages of the columns, %.1f of %.1f MB of the files, in %.2f s, "
        "of which %.2f s waiting for the store and %.2f s decoding",
        *(task.table, cost.rows, task.parts.num_rows, len(task.parts)),
        *(counts.pages_read, counts.pages, counts.bytes_read / 1e6, counts.bytes / 1e6, seconds, cost.waiting, cost.decoding),
    )


def _batches(task: ScanTask, cost: Cost) -> Generator[pa.RecordBatch, None, None]:
    """The batches of a task after its predicate, before offset and limit; the cost of reading each fragment is added to `cost`."""
    given = Projection.of(task.given)
    if task.common.first is not None:
        readers = [_reader(task, part) for part in task.parts]
        fields = Projection.of(task.fields)
        try:
            for i, positions in _first_positions(task, readers, Projection.of(task.common.first)).items():
                for batch in readers[i].read(positions, fields, task.common.batch_rows):
                    yield given.project(batch)
        finally:
            for part, reader in zip(task.parts, readers):
                cost.add((task.table, part.fragment.id), reader.counts())
        return
    selection = None
    if task.common.predicate is not None:
        enough = WINDOW_ROWS if task.common.limit is None else task.common.offset + task.common.limit
        selection = Selection(task.common.predicate, task.fields, task.given, task.common.batch_rows, enough)
    for at_once, parts in groupby(task.parts, lambda part: selection is not None and _is_read_at_once(part)):
        batches = _parts(task, parts, given, selection, at_once, cost)
        if selection is None or not at_once:
            yield from batches
            continue
        if task.common.limit is None:
            batches = _merged(batches, selection.all, task.common.batch_rows)
        yield from (given.project(selection.matching(batch)) for batch in batches)


def _is_read_at_once(part: Part) -> bool:
    """Whether the rows of a part are read with all columns before the predicate is checked: most of the few that an index found match."""
    return part.found is not None and not part.exact and part.num_rows <= FEW


def _parts(
    task: ScanTask, parts: Iterable[Part], given: Projection, selection: Selection | None, at_once: bool, cost: Cost
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of parts that satisfy the predicate, as `given`; or if `at_once` all of their rows, with all columns that are read."""
    most = task.common.batch_rows if selection is None else selection.at_once_rows
    pace: dict[Projection, int] = {}
    # Who needs few rows does not wait for many files.
    for some in runs(parts, most) if task.common.limit is None else ([part] for part in parts):
        readers, part = [_reader(task, part) for part in some], some[0]
        try:
            if len(some) > 1 and part.found is not None:
                columns = given if selection is None or part.exact else selection.all
                yield from FewRows(some, readers).read(columns, task.common.batch_rows)
                continue
            reader = readers[0] if len(some) == 1 else SmallFragments(some, readers, pace)
            rows = range(reader.num_rows) if isinstance(reader, SmallFragments) else rows_of(part, reader)
            if selection is None or part.exact:
                yield from reader.read(rows, given, task.common.batch_rows, task.common.with_dictionaries)
            elif at_once:
                yield from reader.read(rows, selection.all, task.common.batch_rows)
            else:
                yield from map(given.project, selection.rows(rows, reader))
        finally:
            for part, read in zip(some, readers):
                cost.add((task.table, part.fragment.id), read.counts())


def _merged(batches: Iterator[pa.RecordBatch], columns: Projection, batch_rows: int) -> Generator[pa.RecordBatch, None, None]:
    """The same rows with small batches combined: tiny fragments and rare matches make many, and each batch has a cost.

    The combined batches have all `columns`.
    """
    # Arrow cannot combine dictionaries with nulls.
    most = 0 if columns.has_dictionaries else batch_rows
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        own = size_up_to(_SMALL_BYTES, batch)
        large = batch.num_rows > most // 4 or own > _SMALL_BYTES
        if small and (large or rows + batch.num_rows > most or size > _SMALL_BYTES):
            yield from concatenated(small)
            small, rows, size = [], 0, 0
        if large:
            yield batch
        else:
            small.append(columns.project(batch))
            rows, size = rows + batch.num_rows, size + own
    yield from concatenated(small)


def _first_positions(task: ScanTask, readers: list[FragmentReader], first: Projection) -> dict[int, Rows]:
    """The positions of the first rows in the task's order, by the number of the part in the task."""
    top = Top(task.common.order, task.common.limit or 0)
    for i, (part, reader) in enumerate(zip(task.parts, readers)):
        rows, done = rows_of(part, reader), 0
        for batch in reader.read(rows, first, task.common.batch_rows):
            positions = rows[done : done + batch.num_rows]
            positions = np.arange(positions.start, positions.stop) if isinstance(positions, range) else positions
            done += batch.num_rows
            if task.common.predicate is not None and not part.exact:
                selected = evaluate(task.common.predicate, batch)
                batch = keep_rows(batch, selected)
                positions = positions[true_at(selected)]
            top.add(i, positions, batch)
    return dict(top.positions())
