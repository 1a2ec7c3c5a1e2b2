"""Constant pages: all valid slots hold the same value, or there are no valid slots at all.

Implements "All Null Page Layout" of the file encoding page, with its extensions in 2.2 and 2.3. Buffers: the value, if it is neither in the
message nor absent; then two for repetition and definition levels, which may be empty. No buffers: one layer, all slots alike. A value in a
buffer: u32 number of parts, u32 size of each, and the parts: for variable width the offsets 0 and length, then the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.buffers.blocks import Chunks, Encoding, VariableWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.levels.assemble import Path, nest
from lance_spark.layouts.levels.read import Slots, decode_levels, unravel
from lance_spark.layouts.levels.sparse import MAX_SLOTS, read_structure
from lance_spark.layouts.nodes.page_layouts import Constant, Dense, Sparse
from lance_spark.layouts.values.to_arrow import fixed_width_value, repeat, to_array
from lance_spark.reading import spans
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Page, Steps


def read(layout: Constant, page: Page, path: Path, t: pa.DataType, rows: Spans) -> Steps[tuple[pa.Array, Spans]]:
    """The column `path`, whose leaf is of type `t`: an array with the page's rows `rows` at least, and which rows it has."""
    if page.num_rows >= MAX_SLOTS:
        # No stored bytes limit the rows of such a page.
        raise UnsupportedFeatureError(f"a constant page of {page.num_rows} rows is not supported")
    if pa.types.is_struct(t) and not t.num_fields:
        return _without_fields(path, t, rows), rows
    one: pa.Array | None = None
    rows_read = spans.all_rows(page.num_rows)
    if isinstance(layout.structure, Sparse):
        slots = yield from read_structure(layout.structure, page, page.buffers)
        if layout.value is not None:
            one = fixed_width_value(layout.value, t)
    else:
        buffers = yield page.buffers
        levels = buffers[len(buffers) % 2 :]
        if layout.value is not None:
            one = fixed_width_value(layout.value, t)
        elif len(buffers) % 2:
            one = scalar(buffers[0], t)
        slots, rows_read = _slots(layout, layout.structure, levels, page, rows)
    count = slots[0].count
    if one is None:
        check_bytes(count * (bit_width(t) or 32) / 8, "a page of nulls")
    leaf = pa.nulls(count, t) if one is None else repeat(one, count, slots[0].validity)
    return nest(path, slots, leaf), rows_read


def _without_fields(path: Path, t: pa.DataType, rows: Spans) -> pa.Array:
    """Structs without fields: writers store neither nulls nor lists around them, and one layer for any path."""
    if any(field.logical_type != "struct" for field in path):
        raise UnsupportedFeatureError("structs without fields in lists are not supported")
    count = spans.count(rows)
    return nest(path, tuple(Slots(count, None) for _ in path), pa.Array.from_buffers(t, count, [None]))


def _slots(layout: Constant, structure: Dense, levels: Sequence[Bytes], page: Page, rows: Spans) -> tuple[tuple[Slots, ...], Spans]:
    """The slots of all layers, and the rows of the page that they cover."""
    if not levels:
        if structure.num_lists:
            raise CorruptFileError("a constant page of lists has no levels")
        return unravel(structure, None, None, spans.count(rows)), rows
    repetition = _levels(layout.repetition, levels[0], layout.num_rep)
    definition = _levels(layout.definition, levels[1], layout.num_def)
    if repetition is not None and definition is not None and len(repetition) != len(definition):
        raise CorruptFileError(f"a page has {len(repetition)} repetition levels but {len(definition)} definition levels")
    some = definition if repetition is None else repetition
    slots = unravel(structure, repetition, definition, page.num_rows if some is None else len(some))
    return slots, spans.all_rows(page.num_rows)


def _levels(encoding: Encoding | None, data: Bytes, count: int) -> np.ndarray | None:
    if not len(data):
        return None
    if encoding is None:
        return data.view("<u2")
    if count >= MAX_SLOTS:
        raise UnsupportedFeatureError(f"{count} levels in a page are not supported")
    check_bytes(count * 2, "levels")
    return decode_levels(encoding, Chunks.of_block(data, count))


def scalar(data: Bytes, t: pa.DataType) -> pa.Array:
    """The value in a buffer."""
    words = data[: len(data) // 4 * 4].view("<u4")
    parts = int(words[0]) if len(words) else 0
    first = 4 * (1 + parts)
    is_whole = parts in (1, 2) and len(words) > parts
    if not is_whole or len(data) < first + words[1 : 1 + parts].sum(dtype=np.int64):
        raise CorruptFileError(f"a constant value of {len(data)} bytes does not have the parts that it declares")
    middle = first + int(words[1])
    if parts == 1:
        return fixed_width_value(data[first:middle].tobytes(), t)
    value = data[middle : middle + int(words[2])]
    return to_array(VariableWidth(np.array([0, len(value)], np.int64), value), t, None)
