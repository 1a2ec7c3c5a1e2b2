"""Reading one task of a scan: only the pages that its rows need, the predicate's columns first.

Late materialisation: for a window of rows, the predicate's columns are read and evaluated, then the other columns of the matching
rows, which are usually few; readers take single rows out of pages without decoding the rest.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_spark.arrow.selection import keep_rows, window
from lance_spark.errors import CorruptFileError, InvalidOptionError, UnsupportedFeatureError
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_COLUMN_IDS
from lance_spark.predicate import Predicate, evaluate
from lance_spark.predicate.bounds import Bounds, may_hold
from lance_spark.predicate.tree import And, Column, walk
from lance_spark.reading import spans
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.parts import Part
from lance_spark.table.scan.plan import ScanTask
from lance_spark.table.scan.read_ahead import prefetch
from lance_spark.table.scan.repeated import Repeated
from lance_spark.table.scan.top_n import Top

if TYPE_CHECKING:
    from lance_spark.table.scan.fragment_reader import FragmentReader

_LOG = logging.getLogger(__name__)
_SMALL_BYTES = 1 << 20
_FEW_ROWS = 1 << 12
_AT_ONCE = 1 << 8
"""So few rows that an index found are read with all columns before the predicate is checked."""

WINDOW_ROWS = 1 << 20
"""Rows whose predicate is evaluated before the rest of them is read: as many as a fragment has in most tables."""


def read_task(task: ScanTask, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a task in batches with the schema of the plan, or the row with their number. Errors name the table, version and file.

    What the reading costs is added to `cost`.
    """
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
    from lance_spark.table.scan.projection import project

    given = task.given.to_arrow()
    if task.first is not None:
        readers = [FragmentReader(part.fragment, task.locations, task.stable_row_ids, part.first_row) for part in task.parts]
        try:
            for i, positions in _first_positions(task, readers, task.first).items():
                for batch in readers[i].read(positions, task.fields, task.batch_rows):
                    yield project(batch, task.given, given)
        finally:
            for part, reader in zip(task.parts, readers):
                cost.add((task.table, part.fragment.id), reader.counts())
        return
    repeated = Repeated(task)
    for part in task.parts:
        if (known := repeated.of(part)) is not None:
            yield from known
            continue
        reader = FragmentReader(part.fragment, task.locations, task.stable_row_ids, part.first_row)
        if task.predicate is None or part.exact:
            batches = reader.read(_rows(part, reader), task.given, task.batch_rows)
        elif part.found is not None and part.num_rows <= _AT_ONCE:
            batches = _checked(task, part, reader)
        else:
            batches = _selected(task, part, reader)
        try:
            for batch in batches:
                done = project(batch, task.given, given)
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
            yield from _concatenated(small)
            small, rows, size = [], 0, 0
        if large:
            yield batch
        else:
            small.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
    yield from _concatenated(small)


