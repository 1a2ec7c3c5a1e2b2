"""Which fragments need not be read to know what they lack: notes that the fingerprints of their rows are those of their inputs.

The fingerprints in the state column decide; these notes only spare reading the inputs again, such as all pictures of a table. A note names
the files of a fragment that have the state and the inputs, as they were when the rows were compared, and the rows that were deleted then: a
restore may bring these back. As files never change, a note cannot become wrong, and it may be lost.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lance_spark.errors import LanceError, StorageError, logged
from lance_spark.metadata.bitmaps import bitmap_of, read_bitmap
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.storage.store import Store
from lance_spark.table.backfill.state import Columns

_PREFIX = "verified-"


@dataclass(frozen=True)
class Compared:
    """What is known of the rows of a fragment, except the `deleted` ones (a portable roaring bitmap, empty for none).

    `version` is the version of the function of which all of them have results; "" if some may have none, or one of another.
    """

    version: str
    deleted: bytes = b""

    def covers(self, deleted: np.ndarray) -> bool:
        """Whether all rows were compared that are there now."""
        return not self.deleted or read_bitmap(self.deleted, "the deleted rows of a note") <= bitmap_of(deleted)


@dataclass
class Verified:
    """The notes in a folder, by the files that they name."""

    store: Store
    columns: Columns
    known: dict[str, Compared] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, store: Store, columns: Columns) -> Verified:
        """All notes in `store`. Those that cannot be read are as good as lost."""
        found = cls(store, columns)
        for entry in store.list(""):
            if not entry.name.startswith(_PREFIX):
                continue
            found._names.append(entry.name)
            try:
                notes = json.loads(store.read(entry.name))
                found.known |= {files: _parsed(note) for files, note in notes.items()}
            except (StorageError, LanceError, ValueError, TypeError, AttributeError):
                continue
        return found

    def of(self, fragment: Fragment, locations: Locations) -> str | None:
        """The version of which all rows of the fragment have results ("": unknown); None if its inputs must be read to know."""
        note = self.known.get(self._files(fragment))
        return note.version if note is not None and note.covers(read_deletions(fragment, locations)) else None

    def note(self, compared: Iterable[tuple[Fragment, str]], locations: Locations) -> None:
        """Note fragments, as they were when their rows were compared, each with a version or "". Best effort."""
        new = {}
        for fragment, version in compared:
            deleted = read_deletions(fragment, locations)
            new[self._files(fragment)] = Compared(version, bytes(bitmap_of(deleted).serialize()) if len(deleted) else b"")
        if new:
            self.known |= new
            self._put(new)

    def tidy(self, now: Iterable[Fragment]) -> None:
        """Replace all notes by one file with those of the fragments `now`. Best effort."""
        files = {self._files(f) for f in now}
        before, self._names = self._names, []
        if len(before) > 1:
            self.known = {key: version for key, version in self.known.items() if key in files}
            self._put(self.known)
            for name in before:
                with logged(f"{self.store.uri}: deleting {name}"):
                    self.store.delete(name)

    def _put(self, notes: Mapping[str, Compared]) -> None:
        name = f"{_PREFIX}{uuid.uuid4().hex}.json"
        shown = {files: [note.version, base64.b64encode(note.deleted).decode()] for files, note in notes.items()}
        with logged(f"{self.store.uri}: writing {name}"):
            self.store.put(name, json.dumps(shown).encode())
            self._names.append(name)

    def _files(self, fragment: Fragment) -> str:
        state = {f.id for f in self.columns.state.walk()}
        inputs = {f.id for path in self.columns.inputs for f in path[-1].walk()}
        found = []
        for ids in (state, inputs):
            files = [file for file in fragment.files if not ids.isdisjoint(file.fields)]
            found.append(",".join(f"{file.base_id or ''}:{file.path}" for file in files))
        overlays = [hashlib.sha256(overlay).hexdigest() for overlay in fragment.overlays]
        return "|".join([*found, *overlays])


def _parsed(note: object) -> Compared:
    """A note of a file. Raises ValueError or TypeError for what is none, such as those of earlier versions, which may be wrong."""
    if not isinstance(note, list):
        raise TypeError(f"{note!r} is no note")
    version, deleted = note
    return Compared(str(version), base64.b64decode(deleted))


def has_state(fragment: Fragment, columns: Columns) -> bool:
    """Whether a file of the fragment has states of its rows."""
    ids = {f.id for f in columns.state.walk()}
    return any(not ids.isdisjoint(file.fields) for file in fragment.files)
