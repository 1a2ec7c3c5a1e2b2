"""Two branches of a table, and the last version that both contain.

A branch contains the version that it was made of, and the versions of other branches that were merged into
it (see `metadata.branch_merges`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lance_spark.errors import UnsupportedFeatureError, VersionNotFoundError
from lance_spark.metadata.branch_merges import MAIN, MERGED, NO_IDS, BranchMerge, IdRuns, record_of
from lance_spark.metadata.manifest import BasePath
from lance_spark.schema.primary_key import primary_key
from lance_spark.table.maintenance.clone import with_bases
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import Snapshot, opened_as
from lance_spark.table.versions.spilled_lineage import with_lineage
from lance_spark.table.versions.tags_and_branches import resolve
from lance_spark.table.versions.write_ahead_log import has_log


@dataclass(frozen=True)
class Heads:
    """The latest versions of two branches: the changes of `theirs` are to be seen in, or merged into, `ours`."""

    theirs: Snapshot
    ours: Snapshot

    @classmethod
    def of(cls, snapshot: Snapshot, theirs: str, ours: str) -> Heads:
        """The latest versions of two branches of the snapshot's table. Raises VersionNotFoundError."""
        return cls(latest_of(snapshot, theirs), latest_of(snapshot, ours))

    @cached_property
    def our_record(self) -> BranchMerge | None:
        """What our branch records of theirs."""
        return _record(self.ours, self.theirs)

    @cached_property
    def their_record(self) -> BranchMerge | None:
        """What their branch records of ours."""
        return _record(self.theirs, self.ours)

    @cached_property
    def base(self) -> Snapshot:
        """The last version that is a part of both branches, seen from theirs."""
        ours, later = self.our_record, self._later_record
        if later is not None and later.published:
            return _opened(self.theirs, self.theirs.manifest.branch, later.into)
        if later is not None:
            return seen_from(_recorded(self.ours, later), self.theirs)
        if ours is not None:
            return _recorded(self.theirs, ours)
        return seen_from(self._fork, self.theirs)

    @property
    def _later_record(self) -> BranchMerge | None:
        """The merge of ours into theirs, if it is later than that of theirs into ours."""
        ours, theirs = self.our_record, self.their_record
        if theirs is None or (ours is not None and theirs.into <= ours.version):
            return None
        return theirs

    @cached_property
    def same_below(self) -> int:
        """Rows with lower row ids are the same in both branches."""
        known = [record.same_below for record in (self.our_record, self.their_record) if record is not None]
        return max(known) if known else self._fork.manifest.next_row_id

    @cached_property
    def ids(self) -> IdRuns:
        """The pairs of higher row ids that are the same row."""
        ours = NO_IDS if self.our_record is None else self._ids_in(self.our_record)
        theirs = NO_IDS if self.their_record is None else self._ids_in(self.their_record).swapped
        return ours.followed_by(theirs) if self._later_record is not None else theirs.followed_by(ours)

    def _ids_in(self, record: BranchMerge) -> IdRuns:
        """The pairs of a record; none if the branches have since been made the same."""
        return record.ids if record.same_below == self.same_below else NO_IDS

    @property
    def is_ahead(self) -> bool:
        """Whether their branch contains all of ours: ours has not changed since they were the same."""
        ours, theirs = self.our_record, self.their_record
        if ours is not None and ours.published and ours.into == self.ours.version:
            return True
        if theirs is not None:
            return theirs.version == self.ours.version and theirs.identity == self.ours.identity
        fork = self._fork
        return fork.store.uri == self.ours.store.uri and fork.version == self.ours.version

    @cached_property
    def _fork(self) -> Snapshot:
        """The last version before the two branches parted."""
        theirs, ours = (_line(head) for head in (self.theirs, self.ours))
        known = {step.branch: step.version for step in ours}
        shared = next(step for step in theirs if step.branch in known)
        version = min(shared.version, known[shared.branch])
        return _opened(self.theirs, shared.branch, version)

    @property
    def is_same(self) -> bool:
        """Whether nothing has changed in theirs since it is a part of ours."""
        ours, later = self.our_record, self._later_record
        if later is not None:
            return later.published and later.into == self.theirs.version
        if ours is not None:
            return ours.version == self.theirs.version and ours.identity == self.theirs.identity
        return self._fork.store.uri == self.theirs.store.uri and self._fork.version == self.theirs.version

    def check_two(self) -> None:
        """Raise UnsupportedFeatureError for one branch instead of two, and for branches with a write-ahead log."""
        if self.theirs.store.uri == self.ours.store.uri:
            raise UnsupportedFeatureError(f"{self.ours.store.uri}: both are the branch {name_of(self.ours)!r}; name two")
        for head in (self.theirs, self.ours):
            if has_log(head.manifest):
                raise UnsupportedFeatureError(f"{head}: merge the write-ahead log of the branch first (CALL merge_mem_wal)")

    def check_comparable(self) -> None:
        """Raise UnsupportedFeatureError for branches whose rows cannot be told apart."""
        self.check_two()
        if self.key:
            return
        for head in (self.theirs, self.ours):
            if not head.manifest.has_stable_row_ids:
                raise UnsupportedFeatureError(
                    f"{head}: nothing tells which rows of two branches are the same; give the table a primary key, "
                    "or write it with stable row ids (enable_stable_row_ids=True)"
                )
        if both := self._merged_since(self.theirs) & self._merged_since(self.ours):
            raise UnsupportedFeatureError(
                f"{self.ours}: both branches contain merges of {', '.join(sorted(both))}, and row ids do not tell which "
                "of these rows they have in common; give the table a primary key"
            )

    def _merged_since(self, head: Snapshot) -> set[str]:
        """The names of other branches that were merged into a branch since the two parted."""
        config = head.manifest.config
        names = {key.removeprefix(MERGED) for key in config if key.startswith(MERGED)}
        names -= {name_of(self.theirs), name_of(self.ours)}
        records = {name: record_of(config, name) for name in names}
        return {name for name, record in records.items() if record is not None and record.into > self._fork.version}

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, if both branches have the same one; otherwise none."""
        theirs, ours = (tuple(f.name for f in primary_key(head.manifest.schema)) for head in (self.theirs, self.ours))
        return theirs if theirs == ours else ()


@dataclass(frozen=True)
class PickedHeads(Heads):
    """One version of their branch, of which only what it has changed since `before` is to be taken over."""

    before: Snapshot

    @property
    def base(self) -> Snapshot:
        return self.before


@dataclass(frozen=True)
class _Step:
    """A branch (None: the main one), up to a version."""

    branch: str | None
    version: int


def latest_of(snapshot: Snapshot, branch: str) -> Snapshot:
    """The latest version of a branch of the snapshot's table. Raises VersionNotFoundError, also if the table was made anew."""
    refs.check_not_in_transaction(snapshot, snapshot.manifest.branch, "other branches")
    return _opened(snapshot, None if branch == MAIN else branch, None)


