"""Repetition and definition levels -> what Arrow stores of each layer: validity bitmaps and list offsets.

Implements "Repetition and Definition Levels" of the file encoding page. Layers are numbered from the leaf outwards. An event is
one pair of levels. It opens a slot in each layer from the leaf up to the layer that its repetition level names, except in those
that its definition level ends: below a null or empty list there is nothing, not even a leaf value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.encodings.blocks import Chunks, Encoding, FixedWidth
from lance_spark.encodings.kernel import kernel
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.tree import Dense


@dataclass(frozen=True)
class Slots:
    """The slots of one layer.

    `validity` is a bitmap, least significant bit first; None when no slot of the layer is null by itself (then slots below
    a null may count as valid). `offsets` are the int32 or int64 offsets of a list layer.
    """

    count: int
    validity: np.ndarray | None
    offsets: np.ndarray | None = None


def decode_levels(encoding: Encoding, blocks: Chunks) -> np.ndarray:
    """The 16-bit levels of these blocks, one block after the other."""
    block = encoding.decode_blocks(blocks)
    count = int(blocks.counts.sum())
    if not isinstance(block, FixedWidth) or block.bits != 16 or block.count != count:
        raise CorruptFileError(f"levels must be {count} values of 16 bits")
    return block.view(np.uint16)


def unravel(structure: Dense, repetition: np.ndarray | None, definition: np.ndarray | None, count: int) -> tuple[Slots, ...]:
    """The slots of every layer, innermost first, from the levels of `count` events; None stands for levels that are all 0.

    With lists, the first event must start a row.
    """
    top = max((max(layer.null, layer.empty) for layer in structure.layers), default=0)
    if definition is not None and len(definition) and definition.max() > top:
        raise CorruptFileError(f"a definition level of {definition.max()}, the layers have {top}")
    if not structure.num_lists:
        return tuple(Slots(count, _valid_below(definition, layer.null)) for layer in structure.layers)
    if repetition is None:
        raise CorruptFileError("a page of lists without repetition levels")
    if count and (repetition[0] != structure.num_lists or repetition.max() > structure.num_lists):
        raise CorruptFileError(f"repetition levels must begin with {structure.num_lists} and not exceed it")
    return _unravel_lists(structure, repetition, definition, top)


def _valid_below(definition: np.ndarray | None, null: int) -> np.ndarray | None:
    """Without lists, a slot is null where its own layer or one further out is, and those have the higher levels."""
    if definition is None or not null:
        return None
    return np.packbits(definition < null, bitorder="little")


def _unravel_lists(structure: Dense, repetition: np.ndarray, definition: np.ndarray | None, top: int) -> tuple[Slots, ...]:
    layers = structure.layers
    if len(repetition) >= 2**31:
        raise CorruptFileError(f"a page with {len(repetition)} levels")
    is_list = np.array([layer.is_list for layer in layers])
    opened_by = np.cumsum(is_list)  # the least repetition level that opens a slot in the layer
    ends = np.zeros(top + 1, np.int64)  # by definition level: the innermost layer that still has a slot
    nulls = np.full(top + 1, -1, np.int64)  # by definition level: the outermost layer whose slot is null
    innermost = 0
    for number, layer in enumerate(layers):
        innermost = number if layer.is_list else innermost
        ends[[layer.null or 0, layer.empty or 0]] = innermost
        nulls[layer.null] = number
    ends[0], nulls[0] = 0, -1
    levels = np.zeros(0, np.uint16) if definition is None else definition
    validity = np.zeros((len(layers), (len(repetition) + 7) // 8), np.uint8)
    offsets = np.zeros((len(layers), len(repetition) + 1), np.int32)
    counts = np.zeros(len(layers), np.int64)
    _open_slots(repetition, levels, is_list, opened_by, ends, nulls, validity, offsets, counts)
    if (offsets[is_list, 0] != 0).any():
        raise CorruptFileError("repetition levels continue a list before there is one")
    slots = []
    for number, layer in enumerate(layers):
        n = int(counts[number])
        bitmap = validity[number, : (n + 7) // 8] if layer.null else None
        slots.append(Slots(n, bitmap, offsets[number, : n + 1] if layer.is_list else None))
    return tuple(slots)


@kernel
def _open_slots(
    repetition: np.ndarray,
    definition: np.ndarray,
    is_list: np.ndarray,
    opened_by: np.ndarray,
    ends: np.ndarray,
    nulls: np.ndarray,
    validity: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
) -> None:
    layers = len(is_list)
    for e in range(len(repetition)):
        level = definition[e] if len(definition) else 0
        end, null = ends[level], nulls[level]
        # From the outside in, so that a list begins before its first item is counted.
        for k in range(layers - 1, end - 1, -1):
            if repetition[e] < opened_by[k]:
                continue
            slot = counts[k]
            if k > null:
                validity[k, slot >> 3] |= np.uint8(1 << (slot & 7))
            if is_list[k]:
                offsets[k, slot] = counts[k - 1]
            counts[k] = slot + 1
    for k in range(layers):
        if is_list[k]:
            offsets[k, counts[k]] = counts[k - 1]
