"""Mini-block pages: encoded chunks and their levels -> the buffers of a page. Spec: file_encoding.md, "Mini Block Page Layout".

Buffers: 0 one word per chunk, 1 the chunks, then the dictionary if there is one, then the repetition index if there are lists.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23
from lance_spark.buffers.blocks import EncodedChunks
from lance_spark.buffers.memory import empty
from lance_spark.encodings.tree import encode_message
from lance_spark.layouts.choose.auto_dictionary import EncodedDictionary
from lance_spark.layouts.levels import write_sparse
from lance_spark.layouts.levels.shred import Shredded
from lance_spark.layouts.levels.write import MAX_LEVELS, EncodedLevels, encode_levels, event_bounds, repetition_index
from lance_spark.layouts.nodes.encoded_page import EncodedPage, copy_pieces, put_unsigned
from lance_spark.layouts.nodes.version_grammar import Grammar

MAX_SMALL_CHUNK = 32 << 10
"""Maximum size in bytes of a chunk that is not large: 12 bits have its number of 8-byte words."""

_PADDING = 0xFEFEFEFEFEFEFEFE


def encode(page: Shredded, values: EncodedChunks, dictionary: EncodedDictionary | None, grammar: Grammar) -> EncodedPage:
    """The page of `values` in chunks, which must be small enough for their levels (see `max_chunk_values`)."""
    large = grammar.large_chunks
    bounds = event_bounds(page, values.counts)
    repetition = definition = None
    if page.repetition is not None:
        repetition = encode_levels(page.repetition, bounds, grammar)
    if page.definition is not None:
        definition = encode_levels(page.definition, bounds, grammar)
    chunks, words = assemble(values, repetition, definition, bounds, large)
    layout = pb.MiniBlockLayout(
        value_compression=encode_message(values.encoding),
        layers=page.layers,  # type: ignore[arg-type]
        num_buffers=len(values.buffers),
        num_items=page.num_visible,
        has_large_chunk=large,
    )
    buffers = [words.view(np.uint8), chunks]
    if repetition is not None:
        layout.rep_compression.CopyFrom(encode_message(repetition.encoding))
        layout.repetition_index_depth = 1
    if definition is not None:
        layout.def_compression.CopyFrom(encode_message(definition.encoding))
    if dictionary is not None:
        layout.dictionary.CopyFrom(encode_message(dictionary.encoding))
        layout.num_dictionary_items = dictionary.num_items
        buffers.append(dictionary.data)
    if page.repetition is not None:
        buffers.append(repetition_index(page, bounds).view(np.uint8))
    return EncodedPage.of(pb.PageLayout(mini_block_layout=layout), buffers, page.num_rows, grammar)


def encode_sparse(page: Shredded, values: EncodedChunks, dictionary: EncodedDictionary | None, grammar: Grammar) -> EncodedPage:
    """The page of `values` in chunks without levels, and of a sparse structure (2.3)."""
    plain = replace(page, layers=(pb.REPDEF_ALL_VALID_ITEM,), repetition=None, definition=None, num_events=page.num_visible)
    chunked = encode(plain, values, dictionary, grammar)
    plane = pb23.PlanarLayout.FromString(chunked.encoding).values
    # The structure says how many items there are.
    plane.chunked.ClearField("levels")
    plane.chunked.ClearField("num_items")
    return write_sparse.encode(page, plane, chunked.buffers)


def assemble(
    values: EncodedChunks, repetition: EncodedLevels | None, definition: EncodedLevels | None, bounds: np.ndarray, large: bool
) -> tuple[np.ndarray, np.ndarray]:
    """All chunks, concatenated, and the word of each."""
    levels = [x.buffer for x in (repetition, definition) if x is not None]
    parts = [*levels, *values.buffers]
    num_levels = np.diff(bounds) if levels else np.zeros(len(values.counts), dtype=np.int64)
    widths = [2] * (1 + len(levels)) + [4 if large else 2] * len(values.buffers)
    sizes = [num_levels, *(np.diff(part.bounds) for part in parts)]
    header = _padded(sum(widths))
    ends = np.cumsum([_padded(size) for size in sizes[1:]], axis=0) + header
    chunk_sizes = ends[-1]
    assert large or chunk_sizes.max() <= MAX_SMALL_CHUNK
    assert num_levels.max() <= MAX_LEVELS
    chunk_starts = np.concatenate([[0], np.cumsum(chunk_sizes)])
    out = empty(int(chunk_starts[-1]))
    for end in (header, *ends):
        # The last word of each part; the next part overwrites most of it.
        out.view(np.uint64)[(chunk_starts[:-1] + end) // 8 - 1] = _PADDING
    at = chunk_starts[:-1].copy()
    for width, size in zip(widths, sizes):
        put_unsigned(out, at, size, width)
        at += width
    for i, part in enumerate(parts):
        before = ends[i - 1] if i else header
        copy_pieces(out, chunk_starts[:-1] + before, part.data, part.bounds[:-1], part.bounds[1:])
    logs = np.log2(values.counts).astype(np.int64)
    logs[-1] = 0  # the last chunk has the remaining values
    words = ((chunk_sizes // 8 - 1) << 4) | logs
    return out, words.astype(np.uint32 if large else np.uint16)


def _padded(size: np.ndarray | int) -> np.ndarray | int:
    return (size + 7) // 8 * 8
