"""Batches that are read once for several fragments: those that share their files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_COLUMN_IDS, ROW_ID
from lance_spark.table.scan.parts import Part
from lance_spark.table.scan.plan import ScanTask

_MOST_BYTES = 1 << 20
"""Bytes of a part that are kept for the next one."""


class Repeated:
    """The batches of the last part of `task`, for the next part if that has the same rows of the same files."""

    def __init__(self, task: ScanTask) -> None:
        calculated = {ROW_ADDRESS} if task.stable_row_ids else {ROW_ADDRESS, ROW_ID}
        self._addresses = [i for i, field in enumerate(task.given.fields) if field.id in calculated]
        chosen = task.fields.select(task.predicate.columns).fields if task.predicate is not None else ()
        others = {field.id for field in task.given.fields} - calculated
        self._possible = not (others | {field.id for field in chosen}) & ROW_COLUMN_IDS
        self._part: Part | None = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def of(self, part: Part) -> list[pa.RecordBatch] | None:
        """The batches of `part`, if they are known; else None, and those that are added from now on are its batches."""
        last = self._part
        if last is not None and _same_rows(last, part) and self._bytes <= _MOST_BYTES:
            step = np.uint64((part.fragment.id - last.fragment.id << 32) % (1 << 64))
            return [self._moved(batch, step) for batch in self._batches]
        self._part, self._batches, self._bytes = part if self._possible else None, [], 0
        return None

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a batch of the current part."""
        if self._part is not None and self._bytes <= _MOST_BYTES:
            self._batches.append(batch)
            self._bytes += batch.nbytes

    def _moved(self, batch: pa.RecordBatch, step: np.uint64) -> pa.RecordBatch:
        if not self._addresses:
            return batch
        columns = batch.columns
        for i in self._addresses:
            columns[i] = pa.array(columns[i].to_numpy() + step)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _same_rows(a: Part, b: Part) -> bool:
    x, y = a.fragment, b.fragment
    same = (a.start, a.stop, a.found, a.exact, x.physical_rows) == (b.start, b.stop, b.found, b.exact, y.physical_rows)
    return same and x.deletion is None and y.deletion is None and x.files == y.files
