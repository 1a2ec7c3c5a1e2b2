"""Parts of a scan: some rows of one fragment, all of them or those that an index found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pyroaring import BitMap

from lance_spark.index.answer import Answer
from lance_spark.metadata.bitmaps import bitmap_of
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import Locations


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
