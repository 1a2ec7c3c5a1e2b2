"""Naming versions: what a reference means, and making, moving and removing tags and branches.

A reference is a version number (on the branch of the snapshot in hand), the name of a tag, or a pair of a branch (None or "main": the
main one) and a version (None: its latest), as in pylance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

from lance_spark.errors import LanceError, RefConflictError, VersionNotFoundError
from lance_spark.metadata.locations import DATA, DELETIONS, INDICES
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.named_files import check_whole
from lance_spark.table.versions.ref_files import Branch, Tag
from lance_spark.table.versions.snapshot import VERSIONS, Snapshot, open_snapshot

Reference: TypeAlias = int | str | tuple[str | None, int | None]
TABLE_FOLDERS = (VERSIONS, "_transactions", DATA, DELETIONS, INDICES)


def resolve(snapshot: Snapshot, reference: Reference | None) -> Snapshot:
    """The version that `reference` means; None is the snapshot itself. Raises VersionNotFoundError."""
    if reference is None:
        return snapshot
    allow = snapshot.allow_other_stores
    if isinstance(reference, int):
        return open_snapshot(snapshot.store, version=reference, allow_other_stores=allow)
    if isinstance(reference, str):
        return open_snapshot(snapshot.root, tag=reference, allow_other_stores=allow)
    branch, version = reference
    return open_snapshot(snapshot.root, branch=branch, version=version, allow_other_stores=allow)


@dataclass(frozen=True)
class Tags:
    """The tags of a table, with pylance's names."""

    snapshot: Snapshot

    def list(self) -> dict[str, Tag]:
        """All tags by name."""
        return refs.tags(self.snapshot.root)

    def get_version(self, tag: str) -> int:
        """The version that a tag names. Raises VersionNotFoundError."""
        return refs.tag(self.snapshot.root, tag).version

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Name a version, by default this one.

        Raises RefConflictError if there is such a tag, and VersionNotFoundError if the version is not there, or not whole any more.
        """
        now = _now()
        self._put(Tag(tag, 0, None, created_at=now, updated_at=now), reference, None)

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Move a tag to another version. Raises VersionNotFoundError if there is no such tag, or as `create`."""
        before = refs.tag(self.snapshot.root, tag)
        self._put(replace(before, updated_at=_now()), reference, before)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Note other texts with a tag, in place of all that were."""
        refs.put_tag(self.snapshot.root, replace(refs.tag(self.snapshot.root, tag), metadata=metadata), new=False)

    def delete(self, tag: str) -> None:
        """Remove a tag. Raises VersionNotFoundError if there is none."""
        refs.delete_tag(self.snapshot.root, tag)

    def _put(self, tag: Tag, reference: Reference | None, before: Tag | None) -> None:
        """Write a tag, in the place of the one that was `before`."""
        refs.check_tag_name(tag.name)
        root, named = self.snapshot.root, resolve(self.snapshot, reference)
        size = named.store.size(named.path)
        tag = replace(tag, version=named.version, branch=named.manifest.branch, manifest_size=size)
        refs.put_tag(root, tag, new=before is None)
        try:
            check_whole(named)
        except LanceError:
            self._undo(tag.name, before)
            raise

    def _undo(self, name: str, before: Tag | None) -> None:
        """Put back the tag that was `before`, if its version is still there."""
        root = self.snapshot.root
        if before is not None:
            refs.put_tag(root, before, new=False)
            with contextlib.suppress(VersionNotFoundError):
                check_whole(open_snapshot(root, version=before.version, branch=before.branch))
                return
        refs.delete_tag(root, name)


@dataclass(frozen=True)
class Branches:
    """The branches of a table but the main one, with pylance's names. They are made by `Dataset.create_branch`."""

    snapshot: Snapshot

    def list(self) -> dict[str, Branch]:
        """All branches by name."""
        return refs.branches(self.snapshot.root)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Note other texts with a branch, in place of all that were."""
        refs.put_branch(self.snapshot.root, replace(refs.branch(self.snapshot.root, branch), metadata=metadata), new=False)

    def delete(self, branch: str) -> None:
        """Remove a branch with its files, also what is left of one whose making or removal was cut short.

        Raises VersionNotFoundError if there is none, and RefConflictError while a tag, a clone or another branch needs it.
        """
        root, folder, allow = self.snapshot.root, refs.branch_folder(branch), self.snapshot.allow_other_stores
        others = refs.branches(root)
        known = others.pop(branch, None)
        files = list(_files_of_branch(root, branch, others))
        _check_not_needed(root, branch, allow)
        refs.delete_branch(root, branch)
        try:
            # Somebody may have named a version of the branch meanwhile; from now on they find that there is no branch.
            _check_not_needed(root, branch, allow)
        except RefConflictError:
            if known is not None:
                refs.put_branch(root, known, new=False)
            raise
        manifests = external(root.at(f"{root.uri}/{folder}"))
        remembered = manifests is not None and manifests.forget()
        if known is None and not files and not remembered:
            refs.branch(root, branch)
        # The versions go first, so that no reader finds a version whose files are gone.
        for path in sorted(files, key=lambda path: f"/{VERSIONS}/" not in path):
            root.delete(path)


def _check_not_needed(root: Store, branch: str, allow_other_stores: bool) -> None:
    users = [f"branch {b.name!r}" for b in refs.branches(root).values() if b.parent_branch == branch]
    users += [f"tag {t.name!r}" for t in refs.tags(root).values() if t.branch == branch]
    users += [
        f"clone {shown(c.uri)!r} (noted in {refs.CLONES}/{c.id}.json)"
        for c in refs.clones(root)
        if c.branch == branch and clone_exists(root, c.uri, allow_other_stores)
    ]
    if users:
        raise RefConflictError(f"{root.uri}/{refs.branch_folder(branch)} is still needed by {', '.join(users)}")


def clone_exists(store: Store, uri: str, allow_other_stores: bool = False) -> bool:
    """Whether there is still a table at `uri`, which a record of the table at `store` names.

    True when that cannot be known: when the place does not answer, is not named as this package names places, or is in another store,
    which is only asked with `allow_other_stores`: it would be asked with the credentials of this one.
    """
    with contextlib.suppress(LanceError):
        there = store.at(uri)
        if there.uri == uri and (allow_other_stores or there.location.is_in_store_of(store.location)):
            return any(entry.name.endswith(".manifest") for entry in there.list(VERSIONS))
    return True


def _files_of_branch(root: Store, branch: str, others: Mapping[str, Branch]) -> Iterator[str]:
    """The paths of the files of a branch, without those of branches whose folders are inside its own."""
    folder = refs.branch_folder(branch)
    inner = tuple(f"{refs.branch_folder(other)}/" for other in others if other.startswith(f"{branch}/"))
    for part in TABLE_FOLDERS:
        for entry in root.walk(f"{folder}/{part}"):
            path = f"{folder}/{part}/{entry.name}"
            if not path.startswith(inner):
                yield path


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
