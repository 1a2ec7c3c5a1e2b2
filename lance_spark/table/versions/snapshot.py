"""Opening a table: listing its versions and loading one of them as a snapshot.

Implements the manifest naming schemes of the table specification: `_versions/{2^64 - 1 - version, 20 digits}.manifest` (V2, where the
latest version sorts first) and `_versions/{version}.manifest` (V1). A folder may contain both during a migration. Names that start
with "d" are detached versions, which belong to no history. The version hint in the same folder is not used here.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Literal, Protocol, get_args

from lance_spark.errors import (
    CorruptFileError,
    InvalidOptionError,
    MissingFileError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_spark.metadata.fragment import BasePath, Fragment, IndexMetadata
from lance_spark.metadata.locations import VERSIONS as VERSIONS
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.manifest import Manifest, parse, parse_timestamp
from lance_spark.storage.store import Store
from lance_spark.table.build.reuse_history import FRAGMENT_REUSE, with_details_files
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions.identity import Pin, Standing, identity, standing_at
from lance_spark.table.versions.other_formats import how_to_read, tables_near
from lance_spark.table.versions.ref_files import MAIN, branch_folder, is_branch_name, tag
from lance_spark.table.versions.ref_files import branch as read_branch
from lance_spark.table.versions.spilled_lineage import read_spilled

MemWal = Literal["merged", "base"]
MEM_WALS: tuple[MemWal, ...] = get_args(MemWal)
"""How a version with a write-ahead log is read: "merged" with the rows of the log, or only what is in the table, its "base"."""

SUFFIX = ".manifest"
_V2_DIGITS = 20
_MAX_U64 = 2**64 - 1
_DETACHED = 1 << 63
_DETACHED_NAME = f"{_MAX_U64 - _DETACHED:0{_V2_DIGITS}}{SUFFIX}"
"""The V2 name of the first version that would be detached: versions of the history have greater names."""

MADE_ANEW = "no longer exists: the table was dropped and made anew; open it again"
DROPPED = "no longer exists: the table was dropped"

_TRIES = 3
"""A cleanup may remove the latest version after the listing only if a newer one was committed meanwhile."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Identified(Protocol):
    @property
    def identity(self) -> str: ...


@dataclass(frozen=True)
class LogIndex:
    """A segment of an index of an SSTable, whose rows are rows of a version.

    `numbers` are pairs: a fragment as the segment names it, and its id in the version.
    """

    segment: IndexMetadata
    numbers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LogRows:
    """The rows of a version's write-ahead log as `added` fragments, whose SSTables are in `folders`, and have `indexes`.

    In the fragments `masked`, the rows of the table that the log replaces, `replaced` in number, are deleted.
    """

    masked: tuple[Fragment, ...]
    added: tuple[Fragment, ...]
    folders: tuple[BasePath, ...]
    indexes: tuple[LogIndex, ...]
    replaced: int

    @property
    def num_rows(self) -> int:
        """The number of rows of the log."""
        return sum(f.physical_rows - (f.deletion.num_deleted or 0 if f.deletion else 0) for f in self.added)

    @property
    def first_address(self) -> int:
        """Addresses from this one on are those of rows of the log."""
        return self.added[0].id << 32 if self.added else 2**64


