"""Flat: uncompressed values, in chunks, in blocks and one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Chunks, FixedWidth, split_evenly
from lance_spark.encodings import flat
from lance_spark.encodings.flat import Flat
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.numbers import SIZES, block_of, bytes_of, numbers, random_numbers
from tests.encodings.cases.strings import as_chunks, stored

BITS = np.array([1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1], bool)

# name, values, values in a chunk, chunks
CASES = [
    ("u16 in one chunk", np.array([1, 2, 0x1234], "<u2"), 4, [b"\1\0\2\0\x34\x12"]),
    ("u16 in two chunks", np.array([1, 2, 0x1234], "<u2"), 2, [b"\1\0\2\0", b"\x34\x12"]),
    ("bits", BITS, 16, [b"\x19\x06"]),
    ("bits, a byte to each chunk", BITS, 8, [b"\x19", b"\x06"]),
    ("bits, less than a byte to each chunk", BITS, 4, [b"\x09", b"\x01", b"\x06"]),
    ("bytes of fixed size", np.array([b"abc", b"xyz"], "S3"), 1, [b"abc", b"xyz"]),
]


def named() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("values", "size", "chunks"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])


@named()
def test_chunks_are_written_as_the_format_says(values: np.ndarray, size: int, chunks: list[bytes]) -> None:
    encoded = flat.encode_chunks(block_of(values), split_evenly(len(values), size))
    (buffer,) = encoded.buffers
    assert buffer.data.tobytes() == b"".join(chunks)
    assert np.diff(buffer.bounds).tolist() == [len(c) for c in chunks]
    assert encoded.encoding == Flat(block_of(values).bits)


@named()
def test_chunks_are_read_as_the_format_says(values: np.ndarray, size: int, chunks: list[bytes]) -> None:
    block = block_of(values)
    counts = split_evenly(len(values), size).tolist()
    decoded = Flat(block.bits).decode_chunks(as_chunks([chunks], counts))
    assert (bytes_of(decoded), decoded.bits, decoded.count) == (block.data.tobytes(), block.bits, block.count)


@given(numbers(), st.sampled_from([1, 64, 1024]))
def test_numbers_come_back_from_chunks(values: np.ndarray, size: int) -> None:
    encoded = flat.encode_chunks(block_of(values), split_evenly(len(values), size))
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == values.tobytes()


@given(st.sampled_from(SIZES), st.sampled_from([1, 3, 8, 1024, 4096]))
def test_bits_come_back_from_chunks(count: int, size: int) -> None:
    block = block_of(random_numbers(0, np.uint8, 1, count).astype(bool))
    encoded = flat.encode_chunks(block, split_evenly(count, size))
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == block.data.tobytes()


def test_chunks_with_gaps_are_joined() -> None:
    data = np.frombuffer(b"..ab.......cd...", np.uint8)
    chunks = Chunks(data, np.array([[11, 2]]), np.array([[3, 2]]), np.array([1, 1]))
    assert bytes_of(Flat(16).decode_chunks(chunks)) == b"cdab"


def test_chunks_without_gaps_are_not_copied() -> None:
    chunks = as_chunks([[b"ab", b"cd"]], [1, 1])
    assert np.shares_memory(Flat(16).decode_chunks(chunks).data, chunks.data)


@given(numbers())
def test_a_block_is_the_bytes_of_its_values(values: np.ndarray) -> None:
    node, data = flat.encode_block(block_of(values))
    assert bytes(data) == values.tobytes()
    assert bytes_of(node.decode_block(data, len(values))) == values.tobytes()


def test_single_values_stay_unchanged() -> None:
    block = block_of(np.arange(5, dtype=np.uint32))
    assert flat.encode_values(block) == (Flat(32), block)
    assert Flat(32).decode_values(block) is block
    with pytest.raises(CorruptFileError, match="expected values of 64 bits"):
        Flat(64).decode_values(block)


@pytest.mark.parametrize("count", [3, 2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize("bits", [1, 8, 64, 4096])
def test_more_values_than_bytes_are_refused(bits: int, count: int) -> None:
    size = (2 * bits + 7) // 8 - (bits == 1)
    with pytest.raises(CorruptFileError, match="chunk 1 of 2"):
        Flat(bits).decode_chunks(as_chunks([[bytes(bits), bytes(size)]], [1, count]))


def test_partial_bytes_and_absurd_widths_are_refused() -> None:
    for bits in (2**32, 2**64 - 8):
        with pytest.raises(CorruptFileError):
            Flat(bits)
    with pytest.raises(CorruptFileError, match="0 bits"):
        Flat(0).decode_block(np.zeros(100, np.uint8), 1)
    with pytest.raises(CorruptFileError, match="0 bits"):
        Flat(0).decode_values(FixedWidth(0, np.zeros(2, np.uint8), 1))
    with pytest.raises(UnsupportedFeatureError):
        Flat(12).decode_block(np.zeros(100, np.uint8), 1)
    with pytest.raises(UnsupportedFeatureError):
        Flat(12).decode_values(FixedWidth(16, np.zeros(2, np.uint8), 1))


def test_values_are_split_by_chunk() -> None:
    assert split_evenly(2500, 1024).tolist() == [1024, 1024, 452]
    assert split_evenly(2048, 1024).tolist() == [1024, 1024]
    assert split_evenly(0, 1024).tolist() == []
