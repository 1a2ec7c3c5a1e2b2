"""Parts of a scan: some rows of one fragment, all or those that an index found; and what the manifest tells of fragments' rows."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, overload

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.index.answer import Answer
from lance_spark.metadata.bitmaps import bitmap_of, offsets_of
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.lazy_fragments import Fragments
from lance_spark.metadata.locations import Locations
from lance_spark.predicate import Predicate
from lance_spark.predicate.one_column import over_values, without_not
from lance_spark.predicate.page_bounds import PageBounds, pages_that_may_hold
from lance_spark.predicate.tree import And, Column, walk
from lance_spark.table.scan.fragment_reader import count_rows
from lance_spark.table.versions.snapshot import Snapshot

_FEW_IDS = 4
_ADDRESSES = {("_rowaddr",), ("_rowid",), ("_fragid",)}


@dataclass(frozen=True)
class Part:
    """Some rows of a fragment: positions `start` to `stop` (exclusive) among the rows that are not deleted.

    With `found`, among the rows that an index found instead, by their offsets: deleted ones may be among them.
    If `exact`, all of these satisfy the predicate. `first_row` is the number of the fragment's first row in the table, None if unknown.
    """

    fragment: Fragment
    start: int
    stop: int
    found: BitMap | None = None
    exact: bool = False
    first_row: int | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.stop - self.start


class Parts(Sequence[Part]):
    """Parts of one table as columns, since a scan may have a million: a fragment is parsed when its part is asked for.

    `firsts` are the `first_row` of each part (None: all unknown). `found` has the rows that an index found, by the place of the part.
    """

    def __init__(
        self,
        fragments: Fragments,
        starts: np.ndarray,
        stops: np.ndarray,
        firsts: np.ndarray | None = None,
        found: Mapping[int, BitMap] = MappingProxyType({}),
        exact: np.ndarray | None = None,
    ) -> None:
        self.fragments = fragments
        self.starts = starts
        self.stops = stops
        self.firsts = firsts
        self.found = found
        self.exact = np.zeros(len(starts), np.bool_) if exact is None else exact

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Parts:
        """The same parts as columns."""
        if isinstance(parts, Parts):
            return parts
        bounds = np.array([(part.start, part.stop) for part in parts], np.int64)
        starts, stops = bounds.reshape(-1, 2).T
        firsts = np.array([-1 if part.first_row is None else part.first_row for part in parts], np.int64)
        found = {i: part.found for i, part in enumerate(parts) if part.found is not None}
        exact = np.array([part.exact for part in parts], np.bool_)
        return cls(Fragments(part.fragment for part in parts), starts, stops, firsts if (firsts >= 0).all() else None, found, exact)

    @classmethod
    def whole(cls, fragments: Fragments, rows: np.ndarray, firsts: np.ndarray | None = None) -> Parts:
        """All `rows` of each fragment."""
        return cls(fragments, np.zeros(len(rows), np.int64), rows, firsts)

    @property
    def rows(self) -> np.ndarray:
        """The number of rows of each part."""
        rows: np.ndarray = self.stops - self.starts
        return rows

    @property
    def num_rows(self) -> int:
        """The number of rows of all parts."""
        return int(self.rows.sum())

    def chosen(self, places: np.ndarray | slice, starts: np.ndarray | None = None, stops: np.ndarray | None = None) -> Parts:
        """The parts at these places, or those rows of them that are from `starts` to `stops`."""
        numbers = (range(len(self))[places] if isinstance(places, slice) else places.tolist()) if self.found else ()
        found = {i: self.found[place] for i, place in enumerate(numbers) if place in self.found}
        starts = self.starts[places] if starts is None else starts
        stops = self.stops[places] if stops is None else stops
        firsts = None if self.firsts is None else self.firsts[places]
        return Parts(self.fragments.chosen(places), starts, stops, firsts, found, self.exact[places])

    def without_firsts(self) -> Parts:
        """The same parts; the number of their first row is not needed."""
        return self if self.firsts is None else Parts(self.fragments, self.starts, self.stops, None, self.found, self.exact)

    def with_found(self, found: Mapping[int, BitMap], stops: np.ndarray, exact: np.ndarray) -> Parts:
        """Parts of the same fragments from their first row on."""
        return Parts(self.fragments, np.zeros(len(stops), np.int64), stops, self.firsts, found, exact)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> Part: ...
    @overload
    def __getitem__(self, index: slice) -> Parts: ...
    def __getitem__(self, index: int | slice) -> Part | Parts:
        if isinstance(index, slice):
            return self.chosen(index)
        i = range(len(self))[index]
        first = None if self.firsts is None else int(self.firsts[i])
        start, stop, exact = int(self.starts[i]), int(self.stops[i]), bool(self.exact[i])
        return Part(self.fragments[i], start, stop, self.found.get(i), exact, first)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def packed(self, start: int, stop: int) -> tuple[Any, ...]:
        """The parts at the places from `start` to `stop` as plain values for `unpacked`. They pickle fast: there may be 100,000 tasks."""
        found = {i - start: rows.serialize() for i, rows in self.found.items() if start <= i < stop}
        firsts = None if self.firsts is None else self.firsts[start:stop].tobytes()
        numbers = (self.starts[start:stop].tobytes(), self.stops[start:stop].tobytes(), firsts)
        return *self.fragments.packed(start, stop), *numbers, found, self.exact[start:stop].tobytes()

    @classmethod
    def unpacked(
        cls,
        name: str,
        fields: bytes,
        held: dict[int, Fragment],
        starts: bytes,
        stops: bytes,
        firsts: bytes | None,
        found: dict[int, bytes],
        exact: bytes,
    ) -> Parts:
        """The parts of `packed`."""
        fragments = Fragments.unpacked(name, fields, held)
        known = None if firsts is None else np.frombuffer(firsts, np.int64)
        rows = {place: BitMap.deserialize(data) for place, data in found.items()}
        bounds = np.frombuffer(starts, np.int64), np.frombuffer(stops, np.int64)
        return cls(fragments, *bounds, known, rows, np.frombuffer(exact, np.bool_))

    def __reduce__(self) -> tuple[Any, ...]:
        return Parts.unpacked, self.packed(0, len(self))


NO_PARTS = Parts.of(())


def live_rows(fragment: Fragment, locations: Locations) -> int:
    """The number of rows in the fragment that are not deleted, from the manifest unless an old writer left it out."""
    deleted = 0 if fragment.deletion is None else fragment.deletion.num_deleted
    if not fragment.physical_rows or deleted is None:
        return count_rows(fragment, locations)
    if deleted > fragment.physical_rows:
        raise CorruptFileError(f"fragment {fragment.id} has {fragment.physical_rows} rows, but {deleted} deleted rows")
    return fragment.physical_rows - deleted


def whole_parts(snapshot: Snapshot) -> Parts:
    """All rows of the version: a part for each fragment with rows."""
    rows = all_live_rows(snapshot)
    chosen = np.flatnonzero(rows)
    return Parts.whole(snapshot.manifest.lazy_fragments.chosen(chosen), rows[chosen])


def all_live_rows(snapshot: Snapshot) -> np.ndarray:
    """`live_rows` of each fragment of the version (int64). Must not be written to."""
    fragments = snapshot.manifest.lazy_fragments
    known = fragments.live_rows
    if known.min(initial=0) < 0:
        unknown, known = np.flatnonzero(known < 0), known.copy()
        known[unknown] = [live_rows(fragments[i], snapshot.locations) for i in unknown.tolist()]
    return known


def live_by_id(snapshot: Snapshot) -> dict[int, int]:
    """`live_rows` of each fragment of the version, by id. No fragment is parsed."""
    return dict(zip(snapshot.manifest.lazy_fragments.ids.tolist(), all_live_rows(snapshot).tolist()))


def may_have(snapshot: Snapshot, predicate: Predicate) -> np.ndarray:
    """For each fragment of the version: whether it may have rows that satisfy the predicate, by their addresses.

    Addresses begin with the id of the fragment, so that nothing is read. Conditions on other columns are not considered.
    """
    root, fragments = without_not(predicate.root), snapshot.manifest.lazy_fragments
    kept = np.ones(len(fragments), np.bool_)
    for condition in root.operands if isinstance(root, And) else (root,):
        columns = {node.path for node in walk(condition) if isinstance(node, Column)}
        if len(columns) == 1 and (bounds := _bounds(snapshot, *columns)) is not None:
            # Whether a condition fails, only the rows show.
            with contextlib.suppress(InvalidOptionError):
                kept &= pages_that_may_hold(over_values(condition), bounds)
    return kept


def _bounds(snapshot: Snapshot, path: tuple[str, ...]) -> PageBounds | None:
    """The bounds of a column in each fragment of the version; None if it is not one that follows from the address of a row."""
    if path not in _ADDRESSES or any(f.name == path[0] for f in snapshot.manifest.schema.fields):
        return None
    ids, physical, _, _ = snapshot.manifest.lazy_fragments.counts.T
    if path == ("_fragid",):
        if ids.max(initial=0) >= 2**31:
            return None
        numbers = pa.array(ids.astype(np.int32))
        return PageBounds(numbers, numbers)
    if path == ("_rowid",) and snapshot.manifest.has_stable_row_ids:
        return None
    first = ids.astype(np.uint64) << np.uint64(32)
    # Old manifests do not say how many rows a fragment has: then it may have all addresses of its id.
    sizes = np.where(physical > 0, physical, 2**32).astype(np.uint64)
    return PageBounds(pa.array(first), pa.array(first + sizes - np.uint64(1)))


def are_among(ids: np.ndarray, some: Collection[int]) -> np.ndarray:
    """For each of `ids`: whether it is one of `some`. Few are compared one by one, which takes less time than to begin a search."""
    if len(some) > _FEW_IDS:
        return np.isin(ids, list(some))
    found = np.zeros(len(ids), np.bool_)
    for one in some:
        found |= ids == one
    return found


def left_by(answer: Answer, parts: Parts) -> Parts:
    """The parts, whole fragments, with only the rows that an answer of indexes leaves in them."""
    ids = parts.fragments.ids
    kept = are_among(ids, answer.rows)
    if not kept.all():
        kept |= ~np.isin(ids, offsets_of(answer.covered))
    left = parts if kept.all() else parts.chosen(np.flatnonzero(kept))
    found, stops, exact = {}, left.stops.copy(), left.exact.copy()
    for i, number in enumerate(left.fragments.ids.tolist()):
        if number in answer.covered:
            rows = answer.rows[number]
            found[i], stops[i], exact[i] = rows, len(rows), number in answer.exact
    return left.with_found(found, stops, exact)


def without_deleted(parts: Parts, locations: Locations) -> Parts:
    """The parts without deleted rows among those that an index found."""
    found, stops = dict(parts.found), parts.stops.copy()
    for i in found:
        if (fragment := parts.fragments[i]).deletion is not None:
            found[i] = found[i] - bitmap_of(read_deletions(fragment, locations))
            stops[i] = len(found[i])
    return parts.with_found(found, stops, parts.exact) if found else parts


def with_own_rows(parts: Parts) -> Parts:
    """The parts, without the rows of other parts in `found`."""
    if not parts.found:
        return parts
    found, starts, stops = {}, parts.starts.copy(), parts.stops.copy()
    for i, rows in parts.found.items():
        start, stop = int(starts[i]), int(stops[i])
        found[i] = rows if stop - start == len(rows) else rows[start:stop]
        starts[i], stops[i] = 0, stop - start
    return Parts(parts.fragments, starts, stops, parts.firsts, found, parts.exact)
