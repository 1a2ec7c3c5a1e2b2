"""Tasks of a backfill: a share of a fragment's rows is computed, and the last share of a fragment writes its file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import FunctionFailedError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.row_address import RowAddress, addresses_of
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.backfill.fingerprints import fingerprints
from lance_spark.table.backfill.function import Caller, LanceFunction, OnError
from lance_spark.table.backfill.results import ERROR, INPUTS, OFFSET, VALUE, Results, ResultWriter, Rows
from lance_spark.table.backfill.state import Columns
from lance_spark.table.changes.checkpoint import Checkpoint
from lance_spark.table.changes.column_files import ColumnTarget, write_columns
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.scan.task import ScanTask

_AIM_S = 0.1
_FIRST_ROWS, _MOST_ROWS = 16, 4096
"""The rows of the first and of the largest batch, if no size is given: they grow and shrink until a call takes about `_AIM_S` seconds."""

_BUILT: dict[str, Any] = {}
"""The function of the last run that this process worked for, built once."""


@dataclass(frozen=True)
class Job:
    """What is computed in a run, and where results go. `notes` notes finished fragments."""

    run: str
    columns: Columns
    function: LanceFunction
    version: str
    on_error: OnError
    target: ColumnTarget
    notes: Checkpoint

    def results(self, fragment: int) -> Results:
        """The results of a fragment that is not finished."""
        return Results(self.notes.store, str(fragment))


@dataclass(frozen=True)
class Share:
    """The share `number` of the `shares` that a fragment's rows are divided into; `scan` reads them."""

    fragment: Fragment
    number: int
    shares: int
    scan: ScanTask


@dataclass(frozen=True)
class ShareDone:
    """What a task did: rows that lacked a result in the table, those that were computed now, and those that failed in this run."""

    fragment: int
    pending: int
    computed: int
    failed: int


def run_share(share: Share, job: Job) -> ShareDone:
    """Compute the pending rows of a share; if it was the last one of its fragment, write the fragment's file, and note it."""
    fragment, results = share.fragment, job.results(share.fragment.id)
    computing = _Computing(job, results, *_span(share))
    done = computing.run(share.scan.read())
    results.finish(job.run, share.number, done)
    finished = results.finished(job.run, share.shares)
    if finished is not None and len(finished) and results.claim(job.run):
        _write(job, fragment, results, finished)
    return ShareDone(fragment.id, len(done), computing.computed, computing.failed)


def _span(share: Share) -> tuple[int, int]:
    """The offsets that the rows of the share may have. Those of deleted rows shift the others."""
    (part,) = share.scan.parts
    fragment = share.fragment
    deleted = 0 if fragment.deletion is None else fragment.deletion.num_deleted or fragment.physical_rows
    return part.start, min(part.stop - 1 + deleted, fragment.physical_rows - 1)


