"""References to versions, and creating, moving and removing tags and branches.

As in pylance, a reference is a version number (on the snapshot's branch), the name of a tag, or a pair of a branch (None or "main": the
main one) and a version (None: its latest).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from lance_spark.display.arguments import known_arguments
from lance_spark.errors import LanceError, RefConflictError, VersionNotFoundError
from lance_spark.metadata.locations import DATA, DELETIONS, INDICES
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.clones import Held, drop_tags_of_gone_clones, is_hold, is_needed
from lance_spark.table.versions.named_files import check_whole
from lance_spark.table.versions.ref_files import MERGED_TAG, Branch, BranchList, Tag, TagList
from lance_spark.table.versions.snapshot import VERSIONS, Snapshot, of_same_table, open_snapshot

Reference: TypeAlias = int | str | tuple[str | None, int | None]
TABLE_FOLDERS = (VERSIONS, "_transactions", DATA, DELETIONS, INDICES)


def resolve(snapshot: Snapshot, reference: Reference | None) -> Snapshot:
    """Open the version that `reference` refers to; None is the snapshot itself. Raises VersionNotFoundError.

    It also raises that if the table was dropped and made anew: the numbers and tags would be those of another table.
    """
    with of_same_table(snapshot):
        return snapshot if reference is None else _opened(snapshot, reference)


def _opened(snapshot: Snapshot, reference: Reference) -> Snapshot:
    allow = snapshot.allow_other_stores
    if isinstance(reference, int):
        return open_snapshot(snapshot.store, version=reference, allow_other_stores=allow)
    if isinstance(reference, str):
        return open_snapshot(snapshot.root, tag=reference, allow_other_stores=allow)
    if not isinstance(reference, tuple) or len(reference) != 2:
        raise TypeError(f"a version must be a number, the name of a tag or (branch, number), not {reference!r}")
    branch, version = reference
    return open_snapshot(snapshot.root, branch=branch, version=version, allow_other_stores=allow)


@known_arguments
@dataclass(frozen=True)
class Tags:
    """The tags of a table. The methods are named as in pylance."""

    snapshot: Snapshot

    def __repr__(self) -> str:
        return f"Tags({self.snapshot.root.uri!r})"

    def _repr_html_(self) -> str:
        return self.list()._repr_html_()

    def list(self) -> TagList:
        """List the tags, by name."""
        return refs.tags(self.snapshot.root)

    def get_version(self, tag: str) -> int:
        """The version that a tag refers to. Raises VersionNotFoundError."""
        return refs.tag(self.snapshot.root, tag).version

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Create a tag for a version, by default this one.

        Raises RefConflictError if the tag exists, and VersionNotFoundError if the version, or one of its files, does not. A name with
        letters that are not ASCII is refused with ValueError: pylance could not list the tags of the table any more.
        """
        refs.check_new_tag_name(tag)
        now = refs.now()
        self._put(Tag(tag, 0, None, created_at=now, updated_at=now), reference, None)

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Move a tag to another version, by default this one. Raises VersionNotFoundError if the tag does not exist, or as `create`."""
        before = refs.tag(self.snapshot.root, tag)
        self._put(replace(before, updated_at=refs.now()), reference, before)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replace the tag's metadata."""
        refs.put_tag(self.snapshot.root, replace(refs.tag(self.snapshot.root, tag), metadata=metadata), new=False)

    def delete(self, tag: str) -> None:
        """Remove a tag. Raises VersionNotFoundError if it does not exist."""
        refs.delete_tag(self.snapshot.root, tag)

    def _put(self, tag: Tag, reference: Reference | None, before: Tag | None) -> None:
        """Write a tag, replacing `before` (None: the tag is new)."""
        refs.check_tag_name(tag.name)
        root, named = self.snapshot.root, resolve(self.snapshot, reference)
        refs.check_not_in_transaction(named, named.manifest.branch, "tags")
        size = named.store.size(named.path)
        tag = replace(tag, version=named.version, branch=named.manifest.branch, manifest_size=size)
        refs.put_tag(root, tag, new=before is None)
        try:
            check_whole(named)
        except LanceError:
            self._undo(tag.name, before)
            raise

    def _undo(self, name: str, before: Tag | None) -> None:
        """Restore the tag `before` if its version still exists; otherwise remove the tag."""
        root = self.snapshot.root
        if before is not None:
            refs.put_tag(root, before, new=False)
            with contextlib.suppress(VersionNotFoundError):
                check_whole(open_snapshot(root, version=before.version, branch=before.branch))
                return
        refs.delete_tag(root, name)


