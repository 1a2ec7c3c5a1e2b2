"""The order of values in indexes: nulls first, then ascending.

Floats are in IEEE 754's total order, as in pylance: -0.0 is before 0.0, a NaN with a sign before all numbers, and any other NaN after them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_spark.arrow.selection import joined
from lance_spark.arrow.texts import bytes_of
from lance_spark.arrow.types import is_bytes
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U
from lance_spark.predicate.compare import plain

_BITS = {16: np.int16, 32: np.int32, 64: np.int64}
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_SAMPLE = 1 << 16
_MOST_STEPS = 4
_BATCH_ROWS = 256 << 10

RUN_BYTES = 256 << 20
"""Bytes of values and numbers that are sorted in memory."""


def sort_order(values: pa.Array) -> np.ndarray:
    """The positions of the values in order; equal values stay as they are."""
    if not values.null_count:
        return _sort_order(values)
    known = np.flatnonzero(np.asarray(values.is_valid()))
    nulls = np.flatnonzero(np.asarray(values.is_null()))
    return np.concatenate([nulls, known[_sort_order(values.drop_null())]])


def _sort_order(values: pa.Array) -> np.ndarray:
    """As `sort_order`, without nulls."""
    keys = _integers(values)
    if keys is None and len(values) > _SAMPLE:
        if _has_repeats(values):
            encoded = values.dictionary_encode()
            places: np.ndarray = np.argsort(_sort_order(encoded.dictionary))
            keys = places[np.asarray(encoded.indices)]
        elif is_bytes(values.type):
            return _text_order(values)
    if keys is None:
        return _arrow_order(values)
    if not len(keys):
        return np.empty(0, np.int64)
    distances = keys.astype(np.uint64) - np.array(keys.min()).astype(np.uint64)
    if int(distances.max()).bit_length() + (len(keys) - 1).bit_length() <= 64:
        return _packed_order(distances)
    # By the lower halves first: the sort by the upper halves keeps their order.
    by_lower = _packed_order(distances & _LOWER)
    order: np.ndarray = by_lower[_packed_order((distances >> _HALF)[by_lower])]
    return order


def _arrow_order(values: pa.Array) -> np.ndarray:
    positions: np.ndarray = pc.sort_indices(values).to_numpy()
    return positions.astype(np.int64)


def _has_repeats(values: pa.Array) -> bool:
    """Whether the values seem to be much fewer than the rows."""
    sample = values.take(pa.array(np.linspace(0, len(values) - 1, _SAMPLE, dtype=np.int64)))
    return len(sample.unique()) < 0.95 * _SAMPLE


def _packed_order(keys: np.ndarray) -> np.ndarray:
    """The positions in order of the keys, which fit in 64 bits with a position. Plain numbers are sorted much faster than positions."""
    bits = np.uint64((len(keys) - 1).bit_length())
    packed = (keys << bits) | np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    return (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)


def _text_order(texts: pa.Array) -> np.ndarray:
    """As `_sort_order` for texts or bytes: by 8 bytes at a time; the few that are still equal then are compared."""
    data, bounds = bytes_of(texts)
    skipped = _common_prefix(texts)
    order, tied = np.arange(len(texts)), np.arange(len(texts))
    groups = np.zeros(len(texts), np.uint64)
    for step in range(_MOST_STEPS):
        rows = order[tied]
        words, left = np.empty(len(rows), np.uint64), np.empty(len(rows), np.uint64)
        _next_bytes(data, bounds, rows, skipped + 8 * step, words, left)
        by_word = _packed_order((words & _LOWER) << np.uint64(4) | left)
        by_word = by_word[_packed_order((words >> _HALF)[by_word])]
        if step:
            by_word = by_word[_packed_order(groups[by_word])]
        order[tied] = rows[by_word]
        words, left, groups = words[by_word], left[by_word], groups[by_word]
        differ = np.ones(len(rows) + 1, np.bool_)
        differ[1:-1] = (words[1:] != words[:-1]) | (left[1:] != left[:-1]) | (groups[1:] != groups[:-1]) | (left[1:] <= np.uint64(8))
        same = ~(differ[1:] & differ[:-1])
        groups, tied = np.cumsum(differ[:-1])[same].astype(np.uint64), tied[same]
        if not len(tied):
            return order
    order[tied] = order[tied][_arrow_order(texts.take(pa.array(order[tied])))]
    return order


def _common_prefix(texts: pa.Array) -> int:
    """The number of bytes with which all texts begin."""
    first, last = pc.min_max(texts.cast(pa.large_binary())).as_py().values()
    return next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))


@kernel
def _next_bytes(data: np.ndarray, bounds: np.ndarray, rows: np.ndarray, skipped: int, words: np.ndarray, left: np.ndarray) -> None:
    """Store the 8 bytes of each of the texts `rows` after those `skipped`, as a number in their order, and how many are left, at most 9."""
    for i in range(len(rows)):
        at, stop = U(bounds[rows[i]] + skipped), U(bounds[rows[i] + 1])
        word, count = U(0), U(0)
        while count < U(8) and at < stop:
            word |= U(data[at]) << (U(56) - count * U(8))
            at += U(1)
            count += U(1)
        words[i] = word
        left[i] = count + U(1) if at < stop else count


def _integers(values: pa.Array) -> np.ndarray | None:
    """Integers in the order of the values, which have no nulls; None for types that are not as simple."""
    t = values.type
    if types.is_floating(t):
        return _keys(values)
    if types.is_boolean(t):
        return np.asarray(values.cast(pa.uint8()))
    if types.is_temporal(t) and not types.is_interval(t):
        return np.asarray(values.view(pa.int64() if t.bit_width == 64 else pa.int32()))
    return np.asarray(values) if types.is_integer(t) else None


def is_ascending(values: pa.Array) -> bool:
    """Whether the values are in order, nulls first. The zeros of floats may be in any order."""
    nulls = values.null_count
    if nulls and values.slice(0, nulls).null_count != nulls:
        return False
    known = plain(values.slice(nulls))
    if types.is_floating(known.type):
        known = pa.array(known.to_numpy(zero_copy_only=False) + known.type.to_pandas_dtype()(0), known.type, from_pandas=False)
    keys = _integers(known)
    if keys is not None:
        return bool((keys[1:] >= keys[:-1]).all())
    return bool(pc.all(pc.less_equal(known[:-1], known[1:]), min_count=0).as_py())


def first_of_equals(values: pa.Array) -> np.ndarray:
    """For each of the values, which are in order: whether the one before it is another value."""
    first = np.ones(len(values), np.bool_)
    if len(values) > 1:
        null = np.asarray(values.is_null())
        plain = pa.array(_keys(values)) if types.is_floating(values.type) else values
        differ = pc.fill_null(pc.not_equal(plain[1:], plain[:-1]), False).to_numpy(zero_copy_only=False)
        first[1:] = np.where(null[1:] | null[:-1], null[1:] != null[:-1], differ)
    return first


def _keys(values: pa.Array) -> np.ndarray:
    """Integers in the order of the floats."""
    numbers = values.fill_null(np.array(0, values.type.to_pandas_dtype())[()]).to_numpy(zero_copy_only=False)
    bits = numbers.view(_BITS[values.type.bit_width])
    mask = bits.dtype.type(np.iinfo(bits.dtype).max)
    keys: np.ndarray = np.where(bits < 0, bits ^ mask, bits)
    return keys


def merged(sources: Sequence[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The rows of all sources, each of which is in order of its first column, in that order; a batch of each is in memory.

    If each source has each value once, all rows with a value are in one batch. Raises CorruptFileError if a source is not in order.
    """
    streams = [iter(source) for source in sources]
    waiting: list[pa.RecordBatch | None] = [None] * len(streams)
    last: pa.Array | None = None
    while True:
        for i, stream in enumerate(streams):
            if waiting[i] is None:
                waiting[i] = next((batch for batch in stream if batch.num_rows), None)
        ends = {i: batch.column(0).slice(batch.num_rows - 1) for i, batch in enumerate(waiting) if batch is not None}
        if not ends:
            return
        # No row that is still to be read comes before the last one of its source's batch.
        lowest = list(ends)[int(sort_order(joined(list(ends.values())))[0])]
        taken = []
        for i in ends:
            batch = waiting[i]
            assert batch is not None
            count = batch.num_rows if i == lowest else _up_to(batch.column(0), ends[lowest])
            taken.append(batch.slice(0, count))
            waiting[i] = batch.slice(count) if count < batch.num_rows else None
        rows = _whole(taken)
        if len(taken) > 1:
            rows = rows.take(pa.array(sort_order(rows.column(0))))
        if last is not None and not _in_order(last, rows.column(0).slice(0, 1)):
            raise CorruptFileError("the values of an index are not in order; build the index again")
        last = rows.column(0).slice(rows.num_rows - 1)
        yield rows


