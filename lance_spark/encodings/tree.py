"""The tree of compressive encodings: protobuf messages <-> nodes, with one table for each direction.

Spec: file_encoding.md, "Compressive encodings"; messages of encodings_v2_1.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.blocks import Encoding
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.dictionary import Dictionary
from lance_spark.encodings.fixed_size_list import FixedSizeListEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.general import General, Scheme
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.packed_struct import PackedStructEncoding
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.variable import Variable
from lance_spark.encodings.variable_packed_struct import PackedField, VariablePackedStruct
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

MAX_DEPTH = 16
"""Maximum depth of a decoded tree: far above that of any writer, and far below the limit of the stack."""


def decode_message(message: pb.CompressiveEncoding, depth: int = 0) -> Encoding:
    """The node of `message`, at `depth` nodes below the root, with its subtree."""
    if depth == MAX_DEPTH:
        raise CorruptFileError(f"encodings are nested more than {MAX_DEPTH} levels deep")
    kind = message.WhichOneof("compression")
    if kind is None:
        raise UnsupportedFeatureError("unknown compressive encoding")
    return _DECODE[kind](getattr(message, kind), depth + 1)


def encode_message(node: Encoding) -> pb.CompressiveEncoding:
    """The message of `node` with its subtree."""
    return _ENCODE[type(node)](node)


def _flat(message: pb.Flat, depth: int) -> Flat:
    _refuse_buffer_compression(message, "data")
    return Flat(message.bits_per_value)


def _inline_bitpacking(message: pb.InlineBitpacking, depth: int) -> InlineBitpacking:
    _refuse_buffer_compression(message, "values")
    return InlineBitpacking(message.uncompressed_bits_per_value)


def _variable(message: pb.Variable, depth: int) -> Variable:
    _refuse_buffer_compression(message, "values")
    return Variable(decode_message(message.offsets, depth))


def _general(message: pb.General, depth: int) -> General:
    compression = message.compression
    scheme = _SCHEMES.get(compression.scheme)
    if scheme is None:
        raise UnsupportedFeatureError(f"general compression with scheme {compression.scheme} is not supported")
    return General(scheme, compression.level if compression.HasField("level") else None, decode_message(message.values, depth))


def _general_message(node: General) -> pb.CompressiveEncoding:
    scheme = next(number for number, name in _SCHEMES.items() if name == node.scheme)
    compression = pb.BufferCompression(scheme=scheme, level=node.level)
    return pb.CompressiveEncoding(general=pb.General(compression=compression, values=encode_message(node.values)))


def _variable_packed_struct(message: pb.VariablePackedStruct, depth: int) -> VariablePackedStruct:
    def child(field: pb.VariablePackedStruct.FieldEncoding) -> PackedField:
        variable = field.WhichOneof("layout") == "bits_per_length"
        return PackedField(decode_message(field.value, depth), field.bits_per_length if variable else field.bits_per_value, variable)

    return VariablePackedStruct(tuple(child(field) for field in message.fields))


def _variable_packed_struct_message(node: VariablePackedStruct) -> pb.CompressiveEncoding:
    def child(field: PackedField) -> pb.VariablePackedStruct.FieldEncoding:
        value = encode_message(field.values)
        if field.variable:
            return pb.VariablePackedStruct.FieldEncoding(value=value, bits_per_length=field.bits)
        return pb.VariablePackedStruct.FieldEncoding(value=value, bits_per_value=field.bits)

    message = pb.VariablePackedStruct(fields=[child(field) for field in node.fields])
    return pb.CompressiveEncoding(variable_packed_struct=message)


def _refuse_buffer_compression(message: Any, field: str) -> None:
    # Writers wrap the encoding in General; no known writer uses the field that compresses its one buffer.
    if message.HasField(field):
        raise UnsupportedFeatureError(f"{type(message).__name__} with its own buffer compression is not supported")


_SCHEMES: dict[pb.CompressionScheme, Scheme] = {pb.COMPRESSION_ALGORITHM_LZ4: "lz4", pb.COMPRESSION_ALGORITHM_ZSTD: "zstd"}

_DECODE: dict[str, Callable[[Any, int], Encoding]] = {
    "flat": _flat,
    "variable": _variable,
    "constant": lambda m, depth: Constant(m.value if m.HasField("value") else None),
    "out_of_line_bitpacking": lambda m, depth: OutOfLineBitpacking(m.uncompressed_bits_per_value, decode_message(m.values, depth)),
    "inline_bitpacking": _inline_bitpacking,
    "fsst": lambda m, depth: Fsst(m.symbol_table, decode_message(m.values, depth)),
    "general": _general,
    "dictionary": lambda m, depth: Dictionary(decode_message(m.indices, depth), decode_message(m.items, depth), m.num_dictionary_items),
    "variable_packed_struct": _variable_packed_struct,
    "range": lambda m, depth: Range(m.uncompressed_bits_per_value, m.start, m.step),
    "delta": lambda m, depth: Delta(m.uncompressed_bits_per_value, m.base, decode_message(m.deltas, depth)),
    "rle": lambda m, depth: Rle(decode_message(m.values, depth), decode_message(m.run_lengths, depth)),
    "byte_stream_split": lambda m, depth: ByteStreamSplit(decode_message(m.values, depth)),
    "fixed_size_list": lambda m, depth: FixedSizeListEncoding(m.items_per_value, m.has_validity, decode_message(m.values, depth)),
    "packed_struct": lambda m, depth: PackedStructEncoding(tuple(m.bits_per_value), decode_message(m.values, depth)),
}

_ENCODE: dict[type, Callable[[Any], pb.CompressiveEncoding]] = {
    Flat: lambda n: pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=n.bits_per_value)),
    Variable: lambda n: pb.CompressiveEncoding(variable=pb.Variable(offsets=encode_message(n.offsets))),
    Constant: lambda n: pb.CompressiveEncoding(constant=pb.Constant(value=n.value)),
    OutOfLineBitpacking: lambda n: pb.CompressiveEncoding(
        out_of_line_bitpacking=pb.OutOfLineBitpacking(
            uncompressed_bits_per_value=n.uncompressed_bits_per_value, values=encode_message(n.values)
        )
    ),
    InlineBitpacking: lambda n: pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=n.uncompressed_bits_per_value)
    ),
    Fsst: lambda n: pb.CompressiveEncoding(fsst=pb.Fsst(symbol_table=n.symbol_table, values=encode_message(n.values))),
    General: _general_message,
    Dictionary: lambda n: pb.CompressiveEncoding(
        dictionary=pb.Dictionary(indices=encode_message(n.indices), items=encode_message(n.items), num_dictionary_items=n.num_items)
    ),
    VariablePackedStruct: _variable_packed_struct_message,
    Range: lambda n: pb.CompressiveEncoding(range=pb.Range(uncompressed_bits_per_value=n.bits, start=n.start, step=n.step)),
    Delta: lambda n: pb.CompressiveEncoding(
        delta=pb.Delta(uncompressed_bits_per_value=n.bits, base=n.base, deltas=encode_message(n.deltas))
    ),
    Rle: lambda n: pb.CompressiveEncoding(rle=pb.Rle(values=encode_message(n.values), run_lengths=encode_message(n.run_lengths))),
    ByteStreamSplit: lambda n: pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=encode_message(n.values))),
    FixedSizeListEncoding: lambda n: pb.CompressiveEncoding(
        fixed_size_list=pb.FixedSizeList(items_per_value=n.items_per_value, has_validity=n.has_validity, values=encode_message(n.values))
    ),
    PackedStructEncoding: lambda n: pb.CompressiveEncoding(
        packed_struct=pb.PackedStruct(bits_per_value=n.bits_per_value, values=encode_message(n.values))
    ),
}
