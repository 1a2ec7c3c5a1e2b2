"""The history of a table: the time, operation, properties and message of each version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from numbers import Integral

from lance_spark.display.listing import SHOWN, Listing, left_out
from lance_spark.display.table import Table
from lance_spark.display.words import moment
from lance_spark.errors import VersionNotFoundError, check_type
from lance_spark.metadata.branch_merges import publishes
from lance_spark.metadata.manifest import parse_transaction
from lance_spark.metadata.numbered_writes import NumberedWrites
from lance_spark.metadata.operations import Delete, Operation, Unknown
from lance_spark.metadata.transaction import Transaction, parse, parse_head
from lance_spark.storage.store import Store
from lance_spark.table.versions.row_counts import NOTED, RowCounts, row_counts
from lance_spark.table.versions.snapshot import Snapshot, list_versions, open_snapshot, read_manifest, timestamp_of, to_datetime

TRANSACTIONS = "_transactions"
_UNKNOWN = Transaction(0, Unknown(b""), uuid="")
_LOCAL = ("file", "memory")
_CONNECTIONS = 32
"""Maximum number of concurrent requests to a remote store."""

COMMIT_MESSAGE = "__lance_commit_message"
"""The transaction property in which pylance stores a commit message."""


@dataclass(frozen=True)
class Version:
    """The number of a version and the time of its commit."""

    version: int
    timestamp: datetime


class Versions(Listing[Version]):
    """A list of versions, oldest first, that prints as a table."""

    def table(self, shown: int = SHOWN) -> Table:
        """One row for each of the newest versions."""
        rows = [(str(v.version), moment(v.timestamp)) for v in self[-shown:]]
        return Table(("version", "time"), rows, frozenset(["version"]), left_out(self, "older", shown))


@dataclass(frozen=True)
class HistoryEntry:
    """One version: its time, its operation (such as "Append"), the writer's properties, the commit message (None: none), and its rows."""

    version: int
    timestamp: datetime
    operation: str
    properties: Mapping[str, str]
    message: str | None
    rows: RowCounts


class History(Listing[HistoryEntry]):
    """A list of history entries, newest first, that prints as a table."""

    def table(self, shown: int = SHOWN) -> Table:
        """One row for each version."""
        rows = []
        for entry in self[:shown]:
            properties = ", ".join(f"{k}={v}" for k, v in entry.properties.items() if k not in NOTED)
            done = (entry.operation, str(entry.rows), entry.message or "", properties)
            rows.append((str(entry.version), moment(entry.timestamp), *done))
        headers = ("version", "time", "operation", "rows", "message", "properties")
        return Table(headers, rows, frozenset(["version"]), left_out(self, "older", shown))


def history(store: Store, limit: int | None = None) -> History:
    """The existing versions, newest first, at most `limit` of them."""
    if limit is not None:
        check_type("limit", limit, Integral, "an integer")
    entries, later = History(), None
    if limit is not None and limit <= 0:
        return entries
    for snapshot in newest_first(store):
        if later is not None:
            entries[-1] = _with_deleted_rows(entries[-1], later, snapshot)
            if len(entries) == limit:
                break
        later = snapshot
        transaction = transaction_of(snapshot)
        properties = {key: value for key, value in transaction.properties.items() if key != COMMIT_MESSAGE}
        name, message = type(transaction.operation).__name__, transaction.properties.get(COMMIT_MESSAGE)
        time = to_datetime(snapshot.manifest.timestamp)
        entries.append(HistoryEntry(snapshot.version, time, name, properties, message, row_counts(transaction)))
        if len(entries) == limit and not _lacks_rows(entries[-1]):
            break
    return entries


def _lacks_rows(entry: HistoryEntry) -> bool:
    """Whether only the version before tells how many rows were deleted."""
    return entry.operation == Delete.__name__ and entry.rows.deleted is None


