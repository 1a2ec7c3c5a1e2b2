"""ByteStreamSplit: the byte planes of every chunk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import split_evenly
from lance_spark.encodings import byte_stream_split
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.flat import Flat
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.encodings.cases.numbers import block_of, bytes_of, numbers
from tests.encodings.cases.strings import as_chunks, stored

# name, values, values in a chunk, bytes of the chunks
CASES = [
    ("one chunk", np.array([0x04030201, 0x14131211], "<u4"), 4, [b"\1\x11\2\x12\3\x13\4\x14"]),
    ("two chunks", np.array([0x0201, 0x1211, 0x2221], "<u2"), 2, [b"\1\x11\2\x12", b"\x21\x22"]),
    ("one byte", np.array([1, 2, 3], "<u1"), 4, [b"\1\2\3"]),
]


@pytest.mark.parametrize(("values", "size", "chunks"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_chunks_are_byte_planes(values: np.ndarray, size: int, chunks: list[bytes]) -> None:
    counts = split_evenly(len(values), size)
    encoded = byte_stream_split.encode_chunks(block_of(values), counts)
    assert encoded.buffers[0].data.tobytes() == b"".join(chunks)
    assert np.diff(encoded.buffers[0].bounds).tolist() == [len(c) for c in chunks]
    assert bytes_of(encoded.encoding.decode_chunks(as_chunks([chunks], counts.tolist()))) == values.tobytes()


@given(numbers(), st.sampled_from([1, 64, 1024]))
def test_numbers_come_back_from_chunks(values: np.ndarray, size: int) -> None:
    encoded = byte_stream_split.encode_chunks(block_of(values), split_evenly(len(values), size))
    assert bytes_of(encoded.encoding.decode_chunks(stored(encoded))) == values.tobytes()


def test_truncated_chunks_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="chunk 1 of 2"):
        ByteStreamSplit(Flat(32)).decode_chunks(as_chunks([[bytes(4), bytes(7)]], [1, 2]))


def test_values_that_are_not_words_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError):
        ByteStreamSplit(Flat(128)).decode_chunks(as_chunks([[bytes(16)]], [1]))
    with pytest.raises(UnsupportedFeatureError, match="blocks"):
        ByteStreamSplit(Flat(32)).decode_block(np.zeros(4, np.uint8), 1)