@dataclass(frozen=True)
class Snapshot:
    """One version of a table: its manifest, and the path of the manifest file in `store`. A branch has its own store, in `tree/`.

    `mem_wal` says whether reads return the rows of its write-ahead log, too. `log`: these rows are in the manifest, which is not stored
    like this, see `mem_wal.version`.
    """

    store: Store
    manifest: Manifest
    path: str
    allow_other_stores: bool = False
    verify_checksums: bool = True
    mem_wal: MemWal = "merged"
    log: LogRows | None = None

    @property
    def version(self) -> int:
        """The version's number."""
        return self.manifest.version

    @property
    def identity(self) -> str:
        """What distinguishes the version from that of another table at the same path; see `table.versions.identity`."""
        return identity(self.manifest)

    @property
    def pin(self) -> Pin:
        """The version without its manifest."""
        return Pin(self.store, self.version, self.path, self.identity)

    @property
    def root(self) -> Store:
        """The store of the whole table, which contains its tags and branches; for a branch, this is not the branch's own store."""
        branch = self.manifest.branch
        folder = f"/{branch_folder(branch)}" if branch is not None else ""
        uri = self.store.uri
        return self.store.at(uri.removesuffix(folder)) if folder and uri.endswith(folder) else self.store

    @cached_property
    def locations(self) -> Locations:
        """The locations of the version's files, and what stays in memory of them."""
        bases, trusted = self.manifest.base_paths, self.allow_other_stores
        return Locations(self.store, bases, trusted, self.verify_checksums, read_spilled=read_spilled)

    def __str__(self) -> str:
        return f"{self.store.uri}, version {self.version}"


def reopened(snapshot: Snapshot, version: int | None = None) -> Snapshot:
    """Another version of the same table or branch (None: the latest), with the settings that this one was opened with.

    If it is the latest itself, its manifest is not read again. Raises VersionNotFoundError if the table was dropped and made anew.
    """
    with of_same_table(snapshot):
        if version is None and snapshot.log is None and latest_version(snapshot.store) == (snapshot.version, snapshot.path):
            return snapshot
        other = open_snapshot(snapshot.store, version=version)
    return opened_as(snapshot, other)


def check_mem_wal(mem_wal: object) -> None:
    """Raise InvalidOptionError for what is no `MemWal`."""
    if mem_wal not in MEM_WALS:
        raise InvalidOptionError(f"mem_wal must be one of {', '.join(MEM_WALS)}, not {mem_wal!r}")


def opened_as(snapshot: Snapshot, other: Snapshot) -> Snapshot:
    """`other` with the settings that `snapshot` was opened with."""
    return replace(
        other,
        allow_other_stores=snapshot.allow_other_stores,
        verify_checksums=snapshot.verify_checksums,
        mem_wal=snapshot.mem_wal,
    )


@contextlib.contextmanager
def in_use(snapshot: Snapshot | Pin) -> Iterator[None]:
    """Wrap reads of a version: if they fail because it was removed, or its table dropped, raise VersionNotFoundError."""
    try:
        yield
    except (CorruptFileError, MissingFileError) as e:
        if standing(snapshot) is Standing.SAME:
            raise
        removed = VersionNotFoundError(f"{snapshot}, was removed while it was read; open the table again")
        raise _lost(snapshot) or removed from e


def standing(snapshot: Snapshot | Pin) -> Standing:
    """What is stored in the place of the snapshot's version now."""
    if (manifests := external(snapshot.store)) is not None:
        manifests.path_of(snapshot.version)  # completes a commit
    found = standing_at(snapshot.store, snapshot.path, snapshot.identity)
    if found is Standing.GONE:
        # A migration may have renamed it.
        other = manifest_path(snapshot.version, not is_v2_path(snapshot.path))
        return standing_at(snapshot.store, other, snapshot.identity)
    return found


@contextlib.contextmanager
def of_same_table(snapshot: Snapshot) -> Iterator[None]:
    """Wrap the opening of another version: raise VersionNotFoundError if the table of the snapshot was dropped, and perhaps made anew."""
    try:
        yield
    except (VersionNotFoundError, MissingFileError):
        _check_not_lost(snapshot)
        raise
    _check_not_lost(snapshot)


def _check_not_lost(snapshot: Snapshot) -> None:
    if standing(snapshot) is not Standing.SAME and (error := _lost(snapshot)):
        raise error


