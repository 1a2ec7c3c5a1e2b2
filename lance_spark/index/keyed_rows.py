"""Rows by key: the distinct values of an index in order, each with the set of its rows, as in BITMAP, LABEL_LIST and NGRAM indexes.

In memory, these are batches with the columns "key" and "rows", a list of row numbers (addresses or row ids, uint64), ascending.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.index.moves import Translation
from lance_spark.index.order import first_of_equals, merged, runs, sort_order, spilled
from lance_spark.index.row_sets import ROW_ADDRESSES, Form, bounds_of, numbers_in, sets_of
from lance_spark.index.target import IndexFileWriter

FILE = "bitmap_page_lookup.lance"
_PIECE_NUMBERS = 4 << 20
_BATCH_KEYS = 16 << 10
"""Row numbers (32 MiB) and keys that are in memory at once."""


def batch_of(keys: pa.Array, bounds: np.ndarray, numbers: np.ndarray) -> pa.RecordBatch:
    """Keys with their rows: those of key i are `numbers[bounds[i]:bounds[i + 1]]`, in any order. Keys without rows are left out."""
    first = np.zeros(len(numbers) + 1, np.bool_)
    first[bounds] = True
    first = first[:-1]
    if len(numbers) and not (first[1:] | (numbers[1:] > numbers[:-1])).all():
        bounds, numbers = _ascending(bounds, numbers)
    some = np.diff(bounds) > 0
    if not some.all():
        keys, bounds = keys.filter(pa.array(some)), np.append(bounds[:-1][some], bounds[-1])
    return pa.RecordBatch.from_arrays([keys, sets_of(bounds, numbers)], names=["key", "rows"])


def _ascending(bounds: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sets with their numbers in order, each once."""
    of = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    kept = np.ones(len(numbers), np.bool_)
    kept[1:] = (numbers[1:] != numbers[:-1]) | (of[1:] != of[:-1])
    numbers, of = numbers[kept], of[kept]
    if ((numbers[1:] <= numbers[:-1]) & (of[1:] == of[:-1])).any():
        numbers = numbers[np.lexsort((numbers, of))]
        kept = np.ones(len(numbers), np.bool_)
        kept[1:] = (numbers[1:] != numbers[:-1]) | (of[1:] != of[:-1])
        numbers, of = numbers[kept], of[kept]
    return np.searchsorted(of, np.arange(len(bounds))), numbers


def grouped(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, which are values and numbers, by their values."""
    order = pa.array(sort_order(rows.column(0)))
    values, numbers = rows.column(0).take(order), rows.column(1).take(order).to_numpy()
    starts = np.flatnonzero(first_of_equals(values))
    return batch_of(values.take(pa.array(starts)), np.append(starts, len(values)), numbers)


def collect(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows, which are values and numbers, by their values. If they are many, they are in a temporary file meanwhile."""
    return joined_runs((grouped(run) for run in runs(rows)), ROW_ADDRESSES)


def joined_runs(parts: Iterable[pa.RecordBatch], form: Form) -> Iterator[pa.RecordBatch]:
    """The rows of all parts by key. If there are several, they are in temporary files meanwhile, serialised."""
    rest = iter(parts)
    first, second = next(rest, None), next(rest, None)
    if second is None:
        return iter(() if first is None else (first,))
    stored = [_stored(part, form) for part in (first, second)]
    del first, second
    stored += [_stored(part, form) for part in rest]
    return united([_parsed(batches, form) for batches in stored])


def _stored(part: pa.RecordBatch, form: Form) -> Iterator[pa.RecordBatch]:
    return spilled(pa.RecordBatch.from_arrays([keys, data], names=["key", "rows"]) for keys, data in _serialised(part, form))


def _serialised(part: pa.RecordBatch, form: Form) -> Iterator[tuple[pa.Array, pa.LargeBinaryArray]]:
    """The keys and their serialised rows, some million rows at a time."""
    bounds, at = bounds_of(part.column(1)), 0
    while at < part.num_rows:
        stop = max(at + 1, int(np.searchsorted(bounds, bounds[at] + _PIECE_NUMBERS)) - 1)
        piece = part.slice(at, stop - at)
        yield piece.column(0), form.serialise(piece.column(1))
        at = stop


def _parsed(batches: Iterable[pa.RecordBatch], form: Form) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        at = 0
        for sets in form.parse(batch.column(1), {}, "a temporary file"):
            yield pa.RecordBatch.from_arrays([batch.column(0).slice(at, len(sets)), sets], names=["key", "rows"])
            at += len(sets)


def united(sources: Sequence[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The rows of all sources by key; each has a key once, and the keys in order."""
    for batch in merged(sources) if len(sources) != 1 else sources[0]:
        starts = np.flatnonzero(first_of_equals(batch.column(0)))
        bounds = bounds_of(batch.column(1))[np.append(starts, batch.num_rows)]
        yield batch_of(batch.column(0).take(pa.array(starts)), bounds, numbers_in(batch.column(1)))


def read(files: IndexFiles, file: IndexFile, translation: Translation, form: Form) -> Iterator[pa.RecordBatch]:
    """The file, whose columns are the keys and the serialised rows, with the rows where they are now."""
    for batch in file.batches((0, 1), batch_rows=_BATCH_KEYS):
        at = 0
        for sets in form.parse(batch.column(1), files.fragments, file.path):
            numbers, exist = translation.numbers(numbers_in(sets))
            bounds = np.concatenate([[0], np.cumsum(exist)])[bounds_of(sets)]
            yield batch_of(batch.column(0).slice(at, len(sets)), bounds, numbers[exist])
            at += len(sets)


def schema(key_type: pa.DataType) -> pa.Schema:
    """The columns of a file of BITMAP or LABEL_LIST."""
    return pa.schema([pa.field("keys", key_type), pa.field("bitmaps", pa.binary())])


def write(out: IndexFileWriter, rows: Iterable[pa.RecordBatch], form: Form = ROW_ADDRESSES) -> int:
    """Write the keys and their rows; returns the number of keys."""
    count = 0
    for batch in rows:
        for keys, data in _serialised(batch, form):
            out.put(keys, data.cast(pa.binary()))
            count += len(keys)
    return count


def write_bitmaps(out: IndexFileWriter, rows: Iterable[pa.RecordBatch]) -> None:
    """Write a file of BITMAP or LABEL_LIST."""
    out.metadata["lance:index_stats"] = json.dumps({"num_bitmaps": write(out, rows)})
