"""LABEL_LIST: the rows whose list contains an item, for each distinct item; the null key has the rows with a null item.

The file is that of `keyed_rows`, with the RowAddrTreeMap of the rows whose list is null in global buffer 1. Empty lists are nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError
from lance_spark.index import keyed_rows
from lance_spark.index.answer import Found, Rows, intersection, of_numbers, union
from lance_spark.index.files import IndexFile, IndexFiles, bitmaps, plain_type
from lance_spark.index.keyed_rows import FILE
from lance_spark.index.moves import Translation
from lance_spark.index.row_sets import ROW_ADDRESSES, parse_row_addresses, serialise_row_addresses
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.predicate.compare import as_seen, equals_one_of, plain
from lance_spark.predicate.tree import And, Call, Column, Expression, IsNull, Literal, Or

VERSION = 1
_NULL_LISTS = "lance:label_list_nulls"


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows whose lists contain the items that the condition asks for; exact unless only a part of the condition is known."""
    match condition:
        case And(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            if not parts:
                return None
            return Found(intersection([p.rows for p in parts]), len(parts) == len(operands) and all(p.exact for p in parts))
        case Or(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            return Found(union(p.rows for p in parts), all(p.exact for p in parts)) if len(parts) == len(operands) else None
        case IsNull(operand) if operand == column:
            nulls = _null_lists(files, files.open(FILE))
            return None if nulls is None else Found(nulls, exact=True)
        case Call("array_contains", (lists, Literal(value, t))) if lists == column:
            return _found(files, [] if value is None else [[value]], t)
        case Call("arrays_overlap" | "array_has_any", (lists, Literal(values, t))) if lists == column:
            return _found(files, [[v for v in values or () if v is not None]], t.value_type)
        case Call("array_has_all", (lists, Literal(values, t))) if lists == column and values:
            return _found(files, [[v] for v in values], t.value_type)
        case _:
            return None


def _found(files: IndexFiles, wanted: Sequence[Sequence[object]], t: pa.DataType) -> Found:
    """The rows with one item of each list of `wanted`; none if there are no lists. `t` is the type in which items are compared."""
    file = files.open(FILE)
    keys = files.cached("keys", lambda: _keys(files, file), lambda a: a.nbytes)
    seen = as_seen(plain(keys), t)
    sets = []
    for values in wanted:
        same = pc.fill_null(equals_one_of(seen, pa.array(values, t, from_pandas=False)), False)
        positions = np.flatnonzero(same.to_numpy(zero_copy_only=False))
        data = bitmaps(file.read(["bitmaps"], positions).column(0), file.path) if len(positions) else []
        sets.append(union(parse_row_addresses(d, files.fragments, file.path) for d in data))
    return Found(intersection(sets), exact=True)


def _keys(files: IndexFiles, file: IndexFile) -> pa.Array:
    """The distinct items."""
    found, expected = file.schema.types, _item_type(files.indexed.type)
    if len(found) != 2 or plain_type(found[0]) != plain_type(expected) or found[1] != pa.binary():
        raise CorruptFileError(f"{file.path}: expected keys of {expected} and bitmaps, found columns of {found}")
    return file.read(["keys"]).column(0)


def _null_lists(files: IndexFiles, file: IndexFile) -> Rows | None:
    return parse_row_addresses(file.buffer(_NULL_LISTS), files.fragments, file.path) if _NULL_LISTS in file.metadata else None


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, whose values are lists."""
    nulls: list[Rows] = []
    return _written(target, keyed_rows.collect(_items(rows, nulls)), _item_type(value_type), nulls)


def _items(rows: Iterable[pa.RecordBatch], nulls: list[Rows]) -> Iterator[pa.RecordBatch]:
    """The items of all lists and the row of each; the rows of null lists are added to `nulls`."""
    for batch in rows:
        lists, numbers = batch.column("value"), batch.column("row").to_numpy()
        known = np.asarray(lists.is_valid())
        nulls.append(of_numbers(numbers[~known]))
        sizes = np.where(known, pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), 0)
        yield pa.RecordBatch.from_arrays([plain(pc.list_flatten(lists)), pa.array(np.repeat(numbers, sizes))], names=["value", "row"])


def _item_type(t: pa.DataType) -> pa.DataType:
    return t.value_type.value_type if pa.types.is_dictionary(t.value_type) else t.value_type


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the rows of all sources that still exist."""
    opened = [(files, files.open(FILE), translation) for files, translation in sources]
    nulls = [(_null_lists(files, file), translation) for files, file, translation in opened]
    known = [translation.rows(found) for found, translation in nulls if found is not None]
    rows = keyed_rows.united([keyed_rows.read(*source, ROW_ADDRESSES) for source in opened])
    return _written(target, rows, opened[0][1].schema[0].type, known if len(known) == len(nulls) else None)


def _written(target: IndexTarget, rows: Iterable[pa.RecordBatch], key_type: pa.DataType, nulls: Sequence[Rows] | None) -> Trained:
    """Write the file. `nulls` are complete when all `rows` have been taken."""
    with target.create(FILE, keyed_rows.schema(key_type)) as out:
        keyed_rows.write_bitmaps(out, rows)
        if nulls is not None:
            out.attach(_NULL_LISTS, serialise_row_addresses({f: found for f, found in union(nulls).items() if found}))
    return target.trained(b"", VERSION)
