"""What reads of a version do in vain, which upkeep removes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from lance_spark.display.figures import Figures
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.compaction.clustered import Clustered, job_of_fragment
from lance_spark.table.scan.parts import Parts, all_live_rows
from lance_spark.table.scan.plan import row_bytes
from lance_spark.table.versions.snapshot import Snapshot

OPENING = 1 << 20
"""To find and open one more file takes as long as to read so many bytes: on an object store two requests of about 10 ms at 50 MB/s.
On a local disk it is less, about 0.3 MB."""


@dataclass(frozen=True)
class Waste(Figures):
    """Bytes that reads of a version read in vain, or could have read in the time that they lose.

    A full scan opens `fragments`, each as `OPENING` bytes, and reads `deleted_bytes`. A filter by the columns of a clustering reads
    `unordered_bytes`, those of fragments that are not clustered. A search by each index opens its segments (`segment_bytes`), and opens
    and reads the column in fragments that the index does not cover (`unindexed_bytes`).
    """

    fragment_bytes: int = 0
    deleted_bytes: int = 0
    unordered_bytes: int = 0
    segment_bytes: int = 0
    unindexed_bytes: int = 0

    @property
    def total(self) -> int:
        """All of them, for one scan, one filter, and one search by each index."""
        return self.fragment_bytes + self.deleted_bytes + self.unordered_bytes + self.segment_bytes + self.unindexed_bytes


@dataclass(frozen=True)
class Sizes:
    """The fragments of a version in numbers, by place: ids, rows with and without the deleted ones, and bytes of data files."""

    ids: np.ndarray
    rows: np.ndarray
    live: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, snapshot: Snapshot) -> Sizes:
        """Those of a version. No data file is read; bytes that are not known are estimated."""
        fragments, live = snapshot.manifest.lazy_fragments, all_live_rows(snapshot)
        rows = fragments.counts[:, 1].astype(np.int64)
        return cls(fragments.ids.astype(np.int64), rows, live, bytes_of(snapshot, snapshot.manifest.schema, rows))

    @property
    def deleted_bytes(self) -> np.ndarray:
        """The bytes of deleted rows."""
        deleted: np.ndarray = self.size * (self.rows - self.live) // np.maximum(self.rows, 1)
        return deleted

    @property
    def live_bytes(self) -> np.ndarray:
        """The bytes of rows that are not deleted: those that are written if a fragment is written anew."""
        live: np.ndarray = self.size - self.deleted_bytes
        return live


def bytes_of(snapshot: Snapshot, columns: Schema, rows: np.ndarray) -> np.ndarray:
    """The bytes of columns in each fragment, of all of its `rows`."""
    parts = Parts.whole(snapshot.manifest.lazy_fragments, rows)
    found: np.ndarray = (rows * row_bytes(parts, columns)).astype(np.int64)
    return found


@dataclass(frozen=True)
class IndexSizes:
    """An index in numbers: its segments and their bytes, and what it lacks: fragments, their rows, and the bytes of the column there."""

    name: str
    segments: int
    bytes: int
    covered_rows: int
    lacks: frozenset[int]
    lacking_rows: int
    lacking_bytes: int

    @property
    def scanned_bytes(self) -> int:
        """What a search by the index opens and reads of the fragments that it lacks."""
        return self.lacking_bytes + OPENING * len(self.lacks)

    @property
    def added_bytes(self) -> int:
        """About the bytes of the index for the rows that it lacks: as many as for others, or as the column has."""
        if not self.covered_rows:
            return self.lacking_bytes
        return self.bytes * self.lacking_rows // self.covered_rows


def index_sizes(snapshot: Snapshot, sizes: Sizes) -> Iterator[IndexSizes]:
    """The numbers of each index, but not of those of the table itself."""
    segments_by_name: dict[str, list[tuple[IndexMetadata, BitMap]]] = {}
    indexes = snapshot.manifest.indexes
    for index, now in zip(indexes, through_reuse(indexes)):
        if index.name not in SYSTEM_INDEXES:
            segments_by_name.setdefault(index.name, []).append((index, BitMap(fragments_of(now) or ())))
    for name, segments in sorted(segments_by_name.items()):
        yield _index_sizes(snapshot, sizes, name, segments)


def _index_sizes(snapshot: Snapshot, sizes: Sizes, name: str, segments: Sequence[tuple[IndexMetadata, BitMap]]) -> IndexSizes:
    covered = BitMap.union(*(fragments for _, fragments in segments))
    is_covered = np.isin(sizes.ids, np.array(covered, np.int64))
    column_bytes = bytes_of(snapshot, _indexed(snapshot, segments[0][0]), sizes.rows)
    files = [file for index, _ in segments for file in index.files]
    return IndexSizes(
        name,
        segments=len(segments),
        bytes=sum(file.size for file in files),
        covered_rows=int(sizes.live[is_covered].sum()),
        lacks=frozenset(sizes.ids[~is_covered].tolist()),
        lacking_rows=int(sizes.live[~is_covered].sum()),
        lacking_bytes=int(column_bytes[~is_covered].sum()),
    )


def _indexed(snapshot: Snapshot, index: IndexMetadata) -> Schema:
    """The columns of an index; none if they are not in the table any more."""
    schema = snapshot.manifest.schema
    return schema.select([quoted([f.name for f in path]) for path in schema.paths() if path[-1].id in index.fields])


def unordered(snapshot: Snapshot) -> frozenset[int]:
    """The ids of fragments that are not clustered, in a table that is."""
    clustered = Clustered.of(snapshot)
    if not clustered.columns:
        return frozenset()
    fragments = snapshot.manifest.fragments
    return frozenset(f.id for f in fragments if job_of_fragment(f) not in clustered.jobs)


def waste_of(snapshot: Snapshot) -> Waste:
    """What reads of this version do in vain. Only metadata are read."""
    sizes = Sizes.of(snapshot)
    indexes = list(index_sizes(snapshot, sizes))
    is_unordered = np.isin(sizes.ids, list(unordered(snapshot)))
    return Waste(
        OPENING * len(sizes.ids),
        int(sizes.deleted_bytes.sum()),
        int(sizes.live_bytes[is_unordered].sum()),
        OPENING * sum(index.segments for index in indexes),
        sum(index.scanned_bytes for index in indexes),
    )