@known_arguments
@dataclass(frozen=True)
class Branches:
    """The branches of a table except the main one, with pylance's names. `Dataset.create_branch` creates them."""

    snapshot: Snapshot

    def __repr__(self) -> str:
        return f"Branches({self.snapshot.root.uri!r})"

    def _repr_html_(self) -> str:
        return self.list()._repr_html_()

    def list(self) -> BranchList:
        """List the branches but the main one, by name."""
        return refs.branches(self.snapshot.root)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replace the branch's metadata."""
        refs.put_branch(self.snapshot.root, replace(refs.branch(self.snapshot.root, branch), metadata=metadata), new=False)

    def delete(self, branch: str) -> None:
        """Remove a branch with its files. This also removes the remains of an interrupted creation or removal.

        Raises VersionNotFoundError if the branch does not exist, and RefConflictError while a tag, a clone or another branch uses it,
        and for the branch of a transaction over several tables: it may have rows that are committed, but not in the table yet.
        """
        if branch.startswith(refs.TRANSACTION_BRANCH):
            what = "belongs to a transaction, which removes it when it is committed or rolled back, or after a week"
            raise RefConflictError(f"{self.snapshot.root.uri}/{refs.branch_folder(branch)} {what}")
        self.remove(branch)

    def remove(self, branch: str) -> None:
        """Remove a branch as `delete` does, also the branch of a transaction, which is known to be over."""
        root, folder, allow = self.snapshot.root, refs.branch_folder(branch), self.snapshot.allow_other_stores
        others = refs.branches(root)
        known = others.pop(branch, None)
        files = list(_files_of_branch(root, branch, others))
        _check_not_needed(root, branch, allow)
        refs.delete_branch(root, branch)
        try:
            # A reference to the branch may have been created meanwhile. From now on, creating one fails because the branch is gone.
            _check_not_needed(root, branch, allow)
        except RefConflictError:
            if known is not None:
                refs.put_branch(root, known, new=False)
            raise
        drop_tags_of_gone_clones(root, branch, allow)
        for tag in refs.tags(root).values():
            if tag.branch == branch and tag.name.startswith(MERGED_TAG):
                Held(root, tag).remove()
        manifests = external(root.at(f"{root.uri}/{folder}"))
        remembered = manifests is not None and manifests.forget()
        if known is None and not files and not remembered:
            refs.branch(root, branch)
        # Manifests are removed first, so that no reader finds a version without its files.
        for path in sorted(files, key=lambda path: f"/{VERSIONS}/" not in path):
            root.delete(path)


def _check_not_needed(root: Store, branch: str, allow_other_stores: bool) -> None:
    users = [f"branch {b.name!r}" for b in refs.branches(root).values() if b.parent_branch == branch]
    tags = (t for t in refs.tags(root).values() if t.branch == branch)
    users += [f"tag {t.name!r}" for t in tags if not is_hold(t.name)]
    for clone in refs.clones(root):
        if clone.branch == branch and is_needed(root, clone, allow_other_stores):
            users.append(f"clone {shown(clone.uri)!r} (recorded in {clone.path})")
    if users:
        raise RefConflictError(f"{root.uri}/{refs.branch_folder(branch)} is still used by {', '.join(users)}; remove them first")


def _files_of_branch(root: Store, branch: str, others: Mapping[str, Branch]) -> Iterator[str]:
    """The paths of a branch's files, without those of branches whose folders are inside its folder."""
    folder = refs.branch_folder(branch)
    inner = tuple(f"{refs.branch_folder(other)}/" for other in others if other.startswith(f"{branch}/"))
    for part in TABLE_FOLDERS:
        for entry in root.walk(f"{folder}/{part}"):
            path = f"{folder}/{part}/{entry.name}"
            if not path.startswith(inner):
                yield path
