"""Parts of a scan: some rows of one fragment, all of them or those that an index found; and how many rows fragments have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Answer
from lance_spark.metadata.bitmaps import bitmap_of
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.table.scan.fragment_reader import count_rows
from lance_spark.table.versions.snapshot import Snapshot


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
