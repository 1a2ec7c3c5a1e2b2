"""Constant: one value, in the message, for all. Spec: "Constant"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding


@dataclass(frozen=True)
class Constant(Encoding):
    """Every value is `value`, little endian; None stands only where there are no values."""

    value: bytes | None
