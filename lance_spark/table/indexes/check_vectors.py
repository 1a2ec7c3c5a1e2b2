"""Verification of vector indexes: the rows of a sample are in the segment, with the codes of their vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.index.files import unsigned
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.table.indexes.segment import Definition
from lance_spark.table.scan.indexed import Segment, Segments

if TYPE_CHECKING:
    from lance_spark.index.vector.index import VectorIndex


def wrong_vector(segments: Segments, definition: Definition, index: IndexMetadata, rows: pa.RecordBatch) -> str | None:
    """What is wrong about one of the rows, which the segment covers; None if nothing is. Raises errors of reading."""
    from lance_spark.index.vector.index import open_index
    from lance_spark.index.vector.make.encode import comparable
    from lance_spark.index.vector.vectors import each_vector, matrix

    segment = next((s for s in segments.searched("VECTOR", definition.field) if s.index.uuid == index.uuid), None)
    if segment is None:
        return None
    opened = open_index(segments.files(segment, definition.field))
    values = raw_values(Column(definition.path, definition.field.type), rows)
    array, own = each_vector(values)
    vectors, valid = matrix(array)
    vectors, usable = comparable(vectors, opened.metric)
    usable &= valid
    addresses = rows.column("_rowaddr").to_numpy()
    places, row = _entries(segments, segment, definition, addresses)
    expected, found = np.bincount(own[usable], minlength=len(addresses)), np.bincount(row, minlength=len(addresses))
    if (lacks := expected > found).any():
        return f"does not have row {_offset(addresses, lacks)}"
    if not segments.has_every_row_once(segment):
        return None
    # pylance may have vectors with nulls in them, and null vectors of lists.
    doubtful = np.bincount(own[~valid], minlength=len(addresses)) > 0
    doubtful &= values.is_valid().to_numpy(zero_copy_only=False)
    if (other := (expected < found) & ~doubtful).any():
        return f"has row {_offset(addresses, other)}, which has no vector"
    sure, usable = ~doubtful[row], usable & ~doubtful[own]
    wrong = _with_other_codes(opened, places[sure], row[sure], vectors[usable], own[usable])
    return None if wrong is None else f"has the code of another vector for row {int(addresses[wrong] & np.uint64(0xFFFFFFFF))}"


def _offset(addresses: np.ndarray, which: np.ndarray) -> int:
    return int(addresses[which][0] & np.uint64(0xFFFFFFFF))


def _entries(segments: Segments, segment: Segment, definition: Definition, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places in the file of codes that have rows at these addresses, and the number of the row for each."""
    file = segments.files(segment, definition.field).open("auxiliary.idx")
    order = np.argsort(addresses)
    places, rows, first = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for batch in file.batches(("_rowid",)) if len(addresses) else ():
        present, exist = segments.present(segment, unsigned(batch.column(0), file.path).astype(np.uint64))
        at = np.minimum(np.searchsorted(addresses[order], present), len(addresses) - 1)
        here = np.flatnonzero(exist & (addresses[order][at] == present))
        places.append(first + here)
        rows.append(order[at[here]])
        first += batch.num_rows
    return np.concatenate(places), np.concatenate(rows)


def _with_other_codes(opened: VectorIndex, places: np.ndarray, row: np.ndarray, vectors: np.ndarray, own: np.ndarray) -> int | None:
    """The number of a row with codes at one of the places that are not those of any of its vectors; `own` are the rows of these."""
    from lance_spark.index.vector.make.encode import are_codes_of
    from lance_spark.index.vector.make.segment import rows_of_partition

    bounds = np.append(opened.partitions.starts, opened.partitions.stops.max(initial=0))
    number = np.searchsorted(bounds, places, side="right") - 1
    sizes = np.bincount(own, minlength=int(own.max(initial=-1)) + 1)
    starts = np.cumsum(sizes) - sizes
    for partition in np.unique(number).tolist():
        here = np.flatnonzero(number == partition)
        # The codes of each place beside each vector of its row
        entry = np.repeat(np.arange(len(here)), sizes[row[here]])
        vector = starts[row[here]][entry] + np.arange(len(entry)) - np.searchsorted(entry, entry)
        _, columns = rows_of_partition(opened, partition)
        codes = {name: values[places[here][entry] - bounds[partition]] for name, values in columns.items()}
        good = are_codes_of(opened.quantizer, codes, vectors[vector], opened.centroids.vectors[partition])
        right = np.bincount(entry[good], minlength=len(here)) > 0
        if not right.all():
            return int(row[here][~right][0])
    return None
