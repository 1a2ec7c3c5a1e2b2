"""Page layouts: the message of a page's encoding -> frozen nodes that describe its buffers.

Implements "Structural Encoding" of the file encoding page for storage versions 2.1 and 2.2 (PageLayout), and the PlanarLayout of 2.3.
Layouts have no version: the writer respects what a version allows, and the reader accepts any tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23
from lance_spark.buffers.blocks import Encoding
from lance_spark.buffers.messages import parse_message
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.tree import decode_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.nodes.early_2_1 import upgraded


@dataclass(frozen=True)
class Layer:
    """One layer of lists or items. `null` and `empty` are the definition levels of a null slot and an empty list; 0 if there is none."""

    is_list: bool
    null: int
    empty: int


@dataclass(frozen=True)
class Dense:
    """Structure by repetition and definition levels; layers innermost first."""

    layers: tuple[Layer, ...]

    @cached_property
    def num_lists(self) -> int:
        """The number of list layers, which is also the repetition level that starts a row."""
        return sum(layer.is_list for layer in self.layers)

    @cached_property
    def most(self) -> int:
        """The highest definition level."""
        return max((max(layer.null, layer.empty) for layer in self.layers), default=0)


@dataclass(frozen=True)
class SparseValidity:
    """Some slots of a layer: the null ones, or the valid ones if `valid`. `positions` encodes u64 slot numbers."""

    valid: bool
    positions: Encoding
    num_positions: int


@dataclass(frozen=True)
class SparseList:
    """A list layer: which lists are not empty, and the number of items in each of those. `num_items` is the total number of items."""

    num_items: int
    non_empty: Encoding
    num_non_empty: int
    counts: Encoding
    validity: SparseValidity


@dataclass(frozen=True)
class SparseFixedSizeList:
    """A layer of fixed-size lists."""

    dimension: int
    validity: SparseValidity


SparseLayer = SparseValidity | SparseList | SparseFixedSizeList


@dataclass(frozen=True)
class Sparse:
    """Structure by the positions of exceptional slots (2.3); layers outermost first."""

    layers: tuple[SparseLayer, ...]


Structure = Dense | Sparse


@dataclass(frozen=True)
class MiniBlock:
    """Values in small chunks. Sizes in `large` chunks have 32 bits, else 16. `num_items` is None if the structure determines it."""

    structure: Structure
    value: Encoding
    repetition: Encoding | None
    definition: Encoding | None
    dictionary: Encoding | None
    num_dictionary_items: int
    num_buffers: int
    num_items: int | None
    repetition_index_depth: int
    large: bool

    @cached_property
    def of_few(self) -> MiniBlock | None:
        """What pages have in common of which `decode_few` takes a few values together: the layout, but for its number of items and FSST.

        Equal ones are the same object, as long as it is kept. None for pages with lists, a dictionary, or sparse structure.
        """
        if not isinstance(self.structure, Dense) or self.structure.num_lists or self.dictionary is not None or self.num_items is None:
            return None
        value = replace(self.value, symbol_table=b"") if isinstance(self.value, Fsst) else self.value
        return _interned(replace(self, num_items=None, value=value))


@lru_cache(maxsize=1024)
def _interned(layout: MiniBlock) -> MiniBlock:
    return layout


@dataclass(frozen=True)
class FullZip:
    """Values in sequence, each after its levels: all of `bits_per_value` bits, or each with a length of `bits_per_offset` bits.

    With sparse structure there are no levels, and only the `num_items` values of valid slots.
    """

    structure: Structure
    value: Encoding
    bits_rep: int
    bits_def: int
    bits_per_value: int | None
    bits_per_offset: int | None
    num_items: int


@dataclass(frozen=True)
class Indexed:
    """A dictionary of large values in a page of sparse structure: an index for each slot, and `items` stored as in full zip."""

    structure: Sparse
    indices: Encoding
    items: FullZip


@dataclass(frozen=True)
class Constant:
    """One value for all valid slots, or none. If `value` is None, it is in the page's first buffer, or all slots are null.

    The levels are blocks of `num_rep` and `num_def` values, or raw 16-bit words if they have no encoding.
    """

    structure: Structure
    value: bytes | None
    repetition: Encoding | None
    definition: Encoding | None
    num_rep: int
    num_def: int


@dataclass(frozen=True)
class Blob:
    """Values stored elsewhere in the file; `inner` is the page of their positions and sizes, which also encode the levels."""

    structure: Dense
    inner: Layout


Layout = MiniBlock | FullZip | Indexed | Constant | Blob


def has_values_in_nulls(structure: Structure) -> bool:
    """Whether structs are null but layers within them are not: readers differ on whether a null struct has values there.

    Writers declare such layers nullable. lance-spark 0.1.0 did not if Arrow's children were valid.
    """
    if isinstance(structure, Sparse):
        return False
    visible = False  # a layer, from the leaf to the next list, that has no nulls
    for layer in structure.layers:
        if visible and not layer.is_list and layer.null:
            return True
        visible = not layer.null if layer.is_list else visible or not layer.null
    return False


def parse_layout(encoding_type: str, encoding: bytes) -> Layout:
    """The layout of a page, from the type and the bytes of its encoding message. Small ones stay in memory, since pages are alike."""
    return (_known_layout if len(encoding) <= _SMALL else _parsed)(encoding_type, encoding)


def _parsed(encoding_type: str, encoding: bytes) -> Layout:
    if encoding_type not in _GRAMMARS:
        raise UnsupportedFeatureError(f"a page encoding of type {encoding_type!r} is not supported")
    return _GRAMMARS[encoding_type](encoding)


_SMALL = 4 << 10
"""Bytes of an encoding message: 1024 of them, which are kept, have at most 4 MiB."""
_known_layout = lru_cache(maxsize=1024)(_parsed)

_LEVELS: dict[int, tuple[bool, bool, bool]] = {
    pb.REPDEF_ALL_VALID_ITEM: (False, False, False),
    pb.REPDEF_ALL_VALID_LIST: (True, False, False),
    pb.REPDEF_NULLABLE_ITEM: (False, True, False),
    pb.REPDEF_NULLABLE_LIST: (True, True, False),
    pb.REPDEF_EMPTYABLE_LIST: (True, False, True),
    pb.REPDEF_NULL_AND_EMPTY_LIST: (True, True, True),
}
"""The kind of a layer: is it a list, can it be null, can it be empty."""


def dense(kinds: Sequence[int]) -> Dense:
    """The structure of layers of these kinds (RepDefLayer), innermost first."""
    layers, level = [], 0
    for kind in kinds:
        if kind not in _LEVELS:
            raise UnsupportedFeatureError(f"a repetition and definition layer of kind {kind} is not supported")
        is_list, nullable, emptyable = _LEVELS[kind]
        # Levels are assigned from the innermost layer outwards, null before empty.
        null, empty = (level + 1 if nullable else 0), (level + nullable + 1 if emptyable else 0)
        layers.append(Layer(is_list, null, empty))
        level += nullable + emptyable
    if not layers:
        raise CorruptFileError("a page has no layers of structure")
    return Dense(tuple(layers))


def _optional(message: Any, field: str) -> Encoding | None:
    return decode_message(getattr(message, field)) if message.HasField(field) else None


def _layout(message: pb.PageLayout) -> Layout:
    kind = message.WhichOneof("layout")
    if kind == "mini_block_layout":
        return _mini_block(message.mini_block_layout)
    if kind == "full_zip_layout":
        return _full_zip(message.full_zip_layout)
    if kind == "constant_layout":
        return _constant(message.constant_layout)
    if kind == "blob_layout":
        if message.blob_layout.inner_layout.WhichOneof("layout") == "blob_layout":
            raise CorruptFileError("a blob page contains a blob page")
        return Blob(dense(message.blob_layout.layers), _layout(message.blob_layout.inner_layout))
    raise UnsupportedFeatureError("unknown page layout")


def _mini_block(message: pb.MiniBlockLayout) -> MiniBlock:
    return MiniBlock(
        structure=dense(message.layers),
        value=decode_message(message.value_compression),
        repetition=_optional(message, "rep_compression"),
        definition=_optional(message, "def_compression"),
        dictionary=_optional(message, "dictionary"),
        num_dictionary_items=message.num_dictionary_items,
        num_buffers=message.num_buffers,
        num_items=message.num_items,
        repetition_index_depth=message.repetition_index_depth,
        large=message.has_large_chunk,
    )


def _full_zip(message: pb.FullZipLayout) -> FullZip:
    details = message.WhichOneof("details")
    return FullZip(
        structure=dense(message.layers),
        value=decode_message(message.value_compression),
        bits_rep=message.bits_rep,
        bits_def=message.bits_def,
        bits_per_value=message.bits_per_value if details == "bits_per_value" else None,
        bits_per_offset=message.bits_per_offset if details == "bits_per_offset" else None,
        num_items=message.num_items,
    )


def _constant(message: pb.ConstantLayout) -> Constant:
    return Constant(
        structure=dense(message.layers),
        value=message.inline_value if message.HasField("inline_value") else None,
        repetition=_optional(message, "rep_compression"),
        definition=_optional(message, "def_compression"),
        num_rep=message.num_rep_values,
        num_def=message.num_def_values,
    )


def _planar_layout(encoding: bytes) -> Layout:
    message = parse_message(pb23.PlanarLayout, encoding, "page layout")
    structure = _structure(message.structure)
    kind = message.values.WhichOneof("values")
    if kind == "chunked":
        return _chunked(message.values.chunked, structure)
    if kind == "zipped":
        return _zipped(message.values.zipped, structure)
    if kind == "indexed":
        if not isinstance(structure, Sparse):
            raise UnsupportedFeatureError("indexed values in a page of dense structure are not supported")
        return Indexed(structure, decode_message(message.values.indexed.indices), _zipped(message.values.indexed.items, structure))
    if kind == "constant":
        scalar = message.values.constant
        return Constant(structure, scalar.scalar if scalar.HasField("scalar") else None, None, None, 0, 0)
    if kind == "absent":
        return Constant(structure, None, None, None, 0, 0)
    raise UnsupportedFeatureError("unknown value plane")


def _chunked(message: pb23.Chunked, structure: Structure) -> MiniBlock:
    return MiniBlock(
        structure=structure,
        value=decode_message(message.value),
        repetition=_optional(message.levels, "repetition"),
        definition=_optional(message.levels, "definition"),
        dictionary=_optional(message, "dictionary"),
        num_dictionary_items=message.num_dictionary_items,
        num_buffers=message.num_buffers,
        num_items=None if isinstance(structure, Sparse) else message.num_items,
        repetition_index_depth=message.levels.repetition_index_depth,
        large=True,
    )


def _zipped(message: pb23.Zipped, structure: Structure) -> FullZip:
    width = message.WhichOneof("width")
    return FullZip(
        structure=structure,
        value=decode_message(message.value),
        bits_rep=message.levels.bits_repetition,
        bits_def=message.levels.bits_definition,
        bits_per_value=message.bits_per_value if width == "bits_per_value" else None,
        bits_per_offset=message.bits_per_offset if width == "bits_per_offset" else None,
        num_items=message.num_items,
    )


def _structure(message: pb23.StructuralPlane) -> Structure:
    kind = message.WhichOneof("structure")
    if kind == "dense":
        return dense(message.dense.layers)
    if kind == "sparse":
        if not message.sparse.layers:
            raise CorruptFileError("a page has no layers of structure")
        return Sparse(tuple(_sparse_layer(layer) for layer in message.sparse.layers))
    raise UnsupportedFeatureError("unknown structural plane")


def _sparse_layer(message: pb23.SparseLayer) -> SparseLayer:
    kind = message.WhichOneof("layer")
    if kind == "validity":
        return _sparse_validity(message.validity)
    if kind == "list":
        m = message.list
        positions, counts = decode_message(m.non_empty_positions), decode_message(m.counts)
        return SparseList(m.num_child_slots, positions, m.num_non_empty_positions, counts, _sparse_validity(m.validity))
    if kind == "fixed_size_list":
        lists = message.fixed_size_list
        if not 1 <= lists.dimension < 2**31:
            raise CorruptFileError(f"fixed-size lists have {lists.dimension} items, an invalid size")
        return SparseFixedSizeList(lists.dimension, _sparse_validity(lists.validity))
    raise UnsupportedFeatureError("unknown sparse layer")


def _sparse_validity(message: pb23.SparseValidity) -> SparseValidity:
    if message.meaning not in (1, 2):
        raise UnsupportedFeatureError(f"sparse positions with meaning {message.meaning} are not supported")
    return SparseValidity(message.meaning == 2, decode_message(message.positions), message.num_positions)


_GRAMMARS: dict[str, Callable[[bytes], Layout]] = {
    "lance.encodings.PageLayout": lambda encoding: _layout(upgraded(encoding)),
    "lance.encodings21.PageLayout": lambda encoding: _layout(parse_message(pb.PageLayout, encoding, "page layout")),
    "lance.encodings23.PlanarLayout": _planar_layout,
}
