"""Fragments of one small data file each are read together, as if they were one fragment.

A table that is appended to often has thousands of them, and what a fragment costs by itself is then more than its rows: opening its file,
decoding a page of each column, evaluating the predicate, and building a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.file.data_file import read_together
from lance_spark.file.held_file import HeldFile
from lance_spark.metadata.fragment import TAIL
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_COLUMN_IDS
from lance_spark.predicate.bounds import Bounds
from lance_spark.reading import spans
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Field
from lance_spark.schema.storage_version import V2_1
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.parts import Part
from lance_spark.table.scan.projection import Projection, projected

_MOST = 64
"""Fragments that are read together: what they have in common costs little then, and their files take a few megabytes of memory."""

_FIRST, _STEP = 4, 4
"""Fragments that are decoded together at first, and how many times as many may be the next ones."""

_BATCH_BYTES = 512 << 10
"""Bytes of values from which on what a fragment costs by itself does not count."""


def runs(parts: Iterable[Part], most_rows: int) -> Iterator[list[Part]]:
    """The parts in order: those that can be read together in one list, at most `most_rows` of their rows; all others alone."""
    run: list[Part] = []
    rows = 0
    for part in parts:
        if run and (not _are_alike(run[0], part) or len(run) == _MOST or rows + part.num_rows > most_rows):
            yield run
            run, rows = [], 0
        if not run and not _is_small(part):
            yield [part]
            continue
        run.append(part)
        rows += part.num_rows
    if run:
        yield run


def _is_small(part: Part) -> bool:
    """Whether all rows of a fragment are read, which has nothing but one file that is read as a whole when it is opened."""
    fragment = part.fragment
    if part.found is not None or fragment.deletion is not None or fragment.overlays or len(fragment.files) != 1:
        return False
    (file,) = fragment.files
    is_small = file.size is not None and file.size <= TAIL and file.storage_version >= V2_1 and not isinstance(file, HeldFile)
    return is_small and part.start == 0 and part.stop == fragment.physical_rows


def _are_alike(one: Part, other: Part) -> bool:
    """Whether another part can be read together with a small one: their files have the same columns."""
    if not _is_small(other):
        return False
    (a,), (b,) = one.fragment.files, other.fragment.files
    return (a.fields, a.column_indices, a.version) == (b.fields, b.column_indices, b.version)


class SmallFragments:
    """The rows of the fragments of parts (see `runs`), one after the other, read as `FragmentReader` reads those of one fragment.

    `pace` has the number of fragments that are decoded together, by the columns that are read. Nothing tells how large the values of a
    small file are, so that it grows step by step. The runs of a task share it.
    """

    def __init__(self, parts: Sequence[Part], readers: Sequence[FragmentReader], pace: dict[Projection, int]) -> None:
        self._parts, self._readers, self._pace = parts, readers, pace
        self._ends: list[int] = np.cumsum([part.num_rows for part in parts]).tolist()
        self.num_rows = self._ends[-1]

    def read(self, positions: Rows, columns: Projection, batch_rows: int, with_dictionaries: bool = False) -> Iterator[pa.RecordBatch]:
        """See `FragmentReader.read`. Batches have no dictionaries, which so few rows would not repeat."""
        if [field.id for field in columns.schema.fields] == [ROW_ADDRESS]:
            yield from self._addresses(positions, columns, batch_rows)
            return
        whole, done = len(positions) == self.num_rows <= batch_rows, 0
        while done < len(self._parts):
            count = min(self._pace.setdefault(columns, _FIRST), len(self._parts) - done) if whole else len(self._parts)
            some = range(done, done + count)
            together = self._together(some, columns) if whole and count > 1 else None
            if together is None:
                yield from self._alone(some, positions, columns, batch_rows)
            else:
                fitting = max(1, _BATCH_BYTES * count // max(1, together.nbytes))
                self._pace[columns] = min(fitting, _STEP * self._pace[columns], _MOST)
                first = self._start(done)
                for i in some[::fitting]:
                    start, stop = self._start(i), self._ends[min(i + fitting, some.stop) - 1]
                    yield together.slice(start - first, stop - start)
            done += count

    def _start(self, number: int) -> int:
        """The position of the first row of the fragment with this number."""
        return self._ends[number] - self._parts[number].num_rows

    def prune_pages(
        self, positions: range, field: Field, may_match: Callable[[pa.Array | Bounds], bool], only_bounds: bool = False
    ) -> spans.Spans | None:
        """Nothing is pruned: to read these pages takes less time than their statistics do."""
        return None

    def _addresses(self, positions: Rows, columns: Projection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The addresses of the rows at `positions`, which follow from the places of the fragments."""
        # What is added to the position of a row of each fragment; it may be below 0, as numbers of 64 bits are.
        firsts = np.array([part.fragment.id << 32 for part in self._parts], np.uint64)
        firsts -= np.array([self._start(i) for i in range(len(self._parts))], np.uint64)
        for start in range(0, len(positions), batch_rows):
            some = np.asarray(positions[start : start + batch_rows])
            addresses = some.astype(np.uint64) + firsts[np.searchsorted(self._ends, some, side="right")]
            yield pa.RecordBatch.from_arrays([pa.array(addresses)], schema=columns.target)

    def _together(self, some: range, columns: Projection) -> pa.RecordBatch | None:
        """All rows of some fragments; None if something is damaged or unknown, which is reported when its fragment is read alone."""
        stored = columns.stored(self._parts[0].fragment.files, lambda: ())
        parts: dict[int, pa.Array] = {}
        try:
            for _, fields, places in stored.in_files:
                files = FragmentReader.open_only_files(self._readers)[some.start : some.stop]
                parts = dict(zip([f.id for f in fields], read_together(files, fields, places)))
        except (CorruptFileError, UnsupportedFeatureError, StorageError):
            return None
        arrays, count = [], self._ends[some.stop - 1] - self._start(some.start)
        for field, t in columns.shown:
            if field.id in ROW_COLUMN_IDS:
                arrays.append(joined([self._readers[i].calculated(field, t, range(self._parts[i].num_rows)) for i in some]))
            else:
                arrays.append(projected(parts.get(field.id), field, t, count))
        return pa.RecordBatch.from_arrays(arrays, schema=columns.target)

    def _alone(self, some: range, positions: Rows, columns: Projection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Those of the rows at `positions` that are in some fragments, fragment by fragment."""
        for i in some:
            start, end = self._start(i), self._ends[i]
            if isinstance(positions, range):
                own: Rows = range(max(positions.start - start, 0), min(positions.stop, end) - start)
            else:
                own = positions[slice(*np.searchsorted(positions, [start, end]))] - start
            if len(own):
                yield from self._readers[i].read(own, columns, batch_rows)
