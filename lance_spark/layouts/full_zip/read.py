"""Full-zip pages: large values, each preceded by its levels and its length, so that single rows can be read.

Implements "Full Zip Page Layout" of the file encoding page. Buffers: the zipped data; if values or rows differ in size, the repetition
index: the offset of every row and the end of the last, in words of 1, 2, 4 or 8 bytes. An item: the control word (repetition << bits of
definition | definition), in the fewest bytes that hold its bits; then, for fixed width, the value if the item is visible; for variable
width, the length and the bytes if the value is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from lance_spark.arrow import views
from lance_spark.buffers.blocks import Block, Encoding, FixedWidth, VariableWidth
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.buffers.limits import check_bytes
from lance_spark.buffers.memory import empty
from lance_spark.encodings import general
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.fixed_size_list import FixedSizeListEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.general import General
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U32, U, copy, store32
from lance_spark.layouts.levels.assemble import Path, nest
from lance_spark.layouts.levels.read import Slots, unravel
from lance_spark.layouts.levels.sparse import read_structure, valid_slots
from lance_spark.layouts.nodes.page_layouts import Dense, FullZip, Sparse
from lance_spark.layouts.values.to_arrow import spread, to_array
from lance_spark.reading import spans
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Page, Steps

_LARGE_PIECE = 16 << 10
"""Rows are viewed where they were read if the pieces have so many bytes each; smaller ones are copied together first."""


def read(layout: FullZip, page: Page, path: Path, t: pa.DataType, rows: Spans, as_views: bool = False) -> Steps[tuple[pa.Array, Spans]]:
    """The column `path`, whose leaf is of type `t`: an array with the page's rows `rows` at least, and which rows it has.

    `as_views`: it may be an array of `arrow.views`.
    """
    if not page.buffers:
        raise CorruptFileError("expected at least 1 buffer in a full-zip page, found 0")
    if isinstance(layout.structure, Sparse):
        array = yield from _read_sparse(layout, layout.structure, page, path, t)
        return array, spans.all_rows(page.num_rows)
    if layout.bits_per_value is not None and not layout.structure.num_lists:
        wanted = rows * _stride(layout)
    elif spans.count(rows) == page.num_rows:
        wanted = spans.all_rows(page.buffers[0].stop - page.buffers[0].start)
    else:
        wanted = yield from _row_offsets(page, rows)
    pieces = yield from _read_spans(page, wanted)
    if as_views and (array := _views(layout, pieces, t, spans.count(rows))) is not None:
        return array, rows
    data = _together(pieces)
    if layout.bits_per_value is not None and not layout.structure.num_lists:
        return _fixed_rows(layout, data, path, t, spans.count(rows)), rows
    zipped = _unzip(layout, data, None if layout.structure.num_lists else spans.count(rows))
    slots = unravel(layout.structure, zipped.repetition, zipped.definition, zipped.count)
    return nest(path, slots, _leaf(layout, zipped, t, slots[0])), rows


def _read_sparse(layout: FullZip, structure: Sparse, page: Page, path: Path, t: pa.DataType) -> Steps[pa.Array]:
    """A whole page that stores the values of valid slots only; the index of variable-width values is not needed."""
    slots = yield from read_structure(structure, page, page.buffers[num_buffers(layout) :])
    (data,) = yield page.buffers[:1]
    block = read_values(layout, data)
    valid = valid_slots(slots[0])
    if block.count != valid.sum():
        raise CorruptFileError(f"the page's structure declares {valid.sum()} valid values, found {block.count}")
    leaf = to_array(block, t, None) if valid.all() else spread(block, t, valid)
    return nest(path, slots, leaf)


def num_buffers(layout: FullZip) -> int:
    """The number of buffers of values without levels: those of variable width have an index."""
    return 1 if layout.bits_per_value is not None else 2


def read_values(layout: FullZip, data: Bytes) -> Block:
    """The values in `data`, which has no levels."""
    return layout.value.decode_values(_unzip(layout, data, layout.num_items).values)


def _stride(layout: FullZip) -> int:
    """The bytes of a fixed-width item that has a value."""
    assert layout.bits_per_value is not None
    if _all_null(layout) and _word_bytes(layout):
        return _word_bytes(layout)
    if layout.bits_per_value % 8 or not 0 < layout.bits_per_value < 2**34:
        raise CorruptFileError(f"found values of {layout.bits_per_value} bits in a full-zip page, expected whole bytes")
    return _word_bytes(layout) + layout.bits_per_value // 8


def _all_null(layout: FullZip) -> bool:
    """True if the page has only levels: writers of late 2025 stored large values like this if all are null."""
    return layout.bits_per_value == 0 and layout.value == Constant(None)


def _nulls(levels: np.ndarray | None, count: int, t: pa.DataType) -> pa.Array:
    """The leaf's array of a page without values, given the definition levels of visible items."""
    if levels is None or len(levels) != count or not levels.all():
        raise CorruptFileError("a full-zip page with values of 0 bits has valid values")
    check_bytes(count * (bit_width(t) or 32) / 8, "a page of nulls")
    return pa.nulls(count, t)


