"""Cleanup: removal of old versions and of the files that no version needs.

A version is kept if it is the latest, if it is tagged, if a stream still needs it (see `table.versions.consumers`), or if a branch or a
clone started from it. A file is kept if a kept version of this
table or of one of its branches refers to it. A file that no version ever referred to may belong to an active writer, so it is kept for
seven days.

Others may create a reference to an old version, or restore it, at the same time. Therefore the manifests of old versions are removed
first. Then references and versions are read again, and the manifest of a version that is referenced now is put back. Finally, the
files that no version needs are removed. A reference that was created before the manifest was removed is found, and a later one fails:
our writers check the version after creating the reference (see `table.versions.named_files.check_whole`), pylance's writers before. A
pause gives pylance's writers time to finish. In this order, every listed version can be read even if the cleanup is interrupted.

Lists of files that COPY INTO has loaded are kept as far as a kept version leads to them (see `table.versions.copy_lists`), and of the
numbers that writers have claimed for an identity column the last ones, whatever the versions are (see `table.versions.identity_claims`).
Others of them are removed when they are seven days old.

At base paths only files that were written for this table are removed, see `table.maintenance.files_at_bases`. Of a write-ahead log, see
`table.maintenance.log_cleanup`.

If two cleanups run concurrently, only the one that removed a manifest puts it back or removes the version's files. (Object stores do not
report which one it was.)

A writer that determined the latest version before later commits would commit into a gap if those later versions were removed meanwhile.
Therefore there is also a pause between listing the versions and removing the first one.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lance_spark.display.figures import Figures
from lance_spark.errors import (
    CorruptFileError,
    LanceError,
    MissingFileError,
    RefConflictError,
    TableNotFoundError,
    VersionNotFoundError,
    check_at_least,
    check_type,
    logged,
)
from lance_spark.metadata.locations import DATA, DELETIONS, INDICES
from lance_spark.metadata.manifest import Manifest, parse
from lance_spark.metadata.numbered_writes import COPIES
from lance_spark.options.durations import duration
from lance_spark.storage.clock import store_time
from lance_spark.storage.local import Entry
from lance_spark.storage.store import Store
from lance_spark.table.maintenance.files_at_bases import FileAtBase, FilesAtBases
from lance_spark.table.maintenance.log_cleanup import LogCleanup, OldParts
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.clones import drop_tags_of_gone_clones, is_hold, is_needed
from lance_spark.table.versions.consumers import has_expired, is_consumer
from lance_spark.table.versions.copy_lists import FOLDER as COPY_LISTS
from lance_spark.table.versions.copy_lists import loads, path_of
from lance_spark.table.versions.hint import move_hint, read_hint
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.identity_claims import superseded_claims
from lance_spark.table.versions.named_files import ForgottenFiles, NamedFiles
from lance_spark.table.versions.ref_files import MERGED_TAG
from lance_spark.table.versions.shard_states import ShardStates
from lance_spark.table.versions.snapshot import SUFFIX, VERSIONS, Snapshot, list_versions, open_snapshot, to_datetime, version_of

DEFAULT_AGE = timedelta(days=14)
UNVERIFIED_AGE = timedelta(days=7)
_LOG = logging.getLogger(__name__)
AUTO = "lance.auto_cleanup."
PAUSE_S = 0.2
"""The pause in seconds that gives others time to finish; five times as long on object stores, which are slower."""
_FOLDERS = (DATA, DELETIONS, INDICES, TRANSACTIONS)
_MOST_HELD = 64 << 20
"""Maximum bytes of removed manifests in memory, from where they can be put back. Above it, references are read again first."""


@dataclass(frozen=True)
class CleanupPolicy:
    """Options of a cleanup. Versions older than `older_than` are removed, except the latest `retain_versions` (None: no such condition).
    With `versions`, only these are removed.

    `delete_unverified` removes files that no version refers to at any age, which is safe only without concurrent writers.
    `delete_rate_limit` is in files per second. `dry_run` only reports what would be removed.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    delete_unverified: bool = False
    error_if_tagged_old_versions: bool = True
    delete_rate_limit: int | None = None
    dry_run: bool = False
    versions: frozenset[int] | None = None

    def __post_init__(self) -> None:
        for name in ("retain_versions", "delete_rate_limit"):
            if (value := getattr(self, name)) is not None:
                check_at_least(name, value, 1)
        if self.older_than is not None:
            check_type("older_than", self.older_than, timedelta, "a timedelta, such as timedelta(days=7)")


