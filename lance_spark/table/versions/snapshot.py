"""Opening a table: which versions there are, and one of them as a snapshot.

Implements the manifest naming schemes of the table specification: `_versions/{2^64 - 1 - version, 20 digits}.manifest` (V2, in which
the latest version is the first name) and `_versions/{version}.manifest` (V1); a folder may hold both while it is migrated.
Names that start with "d" are detached versions, which belong to no history. The hint file beside them is not trusted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from lance_spark.errors import CorruptFileError, MissingFileError, TableNotFoundError, VersionNotFoundError
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.manifest import Manifest, parse, parse_timestamp
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions.ref_files import MAIN, branch_folder, is_branch_name, tag
from lance_spark.table.versions.ref_files import branch as read_branch

VERSIONS = "_versions"
SUFFIX = ".manifest"
_V2_DIGITS = 20
_MAX_U64 = 2**64 - 1
_DETACHED = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Snapshot:
    """One version of a table: its manifest, and the file in `store` that holds it. A branch has a store of its own, in `tree/`."""

    store: Store
    manifest: Manifest
    path: str
    allow_other_stores: bool = False
    verify_checksums: bool = True

    @property
    def version(self) -> int:
        """The version's number."""
        return self.manifest.version

    @property
    def root(self) -> Store:
        """The root of the whole table, where tags and branches are kept; for a branch it is not the branch's own store."""
        branch = self.manifest.branch
        folder = f"/{branch_folder(branch)}" if branch is not None else ""
        uri = self.store.uri
        return self.store.at(uri.removesuffix(folder)) if folder and uri.endswith(folder) else self.store

    @property
    def locations(self) -> Locations:
        """Where the version's files are."""
        return Locations(self.store, self.manifest.base_paths, self.allow_other_stores, self.verify_checksums)

    def __str__(self) -> str:
        return f"{self.store.uri}, version {self.version}"


def reopened(snapshot: Snapshot, version: int | None = None) -> Snapshot:
    """Another version of the same table or branch (None: the latest), with the settings that this one was opened with."""
    other = open_snapshot(snapshot.store, version=version)
    return replace(other, allow_other_stores=snapshot.allow_other_stores, verify_checksums=snapshot.verify_checksums)


@contextlib.contextmanager
def in_use(snapshot: Snapshot) -> Iterator[None]:
    """While a version is read: if files are missing because it was cleaned up, this is said (VersionNotFoundError)."""
    try:
        yield
    except (CorruptFileError, MissingFileError) as e:
        if snapshot.store.exists(snapshot.path):
            raise
        raise VersionNotFoundError(f"{snapshot}, was removed while it was in use; open the table again") from e


def manifest_path(version: int, v2: bool = True) -> str:
    """The path of a version's manifest in the V2 or the V1 naming scheme."""
    return f"{VERSIONS}/{_MAX_U64 - version:0{_V2_DIGITS}}{SUFFIX}" if v2 else f"{VERSIONS}/{version}{SUFFIX}"


def is_v2_path(path: str) -> bool:
    """Whether a manifest's path is of the V2 naming scheme."""
    return len(path.rpartition("/")[2]) == _V2_DIGITS + len(SUFFIX)


def version_of(name: str) -> int | None:
    """The version that a file name in `_versions` stands for; None for a detached version and for anything else."""
    digits = name.removesuffix(SUFFIX)
    if digits == name or not digits.isascii() or not digits.isdigit():
        return None
    version = _MAX_U64 - int(digits) if len(digits) == _V2_DIGITS else int(digits)
    return version if 0 <= version < _DETACHED else None


def list_versions(store: Store) -> dict[int, str]:
    """All versions, ascending, and the paths of their manifests. Raises TableNotFoundError if there are none."""
    found: dict[int, str] = {}
    for entry in store.list(VERSIONS):
        version = version_of(entry.name)
        # While a table is migrated a version can be there under both names.
        if version is not None and (version not in found or is_v2_path(entry.name)):
            found[version] = f"{VERSIONS}/{entry.name}"
    if (manifests := external(store)) is not None and (latest := manifests.latest()) is not None:
        # Taken from the database, the latest version is there however old the listing is.
        found[latest[0]] = latest[1]
    if not found:
        raise TableNotFoundError(f"there is no Lance table at {store.uri}")
    return dict(sorted(found.items()))


