"""Rows by key: a file with the distinct values in order and, for each, a RowAddrTreeMap. BITMAP and LABEL_LIST indexes are such files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.index.answer import Rows, of_numbers, union
from lance_spark.index.files import IndexFiles, bitmaps
from lance_spark.index.moves import Translation
from lance_spark.index.order import first_of_equals, sort_order
from lance_spark.index.row_sets import in_pieces, parse_row_addresses, serialise_row_addresses
from lance_spark.index.target import IndexFileWriter

FILE = "bitmap_page_lookup.lance"
_RUN_BYTES = 64 << 20


@dataclass(frozen=True)
class KeyedRows:
    """Distinct keys in order, and the rows of each."""

    keys: pa.Array
    rows: Sequence[Rows]


def group(values: pa.Array, numbers: np.ndarray) -> KeyedRows:
    """The rows `numbers` (addresses or row ids, uint64) by their values."""
    order = sort_order(values)
    values, numbers = values.take(pa.array(order)), numbers[order]
    starts = np.flatnonzero(first_of_equals(values))
    bounds = [*starts.tolist(), len(values)]
    return KeyedRows(values.take(pa.array(starts)), [of_numbers(numbers[a:b]) for a, b in itertools.pairwise(bounds)])


def collect(rows: Iterable[tuple[pa.Array, np.ndarray]], key_type: pa.DataType) -> KeyedRows:
    """All rows, given as values and numbers (uint64), by their values. The memory grows with the compressed rows, not with their number."""
    done: list[KeyedRows] = []
    waiting: list[tuple[pa.Array, np.ndarray]] = []
    size = 0
    for values, numbers in rows:
        waiting.append((values, numbers))
        size += values.nbytes + numbers.nbytes
        if size >= _RUN_BYTES:
            done.append(_grouped(waiting))
            waiting, size = [], 0
    if waiting:
        done.append(_grouped(waiting))
    return unite(done) if done else KeyedRows(pa.array([], key_type), [])


def _grouped(parts: Sequence[tuple[pa.Array, np.ndarray]]) -> KeyedRows:
    return group(pa.concat_arrays([values for values, _ in parts]), np.concatenate([numbers for _, numbers in parts]))


def unite(parts: Sequence[KeyedRows]) -> KeyedRows:
    """The rows of all parts by key."""
    if len(parts) == 1:
        return parts[0]
    keys = joined([p.keys for p in parts])
    rows = [r for p in parts for r in p.rows]
    order = sort_order(keys)
    keys = keys.take(pa.array(order))
    starts = np.flatnonzero(first_of_equals(keys))
    bounds = [*starts.tolist(), len(keys)]
    return KeyedRows(keys.take(pa.array(starts)), [union(rows[i] for i in order[a:b].tolist()) for a, b in itertools.pairwise(bounds)])


def read(files: IndexFiles, translation: Translation) -> KeyedRows:
    """The whole file, with the rows where they are now."""
    file = files.open(FILE)
    batch = file.read(["keys", "bitmaps"])
    rows = [translation.rows(parse_row_addresses(b, files.fragments, file.path)) for b in bitmaps(batch.column(1), file.path)]
    return KeyedRows(batch.column(0), rows)


def schema(key_type: pa.DataType) -> pa.Schema:
    """The columns of the file."""
    return pa.schema([pa.field("keys", key_type), pa.field("bitmaps", pa.binary())])


def write(out: IndexFileWriter, keyed: KeyedRows) -> None:
    """Write the file. Keys without rows are left out."""
    count = 0
    for positions, data in in_pieces(enumerate(keyed.rows), serialise_row_addresses):
        out.put(keyed.keys.take(pa.array(positions, pa.int64())), pa.array(data, pa.binary()))
        count += len(positions)
    out.metadata["lance:index_stats"] = json.dumps({"num_bitmaps": count})
