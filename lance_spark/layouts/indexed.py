"""Indexed pages (2.3): a dictionary of large values, and an index into it for each slot.

No specification is published; this follows the bytes of files. Buffers: the indices, if their encoding needs bytes; the items as in
full-zip pages; then those of the sparse structure.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.full_zip.read import num_buffers, read_values
from lance_spark.layouts.levels.assemble import Path, nest
from lance_spark.layouts.levels.sparse import read_structure
from lance_spark.layouts.nodes.page_layouts import Indexed
from lance_spark.layouts.values.to_arrow import to_dictionary_array
from lance_spark.reading import spans
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Page, Steps


def read(layout: Indexed, page: Page, path: Path, t: pa.DataType) -> Steps[tuple[pa.Array, Spans]]:
    """The column `path`, whose leaf is of type `t`: an array with all rows of the page, and the range of those rows."""
    items_at = int(layout.indices.num_buffers > 0)
    structure_at = items_at + num_buffers(layout.items)
    if len(page.buffers) < structure_at:
        raise CorruptFileError(f"expected at least {structure_at} buffers in an indexed page, found {len(page.buffers)}")
    slots = yield from read_structure(layout.structure, page, page.buffers[structure_at:])
    *indices, data = yield page.buffers[: items_at + 1]
    numbers = layout.indices.decode_block(indices[0] if indices else np.empty(0, np.uint8), slots[0].count)
    if numbers.count != slots[0].count:  # pragma: no cover: blocks have as many values as they are asked for, or are refused
        raise CorruptFileError(f"the page's structure declares {slots[0].count} values, found {numbers.count}")
    leaf = to_dictionary_array(numbers, read_values(layout.items, data), t, slots[0].validity)
    return nest(path, slots, leaf), spans.all_rows(page.num_rows)
