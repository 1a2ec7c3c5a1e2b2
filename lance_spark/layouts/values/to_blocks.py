"""Arrow arrays -> data blocks, zero-copy if possible. The levels store the validity of the array itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.buffers.blocks import Block, FixedSizeList, FixedWidth, PackedStruct, VariableWidth
from lance_spark.errors import UnsupportedFeatureError


def bytes_of(buffer: pa.Buffer | None) -> np.ndarray:
    """The bytes of an Arrow buffer; a missing buffer is empty."""
    return np.empty(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)


def to_blocks(array: pa.Array) -> tuple[Block, Block | None]:
    """The values of a leaf array, and the items of a dictionary array, whose values are its indices."""
    if not pa.types.is_dictionary(array.type):
        return to_block(array), None
    indices, items = array.indices, array.dictionary
    width = indices.type.bit_width
    # Indices at null slots are arbitrary in Arrow, but must be within the dictionary in a page.
    unsigned = pc.fill_null(indices, 0).cast(f"uint{width}", safe=False)
    return to_block(unsigned), to_block(items)


def without_null_items(array: pa.Array) -> pa.Array:
    """A dictionary array with nulls in the indices only, not in the dictionary; other arrays are unchanged."""
    if not pa.types.is_dictionary(array.type) or not array.dictionary.null_count:
        return array
    valid = pc.take(array.dictionary.is_valid(), array.indices)
    indices = pc.if_else(valid, array.indices, pa.scalar(None, array.indices.type))
    return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=array.type.ordered)


def to_block(array: pa.Array) -> Block:
    """The block of an array of any leaf type except dictionary."""
    t = array.type
    if pa.types.is_boolean(t):
        return FixedWidth(1, _bits(array.buffers()[1], array.offset, len(array)), len(array))
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return _variable(array, np.dtype(np.int32))
    if pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        return _variable(array, np.dtype(np.int64))
    if pa.types.is_fixed_size_list(t):
        return _fixed_size_list(array)
    if pa.types.is_struct(t):
        return _packed_struct(array)
    try:
        width = t.bit_width // 8
    except ValueError:
        raise UnsupportedFeatureError(f"writing values of type {t} is not supported") from None
    data = bytes_of(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]
    return FixedWidth(8 * width, data, len(array))


def _bits(buffer: pa.Buffer | None, offset: int, count: int) -> np.ndarray:
    """`count` bits of a bitmap from bit `offset`, shifted so that the first is bit 0 and bits past the end are 0."""
    data = bytes_of(buffer)[offset // 8 : (offset + count + 7) // 8]
    if offset % 8 == 0 and count % 8 == 0:
        return data
    bits = np.unpackbits(data, bitorder="little")[offset % 8 : offset % 8 + count]
    return np.packbits(bits, bitorder="little")


def _variable(array: pa.Array, dtype: np.dtype) -> VariableWidth:
    if not len(array):
        return VariableWidth(np.zeros(1, dtype=dtype), np.empty(0, dtype=np.uint8))
    offsets = np.frombuffer(array.buffers()[1], dtype=dtype)[array.offset : array.offset + len(array) + 1]
    data = bytes_of(array.buffers()[2])[offsets[0] : offsets[-1]]
    return VariableWidth(offsets - offsets[0] if offsets[0] else offsets, data)


def _fixed_size_list(array: pa.Array) -> FixedSizeList:
    dimension = array.type.list_size
    items = array.values.slice(array.offset * dimension, len(array) * dimension)
    validity = None
    if items.null_count:
        validity = _bits(items.buffers()[0], items.offset, len(items))
        if array.null_count:
            # Items of a null list are ignored, and are often null.
            valid = np.unpackbits(validity, count=len(items), bitorder="little").reshape(len(array), dimension)
            valid[array.is_null().to_numpy(zero_copy_only=False)] = 1
            validity = None if valid.all() else np.packbits(valid.reshape(-1), bitorder="little")
    return FixedSizeList(to_block(items), dimension, validity)


def _packed_struct(array: pa.Array) -> PackedStruct:
    children = [array.field(i) for i in range(array.type.num_fields)]
    outer = array.is_valid() if array.null_count else None
    for field, child in zip(array.type, children):
        nulls = child.null_count
        if nulls and (outer is None or pc.sum(pc.and_(outer, child.is_null())).as_py()):
            raise UnsupportedFeatureError(f"writing a packed struct with nulls in its field {field.name!r} is not supported")
        if pa.types.is_fixed_size_list(child.type) and child.flatten().null_count:
            raise UnsupportedFeatureError(f"writing a packed struct with nulls in its field {field.name!r} is not supported")
    return PackedStruct(tuple(to_block(child) for child in children))
