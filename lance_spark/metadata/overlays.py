"""Overlays: new values for some rows and fields of a fragment, in data files of their own. No specification is published.

The overlay of the newest commit that has a row and a field counts; of one commit, the last one. Rows are offsets in the fragment, deleted
rows included; the file has their values in that order.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.bitmaps import offsets_of, read_bitmap
from lance_spark.metadata.fragment import DataFile, Fragment, Reading, read_data_file


@dataclass(frozen=True)
class Overlay:
    """A data file, and the ascending offsets of the rows for which it has values, by field id."""

    file: DataFile
    rows: Mapping[int, np.ndarray]


@lru_cache(256)
def overlays_of(fragment: Fragment) -> tuple[Overlay, ...]:
    """The fragment's overlays, the newest last. Raises CorruptFileError or UnsupportedFeatureError for what is none that is known."""
    found = [_parsed(data, fragment) for data in fragment.overlays]
    return tuple(overlay for _, overlay in sorted(found, key=operator.itemgetter(0)))


def _parsed(data: bytes, fragment: Fragment) -> tuple[int, Overlay]:
    """The version that the overlay was committed in, and the overlay."""
    message = parse_message(pb.DataOverlayFile, data, f"overlay of fragment {fragment.id}")
    file = read_data_file(message.data_file, Reading(unknown=False))
    kind = message.WhichOneof("rows")
    if kind is None:
        raise UnsupportedFeatureError(f"the overlay {file.path} does not say for which rows it has values in a way that is known")
    sets = [message.rows_of_all] * len(file.fields) if kind == "rows_of_all" else list(message.rows_of_fields.rows)
    if len(sets) != len(file.fields):
        raise CorruptFileError(f"the overlay {file.path} has {len(file.fields)} fields, but {len(sets)} sets of rows")
    known: dict[bytes, np.ndarray] = {}
    for rows in sets:
        if rows not in known:
            known[rows] = _offsets(rows, file, fragment)
    return message.committed_version, Overlay(file, {field: known[rows] for field, rows in zip(file.fields, sets)})


def _offsets(data: bytes, file: DataFile, fragment: Fragment) -> np.ndarray:
    bitmap = read_bitmap(data, f"the set of rows of the overlay {file.path}")
    if len(bitmap) > fragment.physical_rows or (bitmap and bitmap.max() >= fragment.physical_rows):
        raise CorruptFileError(
            f"the overlay {file.path} has values for rows beyond the {fragment.physical_rows} rows of fragment {fragment.id}"
        )
    return offsets_of(bitmap)
