"""The statistics of a legacy file: the minimum and maximum of each page, for fields that have them.

They are stored like the pages of one batch, with a row for each page of the data: for field 7 a struct "7" of null_count, min_value and
max_value.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.predicate.bounds import Bounds
from lance_spark.reading.steps import Steps
from lance_spark.schema.schema import Field, Schema
from lance_spark.v0_1.field import open_field
from lance_spark.v0_1.page_table import PageTable


@dataclass(frozen=True)
class Statistics:
    """Their schema and page table."""

    schema: Schema
    pages: PageTable


def page_bounds(field: Field, statistics: Statistics) -> Steps[list[Bounds | None]]:
    """The bounds of the values of `field` in each page; None if unknown."""
    count = statistics.pages.num_rows
    own = next((f for f in statistics.schema.fields if f.name == str(field.id)), None)
    names = [] if own is None else [child.name for child in own.children]
    if own is None or not {"null_count", "min_value", "max_value"} <= set(names):
        return [None] * count
    values = yield from open_field(own, statistics.pages, range(count)).read(0, count)
    nulls, least, greatest = (values.field(names.index(name)) for name in ("null_count", "min_value", "max_value"))
    if least.type != field.type or greatest.type != field.type:
        return [None] * count
    fixed = not (pa.types.is_string(field.type) or pa.types.is_binary(field.type))
    # Nulls of fixed width are read as zeros, and the statistics omit NaN.
    nan = [pa.array([float("nan")]).cast(field.type)] if pa.types.is_floating(field.type) else []
    out: list[Bounds | None] = []
    for i in range(count):
        known = least[i].is_valid and greatest[i].is_valid and not (fixed and nulls[i].as_py())
        out.append(Bounds(pa.concat_arrays([least.slice(i, 1), greatest.slice(i, 1), *nan])) if known else None)
    return out
