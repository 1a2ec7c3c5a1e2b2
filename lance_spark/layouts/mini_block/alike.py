"""Pages of many columns of one type, such as those of a table of thousands of columns, encoded together as the chunks of one page are.

These are the pages that `write_page` makes; it makes those of columns with constant or repeated values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lance_spark.arrow.types import is_bytes
from lance_spark.buffers.blocks import Block, EncodedChunks, FixedWidth, VariableWidth
from lance_spark.encodings import flat, inline_bitpacking, out_of_line_bitpacking, rle, variable
from lance_spark.encodings.fastlanes import block_words, chunk_widths, word_type
from lance_spark.layouts.choose import auto_dictionary as dictionary
from lance_spark.layouts.choose.encoding import CHUNK_COST, MIN_FSST_BYTES, SMALL, WIDE
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.choose.nulls_and_constants import WORDS
from lance_spark.layouts.levels.write import EncodedLevels
from lance_spark.layouts.mini_block.small import message_of_chunk
from lance_spark.layouts.mini_block.write import assemble
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.version_grammar import Grammar
from lance_spark.layouts.values.to_blocks import bytes_of, to_block
from lance_spark.schema.schema import Field

MOST_ROWS = 512
"""Values of which any encoding makes a single chunk."""

_ENOUGH = 4
"""Columns from which on it is faster to encode them together."""

_MOST_BYTES = 256 << 10
"""Bytes of texts from which on they never fit in one chunk."""

_OPTIONS = EncodingOptions()


def encode_together(columns: Sequence[tuple[Field, Sequence[pa.Array]]], grammar: Grammar) -> list[EncodedPage | None]:
    """The page of each leaf column, from its arrays, if others are like it; else None."""
    groups: dict[tuple[pa.DataType, int, bool], list[int]] = {}
    for i, (leaf, arrays) in enumerate(columns):
        if len(arrays) == 1 and _is_plain(leaf, arrays[0], grammar):
            groups.setdefault((arrays[0].type, len(arrays[0]), arrays[0].null_count > 0), []).append(i)
    pages: list[EncodedPage | None] = [None] * len(columns)
    for numbers in groups.values():
        if len(numbers) >= _ENOUGH:
            for i, page in zip(numbers, encode_alike([columns[i][1][0] for i in numbers], grammar)):
                pages[i] = page
    return pages


def _is_plain(field: Field, array: pa.Array, grammar: Grammar) -> bool:
    """True if `encode_alike` takes the column: words or texts without options, few enough for one chunk."""
    t = array.type
    if not 0 < len(array) <= MOST_ROWS or field.metadata or field.children or array.null_count == len(array):
        return False
    if grammar.packed_parts and (array.null_count or not _is_word(t)):
        return False  # offsets and levels have more encodings
    return _is_word(t) or (is_bytes(t) and array.nbytes < _MOST_BYTES)


def _is_word(t: pa.DataType) -> bool:
    return (pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_temporal(t)) and t.bit_width in WORDS


def encode_alike(arrays: Sequence[pa.Array], grammar: Grammar) -> list[EncodedPage | None]:
    """The page of each of `arrays`, which have one type and length, and all or none have nulls (see `_is_plain`).

    None where other encodings may be smaller.
    """
    count, together = len(arrays[0]), pa.concat_arrays(arrays)
    valid = together.is_valid().to_numpy(zero_copy_only=False).reshape(-1, count) if together.null_count else None
    runs = _prefer_runs(valid, grammar) if valid is not None else np.zeros(len(arrays), bool)
    pages: list[EncodedPage | None] = [None] * len(arrays)
    for encode, rows in (_of_words if _is_word(together.type) else _of_texts)(arrays, together, valid, grammar):
        for as_runs in (False, True):
            numbers = np.flatnonzero(rows & (runs == as_runs))
            if len(numbers):
                levels = _levels(valid[numbers], rle if as_runs else out_of_line_bitpacking) if valid is not None else None
                for i, page in zip(numbers.tolist(), _pages(encode(numbers), levels, count, grammar)):
                    pages[i] = page
    return pages


_Encoders: TypeAlias = list[tuple[Callable[[np.ndarray], EncodedChunks], np.ndarray]]
"""Functions that encode the columns with these numbers, each column as a chunk, and for which columns (bool) each is the best."""


def _of_words(arrays: Sequence[pa.Array], together: pa.Array, valid: np.ndarray | None, grammar: Grammar) -> _Encoders:
    bits, count = together.type.bit_width, len(arrays[0])
    data = bytes_of(together.buffers()[1])
    values = data[: len(arrays) * count * bits // 8]
    words = values.view(word_type(bits)).reshape(len(arrays), count)
    if valid is not None:
        words = _filled(words, valid)
    flat_size = count * bits / 8
    packed_sizes = np.full(len(arrays), np.inf)
    changes = (words[:, 1:] != words[:, :-1]).sum(axis=1)
    left = changes == 0 if grammar.constant_values else np.zeros(len(arrays), bool)
    if flat_size > SMALL:
        widths = chunk_widths(_block(words), np.full(len(arrays), count))
        packed_sizes = (block_words(bits, widths) + 1) * (bits / 8)
        left |= changes + 1 < grammar.most_runs * count
        if bits == 64 and grammar.word_dictionaries and count >= dictionary.MIN_VALUES:
            left |= _repeats(words, np.minimum(flat_size, packed_sizes) + CHUNK_COST)
    packed = packed_sizes < flat_size

    def encoder(module: ModuleType) -> Callable[[np.ndarray], EncodedChunks]:
        return lambda numbers: module.encode_chunks(_block(words[numbers]), np.full(len(numbers), count))

    return [(encoder(flat), ~left & ~packed), (encoder(inline_bitpacking), ~left & packed)]


def _filled(words: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Each null replaced by the value before it, those before the first value by that (see `with_nulls_filled`)."""
    at = np.maximum.accumulate(np.where(valid, np.arange(valid.shape[1]), -1), axis=1)
    at = np.where(at < 0, valid.argmax(axis=1)[:, None], at)
    filled: np.ndarray = np.take_along_axis(words, at, axis=1)
    return filled