def _lost(snapshot: Snapshot | Pin) -> VersionNotFoundError | None:
    """The error that the table of a version, which is no longer stored, was dropped; None if only the version was removed."""
    try:
        latest = latest_version(snapshot.store)[0]
    except TableNotFoundError:
        return VersionNotFoundError(f"{snapshot}, {DROPPED}")
    if latest >= snapshot.version and standing(snapshot) is not Standing.OTHER:
        return None
    return VersionNotFoundError(f"{snapshot}, {MADE_ANEW}")


def open_pinned(store: Store, version: int, identity: str, allow_other_stores: bool = False) -> Snapshot:
    """Open a version that was opened before, when it had this identity.

    Raises VersionNotFoundError if it is no longer there, also if the table was dropped, or a version of another table has its number now.
    """
    try:
        found = _open_version(store, version, allow_other_stores)
    except TableNotFoundError as e:
        raise VersionNotFoundError(f"{store.uri}, version {version}, {DROPPED}") from e
    except VersionNotFoundError as e:
        if latest_version(store)[0] < version:
            raise VersionNotFoundError(f"{store.uri}, version {version}, {MADE_ANEW}") from e
        raise
    check_identity(found, identity)
    return found


def check_identity(found: _Identified, identity: str) -> None:
    """Raise VersionNotFoundError if a version has another identity than the one with its number that was opened before."""
    if found.identity != identity:
        raise VersionNotFoundError(f"{found}, {MADE_ANEW}")


def manifest_path(version: int, v2: bool = True) -> str:
    """The path of a version's manifest in the V2 or the V1 naming scheme."""
    return f"{VERSIONS}/{_MAX_U64 - version:0{_V2_DIGITS}}{SUFFIX}" if v2 else f"{VERSIONS}/{version}{SUFFIX}"


def is_v2_path(path: str) -> bool:
    """True if a manifest's path follows the V2 naming scheme."""
    return len(path.rpartition("/")[2]) == _V2_DIGITS + len(SUFFIX)


def version_of(name: str) -> int | None:
    """The version in the file name of a manifest; None for detached versions and other files."""
    digits = name.removesuffix(SUFFIX)
    if digits == name or not digits.isascii() or not digits.isdigit():
        return None
    version = _MAX_U64 - int(digits) if len(digits) == _V2_DIGITS else int(digits)
    return version if 0 <= version < _DETACHED else None


def list_versions(store: Store) -> dict[int, str]:
    """All versions in ascending order, with the paths of their manifests. Raises TableNotFoundError if there are none."""
    named = [(version, name) for name in store.names(VERSIONS) if (version := version_of(name)) is not None]
    _check_one_scheme(store, (name for _, name in named))
    found = {version: f"{VERSIONS}/{name}" for version, name in named}
    if (manifests := external(store)) is not None and (latest := manifests.latest()) is not None:
        # The listing may be outdated; the database is not.
        found[latest[0]] = latest[1]
    if not found:
        raise _not_found(store)
    return dict(sorted(found.items()))


def latest_version(store: Store) -> tuple[int, str]:
    """The latest version and the path of its manifest. Raises TableNotFoundError if there is none."""
    names = store.names(VERSIONS)
    # In the V2 scheme the first name is that of the latest version; names are compared, not parsed, since there can be very many.
    v2 = [name for name in names if len(name) == len(_DETACHED_NAME)]
    newest = min(v2, default="")
    if newest <= _DETACHED_NAME:
        newest = min((name for name in v2 if name > _DETACHED_NAME), default="")
    others = [name for name in names if len(name) != len(_DETACHED_NAME)]
    named = [(v, name) for name in [*others, newest] if (v := version_of(name)) is not None]
    found = {v: f"{VERSIONS}/{name}" for v, name in named}
    if newest and version_of(newest) is None:
        return next(reversed(list_versions(store).items()))
    _check_one_scheme(store, (name for _, name in named))
    if (manifests := external(store)) is not None and (latest := manifests.latest()) is not None:
        # The listing may be outdated; the database is not.
        found[latest[0]] = latest[1]
    if not found:
        raise _not_found(store)
    return max(found.items())


