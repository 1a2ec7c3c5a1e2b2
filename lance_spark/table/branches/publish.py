"""Publishing a branch: another branch, which has not changed meanwhile, becomes what it is, in one commit.

No data is copied: the new version names the files of the branch by a base path. A tag holds the branch, as
the source of a clone is held.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.display.figures import Figures
from lance_spark.errors import CommitConflictError, RefConflictError
from lance_spark.metadata.branch_merges import MERGE, BranchMerge
from lance_spark.metadata.fragment import Fragment, LineageSequence
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Merge
from lance_spark.metadata.row_ids import parse_versions, serialise_versions
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.branches.heads import Heads, id_of, name_of, seen_from
from lance_spark.table.branches.holds import held_for_files, held_for_merges
from lance_spark.table.commit.commit import commit_next
from lance_spark.table.maintenance.clone import copy_file, files_to_copy, with_bases
from lance_spark.table.maintenance.progress import untracked
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions


@dataclass(frozen=True)
class FastForward(Figures):
    """The branch that was changed, and its latest versions before and after, with the names of Iceberg."""

    branch_updated: str
    previous_ref: int
    updated_ref: int


def fast_forward(
    snapshot: Snapshot,
    branch: str,
    to: str,
    copy: bool = False,
    options: WriteOptions = NO_OPTIONS,
) -> FastForward:
    """Give `branch` the rows, columns, indexes and config of the branch `to`, which contains it.

    The names of the arguments are those of Iceberg's procedure: `fast_forward('main', 'dev')` publishes dev.
    With `copy`, the files of `to` are copied, so that it can be deleted. Nothing is committed if both are the
    same. Raises RefConflictError if `branch` has changed since they were the same: merge `to` into it, or
    rebase `to` first.
    """
    heads = Heads.of(snapshot, to, branch)
    heads.check_two()
    if not heads.is_ahead:
        raise RefConflictError(
            f"{heads.ours.root.uri}: the branch {branch!r} has changed since {to!r} was made of it or merged it; "
            f"merge {to!r} into {branch!r}, or rebase {to!r} first"
        )
    before = heads.ours.version
    if heads.is_same:
        return FastForward(branch, before, before)
    record = BranchMerge(
        name_of(heads.theirs),
        id_of(heads.theirs),
        heads.theirs.version,
        heads.theirs.identity,
        0,
        heads.theirs.manifest.next_row_id,
        published=True,
    )
    with contextlib.ExitStack() as held:
        held.enter_context(held_for_merges(heads.theirs, heads.ours))
        if copy:
            published = copied(heads.theirs, heads.ours)
        else:
            held.enter_context(held_for_files(heads.theirs, heads.ours))
            published = seen_from(heads.theirs, heads.ours).manifest
        return FastForward(branch, before, _commit(heads, published, record, options).version)


def copied(theirs: Snapshot, ours: Snapshot) -> Manifest:
    """The manifest of their branch with its own files copied to ours. A cleanup removes the copies if the commit fails."""
    for to, (store, path) in files_to_copy(theirs).items():
        if store.uri == theirs.store.uri:
            copy_file(store, path, ours.store, to, untracked)
    seen = seen_from(theirs, ours)
    own = {base.id for base in seen.manifest.base_paths if seen.locations.store_of(base).uri == theirs.store.uri}
    manifest = with_bases(seen.manifest, lambda id: None if id in own else id)
    return replace(manifest, base_paths=tuple(base for base in manifest.base_paths if base.id not in own))


def _commit(heads: Heads, published: Manifest, record: BranchMerge, options: WriteOptions) -> Snapshot:
    ours = heads.ours
    published = as_of(published, ours.version)
    operation = Merge(tuple(published.fragments), published.schema, published=published)
    properties = {**options.noted, MERGE: record.to_json()}
    done = commit_next(ours.store, Transaction(ours.version, operation, properties=properties), ours)
    if done is None:
        raise CommitConflictError(
            f"{ours}: another writer has changed the branch {name_of(ours)!r} meanwhile; merge {name_of(heads.theirs)!r} into it",
            retryable=False,
        )
    return done


def as_of(manifest: Manifest, before: int) -> Manifest:
    """The manifest of a branch as the version after `before`: what the branch has changed since is changed by that version.

    Versions of a branch are counted from that at which it was made, so theirs may be higher than ours.
    """
    fragments = tuple(_marked(fragment, before) for fragment in manifest.fragments)
    indexes = tuple(replace(index, dataset_version=min(index.dataset_version, before + 1)) for index in manifest.indexes)
    return replace(manifest, fragments=fragments, indexes=indexes)


def _marked(fragment: Fragment, before: int) -> Fragment:
    created, updated = (_limited(data, fragment, before + 1) for data in (fragment.created_at, fragment.updated_at))
    return replace(fragment, created_at=created, updated_at=updated)


def _limited(sequence: LineageSequence | None, fragment: Fragment, highest: int) -> LineageSequence | None:
    if not isinstance(sequence, bytes):  # there is none: `seen_from` makes others inline
        return sequence
    versions = parse_versions(sequence, fragment.physical_rows).at(range(fragment.physical_rows))
    if not len(versions) or versions.max() <= highest:
        return sequence
    return serialise_versions(np.minimum(versions, np.uint64(highest)))
