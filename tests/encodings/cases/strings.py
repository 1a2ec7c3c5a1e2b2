"""Strings <-> blocks and chunks, for the tests of encodings of strings."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from lance_spark.buffers.blocks import Block, Chunks, EncodedChunks, VariableWidth


def block_of(strings: list[bytes], dtype: type = np.int32) -> VariableWidth:
    """The block of `strings`."""
    offsets: np.ndarray = np.zeros(len(strings) + 1, dtype)
    np.cumsum([len(s) for s in strings], out=offsets[1:])
    return VariableWidth(offsets, np.frombuffer(b"".join(strings), np.uint8))


def strings_of(block: Block) -> list[bytes]:
    """The strings of `block`, after checks of the invariants of VariableWidth."""
    assert isinstance(block, VariableWidth)
    assert block.offsets[0] == 0
    assert block.offsets[-1] == len(block.data)
    data = block.data.tobytes()
    return [data[a:b] for a, b in zip(block.offsets[:-1].tolist(), block.offsets[1:].tolist())]


def as_chunks(buffers: list[list[bytes]], counts: list[int]) -> Chunks:
    """Chunks with `buffers[b][c]` as buffer b of chunk c, at addresses that are not aligned."""
    sizes = np.array([[len(data) for data in row] for row in buffers], np.int64).reshape(len(buffers), len(counts))
    starts = np.zeros(sizes.size, np.int64)
    np.cumsum(sizes.ravel()[:-1], out=starts[1:])
    data = b"?" + b"".join(b"".join(row) for row in buffers)
    return Chunks(np.frombuffer(data, np.uint8), starts.reshape(sizes.shape) + 1, sizes, np.array(counts, np.int64))


def stored(encoded: EncodedChunks) -> Chunks:
    """The chunks that a reader gets for `encoded`."""
    buffers = [[b.data[i:j].tobytes() for i, j in zip(b.bounds[:-1], b.bounds[1:])] for b in encoded.buffers]
    return as_chunks(buffers, encoded.counts.tolist())


def byte_strings(max_size: int = 40) -> st.SearchStrategy[list[bytes]]:
    """Lists of short strings of any bytes, often empty or equal; some lists have one long string."""
    text = st.one_of(st.binary(max_size=12), st.sampled_from([b"", b"http://www.", b"http://www.lance", b"\xff\xff", b"aaaaaaaaaaaaaaaaa"]))
    return st.one_of(st.lists(text, max_size=max_size), st.lists(text, max_size=5).map(lambda strings: [*strings, b"long string " * 400]))
