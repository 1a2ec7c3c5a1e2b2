"""An external manifest store in a SQLite file, for the processes of one host."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator

from lance_spark.errors import StorageError
from lance_spark.storage.store import Store

_TABLE = (
    "CREATE TABLE IF NOT EXISTS manifests "
    "(base_uri TEXT NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (base_uri, version))"
)
_WAIT = 60.0
"""Seconds. Another writer locks the database for one small transaction."""


class SqliteManifests:
    """Implements `table.manifest_store.external.Manifests`. The file is created on first use; each call opens its own connection."""

    def __init__(self, store: Store, path: str) -> None:
        self._path = os.path.abspath(path)

    def base(self, store: Store) -> str:
        """The whole URI, since tables in different stores may share a database."""
        return store.uri

    def get(self, base: str, version: int) -> str | None:
        """The path of a version's manifest."""
        with self._connected() as db:
            row = db.execute("SELECT path FROM manifests WHERE base_uri = ? AND version = ?", (base, version)).fetchone()
        return None if row is None else str(row[0])

    def latest(self, base: str) -> tuple[int, str] | None:
        """The highest version and its path."""
        with self._connected() as db:
            row = db.execute("SELECT version, path FROM manifests WHERE base_uri = ? ORDER BY version DESC LIMIT 1", (base,)).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def put_if_absent(self, base: str, version: int, path: str, size: int) -> None:
        """Store the path atomically and durably. Raises FileExistsError if the version has one."""
        try:
            with self._connected() as db:
                db.execute("INSERT INTO manifests VALUES (?, ?, ?, ?)", (base, version, path, size))
        except sqlite3.IntegrityError:
            raise FileExistsError(f"{base}, version {version}") from None

    def replace(self, base: str, version: int, path: str, size: int) -> None:
        """Replace the path of an existing version."""
        with self._connected() as db:
            db.execute("UPDATE manifests SET path = ?, size = ? WHERE base_uri = ? AND version = ?", (path, size, base, version))

    def remove(self, base: str, version: int, path: str) -> None:
        """Remove a version if it has this path."""
        with self._connected() as db:
            db.execute("DELETE FROM manifests WHERE base_uri = ? AND version = ? AND path = ?", (base, version, path))

    def forget(self, base: str) -> bool:
        """Remove all versions of a table. True if there were any."""
        with self._connected() as db:
            return db.execute("DELETE FROM manifests WHERE base_uri = ?", (base,)).rowcount > 0

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=_WAIT)) as db, db:
                db.execute("PRAGMA synchronous = FULL")
                db.execute(_TABLE)
                yield db
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as e:
            raise StorageError(f"the manifest store in SQLite: {e}") from None