def _check_one_scheme(store: Store, found: Iterable[str]) -> None:
    """Raise UnsupportedFeatureError for manifests with names of both schemes, which an interrupted migration leaves."""
    names = {is_v2_path(name): f"{VERSIONS}/{name}" for name in found}
    if len(names) > 1:
        raise UnsupportedFeatureError(
            f"{store.uri} has manifests with names of both schemes, {names[False]} and {names[True]}, as an interrupted migration leaves "
            f"them, and pylance does not open it; call Dataset.migrate_manifest_paths_v2({store.uri!r})"
        )


def _not_found(store: Store) -> TableNotFoundError:
    return TableNotFoundError(f"no Lance table found at {store.uri}{how_to_read(store) or tables_near(store)}")


def timestamp_of(store: Store, version: int, path: str) -> datetime:
    """The commit time of the version whose manifest is at `path`, rounded down to microseconds."""
    return to_datetime(parse_timestamp(store.read(path), f"{store.uri}/{path}", version))


def to_datetime(nanoseconds: int) -> datetime:
    """A manifest's timestamp as a time in UTC, rounded down to microseconds.

    Raises CorruptFileError for a time outside the years 1 to 9999, which Python cannot represent.
    """
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        raise CorruptFileError(
            f"the manifest's timestamp, {nanoseconds / 1e9:.4g} seconds after 1970, is outside the years 1 to 9999"
        ) from None


def open_snapshot(
    store: Store,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    timestamp: datetime | str | None = None,
    allow_other_stores: bool = False,
    identity: str = "",
) -> Snapshot:
    """Open the latest version of the table at `store`, or the requested one.

    At most one of `version`, `tag` and `timestamp` may be given; `version` and `timestamp` refer to `branch`. A `timestamp` (ISO 8601 if
    text, UTC without a zone) selects the latest version that is not newer. `allow_other_stores` permits reading files from base paths
    in other stores or buckets. `identity` is that of the `version`, if it was opened before; see `open_pinned`. Raises TableNotFoundError,
    or VersionNotFoundError, which lists the existing versions; TypeError or ValueError for a `version` that is not an integer and a
    `timestamp` that is not a time.
    """
    if sum(x is not None for x in (version, tag, timestamp)) > 1 or (tag is not None and branch is not None):
        raise ValueError("give only one of version, tag and timestamp, and no branch with a tag, which includes its branch")
    if tag is not None:
        version, branch = _resolve_tag(store, tag)
    if branch is not None and branch != MAIN:
        read_branch(store, branch)
        store = store.at(f"{store.uri}/{branch_folder(branch)}")
    if version is not None:
        if identity:
            return open_pinned(store, version, identity, allow_other_stores)
        return _open_version(store, _number(version), allow_other_stores)
    if timestamp is None:
        return _open_latest(store, allow_other_stores)
    versions = list_versions(store)
    wanted = _as_of(store, versions, _moment(timestamp))
    return _open(store, wanted, versions[wanted], allow_other_stores)


def _open_latest(store: Store, allow_other_stores: bool) -> Snapshot:
    for _ in range(_TRIES):
        with contextlib.suppress(MissingFileError):
            return _open(store, *latest_version(store), allow_other_stores)
        # After the listing, a newer version was committed and a cleanup removed this one, or the table was dropped and made anew.
    return _open(store, *latest_version(store), allow_other_stores)


def _resolve_tag(store: Store, name: str) -> tuple[int, str | None]:
    found = tag(store, name)
    return found.version, found.branch


def _open(store: Store, version: int, path: str, allow_other_stores: bool) -> Snapshot:
    return _parsed(store, version, path, store.read(path), allow_other_stores)


