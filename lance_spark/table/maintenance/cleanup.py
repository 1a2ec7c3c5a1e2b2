"""Removing old versions and the files that no version needs.

A version stays if it is the latest, or tagged, or if a branch or a clone began with it. A file stays if any version that stays names
it, of this table or of a branch of it; and one that no version has ever named, which a writer at work may have written, stays for
seven days.

Others may name or restore an old version meanwhile. So the order is: the manifests of old versions are removed first; then the
references and the versions are read again, and the manifest of a version that is named now is put back; then the files are removed that
no version needs. Whoever named a version before its manifest was removed is heeded, and whoever does so afterwards finds that it is gone:
our own writers look once more after they have named it (see `table.versions.named_files.check_whole`), pylance's look
before. For those a pause leaves the time to finish what they have begun. This order also means that whatever version is listed can be
read when the work is cut short.

Of two cleanups at once, only the one that has removed a manifest puts it back or removes the version's files. (Object stores do not tell
which one it was.)

A writer that has found out the latest version before others were committed would commit into a gap if those were removed meanwhile. For it,
too, there is a pause: between listing the versions and removing the first.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lance_spark.errors import LanceError, MissingFileError, RefConflictError, TableNotFoundError, VersionNotFoundError
from lance_spark.metadata.locations import DATA, DELETIONS, INDICES
from lance_spark.metadata.manifest import Manifest, parse
from lance_spark.storage.clock import store_time
from lance_spark.storage.local import Entry
from lance_spark.storage.store import Store
from lance_spark.table.maintenance.durations import duration
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.hint import move_hint, read_hint
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.named_files import ForgottenFiles, NamedFiles
from lance_spark.table.versions.snapshot import SUFFIX, VERSIONS, Snapshot, list_versions, open_snapshot, to_datetime, version_of
from lance_spark.table.versions.tags_and_branches import clone_exists

DEFAULT_AGE = timedelta(days=14)
UNVERIFIED_AGE = timedelta(days=7)
AUTO = "lance.auto_cleanup."
PAUSE_S = 0.2
"""How long others have to finish what they have begun; on object stores, where each step takes longer, five times as long."""
_FOLDERS = (DATA, DELETIONS, INDICES, TRANSACTIONS)
_MOST_HELD = 64 << 20
"""Bytes of removed manifests that are held to be put back; when there are more, the references are read before going on."""


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


def cleanup_old_versions(
    snapshot: Snapshot, policy: CleanupPolicy, track: Track = untracked, *, oldest_kept: int | None = None
) -> CleanupStats:
    """Remove the old versions of the branch that the snapshot is of, and the files that nothing needs any more.

    Versions from `oldest_kept` on stay, by default those from the snapshot on. Raises RefConflictError if an old version is tagged,
    unless the policy says otherwise.
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
    """The steps of one cleanup, and what is known so far of the files that are to be kept."""

    def __init__(self, snapshot: Snapshot, policy: CleanupPolicy, track: Track) -> None:
        self._snapshot, self._store, self._policy, self._track = snapshot, snapshot.store, policy, track
        self._removal = _Removal(snapshot.store, policy)
        # A client whose clock is ahead would remove the files of writers at work.
        self._now = datetime.now(UTC) if policy.dry_run else store_time(snapshot.store, TRANSACTIONS)
        self._old: dict[int, str] = {}
        """The versions to be removed, ascending, and the paths of their manifests."""
        self._held: dict[int, bytes] = {}
        """The manifests that were removed last."""
        self._taken: set[int] = set()
        """The old versions that another cleanup has removed."""
        self._kept, self._forgotten = NamedFiles(), ForgottenFiles()
        """The files that versions that stay name, and those that old versions name."""
        self._known: set[tuple[str, int]] = set()
        """The tables and versions whose files are in `_kept`."""
        self._since = 0.0
        """When the versions were listed, and then when the last manifest was removed."""

    def find_old(self, oldest_kept: int) -> None:
        """Read all versions and find the old ones.

        Versions after the hint are not old. Writers may just have read it, and must not meet a gap above it (see `table.versions.hint`).
        """
        hint = read_hint(self._store)
        # A listing may be older than the version in hand, which the table goes on from.
        versions = {**list_versions(self._store), self._snapshot.version: self._snapshot.path}
        self._since = time.monotonic()
        if self._policy.retain_versions is not None:
            oldest_kept = min([oldest_kept, *sorted(versions)[-self._policy.retain_versions :]])
        tags, named, tagged = self._tags(), self._named(), {}
        for version, manifest in self._track(self._opened(versions), "read versions", len(versions)):
            old = version < oldest_kept and (hint is None or version <= hint) and self._is_of_age(manifest)
            if old:
                tagged.update({name: v for name, v in tags.items() if v == version})
            if old and version not in named:
                self._old[version] = versions[version]
                self._forgotten.add(version, manifest)
            else:
                self._keep(version, manifest)
        if tagged and self._policy.error_if_tagged_old_versions:
            raise RefConflictError(
                f"{self._store.uri}: old versions are tagged: {tagged}; delete the tags, or let error_if_tagged_old_versions be False"
            )
        if self._old and not self._policy.dry_run:
            move_hint(self._store, max(versions))

    def remove_versions(self) -> None:
        """Remove the manifests of the old versions, but for those that are named by now."""
        self._pause()
        named, due, held = set[int](), 0.0, 0
        for version, path in self._track(list(self._old.items()), "remove versions"):
            if (begun := time.monotonic()) > due:
                named = self._put_back_named()
                # Reading the references again and again takes at most a tenth of the time.
                due = time.monotonic() + max(PAUSE_S, 9 * (time.monotonic() - begun))
            if version in named:
                del self._old[version]  # it is kept with those that are new
                continue
            held += self._remove_version(version, path)
            if held > _MOST_HELD:
                self._pause()
                named = self._put_back_named()
                self._held.clear()
                held = 0

    def _remove_version(self, version: int, path: str) -> int:
        """Remove a manifest, which is then held to be put back; its size."""
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
        """Put back the versions that are named now, and keep the files of versions that are new, here and on other branches."""
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
        """Put back the manifests that were removed last: what is named now could not be found out."""
        for version, manifest in self._held.items():
            self._removal.put_back(self._old[version], manifest)

    def find_files(self) -> list[Entry]:
        """The files that no version needs, named by their paths."""
        threshold = self._now - UNVERIFIED_AGE
        found = []
        for path, entry in self._track(files_of_table(self._snapshot), "check files"):
            aged = self._policy.delete_unverified or (entry.modified is not None and entry.modified < threshold)
            if path not in self._kept and (aged or self._forgotten.has(path, self._taken)):
                found.append(Entry(path, entry.size, None))
        return found

    def remove_files(self, files: Iterable[Entry]) -> CleanupStats:
        """Remove those of the files that are still needed by no version."""
        for entry in self._track(files, "remove files"):
            if entry.name not in self._kept:
                self._removal.remove(entry)
        return self._removal.stats()

    def _pause(self) -> None:
        """Wait until it is long enough since `_since`."""
        if self._old and not self._policy.dry_run:
            pause = PAUSE_S if self._store.location.kind in ("file", "memory") else 5 * PAUSE_S
            time.sleep(max(self._since + pause - time.monotonic(), 0))

    def _is_of_age(self, manifest: Manifest) -> bool:
        age = self._policy.older_than
        return age is None or self._now - to_datetime(manifest.timestamp) > age

    def _opened(self, versions: Iterable[int]) -> Iterator[tuple[int, Manifest]]:
        """Those of the versions that are there, and whose files are not kept yet."""
        for version in versions:
            if (self._store.uri, version) in self._known:
                continue
            if version == self._snapshot.version:
                yield version, self._snapshot.manifest
                continue
            try:
                manifest = open_snapshot(self._store, version=version).manifest
            except VersionNotFoundError:
                continue  # another cleanup was faster
            yield version, manifest

    def _keep(self, version: int, manifest: Manifest) -> None:
        self._kept.add(manifest, {None})
        self._known.add((self._store.uri, version))

    def _tags(self) -> dict[str, int]:
        """The tags of the snapshot's branch and their versions."""
        return {t.name: t.version for t in refs.tags(self._snapshot.root).values() if t.branch == self._snapshot.manifest.branch}

    def _named(self) -> set[int]:
        """The versions of the snapshot's branch that tags, branches and clones name."""
        root, own = self._snapshot.root, self._snapshot.manifest.branch
        named = {*self._tags().values(), *(b.parent_version for b in refs.branches(root).values() if b.parent_branch == own)}
        clones = (c for c in refs.clones(root) if c.branch == own)
        return named | {c.version for c in clones if clone_exists(root, c.uri, self._snapshot.allow_other_stores)}

    def _put_back_named(self) -> set[int]:
        """Put back those of the manifests that were removed last that are named now. Returns the versions that are named."""
        named = self._named()
        for version in sorted(self._held.keys() & named):
            manifest = self._held[version]
            self._removal.put_back(self._old[version], manifest)
            del self._held[version]
            self._keep(version, parse(manifest, f"{self._store.uri}/{self._old[version]}", version))
        return named

    def _keep_branches(self) -> None:
        """Keep the files of this table that any version of any other branch names."""
        root = self._snapshot.root
        for branch in refs.branches(root):
            store = root.at(f"{root.uri}/{refs.branch_folder(branch)}")
            # A branch may be noted, but not made yet, or half deleted.
            with contextlib.suppress(TableNotFoundError):
                for version in list_versions(store) if store.uri != self._store.uri else ():
                    if (store.uri, version) not in self._known:
                        self._keep_of_branch(store, version)

    def _keep_of_branch(self, store: Store, version: int) -> None:
        try:
            other = open_snapshot(store, version=version)
        except VersionNotFoundError:
            return  # its own cleanup was faster
        here = {b.id for b in other.manifest.base_paths if other.locations.is_at(b, self._store)}
        self._kept.add(other.manifest, {*here})
        self._known.add((store.uri, version))


