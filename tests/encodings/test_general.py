"""General: LZ4 and zstd around other encodings, in every context."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import EncodedBuffer, EncodedChunks, FixedWidth, VariableWidth
from lance_spark.encodings import general, variable
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.general import General, Scheme
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from tests.encodings.cases.strings import as_chunks, block_of, byte_strings, stored, strings_of

SCHEMES: list[Scheme] = ["lz4", "zstd"]
BYTES = Flat(8)


def framed(scheme: Scheme, data: bytes, size: int | None = None) -> bytes:
    """Compressed `data` after its size, or after the given size."""
    codec = pa.Codec("lz4_raw" if scheme == "lz4" else "zstd")
    compressed: bytes = codec.compress(data, asbytes=True)
    return (len(data) if size is None else size).to_bytes(4 if scheme == "lz4" else 8, "little") + compressed


def decode_bytes(scheme: Scheme, data: bytes, count: int) -> bytes:
    """The bytes of a compressed block of them."""
    block = General(scheme, None, BYTES).decode_block(np.frombuffer(data, np.uint8), count)
    assert isinstance(block, FixedWidth)
    return block.data.tobytes()


TAIL = b"\xc00123456789ab"
"""A last sequence: a block must end with some literals."""

# name, LZ4 block, what it holds: sequences put together by hand, for the corners of the format
LZ4_BLOCKS = [
    ("nothing", b"\x00", b""),
    ("literals only", b"\x30abc", b"abc"),
    ("fifteen literals need another byte", b"\xf0\x00" + b"x" * 15, b"x" * 15),
    ("270 literals need two", b"\xf0\xff\x00" + b"y" * 270, b"y" * 270),
    ("a match that repeats one byte", b"\x10a\x01\x00" + TAIL, b"aaaaa0123456789ab"),
    ("a match that overlaps by two", b"\x21ab\x02\x00" + TAIL, b"abababa0123456789ab"),
    ("a long match", b"\x1fa\x01\x00\x00" + TAIL, b"a" * 20 + b"0123456789ab"),
    ("a longer match", b"\x1fa\x01\x00\xff\x01" + TAIL, b"a" * 276 + b"0123456789ab"),
    ("a far match", b"\xa0ABCDEFGHIJ\x0a\x00" + TAIL, b"ABCDEFGHIJABCD0123456789ab"),
    ("two short sequences", b"\x80abcdefgh\x08\x00\x51vwxyz\x04\x00" + TAIL, b"abcdefghabcdvwxyzwxyzw0123456789ab"),
    (
        "matches far from the end",
        b"\x8eabcdefgh\x08\x00\x0a\x03\x00\xf0\x1e" + b"-" * 45,
        b"abcdefgh" * 3 + b"abhabhabhabhabha" + b"-" * 45,
    ),
]


@pytest.mark.parametrize(("block", "data"), [c[1:] for c in LZ4_BLOCKS], ids=[c[0] for c in LZ4_BLOCKS])
def test_an_lz4_block_is_read_as_the_format_says(block: bytes, data: bytes) -> None:
    assert pa.Codec("lz4_raw").decompress(block, len(data), asbytes=True) == data
    assert decode_bytes("lz4", len(data).to_bytes(4, "little") + block, len(data)) == data


@given(
    st.lists(st.tuples(st.sampled_from([b"ab", b"abcdefghijk", b"\0", b"lance"]), st.integers(1, 60), st.binary(max_size=30)), max_size=12)
)
def test_lz4_blocks_of_the_library_are_read(parts: list[tuple[bytes, int, bytes]]) -> None:
    data = b"".join(word * times + noise for word, times, noise in parts)
    assert decode_bytes("lz4", framed("lz4", data), len(data)) == data


@given(st.binary(max_size=60), st.integers(0, 400))
def test_any_lz4_block_is_read_as_the_library_does_or_refused(block: bytes, size: int) -> None:
    try:
        data = decode_bytes("lz4", size.to_bytes(4, "little") + block, size)
        expected = pa.Codec("lz4_raw").decompress(block, size, asbytes=True)
    except (CorruptFileError, OSError):  # the library is stricter about how a block must end
        return
    assert data == expected


@pytest.mark.parametrize("scheme", SCHEMES)
@given(strings=byte_strings(), dtype=st.sampled_from([np.int32, np.int64]))
def test_every_context_round_trips(scheme: Scheme, strings: list[bytes], dtype: type) -> None:
    block = block_of(strings, dtype)
    chunks = general.encode_chunks(variable.encode_chunks(block), scheme)
    if strings:
        assert strings_of(chunks.encoding.decode_chunks(stored(chunks))) == strings
    encoding, data = general.encode_block(variable.encode_block(block), scheme)
    assert strings_of(encoding.decode_block(np.frombuffer(data, np.uint8), len(strings))) == strings
    encoding, values = general.encode_values(variable.encode_values(block), scheme)
    back = encoding.decode_values(values)
    assert strings_of(back) == strings
    assert isinstance(back, VariableWidth)
    assert back.offsets.dtype == dtype


@pytest.mark.parametrize("scheme", SCHEMES)
def test_large_values_come_back(scheme: Scheme) -> None:
    strings = [b"", bytes(range(256)) * 128, b"x" * 100_000, np.random.default_rng(1).bytes(5000)]
    encoding, values = general.encode_values(variable.encode_values(block_of(strings)), scheme)
    assert strings_of(encoding.decode_values(values)) == strings


@pytest.mark.parametrize("scheme", SCHEMES)
def test_only_the_first_buffer_of_a_chunk_is_compressed(scheme: Scheme) -> None:
    values = EncodedBuffer(np.array([7, 9, 7], np.uint8), np.array([0, 2, 3]))
    lengths = EncodedBuffer(np.array([3, 1, 5], np.uint8), np.array([0, 2, 3]))
    inner = EncodedChunks(Rle(BYTES, BYTES), np.array([4, 5]), (values, lengths))
    encoded = general.encode_chunks(inner, scheme)
    assert encoded.buffers[1] is lengths
    assert encoded.buffers[0].data.tobytes() == framed(scheme, b"\7\x09") + framed(scheme, b"\7")
    block = encoded.encoding.decode_chunks(stored(encoded))
    assert isinstance(block, FixedWidth)
    assert block.data.tolist() == [7, 7, 7, 9, 7, 7, 7, 7, 7]


def test_the_compression_level_is_used() -> None:
    data = b"".join(b"value %d, " % (i * i) for i in range(2000))
    hard, easy = (general.encode_block((BYTES, data), "zstd", level) for level in (19, 1))
    assert len(hard[1]) < len(easy[1])
    assert hard[0] == General("zstd", 19, BYTES)


@pytest.mark.parametrize("stream", [False, True], ids=["with its size", "without its size"])
def test_a_bare_zstd_frame_of_an_old_writer_is_read(stream: bool) -> None:
    data = b"old data " * 30_000
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    frame = sink.getvalue().to_pybytes() if stream else pa.Codec("zstd").compress(data, asbytes=True)
    assert decode_bytes("zstd", frame, len(data)) == data
    with pytest.raises(CorruptFileError):
        decode_bytes("zstd", frame[:-5], len(data))
    with pytest.raises(CorruptFileError, match="decompresses to more than"):
        decode_bytes("zstd", frame, len(data) // 2)


TEXT = b"text and text and text and text and text"

BAD = [
    ("no room for the size", "lz4", b"\1\0\0", 1),
    ("no room for the size, zstd", "zstd", b"\1\0\0\0", 1),
    ("nothing behind the size", "lz4", b"\1\0\0\0", 1),
    ("nothing behind the size, zstd", "zstd", b"\1" + b"\0" * 7, 1),
    ("more than it says", "lz4", framed("lz4", TEXT, len(TEXT) - 1), len(TEXT) - 1),
    ("more than it says, zstd", "zstd", framed("zstd", TEXT, len(TEXT) - 1), len(TEXT) - 1),
    ("less than it says", "lz4", framed("lz4", TEXT, len(TEXT) + 1), len(TEXT) + 1),
    ("less than it says, zstd", "zstd", framed("zstd", TEXT, len(TEXT) + 1), len(TEXT) + 1),
    ("cut off", "lz4", framed("lz4", TEXT)[:-2], len(TEXT)),
    ("cut off, zstd", "zstd", framed("zstd", TEXT)[:-2], len(TEXT)),
    ("a match before the start", "lz4", b"\x06\0\0\0" + b"\x10a\x02\x00\x10b", 6),
    ("a match at no distance", "lz4", b"\x06\0\0\0" + b"\x10a\x00\x00\x10b", 6),
    ("a match cut off", "lz4", b"\x06\0\0\0" + b"\x10a\x01", 6),
    ("a length cut off", "lz4", b"\x40\0\0\0" + b"\x1fa\x01\x00\xff", 64),
    ("a bomb by ratio", "lz4", b"\0\0\0\x80\x00", 2**31),
    ("a bomb by what the values can be", "zstd", framed("zstd", bytes(1 << 20)), 16),
]


@pytest.mark.parametrize(("scheme", "data", "count"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_bad_buffers_are_refused(scheme: Scheme, data: bytes, count: int) -> None:
    with pytest.raises(CorruptFileError):
        decode_bytes(scheme, data, count)


def test_one_invalid_zstd_frame_of_several_is_refused() -> None:
    good = framed("zstd", TEXT)
    for frames in ([good, good[:-3]], [good[:-3], good]):
        with pytest.raises(CorruptFileError, match="zstd buffers"):
            General("zstd", None, BYTES).decode_chunks(as_chunks([frames], [len(TEXT)] * 2))


def test_trailing_bytes_after_a_zstd_frame_are_refused() -> None:
    good = framed("zstd", TEXT)
    frames = [good, good + pa.Codec("zstd").compress(TEXT, asbytes=True)]
    with pytest.raises(CorruptFileError, match="do not decompress to the 80 bytes that they declare"):
        General("zstd", None, BYTES).decode_chunks(as_chunks([frames], [len(TEXT)] * 2))


def test_the_bad_chunk_is_named() -> None:
    node = General("lz4", None, BYTES)
    with pytest.raises(CorruptFileError, match="buffer 1 "):
        node.decode_chunks(as_chunks([[framed("lz4", TEXT), framed("lz4", TEXT, 39)]], [len(TEXT), 39]))


def test_encodings_without_buffers_and_numbers_in_single_values_are_refused() -> None:
    with pytest.raises(CorruptFileError):
        General("lz4", None, BYTES).decode_chunks(as_chunks([], [1]))
    with pytest.raises(CorruptFileError):
        General("lz4", None, Variable(Flat(32))).decode_values(FixedWidth(8, np.zeros(2, np.uint8), 2))
