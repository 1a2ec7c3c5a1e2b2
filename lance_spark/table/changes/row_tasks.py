"""Row-level changes without an engine: tasks find rows by a filter and compute new values by formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.index.answer import Answer
from lance_spark.metadata.bitmaps import bitmap_of
from lance_spark.metadata.row_address import by_fragment
from lance_spark.predicate import Formula, Predicate, calculate
from lance_spark.table.changes.delta import ADDRESS_PATHS, DELETED, OPERATION, ROW_ADDRESS, UPDATED, DeltaPart, DeltaTarget
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.scan.parts import Parts
from lance_spark.table.scan.plan import ScanPlan, plan_tasks, row_bytes
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class RowTask:
    """A scan whose rows are deleted or, if `values` is not None, updated. `values` are formulas over the scan's columns, by column.

    `written` is about how many bytes it writes.
    """

    scan: ScanTask
    target: DeltaTarget
    values: Mapping[str, Formula] | None = None
    written: int = 0

    @property
    def work(self) -> int:
        """About how many bytes it reads and writes."""
        return self.scan.work + self.written


def plan_rows(
    snapshot: Snapshot,
    target: DeltaTarget,
    predicate: Predicate | None,
    values: Mapping[str, Formula] | None = None,
    cores: int = 1,
    found: Mapping[int, BitMap] | None = None,
) -> list[RowTask]:
    """Plan the tasks that change the rows that satisfy `predicate` (None: all rows); `found` are their offsets by fragment, if known."""
    needed = [column for formula in (values or {}).values() for column in formula.columns if column not in ADDRESS_PATHS]
    plan = ScanPlan(columns=(ROW_ADDRESS, *dict.fromkeys(needed)), predicate=predicate)
    known = None
    if found is not None:
        everywhere = BitMap(snapshot.manifest.lazy_fragments.ids.tolist())
        known = Answer(dict(found), everywhere, everywhere, ("rows found before",))
    tasks = [task for task in plan_tasks(snapshot, plan, cores, known=known) if task.parts]
    return [RowTask(task, target, values, 0 if values is None else _row_bytes(task.parts, snapshot)) for task in tasks]


def _row_bytes(parts: Parts, snapshot: Snapshot) -> int:
    """About how many bytes all columns of the rows have in files."""
    return int((parts.rows * row_bytes(parts, snapshot.manifest.schema)).sum())


def run_row_task(task: RowTask) -> DeltaPart:
    """Run one task. If this fails, the files that it has written are deleted."""
    return write_rows(task.target, (delta_rows(batch, task.values) for batch in task.scan.read()))


def delta_rows(batch: pa.RecordBatch, values: Mapping[str, Formula] | None) -> pa.RecordBatch:
    """The delta rows that delete the rows of a scan or, if `values` is not None, update them."""
    operation = DELETED if values is None else UPDATED
    columns = {OPERATION: pa.array(np.full(batch.num_rows, operation, np.int32)), ROW_ADDRESS: batch.column(ROW_ADDRESS)}
    columns |= {name: calculate(formula, batch) for name, formula in (values or {}).items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def matched_rows(scan: ScanTask) -> dict[int, bytes]:
    """The offsets of the rows, as serialised bitmaps by the id of their fragment, of a scan of `ROW_ADDRESS`."""
    found: dict[int, BitMap] = {}
    for batch in scan.read():
        for fragment_id, offsets in by_fragment(batch.column(ROW_ADDRESS).to_numpy()):
            rows = bitmap_of(offsets)
            found[fragment_id] = found[fragment_id] | rows if fragment_id in found else rows
    return {fragment_id: rows.serialize() for fragment_id, rows in found.items()}
