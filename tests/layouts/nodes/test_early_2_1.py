"""Pages of mid-2025 writers of 2.1: translation of their 2.0 messages to the final grammar of 2.1."""

from __future__ import annotations

import pytest

from lance_spark._proto import encodings_v2_0_pb2 as pb20
from lance_spark._proto import encodings_v2_1_early_pb2 as early
from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.nodes.early_2_1 import upgraded

FLAT = pb20.ArrayEncoding(flat=pb20.Flat(bits_per_value=32, buffer=pb20.Buffer()))
NEW_FLAT = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=32))
STRINGS = pb20.ArrayEncoding(variable=pb20.Variable(bits_per_offset=32))
NEW_STRINGS = pb.CompressiveEncoding(variable=pb.Variable(offsets=NEW_FLAT))

CASES = [
    (FLAT, NEW_FLAT),
    (STRINGS, NEW_STRINGS),
    (
        pb20.ArrayEncoding(fixed_size_list=pb20.FixedSizeList(dimension=3, has_validity=True, items=FLAT)),
        pb.CompressiveEncoding(fixed_size_list=pb.FixedSizeList(items_per_value=3, has_validity=True, values=NEW_FLAT)),
    ),
    (
        pb20.ArrayEncoding(fsst=pb20.Fsst(symbol_table=b"t", binary=STRINGS)),
        pb.CompressiveEncoding(fsst=pb.Fsst(symbol_table=b"t", values=NEW_STRINGS)),
    ),
    (
        pb20.ArrayEncoding(inline_bitpacking=pb20.InlineBitpacking(uncompressed_bits_per_value=16)),
        pb.CompressiveEncoding(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=16)),
    ),
    (
        pb20.ArrayEncoding(out_of_line_bitpacking=pb20.OutOfLineBitpacking(uncompressed_bits_per_value=16, compressed_bits_per_value=32)),
        pb.CompressiveEncoding(out_of_line_bitpacking=pb.OutOfLineBitpacking(uncompressed_bits_per_value=16, values=NEW_FLAT)),
    ),
    (
        pb20.ArrayEncoding(packed_struct_fixed_width_mini_block=pb20.PackedStructFixedWidthMiniBlock(Flat=FLAT, bits_per_values=[8, 24])),
        pb.CompressiveEncoding(packed_struct=pb.PackedStruct(bits_per_value=[8, 24], values=NEW_FLAT)),
    ),
    (
        pb20.ArrayEncoding(general_mini_block=pb20.GeneralMiniBlock(inner=FLAT, compression=pb20.Compression(scheme="zstd"))),
        pb.CompressiveEncoding(general=pb.General(compression=pb.BufferCompression(scheme=pb.COMPRESSION_ALGORITHM_ZSTD), values=NEW_FLAT)),
    ),
    (
        pb20.ArrayEncoding(rle=pb20.Rle(bits_per_value=32)),
        pb.CompressiveEncoding(
            rle=pb.Rle(values=NEW_FLAT, run_lengths=pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=8))),
        ),
    ),
    (
        pb20.ArrayEncoding(byte_stream_split=pb20.ByteStreamSplit(bits_per_value=32)),
        pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=NEW_FLAT)),
    ),
]


def test_a_zipped_page_that_says_no_width_is_left_without_one() -> None:
    page = early.PageLayout(full_zip_layout=early.FullZipLayout(value_compression=FLAT, layers=[pb.REPDEF_NULLABLE_ITEM]))
    zipped = pb.FullZipLayout(value_compression=NEW_FLAT, layers=[pb.REPDEF_NULLABLE_ITEM])
    assert upgraded(page.SerializeToString()) == pb.PageLayout(full_zip_layout=zipped)


def test_an_unknown_compression_is_refused() -> None:
    brotli = pb20.ArrayEncoding(general_mini_block=pb20.GeneralMiniBlock(inner=FLAT, compression=pb20.Compression(scheme="brotli")))
    page = early.PageLayout(mini_block_layout=early.MiniBlockLayout(value_compression=brotli, layers=[pb.REPDEF_NULLABLE_ITEM]))
    with pytest.raises(UnsupportedFeatureError, match="the compression 'brotli'"):
        upgraded(page.SerializeToString())


@pytest.mark.parametrize(("old", "new"), CASES, ids=[str(c[0].WhichOneof("array_encoding")) for c in CASES])
def test_an_encoding_means_the_same_in_both_grammars(old: pb20.ArrayEncoding, new: pb.CompressiveEncoding) -> None:
    layers = [pb.REPDEF_NULLABLE_ITEM]
    mini = early.MiniBlockLayout(value_compression=old, def_compression=FLAT, layers=layers, num_buffers=1, num_items=9)
    expected = pb.MiniBlockLayout(value_compression=new, def_compression=NEW_FLAT, layers=layers, num_buffers=1, num_items=9)
    assert upgraded(early.PageLayout(mini_block_layout=mini).SerializeToString()) == pb.PageLayout(mini_block_layout=expected)


@pytest.mark.parametrize("width", ["bits_per_value", "bits_per_offset"])
def test_full_zip_pages_keep_their_widths(width: str) -> None:
    layers = [pb.REPDEF_NULLABLE_ITEM]
    zipped = early.FullZipLayout(bits_def=1, num_items=5, value_compression=FLAT, layers=layers, **{width: 64})
    got = upgraded(early.PageLayout(full_zip_layout=zipped).SerializeToString()).full_zip_layout
    assert (got.WhichOneof("details"), getattr(got, width), got.bits_def, got.num_items) == (width, 64, 1, 5)
    assert (got.value_compression, list(got.layers)) == (NEW_FLAT, layers)


def test_pages_without_values_are_constant_pages_now() -> None:
    layers = [pb.REPDEF_NULLABLE_ITEM]
    message = early.PageLayout(all_null_layout=early.AllNullLayout(layers=layers))
    assert upgraded(message.SerializeToString()) == pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layers))


def test_encodings_of_2_0_only_are_refused() -> None:
    old = pb20.ArrayEncoding(nullable=pb20.Nullable())
    with pytest.raises(UnsupportedFeatureError, match="nullable"):
        upgraded(early.PageLayout(mini_block_layout=early.MiniBlockLayout(value_compression=old)).SerializeToString())


def test_encodings_too_deep_for_the_stack_are_refused() -> None:
    old = FLAT
    for _ in range(40):
        old = pb20.ArrayEncoding(fixed_size_list=pb20.FixedSizeList(dimension=1, items=old))
    with pytest.raises(CorruptFileError, match="deep"):
        upgraded(early.PageLayout(mini_block_layout=early.MiniBlockLayout(value_compression=old)).SerializeToString())
