"""Rle: runs in chunks and blocks, with flat and with encoded values and lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Block, FixedWidth, split_evenly
from lance_spark.encodings import out_of_line_bitpacking, rle
from lance_spark.encodings.fixed_size_list import FixedSizeListEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.general import General, Scheme
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.rle import Rle
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.numbers import WORDS, block_of, bytes_of, runs
from tests.encodings.cases.strings import as_chunks, stored
from tests.encodings.test_general import framed

# name, values, values in a chunk, run values of the chunks, run lengths of the chunks
CASES = [
    ("two runs", np.array([7, 7, 7, 9], "<u2"), 8, [b"\7\0\x09\0"], [b"\3\1"]),
    ("a run over the end of a chunk", np.array([5] * 6, "<u1"), 4, [b"\5", b"\5"], [b"\4", b"\2"]),
    ("a run longer than a byte can say", np.array([1] * 600, "<u1"), 1024, [b"\1\1\1"], [b"\xff\xff\x5a"]),
    ("a run as long as a byte can say", np.array([1] * 255 + [2], "<u1"), 1024, [b"\1\2"], [b"\xff\1"]),
]


def numbers_of(block: Block, word: type) -> list[int]:
    """The values of a block of numbers."""
    assert isinstance(block, FixedWidth)
    return [int(value) for value in block.view(np.dtype(word))]


def named() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("values", "size", "run_values", "lengths"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])


@named()
def test_chunks_are_written_as_the_format_says(values: np.ndarray, size: int, run_values: list[bytes], lengths: list[bytes]) -> None:
    encoded = rle.encode_chunks(block_of(values), split_evenly(len(values), size))
    assert encoded.encoding == Rle(Flat(8 * values.itemsize), Flat(8))
    for buffer, expected in zip(encoded.buffers, (run_values, lengths), strict=True):
        assert buffer.data.tobytes() == b"".join(expected)
        assert np.diff(buffer.bounds).tolist() == [len(e) for e in expected]


@named()
def test_chunks_are_read_as_the_format_says(values: np.ndarray, size: int, run_values: list[bytes], lengths: list[bytes]) -> None:
    node = Rle(Flat(8 * values.itemsize), Flat(8))
    chunks = as_chunks([run_values, lengths], split_evenly(len(values), size).tolist())
    assert bytes_of(node.decode_chunks(chunks)) == values.tobytes()


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
def test_values_and_lengths_may_be_compressed(scheme: Scheme) -> None:
    node = Rle(General(scheme, None, Flat(16)), General(scheme, None, Flat(8)))
    chunks = as_chunks([[framed(scheme, b"\7\0\x09\0")], [framed(scheme, b"\3\1")]], [4])
    assert numbers_of(node.decode_chunks(chunks), np.uint16) == [7, 7, 7, 9]


@given(runs(), st.sampled_from([1, 128, 1024]))
def test_runs_come_back_from_chunks(values: np.ndarray, size: int) -> None:
    encoded = rle.encode_chunks(block_of(values), split_evenly(len(values), size))
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == values.tobytes()


@given(runs(), st.sampled_from([1, 128, 1024]))
def test_runs_come_back_from_blocks(values: np.ndarray, size: int) -> None:
    encoded = rle.encode_blocks(block_of(values), split_evenly(len(values), size))
    assert bytes_of(encoded.encoding.decode_blocks(stored(encoded))) == values.tobytes()


@given(runs(), st.sampled_from([1, 128, 1024]))
def test_runs_come_back_from_packed_chunks(values: np.ndarray, size: int) -> None:
    block, counts = block_of(values), split_evenly(len(values), size)
    encoded = rle.encode_packed_chunks(block, counts)
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == values.tobytes()
    assert sum(len(b.data) for b in encoded.buffers) <= sum(len(b.data) for b in rle.encode_chunks(block, counts).buffers)


PACKED = [
    ("long runs", np.array([1] * 600 + [2] * 300, "<u1"), Rle(Flat(8), Flat(16))),
    ("few long runs", np.array([1] * 256, "<u4"), Rle(Flat(32), Flat(16))),
    ("short runs", np.arange(2048, dtype="<u4").repeat(2) << 20, Rle(Flat(32), OutOfLineBitpacking(8, Flat(2)))),
    ("small values", np.arange(4096, dtype="<u4").repeat(255) % 4, Rle(OutOfLineBitpacking(32, Flat(2)), Flat(8))),
]


@pytest.mark.parametrize(("values", "node"), [c[1:] for c in PACKED], ids=[c[0] for c in PACKED])
def test_the_larger_part_is_packed(values: np.ndarray, node: Rle) -> None:
    assert rle.encode_packed_chunks(block_of(values), np.array([len(values)])).encoding == node


@given(runs())
def test_the_longest_run_is_found(values: np.ndarray) -> None:
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    bounds = np.concatenate([[0], changes, [len(values)]])
    assert rle.longest_run(block_of(values)) == np.diff(bounds).max()


def test_a_block_is_the_size_of_its_values_then_values_then_lengths() -> None:
    node, data = rle.encode_block(block_of(np.array([1, 1, 2], "<u2")))
    assert bytes(data) == b"\4\0\0\0\0\0\0\0\1\0\2\0\2\1"
    assert numbers_of(node.decode_block(data, 3), np.uint16) == [1, 1, 2]


@given(runs())
def test_runs_are_counted_however_long(values: np.ndarray) -> None:
    assert rle.count_runs(block_of(values)) == (1 + int((values[1:] != values[:-1]).sum()) if len(values) else 0)


@pytest.mark.parametrize("word", WORDS)
def test_values_or_lengths_may_be_bit_packed(word: type) -> None:
    bits = 8 * np.dtype(word).itemsize
    run_values: np.ndarray = np.arange(200, dtype=word) % 8
    lengths = np.arange(200, dtype=np.uint8) % 5
    packed_values, value_bytes = out_of_line_bitpacking.encode_block(block_of(run_values))
    packed_lengths, length_bytes = out_of_line_bitpacking.encode_block(block_of(lengths))
    count = [int(lengths.sum())]
    expected = np.repeat(run_values, lengths).tobytes()
    chunks = as_chunks([[bytes(value_bytes)], [lengths.tobytes()]], count)
    assert bytes_of(Rle(packed_values, Flat(8)).decode_chunks(chunks)) == expected
    chunks = as_chunks([[run_values.tobytes()], [bytes(length_bytes)]], count)
    assert bytes_of(Rle(Flat(bits), packed_lengths).decode_chunks(chunks)) == expected
    with pytest.raises(UnsupportedFeatureError):
        Rle(packed_values, packed_lengths).decode_chunks(chunks)


def test_lengths_may_be_wider_than_a_byte() -> None:
    chunks = as_chunks([[b"\1\2"], [b"\x01\x01\x02\0"]], [259])
    assert bytes_of(Rle(Flat(8), Flat(16)).decode_chunks(chunks)) == b"\1" * 257 + b"\2" * 2


def test_values_may_be_wider_than_a_word() -> None:
    chunks = as_chunks([[b"a" * 16 + b"b" * 16], [b"\2\1"]], [3])
    assert bytes_of(Rle(Flat(128), Flat(8)).decode_chunks(chunks)) == b"a" * 32 + b"b" * 16


@pytest.mark.parametrize("bits", [8, 128])
def test_the_last_run_of_a_chunk_may_end_in_the_next(bits: int) -> None:
    """Writers of late 2025 repeat a run that crosses the end of a chunk in the next chunk."""
    a, b, c = (letter * (bits // 8) for letter in (b"a", b"b", b"c"))
    chunks = as_chunks([[a + b, b + c], [b"\1\5", b"\2\1"]], [4, 3])
    assert bytes_of(Rle(Flat(bits), Flat(8)).decode_chunks(chunks)) == a + b * 5 + c


BAD_CHUNKS = [
    ("runs that make too few", b"\1\2", b"\2\2", 5),
    ("runs that make too many", b"\1\2", b"\2\2", 2),
    ("runs that make many less than said", b"\1\2", b"\2\2", 2**62),
    ("more values than lengths", b"\1\2\3", b"\2\2", 4),
    ("more lengths than values", b"\1", b"\2\2", 4),
    ("no runs", b"", b"", 4),
]


@pytest.mark.parametrize(("values", "lengths", "count"), [c[1:] for c in BAD_CHUNKS], ids=[c[0] for c in BAD_CHUNKS])
def test_bad_chunks_are_refused(values: bytes, lengths: bytes, count: int) -> None:
    with pytest.raises(CorruptFileError, match="chunk 1 of 2"):
        Rle(Flat(8), Flat(8)).decode_chunks(as_chunks([[b"\1", values], [b"\2", lengths]], [2, count]))


def test_runs_of_one_chunk_do_not_make_up_for_those_of_another() -> None:
    with pytest.raises(CorruptFileError, match="chunk 0 of 2"):
        Rle(Flat(8), Flat(8)).decode_chunks(as_chunks([[b"\1", b"\2"], [b"\2", b"\2"]], [3, 1]))


@pytest.mark.parametrize("data", [b"", b"\1" + bytes(6), b"\2" + bytes(8), b"\xff" * 9])
def test_bad_blocks_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="run-length block"):
        Rle(Flat(8), Flat(8)).decode_block(np.frombuffer(data, np.uint8), 1)


def test_buffers_that_are_not_whole_values_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="whole number"):
        Rle(Flat(16), Flat(8)).decode_chunks(as_chunks([[b"\1\2\3"], [b"\1"]], [1]))


def test_invalid_trees_are_refused() -> None:
    eight = as_chunks([[b"\1" * 8], [b"\0" * 8]], [0])
    with pytest.raises(UnsupportedFeatureError, match="lengths"):
        Rle(Flat(64), Flat(64)).decode_chunks(eight)
    with pytest.raises(UnsupportedFeatureError, match="fixed number of bytes"):
        Rle(FixedSizeListEncoding(2, False, Flat(8)), Flat(8)).decode_chunks(as_chunks([[b"\1\2"], [b"\1"]], [1]))
    with pytest.raises(UnsupportedFeatureError, match="several buffers"):
        Rle(Rle(Flat(8), Flat(8)), Flat(8)).decode_block(np.zeros(20, np.uint8), 1)
    with pytest.raises(CorruptFileError):
        Rle(Flat(1), Flat(8)).decode_chunks(eight)
    with pytest.raises(UnsupportedFeatureError):
        Rle(OutOfLineBitpacking(8, Flat(1)), OutOfLineBitpacking(8, Flat(1))).decode_chunks(eight)


def test_a_block_of_runs_whose_values_follow_a_formula_stores_lengths_only() -> None:
    data = b"".join([bytes(8), np.array([2, 1, 3], "<u4").tobytes()])
    block = Rle(Range(64, 10, 5), Flat(32)).decode_block(np.frombuffer(data, np.uint8), 6)
    assert isinstance(block, FixedWidth)
    assert block.view(np.uint64).tolist() == [10, 10, 15, 20, 20, 20]


def test_runs_whose_lengths_follow_a_formula_too_take_no_bytes() -> None:
    node = Rle(Range(64, 1, 2), Range(32, 1, 1))
    assert node.num_buffers == 0
    assert numbers_of(node.decode_block(np.empty(0, np.uint8), 6), np.uint64) == [1, 3, 3, 5, 5, 5]
    assert numbers_of(node.decode_block(np.empty(0, np.uint8), 5), np.uint64) == [1, 3, 3, 5, 5]
