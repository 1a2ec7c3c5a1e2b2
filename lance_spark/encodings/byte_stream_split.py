"""ByteStreamSplit: all first bytes of a chunk's values, then all second bytes, and so on. Spec: "Byte stream split"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding


@dataclass(frozen=True)
class ByteStreamSplit(Encoding):
    """`values` holds the byte planes as if they were values."""

    values: Encoding
