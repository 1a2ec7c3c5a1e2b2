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
from lance_spark.encodings.words import U
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.tree import Dense
from lance_spark.memory import empty


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
    # One code for both levels of an event, and by code and layer whether the event opens a slot there.
    codes = repetition * np.uint16(top + 1)
    codes = codes if definition is None else codes + definition
    levels = np.arange(structure.num_lists + 1)[:, None]
    opens = [((levels >= opened_by[k]) & (ends <= k)).astype(np.uint8).reshape(-1) for k in range(len(layers))]
    slots = []
    for number, layer in enumerate(layers):
        offsets = validity = None
        if layer.is_list:
            offsets = empty(len(codes) + 1, np.int32)
            count = int(_list_offsets(codes, opens[number], opens[number - 1] if number else np.zeros_like(opens[0]), offsets))
            offsets = offsets[: count + 1]
            if offsets[0] != 0:
                raise CorruptFileError("repetition levels continue a list before there is one")
        else:
            count = int(_count(codes, opens[number]))
        if layer.null:
            valid = empty(len(codes))
            _validity(codes, opens[number], np.tile(nulls < number, len(levels)).astype(np.uint8), valid)
            validity = np.packbits(valid[:count], bitorder="little")
        slots.append(Slots(count, validity, offsets))
    return tuple(slots)


# No branch depends on the levels, which nobody can predict: each event writes where the next slot is, and only one that opens it moves on.


@kernel
def _list_offsets(codes: np.ndarray, opens: np.ndarray, opens_item: np.ndarray, offsets: np.ndarray) -> np.int64:
    """Fill the offsets of a list layer; returns the number of lists. Items are the slots of the layer below."""
    slot = item = U(0)
    for e in range(U(len(codes))):
        code = U(codes[e])
        offsets[slot] = item
        slot += U(opens[code])
        item += U(opens_item[code])
    offsets[slot] = item
    return np.int64(slot)


@kernel
def _count(codes: np.ndarray, opens: np.ndarray) -> np.int64:
    count = U(0)
    for e in range(U(len(codes))):
        count += U(opens[U(codes[e])])
    return np.int64(count)


@kernel
def _validity(codes: np.ndarray, opens: np.ndarray, valid: np.ndarray, out: np.ndarray) -> None:
    """Whether each slot is valid, a byte each."""
    slot = U(0)
    for e in range(U(len(codes))):
        code = U(codes[e])
        out[slot] = valid[code]
        slot += U(opens[code])