def _parsed(store: Store, version: int, path: str, data: bytes, allow_other_stores: bool) -> Snapshot:
    manifest = parse(data, f"{store.uri}/{path}", version)
    if manifest.branch is not None and not is_branch_name(manifest.branch):
        raise CorruptFileError(f"{store.uri}/{path}: the manifest has the invalid branch name {manifest.branch!r}")
    if any(index.name == FRAGMENT_REUSE for index in manifest.indexes):
        locations = Locations(store, manifest.base_paths, allow_other_stores)
        manifest = replace(manifest, indexes=with_details_files(manifest.indexes, locations))
    return Snapshot(store, manifest, path, allow_other_stores)


def find_version(store: Store, version: int, allow_other_stores: bool = False) -> Snapshot | None:
    """Open one version of the table at `store`, without a listing; None if it does not exist."""
    found = read_manifest(store, version)
    return None if found is None else _parsed(store, version, *found, allow_other_stores)


def has_successor(snapshot: Snapshot) -> bool:
    """Whether the next version exists, in the naming scheme of this one. One request."""
    if external(snapshot.store) is not None:
        return latest_version(snapshot.store)[0] > snapshot.version
    return snapshot.store.exists(manifest_path(snapshot.version + 1, is_v2_path(snapshot.path)))


def read_manifest(store: Store, version: int) -> tuple[str, bytes] | None:
    """The path and the content of the manifest file of one version; None if it does not exist."""
    if (manifests := external(store)) is not None:
        manifests.path_of(version)
    for v2 in (True, False):
        path = manifest_path(version, v2)
        if 0 <= version < _DETACHED:
            try:
                return path, store.read(path)
            except FileNotFoundError:
                continue
    return None


def _open_version(store: Store, version: int, allow_other_stores: bool) -> Snapshot:
    if (found := find_version(store, version, allow_other_stores)) is not None:
        return found
    raise VersionNotFoundError(f"{store.uri} has no version {version}; existing versions: {_summary(list(list_versions(store)))}")


def _number(version: object) -> int:
    if isinstance(version, bool) or not hasattr(version, "__index__"):
        raise TypeError(f"version must be an integer, not {version!r}")
    return operator.index(version)


def _moment(timestamp: datetime | str) -> datetime:
    expected = "timestamp must be a datetime or text in ISO 8601, such as 2026-01-31T12:00:00Z"
    try:
        moment = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
    except ValueError:
        raise ValueError(f"{expected}, not {timestamp!r}") from None
    if not isinstance(moment, datetime):
        raise TypeError(f"{expected}, not {timestamp!r}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _as_of(store: Store, versions: dict[int, str], moment: datetime) -> int:
    """The latest of `versions` that was committed no later than `moment`. Commit times ascend with the version numbers."""
    numbers = list(versions)
    low = _first(len(numbers), lambda i: timestamp_of(store, numbers[i], versions[numbers[i]]) > moment)
    if low == 0:
        oldest = timestamp_of(store, numbers[0], versions[numbers[0]])
        raise VersionNotFoundError(
            f"{store.uri} has no version from {moment.isoformat()} or earlier; the oldest version is from {oldest.isoformat()}"
        )
    return numbers[low - 1]


def version_since(store: Store, moment: datetime) -> int | None:
    """The first version that was committed at this time or later; None if there is none. Commit times ascend with the version numbers."""
    versions = list_versions(store)
    numbers = list(versions)
    first = _first(len(numbers), lambda i: timestamp_of(store, numbers[i], versions[numbers[i]]) >= moment)
    return numbers[first] if first < len(numbers) else None


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """Binary search: the first i in range(count) for which `holds(i)` is true, `count` if there is none. Once true, it stays true."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _summary(versions: list[int]) -> str:
    """Abbreviate version numbers: "1 to 7, 9"."""
    runs: list[list[int]] = []
    for v in versions:
        if runs and runs[-1][1] == v - 1:
            runs[-1][1] = v
        else:
            runs.append([v, v])
    shown = [str(a) if a == b else f"{a} to {b}" for a, b in runs[-10:]]
    return ("... " if len(runs) > 10 else "") + ", ".join(shown)
