"""Chooses the encoding of a page from a few statistics.

The grammar of the file's version limits what readers understand; within it every choice is valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lance_spark.buffers.blocks import (
    Block,
    EncodedChunks,
    Encoding,
    FixedSizeList,
    FixedWidth,
    PackedStruct,
    VariableWidth,
    split_evenly,
)
from lance_spark.encodings import (
    byte_stream_split,
    fixed_size_list,
    flat,
    fsst,
    general,
    inline_bitpacking,
    packed_struct,
    rle,
    variable,
    variable_packed_struct,
)
from lance_spark.encodings.fastlanes import BLOCK, block_words, chunk_widths
from lance_spark.layouts.choose import auto_dictionary as dictionary
from lance_spark.layouts.choose.auto_dictionary import has_dictionaries
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.choose.nulls_and_constants import WORDS
from lance_spark.layouts.levels.shred import Shredded
from lance_spark.layouts.nodes.version_grammar import Grammar

WIDE = 256
"""Values with this many bytes or more are stored in full-zip pages instead of chunks."""

MAX_INLINE = 32
"""Maximum size in bytes of a constant value that is stored in the message."""

TOO_WIDE = 8 << 10
"""Values with this many bytes or more never use mini-blocks, even if requested: two values and their levels must fit into 32 KiB."""

HUGE = 32 << 10
"""Values with more bytes are compressed one by one."""

MIN_FSST_BYTES, MIN_FSST_LENGTH = 32 << 10, 5
"""Minimum total bytes of strings, and minimum length of the longest one, for a symbol table."""

SCHEMES = ("lz4", "zstd")

SMALL = 64
"""Bytes that no encoding makes smaller, because buffers are padded to as many."""

CHUNK_COST = 12
"""Bytes of a chunk beside its values: a header of 8, and a word of up to 4 in the list of chunks."""
_BSS_SAMPLE = 8192
"""Values that are compressed both ways to see which is smaller."""
_FLAT_CHUNK_BYTES = 8186
"""8 KiB without a header of 6 bytes, as in pylance."""
_MAX_CHUNK_VALUES = 4096


def may_be_constant(page: Shredded, grammar: Grammar) -> bool:
    """Whether a page of one value is stored as such: not if the version has no such pages, or if they are larger than others."""
    if not grammar.constant_values:
        return False
    if grammar.planar:
        # Values that are not in the message are not constant in 2.3.
        return isinstance(page.values, FixedWidth) and page.values.bits <= 8 * MAX_INLINE
    return not _is_small_without_constant(page)


def _is_small_without_constant(page: Shredded) -> bool:
    """True if a constant page would be larger: its levels take 2 bytes each, while levels in chunks are packed."""
    if (page.repetition is None and page.definition is None) or page.num_visible < dictionary.MIN_VALUES:
        return False
    return isinstance(page.values, VariableWidth) or (isinstance(page.values, FixedWidth) and page.values.bits in (1, *WORDS, 128))


def is_wide(values: Block, options: EncodingOptions) -> bool:
    """True if values are stored in a full-zip page."""
    if options.structure == "fullzip":
        return True
    if isinstance(values, PackedStruct) and not packed_struct.is_fixed(values):
        return True
    if isinstance(values, VariableWidth):
        widest = int(np.diff(values.offsets).max(initial=0))
    else:
        widest = _row_bits(values) // 8
    return widest >= (TOO_WIDE if options.structure == "miniblock" else WIDE)


def _row_bits(values: Block) -> int:
    """Bits of one value."""
    if isinstance(values, FixedWidth):
        return values.bits
    if isinstance(values, FixedSizeList):
        return values.dimension * _row_bits(values.items)
    assert isinstance(values, PackedStruct)  # strings have no fixed width
    return sum(_row_bits(child) for child in values.children)


def encode_chunks(values: Block, max_values: int, options: EncodingOptions, grammar: Grammar) -> EncodedChunks:
    """Values in chunks of at most `max_values`, in the smallest of the encodings below."""
    if isinstance(values, VariableWidth):
        return _encode_strings(values, max_values, options, grammar)
    if isinstance(values, FixedSizeList):
        return fixed_size_list.encode_chunks(values, _flat_counts(values.count, _row_bits(values), max_values))
    if isinstance(values, PackedStruct):
        return packed_struct.encode_chunks(values, _flat_counts(values.count, _row_bits(values), max_values))
    sizes = _word_sizes(values, max_values, options, grammar)
    best = min(sizes, key=sizes.__getitem__)
    if options.compression in SCHEMES and values.bits >= 8:
        compressed = _compress_chunks(_planes_or_flat(values, max_values, options), options)
        if _size(compressed) < sizes[best]:
            return compressed
    return _WORD_ENCODINGS[best][1](values, max_values, grammar)


def _word_sizes(values: FixedWidth, max_values: int, options: EncodingOptions, grammar: Grammar) -> dict[str, float]:
    """The approximate size in bytes of each encoding."""
    if values.bits not in WORDS or options.compression == "none" or values.count * values.bits <= 8 * SMALL:
        return {"flat": _flat_size(values, max_values, options, grammar)}
    return {name: size(values, max_values, options, grammar) for name, (size, _) in _WORD_ENCODINGS.items()}


def _encode_strings(values: VariableWidth, max_values: int, options: EncodingOptions, grammar: Grammar) -> EncodedChunks:
    chunk_bytes = options.chunk_bytes or variable.CHUNK_BYTES
    if not grammar.large_chunks:
        chunk_bytes = min(chunk_bytes, variable.CHUNK_BYTES)
    if wants_fsst(values, options):
        node = fsst.train(values)
        if node is not None:
            return fsst.encode_chunks(values, node, max_values, chunk_bytes)
    chunks = variable.encode_chunks(values, max_values, chunk_bytes)
    if grammar.packed_parts and _size(chunks) > 2 * SMALL:
        # The numbers of values are those of flat offsets, so that chunks stay small.
        chunks = min(chunks, variable.encode_packed_counts(values, chunks.counts), key=_size)
    if options.compression in SCHEMES:
        compressed = _compress_chunks(chunks, options)
        return compressed if _size(compressed) < _size(chunks) else chunks
    return chunks


def _compress_chunks(chunks: EncodedChunks, options: EncodingOptions) -> EncodedChunks:
    if options.compression == "lz4":
        return general.encode_chunks(chunks, "lz4")
    return general.encode_chunks(chunks, "zstd", options.level)


def _size(chunks: EncodedChunks) -> int:
    """The bytes of all buffers and of the header of each chunk."""
    return sum(len(buffer.data) for buffer in chunks.buffers) + CHUNK_COST * len(chunks.counts)


def _planes_or_flat(values: FixedWidth, max_values: int, options: EncodingOptions) -> EncodedChunks:
    """The values to compress, with bytes of equal significance grouped if that helps."""
    plain = flat.encode_chunks(values, _flat_counts(values.count, values.bits, max_values))
    if options.bss == "off" or values.bits not in (32, 64):
        return plain
    # Readers do not support larger chunks of byte planes.
    planes = byte_stream_split.encode_chunks(values, split_evenly(values.count, min(max_values, (8 << 12) // values.bits)))
    if options.bss == "on":
        return planes
    few = FixedWidth(values.bits, values.data[: _BSS_SAMPLE * values.bits // 8], min(values.count, _BSS_SAMPLE))
    trial = replace(options, bss="on"), replace(options, bss="off")
    with_planes, without = (_size(_compress_chunks(_planes_or_flat(few, max_values, o), o)) for o in trial)
    return planes if with_planes < without else plain


def wants_fsst(values: VariableWidth, options: EncodingOptions) -> bool:
    """Whether strings are compressed with a symbol table."""
    if options.compression is not None:
        return options.compression == "fsst"
    if not options.is_text:
        return False  # most binary data is compressed or random, so symbols would not help
    return int(values.offsets[-1]) >= MIN_FSST_BYTES and int(np.diff(values.offsets).max()) >= MIN_FSST_LENGTH


def _flat_counts(count: int, bits: int, max_values: int) -> np.ndarray:
    """Values in each chunk: the largest power of two below 8 KiB."""
    per_chunk = max_values
    while per_chunk > 2 and per_chunk * bits > 8 * _FLAT_CHUNK_BYTES:
        per_chunk //= 2
    return split_evenly(count, per_chunk)


def _encode_flat(values: FixedWidth, max_values: int, grammar: Grammar) -> EncodedChunks:
    return flat.encode_chunks(values, _flat_counts(values.count, values.bits, max_values))


def _flat_size(values: FixedWidth, max_values: int, options: EncodingOptions, grammar: Grammar) -> float:
    return values.count * values.bits / 8 + CHUNK_COST * len(_flat_counts(values.count, values.bits, max_values))


def _encode_packed(values: FixedWidth, max_values: int, grammar: Grammar) -> EncodedChunks:
    return inline_bitpacking.encode_chunks(values, split_evenly(values.count, BLOCK))


def _packed_size(values: FixedWidth, max_values: int, options: EncodingOptions, grammar: Grammar) -> float:
    if max_values < BLOCK:
        return np.inf  # a chunk takes a block of 1024 even for fewer values
    widths = chunk_widths(values, split_evenly(values.count, BLOCK))
    word_bytes = values.bits / 8
    packed = float(np.sum(block_words(values.bits, widths))) * values.bits / 8
    return packed + (word_bytes + CHUNK_COST) * len(widths)


def _encode_runs(values: FixedWidth, max_values: int, grammar: Grammar) -> EncodedChunks:
    encode = rle.encode_packed_chunks if grammar.packed_parts else rle.encode_chunks
    chunks = encode(values, split_evenly(values.count, max_values))
    sizes = np.sum([np.diff(b.bounds) for b in chunks.buffers], axis=0)
    if sizes.max() > _FLAT_CHUNK_BYTES:
        # Even if a page has few runs, one chunk can have many.
        return encode(values, _flat_counts(values.count, values.bits + 8, max_values))
    return chunks


def _runs_size(values: FixedWidth, max_values: int, options: EncodingOptions, grammar: Grammar) -> float:
    runs = rle.count_runs(values)
    if runs >= (grammar.most_runs if options.rle_threshold is None else options.rle_threshold) * values.count:
        return np.inf
    bits = values.bits + 8
    if grammar.packed_parts:
        if runs >= BLOCK:  # only one of both is packed, in blocks of 1024 runs
            width = int(chunk_widths(values, np.array([values.count])).max())
            bits = min(bits, values.bits + rle.longest_run(values).bit_length(), width + 8)
    else:
        # A run of more than 255 values is split, and chunks cut runs; neither is counted exactly.
        runs += values.count // rle.LONGEST_RUN // 2
    return runs * bits / 8 + 20 * len(split_evenly(values.count, max_values))


_Size = Callable[[FixedWidth, int, EncodingOptions, Grammar], float]
_WORD_ENCODINGS: dict[str, tuple[_Size, Callable[[FixedWidth, int, Grammar], EncodedChunks]]] = {
    "flat": (_flat_size, _encode_flat),
    "bit-packed": (_packed_size, _encode_packed),
    "runs": (_runs_size, _encode_runs),
}


def encode_single_values(values: Block, options: EncodingOptions) -> tuple[Encoding, FixedWidth | VariableWidth]:
    """Values compressed one by one, for a full-zip page."""
    if isinstance(values, VariableWidth):
        if options.compression in SCHEMES or (options.compression is None and np.diff(values.offsets).max() > HUGE):
            # Level 0 is the library's default.
            return general.encode_values(variable.encode_values(values), "zstd", options.level or 0)
        if wants_fsst(values, options):
            node = fsst.train(values)
            if node is not None:
                return fsst.encode_values(values, node)
        return variable.encode_values(values)
    if isinstance(values, FixedSizeList):
        return fixed_size_list.encode_values(values)
    if isinstance(values, PackedStruct):
        if packed_struct.is_fixed(values):
            return packed_struct.encode_values(values)
        return variable_packed_struct.encode_values([encode_single_values(child, options) for child in values.children])
    if values.bits == 1:
        bits = np.unpackbits(values.data, count=values.count, bitorder="little")
        values = FixedWidth(8, bits, values.count)
    return flat.encode_values(values)


def make_dictionary(values: Block, options: EncodingOptions, grammar: Grammar) -> tuple[FixedWidth, Block] | None:
    """Indices and distinct values if that is smaller, else None."""
    if not has_dictionaries(values, grammar):
        return None
    if isinstance(values, VariableWidth):
        size = float(values.offsets[-1]) + values.count * _offset_size(values, options, grammar)
    elif isinstance(values, FixedSizeList):
        size = values.count * _row_bits(values) / 8
    else:
        assert isinstance(values, FixedWidth)
        size = min(_word_sizes(values, _MAX_CHUNK_VALUES, options, grammar).values())
    return dictionary.make_dictionary(values, size, options)


def _offset_size(values: VariableWidth, options: EncodingOptions, grammar: Grammar) -> float:
    """The approximate bytes of the offset of a value."""
    width = values.offsets.itemsize
    if not grammar.packed_parts or wants_fsst(values, options) or options.compression in SCHEMES:
        return width
    sizes = np.diff(values.offsets)
    if not len(sizes) or (sizes == sizes[0]).all():
        return 0
    # A chunk with fewer than 1024 values takes a whole packed block.
    in_chunk = min(variable.CHUNK_BYTES / (float(values.offsets[-1]) / len(sizes) + width), BLOCK)
    return min(width, int(sizes.max()).bit_length() / 8 * BLOCK / in_chunk)
