"""Hand-made pages with encodings that current writers do not choose, and with false messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.encodings.fastlanes import pack_blocks
from lance_spark.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_spark.reading.spans import all_rows, from_rows
from lance_spark.reading.steps import Column, Page, Rows, run
from lance_spark.schema.schema import Field
from lance_spark.v2_0.field import early_bytes_columns, open_field
from tests.rows import assert_same_values, selections

pytestmark = pytest.mark.spec("format-document.md", "File Encodings")

COLUMN = pb.ColumnEncoding(values={})


def buffer(index: int) -> pb.Buffer:
    return pb.Buffer(buffer_index=index)


def flat(bits: int, index: int = 0) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=bits, buffer=buffer(index)))


def no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))


def binary(offsets: pb.ArrayEncoding, data: pb.ArrayEncoding, null_adjustment: int) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(binary=pb.Binary(indices=offsets, bytes=data, null_adjustment=null_adjustment))


def dictionary(indices: pb.ArrayEncoding, items: pb.ArrayEncoding, num_items: int) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(dictionary=pb.Dictionary(indices=indices, items=items, num_dictionary_items=num_items))


def read(
    logical_type: str,
    message: pb.ArrayEncoding,
    buffers: Sequence[bytes],
    num_rows: int,
    rows: Rows | None = None,
    column: pb.ColumnEncoding = COLUMN,
) -> pa.Array:
    """The values of a file with one column and one page."""
    data = np.frombuffer(b"".join(buffers), dtype=np.uint8)
    ends = np.cumsum([0] + [len(b) for b in buffers]).tolist()
    page = Page(0, num_rows, tuple(map(ByteRange, ends[:-1], ends[1:])), "lance.encodings.ArrayEncoding", message.SerializeToString())
    columns = {0: Column((page,), (), "lance.encodings.ColumnEncoding", column.SerializeToString())}
    chosen = range(num_rows) if rows is None else rows

    def fetch(ranges: Sequence[ByteRange]) -> list[Bytes]:
        assert all(0 <= start <= stop <= len(data) for start, stop in ranges)
        return [data[start:stop] for start, stop in ranges]

    return run(open_field(Field("c", 0, logical_type), columns, from_rows(chosen), num_rows).read(0, len(chosen)), fetch)


def low_bits(values: np.ndarray, packed: int) -> bytes:
    bits = (values.astype(np.uint64)[:, None] >> np.arange(packed, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


@given(data=st.data(), bits=st.sampled_from([8, 16, 32, 64]), signed=st.booleans())
def test_bitpacked_integers(data: st.DataObject, bits: int, signed: bool) -> None:
    packed = data.draw(st.integers(1, bits))
    least, most = (-(2 ** (packed - 1)), 2 ** (packed - 1) - 1) if signed else (0, 2**packed - 1)
    values = data.draw(st.lists(st.integers(least, most), min_size=1, max_size=60))
    expected = pa.array(values, f"{'int' if signed else 'uint'}{bits}")
    message = pb.Bitpacked(compressed_bits_per_value=packed, uncompressed_bits_per_value=bits, signed=signed, buffer=buffer(0))
    stored = low_bits(expected.to_numpy().astype(np.int64), packed)
    rows = data.draw(selections(len(values)))
    got = read(str(expected.type), pb.ArrayEncoding(bitpacked=message), [stored], len(values), rows)
    assert_same_values(got, expected.take(pa.array(np.asarray(rows, dtype=np.int64))))


@given(data=st.data(), bits=st.sampled_from([8, 16, 32, 64]), count=st.sampled_from([1, 1000, 1024, 2500]))
def test_bitpacked_blocks(data: st.DataObject, bits: int, count: int) -> None:
    packed = data.draw(st.integers(1, bits))
    rng = np.random.default_rng(packed)
    values = rng.integers(0, 2**packed, count, dtype=np.uint64).astype(f"u{bits // 8}")
    blocks = np.arange(-(-count // 1024))
    words = np.zeros(len(blocks) * 1024 // bits * packed, dtype=values.dtype)
    counts = np.minimum(count - blocks * 1024, 1024)
    pack_blocks(values, blocks * 1024, counts, np.full(len(blocks), packed), blocks * (1024 // bits * packed), words)
    message = pb.BitpackedForNonNeg(compressed_bits_per_value=packed, uncompressed_bits_per_value=bits, buffer=buffer(0))
    rows = data.draw(selections(count))
    got = read(f"uint{bits}", pb.ArrayEncoding(bitpacked_for_non_neg=message), [words.tobytes()], count, rows)
    assert_same_values(got, pa.array(values[np.asarray(rows, dtype=np.int64)]))


@pytest.mark.parametrize("logical_type", ["string", "large_binary"])
@pytest.mark.parametrize("rows", [range(4), np.array([0, 3])], ids=["all", "some"])
def test_fixed_size_binary(logical_type: str, rows: Rows) -> None:
    message = pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(8), byte_width=3))
    got = read(logical_type, message, [b"onetwosixten"], 4, rows)
    assert got.cast(pa.string()).to_pylist() == [["one", "two", "six", "ten"][i] for i in rows]


def with_nulls(values: pb.ArrayEncoding, index: int) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=pb.Nullable.SomeNull(validity=flat(1, index), values=values)))


def test_nulls_are_read_from_every_place() -> None:
    assert read("int8", with_nulls(with_nulls(flat(8), 1), 2), [b"\1\2\3", b"\5", b"\3"], 3).to_pylist() == [1, None, None]
    items = dictionary(flat(8), flat(8, 1), 2)
    assert read("dict:int8:int8:false", with_nulls(items, 2), [b"\0\1\0", b"ab", b"\5"], 3).to_pylist() == [97, None, 97]
    vectors = pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=2, items=flat(8)))
    assert read("fixed_size_list:int8:2", with_nulls(vectors, 1), [b"\1\2\3\4", b"\2"], 2).to_pylist() == [None, [3, 4]]


def test_offsets_of_packed_integers_are_read() -> None:
    ends = pb.ArrayEncoding(bitpacked=packed(4, 8))
    assert read("string", binary(ends, flat(8, 1), 10), [bytes([0x31]), b"abc"], 2).to_pylist() == ["a", "bc"]


def test_offsets_of_any_width_and_bytes_in_nullable() -> None:
    ends = np.array([1, 4 + 10, 4], dtype=np.uint16)
    message = binary(no_nulls(flat(16)), no_nulls(flat(8, 1)), 10)
    assert read("string", message, [ends.tobytes(), b"abcd"], 3).to_pylist() == ["a", None, ""]


@pytest.mark.parametrize("logical_type", ["string", "dict:string:int8:false"])
def test_a_dictionary_to_which_only_nulls_refer(logical_type: str) -> None:
    nulls = pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))
    message = dictionary(nulls, binary(no_nulls(flat(64)), flat(8, 1), 3), 1)
    ends = np.array([2], dtype=np.uint64)
    assert read(logical_type, message, [ends.tobytes(), b"ab"], 3).to_pylist() == [None] * 3


def test_a_column_with_a_zone_map_is_read_like_any_other() -> None:
    column = pb.ColumnEncoding(zone_index=pb.ZoneIndex(rows_per_zone=10, inner=COLUMN))
    assert read("int8", no_nulls(flat(8)), [b"\1\2"], 2, column=column).to_pylist() == [1, 2]


def packed(bits: int, from_bits: int) -> pb.Bitpacked:
    return pb.Bitpacked(compressed_bits_per_value=bits, uncompressed_bits_per_value=from_bits, buffer=buffer(0))


def nested(depth: int) -> pb.ArrayEncoding:
    message = flat(8)
    for _ in range(depth):
        message = no_nulls(message)
    return message


def u64(*values: int) -> bytes:
    return np.array(values, dtype=np.uint64).tobytes()


STRING = binary(no_nulls(flat(64)), flat(8, 1), 10)


@pytest.mark.parametrize(
    ("logical_type", "message", "buffers", "complaint"),
    [
        ("int64", flat(64), [bytes(15)], "expected 2 values of 64 bits, found a buffer of 15 bytes"),
        ("int64", flat(32), [bytes(16)], "values of 32 bits in a column of int64"),
        ("int64", flat(7), [bytes(16)], "values of 7 bits"),
        ("int64", flat(0), [bytes(16)], "values of 0 bits"),
        ("int64", flat(64, 1), [bytes(16)], "buffer 1 does not exist, the page or column has 1"),
        ("string", flat(8), [bytes(16)], "values of 8 bits in a column of string"),
        ("int64", STRING, [u64(1, 2), b"ab"], "byte strings in a column of int64"),
        ("string", STRING, [u64(2, 1), b"ab"], "decreasing offsets"),
        ("string", STRING, [u64(1, 3), b"ab"], "expected 3 values of 8 bits, found a buffer of 2 bytes"),
        ("string", STRING, [u64(1, 2**63 + 12), b"ab"], "is out of bounds"),
        ("string", STRING, [u64(1, 2), b"a\xff"], "UTF8"),
        ("string", binary(flat(64), flat(8, 1), 0), [u64(1, 2), b"ab"], "null adjustment of 0"),
        ("string", dictionary(flat(8, 2), STRING, 2), [u64(1, 2), b"ab", b"\1\3"], "index 3 is out of bounds: the dictionary has 2 items"),
        (
            "dict:int8:int8:false",
            dictionary(flat(8), flat(8, 1), 2),
            [b"\1\2", b"ab"],
            "index 2 is out of bounds: the dictionary has 2 items",
        ),
        ("int8", dictionary(flat(8), flat(8, 1), 1), [b"\1\2", b"ab"], "index 2 is out of bounds: the dictionary has 1 items"),
        ("fixed_size_list:int8:2", no_nulls(flat(8)), [bytes(4)], "values of 8 bits in a column of fixed_size_list"),
        (
            "fixed_size_list:int8:2",
            pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=3, items=flat(8))),
            [bytes(6)],
            "lists of 3 items in a column",
        ),
        (
            "string",
            dictionary(flat(8), pb.ArrayEncoding(nullable=pb.Nullable(all_nulls={})), 2**32 - 1),
            [b"\1\2"],
            "a page of nulls: ",
        ),
        ("int64", binary(flat(24), flat(8, 1), 10), [bytes(6), b"ab"], "offsets or indices of 24 bits"),
        ("string", binary(pb.ArrayEncoding(bitpacked=packed(9, 8)), flat(8, 1), 10), [bytes(8), b"ab"], "integers of 8 bits packed to 9"),
        ("int8", pb.ArrayEncoding(bitpacked=packed(3, 16)), [bytes(8)], "packed integers of 16 bits in a column of int8"),
        ("int8", pb.ArrayEncoding(list=pb.List(offsets=flat(64), null_offset_adjustment=9)), [bytes(16)], "a page of lists in a column"),
        ("int64", pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(8), byte_width=3)), [bytes(6)], "a column of int64"),
        (
            "string",
            pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(8), byte_width=2**30)),
            [bytes(6)],
            "2 values of 1073741824 bytes in a column of string",
        ),
        (
            "int64",
            pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=[flat(64)], buffer=buffer(0))),
            [bytes(16)],
            "packed structs with children of",
        ),
        ("int64", pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=[nested(20)], buffer=buffer(0))), [bytes(16)], "nested more than"),
    ],
)
def test_false_declarations_are_found(logical_type: str, message: pb.ArrayEncoding, buffers: list[bytes], complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(logical_type, message, buffers, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pb.ArrayEncoding(),
        lambda: pb.ArrayEncoding(nullable=pb.Nullable()),
        lambda: pb.ArrayEncoding(constant=pb.Constant(value=b"1")),
        lambda: pb.ArrayEncoding(fsst=pb.Fsst(binary=flat(8))),
        lambda: binary(STRING, flat(8), 10),
        lambda: binary(pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=pb.Nullable.SomeNull(values=STRING))), flat(8), 10),
        lambda: pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=[STRING], buffer=buffer(0))),
        lambda: pb.ArrayEncoding(flat=pb.Flat(bits_per_value=8, buffer=pb.Buffer(buffer_type=pb.Buffer.file))),
        lambda: pb.ArrayEncoding(flat=pb.Flat(bits_per_value=8, compression=pb.Compression(scheme="brotli"))),
    ],
)
def test_unknown_encodings_are_refused(make: Callable[[], pb.ArrayEncoding]) -> None:
    with pytest.raises(UnsupportedFeatureError):
        read("string", make(), [bytes(16), bytes(16)], 2)


def test_unbounded_nesting_of_encodings_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="nested more than"):
        read("int8", nested(20), [bytes(2)], 2)


def test_too_many_items_are_refused() -> None:
    message = pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=2**31 - 1, items=flat(8)))
    with pytest.raises(CorruptFileError, match="17179869184 lists of 2147483647 items"):
        read("fixed_size_list:int8:2147483647", message, [b""], 2**34)


BLOBS = pb.ColumnEncoding(blob=pb.Blob(inner=COLUMN))
PLACES = pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=[flat(64), flat(64)], buffer=buffer(0)))


def test_blobs_are_read_by_their_descriptors() -> None:
    stored = b"bytes" + u64(0, 3, 1, 0, 0, 0)
    column = Column((page_of(PLACES, 5, len(stored), 3),), (), "lance.encodings.ColumnEncoding", BLOBS.SerializeToString())
    data = np.frombuffer(stored, np.uint8)
    steps = open_field(Field("c", 0, "large_binary"), {0: column}, all_rows(3), 3).read(0, 3)
    assert run(steps, lambda ranges: [data[start:stop] for start, stop in ranges]).to_pylist() == [b"byt", None, b""]


def page_of(message: pb.ArrayEncoding, start: int, stop: int, num_rows: int) -> Page:
    return Page(0, num_rows, (ByteRange(start, stop),), "lance.encodings.ArrayEncoding", message.SerializeToString())


@pytest.mark.parametrize(
    ("logical_type", "stored", "complaint"),
    [
        ("int64", u64(0, 1), "a blob column, expected values of int64"),
        ("large_binary", u64(2**62, 1), "a blob is beyond the end of any file"),
        ("large_binary", u64(0, 2**62), "a blob is beyond the end of any file"),
    ],
)
def test_invalid_blobs_are_refused(logical_type: str, stored: bytes, complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(logical_type, PLACES, [stored], 1, column=BLOBS)


@pytest.mark.parametrize(
    ("field", "column", "error", "complaint"),
    [
        ("int8", Column((page_of(flat(8), 0, 2, 2),), (), "", b"\xff"), CorruptFileError, "the column's encoding: not a valid message"),
        (
            "int8",
            Column((replace(page_of(flat(8), 0, 2, 2), encoding=b"\xff"),), (), "", b""),
            CorruptFileError,
            "a page's encoding: not a valid",
        ),
        (
            "int8",
            Column((replace(page_of(flat(8), 0, 2, 2), encoding_type="lance.encodings21.PageLayout"),), (), "", b""),
            UnsupportedFeatureError,
            "'lance.encodings21.PageLayout' is not supported in storage version 2.0",
        ),
        (
            "list",
            Column((page_of(flat(8), 0, 2, 2),), (), "", b""),
            CorruptFileError,
            "expected pages of lists in a list column, found Flat",
        ),
    ],
)
def test_columns_of_other_versions_are_refused(field: str, column: Column, error: type[LanceError], complaint: str) -> None:
    item = Field("item", 1, "int8")
    read = Field("c", 0, field, children=(item,) if field == "list" else ())
    with pytest.raises(error, match=complaint):
        run(
            open_field(read, {0: column, 1: column}, all_rows(2), 2).read(0, 2),
            lambda ranges: [np.empty(0, np.uint8) for _ in ranges],
        )


def test_a_list_beyond_the_items_of_its_page_is_refused() -> None:
    lists = pb.ArrayEncoding(list=pb.List(offsets=flat(64), null_offset_adjustment=10, num_items=3))
    columns = {0: Column((page_of(lists, 0, 16, 2),), (), "", b""), 1: Column((page_of(flat(8), 16, 20, 4),), (), "", b"")}
    data = np.frombuffer(u64(2, 4) + b"abcd", np.uint8)
    steps = open_field(Field("c", 0, "list", children=(Field("item", 1, "int8"),)), columns, all_rows(2), 2).read(0, 2)
    with pytest.raises(CorruptFileError, match="a list ends at item 4, but the page has 3 items"):
        run(steps, lambda ranges: [data[start:stop] for start, stop in ranges])


@pytest.mark.parametrize("logical_type", ["string", "large_binary"])
def test_strings_of_early_files_have_their_bytes_in_a_second_column(logical_type: str) -> None:
    stored = np.frombuffer(u64(1, 14, 4) + b"abcd", dtype=np.uint8)
    lists = pb.ArrayEncoding(list=pb.List(offsets=no_nulls(flat(64)), null_offset_adjustment=10, num_items=4))
    pages = [
        Page(0, 3, (ByteRange(0, 24),), "lance.encodings.ArrayEncoding", lists.SerializeToString()),
        Page(0, 4, (ByteRange(24, 28),), "lance.encodings.ArrayEncoding", no_nulls(flat(8)).SerializeToString()),
    ]
    field = Field("c", 0, logical_type)
    assert early_bytes_columns([field], {0: 5}, 7) == {~0: 6}
    columns = {i: Column((page,), (), "", b"") for i, page in zip((0, ~0), pages)}
    got = run(open_field(field, columns, all_rows(3), 3).read(0, 3), lambda ranges: [stored[start:stop] for start, stop in ranges])
    assert got.type == field.type
    assert got.cast(pa.string()).to_pylist() == ["a", None, ""]
