"""Shallow clones: the tags by which they hold the versions of other tables whose files they read.

A tag keeps a version in cleanups of every library. Its name is `CLONE_TAG`, the name of the clone's folder and a unique id; its
metadata has the clone's URI. It is removed when the clone is dropped, or by a cleanup of this package that finds the clone gone.
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from lance_spark.errors import (
    UNREADABLE,
    CorruptFileError,
    LanceError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    logged,
)
from lance_spark.metadata.manifest import BasePath
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.named_files import NamedFiles
from lance_spark.table.versions.ref_files import CLONE_TAG, CLONE_URI, MERGED_TAG, CloneRecord, Tag
from lance_spark.table.versions.snapshot import VERSIONS, Snapshot, find_version, list_versions, open_snapshot

_LOG = logging.getLogger(__name__)
_MOST_OF_NAME = 60
"""Letters of a clone's name in the name of its tag. The id makes the tag unique."""

_PUBLICATION = timedelta(hours=1)
"""The longest time that the publication of a branch takes, from its tag to its commit."""


@dataclass(frozen=True)
class Held:
    """A version of the table at `root` that a clone reads files of, and the tag that holds it."""

    root: Store
    tag: Tag

    def put(self) -> None:
        """Write the tag. Raises StorageError."""
        refs.put_tag(self.root, self.tag, new=False)

    def remove(self) -> None:
        """Remove the tag. Never raises."""
        with logged(f"{self.root.uri}: removing the tag {self.tag.name}"), contextlib.suppress(VersionNotFoundError):
            refs.delete_tag(self.root, self.tag.name)

    def keep(self) -> None:
        """Write the tag again if a cleanup that has not seen the clone has removed it.

        Raises VersionNotFoundError if the version is gone, too.
        """
        with contextlib.suppress(StorageError):
            if self.tag.name not in refs.tags(self.root):
                self.put()
        store, branch = self.root, self.tag.branch
        if branch is not None:
            store = store.at(f"{store.uri}/{refs.branch_folder(branch)}")
        if find_version(store, self.tag.version) is None:
            raise VersionNotFoundError(f"{store.uri}, version {self.tag.version}, has been removed; use another version")


class Holds:
    """The tags of a new clone at `target` of the version `source`, in all tables whose files it will read.

    `failures` are the tables that cannot be written to, or that have no version with these files.
    """

    def __init__(self, source: Snapshot, target: Store) -> None:
        self._source, self._target = source, target
        self._name = _tag_name(target.uri)
        self._held: list[Held] = []
        self._failures: dict[str, str] = {}

    def take(self) -> None:
        """Write the tags, before the clone is there."""
        self._hold(self._source)
        for base in self._source.manifest.base_paths:
            try:
                for version in _versions_with_files(self._source, base):
                    self._hold(version)
            except UNREADABLE as e:
                self._failures[base.path] = str(e)

    def keep(self) -> None:
        """Check that all tags, and the versions that they hold, are still there, once the clone is. Raises VersionNotFoundError."""
        for held in self._held:
            held.keep()

    def remove(self) -> None:
        """Remove the tags, since there is no clone. Never raises."""
        for held in self._held:
            held.remove()

    def warn(self) -> None:
        """Warn of the tables whose cleanups may remove files that the clone reads."""
        for uri, reason in self._failures.items():
            message = (
                f"the clone {self._target.uri} is not protected: a cleanup of {shown(uri)} may remove files that it reads, because no tag "
                f"could be written there ({reason}); tag the version as a user who may write to that table, or make a deep clone"
            )
            _LOG.warning("%s", message)
            warnings.warn(message, stacklevel=4)

    def _hold(self, version: Snapshot) -> None:
        now = refs.now()
        branch, metadata = version.manifest.branch, {CLONE_URI: self._target.uri}
        name = self._name if not self._held else f"{self._name}.{len(self._held)}"
        try:
            size = version.store.size(version.path)
            held = Held(version.root, Tag(name, version.version, branch, size, now, now, metadata))
            held.put()
            self._held.append(held)
        except StorageError as e:
            self._failures[version.root.uri] = str(e)


