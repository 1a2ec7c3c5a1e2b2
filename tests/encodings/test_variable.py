"""Variable: strings in chunks and blocks, with flat and with coded offsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Encoding, FixedWidth, VariableWidth, split_evenly
from lance_spark.encodings import variable
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.strings import as_chunks, block_of, byte_strings, stored, strings_of

u32 = "<u4"
u64 = "<u8"


def words(dtype: str, *values: int) -> bytes:
    return np.array(values, dtype).tobytes()


# name, strings, dtype of the offsets, bytes of the only chunk
CHUNKS: list[tuple[str, list[bytes], type, bytes]] = [
    ("one string", [b"abc"], np.int32, words(u32, 8, 11) + b"abcH"),
    ("two strings, no padding", [b"ab", b"cd"], np.int32, words(u32, 12, 14, 16) + b"abcd"),
    ("empty strings", [b"", b""], np.int32, words(u32, 12, 12, 12)),
    ("64-bit offsets", [b"abc"], np.int64, words(u64, 16, 19) + b"abcHHHHH"),
]

# name, strings, dtype of the offsets, bytes of the block
BLOCKS: list[tuple[str, list[bytes], type, bytes]] = [
    ("two strings", [b"zz", b"y"], np.int32, words(u32, 32, 20, 0, 2, 3) + b"zzy"),
    ("no strings", [], np.int32, words(u32, 32, 12, 0)),
    ("64-bit offsets", [b"zz", b"y"], np.int64, words(u64, 64, 40, 0, 2, 3) + b"zzy"),
]


def named(cases: list[tuple[str, list[bytes], type, bytes]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("strings", "dtype", "data"), [c[1:] for c in cases], ids=[c[0] for c in cases])


@named(CHUNKS)
def test_a_chunk_is_written_as_the_format_says(strings: list[bytes], dtype: type, data: bytes) -> None:
    encoded = variable.encode_chunks(block_of(strings, dtype))
    assert encoded.buffers[0].data.tobytes() == data
    assert encoded.counts.tolist() == [len(strings)]


@named(CHUNKS)
def test_a_chunk_is_read_as_the_format_says(strings: list[bytes], dtype: type, data: bytes) -> None:
    node = Variable(Flat(8 * np.dtype(dtype).itemsize))
    block = node.decode_chunks(as_chunks([[data]], [len(strings)]))
    assert strings_of(block) == strings
    assert block.offsets.dtype == dtype


@named(BLOCKS)
def test_a_block_is_written_as_the_format_says(strings: list[bytes], dtype: type, data: bytes) -> None:
    assert variable.encode_block(block_of(strings, dtype)) == (Variable(Flat(8 * np.dtype(dtype).itemsize)), data)


@named(BLOCKS)
def test_a_block_is_read_as_the_format_says(strings: list[bytes], dtype: type, data: bytes) -> None:
    node = Variable(Flat(8 * np.dtype(dtype).itemsize))
    assert strings_of(node.decode_block(np.frombuffer(data, np.uint8), len(strings))) == strings


@pytest.mark.parametrize(("bits", "dtype"), [(32, u32), (64, u64)])
def test_a_block_of_an_old_writer_has_its_width_in_one_byte(bits: int, dtype: str) -> None:
    width = bits // 8
    head = bytes([bits]) + words(dtype, 2, 1 + 5 * width, 0, 2, 3)
    assert strings_of(Variable(Flat(bits)).decode_block(np.frombuffer(head + b"zzy", np.uint8), 2)) == [b"zz", b"y"]


@pytest.mark.parametrize(("bits", "dtype"), [(32, u32), (64, u64)])
@pytest.mark.parametrize("count", [2, 32, 64])
def test_a_block_of_a_writer_of_mid_2025_has_its_count_first(bits: int, dtype: str, count: int) -> None:
    strings = [b"%02d" % i for i in range(count)]
    head = words(dtype, count, (count + 3) * bits // 8, *range(0, 2 * count + 1, 2))
    assert strings_of(Variable(Flat(bits)).decode_block(np.frombuffer(head + b"".join(strings), np.uint8), count)) == strings


@given(byte_strings(), st.sampled_from([np.int32, np.int64]))
def test_chunks_round_trip(strings: list[bytes], dtype: type) -> None:
    encoded = variable.encode_chunks(block_of(strings, dtype))
    assert strings_of(encoded.encoding.decode_chunks(stored(encoded))) == strings
    assert encoded.counts.sum() == len(strings)


@given(byte_strings(), st.sampled_from([np.int32, np.int64]))
def test_blocks_round_trip(strings: list[bytes], dtype: type) -> None:
    node, data = variable.encode_block(block_of(strings, dtype))
    assert strings_of(node.decode_block(np.frombuffer(data, np.uint8), len(strings))) == strings


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 1025, 4096, 4097, 9000])
@pytest.mark.parametrize("size", [0, 3])
def test_chunks_hold_powers_of_two_and_at_most_4096_values(count: int, size: int) -> None:
    encoded = variable.encode_chunks(block_of([b"x" * size] * count))
    assert strings_of(encoded.encoding.decode_chunks(stored(encoded))) == [b"x" * size] * count
    assert encoded.counts.sum() == count
    assert all(n & (n - 1) == 0 and n <= 4096 for n in encoded.counts[:-1].tolist())
    assert all(np.diff(encoded.buffers[0].bounds) <= 4096)


def test_a_string_larger_than_a_chunk_shares_one_with_a_single_other() -> None:
    strings = [b"a", bytes(range(256)) * 128, b"b" * 5000, b"c", b"d"]
    encoded = variable.encode_chunks(block_of(strings))
    assert encoded.counts.tolist() == [2, 2, 1]
    assert strings_of(encoded.encoding.decode_chunks(stored(encoded))) == strings


@given(byte_strings(), st.sampled_from([np.int32, np.int64]), st.sampled_from([1, 8, 1024]))
def test_packed_chunks_round_trip(strings: list[bytes], dtype: type, size: int) -> None:
    if not strings:
        return
    encoded = variable.encode_packed_counts(block_of(strings, dtype), split_evenly(len(strings), size))
    assert strings_of(encoded.encoding.decode_chunks(stored(encoded))) == strings


PACKED = [
    ("one length", [b"abc", b"def"], Range(32, 0, 3)),
    ("no bytes", [b"", b""], Constant(bytes(4))),
    ("several lengths", [b"a", b"bcd"], Delta(32, 0, OutOfLineBitpacking(32, Flat(2)))),
]


@pytest.mark.parametrize(("strings", "offsets"), [c[1:] for c in PACKED], ids=[c[0] for c in PACKED])
def test_offsets_are_a_range_or_packed_lengths(strings: list[bytes], offsets: Encoding) -> None:
    encoded = variable.encode_packed_counts(block_of(strings, np.int32), np.array([len(strings)]))
    assert encoded.encoding == Variable(offsets)
    assert encoded.buffers[-1].data.tobytes() == b"".join(strings)


def test_a_slice_of_a_block_is_encoded_without_the_bytes_after_it() -> None:
    block = VariableWidth(np.array([0, 2, 3], np.int32), np.frombuffer(b"zzyxxxx", np.uint8))
    assert variable.encode_block(block)[1].endswith(b"zzy")
    assert strings_of(variable.encode_chunks(block).encoding.decode_chunks(stored(variable.encode_chunks(block)))) == [b"zz", b"y"]


def test_no_chunks_have_no_strings() -> None:
    assert strings_of(Variable(Flat(32)).decode_chunks(as_chunks([[]], []))) == []


def test_single_values_stay_unchanged() -> None:
    block = block_of([b"a", b"bc"])
    assert variable.encode_values(block) == (Variable(Flat(32)), block)
    assert Variable(Flat(32)).decode_values(block) is block
    with pytest.raises(CorruptFileError):
        Variable(Flat(32)).decode_values(FixedWidth(8, np.zeros(2, np.uint8), 2))


BAD_CHUNKS = [
    ("no room for offsets", words(u32, 12, 12), 2),
    ("bytes that start inside the offsets", words(u32, 8, 12, 12), 2),
    ("falling offsets", words(u32, 16, 18, 17, 18) + b"ab", 3),
    ("a last offset behind the end", words(u32, 12, 14, 15) + b"ab", 2),
    ("an offset behind the end that comes back", words(u32, 12, 2**32 - 1, 14) + b"ab", 2),
    ("a last offset before the first", words(u32, 12, 12, 4) + b"ab", 2),
    ("many strings in few bytes", words(u32, 12), 2**30),
]


@pytest.mark.parametrize(("data", "count"), [c[1:] for c in BAD_CHUNKS], ids=[c[0] for c in BAD_CHUNKS])
def test_bad_offsets_of_a_chunk_are_refused(data: bytes, count: int) -> None:
    good = words(u32, 8, 9) + b"x"
    with pytest.raises(CorruptFileError, match="chunk 1 "):
        Variable(Flat(32)).decode_chunks(as_chunks([[good, data]], [1, count]))


@pytest.mark.parametrize("last", [2**63, 2**64 - 1, 2**62])
def test_bad_64_bit_offsets_of_a_chunk_are_refused(last: int) -> None:
    with pytest.raises(CorruptFileError, match="chunk 0 "):
        Variable(Flat(64)).decode_chunks(as_chunks([[words(u64, 24, last, 25) + b"x"]], [2]))
    with pytest.raises(CorruptFileError, match="chunk 0 "):
        Variable(Flat(64)).decode_chunks(as_chunks([[words(u64, 24, 24, last) + b"x"]], [2]))


BAD_BLOCKS = [
    ("nothing", b"", 0),
    ("no header", words(u32, 32), 1),
    ("a width that is none", words(u32, 16, 12, 0), 0),
    ("bytes that start inside the offsets", words(u32, 32, 12, 0, 1) + b"x", 1),
    ("bytes that start behind the end", words(u32, 32, 60, 0, 1) + b"x", 1),
    ("too large an offset", words(u32, 32, 16, 0, 2) + b"x", 1),
    ("more strings than bytes", words(u32, 32, 16, 0, 1) + b"x", 2**60),
]


@pytest.mark.parametrize(("data", "count"), [c[1:] for c in BAD_BLOCKS], ids=[c[0] for c in BAD_BLOCKS])
def test_a_bad_block_is_refused(data: bytes, count: int) -> None:
    with pytest.raises(CorruptFileError):
        Variable(Flat(32)).decode_block(np.frombuffer(data, np.uint8), count)


def test_offsets_of_another_width_are_refused() -> None:
    with pytest.raises(CorruptFileError):
        Variable(Flat(16))


@pytest.mark.parametrize("offsets", [Flat(32), Constant(b"\0\0\0\0")], ids=str)
@pytest.mark.parametrize("count", [2**31, 2**40, 2**63 - 1])
def test_impossible_counts_are_refused(offsets: Encoding, count: int) -> None:
    with pytest.raises(CorruptFileError):
        Variable(offsets).decode_chunks(as_chunks([[b"", b""]], [count, 1]))


# name, encoding of the offsets, buffers of two chunks, strings of both
CODED = [
    ("constant", Constant(b"\0\0\0\0"), [[b"HHHH", b""]], [[b"", b"", b""], [b""]]),
    ("range", Range(32, 0, 2), [[b"abcdHHHH", b"ef"]], [[b"ab", b"cd"], [b"ef"]]),
    ("range of 64 bits", Range(64, 0, 1), [[b"ab", b"c"]], [[b"a", b"b"], [b"c"]]),
    ("delta", Delta(32, 0, Flat(32)), [[words(u32, 1, 0, 2), words(u32, 3)], [b"abcH", b"def"]], [[b"a", b"", b"bc"], [b"def"]]),
    ("delta of a constant", Delta(64, 0, Constant(words(u64, 2))), [[b"abcd", b"ef"]], [[b"ab", b"cd"], [b"ef"]]),
]


@pytest.mark.parametrize(("offsets", "buffers", "strings"), [c[1:] for c in CODED], ids=[c[0] for c in CODED])
def test_coded_offsets_begin_again_in_each_chunk(offsets: Encoding, buffers: list[list[bytes]], strings: list[list[bytes]]) -> None:
    node = Variable(offsets)
    assert node.num_buffers == len(buffers)
    assert strings_of(node.decode_chunks(as_chunks(buffers, [len(s) for s in strings]))) == [s for chunk in strings for s in chunk]


def test_invalid_coded_offsets_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="chunk 1 "):
        Variable(Range(32, 0, 2)).decode_chunks(as_chunks([[b"abcd", b"e"]], [2, 1]))
    with pytest.raises(CorruptFileError, match="chunk 0 "):
        Variable(Range(32, 4, 2**32 - 2)).decode_chunks(as_chunks([[b"abcd"]], [2]))
    with pytest.raises(CorruptFileError):
        Variable(Constant(b"\0\0")).decode_chunks(as_chunks([[b"abcd"]], [2]))
    with pytest.raises(UnsupportedFeatureError):
        Variable(Range(32, 0, 1)).decode_block(np.zeros(20, np.uint8), 1)
