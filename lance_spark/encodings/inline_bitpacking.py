"""InlineBitpacking: 1024 values a block, packed to the width that the block's first word says. Spec: "Inline bitpacking"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding


@dataclass(frozen=True)
class InlineBitpacking(Encoding):
    """Values of `uncompressed_bits_per_value` (8, 16, 32 or 64) bits."""

    uncompressed_bits_per_value: int
