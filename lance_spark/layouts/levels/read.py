"""Repetition and definition levels -> the validity bitmap and list offsets of each layer.

Implements "Repetition and Definition Levels" of the file encoding page. Layers are numbered from the leaf outwards. An event is one pair of
levels. It opens a slot in each layer from the leaf up to the layer of its repetition level, except in the layers below a null or empty list
of its definition level, which have no slot, not even a leaf value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lance_spark.buffers.blocks import Chunks, Encoding, FixedWidth
from lance_spark.buffers.memory import empty
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U
from lance_spark.layouts.nodes.page_layouts import Dense

_MAX_TABLE = 1 << 22
"""Maximum size in bytes of a table by layer and code, above that of any real schema."""


@dataclass(frozen=True)
class Slots:
    """The slots of one layer.

    `validity` is a bitmap, least significant bit first; None if no slot of the layer itself is null (slots below a null may then count as
    valid). `offsets` are the int32 or int64 offsets of a list layer.
    """

    count: int
    validity: np.ndarray | None
    offsets: np.ndarray | None = None


def decode_levels(encoding: Encoding, blocks: Chunks) -> np.ndarray:
    """The 16-bit levels of these blocks, concatenated."""
    block = encoding.decode_blocks(blocks)
    count = int(blocks.counts.sum())
    if not isinstance(block, FixedWidth) or block.bits != 16 or block.count != count:
        raise CorruptFileError(f"expected {count} levels of 16 bits, found another number or width")
    return block.view(np.uint16)


def unravel(structure: Dense, repetition: np.ndarray | None, definition: np.ndarray | None, count: int) -> tuple[Slots, ...]:
    """The slots of every layer, innermost first, from the levels of `count` events; None if all levels are 0.

    With lists, the first event must start a row.
    """
    if definition is not None and len(definition) and definition.max() > structure.most:
        raise CorruptFileError(f"definition level {definition.max()} exceeds the maximum of the layers, {structure.most}")
    if not structure.num_lists:
        return tuple(Slots(count, _valid_below(definition, layer.null)) for layer in structure.layers)
    if repetition is None:
        raise CorruptFileError("a page of lists has no repetition levels")
    if count and (repetition[0] != structure.num_lists or repetition.max() > structure.num_lists):
        raise CorruptFileError(
            f"expected {structure.num_lists} as the first and highest repetition level, found {repetition[0]} and {repetition.max()}"
        )
    return _unravel_lists(structure, repetition, definition)


def _valid_below(definition: np.ndarray | None, null: int) -> np.ndarray | None:
    """Which slots of a layer are valid if there are no lists: those below the level at which it, or a layer outside of it, is null."""
    if definition is None or not null:
        return None
    return np.packbits(definition < null, bitorder="little")


@dataclass(frozen=True)
class _Tables:
    """Combines both levels of an event in one code, repetition * `step` + definition. By layer and code: whether the event opens a slot
    there (0 or 1), and whether the slot is valid (0 or 1).
    """

    step: int
    opens: tuple[np.ndarray, ...]
    valid: tuple[np.ndarray, ...]


@lru_cache(maxsize=64)
def _tables(structure: Dense) -> _Tables:
    """Cached, since most pages of a column have the same structure."""
    layers = structure.layers
    top = structure.most
    if (structure.num_lists + 1) * (top + 1) * len(layers) > _MAX_TABLE:
        raise UnsupportedFeatureError(f"{len(layers)} layers in a page are not supported")
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
    levels = np.arange(structure.num_lists + 1)[:, None]
    opens, valid = [], []
    for k in range(len(layers)):
        is_opened = (levels >= opened_by[k]) & (ends <= k)
        opens.append(is_opened.astype(np.uint8).reshape(-1))
        valid.append(np.tile(nulls < k, len(levels)).astype(np.uint8))
    return _Tables(top + 1, tuple(opens), tuple(valid))


def _unravel_lists(structure: Dense, repetition: np.ndarray, definition: np.ndarray | None) -> tuple[Slots, ...]:
    if len(repetition) >= 2**31:  # pragma: no cover: takes 4 GiB of levels
        raise CorruptFileError(f"expected at most 2**31 - 1 levels in a page, found {len(repetition)}")
    tables = _tables(structure)
    opens = tables.opens
    codes = repetition * np.uint16(tables.step)
    codes = codes if definition is None else codes + definition
    slots: list[Slots] = []
    # Outermost first: a list layer determines the number of slots in the layer below.
    inside: int | None = None
    for number, layer in reversed(list(enumerate(structure.layers))):
        offsets = validity = None
        if layer.is_list:
            offsets = empty(len(codes) + 1, np.int32)
            inner = opens[number - 1] if number else np.zeros_like(opens[0])
            count = int(_list_offsets(codes, opens[number], inner, offsets))
            offsets = offsets[: count + 1]
            if offsets[0] != 0:
                raise CorruptFileError("repetition levels continue a list before the first list starts")
            inside = int(offsets[-1])
        else:
            # Without a list between, the number of slots of the outer layer.
            count = int(_count(codes, opens[number])) if inside is None else inside
        if layer.null:
            valid = empty(len(codes))
            _validity(codes, opens[number], tables.valid[number], valid)
            validity = np.packbits(valid[:count], bitorder="little")
        slots.append(Slots(count, validity, offsets))
    return tuple(reversed(slots))


# No branch depends on the unpredictable levels: each event writes to the next slot, and only an event that opens a slot advances.


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
    """Whether each slot is valid, one byte each."""
    slot = U(0)
    for e in range(U(len(codes))):
        code = U(codes[e])
        out[slot] = valid[code]
        slot += U(opens[code])
