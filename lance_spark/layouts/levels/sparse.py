"""The sparse structure of storage version 2.3: layers stored as the positions of exceptional slots, instead of levels for each value.

The specification's draft differs from what is written; this follows the bytes of files. Layers are outermost first. Each covers a domain of
slots, the first that of the page's rows; a list layer's items are the domain of the next layer, and the last domain is that of the values.
A sequence (positions, counts) is one block in a buffer of its own, unless its encoding needs no bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from lance_spark.buffers.blocks import Encoding, FixedWidth
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.levels.read import Slots
from lance_spark.layouts.nodes.page_layouts import Sparse, SparseFixedSizeList, SparseList, SparseValidity
from lance_spark.reading.steps import Page, Steps

MAX_SLOTS = 2**28
"""Upper bound (exclusive) of the rows or items of a page."""

_NO_BYTES = np.empty(0, np.uint8)


def read_structure(structure: Sparse, page: Page, buffers: Sequence[ByteRange]) -> Steps[tuple[Slots, ...]]:
    """The slots of every layer, innermost first; `buffers` start with those of the structure."""
    if max([page.num_rows, *(layer.num_items for layer in structure.layers if isinstance(layer, SparseList))]) >= MAX_SLOTS:
        # No stored bytes limit them: structure may take none.
        raise UnsupportedFeatureError(f"a page of {page.num_rows} rows or items is not supported")
    needed = sum(e.num_buffers > 0 for e in _sequences(structure))
    if needed > len(buffers):
        raise CorruptFileError(f"expected {needed} buffers of structure, found {len(buffers)}")
    answers: Sequence[Bytes] = (yield buffers[:needed]) if needed else []
    payloads = iter(answers)
    dimensions = [layer.dimension for layer in structure.layers if isinstance(layer, SparseFixedSizeList)]
    slots, domain = [], page.num_rows // math.prod(dimensions)
    for layer in structure.layers:
        if isinstance(layer, SparseValidity):
            slots.append(Slots(domain, _validity(layer, domain, payloads)))
        elif isinstance(layer, SparseList):
            offsets = _offsets(layer, domain, payloads)
            slots.append(Slots(domain, _validity(layer.validity, domain, payloads), offsets))
            domain = layer.num_items
        else:
            slots.append(Slots(domain, _validity(layer.validity, domain, payloads)))
            domain *= layer.dimension
    return tuple(reversed(slots))


def _sequences(structure: Sparse) -> Iterator[Encoding]:
    """All encoded sequences in the order of their buffers."""
    for layer in structure.layers:
        if isinstance(layer, SparseList):
            yield layer.non_empty
            yield layer.counts
            yield layer.validity.positions
        else:
            yield (layer.validity if isinstance(layer, SparseFixedSizeList) else layer).positions


def _sequence(encoding: Encoding, length: int, payloads: Iterator[Bytes]) -> np.ndarray:
    data = next(payloads) if encoding.num_buffers else _NO_BYTES
    if not length:
        return np.empty(0, np.int64)
    block = encoding.decode_block(data, length)
    if not isinstance(block, FixedWidth) or block.bits != 64 or block.count != length:
        raise CorruptFileError(f"expected {length} numbers of 64 bits in a sequence of structure, found another number or width")
    return block.view(np.int64)


def _positions(encoding: Encoding, length: int, domain: int, payloads: Iterator[Bytes]) -> np.ndarray:
    """Slot numbers, checked to be increasing and within the domain."""
    if length > domain:
        raise CorruptFileError(f"a layer has {length} positions for {domain} slots")
    positions = _sequence(encoding, length, payloads)
    if not length:
        return positions
    increase = (positions[1:] > positions[:-1]).all()
    if not increase or positions[0] < 0 or positions[-1] >= domain:
        raise CorruptFileError(f"a layer has positions that do not increase, or are outside its {domain} slots")
    return positions


def _validity(layer: SparseValidity, domain: int, payloads: Iterator[Bytes]) -> np.ndarray | None:
    positions = _positions(layer.positions, layer.num_positions, domain, payloads)
    if not layer.valid and not len(positions):
        return None
    bits = np.full(domain, not layer.valid)
    bits[positions] = layer.valid
    return np.packbits(bits, bitorder="little")


def _offsets(layer: SparseList, domain: int, payloads: Iterator[Bytes]) -> np.ndarray:
    positions = _positions(layer.non_empty, layer.num_non_empty, domain, payloads)
    counts = _sequence(layer.counts, layer.num_non_empty, payloads)
    # Each is compared before they are added, so that no sum overflows.
    are_possible = not len(counts) or (counts.min() >= 1 and counts.max() <= layer.num_items)
    if not are_possible or int(counts.sum()) != layer.num_items:
        raise CorruptFileError(f"expected list lengths that add up to {layer.num_items} items, found another sum")
    lengths = np.zeros(domain + 1, np.int64)
    lengths[positions + 1] = counts
    return np.cumsum(lengths)


def valid_slots(slots: Slots) -> np.ndarray:
    """Which slots of a layer are valid, as bools."""
    if slots.validity is None:
        return np.ones(slots.count, np.bool_)
    return np.unpackbits(slots.validity, count=slots.count, bitorder="little").view(np.bool_)


def restrict(slots: Sequence[Slots], rows: np.ndarray) -> tuple[Slots, ...]:
    """The slots of the rows with these numbers, for a structure without lists."""
    kept = []
    for layer in slots:
        validity = None if layer.validity is None else np.packbits(valid_slots(layer)[rows], bitorder="little")
        kept.append(Slots(len(rows), validity))
    return tuple(kept)
