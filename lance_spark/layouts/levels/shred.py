"""Arrow arrays -> repetition and definition levels, and the block of visible values.

Implements the writing side of "Repetition and Definition Levels" of the file encoding page. Layers are numbered from the leaf
outwards, definition level 0 is valid, and repetition level 0 continues the innermost list.

`split` makes one array for each leaf, in which each struct has one child. `shred` walks such an array from the outermost layer inwards,
with one tag for each event: 0 while all is valid, else the layer that ended it and how. Null structs keep their slot in the child, as the
format requires; a list below a null has no slot, so the event is dead below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark._proto.encodings_v2_1_pb2 import RepDefLayer
from lance_spark.arrow.types import is_list
from lance_spark.buffers.blocks import Block
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U
from lance_spark.layouts.values.to_blocks import bytes_of, to_blocks, without_null_items
from lance_spark.schema.logical_types import logical_type
from lance_spark.schema.schema import Field

_DEAD = 0x80
_MAX_LAYERS = 60


@dataclass(frozen=True)
class Shredded:
    """One page of one leaf column.

    `repetition` and `definition` have one uint16 for each event, or are None if every level is 0. `layers` are innermost
    first. An event is visible, that is, it owns one of the values, when its definition level is at most `max_visible`. `values` is
    None when no visible value is valid; `dictionary` holds the items when `values` are the indices of a dictionary array.
    """

    num_rows: int
    num_events: int
    num_visible: int
    layers: tuple[int, ...]
    repetition: np.ndarray | None
    definition: np.ndarray | None
    max_visible: int
    values: Block | None
    dictionary: Block | None

    @property
    def bits_rep(self) -> int:
        """Bits that hold every repetition level."""
        lists = sum(layer in _LISTS for layer in self.layers)
        return lists.bit_length() if self.repetition is not None else 0

    @property
    def bits_def(self) -> int:
        """Bits that hold every definition level."""
        return sum(num_levels(layer) for layer in self.layers).bit_length()


_LISTS = {
    RepDefLayer.REPDEF_ALL_VALID_LIST,
    RepDefLayer.REPDEF_NULLABLE_LIST,
    RepDefLayer.REPDEF_EMPTYABLE_LIST,
    RepDefLayer.REPDEF_NULL_AND_EMPTY_LIST,
}


def num_levels(layer: int) -> int:
    """The number of definition levels of a layer."""
    if layer in (RepDefLayer.REPDEF_ALL_VALID_ITEM, RepDefLayer.REPDEF_ALL_VALID_LIST):
        return 0
    return 2 if layer == RepDefLayer.REPDEF_NULL_AND_EMPTY_LIST else 1


def split(field: Field, array: pa.Array) -> Iterator[pa.Array]:
    """The array of each leaf column of `field`, in the order of `Field.leaves`; maps become lists of structs."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if field.is_leaf:
        if array.type != field.type and logical_type(array.type, field.name) != field.logical_type:
            raise SchemaMismatchError(f"column {field.name!r}: expected type {field.logical_type}, found {array.type}")
        yield without_null_items(array)
    elif field.logical_type == "struct":
        mask = array.is_null() if array.null_count else None
        for i, child in enumerate(field.children):
            for part in split(child, array.field(i)):
                yield pa.StructArray.from_arrays([part], fields=[pa.field(child.name, part.type)], mask=mask)
    elif field.logical_type.startswith("fixed_size_list"):
        raise UnsupportedFeatureError(f"column {field.name!r}: writing fixed-size lists of structs is not supported")
    else:
        make = pa.large_list if pa.types.is_large_list(array.type) else pa.list_
        buffers, nulls = array.buffers()[:2], array.null_count
        for part in split(field.children[0], array.values):
            yield pa.Array.from_buffers(make(part.type), len(array), buffers, nulls, array.offset, [part])


def shred(field: Field, array: pa.Array) -> Shredded:
    """Shred one page; `array` is one of the arrays of `split`, and `field` its leaf."""
    events = _Events(len(array), _count_lists(field, array))
    leaf = array
    while not _is_leaf(field, leaf):
        if pa.types.is_struct(leaf.type):
            events.add_struct(leaf)
            leaf = leaf.field(0)
        else:
            leaf = events.add_list(leaf)
    events.add_item(leaf)
    return events.finish(len(array), leaf)


