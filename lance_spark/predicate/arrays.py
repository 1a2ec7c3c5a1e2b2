"""Functions of arrays in filters, on Arrow lists: a batch at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.compare import Values, as_seen, equals_one_of, plain


def _items(lists: pa.Array, t: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """The items of all lists as the type `t`, and the number of the list that each belongs to."""
    items = as_seen(plain(pc.list_flatten(lists)), t)
    # Null lists have no items here, whatever their offsets say.
    sizes = np.where(np.asarray(lists.is_valid()), pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), 0)
    return items, np.repeat(np.arange(len(lists)), sizes)


def _with(lists: pa.Array, parents: np.ndarray, chosen: Values) -> np.ndarray:
    """For each list, whether one of its items is chosen; an item for which this is null is not."""
    found = np.zeros(len(lists), np.bool_)
    found[parents[pc.fill_null(chosen, False).to_numpy(zero_copy_only=False)]] = True
    return found


def _answer(lists: pa.Array, found: np.ndarray, unknown: np.ndarray) -> pa.Array:
    """True where found, else null where unknown or where the list is null, else false."""
    null = np.asarray(lists.is_null()) | (unknown & ~found)
    return pa.array(found, mask=null)


def _contains(lists: pa.Array, item: pa.Scalar) -> pa.Array:
    """Spark's array_contains: null if the item is not found among items of which some are null."""
    if not item.is_valid:
        return pa.nulls(len(lists), pa.bool_())
    items, parents = _items(lists, item.type)
    found = _with(lists, parents, equals_one_of(items, pa.array([item.as_py()], item.type)))
    return _answer(lists, found, _with(lists, parents, pc.is_null(items)))


def _overlap(lists: pa.Array, other: pa.Scalar) -> pa.Array:
    """Spark's arrays_overlap: null if no item is common, both are not empty, and one of them has a null."""
    if not other.is_valid:
        return pa.nulls(len(lists), pa.bool_())
    known = other.values
    items, parents = _items(lists, known.type)
    found = _with(lists, parents, equals_one_of(items, known.drop_null()))
    if not len(known):
        return _answer(lists, found, np.zeros(len(lists), np.bool_))
    has_items = np.bincount(parents, minlength=len(lists)) > 0
    return _answer(lists, found, has_items if known.null_count else _with(lists, parents, pc.is_null(items)))


def _has_any(lists: pa.Array, other: pa.Scalar) -> pa.Array:
    """Whether an item of the list is one of `other`, which has no nulls."""
    items, parents = _items(lists, other.type.value_type)
    return _answer(lists, _with(lists, parents, equals_one_of(items, other.values)), np.zeros(len(lists), np.bool_))


def _has_all(lists: pa.Array, other: pa.Scalar) -> pa.Array:
    """Whether the list has all items of `other`, which has no nulls."""
    items, parents = _items(lists, other.type.value_type)
    found = np.ones(len(lists), np.bool_)
    for i in range(len(other.values)):
        found &= _with(lists, parents, equals_one_of(items, other.values.slice(i, 1)))
    return _answer(lists, found, np.zeros(len(lists), np.bool_))


ARRAY_FUNCTIONS: dict[str, Callable[..., Values]] = {
    "array_contains": _contains,
    "arrays_overlap": _overlap,
    "array_has_any": _has_any,
    "array_has_all": _has_all,
}
"""By name; the last two are those of other Lance readers. The first argument is a column, the other a literal
with the type in which items are compared."""
