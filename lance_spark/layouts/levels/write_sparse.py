"""Levels -> the sparse structure of storage version 2.3, for values that take no bytes, or on demand. The reverse of `sparse`.

The specification's draft differs from what is written; this follows the bytes of files. See `sparse` for the order of layers and buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23
from lance_spark.buffers.blocks import Encoding, FixedWidth
from lance_spark.encodings import dictionary, flat, out_of_line_bitpacking
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.tree import encode_message
from lance_spark.layouts.levels.read import Slots, unravel
from lance_spark.layouts.levels.shred import Shredded
from lance_spark.layouts.levels.sparse import valid_slots
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.page_layouts import dense
from lance_spark.layouts.nodes.planar import PLANAR_TYPE

_MEANS_NULL, _MEANS_VALID = 1, 2

_Encoded = tuple[Encoding, np.ndarray]
"""A sequence and its bytes, none if the encoding has no buffer."""

_NO_BYTES = np.empty(0, np.uint8)


def encode(page: Shredded, values: pb23.ValuePlane, before: Sequence[np.ndarray] = ()) -> EncodedPage:
    """The page of `values`, whose buffers are `before`, with the structure of `page`."""
    slots = unravel(dense(page.layers), page.repetition, page.definition, page.num_events)
    structure = pb23.SparseStructure()
    buffers = list(before)

    def message(encoded: _Encoded) -> pb.CompressiveEncoding:
        encoding, data = encoded
        if encoding.num_buffers:
            buffers.append(data)
        return encode_message(encoding)

    for layer in reversed(slots):
        if layer.offsets is None:
            structure.layers.append(pb23.SparseLayer(validity=_validity(layer, message)))
            continue
        counts = np.diff(layer.offsets).astype(np.int64)
        positions = np.flatnonzero(counts)
        lists = pb23.SparseList(num_child_slots=int(layer.offsets[-1]), num_non_empty_positions=len(positions))
        # `message` collects the buffers in this order.
        lists.non_empty_positions.CopyFrom(message(_encode_positions(positions)))
        lists.counts.CopyFrom(message(_encode_counts(counts[positions])))
        lists.validity.CopyFrom(_validity(layer, message))
        structure.layers.append(pb23.SparseLayer(list=lists))
    layout = pb23.PlanarLayout(structure=pb23.StructuralPlane(sparse=structure), values=values)
    return EncodedPage(PLANAR_TYPE, layout.SerializeToString(deterministic=True), tuple(buffers), page.num_rows)


def _validity(layer: Slots, message: Callable[[_Encoded], pb.CompressiveEncoding]) -> pb23.SparseValidity:
    """The null or the valid slots: those that take no bytes, else the fewer ones."""
    valid = valid_slots(layer)
    choices = [(_MEANS_NULL, np.flatnonzero(~valid)), (_MEANS_VALID, np.flatnonzero(valid))]
    meaning, positions = min(choices, key=lambda choice: (_simple(choice[1]) is None, len(choice[1])))
    return pb23.SparseValidity(meaning=meaning, positions=message(_encode_positions(positions)), num_positions=len(positions))


def _encode_positions(positions: np.ndarray) -> _Encoded:
    """Increasing slot numbers, in the smallest of the encodings that readers know for them."""
    simple = _simple(positions)
    if simple is not None:
        return simple
    if len(positions) == 1:
        return _flat(positions)
    steps = np.diff(positions)
    encoding, data = _simple(steps) or out_of_line_bitpacking.encode_block(_words(steps))
    return _smaller((Delta(64, int(positions[0]), encoding), data), _flat(positions))


def _encode_counts(counts: np.ndarray) -> _Encoded:
    """Lengths of lists, in the smallest of the encodings that readers know for them."""
    if len(counts) and (counts == counts[0]).all():
        return Constant(counts[:1].tobytes()), _NO_BYTES
    simple = _simple(counts)
    if simple is not None:
        return simple
    packed = out_of_line_bitpacking.encode_block(_words(counts))
    items, indices = np.unique(counts, return_inverse=True)
    choices = [packed, _flat(counts)]
    if len(items) < len(counts) // 2:
        choices.append(dictionary.encode_block(indices.astype(np.uint32), *(_simple(items) or _flat(items)), len(items)))
    return min(choices, key=lambda encoded: len(encoded[1]))


def _simple(numbers: np.ndarray) -> _Encoded | None:
    """Numbers whose encoding takes no bytes, else None."""
    if not len(numbers):
        return Constant(None), _NO_BYTES
    step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 0
    if step > 0 and (np.diff(numbers) == step).all():
        return Range(64, int(numbers[0]), step), _NO_BYTES
    return None


def _flat(numbers: np.ndarray) -> _Encoded:
    return flat.encode_block(_words(numbers))


def _smaller(a: _Encoded, b: _Encoded) -> _Encoded:
    return a if len(a[1]) <= len(b[1]) else b


def _words(numbers: np.ndarray) -> FixedWidth:
    return FixedWidth(64, np.ascontiguousarray(numbers, np.int64).view(np.uint8), len(numbers))
