"""Rle: the value and the length of every run. Spec: "Run length encoding"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding


@dataclass(frozen=True)
class Rle(Encoding):
    """Run values and run lengths, each encoded in its own way."""

    values: Encoding
    run_lengths: Encoding
