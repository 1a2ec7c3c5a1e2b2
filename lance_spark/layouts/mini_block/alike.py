"""Pages of many columns of one type, such as those of a table of thousands of columns, encoded together as the chunks of one page are.

These are the pages that `write_page` makes; it makes those of columns with constant or repeated values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.buffers.blocks import EncodedChunks, FixedWidth
from lance_spark.encodings import flat, inline_bitpacking
from lance_spark.encodings.fastlanes import block_words, chunk_widths, word_type
from lance_spark.layouts.choose import auto_dictionary as dictionary
from lance_spark.layouts.choose.encoding import SMALL
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.choose.nulls_and_constants import WORDS
from lance_spark.layouts.mini_block.small import message_of_chunk
from lance_spark.layouts.mini_block.write import assemble
from lance_spark.layouts.nodes.encoded_page import ENCODING_TYPE, EncodedPage
from lance_spark.layouts.nodes.version_grammar import Grammar
from lance_spark.layouts.values.to_blocks import bytes_of
from lance_spark.schema.schema import Field

MOST_ROWS = 512
"""Values of which any encoding makes a single chunk."""

_ENOUGH = 4
"""Columns from which on it is faster to encode them together."""

_OPTIONS = EncodingOptions()


def encode_together(columns: Sequence[tuple[Field, Sequence[pa.Array]]], grammar: Grammar) -> list[EncodedPage | None]:
    """The page of each leaf column, from its arrays, if others are like it; else None."""
    groups: dict[tuple[pa.DataType, int], list[int]] = {}
    for i, (leaf, arrays) in enumerate(columns):
        if len(arrays) == 1 and _is_plain(leaf, arrays[0]):
            groups.setdefault((arrays[0].type, len(arrays[0])), []).append(i)
    pages: list[EncodedPage | None] = [None] * len(columns)
    for numbers in groups.values():
        if len(numbers) >= _ENOUGH:
            for i, page in zip(numbers, encode_alike([columns[i][1][0] for i in numbers], grammar)):
                pages[i] = page
    return pages


def _is_plain(field: Field, array: pa.Array) -> bool:
    """True if `encode_alike` takes the column: words without nulls and without options, few enough for one chunk."""
    t = array.type
    if not 0 < len(array) <= MOST_ROWS or field.metadata or field.children or array.null_count:
        return False
    return (pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_temporal(t)) and t.bit_width in WORDS


def encode_alike(arrays: Sequence[pa.Array], grammar: Grammar) -> list[EncodedPage | None]:
    """The page of each of `arrays`, which have one type and length (see `_is_plain`); None where other encodings may be smaller."""
    bits, count = arrays[0].type.bit_width, len(arrays[0])
    data = bytes_of(pa.concat_arrays(arrays).buffers()[1])
    words = data[: len(arrays) * count * bits // 8].view(word_type(bits)).reshape(len(arrays), count)
    flat_size = count * bits / 8
    packed_sizes = np.full(len(arrays), np.inf)
    changes = (words[:, 1:] != words[:, :-1]).sum(axis=1)
    left = changes == 0 if grammar.constant_values else np.zeros(len(arrays), bool)
    if flat_size > SMALL:
        widths = chunk_widths(_block(words), np.full(len(arrays), count))
        packed_sizes = (block_words(bits, widths) + 1) * (bits / 8)
        left |= changes + 1 < _OPTIONS.rle_threshold * count
        if bits == 64 and grammar.word_dictionaries and count >= dictionary.MIN_VALUES:
            left |= _repeats(words, np.minimum(flat_size, packed_sizes) + 12)
    packed = packed_sizes < flat_size
    pages: list[EncodedPage | None] = [None] * len(arrays)
    for module, rows in ((flat, ~left & ~packed), (inline_bitpacking, ~left & packed)):
        numbers = np.flatnonzero(rows)
        if len(numbers):
            chunks = module.encode_chunks(_block(words[numbers]), np.full(len(numbers), count))
            for i, page in zip(numbers.tolist(), _pages(chunks, count, grammar)):
                pages[i] = page
    return pages


def _block(words: np.ndarray) -> FixedWidth:
    return FixedWidth(8 * words.itemsize, words.reshape(-1).view(np.uint8), words.size)


def _repeats(words: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Whether a dictionary may be smaller than the `sizes` of the other encodings, for each column."""
    count = words.shape[1]
    ordered = np.sort(words, axis=1)
    distinct = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) + 1
    different, which = np.unique(sizes, return_inverse=True)
    limits = [dictionary.most_items(count, 8, dictionary.MAX_SHARE * size, _OPTIONS.dictionary_divisor) for size in different.tolist()]
    few: np.ndarray = distinct <= np.array(limits)[which]
    return few


def _pages(chunks: EncodedChunks, count: int, grammar: Grammar) -> list[EncodedPage]:
    """A page for each chunk."""
    none = np.zeros(len(chunks.counts) + 1, np.int64)
    data, heads = assemble(chunks, None, None, none, grammar.large_chunks)
    # The word of a page's last chunk does not have its number of values.
    heads &= ~heads.dtype.type(15)
    stops = np.cumsum(((heads >> 4).astype(np.int64) + 1) * 8).tolist()
    message = message_of_chunk(chunks.encoding, count, grammar.large_chunks)
    size, own = heads.itemsize, heads.view(np.uint8)
    starts = [0, *stops[:-1]]
    return [
        EncodedPage(ENCODING_TYPE, message, (own[i * size : (i + 1) * size], data[start:stop]), count)
        for i, (start, stop) in enumerate(zip(starts, stops))
    ]
