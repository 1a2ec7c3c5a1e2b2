"""What indexes a version has."""

from __future__ import annotations

import uuid
from typing import Any

from pyroaring import BitMap

from lance_spark.index.kinds import kind_of
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.indexes.create import no_index
from lance_spark.table.scan.plan import all_live_rows
from lance_spark.table.versions.snapshot import Snapshot


def list_indices(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Each segment: "name", "type", "uuid", "fields" (paths), "version" (that it was built from) and "fragment_ids" (a set).

    After a compaction with `defer_index_remap`, the fragments are those to which the rows have moved.
    """
    indexes = snapshot.manifest.indexes
    names = {path[-1].id: ".".join(f.name for f in path) for path in snapshot.manifest.schema.paths()}
    return [
        {
            "name": index.name,
            "type": _kind_name(index),
            "uuid": str(uuid.UUID(bytes=index.uuid)),
            "fields": [names.get(i, str(i)) for i in index.fields],
            "version": index.dataset_version,
            "fragment_ids": set(fragments_of(now) or ()),
        }
        for index, now in zip(indexes, through_reuse(indexes))
        if index.name not in SYSTEM_INDEXES
    ]


def _kind_name(index: IndexMetadata) -> str:
    kind = kind_of(index.details_type, index.details)
    return kind.name if kind else index.details_type.rpartition(".")[2].removesuffix("IndexDetails")


def index_statistics(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """The kind of an index, the number and bytes of its segments, and the fragments and rows that it covers and those that it does not.

    Raises InvalidOptionError for an unknown name.
    """
    indexes = snapshot.manifest.indexes
    segments = [(i, now) for i, now in zip(indexes, through_reuse(indexes)) if i.name == name and name not in SYSTEM_INDEXES]
    if not segments:
        raise no_index(snapshot, name)
    rows = {f.id: count for f, count in zip(snapshot.manifest.fragments, all_live_rows(snapshot))}
    covered = [(fragments_of(now) or BitMap()) & BitMap(rows) for _, now in segments]
    united = BitMap().union(*covered)
    return {
        "index_type": _kind_name(segments[0][0]),
        "name": name,
        "num_indices": len(segments),
        "num_segments": len(segments),
        "num_indexed_fragments": len(united),
        "num_indexed_rows": sum(rows[f] for f in united),
        "num_unindexed_fragments": len(rows) - len(united),
        "num_unindexed_rows": sum(count for f, count in rows.items() if f not in united),
        "num_indexed_rows_per_delta": [sum(rows[f] for f in of) for of in covered],
        "updated_at_timestamp_ms": max((i.created_at or 0 for i, _ in segments), default=0),
        "size_bytes": sum(file.size for i, _ in segments for file in i.files),
    }
