"""One page of one leaf column, from an Arrow array to buffers: shred it, choose how to store it, store it."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.layouts import write_constant
from lance_spark.layouts.choose import encode_values
from lance_spark.layouts.encoded_page import EncodedPage
from lance_spark.layouts.shred import shred
from lance_spark.schema import Field


def encode_page(field: Field, array: pa.Array, version: tuple[int, int]) -> list[EncodedPage]:
    """The pages that hold `array`, one of the arrays of `split` for the leaf `field`."""
    page = shred(field, array)
    if page.values is None:
        return [write_constant.encode_nulls(page, version)]
    return [encode_values(field, page, version)]