def _word_bytes(layout: FullZip) -> int:
    bits = layout.bits_rep + layout.bits_def
    if layout.bits_rep > 16 or layout.bits_def > 16:
        raise CorruptFileError(f"found levels of {layout.bits_rep} and {layout.bits_def} bits in a full-zip page, expected at most 16")
    return 0 if not bits else 1 if bits <= 8 else 2 if bits <= 16 else 4


def _row_offsets(page: Page, rows: Spans) -> Steps[Spans]:
    """The byte ranges of these rows in the zipped data, from their part of the repetition index."""
    if len(page.buffers) < 2:
        raise CorruptFileError("expected a repetition index in a full-zip page, found 1 buffer")
    start, stop = page.buffers[1]
    width, rest = divmod(stop - start, page.num_rows + 1)
    if rest or width not in (1, 2, 4, 8):
        raise CorruptFileError(f"the repetition index has {stop - start} bytes, an invalid size for {page.num_rows} rows")
    first, last = int(rows[0, 0]), int(rows[-1, 1])
    (index,) = yield [ByteRange(start + first * width, start + (last + 1) * width)]
    offsets: np.ndarray = index.view(f"<u{width}")[rows - first].astype(np.int64)
    flat, size = offsets.reshape(-1), page.buffers[0].stop - page.buffers[0].start
    decreases = (flat[1:] < flat[:-1]).any()
    if decreases or (flat < 0).any() or flat[-1] > size:
        raise CorruptFileError(f"the repetition index has decreasing offsets, or offsets outside the {size} bytes of the page")
    return offsets


def _read_spans(page: Page, wanted: Spans) -> Steps[Sequence[Bytes]]:
    """Read byte ranges of the zipped data."""
    start, stop = page.buffers[0]
    if len(wanted) and wanted[-1, 1] > stop - start:
        raise CorruptFileError(f"expected at least {wanted[-1, 1]} bytes for the rows of the page, found {stop - start}")
    return (yield [ByteRange(start + a, start + b) for a, b in wanted.tolist()])


