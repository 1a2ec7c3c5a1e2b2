"""Pages of a few values without nulls or nesting, such as those of a table of thousands of columns and a few rows.

These are the pages that `write_page` makes, made without arrays.
"""

from __future__ import annotations

import itertools
import struct
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.blocks import Encoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.tree import encode_message
from lance_spark.encodings.variable import Variable
from lance_spark.layouts.choose.encoding import SMALL
from lance_spark.layouts.nodes.encoded_page import EncodedPage, message_of
from lance_spark.layouts.nodes.version_grammar import Grammar
from lance_spark.schema.schema import Field

_LAYERS = (pb.RepDefLayer.REPDEF_ALL_VALID_ITEM,)
_PAD, _PAD_OF_TEXT = b"\xfe", b"H"


def encode_small(field: Field, array: pa.Array, grammar: Grammar) -> EncodedPage | None:
    """The page of `array` if it has at most 64 bytes of plain values and the field has no options; else None."""
    count, t = len(array), array.type
    if not 0 < count <= SMALL or array.null_count or field.metadata or field.children:
        return None
    if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_temporal(t):
        return _fixed(array, t.bit_width // 8, grammar)
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return _variable(array, 4, grammar)
    if pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        return _variable(array, 8, grammar)
    return None


def _fixed(array: pa.Array, width: int, grammar: Grammar) -> EncodedPage | None:
    count = len(array)
    if count * width > SMALL or width not in (1, 2, 4, 8):
        return None
    values = array.buffers()[1].slice(array.offset * width, count * width).to_pybytes()
    if grammar.constant_values and values == values[:width] * count:
        layout = pb.PageLayout(constant_layout=pb.ConstantLayout(layers=_LAYERS, inline_value=values[:width]))
        return EncodedPage.of(layout, [], count, grammar)
    return _chunk(values, Flat(8 * width), count, grammar)


def _variable(array: pa.Array, width: int, grammar: Grammar) -> EncodedPage | None:
    count = len(array)
    if (count + 1) * width > SMALL:
        return None
    _, offsets, data = array.buffers()
    ends = struct.unpack_from(f"<{count + 1}{'i' if width == 4 else 'q'}", offsets, array.offset * width)
    first, length = ends[0], ends[-1] - ends[0]
    if length > SMALL:
        return None
    text = data.slice(first, length).to_pybytes() if length else b""
    if grammar.constant_values and _are_equal(text, ends):
        return None
    head = (count + 1) * width
    moved = [end - first + head for end in ends]
    values = struct.pack(f"<{count + 1}{'i' if width == 4 else 'q'}", *moved) + text
    return _chunk(values + _PAD_OF_TEXT * (-len(values) % width), Variable(Flat(8 * width)), count, grammar)


def _are_equal(text: bytes, ends: tuple[int, ...]) -> bool:
    length = ends[1] - ends[0]
    if text != text[:length] * (len(ends) - 1):
        return False
    return all(stop - start == length for start, stop in itertools.pairwise(ends))


def _chunk(values: bytes, encoding: Encoding, count: int, grammar: Grammar) -> EncodedPage:
    """The page of one chunk: no levels, the size of the values, the values."""
    head = struct.pack("<HI" if grammar.large_chunks else "<HH", 0, len(values))
    chunk = head + _PAD * (-len(head) % 8) + values + _PAD * (-len(values) % 8)
    word = struct.pack("<I" if grammar.large_chunks else "<H", (len(chunk) // 8 - 1) << 4)
    buffers = (np.frombuffer(word, np.uint8), np.frombuffer(chunk, np.uint8))
    return EncodedPage(*message_of_chunk(encoding, count, grammar), buffers, count)


@lru_cache(4096)
def message_of_chunk(encoding: Encoding, count: int, grammar: Grammar, levels: Encoding | None = None) -> tuple[str, bytes]:
    """The type and the bytes of the message of a page of one chunk of `count` values.

    `levels` are the definition levels of nulls, None without nulls.
    """
    layout = pb.MiniBlockLayout(
        value_compression=encode_message(encoding),
        layers=_LAYERS if levels is None else (pb.RepDefLayer.REPDEF_NULLABLE_ITEM,),
        num_buffers=1,
        num_items=count,
        has_large_chunk=grammar.large_chunks,
    )
    if levels is not None:
        layout.def_compression.CopyFrom(encode_message(levels))
    return message_of(pb.PageLayout(mini_block_layout=layout), grammar)
