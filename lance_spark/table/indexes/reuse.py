"""Recording where a compaction moved rows, in the fragment reuse index, instead of writing the indexes anew.

Implements "Fragment Reuse Index" of the index specification; `table.scan.moved_rows` reads it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.index.row_sets import serialise_treemap
from lance_spark.metadata.deletion_file import live_offsets
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.metadata.operations import RewriteGroup
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.build.reuse_history import FRAGMENT_REUSE, is_reuse_readable
from lance_spark.table.versions.snapshot import Snapshot

_TYPE = "/lance.table.FragmentReuseIndexDetails"


def covering(snapshot: Snapshot, groups: Sequence[RewriteGroup]) -> BitMap:
    """The rewritten fragments that an index covers; none if there is a fragment reuse index that cannot be extended."""
    indexes = snapshot.manifest.indexes
    if not is_reuse_readable(indexes):
        return BitMap()
    old = BitMap(f.id for group in groups for f in group.old_fragments)
    covered = [fragments_of(i) or BitMap() for i in through_reuse(indexes) if i.name not in SYSTEM_INDEXES]
    return BitMap().union(*covered) & old


def moves_of(snapshot: Snapshot, groups: Sequence[RewriteGroup]) -> IndexMetadata:
    """The entry of the fragment reuse index for `groups`, which are rewritten and whose new fragments have their final ids."""
    details = pb.FragmentReuseIndexDetails()
    version = details.inline.versions.add(dataset_version=snapshot.version)
    for group in groups:
        _add(version, snapshot, group)
    return IndexMetadata(
        uuid=uuid.uuid4().bytes,
        name=FRAGMENT_REUSE,
        fields=(),
        dataset_version=snapshot.version,
        fragment_bitmap=BitMap(f.id for group in groups for f in group.new_fragments).serialize(),
        details_type=_TYPE,
        details=details.SerializeToString(deterministic=True),
        index_version=0,
        created_at=int(time.time() * 1000),
    )


def _add(version: pb.FragmentReuseIndexDetails.Version, snapshot: Snapshot, group: RewriteGroup) -> None:
    kept = {f.id: live_offsets(f, snapshot.locations) for f in group.old_fragments}
    added = version.groups.add(changed_row_addrs=serialise_treemap({f: rows for f, rows in kept.items() if rows}))
    for f in group.old_fragments:
        added.old_fragments.add(id=f.id, physical_rows=f.physical_rows, num_deleted_rows=f.physical_rows - len(kept[f.id]))
    for f in group.new_fragments:
        added.new_fragments.add(id=f.id, physical_rows=f.physical_rows)
