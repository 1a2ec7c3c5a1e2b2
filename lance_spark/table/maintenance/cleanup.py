"""Removing old versions and the files that no version needs.

Old versions are forgotten first and their files deleted afterwards, so that whatever version is listed can be read at any moment, also
when the work is cut short. A version stays if it is the latest, or tagged, or if a branch or a clone began with it. A file stays if
any version that stays names it, of this table or of a branch of it; and one that no version has ever named, which a writer at work
may have written, stays for seven days.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lance_spark.errors import LanceError, RefConflictError, TableNotFoundError, VersionNotFoundError
from lance_spark.metadata.locations import DATA, DELETIONS, INDICES
from lance_spark.metadata.manifest import ExternalFile, IndexMetadata, Manifest
from lance_spark.storage.local import Entry
from lance_spark.storage.store import Store
from lance_spark.table.maintenance.durations import duration
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.snapshot import SUFFIX, VERSIONS, Snapshot, list_versions, open_snapshot, to_datetime, version_of
from lance_spark.table.versions.tags_and_branches import clone_exists

DEFAULT_AGE = timedelta(days=14)
UNVERIFIED_AGE = timedelta(days=7)
AUTO = "lance.auto_cleanup."
_FOLDERS = (DATA, DELETIONS, INDICES, TRANSACTIONS)


@dataclass(frozen=True)
class CleanupPolicy:
    """Which versions are old: those made before `older_than` ago, but for the latest `retain_versions`; None: this does not count.

    `delete_unverified`: files that no version names go whatever their age; only safe while nobody writes. `delete_rate_limit` is in files
    a second. `dry_run` deletes nothing and tells what would go.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    delete_unverified: bool = False
    error_if_tagged_old_versions: bool = True
    delete_rate_limit: int | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name in ("retain_versions", "delete_rate_limit"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, it is {value}")


@dataclass(frozen=True)
class CleanupStats:
    """What was removed, or would be; `files` are their paths below the table's root, manifests first."""

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    files: tuple[str, ...] = ()


@dataclass
class Named:
    """Files that versions name: paths below the root of one table, and folders whose files all belong together."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def add(self, manifest: Manifest, base_ids: set[int | None]) -> None:
        """Add the files that a manifest names below the bases with these ids (None: its own table)."""
        for fragment in manifest.fragments:
            for file in fragment.files:
                if file.base_id in base_ids:
                    self.files.add(f"{DATA}/{file.path}")
                    # Large values of a file's blobs are in a folder of its name.
                    self.folders.add(f"{DATA}/{file.path.removesuffix('.lance')}")
            if fragment.deletion is not None and fragment.deletion.base_id in base_ids:
                self.files.add(fragment.deletion.path(fragment.id))
            external = [s for s in (fragment.row_ids, fragment.created_at, fragment.updated_at) if isinstance(s, ExternalFile)]
            self.files.update(s.path for s in external if None in base_ids)
        self.folders.update(_index_folder(index) for index in manifest.indexes if index.base_id in base_ids)
        if manifest.transaction_file and None in base_ids:
            self.files.add(f"{TRANSACTIONS}/{manifest.transaction_file}")

    def __contains__(self, path: str) -> bool:
        """Whether a file is named, or belongs to something that is."""
        parts = path.split("/")
        return path in self.files or "/".join(parts[:2]) in self.folders


def _index_folder(index: IndexMetadata) -> str:
    return f"{INDICES}/{uuid.UUID(bytes=index.uuid)}"


def cleanup_old_versions(snapshot: Snapshot, policy: CleanupPolicy, track: Track = untracked) -> CleanupStats:
    """Remove the old versions of the branch that the snapshot is of, and the files that nothing needs any more.

    Raises RefConflictError if an old version is tagged, unless the policy says otherwise. Versions newer than the snapshot stay.
    """
    store = snapshot.store
    versions = list_versions(store)
    # A listing may be older than the version in hand, which the table goes on from.
    manifests = {**dict(track(_open_all(store, versions), "read versions", len(versions))), snapshot.version: snapshot.manifest}
    old = _old(manifests, policy, snapshot.version)
    # Read after the manifests: what is named now was not removed before.
    old -= _named_by_refs(snapshot, old, policy.error_if_tagged_old_versions)
    kept, forgotten = Named(), Named()
    for version, manifest in manifests.items():
        (forgotten if version in old else kept).add(manifest, {None})
    _add_branches(kept, snapshot)
    # Somebody may have restored an old version meanwhile.
    for _, manifest in _open_all(store, list_versions(store).keys() - manifests.keys()):
        kept.add(manifest, {None})
    removal = _Removal(store, policy)
    for version in track(sorted(old), "remove versions"):
        removal.remove(Entry(versions[version], store.size(versions[version]), None))
    threshold = datetime.now(UTC) - UNVERIFIED_AGE
    for path, entry in track(files_of_table(snapshot), "check files"):
        aged = policy.delete_unverified or (entry.modified is not None and entry.modified < threshold)
        if path not in kept and (aged or path in forgotten):
            removal.remove(Entry(path, entry.size, None))
    return removal.stats(len(old))


def files_of_table(snapshot: Snapshot) -> Iterator[tuple[str, Entry]]:
    """The files in the table's folders that versions name or have named, or that a commit that was cut short left; no manifests."""
    store, folder_of = snapshot.store, refs.branch_folder
    branches = refs.branches(snapshot.root)
    branch = snapshot.manifest.branch
    # A branch "x/data/y" is inside the data folder of the branch "x".
    inner = tuple(folder_of(b)[len(folder_of(branch)) + 1 :] + "/" for b in branches if branch and b.startswith(f"{branch}/"))
    for folder in _FOLDERS:
        for entry in store.walk(folder):
            path = f"{folder}/{entry.name}"
            if not path.startswith(inner):
                yield path, entry
    for entry in store.list(VERSIONS):
        # Temporary files of writers on local disks, and staged manifests of external manifest stores.
        if version_of(entry.name) is None and (entry.name.startswith(".") or f"{SUFFIX}-" in entry.name):
            yield f"{VERSIONS}/{entry.name}", entry


def _open_all(store: Store, versions: Iterable[int]) -> Iterator[tuple[int, Manifest]]:
    for version in versions:
        try:
            yield version, open_snapshot(store, version=version).manifest
        except VersionNotFoundError:
            continue  # another cleanup was faster


def _old(manifests: dict[int, Manifest], policy: CleanupPolicy, latest: int) -> set[int]:
    """The versions that the policy gives up."""
    old = {version for version in manifests if version < latest}
    if policy.older_than is not None:
        now = datetime.now(UTC)
        old = {version for version in old if now - to_datetime(manifests[version].timestamp) > policy.older_than}
    if policy.retain_versions is not None:
        old -= set(sorted(manifests)[-policy.retain_versions :])
    return old


def _named_by_refs(snapshot: Snapshot, old: set[int], raises: bool) -> set[int]:
    """The versions of the snapshot's branch that tags, branches and clones name."""
    root, own = snapshot.root, snapshot.manifest.branch
    tags = {t.name: t.version for t in refs.tags(root).values() if t.branch == own}
    tagged = {name: version for name, version in tags.items() if version in old}
    if tagged and raises:
        raise RefConflictError(
            f"{snapshot.store.uri}: old versions are tagged: {tagged}; delete the tags, or let error_if_tagged_old_versions be False"
        )
    named = {*tags.values(), *(b.parent_version for b in refs.branches(root).values() if b.parent_branch == own)}
    for clone in refs.clones(root):
        if clone.branch == own and clone_exists(root, clone.uri, snapshot.allow_other_stores):
            named.add(clone.version)
    return named


def _add_branches(kept: Named, snapshot: Snapshot) -> None:
    """Keep the files of this table that any version of any other branch names."""
    root, own = snapshot.root, snapshot.store.uri
    others = [root.at(f"{root.uri}/{refs.branch_folder(branch)}") for branch in refs.branches(root)]
    for store in others:
        if store.uri == own:
            continue
        try:
            versions = list_versions(store)
        except TableNotFoundError:
            continue  # noted, but not made yet, or half deleted
        for version in versions:
            try:
                other = open_snapshot(store, version=version)
            except VersionNotFoundError:
                continue
            here = {b.id for b in other.manifest.base_paths if other.locations.is_at(b, snapshot.store)}
            kept.add(other.manifest, {*here})


class _Removal:
    """Deletes files one by one, no faster than the policy allows, and counts them."""

    def __init__(self, store: Store, policy: CleanupPolicy) -> None:
        self._store, self._policy = store, policy
        self._files: list[str] = []
        self._bytes = 0
        self._started = time.monotonic()

    def remove(self, entry: Entry) -> None:
        self._bytes += entry.size
        self._files.append(entry.name)
        if self._policy.dry_run:
            return
        if self._policy.delete_rate_limit is not None:
            due = self._started + len(self._files) / self._policy.delete_rate_limit
            time.sleep(max(due - time.monotonic(), 0))
        self._store.delete(entry.name)

    def stats(self, old_versions: int) -> CleanupStats:
        counts = {folder: sum(path.startswith(f"{folder}/") for path in self._files) for folder in _FOLDERS}
        return CleanupStats(
            self._bytes, old_versions, counts[DATA], counts[TRANSACTIONS], counts[INDICES], counts[DELETIONS], tuple(self._files)
        )


def auto_cleanup(snapshot: Snapshot) -> CleanupStats | None:
    """Clean up after a commit, if the table's config asks for it with this version; None if not.

    The keys are pylance's: `lance.auto_cleanup.interval` (every so many versions), `.older_than` ("14days") and `.retain_versions`.
    Raises InvalidOptionError for values that say nothing.
    """
    config = {key.removeprefix(AUTO): value for key, value in snapshot.manifest.config.items() if key.startswith(AUTO)}
    if "interval" not in config:
        return None
    try:
        interval = int(config["interval"])
        retain = int(config["retain_versions"]) if "retain_versions" in config else None
        older_than = duration(config["older_than"]) if "older_than" in config else None
        policy = CleanupPolicy(older_than, retain, error_if_tagged_old_versions=False)
    except (ValueError, OverflowError) as e:
        raise LanceError(f"{snapshot.store.uri}: the table's config for cleaning up is wrong: {config}: {e}") from None
    if (interval and snapshot.version % interval) or (older_than is None and retain is None):
        return None
    return cleanup_old_versions(snapshot, policy)