def id_of(head: Snapshot) -> str:
    """What distinguishes a branch from earlier ones of the same name."""
    name = head.manifest.branch
    identifier = () if name is None else refs.branch(head.root, name).identifier
    return identifier[-1][1] if identifier else ""


def _record(head: Snapshot, other: Snapshot) -> BranchMerge | None:
    """What a branch records of another one."""
    record = record_of(head.manifest.config, other.manifest.branch)
    return record if record is not None and record.branch_id == id_of(other) else None


def name_of(snapshot: Snapshot) -> str:
    """The name of the branch of a version."""
    return snapshot.manifest.branch or MAIN


def seen_from(snapshot: Snapshot, other: Snapshot) -> Snapshot:
    """The version with the files of its manifest named as in the branch of `other`, in whose store it is then read.

    So the fragments of both can be compared as they are. A base path that `other` lacks gets a new id.
    """
    if snapshot.store.uri == other.store.uri:
        return snapshot
    locations = other.locations
    known: dict[tuple[str, bool], int | None] = {
        (locations.store_of(base).uri, base.is_dataset_root): base.id for base in other.manifest.base_paths
    }
    known[other.store.uri, True] = None
    bases, ids = list(other.manifest.base_paths), {}
    own = BasePath(-1, snapshot.store.uri, True, snapshot.manifest.branch)
    for base in (own, *snapshot.manifest.base_paths):
        place = (snapshot.locations.store_of(base).uri, base.is_dataset_root)
        if place not in known:
            free = max((b.id for b in bases), default=-1) + 1
            bases.append(replace(base, id=free))
            known[place] = free
        ids[None if base is own else base.id] = known[place]
    manifest = with_bases(with_lineage(snapshot.manifest, snapshot.locations), lambda id: ids[id])
    return replace(snapshot, store=other.store, manifest=replace(manifest, base_paths=tuple(bases)))


def _line(head: Snapshot) -> Sequence[_Step]:
    """The branch of a version, and those that it comes from, each up to the version at which the next one was made."""
    found = [_Step(head.manifest.branch, head.version)]
    while (name := found[-1].branch) is not None:
        branch = refs.branch(head.root, name)
        found.append(_Step(branch.parent_branch, branch.parent_version))
    return found


def _opened(head: Snapshot, branch: str | None, version: int | None) -> Snapshot:
    return opened_as(head, resolve(head, (branch, version)))


def _recorded(head: Snapshot, record: BranchMerge) -> Snapshot:
    """The version of the branch of `head` that a record names. Raises VersionNotFoundError."""
    found = None
    with contextlib.suppress(VersionNotFoundError):
        found = _opened(head, head.manifest.branch, record.version)
    if found is None or found.identity != record.identity:
        raise VersionNotFoundError(
            f"{head}: version {record.version} of the branch {name_of(head)!r}, up to which it was merged, has been "
            "removed, or the branch was made anew; copy the rows with INSERT or MERGE instead"
        )
    return found
