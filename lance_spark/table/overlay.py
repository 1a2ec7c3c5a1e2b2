"""Data overlays: new values for some cells of a fragment, kept beside its data files.

Implements the message DataOverlayFile of the table format (reader feature flag 64). An overlay's file has one value for each row
that it covers, in the order of the rows; of several overlays of a cell the one committed last counts. Overlays that cover other
rows in each field, or a part of a struct, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2 as pb
from lance_spark.columns import Rows
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.reader import DataFileReader
from lance_spark.schema import Field, Schema
from lance_spark.table.deletion import parse_bitmap
from lance_spark.table.metadata import DataFile, Reading, read_data_file


@dataclass(frozen=True)
class Overlay:
    """An overlay as its fragment describes it: `rows` are the offsets of the rows it covers, ascending."""

    file: DataFile
    rows: np.ndarray
    version: int


@dataclass(frozen=True)
class Values:
    """The values that an overlay has for some rows (offsets, ascending) of one field."""

    rows: np.ndarray
    values: pa.Array


def parse_overlays(messages: Sequence[bytes]) -> list[Overlay]:
    """The overlays of a fragment, those that count first coming last."""
    overlays = [_parse(message) for message in messages]
    return sorted(overlays, key=lambda overlay: overlay.version)


def _parse(data: bytes) -> Overlay:
    try:
        message = pb.DataOverlayFile.FromString(data)
    except DecodeError as e:
        raise CorruptFileError("a data overlay is not a valid message") from e
    if message.WhichOneof("coverage") != "shared_offset_bitmap":
        raise UnsupportedFeatureError(f"data overlay {message.data_file.path!r} covers other rows in each field")
    file = read_data_file(message.data_file, Reading(unknown=False))
    return Overlay(file, parse_bitmap(message.shared_offset_bitmap).astype(np.int64), message.committed_version)


def load(overlay: Overlay, reader: DataFileReader, schema: Schema, wanted: Rows) -> dict[int, Values]:
    """What the overlay has of the fields of `schema` for the `wanted` rows, by field id."""
    columns = {f: c for f, c in zip(overlay.file.fields, overlay.file.column_indices) if c >= 0}
    pruned = schema.keep(lambda leaf: leaf.id in columns)
    if reader.num_rows != len(overlay.rows):
        raise CorruptFileError(f"data overlay {overlay.file.path!r} has {reader.num_rows} values for {len(overlay.rows)} rows")
    for field in pruned.fields:
        _check_whole(field, next(f for f in schema.fields if f.id == field.id))
    ranks = np.flatnonzero(_within(overlay.rows, wanted))
    batches = list(reader.read(pruned.fields, columns, ranks, max(len(ranks), 1))) if pruned.fields and len(ranks) else []
    return {f.id: Values(overlay.rows[ranks], pa.concat_arrays([b[i] for b in batches])) for i, f in enumerate(pruned.fields) if batches}


def _check_whole(covered: Field, wanted: Field) -> None:
    if len(list(covered.leaves())) != len(list(wanted.leaves())):
        raise UnsupportedFeatureError(f"a data overlay over a part of column {wanted.name!r}")


def _within(offsets: np.ndarray, rows: Rows) -> np.ndarray:
    if isinstance(rows, range):
        return (offsets >= rows.start) & (offsets < rows.stop)
    return np.isin(offsets, rows)


def apply(parts: Mapping[int, pa.Array], overlays: Sequence[Mapping[int, Values]], rows: np.ndarray) -> dict[int, pa.Array]:
    """The arrays of a batch, by field id, with the values that overlays have for its `rows` (offsets, ascending)."""
    result = dict(parts)
    for overlay in overlays:
        for field_id, new in overlay.items():
            slots = np.searchsorted(rows, new.rows)
            there = slots < len(rows)
            there[there] = rows[slots[there]] == new.rows[there]
            base = result.get(field_id)
            if base is None:
                base = pa.nulls(len(rows), new.values.type)
            indices = np.arange(len(rows))
            indices[slots[there]] = len(rows) + np.flatnonzero(there)
            result[field_id] = pa.concat_arrays([base, new.values]).take(pa.array(indices))
    return result
