"""The tree of encodings: messages and nodes round-trip."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.blocks import Chunks, Encoding, FixedWidth
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.dictionary import Dictionary
from lance_spark.encodings.fixed_size_list import FixedSizeListEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.packed_struct import PackedStructEncoding
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.tree import MAX_DEPTH, decode_message, encode_message
from lance_spark.encodings.variable import Variable
from lance_spark.encodings.variable_packed_struct import PackedField, VariablePackedStruct
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

# node, message in protobuf's wire format
TREES = [
    (Flat(32), "0a02 0820"),
    (Constant(None), "1a00"),
    (Constant(b""), "1a02 0a00"),
    (Constant(b"*"), "1a03 0a012a"),
    (OutOfLineBitpacking(16, Flat(3)), "2208 0810 1a04 0a02 0803"),
    (InlineBitpacking(64), "2a02 0840"),
    (Rle(Flat(32), Flat(8)), "420c 0a04 0a02 0820 1204 0a02 0808"),
    (ByteStreamSplit(Flat(64)), "4a06 0a04 0a02 0840"),
    (FixedSizeListEncoding(3, True, Flat(32)), "5a0a 0803 1204 0a02 0820 1801"),
    (FixedSizeListEncoding(3, False, Flat(32)), "5a08 0803 1204 0a02 0820"),
    (PackedStructEncoding((64, 8), Flat(72)), "620a 0a02 4008 1204 0a02 0848"),
    (Variable(Flat(32)), "1206 0a04 0a02 0820"),
    (Fsst(b"!", Variable(Flat(64))), "320d 0a01 21 1208 1206 0a04 0a02 0840"),
    (Dictionary(Flat(8), Flat(64), 9), "3a0e 0a04 0a02 0808 1204 0a02 0840 1809"),
    (General("lz4", None, Flat(8)), "520a 0a02 0801 1a04 0a02 0808"),
    (General("zstd", 0, Flat(8)), "520c 0a04 0802 1000 1a04 0a02 0808"),
    (
        VariablePackedStruct((PackedField(Flat(16), 16, False), PackedField(Variable(Flat(32)), 32, True))),
        "6a18 0a08 0a04 0a02 0810 1010 0a0c 0a08 1206 0a04 0a02 0820 1820",
    ),
    (Range(64, 5, 2), "7206 0840 1005 1802"),
    (Delta(32, 7, Flat(32)), "7a0a 0820 1007 1a04 0a02 0820"),
]


@pytest.mark.parametrize(("node", "message"), TREES, ids=[str(node) for node, _ in TREES])
def test_nodes_and_messages_round_trip(node: Encoding, message: str) -> None:
    assert encode_message(node).SerializeToString() == bytes.fromhex(message)
    assert decode_message(pb.CompressiveEncoding.FromString(bytes.fromhex(message))) == node


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError):
        decode_message(pb.CompressiveEncoding.FromString(bytes.fromhex("f20100")))


def test_a_message_without_its_values_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError):
        decode_message(pb.CompressiveEncoding(rle=pb.Rle()))


def test_a_compression_of_the_only_buffer_is_refused() -> None:
    zstd = pb.BufferCompression(scheme="COMPRESSION_ALGORITHM_ZSTD")
    for message in (
        pb.CompressiveEncoding(flat=pb.Flat(data=zstd)),
        pb.CompressiveEncoding(inline_bitpacking=pb.InlineBitpacking(values=zstd)),
        pb.CompressiveEncoding(variable=pb.Variable(values=zstd)),
    ):
        with pytest.raises(UnsupportedFeatureError):
            decode_message(message)


def test_unbounded_nesting_is_refused() -> None:
    node: Encoding = Flat(8)
    for _ in range(MAX_DEPTH - 1):
        node = ByteStreamSplit(node)
    assert decode_message(encode_message(node)) == node
    with pytest.raises(CorruptFileError, match="deep"):
        decode_message(encode_message(ByteStreamSplit(node)))


def test_an_encoding_out_of_its_context_is_refused_by_name() -> None:
    chunks = Chunks.of_block(np.zeros(8, np.uint8), 1)
    with pytest.raises(UnsupportedFeatureError, match="InlineBitpacking is not supported for single values"):
        InlineBitpacking(32).decode_values(FixedWidth(32, np.zeros(4, np.uint8), 1))
    with pytest.raises(UnsupportedFeatureError, match="ByteStreamSplit is not supported for blocks"):
        ByteStreamSplit(Flat(32)).decode_blocks(chunks)
    with pytest.raises(UnsupportedFeatureError, match="Encoding is not supported for mini-block chunks"):
        Encoding().decode_chunks(chunks)


def test_an_unknown_compression_scheme_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError):
        decode_message(pb.CompressiveEncoding(general=pb.General()))