def timestamp_of(store: Store, version: int, path: str) -> datetime:
    """When a version was made, whose manifest is at `path`, to the microsecond."""
    return to_datetime(parse_timestamp(store.read(path), f"{store.uri}/{path}", version))


def to_datetime(nanoseconds: int) -> datetime:
    """A manifest's timestamp as a time in UTC, rounded down to microseconds.

    Raises CorruptFileError for a time that no calendar of Python has: before the year 1 or after 9999.
    """
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        raise CorruptFileError(
            f"a version says that it was made {nanoseconds / 1e9:.4g} seconds after 1970, outside the years 1 to 9999"
        ) from None


def open_snapshot(
    store: Store,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    timestamp: datetime | str | None = None,
    allow_other_stores: bool = False,
) -> Snapshot:
    """Open the latest version of the table at `store`, or the one that is asked for.

    At most one of `version`, `tag` and `timestamp` may be given; `branch` is where the version or timestamp is looked for. A `timestamp`
    (ISO 8601 if text; without a zone it is UTC) means the latest version that is not younger. `allow_other_stores` lets
    files be read from base paths in other stores or buckets. Raises TableNotFoundError or VersionNotFoundError, which names what there is.
    """
    if sum(x is not None for x in (version, tag, timestamp)) > 1 or (tag is not None and branch is not None):
        raise ValueError("give only one of version, tag and timestamp; a tag already says its branch")
    if tag is not None:
        version, branch = _resolve_tag(store, tag)
    if branch is not None and branch != MAIN:
        read_branch(store, branch)
        store = store.at(f"{store.uri}/{branch_folder(branch)}")
    if version is not None:
        return _open_version(store, version, allow_other_stores)
    versions = list_versions(store)
    wanted = max(versions) if timestamp is None else _as_of(store, versions, _moment(timestamp))
    return _open(store, wanted, versions[wanted], allow_other_stores)


def _resolve_tag(store: Store, name: str) -> tuple[int, str | None]:
    found = tag(store, name)
    return found.version, found.branch


def _open(store: Store, version: int, path: str, allow_other_stores: bool) -> Snapshot:
    manifest = parse(store.read(path), f"{store.uri}/{path}", version)
    if manifest.branch is not None and not is_branch_name(manifest.branch):
        raise CorruptFileError(f"{store.uri}/{path}: no branch can be called {manifest.branch!r}, as the manifest says of its own")
    return Snapshot(store, manifest, path, allow_other_stores)


def find_version(store: Store, version: int, allow_other_stores: bool = False) -> Snapshot | None:
    """One version of the table at `store`; None if it is not there. Nothing is listed for that."""
    if (manifests := external(store)) is not None:
        manifests.path_of(version)
    for v2 in (True, False):
        path = manifest_path(version, v2)
        if 0 <= version < _DETACHED:
            try:
                return _open(store, version, path, allow_other_stores)
            except FileNotFoundError:
                continue
    return None


def _open_version(store: Store, version: int, allow_other_stores: bool) -> Snapshot:
    if (found := find_version(store, version, allow_other_stores)) is not None:
        return found
    raise VersionNotFoundError(f"{store.uri} has no version {version}; there are: {_summary(list(list_versions(store)))}")


def _moment(timestamp: datetime | str) -> datetime:
    moment = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _as_of(store: Store, versions: dict[int, str], moment: datetime) -> int:
    """The latest of `versions` that was made no later than `moment`; versions are made in the order of their numbers."""
    numbers = list(versions)
    low = _first(len(numbers), lambda i: timestamp_of(store, numbers[i], versions[numbers[i]]) > moment)
    if low == 0:
        oldest = timestamp_of(store, numbers[0], versions[numbers[0]])
        raise VersionNotFoundError(
            f"{store.uri} has no version from {moment.isoformat()} or before; the oldest one is of {oldest.isoformat()}"
        )
    return numbers[low - 1]


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """The first i in range(count) for which `holds`, given that it holds for all after it; `count` if it holds for none."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _summary(versions: list[int]) -> str:
    """Version numbers with runs written as "1 to 7"."""
    runs: list[list[int]] = []
    for v in versions:
        if runs and runs[-1][1] == v - 1:
            runs[-1][1] = v
        else:
            runs.append([v, v])
    shown = [str(a) if a == b else f"{a} to {b}" for a, b in runs[-10:]]
    return ("... " if len(runs) > 10 else "") + ", ".join(shown)
