"""Single values picked from chunks are those of the decoded chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import EncodedChunks, FixedWidth, VariableWidth, split_evenly
from lance_spark.encodings import flat, fsst, inline_bitpacking, variable
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from tests.encodings.cases import numbers as of_numbers
from tests.encodings.cases import strings as of_strings


def picked(encoded: EncodedChunks, places: list[int]) -> FixedWidth | VariableWidth:
    """The values at these places, by chunk and position in it."""
    stops = np.cumsum(encoded.counts)
    of = np.searchsorted(stops, places, side="right")
    block = encoded.encoding.pick_values(of_strings.stored(encoded), of, np.array(places, np.int64) - (stops - encoded.counts)[of])
    assert isinstance(block, FixedWidth | VariableWidth)
    return block


def some(count: int) -> st.SearchStrategy[list[int]]:
    """Some places among `count` values, ascending."""
    return st.lists(st.integers(0, count - 1), unique=True, max_size=30).map(sorted) if count else st.just([])


@given(of_numbers.numbers(), st.sampled_from([16, 256, 1024]), st.data())
def test_bit_packed_numbers_are_picked(values: np.ndarray, chunk: int, data: st.DataObject) -> None:
    encoded = inline_bitpacking.encode_chunks(of_numbers.block_of(values), split_evenly(len(values), chunk))
    places = data.draw(some(len(values)))
    assert of_numbers.bytes_of(picked(encoded, places)) == values[places].tobytes()


def test_numbers_without_bits_are_picked() -> None:
    values = np.concatenate([np.zeros(1024, np.int32), np.arange(1024, dtype=np.int32)])
    encoded = inline_bitpacking.encode_chunks(of_numbers.block_of(values), split_evenly(2048, 1024))
    assert of_numbers.bytes_of(picked(encoded, [0, 1023, 1024, 2047])) == values[[0, 1023, 1024, 2047]].tobytes()


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.float64, "S13"])
def test_flat_values_are_picked(dtype: type) -> None:
    values: np.ndarray = np.random.default_rng(1).integers(0, 2, 1000).astype(dtype)
    encoded = flat.encode_chunks(of_numbers.block_of(values), split_evenly(1000, 64))
    places = [0, 1, 63, 64, 500, 999]
    assert of_numbers.bytes_of(picked(encoded, places)) == of_numbers.block_of(values[places]).data.tobytes()


@given(of_strings.byte_strings(200), st.sampled_from([np.int32, np.int64]), st.data())
def test_strings_are_picked(strings: list[bytes], dtype: type, data: st.DataObject) -> None:
    block = of_strings.block_of(strings, dtype)
    encoded = variable.encode_chunks(block, max_values=16)
    places = data.draw(some(len(strings)))
    assert of_strings.strings_of(picked(encoded, places)) == [strings[i] for i in places]
    if (compression := fsst.train(block)) is not None:
        compressed = fsst.encode_chunks(block, compression, max_values=16)
        assert of_strings.strings_of(picked(compressed, places)) == [strings[i] for i in places]


@pytest.mark.parametrize("offsets", [(12, 14, 13), (8, 14, 16), (12, 14, 17)])
def test_a_picked_string_with_invalid_offsets_is_refused(offsets: tuple[int, ...]) -> None:
    chunks = of_strings.as_chunks([[np.array(offsets, "<u4").tobytes() + b"abcd"]], [2])
    with pytest.raises(CorruptFileError, match="decreasing offsets, or offsets outside its bytes"):
        Variable(flat.Flat(32)).pick_values(chunks, np.zeros(2, np.int64), np.arange(2))


def test_strings_with_compressed_offsets_are_not_picked() -> None:
    chunks = of_strings.as_chunks([[b"abcd"]], [2])
    assert Variable(InlineBitpacking(32)).pick_values(chunks, np.zeros(2, np.int64), np.arange(2)) is None
