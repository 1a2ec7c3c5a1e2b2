"""PackedStruct: the fixed-width children of a struct row by row. Spec: "Packed struct"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding


@dataclass(frozen=True)
class PackedStructEncoding(Encoding):
    """`bits_per_value` are the children's widths; `values` holds the rows as one wide fixed-width value each."""

    bits_per_value: tuple[int, ...]
    values: Encoding
