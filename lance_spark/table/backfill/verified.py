"""Which fragments need not be read to know what they lack: notes that the fingerprints of their rows are those of their inputs.

The fingerprints in the state column decide; these notes only spare reading the inputs again, such as all pictures of a table. A note names
the files of a fragment that have the state and the inputs. As files never change, it cannot become wrong, and it may be lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lance_spark.errors import StorageError, logged
from lance_spark.metadata.fragment import Fragment
from lance_spark.storage.store import Store
from lance_spark.table.backfill.state import Columns

_PREFIX = "verified-"


@dataclass
class Verified:
    """The notes in a folder: by files, the version of which all rows have results, "" if some may have none or one of another."""

    store: Store
    columns: Columns
    known: dict[str, str] = field(default_factory=dict)
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
            except (StorageError, ValueError):
                continue
            if isinstance(notes, dict):
                found.known |= {str(files): str(version) for files, version in notes.items()}
        return found

    def of(self, fragment: Fragment) -> str | None:
        """The version of which all rows of the fragment have results ("": unknown); None if its inputs must be read to know."""
        return self.known.get(self._files(fragment))

    def note(self, fragments: Mapping[int, str], now: Iterable[Fragment]) -> None:
        """Note fragments among `now`, with a version or "" by id. Best effort."""
        new = {self._files(f): fragments[f.id] for f in now if f.id in fragments}
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

    def _put(self, notes: Mapping[str, str]) -> None:
        name = f"{_PREFIX}{uuid.uuid4().hex}.json"
        with logged(f"{self.store.uri}: writing {name}"):
            self.store.put(name, json.dumps(notes).encode())
            self._names.append(name)

    def _files(self, fragment: Fragment) -> str:
        state = {f.id for f in self.columns.state.walk()}
        inputs = {f.id for path in self.columns.inputs for f in path[-1].walk()}
        return "|".join(
            ",".join(f"{file.base_id or ''}:{file.path}" for file in fragment.files if not ids.isdisjoint(file.fields))
            for ids in (state, inputs)
        )


def has_state(fragment: Fragment, columns: Columns) -> bool:
    """Whether a file of the fragment has states of its rows."""
    ids = {f.id for f in columns.state.walk()}
    return any(not ids.isdisjoint(file.fields) for file in fragment.files)
