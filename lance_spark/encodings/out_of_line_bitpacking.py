"""OutOfLineBitpacking: blocks of 1024 values packed to one width, which the message says. Spec: "Out-of-line bitpacking"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding


@dataclass(frozen=True)
class OutOfLineBitpacking(Encoding):
    """Values of `uncompressed_bits_per_value` (8, 16, 32 or 64) bits; `values` is Flat of the packed width."""

    uncompressed_bits_per_value: int
    values: Encoding
