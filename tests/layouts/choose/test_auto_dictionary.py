"""Dictionaries contain each distinct value once, and are used only if they save space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.buffers.blocks import FixedWidth, VariableWidth
from lance_spark.layouts.choose.auto_dictionary import deduplicate, encode_dictionary, make_dictionary
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.nodes.version_grammar import GRAMMARS
from lance_spark.schema.storage_version import V2_1, V2_2


def strings(values: list[bytes]) -> VariableWidth:
    offsets = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int32)
    return VariableWidth(offsets, np.frombuffer(b"".join(values), dtype=np.uint8))


def values_of(block: object) -> list[bytes]:
    if isinstance(block, VariableWidth):
        return [block.data[a:b].tobytes() for a, b in zip(block.offsets[:-1], block.offsets[1:])]
    assert isinstance(block, FixedWidth)
    width = block.bits // 8
    return [block.data[i * width : (i + 1) * width].tobytes() for i in range(block.count)]


@given(st.lists(st.one_of(st.binary(max_size=3), st.binary(max_size=20)), min_size=1))
def test_indices_refer_to_the_strings(values: list[bytes]) -> None:
    distinct = len(set(values))
    found = deduplicate(strings(values), distinct)
    assert found is not None
    items = values_of(found[1])
    assert len(items) == distinct
    assert [items[i] for i in found[0]] == values
    assert deduplicate(strings(values), distinct - 1) is None or distinct == 1


@pytest.mark.parametrize("words", [1, 2])
@given(numbers=st.lists(st.integers(0, 6), min_size=2), shift=st.integers(0, 60))
def test_indices_refer_to_the_words(words: int, numbers: list[int], shift: int) -> None:
    data = np.zeros((len(numbers), words), dtype=np.uint64)
    data[:, -1] = np.array(numbers, dtype=np.uint64) << np.uint64(shift)
    block = FixedWidth(64 * words, data.reshape(-1).view(np.uint8), len(numbers))
    found = deduplicate(block, len(numbers))
    assert found is not None
    items = values_of(found[1])
    assert len(items) == len({data[i].tobytes() for i in range(len(numbers))})
    assert [items[i] for i in found[0]] == values_of(block)


def test_a_page_of_distinct_values_gets_no_dictionary() -> None:
    values = strings([b"%07d" % i for i in range(20_000)])
    assert make_dictionary(values, 20_000 * 11, EncodingOptions()) is None


@pytest.mark.parametrize("distinct", [1, 2, 50, 3000])
def test_a_page_of_few_distinct_values_gets_a_dictionary(distinct: int) -> None:
    numbers = np.random.default_rng(0).integers(0, distinct, 20_000)
    values = strings([b"value %d" % i for i in numbers])
    found = make_dictionary(values, float(len(values.data) + 80_000), EncodingOptions())
    assert found is not None
    assert found[1].count == len(np.unique(numbers))
    assert make_dictionary(values, 300_000.0, EncodingOptions(compression="none")) is None


def test_items_are_compressed_only_from_2_2_on() -> None:
    items = strings([b"the same beginning %d" % i for i in range(100)])
    plain = encode_dictionary(items, EncodingOptions(), GRAMMARS[V2_1])
    packed = encode_dictionary(items, EncodingOptions(), GRAMMARS[V2_2])
    assert len(packed.data) < len(plain.data)
    for dictionary in (plain, packed):
        assert values_of(dictionary.encoding.decode_block(dictionary.data, 100)) == values_of(items)
