"""Parts of a scan: some rows of one fragment, all or those that an index found; and what the manifest tells of fragments' rows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.index.answer import Answer
from lance_spark.metadata.bitmaps import bitmap_of
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.predicate import Predicate
from lance_spark.predicate.one_column import over_values, without_not
from lance_spark.predicate.page_bounds import PageBounds, pages_that_may_hold
from lance_spark.predicate.tree import And, Column, walk
from lance_spark.table.scan.fragment_reader import count_rows
from lance_spark.table.versions.snapshot import Snapshot

_ADDRESSES = {("_rowaddr",), ("_rowid",), ("_fragid",)}


@dataclass(frozen=True)
class Part:
    """Some rows of a fragment: positions `start` to `stop` (exclusive) among the rows that are not deleted.

    With `found`, among the rows that an index found instead: a serialised roaring bitmap of their offsets, deleted ones may be among them.
    If `exact`, all of these satisfy the predicate. `first_row` is the number of the fragment's first row in the table, None if unknown.
    """

    fragment: Fragment
    start: int
    stop: int
    found: bytes | None = None
    exact: bool = False
    first_row: int | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.stop - self.start


def live_rows(fragment: Fragment, locations: Locations) -> int:
    """The number of rows in the fragment that are not deleted, from the manifest unless an old writer left it out."""
    deleted = 0 if fragment.deletion is None else fragment.deletion.num_deleted
    if not fragment.physical_rows or deleted is None:
        return count_rows(fragment, locations)
    if deleted > fragment.physical_rows:
        raise CorruptFileError(f"fragment {fragment.id} has {fragment.physical_rows} rows, but {deleted} deleted rows")
    return fragment.physical_rows - deleted


def all_live_rows(snapshot: Snapshot) -> np.ndarray:
    """`live_rows` of each fragment of the version (int64). Must not be written to."""
    fragments = snapshot.manifest.lazy_fragments
    known = fragments.live_rows
    if len(unknown := np.flatnonzero(known < 0)):
        known = known.copy()
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
        return PageBounds(pa.array(ids.astype(np.int32)), pa.array(ids.astype(np.int32))) if ids.max(initial=0) < 2**31 else None
    if path == ("_rowid",) and snapshot.manifest.has_stable_row_ids:
        return None
    first = ids.astype(np.uint64) << np.uint64(32)
    return PageBounds(pa.array(first), pa.array(first + np.where(physical > 0, physical, 2**32).astype(np.uint64) - np.uint64(1)))


P = TypeVar("P", bound=Part)


def left_by(answer: Answer, parts: Sequence[P]) -> list[P]:
    """The parts, whole fragments, with only the rows that an answer of indexes leaves in them."""
    left = []
    for part in parts:
        fragment = part.fragment.id
        if fragment not in answer.covered:
            left.append(part)
        elif (rows := answer.rows.get(fragment)) is not None:
            left.append(replace(part, stop=len(rows), found=rows.serialize(), exact=fragment in answer.exact))
    return left


def without_deleted(part: Part, locations: Locations) -> Part:
    """The part, whose rows an index found, without deleted rows."""
    if part.fragment.deletion is None or part.found is None:
        return part
    rows = BitMap.deserialize(part.found) - bitmap_of(read_deletions(part.fragment, locations))
    return replace(part, stop=len(rows), found=rows.serialize())


def with_own_rows(part: Part) -> Part:
    """The part, without the rows of other parts in `found`."""
    if part.found is None:
        return part
    rows = BitMap.deserialize(part.found)
    return replace(part, start=0, stop=part.num_rows, found=rows[part.start : part.stop].serialize())
