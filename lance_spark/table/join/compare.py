"""Comparing the questions of a group with its partitions, each of which is read once for many questions, or with the rows of its scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.arrow.packed import packed, unpacked
from lance_spark.errors import CorruptFileError
from lance_spark.index.damaged import DamagedSegmentError
from lance_spark.index.vector.neighbors import Neighbors
from lance_spark.table.join.plan import NearestJoin
from lance_spark.table.search.brute_force import nearest_of_task
from lance_spark.table.search.segments import PairsTask, nearest_of_pairs

_QUESTION_BYTES = 32 << 20
_FOUND_BYTES = 32 << 20
"""The vectors of the questions that are compared at once, and the rows found for them, take at most so many bytes."""
_ROW_BYTES = 24
"""Of a row that is found: its address and its distance, twice while they are packed."""
_PIECE_ROWS = 1 << 8
"""So many rows of a question are sent as one value at most: Spark makes batches of thousands of values."""


@dataclass(frozen=True)
class Found:
    """Rows found for questions: the numbers of questions in the order they came in, each several times, with packed rows.

    `distances` (float32) and `rows` (addresses, uint64) are binary values. `estimated`: the distances are those of an index.
    """

    questions: np.ndarray
    distances: pa.Array
    rows: pa.Array
    estimated: bool


def questions_at_once(join: NearestJoin) -> int:
    """How many questions are compared at once in bounded memory."""
    room = max(join.room if join.segments else 0, join.nearest.k if join.scans else 0, 1)
    return max(min(_QUESTION_BYTES // max(join.nearest.queries[:1].nbytes, 1), _FOUND_BYTES // (_ROW_BYTES * room)), 1)


def compared(join: NearestJoin, group: int, queries: np.ndarray, partitions: pa.Array) -> Iterator[Found]:
    """The nearest rows in a group for each query. `partitions` are those of `Probes`."""
    nearest = replace(join.nearest, queries=queries, many=True)
    if group >= join.first_scan:
        of_each = nearest_of_task(nearest, join.metric, nearest.k, join.scans[group - join.first_scan])
        numbers = np.repeat(np.arange(len(queries)), [len(rows) for _, rows in of_each])
        distances, rows = (np.concatenate(parts) for parts in zip(*of_each))
        yield _packed(Neighbors(numbers, distances, rows), False)
        return
    codes, counts = unpacked(partitions, np.int64)
    of = np.repeat(np.arange(len(queries)), counts)
    for number, segment in enumerate(join.segments):
        own = np.flatnonzero(codes >> 32 == number)
        if not len(own):
            continue
        # The nearest partitions of all queries come first: then few rows of the others are among the nearest ones that are found so far.
        is_first = np.diff(of[own], prepend=-1).astype(np.bool_)
        own = own[np.lexsort((codes[own], ~is_first))]
        numbers = codes[own] & 0xFFFFFFFF
        task = PairsTask(join.version, segment, nearest, join.wanted, numbers, of[own], join.allowed, join.room)
        try:
            found = nearest_of_pairs(task)
        except DamagedSegmentError as e:
            raise CorruptFileError(f"{e}; join without the index (use_index=False), and make it again") from e
        yield _packed(found, True)


def _packed(found: Neighbors, estimated: bool) -> Found:
    """The rows of each query, which are together, as values of at most `_PIECE_ROWS`."""
    pieces = np.flatnonzero(found.ranks() % _PIECE_ROWS == 0)
    ends = np.append(pieces, len(found))
    return Found(found.queries[pieces], packed(found.distances, ends), packed(found.addresses, ends), estimated)