def _together(pieces: Sequence[Bytes]) -> Bytes:
    """The pieces, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    data: Bytes = empty(sum(map(len, pieces)))
    return np.concatenate(pieces, out=data) if pieces else data


def _views(layout: FullZip, pieces: Sequence[Bytes], t: pa.DataType, count: int) -> pa.Array | None:
    """Views of `count` rows of a page without lists; None if the values are not stored as they are."""
    if not isinstance(layout.structure, Dense) or layout.structure.num_lists:
        return None
    value = layout.value.values if _is_zstd(layout.value) else layout.value
    are_bytes = layout.bits_per_value is None and isinstance(value, Variable)
    if not are_bytes and not _is_plain_list(layout, t):
        return None
    if sum(map(len, pieces)) < _LARGE_PIECE * len(pieces):
        pieces = [_together(pieces)]
    if not views.fit(pieces):
        return None
    return _views_of_bytes(layout, pieces, count) if are_bytes else views.of_rows(pieces, _stride(layout))


def _is_zstd(value: Encoding) -> TypeGuard[General]:
    return isinstance(value, General) and value.scheme == "zstd"


def _is_plain_list(layout: FullZip, t: pa.DataType) -> bool:
    """Whether the bytes of a row are the numbers of a list, none of which is null."""
    value = layout.value
    if _word_bytes(layout) or not isinstance(value, FixedSizeListEncoding) or not pa.types.is_fixed_size_list(t):
        return False
    is_flat = isinstance(value.values, Flat) and value.values.bits_per_value == t.value_type.bit_width
    return is_flat and not value.has_validity and value.items_per_value == t.list_size and _stride(layout) == value.row_bytes()


def _views_of_bytes(layout: FullZip, pieces: Sequence[Bytes], count: int) -> pa.Array | None:
    """Views of rows, each of which begins with its levels and its length; None for compressed values without their size."""
    assert isinstance(layout.structure, Dense)
    if layout.bits_per_offset not in (32, 64):
        raise CorruptFileError(f"found lengths of {layout.bits_per_offset} bits in a full-zip page, expected 32 or 64")
    has_value = np.zeros(2**layout.bits_def, np.bool_)
    has_value[0] = True
    shape = (_word_bytes(layout), layout.bits_def, layout.bits_per_offset // 8)
    definition = np.zeros(count if layout.bits_def else 0, np.uint16)
    found = np.zeros(count * views.VIEW_BYTES, np.uint8)
    is_compressed = _is_zstd(layout.value)
    is_stored = np.full(count, not is_compressed)
    rows = 0
    for number, piece in enumerate(pieces):
        before, rows = rows, int(_place(piece, shape, has_value, number, rows, definition, found))
        if rows < 0:
            raise CorruptFileError(f"an item of {len(piece)} bytes read is truncated, or there are more than {count}")
        if is_compressed:
            general.locate_stored(piece, before, rows, found, is_stored)
    if rows != count:
        raise CorruptFileError(f"expected {count} items, found {rows}")
    unravel(layout.structure, None, definition if layout.bits_def else None, count)  # raises for levels that do not exist
    valid = definition == 0 if definition.any() else None
    entries = found.view(np.int32).reshape(-1, 4)
    if is_compressed and not entries[slice(None) if valid is None else valid, 0].all():
        return None  # a compressed value has bytes, also if the value has none
    buffers = general.decompress_views(entries, pieces, ~is_stored)
    return None if buffers is None else views.of_buffers(found, buffers, valid)


def _fixed_rows(layout: FullZip, data: Bytes, path: Path, t: pa.DataType, count: int) -> pa.Array:
    """Rows of a fixed size: without control words the data is the values."""
    assert isinstance(layout.structure, Dense)
    definition, word = None, _word_bytes(layout)
    if word:
        items = data.reshape(count, _stride(layout))
        words = np.ascontiguousarray(items[:, :word]).view(f"<u{word}").reshape(-1)
        definition = (words & (2**layout.bits_def - 1)).astype(np.uint16)
        data = np.ascontiguousarray(items[:, word:]).reshape(-1)
    slots = unravel(layout.structure, None, definition, count)
    if _all_null(layout):
        return nest(path, slots, _nulls(definition, count, t))
    bits = 8 * (_stride(layout) - word)
    block = layout.value.decode_values(FixedWidth(bits, data, count))
    return nest(path, slots, to_array(block, t, slots[0].validity))


@dataclass(frozen=True)
class _Zipped:
    """Decoded items: their levels (None if there are none), their number, and the compressed values of those that have one."""

    repetition: np.ndarray | None
    definition: np.ndarray | None
    count: int
    values: Block


def _unzip(layout: FullZip, data: Bytes, count: int | None) -> _Zipped:
    """Decode `count` items, or all if None."""
    width = 0 if layout.bits_per_value is None else _stride(layout) - _word_bytes(layout)
    if layout.bits_per_value is None and layout.bits_per_offset not in (32, 64):
        raise CorruptFileError(f"found lengths of {layout.bits_per_offset} bits in a full-zip page, expected 32 or 64")
    length = 0 if width else (layout.bits_per_offset or 0) // 8
    has_value = np.zeros(2**layout.bits_def, np.bool_)
    if not _all_null(layout):
        has_value[: (_visible(layout) + 1) if width else 1] = True
    shape = (_word_bytes(layout), layout.bits_def, length, width)
    totals = np.zeros(3, np.int64)
    stopped = _measure(data, shape, has_value, totals)
    if stopped >= 0:
        raise CorruptFileError(f"the item at byte {stopped} of {len(data)} bytes read is truncated")
    items, num_values, num_bytes = totals.tolist()
    if count is not None and items != count:
        raise CorruptFileError(f"expected {count} items, found {items}")
    repetition = np.empty(items if layout.bits_rep else 0, np.uint16)
    definition = np.empty(items if layout.bits_def else 0, np.uint16)
    values, offsets = empty(num_bytes), np.zeros(num_values + 1, np.int64)
    _split(data, shape, has_value, repetition, definition, values, offsets)
    block = FixedWidth(8 * width, values, num_values) if width else VariableWidth(offsets, values)
    return _Zipped(repetition if layout.bits_rep else None, definition if layout.bits_def else None, items, block)


def _visible(layout: FullZip) -> int:
    """The highest definition level of visible items: that of the layers inside the innermost list."""
    level = 0
    if isinstance(layout.structure, Dense):
        for layer in layout.structure.layers:
            if layer.is_list:
                break
            level = max(level, layer.null)
    return level


def _leaf(layout: FullZip, zipped: _Zipped, t: pa.DataType, slots: Slots) -> pa.Array:
    """The leaf's array, with a slot for every visible item."""
    if _all_null(layout):
        visible = None if zipped.definition is None else zipped.definition[zipped.definition <= _visible(layout)]
        return _nulls(visible, slots.count, t)
    block = layout.value.decode_values(zipped.values)
    if layout.bits_per_value is None and zipped.definition is not None:
        levels = zipped.definition[zipped.definition <= _visible(layout)]
        if levels.any():
            return spread(block, t, levels == 0)
    if block.count != slots.count:  # pragma: no cover: each item that is found has one value
        raise CorruptFileError(f"the page's levels declare {slots.count} values, found {block.count}")
    return to_array(block, t, slots.validity)


