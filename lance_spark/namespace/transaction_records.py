"""What is written down of transactions: files below the root while they are open, and their records in `__manifest`.

An open transaction has the file `__transactions/<id>.begun`, and for each table that it has touched the
file `__transactions/<id>.<folder>.touched`. So one listing tells whether there is anything to look for.
In the name of the file is a digest of a long folder, which the content then has after a line break.
Its record is an entry of the metadata of the table `__manifest`, which every writer of `__manifest` keeps:
the version that has it is the commit. Records are numbered in the order of the commits.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from lance_spark.errors import CommitConflictError, CorruptFileError, InvalidOperationError, MissingFileError
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.storage.store import Store
from lance_spark.table.versions.ref_files import TRANSACTION_BRANCH

FOLDER = "__transactions"
PREFIX = "lance_spark.transaction."
"""How the keys of records begin, which the number of the transaction follows."""
LAST = "lance_spark.transactions"
"""The key of the number of the last transaction."""
KEPT = 100
"""Records that are kept after their transaction is finished, for readers that began before it."""
ABANDONED_S = 7 * 24 * 3600.0
"""The age at which an open transaction is taken for one whose writer has died, as a cleanup takes its files."""
_MARGIN_S = 3600.0
"""The longest time that a commit takes, and by which clocks differ."""
_BEGUN, _TOUCHED = ".begun", ".touched"
_DIGEST = "="
"""What a digest begins with: the quoted name of a folder has no such character."""
_MOST_QUOTED = 128
"""The longest quoted name in the name of a file, which may have 255 bytes."""


@dataclass(frozen=True)
class Change:
    """The change of a table, in a folder below the root: the versions of its branch from `fork` to `head`.

    `landed` is the version of the table that has the change; None until it is known.
    """

    folder: str
    branch: str
    fork: int
    fork_identity: str
    head: int
    head_identity: str
    landed: int | None = None


@dataclass(frozen=True)
class Record:
    """A committed transaction. It is `finished` when all of its tables have their changes."""

    number: int
    id: str
    changes: tuple[Change, ...]
    finished: bool = False

    @property
    def key(self) -> str:
        """The key of the record."""
        return f"{PREFIX}{self.number:020d}"

    def to_json(self) -> str:
        """The record as text."""
        changes = [vars(change) for change in self.changes]
        return json.dumps({"id": self.id, "changes": changes, "finished": self.finished})

    def of(self, folder: str) -> Change | None:
        """The change of the table in a folder; None if it has none."""
        return next((change for change in self.changes if change.folder == folder), None)


@dataclass(frozen=True)
class Opened:
    """An open transaction: its id, and the number of the last one that it sees the changes of."""

    id: str
    sees: int
    begun: float = field(default_factory=time.time)

    @property
    def branch(self) -> str:
        """The name of its branch of each table."""
        return f"{TRANSACTION_BRANCH}{self.id}"


def records(table: ManifestTable) -> list[Record]:
    """The records in a version of `__manifest`, in the order of the commits."""
    found = [_record(table, key, text) for key, text in table.metadata.items() if key.startswith(PREFIX)]
    return sorted(found, key=lambda record: record.number)


def last_number(table: ManifestTable) -> int:
    """The number of the last transaction; 0 if there was none."""
    text = table.metadata.get(LAST, "0")
    if not text.isdecimal():
        raise CorruptFileError(f"{table.store.uri}: {LAST} is {text[:40]!r}, expected a number")
    return int(text)


def is_record(key: str) -> bool:
    """Whether a key of the metadata belongs to transactions."""
    return key == LAST or key.startswith(PREFIX)


def _record(table: ManifestTable, key: str, text: str) -> Record:
    try:
        found = json.loads(text)
        changes = tuple(Change(**change) for change in found["changes"])
        return Record(int(key.removeprefix(PREFIX)), str(found["id"]), changes, bool(found["finished"]))
    except (ValueError, TypeError, KeyError) as e:
        raise CorruptFileError(f"{table.store.uri}: the record {key} of a transaction is damaged: {e}") from e


def changed(table: ManifestTable, record: Record) -> Mapping[str, str | None]:
    """The entries that replace a record, and drop the oldest of those that are finished."""
    finished = [other for other in records(table) if other.finished and other.number != record.number]
    dropped = finished[: max(0, len(finished) + 1 - KEPT)]
    return {**{other.key: None for other in dropped}, record.key: record.to_json()}


def begin(root: Store, sees: int) -> Opened:
    """Open a transaction."""
    opened = Opened(uuid.uuid4().hex[:16], sees)
    content = json.dumps({"sees": opened.sees, "begun": opened.begun}).encode()
    root.put_if_absent(f"{FOLDER}/{opened.id}{_BEGUN}", content)
    return opened


def open_transaction(root: Store, id: str) -> Opened:
    """The transaction with an id. Raises InvalidOperationError if it is over."""
    try:
        content = json.loads(root.read(f"{FOLDER}/{id}{_BEGUN}"))
        return Opened(id, int(content["sees"]), float(content["begun"]))
    except MissingFileError:
        raise InvalidOperationError(
            f"{root.uri}: the transaction {id} is over: it was committed or rolled back; begin another one"
        ) from None
    except (ValueError, TypeError, KeyError) as e:
        raise CorruptFileError(f"{root.uri}/{FOLDER}/{id}{_BEGUN} is damaged: {e}") from e


def check_not_old(root: Store, opened: Opened) -> None:
    """Raise CommitConflictError for a transaction so old that another one may be about to take it for abandoned."""
    age = time.time() - opened.begun
    if age > ABANDONED_S - _MARGIN_S:
        raise CommitConflictError(
            f"{root.uri}: the transaction {opened.id} was begun {age / 86400:.1f} days ago, and may be taken for one whose writer has "
            "died; run it again",
            retryable=True,
        )


def touch(root: Store, id: str, folder: str, *, made: bool) -> None:
    """Note that a transaction makes its branch of the table in a folder, or that it is made."""
    state, name = "made" if made else "", _folder_name(folder)
    content = f"{state}\n{folder}" if name.startswith(_DIGEST) else state
    root.put(_touched_file(id, folder), content.encode())


def is_made(root: Store, id: str, folder: str) -> bool:
    """Whether the branch of a table that a transaction has touched was made."""
    return bytes(root.read(_touched_file(id, folder))).partition(b"\n")[0] == b"made"


def _touched_file(id: str, folder: str) -> str:
    return f"{FOLDER}/{id}.{_folder_name(folder)}{_TOUCHED}"


def _folder_name(folder: str) -> str:
    """The part of a file's name that stands for the folder of a table."""
    quoted = quote(folder, safe="")
    if len(quoted) <= _MOST_QUOTED:
        return quoted
    return f"{_DIGEST}{hashlib.sha256(folder.encode()).hexdigest()}"