class _Removal:
    """Deletes files one by one, no faster than the policy allows, and counts them."""

    def __init__(self, store: Store, policy: CleanupPolicy) -> None:
        self._store, self._policy = store, policy
        self._sizes: dict[str, int] = {}
        self._started = time.monotonic()

    def remove(self, entry: Entry) -> bool:
        """Delete a file. False, and not counted, if it is known that another cleanup has deleted it."""
        if not self._policy.dry_run:
            if self._policy.delete_rate_limit is not None:
                due = self._started + (len(self._sizes) + 1) / self._policy.delete_rate_limit
                time.sleep(max(due - time.monotonic(), 0))
            if not self._store.delete(entry.name):
                return False
        self._sizes[entry.name] = entry.size
        return True

    def put_back(self, path: str, content: bytes) -> None:
        """Write a file again that was deleted."""
        if self._store.manifest_store:  # such a store has no conditional put
            self._store.put(path, content)
        else:
            # It may be there: written by another cleanup, or by this one, before an answer was lost.
            with contextlib.suppress(FileExistsError):
                self._store.put_if_absent(path, content)
        self._sizes.pop(path, None)

    def stats(self) -> CleanupStats:
        """What was deleted and not put back."""
        versions = sum(version_of(path.rpartition("/")[2]) is not None for path in self._sizes if path.startswith(f"{VERSIONS}/"))
        counts = {folder: sum(path.startswith(f"{folder}/") for path in self._sizes) for folder in _FOLDERS}
        by_kind = counts[DATA], counts[TRANSACTIONS], counts[INDICES], counts[DELETIONS]
        return CleanupStats(sum(self._sizes.values()), versions, *by_kind, tuple(self._sizes))


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


def auto_cleanup(snapshot: Snapshot) -> CleanupStats | None:
    """Clean up after a commit, if the table's config asks for it with this version; None if not.

    The keys are pylance's: `lance.auto_cleanup.interval` (every so many versions), `.older_than` ("14days") and `.retain_versions`.
    The version that was replaced stays as well, as with pylance: it may be in use. Raises LanceError for values that say nothing.
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
    return cleanup_old_versions(snapshot, policy, oldest_kept=snapshot.version - 1)
