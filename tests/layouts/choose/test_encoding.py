"""Encodings that suit only rare data: strings without symbols, packed structs in full-zip pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.buffers.blocks import FixedSizeList, FixedWidth, VariableWidth
from lance_spark.encodings.packed_struct import PackedStructEncoding
from lance_spark.encodings.variable import Variable
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts.choose.auto_dictionary import deduplicate, encode_dictionary
from lance_spark.layouts.choose.encoding import encode_chunks, encode_single_values
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.nodes.version_grammar import GRAMMARS
from lance_spark.layouts.values.to_blocks import to_block
from lance_spark.schema.storage_version import V2_2

FSST = EncodingOptions(compression="fsst", is_text=True)


def test_strings_without_any_bytes_have_no_symbols() -> None:
    empty = to_block(pa.array([""] * 10))
    assert isinstance(encode_chunks(empty, 8, FSST, GRAMMARS[V2_2]).encoding, Variable)
    assert isinstance(encode_single_values(empty, FSST)[0], Variable)


def test_no_strings_are_a_block_of_none() -> None:
    block = to_block(pa.array([], pa.string()))
    assert isinstance(block, VariableWidth)
    assert block.offsets.tolist() == [0]


def test_lists_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="writing values of type list"):
        to_block(pa.array([[1]]))


def test_packed_structs_of_whole_bytes_are_values_of_full_zip_pages_too() -> None:
    block = to_block(pa.array([{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}]))
    assert isinstance(encode_single_values(block, EncodingOptions())[0], PackedStructEncoding)


def test_only_strings_and_wide_words_are_checked_for_repetition() -> None:
    assert deduplicate(FixedWidth(8, np.zeros(9, np.uint8), 9), 9) is None


def test_dictionaries_of_vectors_are_refused() -> None:
    items = FixedSizeList(FixedWidth(32, np.zeros(16, np.uint8), 4), 2, None)
    with pytest.raises(UnsupportedFeatureError, match="only dictionaries of strings and of fixed-width values"):
        encode_dictionary(items, EncodingOptions(), GRAMMARS[V2_2])
