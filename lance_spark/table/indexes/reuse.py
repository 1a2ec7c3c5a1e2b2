"""Recording where a compaction moved rows, in the fragment reuse index, instead of writing the indexes anew.

Implements "Fragment Reuse Index" of the index specification; `table.scan.moved_rows` reads it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence

from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CommitConflictError
from lance_spark.index.row_sets import serialise_treemap
from lance_spark.metadata.deletion_file import live_offsets
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.metadata.operations import CreateIndex, RewriteGroup
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.build.index_coverage import FRAGMENT_REUSE, SYSTEM_INDEXES, fragments_of, is_reuse_readable, through_reuse
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)
_TYPE = "/lance.table.FragmentReuseIndexDetails"


def covering(snapshot: Snapshot, groups: Sequence[RewriteGroup]) -> BitMap:
    """The rewritten fragments that an index covers; none if there is a fragment reuse index that cannot be extended."""
    indexes = snapshot.manifest.indexes
    if not is_reuse_readable(indexes):
        return BitMap()
    old = BitMap(f.id for group in groups for f in group.old_fragments)
    covered = [fragments_of(i) or BitMap() for i in through_reuse(indexes) if i.name not in SYSTEM_INDEXES]
    return BitMap().union(*covered) & old


def record_moves(before: Snapshot, committed: Snapshot, groups: Sequence[RewriteGroup]) -> Snapshot:
    """Record the moves of the rows of `groups`, which were rewritten for the version `before`; returns the new version.

    If another writer changes the fragment reuse index at the same time, nothing is recorded: the indexes then no longer cover the rows.
    """
    known = [i for i in committed.manifest.indexes if i.name == FRAGMENT_REUSE]
    details = pb.FragmentReuseIndexDetails()
    if known:
        details = parse_message(pb.FragmentReuseIndexDetails, known[0].details, "the details of the fragment reuse index")
    version = details.inline.versions.add(dataset_version=before.version)
    for group in groups:
        _add(version, before, group)
    moved = BitMap(f.id for group in groups for f in group.new_fragments)
    covered = moved.union(*(fragments_of(i) or BitMap() for i in known))
    entry = IndexMetadata(
        uuid=uuid.uuid4().bytes,
        name=FRAGMENT_REUSE,
        fields=(),
        dataset_version=before.version,
        fragment_bitmap=covered.serialize(),
        details_type=_TYPE,
        details=details.SerializeToString(deterministic=True),
        index_version=0,
        created_at=int(time.time() * 1000),
    )
    try:
        return commit(committed.store, Transaction(committed.version, CreateIndex((entry,), tuple(known))), base=committed)
    except CommitConflictError as e:
        _LOG.warning("%s: the indexes do not cover the compacted rows until they are optimized: %s", committed, e)
        return committed


def _add(version: pb.FragmentReuseIndexDetails.Version, snapshot: Snapshot, group: RewriteGroup) -> None:
    kept = {f.id: live_offsets(f, snapshot.locations) for f in group.old_fragments}
    added = version.groups.add(changed_row_addrs=serialise_treemap({f: rows for f, rows in kept.items() if rows}))
    for f in group.old_fragments:
        added.old_fragments.add(id=f.id, physical_rows=f.physical_rows, num_deleted_rows=f.physical_rows - len(kept[f.id]))
    for f in group.new_fragments:
        added.new_fragments.add(id=f.id, physical_rows=f.physical_rows)
