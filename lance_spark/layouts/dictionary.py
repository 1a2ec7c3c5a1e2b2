"""Automatic dictionaries: when the values of a page repeat, their distinct values are stored once and chunks hold indices into them.

Spec: file_encoding.md, "Buffer 2 (Dictionary, optional)".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.encodings import flat, general, variable
from lance_spark.encodings.blocks import Block, Encoding, FixedWidth, VariableWidth
from lance_spark.encodings.kernel import kernel
from lance_spark.encodings.words import copy_ranges, load64
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts.encoding_options import EncodingOptions
from lance_spark.layouts.grammar import Grammar

MIN_VALUES = 100
"""Fewer values are not worth the trouble."""

MAX_SHARE = 0.8
"""What a page with a dictionary may take of the bytes that it takes without."""

_SAMPLE_SPANS, _SAMPLE_SPAN = 8, 512


@dataclass(frozen=True)
class EncodedDictionary:
    """The dictionary of a page as one block."""

    encoding: Encoding
    data: np.ndarray
    num_items: int


def has_dictionaries(values: Block, grammar: Grammar) -> bool:
    """Whether values of this kind are looked through for repetition."""
    if isinstance(values, FixedWidth):
        return values.bits == 128 or (values.bits == 64 and grammar.word_dictionaries)
    return isinstance(values, VariableWidth)


def make_dictionary(values: Block, plain_size: float, options: EncodingOptions) -> tuple[FixedWidth, Block] | None:
    """Indices and distinct values, if these are few enough to save a fifth of the `plain_size` bytes that the values take otherwise."""
    count = values.count
    if count < MIN_VALUES or options.compression == "none":
        return None
    item_bytes = values.bits / 8 if isinstance(values, FixedWidth) else plain_size / count
    limit = _most_items(count, item_bytes, MAX_SHARE * plain_size, options.dictionary_divisor)
    if not limit or not _repeats(values):
        return None
    found = deduplicate(values, limit)
    if found is None:
        return None
    indices, items = found
    return FixedWidth(32, indices.view(np.uint8), count), items


def _most_items(count: int, item_bytes: float, budget: float, divisor: int) -> int:
    """How many distinct values there may be so that they and the packed indices stay within `budget` bytes."""
    fits = (min(int((budget - count * bits / 8) / item_bytes), 1 << bits, count // divisor) for bits in range(1, 32))
    return max(0, *fits)


def _repeats(values: Block) -> bool:
    """Whether any value occurs twice in a sample that is large enough to tell: spans of neighbours from all over the page."""
    step = values.count // _SAMPLE_SPANS
    if step <= 2 * _SAMPLE_SPAN:
        return True
    rows = (np.arange(_SAMPLE_SPANS)[:, None] * step + np.arange(_SAMPLE_SPAN)).ravel()
    if isinstance(values, VariableWidth):
        sample: Block = take_variable(values, rows)
    else:
        assert isinstance(values, FixedWidth)
        width = values.bits // 8
        sample = FixedWidth(values.bits, values.data.reshape(-1, width)[rows].ravel(), len(rows))
    return deduplicate(sample, len(rows) - 1) is not None


def encode_dictionary(items: Block, options: EncodingOptions, grammar: Grammar) -> EncodedDictionary:
    """The distinct values as one block, from 2.2 on compressed if that makes it smaller."""
    if isinstance(items, VariableWidth):
        block: tuple[Encoding, bytes] = variable.encode_block(items)
    elif isinstance(items, FixedWidth):
        encoding, data = flat.encode_block(items)
        block = encoding, data.tobytes()
    else:
        raise UnsupportedFeatureError("dictionaries of values that are neither strings nor of fixed width")
    scheme = options.dictionary_compression or "lz4"
    if grammar.compressed_dictionaries and scheme in ("lz4", "zstd"):
        compressed = general.encode_block(block, "zstd" if scheme == "zstd" else "lz4")
        if len(compressed[1]) < len(block[1]):
            block = compressed
    return EncodedDictionary(block[0], np.frombuffer(block[1], dtype=np.uint8), items.count)


def deduplicate(values: Block, limit: int) -> tuple[np.ndarray, Block] | None:
    """For each value the number of the distinct value that it is (uint32), and the distinct values in order of appearance.

    None when there are more than `limit` of them, or for a type that has no dictionaries.
    """
    indices = np.empty(values.count, dtype=np.uint32)
    firsts = np.empty(limit, dtype=np.int64)
    table = np.zeros(1 << max(4, (2 * limit).bit_length()), dtype=np.uint32)
    if isinstance(values, FixedWidth) and values.bits in (64, 128):
        words = values.view(np.uint64).reshape(values.count, -1)
        found = _distinct_words(words, indices, firsts, table)
        if found <= limit:
            items = np.ascontiguousarray(words[firsts[:found]]).view(np.uint8).reshape(-1)
            return indices, FixedWidth(values.bits, items, found)
    elif isinstance(values, VariableWidth):
        found = _distinct_strings(values.offsets, values.data, indices, firsts, table)
        if found <= limit:
            return indices, take_variable(values, firsts[:found])
    return None


def take_variable(values: VariableWidth, rows: np.ndarray) -> VariableWidth:
    """The values with these numbers."""
    lengths = values.offsets[rows + 1] - values.offsets[rows]
    offsets = np.zeros(len(rows) + 1, dtype=values.offsets.dtype)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    copy_ranges(values.data, values.offsets[rows].astype(np.int64), lengths.astype(np.int64), data)
    return VariableWidth(offsets, data)


# Both look each value up in an open-addressing table that holds the number of a distinct value plus one, and give up, with
# the number of distinct values so far, when there are more than `firsts` has room for.


@kernel
def _distinct_words(words: np.ndarray, indices: np.ndarray, firsts: np.ndarray, table: np.ndarray) -> int:
    mask = np.uint64(len(table) - 1)
    found = 0
    for i in range(words.shape[0]):
        h = np.uint64(0)
        for k in range(words.shape[1]):
            h = (h ^ words[i, k]) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        at = h & mask
        while True:
            entry = table[at]
            if entry == 0:
                if found == len(firsts):
                    return found + 1
                firsts[found] = i
                found += 1
                table[at] = found
                indices[i] = found - 1
                break
            same = True
            for k in range(words.shape[1]):
                same &= words[firsts[entry - 1], k] == words[i, k]
            if same:
                indices[i] = entry - 1
                break
            at = (at + np.uint64(1)) & mask
    return found


@kernel
def _distinct_strings(offsets: np.ndarray, data: np.ndarray, indices: np.ndarray, firsts: np.ndarray, table: np.ndarray) -> int:
    mask = np.uint64(len(table) - 1)
    found = 0
    for i in range(len(offsets) - 1):
        start = np.uint64(offsets[i])
        size = np.uint64(offsets[i + 1]) - start
        h = size
        at = np.uint64(0)
        while at < size:
            if at + np.uint64(8) <= size:
                word = load64(data, start + at)
                at += np.uint64(8)
            else:
                word = np.uint64(0)
                while at < size:
                    word = word << np.uint64(8) | np.uint64(data[start + at])
                    at += np.uint64(1)
            h = (h ^ word) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        at = h & mask
        while True:
            entry = table[at]
            if entry == 0:
                if found == len(firsts):
                    return found + 1
                firsts[found] = i
                found += 1
                table[at] = found
                indices[i] = found - 1
                break
            other = np.uint64(offsets[firsts[entry - 1]])
            same = np.uint64(offsets[firsts[entry - 1] + 1]) - other == size
            k = np.uint64(0)
            while same and k < size:
                same = data[start + k] == data[other + k]
                k += np.uint64(1)
            if same:
                indices[i] = entry - 1
                break
            at = (at + np.uint64(1)) & mask
    return found
