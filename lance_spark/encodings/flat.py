"""Flat: fixed-width values back to back, little endian; 1-bit values as a bitmap, least significant bit first. Spec: "Flat"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding
from lance_spark.errors import CorruptFileError


@dataclass(frozen=True)
class Flat(Encoding):
    """Values of `bits_per_value` bits: 1 or a multiple of 8, but for values that OutOfLineBitpacking has packed."""

    bits_per_value: int

    def __post_init__(self) -> None:
        if self.bits_per_value < 1:
            raise CorruptFileError(f"values of {self.bits_per_value} bits")
