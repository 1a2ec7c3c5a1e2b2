"""FSST: symbol tables, and strings compressed with them in every context."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import FixedWidth
from lance_spark.encodings import fsst, variable
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.fsst_symbols import SymbolTable
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from tests.encodings.cases.strings import as_chunks, block_of, byte_strings, stored, strings_of

ALL_BYTES = bytes(range(256))


def table_of(*symbols: bytes, on: bool = True) -> bytes:
    words = np.array([int.from_bytes(s, "little") for s in symbols], np.uint64)
    return SymbolTable(words, np.array([len(s) for s in symbols], np.uint8), on).to_bytes()


TABLE = table_of(b"http://", b"a", b"htt", b"ab", b"longest!", b"\0\0")

# name, string, its codes
STRINGS = [
    ("nothing", b"", []),
    ("the longest symbol first", b"http://htta", [0, 2, 1]),
    ("bytes without a symbol are escaped", b"ahb", [1, 255, ord("h"), 255, ord("b")]),
    ("a symbol of one byte does not hide a longer one", b"aab", [1, 3]),
    ("a symbol does not reach behind the end", b"http:/", [2, 255, ord("p"), 255, ord(":"), 255, ord("/")]),
    ("symbols of eight bytes", b"longest!longest!", [4, 4]),
    ("zeros at the end are not made up", b"\0\0\0", [5, 255, 0]),
    ("the escape itself", b"\xff", [255, 255]),
]


@pytest.mark.parametrize(("string", "codes"), [c[1:] for c in STRINGS], ids=[c[0] for c in STRINGS])
def test_a_string_is_compressed_as_the_format_says(string: bytes, codes: list[int]) -> None:
    _, block = fsst.encode_values(block_of([string, string]), Fsst(TABLE, Variable(Flat(32))))
    assert strings_of(block) == [bytes(codes), bytes(codes)]


@pytest.mark.parametrize(("string", "codes"), [c[1:] for c in STRINGS], ids=[c[0] for c in STRINGS])
def test_codes_are_read_as_the_format_says(string: bytes, codes: list[int]) -> None:
    block = Fsst(TABLE, Variable(Flat(32))).decode_values(block_of([bytes(codes), b"\1", bytes(codes)]))
    assert strings_of(block) == [string, b"a", string]


def test_the_stored_table_is_a_header_then_symbols_then_lengths() -> None:
    data = table_of(b"ab", b"c")
    assert len(data) == 2312
    assert data[:8] == bytes([2, 0, 0, 1]) + b"TSSF"
    assert data[8:26] == b"ab\0\0\0\0\0\0c\0\0\0\0\0\0\0\2\1"
    assert SymbolTable.from_bytes(data).to_bytes() == data


def test_strings_of_a_disabled_table_are_stored_uncompressed() -> None:
    block = block_of([b"\0\xff", b""])
    assert strings_of(Fsst(table_of(on=False), Variable(Flat(32))).decode_values(block)) == [b"\0\xff", b""]


@given(byte_strings(), st.sampled_from([np.int32, np.int64]))
def test_every_context_round_trips(strings: list[bytes], dtype: type) -> None:
    block = block_of(strings, dtype)
    node = fsst.train(block)
    if node is None:
        assert not any(strings)
        node = Fsst(TABLE, Variable(Flat(32)))
    chunks = fsst.encode_chunks(block, node)
    assert strings_of(chunks.encoding.decode_chunks(stored(chunks))) == strings
    encoding, data = fsst.encode_block(block, node)
    assert strings_of(encoding.decode_block(np.frombuffer(data, np.uint8), len(strings))) == strings
    encoding, values = fsst.encode_values(block, node)
    assert strings_of(encoding.decode_values(values)) == strings


@pytest.mark.parametrize(
    "strings",
    [[ALL_BYTES * 4], [ALL_BYTES] * 8, [b"x" * 32768], [b""] * 5000, [b"", b"a" * 4096, b""], [b"\xff" * 9], [b"\0" * 9]],
    ids=["every byte", "every byte again", "32 KiB", "empty", "one in the middle", "escapes", "zeros"],
)
def test_strings_at_the_edges_come_back(strings: list[bytes]) -> None:
    block = block_of(strings)
    node = fsst.train(block) or Fsst(TABLE, Variable(Flat(32)))
    encoding, values = fsst.encode_values(block, node)
    assert strings_of(encoding.decode_values(values)) == strings


def test_repeated_words_shrink_to_less_than_half() -> None:
    words = [b"http://www.example.com/", b"index.html?user=", b"the quick brown fox "]
    block = block_of([words[i % 3] + b"%d" % (i * 7919) for i in range(300)])
    node = fsst.train(block)
    assert node is not None
    assert len(fsst.encode_values(block, node)[1].data) < len(block.data) // 2


def test_colliding_symbols_cost_only_size() -> None:
    rng = np.random.default_rng(3)
    symbols = [rng.bytes(4) for _ in range(255)]
    strings = [b"".join(symbols[i] for i in rng.integers(0, 255, 50)) for _ in range(100)]
    encoding, values = fsst.encode_values(block_of(strings), Fsst(table_of(*symbols), Variable(Flat(32))))
    assert strings_of(encoding.decode_values(values)) == strings
    assert len(values.data) < 100 * 200 / 2


@pytest.mark.parametrize("size", [1, 7, 8, 9, 17])
def test_the_last_bytes_of_strings_are_correct(size: int) -> None:
    strings = [b"ab" * size, b"a", b"longest!"[-size:]]
    encoding, values = fsst.encode_values(block_of(strings), Fsst(TABLE, Variable(Flat(32))))
    assert strings_of(encoding.decode_values(values)) == strings


def test_training_is_repeatable() -> None:
    block = block_of([b"some text %d" % i for i in range(3000)])
    assert fsst.train(block) == fsst.train(block)


BAD_CODES = [("an escape at the end", b"\1\xff"), ("a code without a symbol", b"\1\6\1"), ("a code without a symbol, last", b"\xfe")]


@pytest.mark.parametrize("codes", [c[1] for c in BAD_CODES], ids=[c[0] for c in BAD_CODES])
def test_invalid_codes_are_refused(codes: bytes) -> None:
    encoded = variable.encode_chunks(block_of([b"\1", codes, b"\1\1"]))
    with pytest.raises(CorruptFileError, match="string 1 "):
        Fsst(TABLE, encoded.encoding).decode_chunks(stored(encoded))


BAD_TABLES = [
    ("nothing", b""),
    ("another magic", b"\0" * 2312),
    ("fewer symbols than it says", TABLE[:20]),
    ("a symbol of no bytes", TABLE[:8] + b"\0" * 2304),
    ("a symbol of nine bytes", table_of(b"a")[:16] + b"\t" + b"\0" * 2295),
]


@pytest.mark.parametrize("table", [t[1] for t in BAD_TABLES], ids=[t[0] for t in BAD_TABLES])
def test_an_invalid_symbol_table_is_refused(table: bytes) -> None:
    with pytest.raises(CorruptFileError):
        Fsst(table, Variable(Flat(32))).decode_values(block_of([b"\1"]))


def test_compressed_numbers_are_refused() -> None:
    with pytest.raises(CorruptFileError):
        Fsst(TABLE, Flat(8)).decode_chunks(as_chunks([[b"abc"]], [3]))
    with pytest.raises(CorruptFileError):
        Fsst(TABLE, Variable(Flat(32))).decode_values(FixedWidth(8, np.zeros(2, np.uint8), 2))
    with pytest.raises(CorruptFileError, match="fixed width"):
        fsst.decompress_parts(FixedWidth(8, np.zeros(2, np.uint8), 2), [Fsst(TABLE, Flat(8))], [2])
