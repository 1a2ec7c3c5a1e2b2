"""PackedStruct: the fixed-width children of a struct, stored row by row. Spec: "Packed Struct Encoding"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import Block, Chunks, EncodedChunks, Encoding, FixedWidth, PackedStruct
from lance_spark.encodings import flat
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError


@dataclass(frozen=True)
class PackedStructEncoding(Encoding):
    """`bits_per_value` are the children's widths; `values` holds each row as one wide fixed-width value."""

    bits_per_value: tuple[int, ...]
    values: Encoding

    def __post_init__(self) -> None:
        if not self.bits_per_value or any(bits < 1 for bits in self.bits_per_value):
            raise CorruptFileError("a packed struct has no children, or a child of 0 bits")
        if any(bits % 8 for bits in self.bits_per_value):
            raise UnsupportedFeatureError("packed structs with a child that is not whole bytes are not supported")

    @property
    def num_buffers(self) -> int:
        """The buffers of the rows."""
        return self.values.num_buffers

    def decode_chunks(self, chunks: Chunks) -> PackedStruct:
        """The children of the rows of all chunks."""
        return self._unpack(self.values.decode_chunks(chunks))

    def decode_blocks(self, chunks: Chunks) -> PackedStruct:
        """The children of the rows of all blocks."""
        return self._unpack(self.values.decode_blocks(chunks))

    def decode_values(self, values: Block) -> PackedStruct:
        """The children of rows stored one by one."""
        return self._unpack(self.values.decode_values(values))

    def _unpack(self, block: Block) -> PackedStruct:
        if not isinstance(block, FixedWidth) or block.bits != sum(self.bits_per_value):
            raise CorruptFileError(
                f"expected packed structs of {sum(self.bits_per_value)} bits, the sum of their children, found another width"
            )
        rows = block.data.view(_row_type(self.bits_per_value))
        columns = [np.ascontiguousarray(rows[name]).view(np.uint8) for name in rows.dtype.names or ()]
        return PackedStruct(tuple(FixedWidth(bits, data, block.count) for bits, data in zip(self.bits_per_value, columns, strict=True)))


def is_fixed(block: PackedStruct) -> bool:
    """True if all children have whole bytes, as the encoding requires."""
    return all(isinstance(child, FixedWidth) and child.bits % 8 == 0 for child in block.children)


def encode_chunks(block: PackedStruct, counts: np.ndarray) -> EncodedChunks:
    """`counts` rows in each chunk."""
    bits, rows = _pack(block)
    encoded = flat.encode_chunks(rows, counts)
    return EncodedChunks(PackedStructEncoding(bits, encoded.encoding), counts, encoded.buffers)


def encode_values(block: PackedStruct) -> tuple[PackedStructEncoding, FixedWidth]:
    """Each row as one value."""
    bits, rows = _pack(block)
    return PackedStructEncoding(bits, flat.Flat(rows.bits)), rows


def _pack(block: PackedStruct) -> tuple[tuple[int, ...], FixedWidth]:
    """The widths of the children, and the rows."""
    children = [child for child in block.children if isinstance(child, FixedWidth) and child.bits % 8 == 0]
    if len(children) != len(block.children):
        raise UnsupportedFeatureError("packed structs with a child that is not whole bytes are not supported")
    bits = tuple(child.bits for child in children)
    rows = np.empty(block.count, _row_type(bits))
    for name, child in zip(rows.dtype.names or (), children, strict=True):
        rows[name] = child.data.view(rows.dtype[name])
    return bits, FixedWidth(sum(bits), rows.view(np.uint8), block.count)


def _row_type(bits: tuple[int, ...]) -> np.dtype:
    """A row as a numpy struct of opaque values, whose columns numpy copies much faster than bytes of a matrix."""
    return np.dtype([(f"child {i}", f"V{width // 8}") for i, width in enumerate(bits)])
