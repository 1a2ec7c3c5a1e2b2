"""VariablePackedStruct: structs with string children, stored row by row (2.2). Spec: "Packed struct".

Full zip only. A row is a value of variable width: its children in order, each compressed separately; a child of fixed width is its bytes, a
child of variable width its length (u32 or u64) and its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Block, Encoding, FixedWidth, PackedStruct, VariableWidth
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U32, U, copy, copy_ranges, load32, load64, store32, store64


@dataclass(frozen=True)
class PackedField:
    """A child of the struct: its encoding, and the bits of a fixed-width value, or of the length of a variable-width value."""

    values: Encoding
    bits: int
    variable: bool

    def __post_init__(self) -> None:
        if self.variable and self.bits not in (32, 64):
            raise CorruptFileError(f"a packed struct has lengths of {self.bits} bits, expected 32 or 64")
        if self.bits % 8 or not 0 < self.bits < 2**31:
            raise UnsupportedFeatureError(f"values of {self.bits} bits are not supported in a packed struct with strings")


@dataclass(frozen=True)
class VariablePackedStruct(Encoding):
    """Structs with the children `fields`."""

    fields: tuple[PackedField, ...]

    def __post_init__(self) -> None:
        if not self.fields:
            raise CorruptFileError("a packed struct has no children")

    def decode_values(self, values: Block) -> PackedStruct:
        """The structs stored as the rows `values`."""
        if not isinstance(values, VariableWidth):
            raise CorruptFileError("expected rows of variable width in a packed struct with strings, found a fixed width")
        widths = np.array([f.bits // 8 for f in self.fields], np.int64)
        variable = np.array([f.variable for f in self.fields])
        if values.count * int(widths.sum()) > len(values.data):
            raise CorruptFileError(
                f"{values.count} rows of a packed struct of {len(self.fields)} children do not fit {len(values.data)} bytes"
            )
        starts, sizes = np.empty((2, len(self.fields), values.count), np.int64)
        bad = _find_children(values.data, values.offsets, widths, variable, starts, sizes)
        if bad >= 0:
            raise CorruptFileError(f"row {bad} of a packed struct does not have the size of its children")
        columns = zip(self.fields, starts, sizes)
        return PackedStruct(tuple(f.values.decode_values(_column(values.data, f, *at)) for f, *at in columns))


def _column(data: np.ndarray, field: PackedField, starts: np.ndarray, sizes: np.ndarray) -> Block:
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy_ranges(data, starts, sizes, out)
    if not field.variable:
        return FixedWidth(field.bits, out, len(starts))
    return VariableWidth(offsets.astype(np.int32) if field.bits == 32 and offsets[-1] < 2**31 else offsets, out)


@kernel
def _find_children(
    data: np.ndarray, offsets: np.ndarray, widths: np.ndarray, variable: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> int:
    """Find the start of child c of row r and its size without the length; returns the first row of a wrong size, or -1."""
    for row in range(len(offsets) - 1):
        at = U(offsets[row])
        end = U(offsets[row + 1])
        for child in range(len(widths)):
            size = U(widths[child])
            if size > end - at:
                return row
            if variable[child]:
                length = U(load32(data, at)) if size == U(4) else load64(data, at)
                at += size
                if length > end - at:
                    return row
                size = length
            starts[child, row] = at
            sizes[child, row] = size
            at += size
        if at != end:
            return row
    return -1


def encode_values(children: Sequence[tuple[Encoding, FixedWidth | VariableWidth]]) -> tuple[VariablePackedStruct, VariableWidth]:
    """The rows of structs whose `children`, at least one, are already encoded value by value."""
    fields = []
    sizes = np.zeros(children[0][1].count, np.int64)
    for encoding, block in children:
        variable = isinstance(block, VariableWidth)
        bits = 8 * block.offsets.itemsize if isinstance(block, VariableWidth) else block.bits
        fields.append(PackedField(encoding, bits, variable))
        sizes += bits // 8
        if isinstance(block, VariableWidth):
            sizes += np.diff(block.offsets)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    places = offsets[:-1].copy()
    for _, block in children:
        if isinstance(block, VariableWidth):
            _place_strings(block.data, block.offsets, places, out)
        else:
            _place_fixed(block.data, block.bits // 8, places, out)
    narrow = offsets.astype(np.int32) if offsets[-1] < 2**31 else offsets
    return VariablePackedStruct(tuple(fields)), VariableWidth(narrow, out)


@kernel
def _place_strings(data: np.ndarray, offsets: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """Write the length and the bytes of string i to `out` at `places[i]`, and advance `places[i]`."""
    for i in range(len(places)):
        at = U(places[i])
        start = U(offsets[i])
        size = U(offsets[i + 1]) - start
        if offsets.itemsize == 4:
            store32(out, at, U32(size))
            at += U(4)
        else:
            store64(out, at, size)
            at += U(8)
        copy(data, start, out, at, size)
        places[i] = at + size


@kernel
def _place_fixed(data: np.ndarray, size: int, places: np.ndarray, out: np.ndarray) -> None:
    """Write value i of `size` bytes to `out` at `places[i]`, and advance `places[i]`."""
    for i in range(len(places)):
        copy(data, U(i) * U(size), out, U(places[i]), U(size))
        places[i] += size
