"""Page layouts of mid-2025 writers of 2.1 -> the final messages of 2.1.

Layouts and bytes were the same; compressions were still described by messages of the 2.0 grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lance_spark._proto import encodings_v2_0_pb2 as pb20
from lance_spark._proto import encodings_v2_1_early_pb2 as early
from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.encodings.tree import MAX_DEPTH
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError


def upgraded(encoding: bytes) -> pb.PageLayout:
    """The page layout that is equivalent to these bytes of a `lance.encodings.PageLayout`."""
    message = parse_message(early.PageLayout, encoding, "page layout")
    kind = message.WhichOneof("layout")
    if kind == "mini_block_layout":
        return pb.PageLayout(mini_block_layout=_mini_block(message.mini_block_layout))
    if kind == "full_zip_layout":
        m = message.full_zip_layout
        zipped = pb.FullZipLayout(
            bits_rep=m.bits_rep,
            bits_def=m.bits_def,
            num_items=m.num_items,
            num_visible_items=m.num_visible_items,
            value_compression=_encoding(m.value_compression),
            layers=m.layers,
        )
        details = m.WhichOneof("details")
        if details is not None:
            setattr(zipped, details, getattr(m, details))
        return pb.PageLayout(full_zip_layout=zipped)
    if kind == "all_null_layout":
        return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=message.all_null_layout.layers))
    raise UnsupportedFeatureError("unknown page layout")


def _mini_block(message: early.MiniBlockLayout) -> pb.MiniBlockLayout:
    out = pb.MiniBlockLayout(
        num_dictionary_items=message.num_dictionary_items,
        layers=message.layers,
        num_buffers=message.num_buffers,
        repetition_index_depth=message.repetition_index_depth,
        num_items=message.num_items,
    )
    for name in ("rep_compression", "def_compression", "value_compression", "dictionary"):
        if message.HasField(name):
            getattr(out, name).CopyFrom(_encoding(getattr(message, name)))
    return out


def _encoding(message: pb20.ArrayEncoding, depth: int = 0) -> pb.CompressiveEncoding:
    if depth == MAX_DEPTH:
        raise CorruptFileError(f"encodings are nested more than {MAX_DEPTH} levels deep")
    kind = message.WhichOneof("array_encoding")
    if kind not in _UPGRADES:
        raise UnsupportedFeatureError(f"the 2.0 encoding {kind} is not supported in a page of 2.1")
    name, made = _UPGRADES[kind](getattr(message, kind), depth + 1)
    return pb.CompressiveEncoding(**{name: made})


def _flat(bits: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))


def _general(message: pb20.GeneralMiniBlock, depth: int) -> tuple[str, pb.General]:
    schemes = {"lz4": pb.COMPRESSION_ALGORITHM_LZ4, "zstd": pb.COMPRESSION_ALGORITHM_ZSTD}
    if message.compression.scheme not in schemes:
        raise UnsupportedFeatureError(f"the compression {message.compression.scheme!r} is not supported")
    compression = pb.BufferCompression(scheme=schemes[message.compression.scheme])
    return "general", pb.General(compression=compression, values=_encoding(message.inner, depth))


_UPGRADES: dict[str | None, Callable[[Any, int], tuple[str, Any]]] = {
    "flat": lambda m, depth: ("flat", pb.Flat(bits_per_value=m.bits_per_value)),
    "fixed_size_list": lambda m, depth: (
        "fixed_size_list",
        pb.FixedSizeList(items_per_value=m.dimension, has_validity=m.has_validity, values=_encoding(m.items, depth)),
    ),
    "fsst": lambda m, depth: ("fsst", pb.Fsst(symbol_table=m.symbol_table, values=_encoding(m.binary, depth))),
    "inline_bitpacking": lambda m, depth: (
        "inline_bitpacking",
        pb.InlineBitpacking(uncompressed_bits_per_value=m.uncompressed_bits_per_value),
    ),
    "out_of_line_bitpacking": lambda m, depth: (
        "out_of_line_bitpacking",
        pb.OutOfLineBitpacking(uncompressed_bits_per_value=m.uncompressed_bits_per_value, values=_flat(m.compressed_bits_per_value)),
    ),
    "variable": lambda m, depth: ("variable", pb.Variable(offsets=_flat(m.bits_per_offset))),
    "packed_struct_fixed_width_mini_block": lambda m, depth: (
        "packed_struct",
        pb.PackedStruct(bits_per_value=m.bits_per_values, values=_encoding(m.Flat, depth)),
    ),
    "rle": lambda m, depth: ("rle", pb.Rle(values=_flat(m.bits_per_value), run_lengths=_flat(8))),
    "byte_stream_split": lambda m, depth: ("byte_stream_split", pb.ByteStreamSplit(values=_flat(m.bits_per_value))),
    "general_mini_block": _general,
}
