"""Notes of finished fragments in a folder, so that an expensive function goes on where it was stopped, even by the end of its driver.

There is one note for each fragment, a JSON file: the new data file, which is in the table's folder already, and what its values were
calculated from. A note counts only while the fragment has the same files, every row of it has a value, and the new file is there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import LanceError, StorageError, logged
from lance_spark.metadata.bitmaps import bitmap_of, read_bitmap
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.metadata.locations import DATA, check_relative
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.storage.store import Store
from lance_spark.table.changes.column_files import ColumnFile
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)
_READERS = 16
"""Notes are small files, so latency dominates."""


@dataclass(frozen=True)
class Checkpoint:
    """The notes in `store` that begin with `key`, which stands for the table, the columns that are read, and the new columns.

    `whole`: a note counts only if it has a value for every row of its fragment that is not deleted.
    """

    store: Store
    key: str
    whole: bool = True

    def note(self, fragment: Fragment, file: ColumnFile, since: float) -> None:
        """Note that the new columns of a fragment are finished. `since` is when writing began, in seconds since 1970."""
        data = file.file
        note = {
            "fragment": _identity(fragment),
            "file": [data.path, data.fields, data.column_indices, data.version, data.size],
            "rows": base64.b64encode(file.rows).decode(),
            "since": since,
        }
        self.store.put(self._name(fragment.id), json.dumps(note).encode())

    def found(self, snapshot: Snapshot, without: Container[int] = ()) -> dict[int, tuple[Fragment, ColumnFile, float]]:
        """The noted fragments of the version that still count, by id, each with the time when its file was begun; not those `without`."""
        names = {entry.name for entry in self.store.list("")}
        fragments = [f for f in snapshot.manifest.fragments if f.id not in without and self._name(f.id) in names]
        with ThreadPoolExecutor(_READERS) as pool:
            read = list(pool.map(lambda fragment: self._read(snapshot, fragment), fragments))
        return {fragment.id: (fragment, *note) for fragment, note in zip(fragments, read) if note is not None}

    def forget(self, fragments: Iterable[int]) -> None:
        """Delete the notes of fragments, whose columns are committed. Best effort."""
        for i in fragments:
            with logged(f"{self.store.uri}: deleting the note of fragment {i}"):
                self.store.delete(self._name(i))

    def _name(self, fragment_id: int) -> str:
        return f"{self.key}-{fragment_id}.json"

    def _read(self, snapshot: Snapshot, fragment: Fragment) -> tuple[ColumnFile, float] | None:
        name = self._name(fragment.id)
        try:
            note = json.loads(self.store.read(name))
            path, fields, columns, version, size = note["file"]
            check_relative(path, "data file")
            file = DataFile(path, tuple(fields), tuple(columns), (version[0], version[1]), size)
            rows = read_bitmap(base64.b64decode(note["rows"]), f"the rows of {name}")
            if note["fragment"] != _identity(fragment) or (self.whole and not _covers(rows, fragment, snapshot)):
                return None
            if snapshot.store.size(f"{DATA}/{path}") != size:
                return None
            return ColumnFile(fragment.id, file, bytes(rows.serialize()), len(rows)), float(note["since"])
        except StorageError:
            return None
        except (LanceError, ValueError, LookupError, TypeError) as e:
            _LOG.warning("%s/%s is not a note of a finished fragment, which is calculated again: %s", self.store.uri, name, e)
            return None


def _identity(fragment: Fragment) -> list[Any]:
    """What new columns of a fragment are calculated from, as JSON has it."""
    return [fragment.id, fragment.physical_rows, [[f.path, f.base_id, list(f.fields)] for f in fragment.files]]


def _covers(rows: BitMap, fragment: Fragment, snapshot: Snapshot) -> bool:
    """Whether all rows of the fragment that are not deleted are among `rows`."""
    return len(rows | bitmap_of(read_deletions(fragment, snapshot.locations))) == fragment.physical_rows


def checkpoint_of(snapshot: Snapshot, folder: str, schema: pa.Schema, columns: Sequence[str] | None) -> Checkpoint:
    """The checkpoint of new columns `schema`, calculated from `columns`, in `folder`: a path or URI, with the table's storage options."""
    known = snapshot.manifest.schema
    read = known.fields if columns is None else [with_row_columns(known).resolve(path)[-1] for path in columns]
    # The ids tell columns apart that have had one name.
    new_columns = [[f.name, str(f.type)] for f in schema]
    meaning = [snapshot.store.uri, new_columns, [[f.id, f.name] for f in read]]
    return Checkpoint(snapshot.store.at(folder), hashlib.sha256(json.dumps(meaning).encode()).hexdigest()[:24])
