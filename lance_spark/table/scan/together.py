"""Fragments that are read together, as if they were one: whole small ones, and those in which an index found a few rows.

What a fragment costs by itself is then more than its rows: opening its file, decoding a page of each column, evaluating the predicate, and
building a batch. A table that is appended to often has thousands of small fragments; and a look-up that waits for one fragment after the
other is slow, most of all in a remote store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import UNREADABLE
from lance_spark.file.data_file import read_together
from lance_spark.file.held_file import HeldFile
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.metadata.fragment import TAIL
from lance_spark.metadata.row_columns import ROW_ADDRESS
from lance_spark.predicate.bounds import Bounds
from lance_spark.reading import spans
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Field
from lance_spark.schema.storage_version import V2_1
from lance_spark.table.scan.fragment_reader import FragmentReader, batch_of, read_few
from lance_spark.table.scan.parts import Part
from lance_spark.table.scan.projection import Projection

FEW = 1 << 8
"""So few rows that an index found in a fragment are read with all columns before the predicate is checked, and with those of others."""

_VALUES = 1 << 14
"""Few values that are read together: each may take a chunk of some kilobytes."""

_MOST = 64
"""Fragments that are read together: what they have in common costs little then, and their files take a few megabytes of memory."""

_FIRST, _STEP = 4, 4
"""Fragments that are decoded together at first, and how many times as many may be the next ones."""

_BATCH_BYTES = 512 << 10
"""Bytes of values from which on what a fragment costs by itself does not count."""


def runs(parts: Iterable[Part], most_rows: int) -> Iterator[list[Part]]:
    """The parts in order: those that can be read together in one list, at most `most_rows` of their rows; all others alone."""
    run: list[Part] = []
    likeness: Hashable = None
    rows = 0
    for part in parts:
        own = _likeness(part)
        if run and (own is None or own != likeness or len(run) == _MOST or rows + part.num_rows > most_rows):
            yield run
            run, rows = [], 0
        if own is None:
            yield [part]
            continue
        likeness = own
        run.append(part)
        rows += part.num_rows
    if run:
        yield run


def _likeness(part: Part) -> Hashable:
    """What parts that are read together have in common: the columns of their files. None if a part is read alone."""
    if not (_is_small(part) if part.found is None else _has_few_rows(part)):
        return None
    return part.found is None, part.exact, *((file.fields, file.column_indices, file.version) for file in part.fragment.files)


def _is_small(part: Part) -> bool:
    """Whether all rows of a fragment are read, which has nothing but one file that is read as a whole when it is opened."""
    fragment = part.fragment
    if fragment.deletion is not None or fragment.overlays or len(fragment.files) != 1:
        return False
    (file,) = fragment.files
    is_small = file.size is not None and file.size <= TAIL and file.storage_version >= V2_1 and not isinstance(file, HeldFile)
    return is_small and part.start == 0 and part.stop == fragment.physical_rows


def _has_few_rows(part: Part) -> bool:
    """Whether an index found few rows of a fragment, which `FewRows` reads."""
    if part.num_rows > FEW or part.fragment.overlays:
        return False
    return all(file.storage_version >= V2_1 and not isinstance(file, HeldFile) for file in part.fragment.files)


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
        parts: dict[int, pa.Array] = {}
        try:
            for _, fields, places in self._readers[0].stored(columns).in_files:
                files = FragmentReader.open_only_files(self._readers)[some.start : some.stop]
                parts = dict(zip([f.id for f in fields], read_together(files, fields, places)))
        except UNREADABLE:
            return None
        readers = [self._readers[i] for i in some]
        rows = [range(self._parts[i].num_rows) for i in some]
        return batch_of(readers, rows, columns, parts)

    def _alone(self, some: range, positions: Rows, columns: Projection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows, among those at `positions`, that are in some fragments, fragment by fragment."""
        for i in some:
            start, end = self._start(i), self._ends[i]
            if isinstance(positions, range):
                own: Rows = range(max(positions.start - start, 0), min(positions.stop, end) - start)
            else:
                own = positions[slice(*np.searchsorted(positions, [start, end]))] - start
            if len(own):
                yield from self._readers[i].read(own, columns, batch_rows)


Found = tuple[FragmentReader, np.ndarray]
"""A fragment, and the offsets of its rows."""


class FewRows:
    """The rows that an index found in the fragments of parts (see `runs`), one after the other, as `FragmentReader` reads those of one."""

    def __init__(self, parts: Sequence[Part], readers: Sequence[FragmentReader]) -> None:
        self._parts, self._readers = parts, readers

    def read(self, columns: Projection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """All of the rows, in batches of at most `batch_rows`. There are no dictionaries, which so few rows would not repeat."""
        found = []
        for part, reader in zip(self._parts, self._readers):
            if part.found is not None:
                found.append((reader, reader.live(offsets_of(part.found))))
        most = 0 if columns.has_blobs else min(batch_rows, _VALUES // max(1, len(columns.schema.fields)))
        for some in _groups(found, most):
            yield from _batches(some, columns, batch_rows)


def _groups(found: Sequence[Found], most: int) -> Iterator[list[Found]]:
    """The readers that have rows, in groups of at most `most` rows, or of one fragment."""
    group: list[Found] = []
    count = 0
    for one in found:
        own = len(one[1])
        if group and count + own > most:
            yield group
            group, count = [], 0
        if own:
            group.append(one)
            count += own
    if group:
        yield group


def _batches(found: Sequence[Found], columns: Projection, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a group: in one batch, or if they may be large, those of each half of the fragments."""
    if len(found) == 1:
        ((reader, rows),) = found
        yield from reader.read(reader.positions_of(rows), columns, batch_rows)
        return
    readers, offsets = [reader for reader, _ in found], [rows for _, rows in found]
    try:
        parts = read_few(readers, offsets, columns)
        batch = None if parts is None else batch_of(readers, offsets, columns, parts)
    except UNREADABLE:
        # Who reads the fragment alone names what is damaged or unknown.
        halves = [[one] for one in found]
    else:
        if batch is not None:
            yield batch
            return
        halves = [list(found[: len(found) // 2]), list(found[len(found) // 2 :])]
    for half in halves:
        yield from _batches(half, columns, batch_rows)
