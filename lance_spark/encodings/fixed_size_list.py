"""FixedSizeList: the items of all lists as one sequence, and which of them are valid. Spec: "Fixed size list"."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.encodings.blocks import Encoding


@dataclass(frozen=True)
class FixedSizeListEncoding(Encoding):
    """Lists of `items_per_value` items; `has_validity` says whether a bitmap over the items is stored."""

    items_per_value: int
    has_validity: bool
    values: Encoding