def _is_leaf(leaf: Field, array: pa.Array) -> bool:
    t = array.type
    return not (is_list(t) or (pa.types.is_struct(t) and not _is_packed(leaf, t)))


def _is_packed(leaf: Field, t: pa.DataType) -> bool:
    # Only the leaf can be packed; each of its parents has one child, which leads to it.
    return leaf.is_packed and [f.name for f in t] == [c.name for c in leaf.children]


def _count_lists(field: Field, array: pa.Array) -> int:
    t, count = array.type, 0
    while is_list(t) or (pa.types.is_struct(t) and not _is_packed(field, t)):
        count += not pa.types.is_struct(t)
        t = t.field(0).type
    return count


class _Events:
    """The events of a page while its layers are walked inwards."""

    def __init__(self, num_rows: int, num_lists: int) -> None:
        self._layers = 0
        self._is_list: list[bool] = []
        self._lists_left = num_lists
        self._tags: np.ndarray | None = None
        self._count = num_rows
        self._repetition = np.full(num_rows, num_lists, dtype=np.uint16) if num_lists else None

    def add_struct(self, array: pa.Array) -> None:
        self._mark_nulls(array)
        self._next_layer(is_list=False)

    add_item = add_struct

    def add_list(self, array: pa.Array) -> pa.Array:
        """Replace lists by their items; returns the child array with only the live slots."""
        assert self._repetition is not None
        self._mark_nulls(array)
        self._lists_left -= 1
        offsets = list_offsets(array)
        tags = np.zeros(self._count, dtype=np.uint8) if self._tags is None else self._tags
        empty = 2 * self._layers + 2
        counts = _measure(tags, offsets)
        self._tags, self._repetition = _expand(tags, self._repetition, offsets, empty, self._lists_left, int(counts[0]))
        self._count = len(self._tags)
        self._next_layer(is_list=True)
        if counts[2]:  # live lists are contiguous
            return array.values.slice(int(counts[3]), int(counts[1]))
        # Arrow's take reads wrong items of nested fixed-size lists that do not start at 0; a concatenation starts at 0.
        return pa.concat_arrays([array.values]).take(pa.array(_slots(tags, offsets, int(counts[1]))))

    def finish(self, num_rows: int, leaf: pa.Array) -> Shredded:
        used = _used(self._tags) if self._tags is not None else np.zeros(256, dtype=np.bool_)
        levels = np.zeros(256, dtype=np.uint16)
        layers, level, max_visible = [], 0, -1
        for i in reversed(range(self._layers)):
            null, empty = self._has_nulls(used, i), bool(used[2 * i + 2])
            if self._is_list[i] and max_visible < 0:
                max_visible = level
            for tag, present in ((2 * i + 1, null), (2 * i + 2, empty)):
                if present:
                    level += 1
                    levels[tag] = levels[tag | _DEAD] = level
            layers.append(_layer(self._is_list[i], null, empty))
        definition = _look_up(levels, self._tags) if level and self._tags is not None else None
        if not len(leaf) or (self._tags is not None and not used[0]):
            values, dictionary = None, None
        else:
            values, dictionary = to_blocks(leaf)
        max_visible = level if max_visible < 0 else max_visible
        return Shredded(num_rows, self._count, len(leaf), tuple(layers), self._repetition, definition, max_visible, values, dictionary)

    def _has_nulls(self, used: np.ndarray, layer: int) -> bool:
        """Whether slots of a layer are null. In a null struct all are, whatever Arrow says: else pylance shows values there."""
        if used[2 * layer + 1]:
            return True
        for outer in range(layer - 1, -1, -1):
            if self._is_list[outer]:
                break
            if used[2 * outer + 1]:
                return True
        return False

    def _next_layer(self, *, is_list: bool) -> None:
        self._is_list.append(is_list)
        self._layers += 1
        if self._layers > _MAX_LAYERS:
            raise UnsupportedFeatureError(f"columns nested more than {_MAX_LAYERS} levels deep are not supported")

    def _mark_nulls(self, array: pa.Array) -> None:
        if not array.null_count:
            return
        if self._tags is None:
            self._tags = np.zeros(self._count, dtype=np.uint8)
        tag = 2 * self._layers + 1
        if pa.types.is_null(array.type):
            _mark(self._tags, np.zeros((len(array) + 7) // 8, dtype=np.uint8), 0, tag)
        else:
            _mark(self._tags, bytes_of(array.buffers()[0]), array.offset, tag)


def _layer(is_list: bool, null: bool, empty: bool) -> int:
    if not is_list:
        return RepDefLayer.REPDEF_NULLABLE_ITEM if null else RepDefLayer.REPDEF_ALL_VALID_ITEM
    if null and empty:
        return RepDefLayer.REPDEF_NULL_AND_EMPTY_LIST
    if null:
        return RepDefLayer.REPDEF_NULLABLE_LIST
    return RepDefLayer.REPDEF_EMPTYABLE_LIST if empty else RepDefLayer.REPDEF_ALL_VALID_LIST


def list_offsets(array: pa.Array) -> np.ndarray:
    """The len(array) + 1 offsets of a list array; they may start above 0."""
    dtype = np.int64 if pa.types.is_large_list(array.type) else np.int32
    if not len(array):
        return np.zeros(1, dtype=dtype)
    return np.frombuffer(array.buffers()[1], dtype=dtype)[array.offset : array.offset + len(array) + 1]


@kernel
def _mark(tags: np.ndarray, validity: np.ndarray, offset: int, tag: int) -> None:
    """Tag the events that are valid so far and have a null slot; slot i is bit `offset + i`."""
    at = U(offset)
    for e in range(U(len(tags))):
        if tags[e] & 0x80:
            continue
        if tags[e] == 0 and not (validity[at >> U(3)] >> (at & U(7))) & 1:
            tags[e] = tag
        at += U(1)


@kernel
def _measure(tags: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Measure the next list layer: events after it, items, whether the items are contiguous, the first item."""
    out = np.zeros(4, dtype=np.int64)
    contiguous, begun, end = True, False, np.int64(0)
    slot = 0
    for e in range(len(tags)):
        length = np.int64(0)
        if not tags[e] & 0x80:
            if tags[e] == 0:
                start = np.int64(offsets[slot])
                length = np.int64(offsets[slot + 1]) - start
                if length > 0:
                    if not begun:
                        out[3] = start
                        begun = True
                    elif start != end:
                        contiguous = False
                    end = start + length
            slot += 1
        out[0] += max(length, 1)
        out[1] += length
    out[2] = contiguous
    return out


@kernel
def _expand(
    tags: np.ndarray, repetition: np.ndarray, offsets: np.ndarray, empty: int, again: int, total: int
) -> tuple[np.ndarray, np.ndarray]:
    """The events of the items: the first item of a list has the list's repetition level, the others `again`."""
    out_tags = np.zeros(total, dtype=np.uint8)
    out_rep = np.empty(total, dtype=np.uint16)
    slot = at = U(0)
    for e in range(U(len(tags))):
        out_rep[at] = repetition[e]
        if tags[e] & 0x80:
            out_tags[at] = tags[e]
            at += U(1)
            continue
        length = offsets[slot + U(1)] - offsets[slot]
        slot += U(1)
        if tags[e] != 0:
            out_tags[at] = tags[e] | 0x80
        elif length == 0:
            out_tags[at] = empty | 0x80
        else:
            for _ in range(1, length):
                at += U(1)
                out_rep[at] = again
        at += U(1)
    return out_tags, out_rep


@kernel
def _slots(tags: np.ndarray, offsets: np.ndarray, total: int) -> np.ndarray:
    """The item slots of live lists."""
    out = np.empty(total, dtype=np.int64)
    slot = at = 0
    for e in range(len(tags)):
        if tags[e] & 0x80:
            continue
        if tags[e] == 0:
            for i in range(offsets[slot], offsets[slot + 1]):
                out[at] = i
                at += 1
        slot += 1
    return out


@kernel
def _look_up(levels: np.ndarray, tags: np.ndarray) -> np.ndarray:
    """The definition level of each event."""
    out = np.empty(len(tags), dtype=np.uint16)
    for e in range(U(len(tags))):
        out[e] = levels[tags[e]]
    return out


@kernel
def _used(tags: np.ndarray) -> np.ndarray:
    """Which tags occur, dead or alive."""
    seen = np.zeros(256, dtype=np.bool_)
    for e in range(U(len(tags))):
        seen[tags[e] & 0x7F] = True
    return seen
