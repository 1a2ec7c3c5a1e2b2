"""A store with faults: with a fixed seed it loses requests and responses, delays writes, and returns stale listings."""

from __future__ import annotations

import contextlib
import errno
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.storage.local import Contents, Entry, Files, LocalFiles
from lance_spark.storage.store import Store


class FaultyFiles:
    """Local files behind an unreliable connection.

    Each call succeeds, is refused, or fails before or after its execution. A conditional put may be reported as failed and still be
    executed during any later call. A listing may be stale.
    """

    gap = LocalFiles.gap

    def __init__(self, seed: int, chance: float) -> None:
        self._inner = LocalFiles()
        self._random = random.Random(seed)
        self._chance = chance
        self._lock = threading.Lock()
        self._listings: dict[str, list[Entry]] = {}
        self._on_their_way: list[Callable[[], None]] = []
        self.faults = 0

    @contextlib.contextmanager
    def _connection(self) -> Iterator[None]:
        if self._drawn() < 0.3:
            self.arrive()
        draw = self._drawn()
        self.faults += draw < self._chance
        if draw < self._chance / 4:
            raise PermissionError(errno.EACCES, "refused")
        if draw < self._chance / 2:
            raise OSError(errno.ECONNRESET, "the request was lost")
        yield
        if draw < self._chance:
            raise OSError(errno.ETIMEDOUT, "the answer was lost")

    def _drawn(self) -> float:
        with self._lock:
            return self._random.random()

    def arrive(self) -> None:
        """Execute the delayed writes."""
        with self._lock:
            arriving, self._on_their_way = self._on_their_way, []
        for put in arriving:
            with contextlib.suppress(FileExistsError):
                put()

    def _listing(self, folder: str, now: list[Entry]) -> list[Entry]:
        with self._lock:
            old = self._listings.get(folder)
            if old is not None and self._random.random() < self._chance:
                return old
            if old is None or self._random.random() < 0.5:
                self._listings[folder] = now
            return now

    def read(self, path: str) -> bytes:
        with self._connection():
            return self._inner.read(path)

    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]:
        with self._connection():
            return self._inner.read_ranges(path, reads)

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        with self._connection():
            return self._inner.read_tail(path, n)

    def read_end(self, path: str, n: int) -> Bytes:
        with self._connection():
            return self._inner.read_end(path, n)

    def remove_empty_folders(self, folder: str) -> None:
        with self._connection():
            self._inner.remove_empty_folders(folder)

    def about(self, path: str) -> Entry:
        with self._connection():
            return self._inner.about(path)

    def walk(self, folder: str) -> list[Entry]:
        with self._connection():
            return self._listing(f"{folder}/**", self._inner.walk(folder))

    def list(self, folder: str) -> list[Entry]:
        with self._connection():
            return self._listing(folder, self._inner.list(folder))

    def names(self, folder: str) -> Sequence[str]:
        with self._connection():
            # The folders, too.
            return [entry.name for entry in self._listing(f"{folder}/", [Entry(name, 0, None) for name in self._inner.names(folder)])]

    def contents(self, folder: str) -> Contents:
        with self._connection():
            return self._inner.contents(folder)

    def delete_folder(self, folder: str) -> None:
        with self._connection():
            self._inner.delete_folder(folder)

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        with self._connection():
            self._inner.put(path, data, durable)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        with self._connection():
            if self._drawn() < self._chance:
                self._on_their_way.append(lambda: self._inner.put_if_absent(path, data, sync_name))
                raise OSError(errno.ETIMEDOUT, "no answer yet")
            self._inner.put_if_absent(path, data, sync_name)

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        with self._connection(), self._inner.create(path, sync_name) as out:
            yield out

    def sync(self, folder: str) -> None:
        self._inner.sync(folder)

    def delete(self, path: str) -> None:
        with self._connection():
            self._inner.delete(path)


class FaultyStore(Store):
    """Local files that are treated as an object store, whose errors prove nothing."""

    __slots__ = ("files",)

    def __init__(self, uri: str, files: FaultyFiles) -> None:
        super().__init__(uri)
        self.location = replace(self.location, kind="s3")
        self.files = files

    def at(self, uri: str, base_id: int | None = None) -> Store:
        return FaultyStore(uri, self.files)

    def _files(self) -> Files:
        return self.files
