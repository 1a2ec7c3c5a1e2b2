"""Reading one task of a scan: fragment by fragment, only the pages that its rows need; `selection` has the steps with a predicate."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import keep_rows, window
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.predicate import evaluate
from lance_spark.reading.steps import Rows
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanTask
from lance_spark.table.scan.projection import Projection
from lance_spark.table.scan.read_ahead import prefetch
from lance_spark.table.scan.repeated import Repeated
from lance_spark.table.scan.selection import Selection, concatenated, rows_of, true_at
from lance_spark.table.scan.top_n import Top
from lance_spark.table.versions.snapshot import in_use

if TYPE_CHECKING:
    from lance_spark.table.scan.fragment_reader import FragmentReader

_LOG = logging.getLogger(__name__)
_SMALL_BYTES = 1 << 20
_FEW_ROWS = 1 << 12
_AT_ONCE = 1 << 8
"""So few rows that an index found are read with all columns before the predicate is checked."""


def read_task(task: ScanTask, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a task in batches with the schema of the plan, or the row with their number. Errors name the table, version and file.

    What the reading costs is added to `cost`. Raises VersionNotFoundError if the version was removed, or its table dropped, since planning.
    """
    with in_use(task.pin):
        yield from _read(task, cost)


def _read(task: ScanTask, cost: Cost | None) -> Iterator[pa.RecordBatch]:
    own, start = Cost() if cost is None else Cost(cost.elsewhere), time.perf_counter()
    try:
        if task.counts_rows:
            own.rows = sum(batch.num_rows for batch in own.timed(_batches(task, own))) if task.fields.fields else task.num_rows
            yield counted(own.rows)
            return
        # A small limit is answered faster without reading more rows, and few rows without another thread.
        batches = _batches(task, own)
        batches = own.timed(batches if task.limit is not None else _merged(task, batches))
        if task.limit is None and task.num_rows > _FEW_ROWS:
            batches = prefetch(batches)
        with contextlib.closing(batches):
            for batch in window(batches, task.offset, task.limit):
                own.rows += batch.num_rows
                yield batch
    except (CorruptFileError, UnsupportedFeatureError) as e:
        raise type(e)(f"{task.table}: {e}") from e
    finally:
        _log(task, own, time.perf_counter() - start)
        if cost is not None:
            cost.include(own)


def counted(rows: int) -> pa.RecordBatch:
    """The batch of a task that counts its rows."""
    return pa.record_batch({"rows": pa.array([rows], pa.int64())})


def _log(task: ScanTask, cost: Cost, seconds: float) -> None:
    """Log what a task has read and skipped, for each fragment after it has been read."""
    counts = cost.counts
    _LOG.info(
        "%s: %d of %d rows in %d fragments; read %d of %d pages of the columns, %.1f of %.1f MB of the files, in %.2f s, "
        "of which %.2f s waiting for the store and %.2f s decoding",
        *(task.table, cost.rows, sum(part.num_rows for part in task.parts), len(task.parts)),
        *(counts.pages_read, counts.pages, counts.bytes_read / 1e6, counts.bytes / 1e6, seconds, cost.waiting, cost.decoding),
    )


def row_counts(task: ScanTask, cost: Cost) -> Iterator[int]:
    """The number of rows of a task, split into batches; if no field is needed, nothing is read. What it costs is added to `cost`."""
    if task.fields.fields:
        yield from (batch.num_rows for batch in read_task(task, cost))
        return
    cost.rows += task.num_rows
    for start in range(0, task.num_rows, task.batch_rows):
        yield min(task.batch_rows, task.num_rows - start)


def _batches(task: ScanTask, cost: Cost) -> Generator[pa.RecordBatch, None, None]:
    """The batches of a task after its predicate, before offset and limit; the cost of reading each fragment is added to `cost`."""
    from lance_spark.table.scan.fragment_reader import FragmentReader  # loads the decoders, which counting rows does not need

    given = Projection(task.given)
    if task.first is not None:
        readers = [FragmentReader(part.fragment, task.locations, task.stable_row_ids, part.first_row) for part in task.parts]
        fields = Projection(task.fields)
        try:
            for i, positions in _first_positions(task, readers, Projection(task.first)).items():
                for batch in readers[i].read(positions, fields, task.batch_rows):
                    yield given.project(batch)
        finally:
            for part, reader in zip(task.parts, readers):
                cost.add((task.table, part.fragment.id), reader.counts())
        return
    repeated = Repeated(task)
    selection = None if task.predicate is None else Selection(task, task.predicate)
    for part in task.parts:
        if (known := repeated.of(part)) is not None:
            yield from known
            continue
        reader = FragmentReader(part.fragment, task.locations, task.stable_row_ids, part.first_row)
        rows = rows_of(part, reader)
        if selection is None or part.exact:
            batches = reader.read(rows, given, task.batch_rows)
        elif part.found is not None and part.num_rows <= _AT_ONCE:
            batches = selection.at_once(rows, reader)
        else:
            batches = selection.rows(rows, reader)
        try:
            for batch in batches:
                done = given.project(batch)
                repeated.add(done)
                yield done
        finally:
            cost.add((task.table, part.fragment.id), reader.counts())


def _merged(task: ScanTask, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """The same rows with small batches combined: tiny fragments and rare matches make many, and Spark has a cost per batch."""
    # Arrow cannot combine dictionaries with nulls.
    most = 0 if any(pa.types.is_dictionary(f.type) for f in task.given.walk()) else task.batch_rows
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        large = batch.num_rows > most // 4 or batch.nbytes > _SMALL_BYTES
        if small and (large or rows + batch.num_rows > most or size > _SMALL_BYTES):
            yield from concatenated(small)
            small, rows, size = [], 0, 0
        if large:
            yield batch
        else:
            small.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
    yield from concatenated(small)


def _first_positions(task: ScanTask, readers: list[FragmentReader], first: Projection) -> dict[int, Rows]:
    """The positions of the first rows in the task's order, by the number of the part in the task."""
    top = Top(task.order, task.limit or 0)
    for i, (part, reader) in enumerate(zip(task.parts, readers)):
        rows, done = rows_of(part, reader), 0
        for batch in reader.read(rows, first, task.batch_rows):
            positions = rows[done : done + batch.num_rows]
            positions = np.arange(positions.start, positions.stop) if isinstance(positions, range) else positions
            done += batch.num_rows
            if task.predicate is not None and not part.exact:
                selected = evaluate(task.predicate, batch)
                batch = keep_rows(batch, selected)
                positions = positions[true_at(selected)]
            top.add(i, positions, batch)
    return dict(top.positions())
