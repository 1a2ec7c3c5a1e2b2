"""Data blocks -> Arrow arrays of a leaf: adds type and validity, zero-copy if the widths agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.types import is_bytes, is_text
from lance_spark.buffers.blocks import Block, FixedSizeList, FixedWidth, PackedStruct, VariableWidth
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

LARGE = 1 << 26
"""Sizes above which values are measured exactly, in bytes."""

BLOB_V1 = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
"""The descriptor of a blob in a page before version 2.2."""

BLOB_V2 = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)
"""The descriptor of a blob in a page since version 2.2."""


def to_array(block: Block, t: pa.DataType, validity: np.ndarray | None) -> pa.Array:
    """The values of `block` as an array of type `t`; `validity` is a bitmap of at least as many bits, or None."""
    if pa.types.is_null(t):
        return pa.nulls(block.count)
    if pa.types.is_dictionary(t):
        # The values are not stored as a dictionary but requested as one.
        return _narrowed(to_array(block, t.value_type, validity), t)
    if isinstance(block, FixedWidth):
        return _fixed_width(block, t, validity)
    if isinstance(block, VariableWidth):
        return _variable_width(block, t, validity)
    if isinstance(block, FixedSizeList):
        if not pa.types.is_fixed_size_list(t) or t.list_size != block.dimension:
            raise _misfit(f"lists of {block.dimension}", t)
        items = to_array(block.items, t.value_type, block.validity)
        return pa.Array.from_buffers(t, block.count, [_buffer(validity)], children=[items])
    return _packed_struct(block, t, validity)


def _buffer(data: np.ndarray | None) -> pa.Buffer | None:
    return None if data is None else pa.py_buffer(data)


def _misfit(what: str, t: pa.DataType) -> CorruptFileError:
    return CorruptFileError(f"expected values of {t}, found {what}")


def _fixed_width(block: FixedWidth, t: pa.DataType, validity: np.ndarray | None) -> pa.Array:
    data = block.data
    if pa.types.is_boolean(t):
        if block.bits == 8:
            data = np.packbits(data, bitorder="little")
        elif block.bits != 1:
            raise _misfit(f"values of {block.bits} bits", t)
    elif not _is_fixed_width(t) or t.bit_width != block.bits:
        raise _misfit(f"values of {block.bits} bits", t)
    return pa.Array.from_buffers(t, block.count, [_buffer(validity), _buffer(data)])


def _is_fixed_width(t: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(t) or pa.types.is_decimal(t) or pa.types.is_fixed_size_binary(t))


def _variable_width(block: VariableWidth, t: pa.DataType, validity: np.ndarray | None) -> pa.Array:
    if pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        offsets = block.offsets.astype(np.int64, copy=False)
    elif pa.types.is_string(t) or pa.types.is_binary(t):
        if block.offsets[-1] >= 2**31:
            raise UnsupportedFeatureError(f"a page with {block.offsets[-1]} bytes of values of {t} is not supported")
        offsets = block.offsets.astype(np.int32, copy=False)
    else:
        raise _misfit("values of variable width", t)
    array = pa.Array.from_buffers(t, block.count, [_buffer(validity), _buffer(offsets), _buffer(block.data)])
    # Text must be UTF-8: later steps do not check it. Most text is ASCII, which is checked much faster.
    if is_text(t) and block.data.max(initial=0) >= 128:
        array.validate(full=True)
    return array


def _packed_struct(block: PackedStruct, t: pa.DataType, validity: np.ndarray | None) -> pa.Array:
    if not pa.types.is_struct(t) or t.num_fields != len(block.children):
        raise _misfit(f"a struct of {len(block.children)} children", t)
    children = [to_array(child, t.field(i).type, None) for i, child in enumerate(block.children)]
    return pa.Array.from_buffers(t, block.count, [_buffer(validity)], children=children)


def to_dictionary_array(indices: Block, items: Block, t: pa.DataType, validity: np.ndarray | None) -> pa.Array:
    """Values that a page stores as indices into a dictionary: a dictionary array if `t` is one, else looked up.

    Raises CorruptFileError for an index of a valid slot that is out of bounds.
    """
    if not isinstance(indices, FixedWidth) or indices.bits not in _INDEX_TYPES:
        raise CorruptFileError("expected dictionary indices of 8 to 64 bits")
    if not pa.types.is_dictionary(t):
        numbers = _fixed_width(indices, _INDEX_TYPES[indices.bits], validity)
        return look_up(to_array(items, t, None), numbers)
    if t.index_type.bit_width != indices.bits:
        return _narrowed(to_dictionary_array(indices, items, t.value_type, validity), t)
    numbers = _fixed_width(indices, t.index_type, validity)
    return pa.DictionaryArray.from_arrays(numbers, to_array(items, t.value_type, None), ordered=t.ordered)


def _narrowed(values: pa.Array, t: pa.DataType) -> pa.Array:
    """The values, not stored as a dictionary, as dictionary type `t`."""
    return values.dictionary_encode().cast(t)


def look_up_later(indices: Block, items: Block, t: pa.DataType, validity: np.ndarray | None) -> pa.Array:
    """Like `to_dictionary_array`, but always a dictionary array with the stored index type: `look_up` converts it to `t`."""
    if pa.types.is_dictionary(t) or not isinstance(indices, FixedWidth) or indices.bits not in _INDEX_TYPES:
        return to_dictionary_array(indices, items, t, validity)
    numbers = _fixed_width(indices, _INDEX_TYPES[indices.bits], validity)
    return pa.DictionaryArray.from_arrays(numbers, to_array(items, t, None))


def look_up(items: pa.Array, numbers: pa.Array) -> pa.Array:
    """The items at these indices. Raises CorruptFileError if they exceed the maximum size of a page."""
    size = items.nbytes / max(len(items), 1) * len(numbers)
    t = items.type
    if is_bytes(t):
        lengths = pc.binary_length(items)
        size = float(pc.max(lengths).as_py() or 0) * len(numbers)
        if size > LARGE:  # then the exact size is measured
            size = pc.sum(lengths.take(numbers).cast(pa.float64())).as_py() or 0.0
    check_bytes(size, "values of a dictionary")
    return items.take(numbers)


_INDEX_TYPES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def spread(block: Block, t: pa.DataType, valid: np.ndarray) -> pa.Array:
    """An array with the values of `block` in the slots where `valid` (bool) is set, and nulls in the others."""
    validity = np.packbits(valid, bitorder="little")
    slots = np.cumsum(valid)
    if isinstance(block, VariableWidth) and not pa.types.is_dictionary(t):
        offsets = block.offsets[np.concatenate([[0], slots])]
        return _variable_width(VariableWidth(offsets, block.data), t, validity)
    numbers = pa.Array.from_buffers(pa.int64(), len(valid), [_buffer(validity), _buffer(slots - 1)])
    return to_array(block, t, None).take(numbers)


def repeat(one: pa.Array, count: int, validity: np.ndarray | None) -> pa.Array:
    """`count` times the only value of `one`."""
    check_bytes(float(one.nbytes) * count, "a page of one value")
    zeros = pa.Array.from_buffers(pa.int32(), count, [_buffer(validity), pa.py_buffer(np.zeros(count, np.int32))])
    return one.take(zeros)


def fixed_width_value(value: bytes, t: pa.DataType) -> pa.Array:
    """An array of the one fixed-width value with the bytes `value`; booleans take one byte."""
    return to_array(_block_of(np.frombuffer(value, np.uint8), t), t, None)


def _block_of(data: np.ndarray, t: pa.DataType) -> Block:
    """The one value of type `t` in `data`, with fixed-size lists flattened."""
    if pa.types.is_fixed_size_list(t):
        return FixedSizeList(_block_of_items(data, t.value_type, t.list_size), t.list_size, None)
    return FixedWidth(8 * len(data), data, 1)


def _block_of_items(data: np.ndarray, t: pa.DataType, count: int) -> Block:
    if pa.types.is_fixed_size_list(t):
        return FixedSizeList(_block_of_items(data, t.value_type, count * t.list_size), t.list_size, None)
    bits = 1 if pa.types.is_boolean(t) else 8 * len(data) // count
    if len(data) != (count * bits + 7) // 8:
        raise CorruptFileError(f"expected {count} values of {t}, found {len(data)} bytes")
    return FixedWidth(bits, data, count)
