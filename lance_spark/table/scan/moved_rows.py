"""Where rows are now whose compaction left the indexes as they were: the fragment reuse index says it.

Implements "Fragment Reuse Index" of the index specification: in each group of fragments that were rewritten together, the rows that
survived, in order, got the addresses of the new fragments laid end to end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Rows, of_numbers, offsets, union
from lance_spark.index.row_sets import parse_treemap
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.build.index_coverage import reuse_history

_WHAT = "the rows of a group of the fragment reuse index"


def moved_rows(rows: Rows, indexes: Sequence[IndexMetadata]) -> Rows:
    """The present addresses of rows that an index names; rows that were deleted before they moved are dropped."""
    for version in reuse_history(tuple(indexes)) or ():
        for group in version.groups:
            if any(f.id in rows for f in group.old_fragments):
                rows = _through(rows, group)
    return rows


def _through(rows: Rows, group: pb.FragmentReuseIndexDetails.Group) -> Rows:
    survivors = parse_treemap(group.changed_row_addrs, _WHAT)
    before, places = 0, [np.empty(0, np.int64)]
    for fragment in group.old_fragments:
        left = survivors.get(fragment.id, BitMap())
        found = rows.get(fragment.id, BitMap()) & left
        places.append(before + np.searchsorted(offsets(left), offsets(found)))
        before += len(left)
    starts = np.cumsum([0, *(f.physical_rows for f in group.new_fragments)])
    if starts[-1] != before:
        raise CorruptFileError(f"{_WHAT}: {before} rows survived, but the new fragments have {starts[-1]} rows")
    moved = np.concatenate(places)
    which = np.searchsorted(starts, moved, side="right") - 1
    ids = np.array([f.id for f in group.new_fragments], dtype=np.uint64)
    old = {f.id for f in group.old_fragments}
    addresses = (ids[which] << np.uint64(32)) + (moved - starts[which]).astype(np.uint64) if len(moved) else np.empty(0, np.uint64)
    return union(({f: found for f, found in rows.items() if f not in old}, of_numbers(addresses)))
