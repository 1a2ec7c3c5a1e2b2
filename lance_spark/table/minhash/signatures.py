"""The signatures of a column's texts that MINHASHLSH indexes have, for the rows that exist."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import LanceError
from lance_spark.index.minhash.parameters import MinHash, min_hash_of
from lance_spark.index.minhash.segment import check_signatures, read_signatures
from lance_spark.schema.schema import Field
from lance_spark.table.scan.indexed import Segment, segments_of
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexedSignatures:
    """How the texts are signed, the segments with signatures, by uuid, and the fragments of which they have all rows with tokens.

    The fragments `lost` are those of segments whose files cannot be read.
    """

    parameters: MinHash
    segments: tuple[bytes, ...]
    covered: BitMap
    lost: BitMap


def indexed_signatures(snapshot: Snapshot, field: Field) -> IndexedSignatures | None:
    """What the indexes of a column have; None if there are none. Segments with other parameters than the first are not used.

    Raises CorruptFileError or UnsupportedFeatureError for parameters that are not known: the manifest tells them.
    """
    segments = segments_of(snapshot)
    first: MinHash | None = None
    used: list[bytes] = []
    covered, lost = BitMap(), BitMap()
    for segment in segments.searched("MINHASHLSH", field):
        own = min_hash_of(segment.index.details, f"the details of index {segment.index.name!r}")
        first = first or own
        try:
            check_signatures(segments.files(segment, field))
        except LanceError as e:
            _LOG.warning("%s: a segment of index %r is not used: %s", snapshot, segment.index.name, e)
            lost |= segment.covered
            continue
        if own == first and not segment.covered & covered:
            used.append(segment.index.uuid)
            covered |= segment.covered
    return None if first is None else IndexedSignatures(first, tuple(used), covered, lost - covered)


def signatures_in(snapshot: Snapshot, field: Field, uuid: bytes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The row ids (uint64) and the signatures of the rows of a segment that exist, in batches.

    Raises CorruptFileError, UnsupportedFeatureError or StorageError.
    """
    yield from ((ids, signatures) for _, ids, signatures in located_signatures(snapshot, field, uuid))


def located_signatures(snapshot: Snapshot, field: Field, uuid: bytes) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """As `signatures_in`, with the addresses (uint64) of the rows before their ids."""
    segments = segments_of(snapshot)
    segment: Segment = next(s for s in segments.searched("MINHASHLSH", field) if s.index.uuid == uuid)
    named_by_address = segment.kind.has_addresses(segment.index.index_version, snapshot.manifest.has_stable_row_ids)
    for numbers, signatures in read_signatures(segments.files(segment, field)):
        addresses, exist = segments.present(segment, numbers)
        yield addresses[exist], (addresses if named_by_address else numbers)[exist], signatures[exist]