def touched(root: Store, id: str) -> list[str]:
    """The folders of the tables of which a transaction may have a branch."""
    return sorted(_touched(root, id))


def _touched(root: Store, id: str) -> Iterator[str]:
    for name in root.names(FOLDER):
        if not (name.startswith(f"{id}.") and name.endswith(_TOUCHED)):
            continue
        folder_name = name.removeprefix(f"{id}.").removesuffix(_TOUCHED)
        if not folder_name.startswith(_DIGEST):
            yield unquote(folder_name)
            continue
        with contextlib.suppress(MissingFileError):  # closed after the listing
            yield bytes(root.read(f"{FOLDER}/{name}")).partition(b"\n")[2].decode()


def is_quiet(root: Store) -> bool:
    """Whether no transaction is open or unfinished."""
    return not root.names(FOLDER)


def abandoned(root: Store) -> list[str]:
    """The ids of open transactions that are so old that their writers must have died."""
    found, now = [], time.time()
    for name in root.names(FOLDER):
        if name.endswith(_BEGUN):
            with contextlib.suppress(InvalidOperationError):  # it has ended after the listing
                found.append(open_transaction(root, name.removesuffix(_BEGUN)))
    return [opened.id for opened in found if opened.begun + ABANDONED_S < now]


def close(root: Store, id: str, folder: str) -> None:
    """Note that a transaction has no branch of the table in a folder any more."""
    root.delete(_touched_file(id, folder))


def end(root: Store, id: str) -> None:
    """Remove the last file of a transaction, which has no branches any more."""
    root.delete(f"{FOLDER}/{id}{_BEGUN}")


def landed_in(record: Record, versions: Mapping[str, int | None]) -> Record:
    """The record of a transaction that is finished, with the versions in which the changes have landed."""
    changes = tuple(replace(change, landed=versions[change.folder]) for change in record.changes)
    return replace(record, changes=changes, finished=True)
