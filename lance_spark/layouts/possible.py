"""Which values a page can have at all, where its layout says so: those of its dictionary, or its only one. No row is decoded for it."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.columns import Column, Page, Steps, side_by_side
from lance_spark.layouts.arrow import fixed_width_value, to_array
from lance_spark.layouts.constant import scalar
from lance_spark.layouts.tree import Constant, Dense, Layout, MiniBlock, parse_layout
from lance_spark.schema import Field

MAX_ITEMS = 1 << 16


def possible_values(field: Field, column: Column) -> Steps[list[pa.Array | None]]:
    """For each page of the column of `field`, a leaf at the top level: an array with all values of its rows and null, None if not known."""
    return (yield from side_by_side([_of_page(page, field.type) for page in column.pages]))


def _of_page(page: Page, t: pa.DataType) -> Steps[pa.Array | None]:
    layout = parse_layout(page.encoding_type, page.encoding)
    if not _is_flat(layout) or pa.types.is_dictionary(t):
        return None
    values: pa.Array | None = None
    if isinstance(layout, MiniBlock):
        if layout.dictionary is None or layout.num_dictionary_items > MAX_ITEMS or len(page.buffers) < 3:
            return None
        (data,) = yield [page.buffers[2]]
        values = to_array(layout.dictionary.decode_block(data, layout.num_dictionary_items), t, None)
    elif isinstance(layout, Constant) and layout.value is not None:
        values = fixed_width_value(layout.value, t)
    elif isinstance(layout, Constant) and len(page.buffers) % 2:
        (data,) = yield page.buffers[:1]
        values = scalar(data, t)
    elif isinstance(layout, Constant):
        values = pa.nulls(0, t)
    return None if values is None else pa.concat_arrays([values, pa.nulls(1, t)])


def _is_flat(layout: Layout) -> bool:
    """Whether each slot of the page is a row."""
    return isinstance(layout, MiniBlock | Constant) and isinstance(layout.structure, Dense) and len(layout.structure.layers) == 1
