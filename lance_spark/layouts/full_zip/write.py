"""Full-zip pages: each value after its levels, for values too wide for chunks. Spec: file_encoding.md, "Full Zip Page Layout".

Buffer 0 has for each event a control word (its levels), the length of a variable-width value, and the value. Buffer 1 is the start of each
row, if that cannot be computed.
"""

from __future__ import annotations

import numpy as np

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.blocks import Encoding, FixedWidth, VariableWidth
from lance_spark.buffers.memory import empty
from lance_spark.encodings.tree import encode_message
from lance_spark.layouts.levels.shred import Shredded
from lance_spark.layouts.nodes.encoded_page import EncodedPage, copy_pieces, put_unsigned
from lance_spark.layouts.nodes.version_grammar import Grammar


def encode(page: Shredded, encoding: Encoding, values: FixedWidth | VariableWidth, grammar: Grammar) -> EncodedPage:
    """The page of `values`, each of which `encoding` has compressed."""
    layout = pb.FullZipLayout(
        bits_rep=page.bits_rep,
        bits_def=page.bits_def,
        num_items=page.num_events,
        num_visible_items=page.num_visible,
        value_compression=encode_message(encoding),
        layers=page.layers,  # type: ignore[arg-type]
    )
    if isinstance(values, FixedWidth):
        layout.bits_per_value = values.bits
        data, starts = _zip_fixed(page, values)
        indexed = page.repetition is not None
    else:
        layout.bits_per_offset = values.offsets.itemsize * 8
        data, starts = _zip_variable(page, values)
        indexed = True
    buffers = [data, _row_index(page, starts)] if indexed else [data]
    return EncodedPage.of(pb.PageLayout(full_zip_layout=layout), buffers, page.num_rows, grammar)


def _zip_fixed(page: Shredded, values: FixedWidth) -> tuple[np.ndarray, np.ndarray]:
    """The data buffer, the start of each event in it, and the end of the last. Every visible value is stored, null or not."""
    width, word = values.bits // 8, _control_size(page)
    if not word:
        return values.data, np.arange(page.num_events + 1, dtype=np.int64) * width
    starts = _starts(word + width * _visible(page))
    out = empty(int(starts[-1]))
    _put_control(page, out, starts)
    begins = np.arange(values.count, dtype=np.int64) * width
    copy_pieces(out, starts[:-1][_visible(page)] + word, values.data, begins, begins + width)
    return out, starts


def _zip_variable(page: Shredded, values: VariableWidth) -> tuple[np.ndarray, np.ndarray]:
    """Like `_zip_fixed`; only valid values have a length and bytes."""
    prefix, word = values.offsets.itemsize, _control_size(page)
    offsets = values.offsets.astype(np.int64, copy=False)
    begins, ends = offsets[:-1], offsets[1:]
    if page.definition is None:
        valid = np.ones(page.num_events, dtype=np.bool_)
    else:
        valid = page.definition == 0
        of_value = valid[_visible(page)]
        begins, ends = begins[of_value], ends[of_value]
    sizes = np.full(page.num_events, word, dtype=np.int64)
    sizes[valid] += prefix + ends - begins
    starts = _starts(sizes)
    out = empty(int(starts[-1]))
    _put_control(page, out, starts)
    at = starts[:-1][valid] + word
    put_unsigned(out, at, ends - begins, prefix)
    copy_pieces(out, at + prefix, values.data, begins, ends)
    return out, starts


def _visible(page: Shredded) -> np.ndarray:
    if page.definition is None:
        return np.ones(page.num_events, dtype=np.bool_)
    return page.definition <= page.max_visible


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def _control_size(page: Shredded) -> int:
    """The size of a control word in bytes."""
    bits = page.bits_rep + page.bits_def
    return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4


def _put_control(page: Shredded, out: np.ndarray, starts: np.ndarray) -> None:
    size = _control_size(page)
    if not size:
        return
    words = np.zeros(page.num_events, dtype=np.int64)
    if page.repetition is not None:
        words |= page.repetition.astype(np.int64) << page.bits_def
    if page.definition is not None:
        words |= page.definition
    put_unsigned(out, starts[:-1], words, size)


def _row_index(page: Shredded, starts: np.ndarray) -> np.ndarray:
    """The start of each row in the data buffer, and the buffer's end, in the narrowest unsigned type."""
    if page.repetition is not None:
        starts = np.append(starts[:-1][page.repetition == page.repetition[0]], starts[-1])
    end = int(starts[-1])
    types = (np.uint8, np.uint16, np.uint32, np.uint64)
    dtype = next(t for t in types if end <= np.iinfo(t).max)
    return starts.astype(dtype).view(np.uint8)