@dataclass(frozen=True)
class CleanupStats(Figures):
    """The removed files, or those that a dry run would remove.

    `files` are paths relative to the table's root, manifests first, and whole locations at base paths.
    """

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    files: tuple[str, ...] = field(default=(), repr=False)


def cleanup_old_versions(
    snapshot: Snapshot, policy: CleanupPolicy, track: Track = untracked, *, oldest_kept: int | None = None
) -> CleanupStats:
    """Remove old versions of the snapshot's branch, and the files that no version needs any more.

    Versions from `oldest_kept` (default: the snapshot) are kept. Raises RefConflictError if an old version is tagged, unless
    `error_if_tagged_old_versions` is False.
    """
    cleanup = _Cleanup(snapshot, policy, track)
    with contextlib.ExitStack() as undo:
        undo.callback(cleanup.put_back_all)
        cleanup.find_old(snapshot.version if oldest_kept is None else oldest_kept)
        cleanup.remove_versions()
        cleanup.keep_what_is_new()
        files = cleanup.find_files()
        cleanup.keep_what_is_new(pause=True)
        undo.pop_all()
    return cleanup.remove_files(files)


class _Cleanup:
    """The steps of one cleanup, and the files to be kept that are known so far."""

    def __init__(self, snapshot: Snapshot, policy: CleanupPolicy, track: Track) -> None:
        self._snapshot, self._store, self._policy, self._track = snapshot, snapshot.store, policy, track
        self._removal = _Removal(snapshot.store, policy)
        # With a fast local clock, the files of active writers would look old.
        self._now = datetime.now(UTC) if policy.dry_run else store_time(snapshot.store, TRANSACTIONS)
        self._old: dict[int, str] = {}
        """The versions to be removed, in ascending order, and the paths of their manifests."""
        self._held: dict[int, bytes] = {}
        """Removed manifests that can be put back."""
        self._taken: set[int] = set()
        """The old versions that another cleanup has removed."""
        self._kept, self._forgotten = NamedFiles(), ForgottenFiles()
        """The files of kept versions, and the files of old versions."""
        self._at_bases = FilesAtBases(snapshot.root, snapshot.allow_other_stores)
        """The files at base paths of all of these versions."""
        self._log = LogCleanup(snapshot.store)
        """What the kept versions leave of the write-ahead log."""
        self._lists_are_known = True
        """Whether all lists of COPY INTO that kept versions need could be read."""
        self._known: set[tuple[str, int]] = set()
        """The versions (with their store's URI) whose files are in `_kept`."""
        self._since = 0.0
        """The time at which the versions were listed, later the time at which the last manifest was removed."""

    def find_old(self, oldest_kept: float) -> None:
        """Read all versions and find the old ones.

        Versions after the hint are kept: writers that have read the hint must not find a gap above it (see `table.versions.hint`).
        """
        hint = read_hint(self._store)
        # The listing may be stale and lack the snapshot's version.
        versions = {**list_versions(self._store), self._snapshot.version: self._snapshot.path}
        self._since = time.monotonic()
        if self._policy.retain_versions is not None:
            oldest_kept = min([oldest_kept, *sorted(versions)[-self._policy.retain_versions :]])
        tags, needed = self._tags()
        named, tagged = self._named(), dict[str, int]()
        oldest_kept = min(oldest_kept, needed)
        for version, manifest in self._track(self._opened(versions), "read versions", len(versions)):
            is_chosen = self._policy.versions is None or version in self._policy.versions
            old = is_chosen and version < oldest_kept and (hint is None or version <= hint) and self._is_of_age(manifest)
            if old:
                tagged.update({name: v for name, v in tags.items() if v == version})
            if old and version not in named:
                self._old[version] = versions[version]
                self._forgotten.add(version, manifest)
                self._at_bases.forget(version, self._store, manifest)
            else:
                self._keep(version, manifest)
        if tagged and self._policy.error_if_tagged_old_versions:
            raise RefConflictError(
                f"{self._store.uri}: old versions are tagged: {tagged}; delete the tags, or set error_if_tagged_old_versions=False"
            )
        if self._old and not self._policy.dry_run:
            move_hint(self._store, max(versions))

    def remove_versions(self) -> None:
        """Remove the manifests of the old versions, except those that are referenced by now."""
        if not self._policy.dry_run:
            self._drop_expired()
        self._pause()
        named, due, held = set[int](), 0.0, 0
        for version, path in self._track(list(self._old.items()), "remove versions"):
            if (begun := time.monotonic()) > due:
                named = self._put_back_named()
                # Limit repeated reading of the references to a tenth of the time.
                due = time.monotonic() + max(PAUSE_S, 9 * (time.monotonic() - begun))
            if version in named:
                del self._old[version]  # kept later, like a new version
                continue
            held += self._remove_version(version, path)
            if held > _MOST_HELD:
                self._pause()
                named = self._put_back_named()
                self._held.clear()
                held = 0

    def _remove_version(self, version: int, path: str) -> int:
        """Remove a manifest, which can be put back later. Returns its size in bytes."""
        try:
            manifest = self._store.read(path)
        except MissingFileError:
            self._taken.add(version)
            return 0
        if not self._policy.dry_run:
            self._held[version] = manifest
        if not self._removal.remove(Entry(path, len(manifest), None)):
            self._taken.add(version)
            del self._held[version]
        self._since = time.monotonic()
        return len(manifest)

    def keep_what_is_new(self, pause: bool = False) -> None:
        """Put back versions that are referenced now, and keep the files of new versions on all branches."""
        if self._policy.dry_run:
            self._known.update((self._store.uri, version) for version in self._old)
        if pause:
            self._pause()
        if self._held:
            self._put_back_named()
        for version, manifest in self._opened(list_versions(self._store)):
            self._keep(version, manifest)
        self._keep_branches()

    def put_back_all(self) -> None:
        """Put back the removed manifests, after a failure to read the references or versions."""
        for version, manifest in self._held.items():
            self._removal.put_back(self._old[version], manifest)

    def find_files(self) -> list[Entry]:
        """The files that no version needs."""
        threshold = self._now - UNVERIFIED_AGE
        found = []
        listed = itertools.chain(files_of_table(self._snapshot), self._notes())
        for path, entry in self._track(listed, "check files"):
            aged = self._policy.delete_unverified or (entry.modified is not None and entry.modified < threshold)
            if path not in self._kept and (aged or self._forgotten.has(path, self._taken)):
                found.append(Entry(path, entry.size, None))
        return found

    def _notes(self) -> Iterator[tuple[str, Entry]]:
        """What writers have noted in the table's folder, besides what must stay. A branch has none of its own."""
        root = self._snapshot.root
        if root.uri != self._store.uri:
            return
        yield from superseded_claims(root)
        if self._lists_are_known:
            yield from ((f"{COPY_LISTS}/{entry.name}", entry) for entry in root.walk(COPY_LISTS))

    def remove_files(self, files: Iterable[Entry]) -> CleanupStats:
        """Remove those files that still no version needs, and the folders of indexes and blobs that are empty then."""
        emptied: set[str] = set()
        for entry in self._track(files, "remove files"):
            if entry.name not in self._kept:
                self._removal.remove(entry)
                emptied.add(entry.name.rpartition("/")[0])
        for file in self._at_bases.removable(self._taken):
            self._removal.remove_at_base(file)
        with logged(f"{self._store.uri}: cleaning up the write-ahead log"):
            for old in self._log.old_parts():
                self._remove_of_log(old)
        if not self._policy.dry_run:
            self._remove_folders(emptied - {*_FOLDERS, VERSIONS})
        return self._removal.stats()

    def _remove_of_log(self, old: OldParts) -> None:
        """Remove parts of a shard of the log, after its state does not name them any more."""
        if not self._policy.dry_run:
            ShardStates(self._store, old.shard).forget(old.last)
        for entry in self._track(old.files, f"remove files of the shard {old.shard.name}"):
            self._removal.remove(entry)
        for folder in () if self._policy.dry_run else old.folders:
            self._store.remove_empty_folders(folder)

    def _remove_folders(self, emptied: set[str]) -> None:
        """Remove folders that are empty: those in `emptied`, and what writers of indexes have left that were killed at once."""
        if self._policy.delete_unverified:
            emptied |= {f"{INDICES}/{name}" for name in self._store.contents(INDICES)[1]}
        for folder in sorted(emptied):
            with logged(f"{self._store.uri}: removing the empty folder {folder}"):
                self._store.remove_empty_folders(folder)

    def _pause(self) -> None:
        """Wait until the pause since `_since` is over."""
        if self._old and not self._policy.dry_run:
            pause = PAUSE_S if not self._store.is_remote else 5 * PAUSE_S
            time.sleep(max(self._since + pause - time.monotonic(), 0))

    def _is_of_age(self, manifest: Manifest) -> bool:
        age = self._policy.older_than
        return age is None or self._now - to_datetime(manifest.timestamp) > age

    def _opened(self, versions: Iterable[int]) -> Iterator[tuple[int, Manifest]]:
        """Open those versions that exist and whose files are not in `_kept` yet."""
        for version in versions:
            if (self._store.uri, version) in self._known:
                continue
            if version == self._snapshot.version:
                yield version, self._snapshot.manifest
                continue
            try:
                manifest = open_snapshot(self._store, version=version).manifest
            except VersionNotFoundError:
                continue  # removed by another cleanup
            yield version, manifest

    def _keep(self, version: int, manifest: Manifest) -> None:
        self._kept.add(manifest, {None})
        self._keep_lists(manifest)
        self._at_bases.keep(self._store, manifest)
        self._log.keep(version, manifest)
        self._known.add((self._store.uri, version))

    def _keep_lists(self, manifest: Manifest) -> None:
        """Keep the lists of COPY INTO to which a version leads."""
        last = None if manifest.numbered is None else manifest.numbered.number(COPIES)
        try:
            for load in loads(self._snapshot.root, last):
                path = path_of(load.number)
                if path in self._kept.files:
                    return
                self._kept.files.add(path)
        except (MissingFileError, CorruptFileError) as e:
            _LOG.warning("no list of COPY INTO is removed: %s", e)
            self._lists_are_known = False

    def _tags(self) -> tuple[dict[str, int], float]:
        """The tags of the snapshot's branch (name -> version), and the first version that a consumer needs (infinite: none)."""
        tags = [t for t in refs.tags(self._snapshot.root).values() if t.branch == self._snapshot.manifest.branch]
        places = (t.version for t in tags if is_consumer(t.name) and not has_expired(t, self._now))
        own = {t.name: t.version for t in tags if not is_consumer(t.name) and not is_hold(t.name)}
        return own, min(places, default=math.inf)

    def _drop_expired(self) -> None:
        """Remove the places of consumers that have expired, and the tags of clones that are gone: their versions may be removed."""
        root, branch = self._snapshot.root, self._snapshot.manifest.branch
        drop_tags_of_gone_clones(root, branch, self._snapshot.allow_other_stores)
        for tag in refs.tags(root).values():
            if is_consumer(tag.name) and tag.branch == branch and has_expired(tag, self._now):
                with contextlib.suppress(VersionNotFoundError):
                    refs.delete_tag(root, tag.name)

    def _named(self) -> set[int]:
        """The versions of the snapshot's branch that tags, branches and clones refer to, and old ones that a consumer needs."""
        root, own = self._snapshot.root, self._snapshot.manifest.branch
        tags, needed = self._tags()
        old = (v for v in self._old if v >= needed)
        branches = (b for b in refs.branches(root).values() if b.parent_branch == own)
        named = {*tags.values(), *old, *(b.parent_version for b in branches)}
        own_tags = (t for t in refs.tags(root).values() if t.branch == own)
        named |= {t.version for t in own_tags if t.name.startswith(MERGED_TAG)}
        clones = (c for c in refs.clones(root) if c.branch == own)
        return named | {c.version for c in clones if is_needed(root, c, self._snapshot.allow_other_stores)}

    def _put_back_named(self) -> set[int]:
        """Put back the removed manifests that are referenced now. Returns all referenced versions."""
        named = self._named()
        for version in sorted(self._held.keys() & named):
            manifest = self._held[version]
            self._removal.put_back(self._old[version], manifest)
            del self._held[version]
            self._keep(version, parse(manifest, f"{self._store.uri}/{self._old[version]}", version))
        return named

    def _keep_branches(self) -> None:
        """Keep the files of this table that versions of other branches refer to."""
        root = self._snapshot.root
        for branch in refs.branches(root):
            store = root.at(f"{root.uri}/{refs.branch_folder(branch)}")
            # A recorded branch may be partly created or partly deleted.
            with contextlib.suppress(TableNotFoundError):
                for version in list_versions(store) if store.uri != self._store.uri else ():
                    if (store.uri, version) not in self._known:
                        self._keep_of_branch(store, version)
        # What is in the folder of a branch is its own, but files at base paths may be those of the main branch.
        if root.uri != self._store.uri and self._at_bases.are_forgotten:
            for version in list_versions(root):
                if (root.uri, version) not in self._known:
                    self._keep_of_branch(root, version)

    def _keep_of_branch(self, store: Store, version: int) -> None:
        try:
            other = open_snapshot(store, version=version)
        except VersionNotFoundError:
            return  # removed by a cleanup of the branch
        here = {b.id for b in other.manifest.base_paths if other.locations.is_at(b, self._store)}
        self._kept.add(other.manifest, {*here})
        self._keep_lists(other.manifest)
        self._at_bases.keep(store, other.manifest)
        self._known.add((store.uri, version))


