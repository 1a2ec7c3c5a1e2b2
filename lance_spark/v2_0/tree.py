"""The encoding message of a page -> its tree of nodes, with one table; buffer numbers become ranges of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.messages import parse_message
from lance_spark.encodings.general import Scheme
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.reading.steps import Column, Page
from lance_spark.v2_0.binary import Binary, FixedSizeBinary
from lance_spark.v2_0.bitpacked import Bitpacked, BitpackedForNonNeg
from lance_spark.v2_0.dictionary import Dictionary
from lance_spark.v2_0.encoding import Encoding
from lance_spark.v2_0.fixed_size_list import FixedSizeList
from lance_spark.v2_0.flat import Flat
from lance_spark.v2_0.fsst import Fsst
from lance_spark.v2_0.list import List
from lance_spark.v2_0.nullable import AllNulls, NoNulls, SomeNulls
from lance_spark.v2_0.packed_struct import PackedStruct

MAX_DEPTH = 16
"""Deepest nesting of encodings that is followed; writers need one or two for each level of fixed-size lists."""


def decode_page(page: Page, column: Column) -> Encoding | List:
    """The encoding of a page. Raises UnsupportedFeatureError for one that storage 2.0 does not have."""
    if page.encoding_type != "lance.encodings.ArrayEncoding":
        raise UnsupportedFeatureError(f"page encoding {page.encoding_type!r} is not supported in storage version 2.0")
    message = parse_message(pb.ArrayEncoding, page.encoding, "a page's encoding")
    encoding: Encoding | List = _Tree(page.buffers, column.buffers).node(message)
    return encoding


@dataclass(frozen=True)
class _Tree:
    """The buffers that messages refer to by number, and the depth of the next node below the root."""

    page_buffers: tuple[ByteRange, ...]
    column_buffers: tuple[ByteRange, ...]
    depth: int = 0

    def node(self, message: pb.ArrayEncoding) -> Any:
        kind = message.WhichOneof("array_encoding")
        if kind not in _DECODE:
            raise UnsupportedFeatureError(f"array encoding {kind!r} of storage version 2.0 is not supported")
        if self.depth > MAX_DEPTH:
            raise CorruptFileError(f"encodings are nested more than {MAX_DEPTH} levels deep")
        return _DECODE[kind](getattr(message, kind), _Tree(self.page_buffers, self.column_buffers, self.depth + 1))

    def buffer(self, message: pb.Buffer) -> ByteRange:
        if message.buffer_type not in (pb.Buffer.page, pb.Buffer.column):
            raise UnsupportedFeatureError("pages with data in a global buffer of the file are not supported")
        buffers = self.page_buffers if message.buffer_type == pb.Buffer.page else self.column_buffers
        if message.buffer_index >= len(buffers):
            raise CorruptFileError(f"buffer {message.buffer_index} does not exist, the page or column has {len(buffers)}")
        return buffers[message.buffer_index]


def _flat(m: pb.Flat, tree: _Tree) -> Flat:
    _whole_bytes(m.bits_per_value, 1)
    scheme = m.compression.scheme if m.HasField("compression") else "none"
    if scheme not in _SCHEMES:
        raise UnsupportedFeatureError(f"buffer compression {scheme!r} is not supported")
    return Flat(m.bits_per_value, tree.buffer(m.buffer), _SCHEMES[scheme])


def _nullable(m: pb.Nullable, tree: _Tree) -> Encoding:
    kind = m.WhichOneof("nullability")
    if kind == "no_nulls":
        return NoNulls(tree.node(m.no_nulls.values))
    if kind == "some_nulls":
        return SomeNulls(tree.node(m.some_nulls.validity), tree.node(m.some_nulls.values))
    if kind == "all_nulls":
        return AllNulls()
    raise UnsupportedFeatureError("unknown nullability")


def _list(m: pb.List, tree: _Tree) -> List:
    return List(tree.node(m.offsets), _integer_bits(m.offsets), m.null_offset_adjustment, m.num_items)


def _binary(m: pb.Binary, tree: _Tree) -> Binary:
    return Binary(tree.node(m.indices), _integer_bits(m.indices), m.null_adjustment, tree.node(m.bytes))


def _fsst(m: pb.Fsst, tree: _Tree) -> Fsst:
    values = tree.node(m.binary)
    if not isinstance(values, Binary):
        raise UnsupportedFeatureError(f"Fsst over {type(values).__name__} is not supported")
    return Fsst(values, m.symbol_table)


def _dictionary(m: pb.Dictionary, tree: _Tree) -> Encoding:
    indices = tree.node(m.indices)
    if isinstance(indices, AllNulls):
        return indices
    return Dictionary(indices, _integer_bits(m.indices), tree.node(m.items), m.num_dictionary_items)


def _packed_struct(m: pb.PackedStruct, tree: _Tree) -> PackedStruct:
    return PackedStruct(tuple(_packed_bits(child, tree.depth) for child in m.inner), tree.buffer(m.buffer))


def _bitpacked(m: pb.Bitpacked, tree: _Tree) -> Bitpacked:
    _check_packed(m.compressed_bits_per_value, m.uncompressed_bits_per_value)
    return Bitpacked(m.compressed_bits_per_value, m.uncompressed_bits_per_value, m.signed, tree.buffer(m.buffer))


def _bitpacked_for_non_neg(m: pb.BitpackedForNonNeg, tree: _Tree) -> BitpackedForNonNeg:
    _check_packed(m.compressed_bits_per_value, m.uncompressed_bits_per_value)
    return BitpackedForNonNeg(m.compressed_bits_per_value, m.uncompressed_bits_per_value, tree.buffer(m.buffer))


_DECODE: dict[str | None, Callable[[Any, _Tree], Any]] = {
    "flat": _flat,
    "nullable": _nullable,
    "fixed_size_list": lambda m, tree: FixedSizeList(m.dimension, tree.node(m.items)),
    "list": _list,
    "binary": _binary,
    "dictionary": _dictionary,
    "fsst": _fsst,
    "packed_struct": _packed_struct,
    "bitpacked": _bitpacked,
    "fixed_size_binary": lambda m, tree: FixedSizeBinary(m.byte_width, tree.node(m.bytes)),
    "bitpacked_for_non_neg": _bitpacked_for_non_neg,
}


_SCHEMES: dict[str, Scheme | None] = {"none": None, "lz4": "lz4", "zstd": "zstd"}


def _whole_bytes(bits: int, also: int) -> None:
    if bits != also and (bits == 0 or bits % 8 or bits > 2**34):
        raise CorruptFileError(f"found values of {bits} bits, expected 1 or a multiple of 8")


def _check_packed(packed: int, unpacked: int) -> None:
    if unpacked not in (8, 16, 32, 64) or not 0 < packed <= unpacked:
        raise CorruptFileError(f"found integers of {unpacked} bits packed to {packed} bits")


def _integer_bits(m: pb.ArrayEncoding) -> int:
    """The width of the integers in an encoding of offsets or indices, which the column's type does not determine."""
    kind = m.WhichOneof("array_encoding")
    if kind == "nullable" and m.nullable.WhichOneof("nullability") == "no_nulls":
        return _integer_bits(m.nullable.no_nulls.values)
    if kind == "nullable" and m.nullable.WhichOneof("nullability") == "some_nulls":
        return _integer_bits(m.nullable.some_nulls.values)
    if kind == "flat":
        bits = m.flat.bits_per_value
    elif kind in ("bitpacked", "bitpacked_for_non_neg"):
        bits = getattr(m, kind).uncompressed_bits_per_value
    else:
        raise UnsupportedFeatureError(f"offsets or indices encoded as {kind!r} are not supported")
    if bits not in (8, 16, 32, 64):
        raise CorruptFileError(f"found offsets or indices of {bits} bits, expected 8, 16, 32 or 64")
    return int(bits)


def _packed_bits(m: pb.ArrayEncoding, depth: int) -> int:
    """The bits of a child of a packed struct in each row."""
    kind = m.WhichOneof("array_encoding")
    if depth > MAX_DEPTH:
        raise CorruptFileError(f"encodings are nested more than {MAX_DEPTH} levels deep")
    if kind == "nullable" and m.nullable.WhichOneof("nullability") == "no_nulls":
        return _packed_bits(m.nullable.no_nulls.values, depth + 1)
    if kind == "fixed_size_list":
        return int(m.fixed_size_list.dimension) * _packed_bits(m.fixed_size_list.items, depth + 1)
    if kind == "flat":
        bits = int(m.flat.bits_per_value)
        _whole_bytes(bits, 8)
        return bits
    raise UnsupportedFeatureError(f"packed structs with a child encoded as {kind!r} are not supported")
