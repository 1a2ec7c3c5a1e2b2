"""Selections of rows, and comparison of arrays by value instead of memory layout."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from lance_spark.reading.steps import Rows


@st.composite
def selections(draw: st.DrawFn, num_rows: int) -> Rows:
    """All rows, a range of them, or some of them, from few to nearly all."""
    kind = draw(st.sampled_from(["all", "range", "few", "many"]))
    if kind == "all" or not num_rows:
        return range(num_rows)
    if kind == "range":
        start, stop = sorted((draw(st.integers(0, num_rows)), draw(st.integers(0, num_rows))))
        return range(start, stop)
    if kind == "few":
        return np.array(sorted(draw(st.sets(st.integers(0, num_rows - 1), max_size=8))), dtype=np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return np.flatnonzero(rng.random(num_rows) < draw(st.sampled_from([0.3, 0.95])))


def assert_same_values(got: pa.Array, expected: pa.Array) -> None:
    """Check that types, nulls and values are equal. Dictionaries are decoded, since a null can be in the index or in the item."""
    got.validate(full=True)
    plain = without_dictionaries(expected.type)
    assert without_dictionaries(got.type) == plain
    if got.type != plain or expected.type != plain:  # Arrow's cast breaks lists of nulls, which have no dictionaries
        got, expected = got.cast(plain), expected.cast(plain)
    assert got.equals(expected)


def without_dictionaries(t: pa.DataType) -> pa.DataType:
    """The type with every dictionary type in it replaced by that of its values."""
    if pa.types.is_dictionary(t):
        return t.value_type
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(without_dictionaries(f.type)) for f in t])
    if pa.types.is_large_list(t):
        return pa.large_list(t.value_field.with_type(without_dictionaries(t.value_type)))
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(without_dictionaries(t.value_type)))
    if pa.types.is_fixed_size_list(t):
        return pa.list_(t.value_field.with_type(without_dictionaries(t.value_type)), t.list_size)
    if pa.types.is_map(t):
        return pa.map_(t.key_field.with_type(without_dictionaries(t.key_type)), t.item_field.with_type(without_dictionaries(t.item_type)))
    return t


def values_in_nulls(array: pa.Array, path: str = "") -> list[str]:
    """The paths of children that have values where their struct is null, which Arrow allows and readers may show."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    t = array.type
    if pa.types.is_map(t):
        return values_in_nulls(array.keys, f"{path}.key") + values_in_nulls(array.items, f"{path}.value")
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return values_in_nulls(array.flatten(), f"{path}[]")
    if not pa.types.is_struct(t):
        return []
    found = []
    for i, field in enumerate(t):
        child = array.field(i)
        if pc.any(pc.and_(array.is_null(), child.is_valid())).as_py():
            found.append(f"{path}.{field.name}")
        found += values_in_nulls(child, f"{path}.{field.name}")
    return found
