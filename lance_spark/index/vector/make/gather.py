"""Rows with their codes, gathered by partition: in memory up to a number of bytes, in temporary files beyond."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lance_spark.index.order import RUN_BYTES
from lance_spark.index.vector.make.encode import Columns

_ROW = "row"


@dataclass(frozen=True)
class _Run:
    """Rows in order of their partitions: those of partition i are from `bounds[i]` to `bounds[i + 1]`."""

    bounds: np.ndarray
    columns: Columns


class Gathered:
    """The rows of `count` partitions."""

    def __init__(self, count: int, run_bytes: int = RUN_BYTES) -> None:
        self._count, self._run_bytes = count, run_bytes
        self._runs: list[_Run] = []
        self._added: list[tuple[np.ndarray, Mapping[str, np.ndarray]]] = []
        self._bytes = 0

    def add(self, members: np.ndarray, rows: np.ndarray, columns: Columns) -> None:
        """Add rows (uint64) with their codes to the partitions `members`. All batches have the same columns."""
        self._added.append((members, {_ROW: rows, **columns}))
        self._bytes += members.nbytes + rows.nbytes + sum(values.nbytes for values in columns.values())
        if self._bytes > self._run_bytes:
            run = self._sorted()
            self._runs.append(_Run(run.bounds, {name: _in_file(values) for name, values in run.columns.items()}))

    def _sorted(self) -> _Run:
        members = np.concatenate([members for members, _ in self._added])
        order = np.argsort(members, kind="stable")
        columns = {}
        for name in self._added[0][1]:
            columns[name] = np.concatenate([own[name] for _, own in self._added])[order]
        self._added, self._bytes = [], 0
        return _Run(np.searchsorted(members[order], np.arange(self._count + 1)), columns)

    def partitions(self) -> Iterator[tuple[np.ndarray, Columns]]:
        """The rows of each partition in the order in which they were added, and their codes."""
        runs = [*self._runs, *([self._sorted()] if self._added else [])]
        for number in range(self._count if runs else 0):
            parts = [{n: c[run.bounds[number] : run.bounds[number + 1]] for n, c in run.columns.items()} for run in runs]
            whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            yield whole.pop(_ROW), whole


def _in_file(values: np.ndarray) -> np.ndarray:
    """The values in a temporary file, which is gone with them."""
    if not values.size:
        return values
    with tempfile.TemporaryFile(prefix="lance-index-") as file:
        values.tofile(file)
        return np.memmap(file, values.dtype, "r", shape=values.shape)
