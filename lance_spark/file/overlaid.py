"""Columns of a fragment with the values of its overlays instead of those in its data files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import take
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.metadata.overlays import Overlay, overlays_of
from lance_spark.schema.schema import Field, Schema

if TYPE_CHECKING:
    from lance_spark.file.reader import DataFileReader


def has_overlays(fragment: Fragment, field: Field) -> bool:
    """Whether an overlay has values of the field."""
    ids = {leaf.id for leaf in field.leaves()}
    return any(not ids.isdisjoint(overlay.rows) for overlay in overlays_of(fragment))


def overlaid(
    parts: Mapping[int, pa.Array],
    fields: Iterable[Field],
    fragment: Fragment,
    rows: np.ndarray,
    open_file: Callable[[DataFile], DataFileReader],
) -> dict[int, pa.Array]:
    """The arrays of `parts`, by the id of a top-level field, with the values of overlays for these rows of the fragment.

    Raises UnsupportedFeatureError for overlays of a part of the items of lists, and of blobs.
    """
    found = dict(parts)
    for field in fields:
        for overlay in overlays_of(fragment):
            for covered, leaves in _by_rows(field, overlay):
                at = np.searchsorted(covered, rows)
                hit = np.flatnonzero(covered[np.minimum(at, len(covered) - 1)] == rows)
                if len(hit):
                    (part,) = Schema((field,)).keep(lambda leaf, leaves=leaves: leaf.id in leaves).fields  # type: ignore[misc]
                    new = _read(part, overlay.file, at[hit], open_file(overlay.file))
                    stored = found.get(field.id)
                    found[field.id] = _replaced(field, pa.nulls(len(rows), new.type) if stored is None else stored, new, hit)
    return found


def _by_rows(field: Field, overlay: Overlay) -> list[tuple[np.ndarray, frozenset[int]]]:
    """The rows for which an overlay has values of a column, and of which of its leaves."""
    found: dict[int, tuple[np.ndarray, set[int]]] = {}
    for leaf in field.leaves():
        rows = overlay.rows.get(leaf.id)
        if rows is None or not len(rows):
            continue
        if leaf.is_blob:
            raise UnsupportedFeatureError(f"column {field.name!r}: the overlay {overlay.file.path} has blobs, which cannot be read")
        found.setdefault(id(rows), (rows, set()))[1].add(leaf.id)
    return [(rows, frozenset(leaves)) for rows, leaves in found.values()]


def _read(field: Field, file: DataFile, numbers: np.ndarray, reader: DataFileReader) -> pa.Array:
    from lance_spark.layouts.levels.assemble import merge  # loads the decoders

    if numbers[-1] >= reader.num_rows:
        raise CorruptFileError(f"the overlay {file.path} has {reader.num_rows} rows, but values for {numbers[-1] + 1} or more")
    batches = reader.read([field], file.columns, numbers.astype(np.int64), len(numbers))
    return pa.concat_arrays([merge(field, [arrays[0]]) for arrays in batches])


def _replaced(field: Field, stored: pa.Array, new: pa.Array, at: np.ndarray) -> pa.Array:
    """`stored` with the values `new` at the positions `at`. As in pylance, structs are null where they were: overlays have their leaves."""
    if pa.types.is_struct(stored.type) and pa.types.is_struct(new.type) and not field.is_leaf:
        values = dict(zip((f.name for f in new.type), new.flatten()))
        known = {child.name: child for child in field.children}
        children = []
        for f, child in zip(stored.type, stored.flatten()):
            if f.name in values:
                child = _replaced(known[f.name], child, values[f.name], at)
            children.append(child)
        fields = [f.with_type(child.type) for f, child in zip(stored.type, children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=stored.is_null() if stored.null_count else None)
    if not new.type.equals(stored.type):
        raise UnsupportedFeatureError(f"column {field.name!r} has the type {stored.type}, but an overlay of it {new.type}")
    order = np.arange(len(stored))
    order[at] = len(stored) + np.arange(len(new))
    return take(pa.concat_arrays([stored, new]), pa.array(order))
