"""Verification of MINHASHLSH indexes: the signatures of a sample of rows are those of their texts, and rows without tokens have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from lance_spark.index.minhash.segment import check_signatures, read_signatures, sign_rows
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import Field
from lance_spark.table.scan.indexed import Segments


def signature_problems(
    segments: Segments, index: IndexMetadata, field: Field, column: Column, samples: Iterable[pa.RecordBatch]
) -> Iterator[str]:
    """What is wrong about rows that a segment covers, which have their addresses. Raises CorruptFileError or StorageError."""
    segment = next((s for s in segments.searched("MINHASHLSH", field) if s.index.uuid == index.uuid), None)
    if segment is None:
        return
    files = segments.files(segment, field)
    _, how = check_signatures(files)
    rows = [pa.record_batch([raw_values(column, batch), batch.column("_rowaddr")], names=["value", "row"]) for batch in samples]
    wanted = np.concatenate([np.empty(0, np.uint64), *(batch.column("row").to_numpy() for batch in rows)])
    expected: dict[int, bytes] = {}
    for numbers, signatures in sign_rows(rows, how):
        expected |= {int(n): s.tobytes() for n, s in zip(numbers, signatures)}
    found: dict[int, bytes] = {}
    for numbers, signatures in read_signatures(files):
        addresses, exist = segments.present(segment, numbers)
        own = exist & np.isin(addresses, wanted)
        found |= {int(n): s.tobytes() for n, s in zip(addresses[own], signatures[own])}
    rows_of_both = expected.keys() | found.keys()
    if wrong := sorted(n for n in rows_of_both if expected.get(n) != found.get(n)):
        yield f"has another signature than that of row {wrong[0] & 0xFFFFFFFF} of fragment {wrong[0] >> 32}"
