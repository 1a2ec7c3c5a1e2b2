"""Local files, read and written directly. Whatever is written whole is synced to the disk before it gets its name."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import BinaryIO, Protocol

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.buffers.memory import empty


@dataclass(frozen=True)
class Entry:
    """A file in a folder: its name below the folder, its size in bytes, and when it was last written (None: the store does not say)."""

    name: str
    size: int
    modified: datetime | None


class Files(Protocol):
    """The operations of `Store` on full paths, with whatever errors the place raises.

    Ranges at most `gap` bytes apart are worth one read.
    """

    gap: int

    def read(self, path: str) -> bytes: ...
    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]: ...
    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]: ...
    def size(self, path: str) -> int: ...
    def walk(self, folder: str) -> list[Entry]: ...
    def list(self, folder: str) -> list[Entry]: ...
    def put(self, path: str, data: bytes) -> None: ...
    def put_if_absent(self, path: str, data: bytes) -> None: ...
    def create(self, path: str) -> contextlib.AbstractContextManager[BinaryIO]: ...
    def delete(self, path: str) -> None: ...


class LocalFiles:
    gap = 16 << 10

    def read(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as f:
            return f.read()

    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]:
        with open(path, "rb", buffering=0) as f:
            size = os.fstat(f.fileno()).st_size
            return [_pread(f.fileno(), start, min(stop, max(size, start))) for start, stop in reads]

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        with open(path, "rb", buffering=0) as f:
            size = os.fstat(f.fileno()).st_size
            return _pread(f.fileno(), max(size - n, 0), size), size

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def walk(self, folder: str) -> list[Entry]:
        entries = []
        for parent, _, _ in os.walk(folder):
            below = os.path.relpath(parent, folder).replace(os.sep, "/")
            inside = "" if below == "." else f"{below}/"
            entries += [replace(entry, name=inside + entry.name) for entry in self.list(parent)]
        return entries

    def list(self, folder: str) -> list[Entry]:
        entries = []
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
            for f in found:
                # Another writer's temporary file may vanish between the listing and the question; the others are there.
                with contextlib.suppress(FileNotFoundError):
                    if f.is_file():
                        about = f.stat()
                        entries.append(Entry(f.name, about.st_size, datetime.fromtimestamp(about.st_mtime, UTC)))
        return entries

    def put(self, path: str, data: bytes) -> None:
        with _temporary(path, data) as temporary:
            os.replace(temporary, path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        with _temporary(path, data) as temporary:
            os.link(temporary, path)

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        _make_folder(os.path.dirname(path))
        with open(path, "xb") as f:
            try:
                yield f
                f.flush()
                os.fsync(f.fileno())
            except BaseException:
                os.unlink(path)
                raise
        _sync_folder(os.path.dirname(path))

    def delete(self, path: str) -> None:
        os.unlink(path)


def _pread(fd: int, start: int, stop: int) -> Bytes:
    data = empty(stop - start)
    done = 0
    while done < len(data):
        n = os.preadv(fd, [data[done:].data], start + done)
        if n == 0:
            break
        done += n
    data = data[:done]
    data.flags.writeable = False
    return data


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError as e:
        # Said apart from "the file exists", which tells a commit that another writer was first.
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), e.filename) from None


@contextlib.contextmanager
def _temporary(path: str, data: bytes) -> Iterator[str]:
    """A synced file with `data` beside `path`, to be moved or linked there; then the folder is synced, to keep the name through a crash."""
    folder, name = os.path.split(path)
    _make_folder(folder)
    temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