@kernel
def _word(data: np.ndarray, at: np.int64, size: int) -> np.int64:
    """A little-endian number of up to 8 bytes."""
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return np.int64(word)


@kernel
def _measure(data: np.ndarray, shape: tuple[int, int, int, int], has_value: np.ndarray, totals: np.ndarray) -> np.int64:
    """Count items, values and bytes of values; also the position of an item that is truncated, or -1."""
    word_bytes, bits_def, length_bytes, width = shape
    at, end = np.int64(0), len(data)
    while at < end:
        start = at
        if end - at < word_bytes:
            return start
        level = _word(data, at, word_bytes) & ((1 << bits_def) - 1)
        at += word_bytes
        if has_value[level]:
            size = np.int64(width)
            if length_bytes:
                if end - at < length_bytes:
                    return start
                size = _word(data, at, length_bytes)
                at += length_bytes
            if size < 0 or size > end - at:
                return start
            at += size
            totals[1] += 1
            totals[2] += size
        totals[0] += 1
    return np.int64(-1)


@kernel
def _split(
    data: np.ndarray,
    shape: tuple[int, int, int, int],
    has_value: np.ndarray,
    repetition: np.ndarray,
    definition: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
) -> None:
    """Decode the items that `_measure` has checked."""
    word_bytes, bits_def, length_bytes, width = shape
    at, out, item, value = np.int64(0), np.int64(0), 0, 0
    while at < len(data):
        word = _word(data, at, word_bytes)
        level = word & ((1 << bits_def) - 1)
        at += word_bytes
        if len(repetition):
            repetition[item] = word >> bits_def
        if len(definition):
            definition[item] = level
        item += 1
        if has_value[level]:
            size = np.int64(width)
            if length_bytes:
                size = _word(data, at, length_bytes)
                at += length_bytes
            copy(data, np.uint64(at), values, np.uint64(out), np.uint64(size))
            at += size
            out += size
            value += 1
            offsets[value] = out


@kernel
def _place(
    data: np.ndarray,
    shape: tuple[int, int, int],
    has_value: np.ndarray,
    piece: int,
    rows: int,
    definition: np.ndarray,
    found: np.ndarray,
) -> np.int64:
    """Write the levels and the views of the items in `data`, the buffer with the number `piece`, from item `rows` on.

    Returns the number of items so far, or -1 if one is truncated or there are too many.
    """
    word_bytes, bits_def, length_bytes = shape
    at, end, item = np.int64(0), len(data), np.int64(rows)
    while at < end:
        if end - at < word_bytes or (item + 1) * 16 > len(found):
            return np.int64(-1)
        level = _word(data, at, word_bytes) & ((1 << bits_def) - 1)
        at += word_bytes
        if len(definition):
            definition[item] = level
        if has_value[level]:
            if end - at < length_bytes:
                return np.int64(-1)
            size = _word(data, at, length_bytes)
            at += length_bytes
            if size < 0 or size > end - at:
                return np.int64(-1)
            view = U(item * 16)
            store32(found, view, U32(size))
            for i in range(12):
                if i < size:
                    found[item * 16 + 4 + i] = data[at + i]
            if size > 12:
                store32(found, view + U(8), U32(piece))
                store32(found, view + U(12), U32(at))
            at += size
        item += 1
    return item