def _with_deleted_rows(entry: HistoryEntry, snapshot: Snapshot, before: Snapshot) -> HistoryEntry:
    """The entry with the rows that a deletion removed, which its transaction need not tell."""
    if not _lacks_rows(entry) or before.version != snapshot.version - 1:
        return entry
    rows, left = before.manifest.num_rows, snapshot.manifest.num_rows
    return entry if rows is None or left is None else replace(entry, rows=RowCounts(0, 0, rows - left))


def versions(store: Store) -> Versions:
    """The existing versions, oldest first."""
    return Versions(Version(number, timestamp_of(store, number, path)) for number, path in list_versions(store).items())


def newest_first(store: Store) -> Iterator[Snapshot]:
    """Open the existing versions one by one, newest first. Versions that are removed meanwhile are skipped."""
    for version in reversed(list_versions(store)):
        try:
            yield open_snapshot(store, version=version)
        except VersionNotFoundError:
            continue


@dataclass(frozen=True)
class Head:
    """A version with the properties of its transaction, the version that it restores (None: none), and its `Manifest.numbered`."""

    version: int
    properties: Mapping[str, str]
    restored: int | None
    numbered: NumberedWrites | None


def transaction_heads(store: Store, paths: Mapping[int, str]) -> Iterator[Head]:
    """The versions with these manifests (see `list_versions`), newest first. Removed versions are skipped.

    Only the transactions are parsed. Those in a remote store are read some at a time, in ever larger groups.
    """

    def head(version: int) -> Head | None:
        path = paths[version]
        try:
            data, name, numbered = parse_transaction(store.read(path), f"{store.uri}/{path}", version)
            path = f"{TRANSACTIONS}/{name}" if data is None else path
            content = store.read(path) if data is None and name else data or b""
            properties, restored = parse_head(content, f"{store.uri}/{path}")
        except FileNotFoundError:
            return None
        return Head(version, properties, restored, numbered)

    left = sorted(paths, reverse=True)
    if store.location.kind in _LOCAL:
        yield from filter(None, map(head, left))
        return
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        size = 1
        while left:
            yield from filter(None, pool.map(head, left[:size]))
            left, size = left[size:], min(2 * size, 8 * _CONNECTIONS)


def transaction_of(snapshot: Snapshot | None) -> Transaction:
    """The transaction of a version. If it is missing, its operation is `Unknown`, which conflicts with every other."""
    if snapshot is None:
        return _UNKNOWN
    manifest = snapshot.manifest
    return _transaction(snapshot.store, snapshot.path, manifest.transaction, manifest.transaction_file)


def operation_of(snapshot: Snapshot) -> Operation:
    """The operation that made a version; `Unknown` for one that published a branch, and may have replaced anything."""
    transaction = transaction_of(snapshot)
    return Unknown(b"") if publishes(transaction.properties) else transaction.operation


def find_transaction(store: Store, version: int) -> Transaction | None:
    """`transaction_of` one version, without parsing the rest of its manifest; None if the version does not exist."""
    found = read_manifest(store, version)
    if found is None:
        return None
    path, data = found
    content, file_name, _ = parse_transaction(data, f"{store.uri}/{path}", version)
    return _transaction(store, path, content, file_name)


def find_transactions(store: Store, versions: Sequence[int]) -> Iterator[Transaction | None]:
    """`find_transaction` of each version, in their order. Those in a remote store are read some at a time."""
    find = partial(find_transaction, store)
    if store.location.kind in _LOCAL:
        yield from map(find, versions)
        return
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        yield from pool.map(find, versions)


def _transaction(store: Store, path: str, content: bytes | None, file_name: str) -> Transaction:
    """The transaction in the manifest at `path`, or in its own file."""
    if content is not None:
        return parse(content, f"{store.uri}/{path}")
    if not file_name:
        return _UNKNOWN
    own = f"{TRANSACTIONS}/{file_name}"
    try:
        return parse(store.read(own), f"{store.uri}/{own}")
    except FileNotFoundError:
        return _UNKNOWN
