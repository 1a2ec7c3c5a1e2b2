"""A client with the rules of HDFS over a local folder, for tests: no cluster runs here."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Status:
    """What the cluster knows of a file or folder, as `hdfs_native.FileStatus`."""

    path: str
    length: int
    isdir: bool
    modification_time: int


class Reader:
    """An open file, as `hdfs_native.FileReader`."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def read(self) -> bytes:
        return self._data

    def read_range(self, offset: int, size: int) -> bytes:
        """The client fails for bytes beyond the end."""
        assert 0 < size <= len(self._data) - offset
        return self._data[offset : offset + size]


class Writer:
    """A file that is written, as `hdfs_native.FileWriter`. It need not be closed."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def write(self, data: bytes) -> int:
        assert isinstance(data, bytes), "the client takes other buffers value by value"
        with self._place.open("ab") as file:
            return file.write(data)

    def close(self) -> None:
        assert self._place.exists()


class Cluster:
    """`hdfs_native.Client` over a local folder, with the answers that it gives.

    A file can be read by others as soon as it is made, with what was written until then. A rename fails if its target exists, at once
    for all clients.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()

    def _place(self, path: str) -> Path:
        assert path.startswith("/")
        return self._folder / path.strip("/")

    def get_file_info(self, path: str) -> Status:
        about = self._place(path).stat()
        is_folder = self._place(path).is_dir()
        return Status(path, 0 if is_folder else about.st_size, is_folder, int(about.st_mtime * 1000))

    def list_status(self, path: str, recursive: bool = False) -> Iterator[Status]:
        if not self.get_file_info(path).isdir:
            yield self.get_file_info(path)
            return
        for name in sorted(os.listdir(self._place(path))):
            try:
                status = self.get_file_info(f"{path.rstrip('/')}/{name}")
            except FileNotFoundError:
                continue  # a server lists a folder at one moment; here another client has just renamed the file
            yield status
            if recursive and status.isdir:
                yield from self.list_status(status.path, recursive)

    def read(self, path: str) -> Reader:
        return Reader(self._place(path).read_bytes())

    def create(self, path: str, write_options: Any) -> Writer:
        assert write_options.create_parent
        self._place(path).parent.mkdir(parents=True, exist_ok=True)
        self._place(path).open("wb" if write_options.overwrite else "xb").close()
        return Writer(self._place(path))

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        with self._turn:
            if not overwrite and self._place(dst).exists():
                raise FileExistsError(f"rename destination {dst} already exists")
            self._place(src).replace(self._place(dst))

    def delete(self, path: str, recursive: bool = False) -> bool:
        place = self._place(path)
        if not place.exists():
            return False
        if not place.is_dir():
            place.unlink()
        elif recursive:
            shutil.rmtree(place)
        elif os.listdir(place):
            raise RuntimeError(f'RPCError("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", "{path} is non empty")')
        else:
            place.rmdir()
        return True
