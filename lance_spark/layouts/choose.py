"""How to store the values of a page: one pass of statistics, then a table of decisions."""

from __future__ import annotations

import numpy as np

from lance_spark.encodings import flat, variable
from lance_spark.encodings.blocks import EncodedChunks, FixedWidth, VariableWidth, split_evenly
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts import write_full_zip, write_mini_block
from lance_spark.layouts.encoded_page import EncodedPage
from lance_spark.layouts.shred import Shredded
from lance_spark.schema import Field

WIDE = 256


def encode_values(field: Field, page: Shredded, version: tuple[int, int]) -> EncodedPage:
    values = page.values
    if isinstance(values, FixedWidth):
        if values.bits >= 8 * WIDE:
            return write_full_zip.encode(page, *flat.encode_values(values))
        per = 4096
        while per > 1 and per * values.bits // 8 > 8186:
            per //= 2
        return write_mini_block.encode(page, flat.encode_chunks(values, split_evenly(values.count, per)), None, version)
    if isinstance(values, VariableWidth):
        if np.diff(values.offsets).max() >= WIDE:
            return write_full_zip.encode(page, *variable.encode_values(values))
        return write_mini_block.encode(page, variable.encode_chunks(values), None, version)
    raise UnsupportedFeatureError("x")
