"""What indexes a version has."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap

from lance_spark._proto import index_pb2
from lance_spark.buffers.messages import parse_message
from lance_spark.display.listing import SHOWN, Listing, left_out
from lance_spark.display.table import Table
from lance_spark.display.words import number
from lance_spark.errors import LanceError
from lance_spark.file.data_file import open_data_file
from lance_spark.index.kinds import kind_of
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.indexes.create import no_index
from lance_spark.table.scan.parts import live_by_id
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.index.vector.measured import Measured


class Indexes(Listing[dict[str, Any]]):
    """A list of the segments of indexes that prints as a table."""

    def table(self, shown: int = SHOWN) -> Table:
        """One row for each segment."""
        rows = []
        for index in self[:shown]:
            columns, fragments = ", ".join(index["fields"]), number(len(index["fragment_ids"]))
            rows.append((index["name"], index["type"], columns, str(index["version"]), fragments, index["uuid"]))
        headers = ("index", "kind", "columns", "version", "fragments", "segment")
        return Table(headers, rows, frozenset(["version", "fragments"]), left_out(self, shown=shown))


def list_indices(snapshot: Snapshot) -> Indexes:
    """Each segment: "name", "type", "uuid", "fields" (paths), "version" (that it was built from) and "fragment_ids" (a set).

    Types have the names that pylance gives them, such as BTree, LabelList, Inverted or IVF_PQ. The fragment reuse index and other indexes
    of the table itself are listed too. After a compaction with `defer_index_remap`, the fragments of an index are those to which the rows
    have moved.
    """
    indexes = snapshot.manifest.indexes
    names = {path[-1].id: ".".join(f.name for f in path) for path in snapshot.manifest.schema.paths()}
    found = Indexes()
    for index, now in zip(indexes, through_reuse(indexes)):
        described = {
            "name": index.name,
            "type": type_name(snapshot, index),
            "uuid": str(uuid.UUID(bytes=index.uuid)),
            "fields": [names.get(i, str(i)) for i in index.fields],
            "version": index.dataset_version,
            "fragment_ids": set(fragments_of(now) or ()),
        }
        found.append(described)
    return found


def type_name(snapshot: Snapshot, index: IndexMetadata) -> str:
    """The name of the index's type in pylance; "Unknown" if the manifest does not tell."""
    message = index.details_type.rpartition(".")[2].removesuffix("IndexDetails")
    if message == "Vector":
        return _vector_type(snapshot, index)
    return message or "Unknown"


def _vector_type(snapshot: Snapshot, index: IndexMetadata) -> str:
    from lance_spark.index.vector.make.recipe import kind_in  # imports what listing most indexes does not need

    parse_message(index_pb2.VectorIndexDetails, index.details, f"the details of the index {index.name!r}")
    return kind_in(index.details) or _vector_type_in_file(snapshot, index)


def _vector_type_in_file(snapshot: Snapshot, index: IndexMetadata) -> str:
    """The type from the index's own file, as older writers recorded it only there; "Vector" if the file does not tell."""
    store, folder = snapshot.locations.index_folder(index)
    try:
        reader = open_data_file(store, f"{folder}/index.idx", verify_checksums=snapshot.verify_checksums)
        told = json.loads(reader.schema.metadata.get(b"lance:index", b"{}"))
    except (LanceError, ValueError):
        return "Vector"
    return str(told["type"]) if isinstance(told, dict) and "type" in told else "Vector"


def index_statistics(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """The kind of an index, the number and bytes of its segments, and the fragments and rows that it covers and those that it does not.

    Of an index of vectors that was measured, also the `expected_recall` of a search (None: it is not searched), the
    `partition_imbalance`, and the `drift` of its vectors from the centroids since these were trained, see docs/searching.md.

    Raises InvalidOptionError for an unknown name.
    """
    indexes = snapshot.manifest.indexes
    pairs = zip(indexes, through_reuse(indexes))
    segments = [(i, now) for i, now in pairs if i.name == name]
    if not segments or name in SYSTEM_INDEXES:
        raise no_index(snapshot, name)
    rows = live_by_id(snapshot)
    covered = [(fragments_of(now) or BitMap()) & BitMap(rows) for _, now in segments]
    united = BitMap().union(*covered)
    return {
        "index_type": type_name(snapshot, segments[0][0]),
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
        **_measured([i for i, _ in segments]),
    }


def _measured(segments: Sequence[IndexMetadata]) -> dict[str, Any]:
    """The worst of what was measured of segments; nothing if one was not."""
    known = [measured_of(segment) for segment in segments]
    measured = [own for own in known if own is not None]
    if len(measured) < len(known):
        return {}
    recalls = [own.expected_recall for own in measured]
    found = [recall for recall in recalls if recall is not None]
    return {
        "expected_recall": min(found) if len(found) == len(recalls) else None,
        "partition_imbalance": max(own.shape.imbalance for own in measured),
        "drift": max(own.drift for own in measured),
    }


def measured_of(segment: IndexMetadata) -> Measured | None:
    """What was measured of a segment of an index of vectors; None of others."""
    kind = kind_of(segment.details_type, segment.details)
    if kind is None or not kind.trained:
        return None
    from lance_spark.index.vector.measured import measured_in  # imports what other indexes do not need

    return measured_in(segment.details)


def complaints(snapshot: Snapshot) -> dict[str, str]:
    """By the name of an index of vectors that should be trained again, why."""
    found = {}
    for segment in snapshot.manifest.indexes:
        measured = measured_of(segment)
        if measured is not None and (complaint := measured.complaint) is not None:
            found[segment.name] = complaint
    return found