class _Removal:
    """Deletes files one by one, within the rate limit of the policy, and counts them."""

    def __init__(self, store: Store, policy: CleanupPolicy) -> None:
        self._store, self._policy = store, policy
        self._sizes: dict[str, int] = {}
        self._at_bases: list[str] = []
        self._started = time.monotonic()

    def remove(self, entry: Entry) -> bool:
        """Delete a file. Returns False, and does not count it, if it is known that another cleanup has deleted it."""
        self._wait()
        if not self._policy.dry_run and not self._store.delete(entry.name):
            return False
        self._sizes[entry.name] = entry.size
        return True

    def remove_at_base(self, file: FileAtBase) -> None:
        """Delete a data file at a base path, and its blobs."""
        for part, size in list(file.with_blobs()):
            self._wait()
            if self._policy.dry_run or part.store.delete(part.path):
                self._sizes[part.uri] = size
                self._at_bases.append(part.uri)
        if not self._policy.dry_run:
            file.store.remove_empty_folders(file.path.removesuffix(".lance"))

    def _wait(self) -> None:
        """Wait for the time of the next file."""
        if self._policy.dry_run or self._policy.delete_rate_limit is None:
            return
        due = self._started + (len(self._sizes) + 1) / self._policy.delete_rate_limit
        time.sleep(max(due - time.monotonic(), 0))

    def put_back(self, path: str, content: bytes) -> None:
        """Restore a deleted file."""
        if self._store.manifest_store:  # the store has no conditional put
            self._store.put(path, content)
        else:
            # It may exist: another cleanup has restored it, or this one before a response was lost.
            with contextlib.suppress(FileExistsError):
                self._store.put_if_absent(path, content)
        self._sizes.pop(path, None)

    def stats(self) -> CleanupStats:
        """The files that were deleted and not put back."""
        versions = sum(version_of(path.rpartition("/")[2]) is not None for path in self._sizes if path.startswith(f"{VERSIONS}/"))
        counts = {folder: sum(path.startswith(f"{folder}/") for path in self._sizes) for folder in _FOLDERS}
        by_kind = counts[DATA] + len(self._at_bases), counts[TRANSACTIONS], counts[INDICES], counts[DELETIONS]
        return CleanupStats(sum(self._sizes.values()), versions, *by_kind, tuple(self._sizes))


