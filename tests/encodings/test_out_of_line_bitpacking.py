"""OutOfLineBitpacking: all blocks packed to one width; the last block may be uncompressed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import split_evenly
from lance_spark.encodings import out_of_line_bitpacking
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.numbers import SIZES, WORDS, block_of, bytes_of, numbers, random_numbers
from tests.encodings.cases.strings import as_chunks, stored

# name, values, packed width, bytes of the only chunk
CASES = [
    ("plain, because a block would be longer", np.array([1, 0, 2], "<u2"), 2, b"\1\0\0\0\2\0"),
    ("plain, because a block would be as long", np.array([1] * 64, "<u2"), 1, b"\1\0" * 64),
    ("a block, because it is shorter", np.array([1, *[0] * 64], "<u2"), 1, b"\1\0" + bytes(126)),
    ("a block and a plain rest", np.array([*[0] * 1024, 1], "<u2"), 1, bytes(128) + b"\1\0"),
    ("zeros take a bit", np.zeros(1024, "<u4"), 1, bytes(128)),
    ("nothing", np.zeros(0, "<u4"), 1, b""),
]


@pytest.mark.parametrize(("values", "width", "data"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_chunk_is_written_and_read_as_the_format_says(values: np.ndarray, width: int, data: bytes) -> None:
    node, encoded = out_of_line_bitpacking.encode_block(block_of(values))
    assert (node, bytes(encoded)) == (OutOfLineBitpacking(8 * values.itemsize, Flat(width)), data)
    assert bytes_of(node.decode_block(np.frombuffer(data, np.uint8), len(values))) == values.tobytes()


@pytest.mark.parametrize(("counts", "buffers"), [([0], [b""]), ([2048, 5, 3], [b"", b"", b"\7\0\1\0\2\0"]), ([1029, 1], [bytes(10), b""])])
def test_zeros_may_take_no_bits(counts: list[int], buffers: list[bytes]) -> None:
    decoded = OutOfLineBitpacking(16, Flat(0)).decode_chunks(as_chunks([buffers], counts))
    assert decoded.view(np.uint16).tolist() == [0] * sum(counts[:2]) + ([7, 1, 2] if len(counts) > 2 else [])


def test_more_zeros_than_memory_has_are_refused() -> None:
    for counts in ([2**40], [2**62, 2**62], [2**63 - 1, 1]):
        with pytest.raises(CorruptFileError, match="bit-packed values"):
            OutOfLineBitpacking(16, Flat(0)).decode_chunks(as_chunks([[b""] * len(counts)], counts))


@given(numbers(), st.sampled_from([100, 1000, 1024, 2048]))
def test_numbers_come_back_from_chunks(values: np.ndarray, size: int) -> None:
    encoded = out_of_line_bitpacking.encode_chunks(block_of(values), split_evenly(len(values), size))
    assert bytes_of(encoded.encoding.decode_blocks(stored(encoded))) == values.tobytes()


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("word", WORDS)
def test_numbers_come_back_from_a_block(word: type, count: int) -> None:
    values = random_numbers(2, word, 5, count)
    node, data = out_of_line_bitpacking.encode_block(block_of(values))
    assert bytes_of(node.decode_block(data, count)) == values.tobytes()


def test_a_padded_block_does_not_overwrite_following_chunks() -> None:
    counts = np.array([100, 3, 1, 2, 1030, 7])
    values = random_numbers(4, np.uint16, 1, counts.sum())
    encoded = out_of_line_bitpacking.encode_chunks(block_of(values), counts)
    assert np.diff(encoded.buffers[0].bounds).tolist() == [128, 6, 2, 4, 140, 14]
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == values.tobytes()


@pytest.mark.parametrize("count", [2048, 1024 + 7, 1024 + 500, 2**20, 2**40, 2**63 - 1])
def test_truncated_buffers_are_refused(count: int) -> None:
    with pytest.raises(CorruptFileError, match="chunk 1 of 2"):
        OutOfLineBitpacking(32, Flat(3)).decode_chunks(as_chunks([[bytes(4), bytes(3 * 128 + 3 * 4)]], [1, count]))
    with pytest.raises(CorruptFileError):
        OutOfLineBitpacking(32, Flat(3)).decode_block(np.zeros(0, np.uint8), count)


def test_invalid_trees_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="packed to 33 bits"):
        OutOfLineBitpacking(32, Flat(33))
    with pytest.raises(CorruptFileError, match="12 bits"):
        OutOfLineBitpacking(12, Flat(3))
    with pytest.raises(UnsupportedFeatureError):
        OutOfLineBitpacking(32, InlineBitpacking(32))
