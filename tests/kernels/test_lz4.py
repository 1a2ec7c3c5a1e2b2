"""LZ4 blocks: blocks of another encoder are decoded, invalid blocks are found, and nothing is written outside of the output."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.kernels.lz4 import decompress_blocks

GUARD = 0xA5
"""What the bytes before and behind the output hold."""
LZ4 = pa.Codec("lz4_raw")
TEXTS = st.one_of(
    st.binary(max_size=400),
    st.builds(lambda part, times: part * times, st.binary(min_size=1, max_size=20), st.integers(1, 400)),
    st.lists(st.sampled_from([b"a", b"abcdefgh", b"0123456789abcdefghij", bytes(300)]), max_size=60).map(b"".join),
)


def decode(blocks: list[bytes], sizes: list[int]) -> tuple[int, list[bytes]]:
    """The first invalid block or -1, and what each block decoded to. The bytes around the output must stay as they were."""
    data = np.frombuffer(b"".join(blocks) + b"\0", np.uint8)
    lengths = np.array([len(b) for b in blocks], np.int64)
    starts = np.cumsum(lengths) - lengths
    bounds = np.concatenate([[32], 32 + np.cumsum(sizes)]).astype(np.int64)
    out = np.full(int(bounds[-1]) + 32, GUARD, np.uint8)
    invalid = decompress_blocks(data, starts, lengths, out, bounds)
    assert (out[:32] == GUARD).all()
    assert (out[bounds[-1] :] == GUARD).all()
    return int(invalid), [out[a:b].tobytes() for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist())]


def compressed(text: bytes) -> bytes:
    return bytes(LZ4.compress(text, asbytes=True))


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_many_blocks_at_once_decode_to_what_was_compressed(texts: list[bytes]) -> None:
    assert decode([compressed(t) for t in texts], [len(t) for t in texts]) == (-1, texts)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        pytest.param(b"\x50hello", b"hello", id="literals only"),
        pytest.param(b"\x14a\x01\x00\x10b", b"a" * 9 + b"b", id="a match that overlaps its own output"),
        pytest.param(b"\x24ab\x02\x00\x10c", b"ab" * 5 + b"c", id="a match of two bytes in turn"),
        pytest.param(b"\xf0\x00" + b"x" * 15, b"x" * 15, id="a length of exactly 15"),
        pytest.param(b"\xf0\xff\x00" + b"y" * 270, b"y" * 270, id="a length over two more bytes"),
        pytest.param(b"\x1fz\x01\x00\xff\x01\x10z", b"z" * (1 + 4 + 15 + 256 + 1), id="a long match"),
    ],
)
def test_every_form_of_a_sequence(block: bytes, text: bytes) -> None:
    assert decode([block], [len(text)]) == (-1, [text])


@pytest.mark.parametrize(
    ("block", "size"),
    [
        pytest.param(b"", 0, id="empty"),
        pytest.param(b"\x50hell", 5, id="literals end early"),
        pytest.param(b"\x50hello", 4, id="more literals than the output holds"),
        pytest.param(b"\x50hello", 6, id="fewer bytes than the output holds"),
        pytest.param(b"\x14a\x01", 9, id="half a distance"),
        pytest.param(b"\x14a\x00\x00\x10b", 10, id="a distance of 0"),
        pytest.param(b"\x14a\x02\x00\x10b", 10, id="a distance before the output"),
        pytest.param(b"\x14a\x01\x00\x10b", 8, id="a match beyond the output"),
        pytest.param(b"\xf0\xff", 300, id="a length without an end"),
        pytest.param(b"\x14a\x01\x00", 9, id="no literals behind the last match"),
    ],
)
def test_an_invalid_block_is_named(block: bytes, size: int) -> None:
    good = compressed(b"before it")
    assert decode([good, block, good], [9, size, 9])[0] == 1


@given(TEXTS.filter(lambda text: len(text) > 16), st.data())
def test_damaged_blocks_write_nothing_outside_of_their_output(text: bytes, data: st.DataObject) -> None:
    block = bytearray(compressed(text))
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    decode([bytes(block)], [len(text)])