def files_of_table(snapshot: Snapshot) -> Iterator[tuple[str, Entry]]:
    """All files in the table's folders except manifests: files of versions, and files that interrupted commits left."""
    store, folder_of = snapshot.store, refs.branch_folder
    branches = refs.branches(snapshot.root)
    branch = snapshot.manifest.branch
    # A branch "x/data/y" is inside the data folder of the branch "x".
    inner: tuple[str, ...] = ()
    if branch:
        start = len(folder_of(branch)) + 1
        inner = tuple(folder_of(b)[start:] + "/" for b in branches if b.startswith(f"{branch}/"))
    for folder in _FOLDERS:
        for entry in store.walk(folder):
            path = f"{folder}/{entry.name}"
            if not path.startswith(inner):
                yield path, entry
    for entry in store.list(VERSIONS):
        # Temporary files of writers on local disks, and staged manifests of external manifest stores.
        if version_of(entry.name) is None and (entry.name.startswith(".") or f"{SUFFIX}-" in entry.name):
            yield f"{VERSIONS}/{entry.name}", entry


def auto_cleanup(snapshot: Snapshot) -> CleanupStats | None:
    """Clean up after a commit if the table's config requires it for this version; otherwise return None.

    The keys are those of pylance: `lance.auto_cleanup.interval` (in versions), `.older_than` ("14days") and `.retain_versions`. As in
    pylance, the previous version is kept, since it may be in use. The branch of a transaction over several tables keeps all versions for
    its commit. Raises LanceError for invalid values.
    """
    config = {key.removeprefix(AUTO): value for key, value in snapshot.manifest.config.items() if key.startswith(AUTO)}
    branch = snapshot.manifest.branch
    if "interval" not in config or (branch is not None and branch.startswith(refs.TRANSACTION_BRANCH)):
        return None
    try:
        interval = int(config["interval"])
        retain = int(config["retain_versions"]) if "retain_versions" in config else None
        older_than = duration(config["older_than"]) if "older_than" in config else None
        policy = CleanupPolicy(older_than, retain, error_if_tagged_old_versions=False)
    except (ValueError, OverflowError) as e:
        raise LanceError(f"{snapshot.store.uri}: invalid values of {AUTO}* in the table's config {config}: {e}") from None
    if (interval and snapshot.version % interval) or (older_than is None and retain is None):
        return None
    return cleanup_old_versions(snapshot, policy, oldest_kept=snapshot.version - 1)