@dataclass
class _Computing:
    """Computes rows from offset `first` to `last`, with the counts so far."""

    job: Job
    results: Results
    first: int
    last: int
    computed: int = 0
    failed: int = 0
    _seen: list[Rows] = field(default_factory=list)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Rows:
        """The rows that lack a result in the table, all of which have one in the folder now."""
        job = self.job
        known = self.results.known(job.run, self.first, self.last)
        writer = ResultWriter(self.results, job.run)
        try:
            for batch in self._sized(self._missing(batches, *known)):
                self._compute(batch, writer)
        finally:
            writer.close()
        offsets = np.concatenate([rows.offsets for rows in self._seen]) if self._seen else np.empty(0, np.int64)
        inputs = np.concatenate([rows.inputs for rows in self._seen]) if self._seen else np.empty(0, np.uint64)
        return Rows(offsets, inputs)

    def _missing(self, batches: Iterator[pa.RecordBatch], known: Rows, failed: Rows) -> Iterator[pa.RecordBatch]:
        """The inputs, by number, of the rows that lack a result in the table and were not tried, with their offsets and fingerprints."""
        for batch in batches:
            inputs = [_at_path(batch, path) for path in self.job.columns.inputs]
            addresses = np.asarray(batch.column(ROW_ADDRESS)).astype(np.uint64)
            offsets = (addresses & np.uint64(2**32 - 1)).astype(np.int64)
            prints = fingerprints(inputs)
            pending = ~self._is_current(batch.column(self.job.columns.state.name), prints)
            self._seen.append(Rows(offsets[pending], prints[pending]))
            tried = pending & failed.has(offsets, prints)
            self.failed += int(tried.sum())
            wanted = pending & ~tried & ~known.has(offsets, prints)
            if wanted.any():
                columns = {str(i): column for i, column in enumerate(inputs)} | {OFFSET: offsets, INPUTS: prints}
                if self.job.on_error == "skip":
                    columns[VALUE] = batch.column(self.job.columns.value.name)
                chosen = pa.record_batch(columns)
                yield chosen if wanted.all() else chosen.filter(pa.array(wanted))

    def _is_current(self, state: pa.StructArray, prints: np.ndarray) -> np.ndarray:
        """Which rows have a result of this version for these inputs. Where the struct is null, so are its fields."""
        version, inputs, error = state.flatten()
        same = pc.fill_null(pc.equal(version, self.job.version), False).to_numpy(zero_copy_only=False)
        unchanged = pc.fill_null(inputs, 0).to_numpy(zero_copy_only=False).view(np.uint64) == prints
        current: np.ndarray = same & unchanged & error.is_null().to_numpy(zero_copy_only=False)
        return current

    def _sized(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows in batches for the function, all but the last one of the same size unless the size adapts."""
        given, size = self.job.function.batch_size, self.job.function.batch_size or _FIRST_ROWS
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            while rows >= size:
                joined = _joined(waiting)
                start = time.perf_counter()
                yield joined.slice(0, size)
                waiting, rows = [joined.slice(size)], rows - size
                if given is None:
                    size = _adapted(size, time.perf_counter() - start)
        if rows:
            yield _joined(waiting)

    def _compute(self, batch: pa.RecordBatch, writer: ResultWriter) -> None:
        job = self.job
        count = len(job.columns.inputs)
        names = [path[-1].name for path in job.columns.inputs]
        given = pa.RecordBatch.from_arrays(batch.columns[:count], names=names)
        rows = Rows(batch.column(OFFSET).to_numpy(), batch.column(INPUTS).to_numpy())
        try:
            values, errors = self._caller(given)
        except FunctionFailedError as e:
            first = RowAddress.of(int(self.results.place), int(rows.offsets[0]))
            raise FunctionFailedError(f"{e}; it was given {len(rows)} rows from the row address {first} on") from e
        failed = sum(error is not None for error in errors)
        if failed and job.on_error == "skip":
            values = pc.if_else(pa.array([error is None for error in errors]), values, batch.column(VALUE).cast(values.type))
        self.computed += len(rows)
        self.failed += failed
        writer.add(rows, values, errors)

    @cached_property
    def _caller(self) -> Caller:
        job = self.job
        if job.run not in _BUILT:
            _BUILT.clear()  # models are large
            _BUILT[job.run] = job.function.built()
        return Caller(_BUILT[job.run], job.function.kind, job.function.name, job.columns.value, job.on_error)


def _adapted(size: int, seconds: float) -> int:
    """The size of the next batch, after one of this size has taken so long."""
    if seconds < _AIM_S / 2:
        return min(size * 2, _MOST_ROWS)
    return max(size // 2, 1) if seconds > _AIM_S * 2 else size


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _at_path(batch: pa.RecordBatch, path: Sequence[Field]) -> pa.Array:
    """The column, or the field of a struct: it is null where the struct is."""
    column = batch.column(path[0].name)
    for inner in path[1:]:
        column = pc.struct_field(column, inner.name)
    return column


def _write(job: Job, fragment: Fragment, results: Results, rows: Rows) -> None:
    """Write the file of a fragment whose rows all have results, and note it."""
    target = replace(job.target, keeps_old=True)
    batches = (_columns(job, fragment, table) for table in results.of(rows))
    for file in write_columns(target, batches):
        job.notes.note(fragment, file, target.write.since)


def _columns(job: Job, fragment: Fragment, table: pa.Table) -> pa.RecordBatch:
    table = table.combine_chunks()
    error = table.column(ERROR).combine_chunks()
    versions = pa.repeat(pa.scalar(job.version), table.num_rows)
    state = pa.StructArray.from_arrays([versions, table.column(INPUTS).combine_chunks(), error], ["version", "inputs", "error"])
    addresses = pa.array(addresses_of(fragment.id, table.column(OFFSET).to_numpy()))
    names = [job.columns.value.name, job.columns.state.name, ROW_ADDRESS]
    return pa.RecordBatch.from_arrays([table.column(VALUE).combine_chunks(), state, addresses], names=names)


def paths_read(columns: Columns, on_error: OnError) -> tuple[str, ...]:
    """The columns that a share reads."""
    names = [quoted([f.name for f in path]) for path in columns.inputs]
    names += [quoted([columns.state.name]), ROW_ADDRESS]
    if on_error == "skip":
        names.append(quoted([columns.value.name]))
    return tuple(dict.fromkeys(names))
