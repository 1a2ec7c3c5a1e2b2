"""Automatic dictionaries: if the values of a page repeat, the distinct values are stored once and chunks contain indices.

Spec: file_encoding.md, "Buffer 2 (Dictionary, optional)".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Block, Encoding, FixedSizeList, FixedWidth, VariableWidth
from lance_spark.buffers.memory import empty
from lance_spark.encodings import fixed_size_list, flat, general, variable
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, copy_ranges, load64
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.nodes.version_grammar import Grammar

MIN_VALUES = 100
"""Minimum number of values for a dictionary."""

MAX_SHARE = 0.8
"""Maximum size of a page with a dictionary, as a fraction of its size without."""

_SAMPLE_SPANS, _SAMPLE_SPAN = 8, 512
"""Values of a sample: spans from all over the page, since values that are near each other are alike."""

_MIX = U(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class EncodedDictionary:
    """The dictionary of a page as one block."""

    encoding: Encoding
    data: np.ndarray
    num_items: int


def has_dictionaries(values: Block, grammar: Grammar) -> bool:
    """True if values of this kind are checked for repetition."""
    if isinstance(values, FixedWidth):
        return values.bits == 128 or (values.bits == 64 and grammar.word_dictionaries)
    if isinstance(values, FixedSizeList):
        return grammar.list_dictionaries and _item_bits(values) >= 8
    return isinstance(values, VariableWidth)


def make_dictionary(values: Block, plain_size: float, options: EncodingOptions) -> tuple[FixedWidth, Block] | None:
    """Indices and distinct values, if they save at least a fifth of the `plain_size` bytes of the values; else None."""
    if isinstance(values, FixedSizeList):
        return _dictionary_of_lists(values, plain_size, options)
    count = values.count
    if count < MIN_VALUES or options.compression == "none":
        return None
    if isinstance(values, FixedWidth):
        item_bytes = values.bits / 8
    else:
        assert isinstance(values, VariableWidth)
        item_bytes = float(values.offsets[-1]) / count + values.offsets.itemsize
    limit = most_items(count, item_bytes, MAX_SHARE * plain_size, options.dictionary_divisor)
    if not limit or not _repeats(values):
        return None
    found = deduplicate(values, limit)
    if found is None:
        return None
    indices, items = found
    return FixedWidth(32, indices.view(np.uint8), count), items


def _dictionary_of_lists(values: FixedSizeList, plain_size: float, options: EncodingOptions) -> tuple[FixedWidth, Block] | None:
    """Each list is compared as the bytes that it has in full-zip pages."""
    node, rows = fixed_size_list.encode_values(values)
    found = make_dictionary(VariableWidth(np.arange(rows.count + 1) * (rows.bits // 8), rows.data), plain_size, options)
    if found is None:
        return None
    indices, items = found
    assert isinstance(items, VariableWidth)
    return indices, node.decode_values(FixedWidth(rows.bits, items.data, items.count))


def _item_bits(values: FixedSizeList) -> int:
    items = values.items
    while isinstance(items, FixedSizeList):
        items = items.items
    assert isinstance(items, FixedWidth)  # fixed-size lists have no other items
    return items.bits


def most_items(count: int, item_bytes: float, budget: float, divisor: int) -> int:
    """The maximum number of distinct values that, with the packed indices, stay within `budget` bytes."""
    most = 0
    for bits in range(1, 32):
        affordable = int((budget - count * bits / 8) / item_bytes)
        most = max(most, min(affordable, 1 << bits, count // divisor))
    return most


def _repeats(values: Block) -> bool:
    """Whether values repeat in a sample of the page: runs of adjacent values from the whole page.

    The most common value may be the placeholder of nulls, so it counts only if it is in more than half of the places. Adjacent equal words
    count once, since RLE stores them better.
    """
    step = values.count // _SAMPLE_SPANS
    if step <= 2 * _SAMPLE_SPAN:
        return True
    rows = (np.arange(_SAMPLE_SPANS)[:, None] * step + np.arange(_SAMPLE_SPAN)).ravel()
    if isinstance(values, VariableWidth):
        sample: Block = take_variable(values, rows)
    else:
        assert isinstance(values, FixedWidth)
        sample = FixedWidth(values.bits, values.data.reshape(values.count, -1)[rows].ravel(), len(rows))
    found = deduplicate(sample, len(rows))
    assert found is not None
    numbers = found[0]
    if isinstance(values, FixedWidth) and values.bits == 64:
        numbers = numbers[np.append(True, numbers[1:] != numbers[:-1])]
    counts = np.bincount(numbers)
    most = int(counts.max())
    return 2 * most > len(numbers) or len(numbers) - most > len(counts) - 1


def encode_dictionary(items: Block, options: EncodingOptions, grammar: Grammar) -> EncodedDictionary:
    """The distinct values as one block, since 2.2 compressed if that is smaller."""
    if isinstance(items, VariableWidth):
        block: tuple[Encoding, bytes] = variable.encode_block(items)
    elif isinstance(items, FixedWidth):
        encoding, data = flat.encode_block(items)
        block = encoding, data.tobytes()
    elif isinstance(items, FixedSizeList) and grammar.list_dictionaries:
        node, lists = fixed_size_list.encode_values(items)
        block = node, lists.data.tobytes()
    else:
        raise UnsupportedFeatureError("only dictionaries of strings and of fixed-width values are supported")
    scheme = options.dictionary_compression or "lz4"
    if grammar.compressed_dictionaries and scheme in ("lz4", "zstd"):
        compressed = general.encode_block(block, "zstd" if scheme == "zstd" else "lz4")
        if len(compressed[1]) < len(block[1]):
            block = compressed
    return EncodedDictionary(block[0], np.frombuffer(block[1], dtype=np.uint8), items.count)


def deduplicate(values: Block, limit: int) -> tuple[np.ndarray, Block] | None:
    """The index of the distinct value (uint32) for each value, and the distinct values in order of appearance.

    None if there are more than `limit` of them, or if the type has no dictionaries.
    """
    indices = empty(values.count, np.uint32)
    bits = max(4, (2 * limit).bit_length())
    table = np.zeros(1 << bits, dtype=np.uint32)
    with np.errstate(over="ignore"):  # without the JIT, products that wrap around raise warnings
        if isinstance(values, FixedWidth) and values.bits in (64, 128):
            words = values.bits // 64
            items = np.empty(limit * words, dtype=np.uint64)
            found = _distinct_words(values.view(np.uint64), words, indices, items, table, 64 - bits)
            if found <= limit:
                return indices, FixedWidth(values.bits, items[: found * words].view(np.uint8), found)
        elif isinstance(values, VariableWidth):
            firsts = np.empty(limit, dtype=np.int64)
            found = _distinct_strings(values.offsets, values.data, indices, firsts, table, 64 - bits)
            if found <= limit:
                return indices, take_variable(values, firsts[:found])
    return None


def take_variable(values: VariableWidth, rows: np.ndarray) -> VariableWidth:
    """The values at these positions."""
    lengths = values.offsets[rows + 1] - values.offsets[rows]
    offsets = np.zeros(len(rows) + 1, dtype=values.offsets.dtype)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    copy_ranges(values.data, values.offsets[rows].astype(np.int64), lengths.astype(np.int64), data)
    return VariableWidth(offsets, data)


# Both look up each value in an open-addressing table of indices plus one, and return a number above the limit when `items` or
# `firsts` is full. Multiplication mixes upwards, so the slot in the table is taken from the upper bits of the product.


@kernel
def _distinct_words(words: np.ndarray, step: int, indices: np.ndarray, items: np.ndarray, table: np.ndarray, shift: int) -> int:
    """Values are `step` words, 1 or 2; for one word, low and high are the same."""
    mask = U(len(table) - 1)
    size = U(step)
    up = size - U(1)
    down = U(shift)
    found = U(0)
    limit = U(len(items)) // size
    for i in range(U(len(indices))):
        low, high = words[i * size], words[i * size + up]
        at = ((low * _MIX ^ (high >> U(29))) * _MIX) >> down
        while True:
            entry = U(table[at])
            if entry == U(0):
                if found == limit:
                    return int(limit + U(1))
                items[found * size] = low
                items[found * size + up] = high
                indices[i] = found
                found += U(1)
                table[at] = found
                break
            other = (entry - U(1)) * size
            if items[other] == low and items[other + up] == high:
                indices[i] = entry - U(1)
                break
            at = (at + U(1)) & mask
    return int(found)


@kernel
def _distinct_strings(offsets: np.ndarray, data: np.ndarray, indices: np.ndarray, firsts: np.ndarray, table: np.ndarray, shift: int) -> int:
    mask = U(len(table) - 1)
    down = U(shift)
    found = U(0)
    for i in range(U(len(indices))):
        start = U(offsets[i])
        size = U(offsets[i + U(1)]) - start
        at = _hash(data, start, size) >> down
        while True:
            entry = U(table[at])
            if entry == U(0):
                if found == U(len(firsts)):
                    return int(found + U(1))
                firsts[found] = i
                indices[i] = found
                found += U(1)
                table[at] = found
                break
            first = U(firsts[entry - U(1)])
            other = U(offsets[first])
            if U(offsets[first + U(1)]) - other == size and _same(data, start, other, size):
                indices[i] = entry - U(1)
                break
            at = (at + U(1)) & mask
    return int(found)


@kernel
def _hash(data: np.ndarray, start: np.uint64, size: np.uint64) -> np.uint64:
    mixed = size * _MIX
    at = U(0)
    while at < size:
        if at + U(8) <= size:
            word = load64(data, start + at)
            at += U(8)
        else:
            word = U(0)
            while at < size:
                word = word << U(8) | U(data[start + at])
                at += U(1)
        mixed = (mixed ^ word) * _MIX
        mixed ^= mixed >> U(32)
    return mixed * _MIX


@kernel
def _same(data: np.ndarray, a: np.uint64, b: np.uint64, size: np.uint64) -> bool:
    at = U(0)
    while at + U(8) <= size:
        if load64(data, a + at) != load64(data, b + at):
            return False
        at += U(8)
    while at < size:
        if data[a + at] != data[b + at]:
            return False
        at += U(1)
    return True
