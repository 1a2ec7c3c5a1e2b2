"""How to store the values of a page: a few statistics, then tables of decisions.

What a reader must understand is the grammar of the file's version; within it every choice here is free. What differs by version is
said once, in `Grammar`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lance_spark.encodings import fixed_size_list, flat, fsst, inline_bitpacking, packed_struct, rle, variable
from lance_spark.encodings.bitpacking import BLOCK, block_words, chunk_widths
from lance_spark.encodings.blocks import Block, EncodedChunks, Encoding, FixedSizeList, FixedWidth, PackedStruct, VariableWidth, split_evenly
from lance_spark.layouts.encoding_options import EncodingOptions
from lance_spark.layouts.shred import Shredded
from lance_spark.layouts.statistics import WORDS, deduplicate

WIDE = 256
"""Bytes from which on values are zipped with their levels instead of being put in chunks."""

HUGE = 32 << 10
"""Bytes beyond which values are compressed one by one."""

MIN_FSST_BYTES, MIN_FSST_LENGTH = 32 << 10, 5
"""Strings of fewer bytes in all, or of which none is that long, are not worth a symbol table."""

MIN_DICTIONARY_VALUES = 100

_FLAT_CHUNK_BYTES = 8186
_MAX_CHUNK_VALUES = 4096


@dataclass(frozen=True)
class Grammar:
    """What only some versions of the format may contain."""

    constant_values: bool
    word_dictionaries: bool
    compressed_dictionaries: bool


GRAMMARS = {
    (2, 1): Grammar(constant_values=False, word_dictionaries=False, compressed_dictionaries=False),
    (2, 2): Grammar(constant_values=True, word_dictionaries=True, compressed_dictionaries=True),
}


def is_small_without_constant(page: Shredded) -> bool:
    """Whether a constant page would be no gain: it has raw levels, 2 bytes each, where chunks have them packed."""
    if page.repetition is None and page.definition is None or page.num_visible < MIN_DICTIONARY_VALUES:
        return False
    return isinstance(page.values, VariableWidth) or isinstance(page.values, FixedWidth) and page.values.bits in (1, *WORDS, 128)


def is_wide(values: Block, options: EncodingOptions) -> bool:
    """Whether values go into a full-zip page."""
    if options.structure is not None:
        return options.structure == "fullzip"
    if isinstance(values, VariableWidth):
        return int(np.diff(values.offsets).max(initial=0)) >= WIDE
    return _row_bits(values) >= 8 * WIDE


def _row_bits(values: Block) -> int:
    """Bits of one value."""
    if isinstance(values, FixedWidth):
        return values.bits
    if isinstance(values, FixedSizeList):
        return values.dimension * _row_bits(values.items)
    if isinstance(values, PackedStruct):
        return sum(_row_bits(child) for child in values.children)
    raise AssertionError("strings have no fixed width")


def encode_chunks(values: Block, max_values: int, options: EncodingOptions) -> EncodedChunks:
    """Values in chunks of at most `max_values`, each in the smallest encoding of those in the tables below."""
    if isinstance(values, VariableWidth):
        return _encode_strings(values, max_values, options)
    if isinstance(values, FixedSizeList):
        return fixed_size_list.encode_chunks(values, _flat_counts(values.count, _row_bits(values), max_values))
    if isinstance(values, PackedStruct):
        return packed_struct.encode_chunks(values, _flat_counts(values.count, _row_bits(values), max_values))
    if values.bits in WORDS and options.compression != "none":
        sizes = {name: size(values, max_values, options) for name, (size, _) in _WORD_ENCODINGS.items()}
        return _WORD_ENCODINGS[min(sizes, key=sizes.__getitem__)][1](values, max_values)
    return _encode_flat(values, max_values)


def _encode_strings(values: VariableWidth, max_values: int, options: EncodingOptions) -> EncodedChunks:
    chunk_bytes = options.chunk_bytes or variable.CHUNK_BYTES
    if wants_fsst(values, options):
        node = fsst.train(values)
        if node is not None:
            return fsst.encode_chunks(values, node, max_values, chunk_bytes)
    return variable.encode_chunks(values, max_values, chunk_bytes)


def wants_fsst(values: VariableWidth, options: EncodingOptions) -> bool:
    """Whether strings are compressed with a symbol table."""
    if options.compression is not None:
        return options.compression == "fsst"
    return int(values.offsets[-1]) >= MIN_FSST_BYTES and int(np.diff(values.offsets).max()) >= MIN_FSST_LENGTH


def _flat_counts(count: int, bits: int, max_values: int) -> np.ndarray:
    """Values in each chunk: the largest power of two that keeps it below 8 KiB."""
    per_chunk = max_values
    while per_chunk > 1 and per_chunk * bits > 8 * _FLAT_CHUNK_BYTES:
        per_chunk //= 2
    return split_evenly(count, per_chunk)


def _encode_flat(values: FixedWidth, max_values: int) -> EncodedChunks:
    return flat.encode_chunks(values, _flat_counts(values.count, values.bits, max_values))


def _flat_size(values: FixedWidth, max_values: int, options: EncodingOptions) -> float:
    return values.count * values.bits / 8 + 12 * len(_flat_counts(values.count, values.bits, max_values))


def _encode_packed(values: FixedWidth, max_values: int) -> EncodedChunks:
    return inline_bitpacking.encode_chunks(values, split_evenly(values.count, BLOCK))


def _packed_size(values: FixedWidth, max_values: int, options: EncodingOptions) -> float:
    if max_values < BLOCK:
        return np.inf  # a chunk is a block of 1024, however few values are in it
    widths = chunk_widths(values, split_evenly(values.count, BLOCK))
    return float((block_words(values.bits, widths) + 1).sum()) * values.bits / 8 + 12 * len(widths)


def _encode_runs(values: FixedWidth, max_values: int) -> EncodedChunks:
    chunks = rle.encode_chunks(values, split_evenly(values.count, max_values))
    if sum(np.diff(b.bounds) for b in chunks.buffers).max() > _FLAT_CHUNK_BYTES:
        # Where there are few runs on the whole, there can still be many in one chunk.
        return rle.encode_chunks(values, _flat_counts(values.count, values.bits + 8, max_values))
    return chunks


def _runs_size(values: FixedWidth, max_values: int, options: EncodingOptions) -> float:
    runs = rle.count_runs(values)
    if runs >= options.rle_threshold * values.count:
        return np.inf
    # A run of more than 255 is several, and chunks cut runs; neither is counted exactly.
    runs += values.count // rle.LONGEST_RUN // 2
    return runs * (values.bits / 8 + 1) + 20 * len(split_evenly(values.count, max_values))


_Size = Callable[[FixedWidth, int, EncodingOptions], float]
_WORD_ENCODINGS: dict[str, tuple[_Size, Callable[[FixedWidth, int], EncodedChunks]]] = {
    "flat": (_flat_size, _encode_flat),
    "bit-packed": (_packed_size, _encode_packed),
    "runs": (_runs_size, _encode_runs),
}


def encode_single_values(values: Block, options: EncodingOptions) -> tuple[Encoding, FixedWidth | VariableWidth]:
    """Values each compressed by itself, for a full-zip page."""
    if isinstance(values, VariableWidth):
        if wants_fsst(values, options):
            node = fsst.train(values)
            if node is not None:
                return fsst.encode_values(values, node)
        return variable.encode_values(values)
    if isinstance(values, FixedSizeList):
        return fixed_size_list.encode_values(values)
    if isinstance(values, PackedStruct):
        return packed_struct.encode_values(values)
    if values.bits == 1:
        bits = np.unpackbits(values.data, count=values.count, bitorder="little")
        values = FixedWidth(8, bits, values.count)
    return flat.encode_values(values)


def make_dictionary(values: Block, options: EncodingOptions, grammar: Grammar) -> tuple[FixedWidth, Block] | None:
    """Indices and distinct values, if there are few enough of these to save a fifth of the bytes."""
    count = values.count
    if count < MIN_DICTIONARY_VALUES or options.compression == "none":
        return None
    if isinstance(values, VariableWidth):
        item_bytes = int(values.offsets[-1]) / count + values.offsets.itemsize
        size = item_bytes * count
    elif isinstance(values, FixedWidth) and values.bits in (64, 128) and (grammar.word_dictionaries or values.bits == 128):
        item_bytes = values.bits / 8
        size = item_bytes * count
        if values.bits == 64:
            size = min(f(values, _MAX_CHUNK_VALUES, options) for f, _ in _WORD_ENCODINGS.values())
    else:
        return None
    limit = _most_items(count, item_bytes, 0.8 * size, options.dictionary_divisor)
    found = deduplicate(values, limit) if limit else None
    if found is None:
        return None
    indices, items = found
    return FixedWidth(32, indices.view(np.uint8), count), items


def _most_items(count: int, item_bytes: float, budget: float, divisor: int) -> int:
    """How many distinct values there may be so that they and the packed indices stay within `budget` bytes."""
    most = 0
    for bits in range(1, 32):
        fits = min(int((budget - count * bits / 8) / item_bytes), 1 << bits, count // divisor)
        most = max(most, fits)
    return most