def _concatenated(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """All rows in one batch, unless text would be too large for one array."""
    return batches if len(batches) < 2 else pa.Table.from_batches(batches).combine_chunks().to_batches()


def _checked(task: ScanTask, part: Part, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
    """The rows of a part that satisfy the predicate, with all fields: most of the few rows that an index found do."""
    assert task.predicate is not None
    for batch in reader.read(_rows(part, reader), task.fields, task.batch_rows):
        yield keep_rows(batch, evaluate(task.predicate, batch))


def _selected(task: ScanTask, part: Part, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
    """The rows of a part that satisfy the predicate, with at least the fields that are returned."""
    first, rest = _divided(task)
    window: list[pa.RecordBatch] = []
    found: list[np.ndarray] = []
    # A reader of few rows should not wait for a full window.
    enough = WINDOW_ROWS if task.limit is None else task.offset + task.limit
    positions = _pruned_positions(task, part, reader, first)
    start = at = 0
    for batch in reader.read(positions, first, task.batch_rows):
        assert task.predicate is not None
        selected = evaluate(task.predicate, batch)
        chosen = np.flatnonzero(pc.fill_null(selected, False).to_numpy(zero_copy_only=False))
        if len(chosen):
            window.append(keep_rows(batch, selected) if len(chosen) < batch.num_rows else batch)
            found.append(chosen + (positions[0] + at) if isinstance(positions, range) else positions[at + chosen])
        at += batch.num_rows
        if not rest.fields and window:
            yield window.pop()
            found.clear()
        elif window and (at == len(positions) or at - start >= WINDOW_ROWS or sum(map(len, found)) >= enough):
            yield from _together(task.given, window, reader.read(np.concatenate(found), rest, task.batch_rows))
            window, found, start = [], [], at


def _rows(part: Part, reader: FragmentReader) -> Rows:
    """The positions of the rows of a part among the rows that are not deleted."""
    return range(part.start, part.stop) if part.found is None else reader.positions_of(offsets_of(BitMap.deserialize(part.found)))


def _pruned_positions(task: ScanTask, part: Part, reader: FragmentReader, first: Schema) -> Rows:
    """The rows of a part, without pages whose statistics show that no value satisfies the predicate."""
    assert task.predicate is not None
    root = task.predicate.root
    rows = _rows(part, reader)
    if not isinstance(rows, range):
        return rows
    left = spans.from_rows(rows)
    for condition in root.operands if isinstance(root, And) else (root,):
        paths = {node.path for node in walk(condition) if isinstance(node, Column)}
        field = next((f for f in first.fields if (f.name,) in paths), None)
        if len(paths) != 1 or field is None or field.id in ROW_COLUMN_IDS or not len(left):
            continue
        name, predicate = field.name, Predicate(condition, task.predicate.text)

        def may_match(values: pa.Array | Bounds, name: str = name, predicate: Predicate = predicate) -> bool:
            try:
                if isinstance(values, Bounds):
                    return may_hold(predicate.root, name, values)
                return bool(pc.any(evaluate(predicate, pa.record_batch({name: values}))).as_py())
            except InvalidOptionError:
                return True  # only the rows show whether one has a value that it fails on

        if first.select([quoted([name])]).to_arrow().field(0).type == field.type:
            left = spans.both(left, reader.prune_pages(rows, field, may_match))
    return range(left[0, 0], left[0, 1]) if len(left) == 1 else spans.rows(left)


def _divided(task: ScanTask) -> tuple[Schema, Schema]:
    """The fields that the predicate needs, and the other returned fields. A struct may be in both, with different children."""
    assert task.predicate is not None
    # A batch without columns would lose its number of rows.
    first = task.fields.select(task.predicate.columns) if task.predicate.columns else Schema(task.given.fields)
    # Addresses cost less than looking rows up again.
    there = {f.id for f in first.fields}
    first = Schema((*first.fields, *(f for f in task.given.fields if f.id == ROW_ADDRESS and f.id not in there)), first.metadata)
    known = set(first.fields)
    return first, Schema(tuple(f for f in task.given.fields if f not in known))


def _together(given: Schema, window: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The returned columns of the same rows: from `rest` if they are there, the others from `window`."""
    from lance_spark.table.scan.fragment_reader import side_by_side

    known = _concatenated(window)
    target = given.to_arrow()
    names: list[str] = []

    def rest_columns() -> Iterator[list[pa.Array]]:
        for batch in rest:
            names[:] = batch.schema.names
            yield batch.columns

    for first, second in side_by_side([(batch.columns for batch in known), rest_columns()]):
        columns = dict(zip(window[0].schema.names, first)) | dict(zip(names, second))
        yield pa.RecordBatch.from_arrays([columns[name] for name in target.names], schema=target)


def _first_positions(task: ScanTask, readers: list[FragmentReader], first: Schema) -> dict[int, Rows]:
    """The positions of the first rows in the task's order, by the number of the part in the task."""
    top = Top(task.order, task.limit or 0)
    for i, (part, reader) in enumerate(zip(task.parts, readers)):
        rows, done = _rows(part, reader), 0
        for batch in reader.read(rows, first, task.batch_rows):
            positions = rows[done : done + batch.num_rows]
            positions = np.arange(positions.start, positions.stop) if isinstance(positions, range) else positions
            done += batch.num_rows
            if task.predicate is not None and not part.exact:
                selected = evaluate(task.predicate, batch)
                batch = keep_rows(batch, selected)
                positions = positions[pc.fill_null(selected, False).to_numpy(zero_copy_only=False)]
            top.add(i, positions, batch)
    return dict(top.positions())
