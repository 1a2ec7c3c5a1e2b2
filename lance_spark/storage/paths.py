"""Local files by their whole paths, for systems that open no file within an open folder, such as Windows.

A link below the table's root is refused, but one that takes the place of a folder during an operation is not noticed. There are
no locks of folders, and names of files are as durable as the system makes them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import on_failure
from lance_spark.storage.local import Contents, Entry, LocalFiles, file_size, make_root, modified, refuse_link


def local_files(root: str) -> LocalFiles:
    """Files below a folder, as this system has them."""
    return LocalFiles(root) if os.open in os.supports_dir_fd else PathFiles(root)


class PathFiles(LocalFiles):
    """Files below the folder `root`, with the errors of `LocalFiles`."""

    def read(self, path: str) -> bytes:
        with self._reader(path) as (file, _):
            return file.read()

    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]:
        with self._reader(path) as (file, _):
            return [_read(file, start, stop) for start, stop in reads]

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        with self._reader(path) as (file, size):
            return _read(file, max(size - n, 0), size), size

    def about(self, path: str) -> Entry:
        self._refuse_links(os.path.dirname(path))
        about = os.lstat(path)
        return Entry(os.path.basename(path), file_size(about, path), modified(about))

    def names(self, folder: str) -> Sequence[str]:
        self._refuse_links(folder)
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(folder)
        return ()

    def contents(self, folder: str) -> Contents:
        self._refuse_links(folder)
        files: list[Entry] = []
        folders: list[str] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
            for f in found:
                # Another writer's temporary file may vanish between the listing and its stat.
                with contextlib.suppress(FileNotFoundError):
                    about = f.stat(follow_symlinks=False)
                    if stat.S_ISDIR(about.st_mode):
                        folders.append(f.name)
                    else:
                        files.append(Entry(f.name, about.st_size, modified(about)))
        return files, folders

    def delete_folder(self, folder: str) -> None:
        self._refuse_links(os.path.dirname(folder))
        shutil.rmtree(folder)

    def remove_empty_folders(self, folder: str) -> None:
        for name in self.contents(folder)[1]:
            self.remove_empty_folders(os.path.join(folder, name))
        with contextlib.suppress(OSError):
            os.rmdir(folder)

    def move_folder(self, folder: str, to: str) -> None:
        self._refuse_links(os.path.dirname(folder))
        self._refuse_links(os.path.dirname(to))
        os.rename(folder, to)

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        with self._written(path, data, durable) as temporary:
            os.replace(temporary, path)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        with self._written(path, data) as temporary:
            os.link(temporary, path)

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        self._make_folder(os.path.dirname(path))
        with open(path, "xb") as f, on_failure(lambda: _remove(f, path)):
            yield f
            f.flush()
            os.fsync(f.fileno())

    def sync(self, folder: str) -> None:
        """Names of files cannot be synced."""

    def delete(self, path: str) -> None:
        self._refuse_links(os.path.dirname(path))
        os.unlink(path)

    @contextlib.contextmanager
    def turn(self, folder: str) -> Iterator[None]:
        """Writers do not wait for each other: the one that is late tries again."""
        yield

    @contextlib.contextmanager
    def _reader(self, path: str) -> Iterator[tuple[BinaryIO, int]]:
        size = self.about(path).size
        with open(path, "rb") as file:
            yield file, size

    @contextlib.contextmanager
    def _written(self, path: str, data: bytes, durable: bool = True) -> Iterator[str]:
        """Write a temporary file beside the one at `path`."""
        folder, name = os.path.split(path)
        self._make_folder(folder)
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "xb") as f:
                f.write(data)
                f.flush()
                if durable:
                    os.fsync(f.fileno())
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _make_folder(self, folder: str) -> None:
        self._refuse_links(folder)
        make_root(folder)

    def _refuse_links(self, folder: str) -> None:
        """Raise CorruptFileError if one of the folders below the root, up to this one, is a link."""
        path = self._root.rstrip("/")
        for name in filter(None, folder.removeprefix(self._root).split("/")):
            path = f"{path}/{name}"
            with contextlib.suppress(FileNotFoundError):
                refuse_link(os.lstat(path), path)


def _read(file: BinaryIO, start: int, stop: int) -> Bytes:
    file.seek(start)
    return np.frombuffer(file.read(max(stop - start, 0)), np.uint8)


def _remove(file: BinaryIO, path: str) -> None:
    file.close()  # an open file cannot be removed everywhere
    os.unlink(path)
