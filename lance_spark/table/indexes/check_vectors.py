"""Verification of vector indexes: the rows of a sample are in the segment, with the codes of their vectors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.index.files import unsigned
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.table.indexes.segment import Definition
from lance_spark.table.scan.indexed import Segment, Segments


def wrong_vector(segments: Segments, definition: Definition, index: IndexMetadata, rows: pa.RecordBatch) -> str | None:
    """What is wrong about one of the rows, which the segment covers; None if nothing is. Raises errors of reading."""
    from lance_spark.index.vector.index import open_index
    from lance_spark.index.vector.make.encode import are_codes_of, comparable
    from lance_spark.index.vector.make.segment import rows_of_partition
    from lance_spark.index.vector.vectors import matrix

    segment = next((s for s in segments.searched("VECTOR", definition.field) if s.index.uuid == index.uuid), None)
    if segment is None:
        return None
    opened = open_index(segments.files(segment, definition.field))
    vectors, valid = matrix(raw_values(Column(definition.path, definition.field.type), rows))
    vectors, usable = comparable(vectors, opened.metric)
    usable &= valid
    addresses = rows.column("_rowaddr").to_numpy()
    at = _places(segments, segment, definition, addresses)
    if (lacks := usable & (at < 0)).any():
        return f"does not have row {_offset(addresses, lacks)}"
    if not segments.has_every_row_once(segment):
        return None
    if (other := ~usable & (at >= 0)).any():
        return f"has row {_offset(addresses, other)}, which has no vector"
    bounds = np.append(opened.partitions.starts, opened.partitions.stops.max(initial=0))
    number = np.searchsorted(bounds, at, side="right") - 1
    for partition in np.unique(number[usable]).tolist():
        own = usable & (number == partition)
        _, columns = rows_of_partition(opened, partition)
        codes = {name: values[at[own] - bounds[partition]] for name, values in columns.items()}
        good = are_codes_of(opened.quantizer, codes, vectors[own], opened.centroids.vectors[partition])
        if not good.all():
            return f"has the code of another vector for row {int(addresses[own][~good][0] & np.uint64(0xFFFFFFFF))}"
    return None


def _offset(addresses: np.ndarray, which: np.ndarray) -> int:
    return int(addresses[which][0] & np.uint64(0xFFFFFFFF))


def _places(segments: Segments, segment: Segment, definition: Definition, addresses: np.ndarray) -> np.ndarray:
    """Where the rows at these addresses are in the file of codes; -1 for those that it does not have."""
    file = segments.files(segment, definition.field).open("auxiliary.idx")
    order = np.argsort(addresses)
    found, first = np.full(len(addresses), -1, np.int64), 0
    for batch in file.batches(("_rowid",)):
        present, exist = segments.present(segment, unsigned(batch.column(0), file.path).astype(np.uint64))
        at = np.minimum(np.searchsorted(addresses[order], present), len(addresses) - 1)
        here = np.flatnonzero(exist & (addresses[order][at] == present)) if len(addresses) else np.empty(0, np.int64)
        found[order[at[here]]] = first + here
        first += batch.num_rows
    return found