def _up_to(values: pa.Array, bound: pa.Array) -> int:
    """How many of the values, which are in order, are not after the only one of `bound`."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if _in_order(values.slice(middle, 1), bound):
            low = middle + 1
        else:
            high = middle
    return low


def _in_order(first: pa.Array, second: pa.Array) -> bool:
    """Whether the only value of `first` is not after that of `second`."""
    return int(sort_order(joined([first, second]))[0]) == 0


def runs(rows: Iterable[pa.RecordBatch], most_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
    """The same rows in large batches of at most `most_bytes` (None: `RUN_BYTES`), or of one of the given batches."""
    most_bytes = RUN_BYTES if most_bytes is None else most_bytes
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if waiting and size + batch.nbytes > most_bytes:
            run = _whole(waiting)
            waiting, size = [], 0
            yield run
        waiting.append(batch)
        size += batch.nbytes
    if waiting:
        run = _whole(waiting)
        waiting.clear()
        yield run


def _whole(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [joined([b.column(i) for b in batches]) for i in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def spilled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, which are in a temporary file until they are asked for."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  (open until it has been read)
    writer = None
    for batch in batches:
        writer = writer or pa.ipc.new_stream(file, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()
    return _read_back(file)


def _read_back(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    with file:
        file.seek(0)
        yield from pa.ipc.open_stream(file)


def in_order(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in order of their first column. If they are many, they are in temporary files meanwhile."""
    waiting = runs(rows)
    first, second = next(waiting, None), next(waiting, None)
    if first is None:
        return
    if second is None:
        yield from _sorted(first)
        return
    parts = [spilled(_sorted(first)), spilled(_sorted(second))]
    del first, second
    yield from merged([*parts, *(spilled(_sorted(run)) for run in waiting)])


def _sorted(run: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    order = sort_order(run.column(0))
    for start in range(0, len(order), _BATCH_ROWS):
        yield run.take(pa.array(order[start : start + _BATCH_ROWS]))
