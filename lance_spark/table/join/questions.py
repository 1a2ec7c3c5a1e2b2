"""The questions of a nearest join, and the partitions that each of them searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.arrow.packed import packed
from lance_spark.errors import InvalidOptionError
from lance_spark.index.vector.distances import computed_in
from lance_spark.index.vector.vectors import ELEMENTS
from lance_spark.table.join.plan import NearestJoin
from lance_spark.table.search.segments import open_segment

_AT_ONCE_BYTES = 16 << 20
"""Questions are sent to their groups in batches of about so many bytes."""


@dataclass(frozen=True)
class Probes:
    """Questions for groups: the numbers of the groups and of the questions, and the partitions that are searched for each pair.

    These are int64: the number of the segment in the upper half, that of the partition in the lower one, the nearest partition of a segment
    first. For scans, there are none.
    """

    groups: np.ndarray
    questions: np.ndarray
    partitions: pa.Array


def question_vectors(join: NearestJoin, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The vectors in a column of lists of floats, as they are compared, and a mask of the rows that have one.

    Null vectors, those with null, NaN or infinity in them are none. Raises InvalidOptionError for other dimensions, and for numbers that
    a column of integers cannot have.
    """
    vectors = join.nearest.field.type
    size, name = vectors.list_size, ".".join(join.nearest.path)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.diff(column.offsets.to_numpy())
    if len(wrong := lengths[valid & (lengths != size)]):
        raise InvalidOptionError(f"a question has {wrong[0]} dimensions, but the vectors of column {name!r} have {size}")
    items = column.filter(pa.array(valid)).flatten()
    numbers = items.to_numpy(zero_copy_only=False).reshape(-1, size)  # nulls are NaN
    dtype = ELEMENTS[vectors.value_type]
    whole = np.isfinite(numbers).all(axis=1)
    if dtype.kind in "iu":
        limits, own = np.iinfo(dtype), numbers[whole]
        if (own != np.trunc(own)).any() or own.min(initial=0) < limits.min or own.max(initial=0) > limits.max:
            raise InvalidOptionError(f"questions for column {name!r} must have integers from {limits.min} to {limits.max}, as its vectors")
    with np.errstate(all="ignore"):
        stored = numbers.astype(dtype)  # vectors are compared with what the column could store
    if dtype.kind == "f":
        whole &= np.isfinite(stored).all(axis=1)
    found = np.zeros((len(column), size), computed_in(dtype))
    asked = np.flatnonzero(valid)[whole]
    found[asked] = stored[whole]
    mask = np.zeros(len(column), np.bool_)
    mask[asked] = True
    return found, mask


def probes(join: NearestJoin, queries: np.ndarray) -> Iterator[Probes]:
    """Where each of the queries is searched for."""
    segments = [open_segment(join.version.snapshot, segment, join.nearest) for segment in join.segments]
    chosen = sum(s.first_probes(join.nearest)[1] for s in segments)
    copies = min(chosen, join.first_scan) + len(join.scans)
    at_once = max(_AT_ONCE_BYTES // max(copies * queries[:1].nbytes + chosen * 8, 1), 1)
    for start in range(0, len(queries), at_once):
        some = queries[start : start + at_once]
        of, group, code = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number, (searched, groups) in enumerate(zip(segments, join.groups)):
            asked, partitions = searched.first_pairs(join.nearest, some)
            of.append(asked)
            group.append(groups[partitions])
            code.append(partitions | number << 32)
        yield _sent(join, len(some), start, *(np.concatenate(parts) for parts in (of, group, code)))


def _sent(join: NearestJoin, queries: int, first: int, of: np.ndarray, group: np.ndarray, code: np.ndarray) -> Probes:
    """The probes for triples of a query, a group and a partition, and for all scans. `first` is the number of the first query."""
    order = np.lexsort((group, of))  # leaves the partitions of a segment as they are
    of, group, code = of[order], group[order], code[order]
    begins = np.flatnonzero(np.diff(of, prepend=-1).astype(np.bool_) | np.diff(group, prepend=-1).astype(np.bool_))
    ends = np.append(begins, len(of))
    scans = np.arange(join.first_scan, join.group_count)
    partitions = packed(code, np.concatenate([ends, np.full(queries * len(scans), ends[-1])]))
    questions = first + np.concatenate([of[begins], np.repeat(np.arange(queries), len(scans))])
    return Probes(np.concatenate([group[begins], np.tile(scans, queries)]), questions, partitions)
