"""The choice of layouts and encodings, including pages with too many levels for a chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.blocks import Encoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.tree import decode_message
from lance_spark.encodings.variable import Variable
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts.levels.shred import split
from lance_spark.layouts.levels.write import encode_levels
from lance_spark.layouts.nodes.version_grammar import GRAMMARS
from lance_spark.layouts.values.to_arrow import BLOB_V1
from lance_spark.layouts.write_blob import encode_blob_pages
from lance_spark.layouts.write_page import encode_pages
from lance_spark.schema.schema import from_arrow
from lance_spark.schema.storage_version import V2_1, V2_2, StorageVersion

RANDOM = np.random.default_rng(7)
COUNT = 5000


def describe(array: pa.Array, version: tuple[int, int]) -> list[pb.PageLayout]:
    """The layouts of the pages of the only leaf of `array`."""
    (field,) = from_arrow(pa.schema([pa.field("c", array.type)])).fields
    (leaf,) = field.leaves()
    (part,) = split(field, array)
    return [pb.PageLayout.FromString(page.encoding) for page in encode_pages(leaf, part, GRAMMARS[StorageVersion(*version)])]


PACKED = {"packed": "true"}


@pytest.mark.parametrize(
    ("array", "metadata", "complaint"),
    [
        (pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int8())]), 1)), None, "column 'c': writing fixed-size lists of structs"),
        (pa.array([{"a": 1}, {"a": None}]), PACKED, "a packed struct with nulls in its field 'a'"),
        (pa.array([{"a": [1, None]}], pa.struct([("a", pa.list_(pa.int8(), 2))])), PACKED, "a packed struct with nulls in its field 'a'"),
    ],
    ids=["lists of structs", "nulls", "nulls in lists"],
)
def test_unsupported_arrays_are_refused(array: pa.Array, metadata: dict[str, str] | None, complaint: str) -> None:
    (field,) = from_arrow(pa.schema([pa.field("c", array.type, metadata=metadata)])).fields
    with pytest.raises(UnsupportedFeatureError, match=complaint):
        [encode_pages(leaf, part, GRAMMARS[V2_2]) for leaf, part in zip(field.leaves(), split(field, array))]


@dataclass(frozen=True)
class Case:
    """The encoding of values in the chunks of `array`, and whether there is a dictionary."""

    name: str
    array: pa.Array
    encoding: type[Encoding]
    dictionary: bool = False
    versions: tuple[tuple[int, int], ...] = ((2, 1), (2, 2))


CASES = [
    Case("random", pa.array(RANDOM.integers(-(2**63), 2**63 - 1, COUNT)), Flat),
    Case("small", pa.array(RANDOM.integers(0, 1000, COUNT, dtype=np.int32)), InlineBitpacking),
    Case("small with nulls", pa.array(RANDOM.integers(0, 1000, COUNT), mask=RANDOM.random(COUNT) < 0.3), InlineBitpacking),
    Case("runs", pa.array(np.repeat(RANDOM.integers(0, 2**30, COUNT // 50, dtype=np.int32), 50)), Rle),
    Case("few large numbers", pa.array(RANDOM.integers(0, 10, COUNT) * 10**14), InlineBitpacking, True, ((2, 2),)),
    Case("few decimals", pa.array(RANDOM.integers(0, 10, COUNT)).cast(pa.decimal128(19)), InlineBitpacking, True),
    Case("floats", pa.array(RANDOM.standard_normal(COUNT)), Flat),
    Case("flags", pa.array(RANDOM.random(COUNT) < 0.5), Flat),
    Case("few strings", pa.array([f"word {i}" for i in RANDOM.integers(0, 10, COUNT)]), InlineBitpacking, True),
    Case("short strings", pa.array([f"{i:x}" for i in range(COUNT)]), Variable),
    Case("long strings", pa.array([f"https://example.org/{i}/index.html" for i in range(COUNT)]), Fsst),
    Case("binary", pa.array([RANDOM.bytes(20) for _ in range(COUNT)]), Variable),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_chunks_have_the_encoding_that_suits_the_data(case: Case) -> None:
    for version in case.versions:
        (page,) = describe(case.array, version)
        layout = page.mini_block_layout
        assert isinstance(decode_message(layout.value_compression), case.encoding)
        assert layout.HasField("dictionary") == case.dictionary
        assert layout.has_large_chunk == (version == (2, 2))
        assert layout.num_buffers == decode_message(layout.value_compression).num_buffers


def test_a_constant_is_in_the_message_from_2_2_on() -> None:
    sevens = pa.array([7] * COUNT)
    assert describe(sevens, (2, 2))[0].constant_layout.inline_value == (7).to_bytes(8, "little")
    assert isinstance(decode_message(describe(sevens, (2, 1))[0].mini_block_layout.value_compression), Rle)


def test_a_page_of_nulls_has_no_values() -> None:
    for version in GRAMMARS:
        assert not describe(pa.nulls(COUNT, pa.int64()), version)[0].constant_layout.HasField("inline_value")


@pytest.mark.parametrize(("length", "encoding"), [(255, Fsst), (256, Fsst), (32768, Fsst), (32769, General)])
def test_long_strings_are_zipped_and_huge_ones_compressed_one_by_one(length: int, encoding: type[Encoding]) -> None:
    texts = ["".join(map(str, RANDOM.integers(0, 10**6, length // 5))).ljust(length, "x")[:length] for _ in range(200)]
    (page,) = describe(pa.array(texts), (2, 2))
    layout = page.mini_block_layout if length < 256 else page.full_zip_layout
    assert isinstance(decode_message(layout.value_compression), encoding)


def test_levels_in_runs_are_stored_as_runs_from_2_2_on() -> None:
    nulls = np.repeat(RANDOM.random(COUNT // 500) < 0.5, 500)
    array = pa.array(RANDOM.random(COUNT), mask=nulls)
    assert isinstance(decode_message(describe(array, (2, 1))[0].mini_block_layout.def_compression), OutOfLineBitpacking)
    assert isinstance(decode_message(describe(array, (2, 2))[0].mini_block_layout.def_compression), Rle)


def test_more_empty_lists_in_a_row_than_a_chunk_has_levels_divide_the_page() -> None:
    offsets = np.zeros(200_001, dtype=np.int32)
    offsets[-1] = 5
    array = pa.ListArray.from_arrays(offsets, pa.array([1, 2, 3, 4, 5]))
    pages = describe(array, (2, 2))
    assert len(pages) > 1
    assert all(page.WhichOneof("layout") in ("mini_block_layout", "constant_layout") for page in pages)


def test_more_empty_lists_in_one_row_than_a_chunk_has_levels_are_zipped() -> None:
    offsets = np.zeros(200_001, dtype=np.int32)
    offsets[-1] = 5
    inner = pa.ListArray.from_arrays(offsets, pa.array([1, 2, 3, 4, 5]))
    (page,) = describe(pa.ListArray.from_arrays(pa.array([0, 200_000], pa.int32()), inner), (2, 2))
    assert page.WhichOneof("layout") == "full_zip_layout"


def test_dictionaries_in_a_row_with_too_many_empty_lists_are_refused() -> None:
    offsets = np.zeros(200_001, dtype=np.int32)
    offsets[-1] = 2
    inner = pa.ListArray.from_arrays(offsets, pa.array(["a", "b"]).dictionary_encode())
    with pytest.raises(UnsupportedFeatureError, match="dictionary values in a row with tens of thousands of empty lists"):
        describe(pa.ListArray.from_arrays(pa.array([0, 200_000], pa.int32()), inner), (2, 2))


def test_null_slots_with_bytes_do_not_make_a_constant_page() -> None:
    buffers = [pa.py_buffer(b"\x0b"), pa.array([0, 1, 2, 3, 4], pa.int32()).buffers()[1], pa.py_buffer(b"aa?a")]
    array = pa.Array.from_buffers(pa.string(), 4, buffers)
    assert array.to_pylist() == ["a", "a", None, "a"]
    assert describe(array, (2, 2))[0].WhichOneof("layout") == "mini_block_layout"


def test_the_levels_of_nulls_in_structs_are_kept() -> None:
    (page,) = describe(pa.array([{"a": None}, None, {"a": None}], pa.struct([("a", pa.null())])), (2, 2))
    assert (page.constant_layout.num_rep_values, page.constant_layout.num_def_values) == (0, 3)


def test_lists_of_long_strings_without_nulls_have_no_definition_levels() -> None:
    (page,) = describe(pa.array([["x" * 5000, "y" * 6000]] * 20), (2, 2))
    assert (page.full_zip_layout.bits_rep, page.full_zip_layout.bits_def) == (1, 0)


def test_lists_of_long_vectors_without_nulls_have_no_definition_levels() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(RANDOM.random(4096)), 1024)
    (page,) = describe(pa.ListArray.from_arrays(pa.array([0, 1, 4], pa.int32()), vectors), (2, 2))
    assert (page.full_zip_layout.bits_rep, page.full_zip_layout.bits_def) == (1, 0)


def test_blobs_of_2_1_are_not_in_lists_and_may_all_be_null_or_none() -> None:
    (blob,) = from_arrow(pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])).fields
    grammar = GRAMMARS[V2_1]
    for array in (pa.nulls(3, BLOB_V1), pa.array([{"position": 1, "size": 2}] * 3, BLOB_V1)):
        (page,) = encode_blob_pages(blob, array, grammar)
        assert page.num_rows == 3
    with pytest.raises(UnsupportedFeatureError, match="column 'b': lists of blobs"):
        encode_blob_pages(blob, pa.array([[{"position": 1, "size": 2}]], pa.list_(BLOB_V1)), grammar)


def test_runs_of_levels_that_do_not_fit_a_chunk_are_packed() -> None:
    levels = np.tile(np.repeat(np.array([0, 1], np.uint16), 40), 11_500)
    encoded = encode_levels(levels, np.array([0, len(levels)]), GRAMMARS[V2_2])
    assert isinstance(encoded.encoding, OutOfLineBitpacking)
