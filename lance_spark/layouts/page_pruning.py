"""Page pruning: the distinct values of a page, from its dictionary or its constant, without decoding a row."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.layouts.constant.read import scalar
from lance_spark.layouts.nodes.page_layouts import Constant, Dense, MiniBlock, Structure, parse_layout
from lance_spark.layouts.values.to_arrow import fixed_width_value, to_array
from lance_spark.reading.steps import Column, Page, Steps, side_by_side
from lance_spark.schema.schema import Field

MAX_ITEMS = 1 << 16


def distinct_values(field: Field, column: Column) -> Steps[list[pa.Array | None]]:
    """For each page of the column of `field`, a leaf at the top level: an array of its distinct values and null, or None if unknown."""
    return (yield from side_by_side([_of_page(page, field.type) for page in column.pages]))


def _of_page(page: Page, t: pa.DataType) -> Steps[pa.Array | None]:
    layout = parse_layout(page.encoding_type, page.encoding)
    if not isinstance(layout, MiniBlock | Constant) or not _is_flat(layout.structure) or pa.types.is_dictionary(t):
        return None
    if isinstance(layout, MiniBlock):
        if layout.dictionary is None or layout.num_dictionary_items > MAX_ITEMS or len(page.buffers) < 3:
            return None
        (data,) = yield [page.buffers[2]]
        values = to_array(layout.dictionary.decode_block(data, layout.num_dictionary_items), t, None)
    elif layout.value is not None:
        values = fixed_width_value(layout.value, t)
    elif len(page.buffers) % 2:
        (data,) = yield page.buffers[:1]
        values = scalar(data, t)
    else:
        values = pa.nulls(0, t)
    return pa.concat_arrays([values, pa.nulls(1, t)])


def _is_flat(structure: Structure) -> bool:
    """True if each slot of a page with this structure is a row."""
    return isinstance(structure, Dense) and len(structure.layers) == 1