def _tag_name(uri: str) -> str:
    folder = re.sub("[^A-Za-z0-9_-]+", "-", uri.rstrip("/").rpartition("/")[2].removesuffix(".lance")).strip("-")
    return f"{CLONE_TAG}{folder[:_MOST_OF_NAME]}.{uuid.uuid4().hex[:12]}"


def _versions_with_files(source: Snapshot, base: BasePath) -> Iterator[Snapshot]:
    """Versions of the other table at a base path that together name all of its files that `source` reads; none if it has no versions.

    Usually one has all, since a clone starts from one. Raises CorruptFileError if files are left that no version names.
    """
    named = NamedFiles()
    named.add(source.manifest, {base.id})
    left = named.keys
    if not left or not base.is_dataset_root or source.locations.is_inside(base, source.root):
        return  # a branch is kept by its table
    try:
        store = source.locations.store_of(base)
        latest = open_snapshot(store, allow_other_stores=source.allow_other_stores)
    except TableNotFoundError:
        return
    branch = latest.manifest.branch
    records = refs.clones(latest.root)
    recorded = {c.version for c in records if c.uri == source.root.uri and c.branch == branch}
    # A clone begins with the number of the version that it was made of.
    likely = sorted(list_versions(store), key=lambda number: (number not in recorded, number > source.version, -number))
    for number in likely:
        version = find_version(store, number, source.allow_other_stores)
        if version is None:
            continue
        own = NamedFiles()
        own.add(version.manifest, {None})
        if not left.isdisjoint(own.keys):
            left = left - own.keys
            yield version
        if not left:
            return
    raise CorruptFileError(f"no version names {len(left)} files that the clone reads, such as {min(left)}")


def held_by(store: Store) -> list[Held]:
    """The tags in other tables that hold what the table at `store` reads of them. Tables that cannot be read are left out."""
    try:
        clone = open_snapshot(store)
    except LanceError:
        return []
    found: dict[tuple[str, str], Held] = {}
    for base in clone.manifest.base_paths:
        with contextlib.suppress(LanceError):
            root = clone.locations.root_of(base)
            for tag in refs.tags(root).values():
                if is_clone(tag.name) and tag.metadata.get(CLONE_URI) == clone.root.uri:
                    found[root.uri, tag.name] = Held(root, tag)
    return list(found.values())


@contextlib.contextmanager
def dropping(store: Store) -> Iterator[None]:
    """Wrap what deletes the table at `store`: if it is a clone, the versions that it holds in other tables are released afterwards."""
    tags = held_by(store)
    yield
    for held in tags:
        held.remove()


@contextlib.contextmanager
def moving(store: Store, to: Store) -> Iterator[None]:
    """Wrap what moves the table at `store`: if it is a clone, the versions that it holds in other tables stay held.

    Raises UnsupportedFeatureError for a table with branches, and for one that reads files of a branch: manifests name such files by
    the whole path of the table, in which they would be missing.
    """
    if branches := refs.branches(store):
        raise UnsupportedFeatureError(
            f"{store.uri} has the branches {', '.join(branches)}, whose files are named by the path of the table, so it cannot be moved; "
            "make a deep clone at the new place, or delete the branches first"
        )
    before = held_by(store)
    name = _tag_name(to.uri)
    after = []
    for i, held in enumerate(before):
        metadata = {**held.tag.metadata, CLONE_URI: to.uri}
        tag = replace(held.tag, name=f"{name}.{i}" if i else name, metadata=metadata)
        after.append(replace(held, tag=tag))
    for held in after:
        held.put()
    try:
        yield
    except BaseException:
        for held in after:
            held.remove()
        raise
    for old, new in zip(before, after):
        with logged(f"{old.root.uri}: the tag {new.tag.name}"):
            new.keep()
        old.remove()