def _of_texts(arrays: Sequence[pa.Array], together: pa.Array, valid: np.ndarray | None, grammar: Grammar) -> _Encoders:
    count = len(arrays[0])
    texts = to_block(together)
    assert isinstance(texts, VariableWidth)
    width, lengths = texts.offsets.itemsize, np.diff(texts.offsets).reshape(-1, count)
    sizes = lengths.sum(axis=1)
    are_wide = lengths.max(axis=1) >= WIDE
    exceed_chunk = sizes + (count + 1) * width > variable.CHUNK_BYTES
    left = are_wide | (sizes >= MIN_FSST_BYTES) | exceed_chunk
    items = together.dictionary_encode().indices
    distinct = _distinct(items.fill_null(-1).to_numpy(zero_copy_only=False).reshape(-1, count))
    # A null may be one more item, and counts as none if all other values are equal.
    few = count // _OPTIONS.dictionary_divisor if count >= dictionary.MIN_VALUES else 0
    left |= distinct <= max(few, 1) + (valid is not None)

    def encode(numbers: np.ndarray) -> EncodedChunks:
        block: Block = texts
        if len(numbers) < len(arrays):
            block = to_block(pa.concat_arrays([arrays[i] for i in numbers.tolist()]))
        assert isinstance(block, VariableWidth)
        return variable.encode_counts(block, np.full(len(numbers), count))

    return [(encode, ~left)]


def _block(words: np.ndarray) -> FixedWidth:
    return FixedWidth(8 * words.itemsize, words.reshape(-1).view(np.uint8), words.size)


def _repeats(words: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Whether a dictionary may be smaller than the `sizes` of the other encodings, for each column."""
    different, which = np.unique(sizes, return_inverse=True)
    count = words.shape[1]
    limits = [dictionary.most_items(count, 8, dictionary.MAX_SHARE * size, _OPTIONS.dictionary_divisor) for size in different.tolist()]
    few: np.ndarray = _distinct(words) <= np.array(limits)[which]
    return few


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The number of distinct values in each row."""
    ordered = np.sort(rows, axis=1)
    count: np.ndarray = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) + 1
    return count


def _levels(valid: np.ndarray, module: ModuleType) -> EncodedLevels:
    """The definition levels of columns with these valid values, each column as a chunk."""
    levels = (~valid).reshape(-1).astype(np.uint16)
    counts = np.full(len(valid), valid.shape[1])
    encoded = module.encode_blocks(FixedWidth(16, levels.view(np.uint8), len(levels)), counts)
    return EncodedLevels(encoded.encoding, encoded.buffers[0])


def _prefer_runs(valid: np.ndarray, grammar: Grammar) -> np.ndarray:
    """Whether the levels of each column are smaller as runs, as `encode_levels` decides."""
    if not grammar.run_levels:
        return np.zeros(len(valid), bool)
    packed, runs = (np.diff(_levels(valid, module).buffer.bounds) for module in (out_of_line_bitpacking, rle))
    changes = (valid[:, 1:] != valid[:, :-1]).sum(axis=1)
    # An estimate for runs: each takes a level of two bytes and a length of one, after a header of 8.
    fewer: np.ndarray = (3 * (changes + 1) + 8 < packed) & (runs < packed)
    return fewer


def _pages(chunks: EncodedChunks, levels: EncodedLevels | None, count: int, grammar: Grammar) -> list[EncodedPage]:
    """A page for each chunk."""
    bounds = np.arange(len(chunks.counts) + 1) * (count if levels is not None else 0)
    data, heads = assemble(chunks, None, levels, bounds, grammar.large_chunks)
    # The word of a page's last chunk does not have its number of values.
    heads &= ~heads.dtype.type(15)
    stops = np.cumsum(((heads >> 4).astype(np.int64) + 1) * 8).tolist()
    message = message_of_chunk(chunks.encoding, count, grammar, levels.encoding if levels is not None else None)
    size, own = heads.itemsize, heads.view(np.uint8)
    starts = [0, *stops[:-1]]
    pages = []
    for i, (start, stop) in enumerate(zip(starts, stops)):
        head = own[i * size : (i + 1) * size]
        pages.append(EncodedPage(*message, (head, data[start:stop]), count))
    return pages
