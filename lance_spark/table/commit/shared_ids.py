"""Fragments that share an id, which Lance 0.16 and earlier could write. They get distinct ids before the table is changed.

Row addresses, index entries and operations cannot distinguish such fragments. To other writers, the change is a Rewrite of their rows.
"""

from __future__ import annotations

from dataclasses import replace

from lance_spark.metadata.deletion_file import read_deletions, write_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Rewrite, RewriteGroup
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.build.manifest_builder import NO_SETTINGS, build
from lance_spark.table.build.old_writers import highest_fragment_id
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.spilled_lineage import with_lineage


def separation(snapshot: Snapshot, free: int) -> Rewrite:
    """A Rewrite that gives fragments with shared ids new ones, starting at `free`. Writes deletion files, whose names contain the id."""
    groups = []
    for shared in snapshot.manifest.lazy_fragments.shared_ids.tolist():
        old = tuple(f for f in snapshot.manifest.fragments if f.id == shared)
        new = tuple(_renumbered(snapshot, f, free + i) for i, f in enumerate(old))
        groups.append(RewriteGroup(old, new))
        free += len(new)
    return Rewrite(tuple(groups))


def _renumbered(snapshot: Snapshot, fragment: Fragment, id: int) -> Fragment:
    deletion = fragment.deletion
    if deletion is not None:
        deletion = write_deletions(snapshot.store, id, snapshot.version, read_deletions(fragment, snapshot.locations))
    return replace(fragment, id=id, deletion=deletion)


def separated(snapshot: Snapshot, free: int) -> Manifest:
    """The snapshot's manifest with distinct fragment ids, starting at `free` for changed ones. Writes deletion files."""
    manifest = with_lineage(snapshot.manifest, snapshot.locations)
    if not len(manifest.lazy_fragments.shared_ids):
        return manifest
    rewrite = separation(snapshot, max(free, highest_fragment_id(manifest) + 1))
    return replace(build(manifest, Transaction(snapshot.version, rewrite), NO_SETTINGS, 0), version=manifest.version)