def unheld(snapshot: Snapshot) -> list[str]:
    """The URIs of other tables that this version reads files of, of which no tag holds a version for it."""
    found = []
    for base in snapshot.manifest.base_paths:
        named = NamedFiles()
        named.add(snapshot.manifest, {base.id})
        with contextlib.suppress(LanceError):
            if not named.keys or not base.is_dataset_root or snapshot.locations.is_inside(base, snapshot.root):
                continue
            root = snapshot.locations.root_of(base)
            if root.names(VERSIONS) and all(clone.uri != snapshot.root.uri for clone in refs.clones(root)):
                found.append(root.uri)
    return sorted(set(found))


def is_clone(tag: str) -> bool:
    """True if this is the name of a tag that holds a version for a clone."""
    return tag.startswith(CLONE_TAG)


def is_hold(tag: str) -> bool:
    """True if this is the name of a tag that lance-spark has made to hold a version, for a clone or for the next merge."""
    return tag.startswith((CLONE_TAG, MERGED_TAG))


def clone_exists(store: Store, uri: str, allow_other_stores: bool = False) -> bool:
    """True if the clone at `uri`, which is recorded in the table at `store`, still exists or its state is unknown.

    The state is unknown if the location cannot be accessed, if `uri` is not normalised, or if it is in another store. Other stores are
    only accessed with `allow_other_stores`, because they would receive the credentials of this one.
    """
    with contextlib.suppress(LanceError):
        there = store.at(uri)
        if there.uri == uri and (allow_other_stores or there.location.is_in_store_of(store.location)):
            return any(entry.name.endswith(".manifest") for entry in there.list(VERSIONS))
    return True


def is_needed(root: Store, clone: CloneRecord, allow_other_stores: bool = False) -> bool:
    """True if a recorded clone needs what it is recorded for: it exists, or its state is unknown.

    Another branch of the table itself, to which this one was published, needs it while a version of it names files of this one; a record
    of the last hour may be that of a publication which has not ended.
    """
    if clone.uri != root.uri and not clone.uri.startswith(f"{root.uri}/tree/"):
        return clone_exists(root, clone.uri, allow_other_stores)
    with contextlib.suppress(ValueError, TypeError):  # no time, or one without a zone
        age = datetime.now(UTC) - datetime.fromisoformat(clone.made_at or "")
        return age < _PUBLICATION or _names_files_of(root, clone)
    return True


def _names_files_of(root: Store, clone: CloneRecord) -> bool:
    """Whether a version of another branch of the table names files of the branch that is recorded for it."""
    branch = root.uri if clone.branch is None else f"{root.uri}/{refs.branch_folder(clone.branch)}"
    user = root.at(clone.uri)
    try:
        for number in reversed(list_versions(user)):
            version = find_version(user, number)
            if version is None:
                continue
            paths, stores = version.manifest.base_paths, version.locations
            bases: set[int | None] = {base.id for base in paths if stores.store_of(base).uri == branch}
            named = NamedFiles()
            named.add(version.manifest, bases)
            if named.keys:
                return True
    except TableNotFoundError:
        return False
    except LanceError:
        return True
    return False


def drop_tags_of_gone_clones(root: Store, branch: str | None, allow_other_stores: bool) -> None:
    """Remove the tags that hold versions of a branch for clones that no longer exist."""
    for tag in refs.tags(root).values():
        clone = refs.clone_of(tag)
        if not is_clone(tag.name) or tag.branch != branch or is_needed(root, clone, allow_other_stores):
            continue
        with contextlib.suppress(VersionNotFoundError):
            refs.delete_tag(root, tag.name)
        # A clone that was just being made looks for its tag once it is there: either it or this finds the other.
        if is_needed(root, clone, allow_other_stores):
            refs.put_tag(root, tag, new=False)
