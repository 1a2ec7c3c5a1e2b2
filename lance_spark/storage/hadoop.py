"""Files in HDFS, through the package hdfs-native, which needs no Java.

The usual clients of fsspec and pyarrow do not serve: pyarrow's `move` deletes a file that is in the place of its target, so that
of two concurrent commits one could be lost, and that of fsspec for WebHDFS does not look whether the server refused a rename.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import posixpath
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError, on_failure
from lance_spark.storage.local import Contents, Entry

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus, FileWriter


_WITHOUT_SETTINGS = {"dfs.client.failover.max.attempts": "3"}
"""How often a cluster is tried, where no folder of Hadoop's settings says it. The client's own 15 times take three minutes."""


@lru_cache(maxsize=32)
def hadoop_files(pid: int, authority: str) -> HadoopFiles:
    """The files of a cluster, for a process: its threads and connections do not survive a fork.

    Without an authority (`hdfs:///x`), it is the cluster of fs.defaultFS in the folder HADOOP_CONF_DIR.
    """
    try:
        from hdfs_native import Client  # not needed for other tables
    except ImportError:
        raise UnsupportedFeatureError("hdfs:// needs the package hdfs-native: pip install 'lance-spark[hdfs]'") from None
    has_settings = "HADOOP_CONF_DIR" in os.environ or "HADOOP_HOME" in os.environ
    try:
        return HadoopFiles(Client(f"hdfs://{authority}" if authority else None, None if has_settings else _WITHOUT_SETTINGS))
    except (OSError, RuntimeError, ValueError) as e:
        where = f"hdfs://{authority}: no client could be made with the settings in the folder HADOOP_CONF_DIR"
        raise InvalidOptionError(f"{where}: {e}") from None


class HadoopFiles:
    """Files of a cluster by their whole paths; implements `storage.local.Files`.

    What is written to a file can be read before the file is whole. So a whole file gets its name by a rename, which fails if the
    name is taken; the name server of the cluster does this atomically.
    """

    gap = 512 << 10

    def __init__(self, client: Client) -> None:
        self._client = client

    def read(self, path: str) -> bytes:
        with _answers():
            return self._client.read(path).read()

    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]:
        with _answers():
            file = self._client.read(path)
            return [_part(file, start, stop) for start, stop in reads]

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        with _answers():
            file = self._client.read(path)
            return _part(file, max(len(file) - n, 0), len(file)), len(file)

    def read_end(self, path: str, n: int) -> Bytes:
        return self.read_tail(path, n)[0]

    def about(self, path: str) -> Entry:
        with _answers():
            about = self._client.get_file_info(path)
        if about.isdir:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return _entry(posixpath.basename(path), about)

    def walk(self, folder: str) -> list[Entry]:
        # The client's own walk ends where a folder is removed meanwhile.
        entries, below = [], [""]
        while below:
            inside = below.pop()
            files, folders = self.contents(posixpath.join(folder, inside))
            entries += [replace(entry, name=inside + entry.name) for entry in files]
            below += [f"{inside}{name}/" for name in folders]
        return entries

    def list(self, folder: str) -> list[Entry]:
        return self.contents(folder)[0]

    def names(self, folder: str) -> Sequence[str]:
        return [posixpath.basename(about.path) for about in self._listed(folder)]

    def contents(self, folder: str) -> Contents:
        found = self._listed(folder)
        files = [_entry(posixpath.basename(about.path), about) for about in found if not about.isdir]
        return files, [posixpath.basename(about.path) for about in found if about.isdir]

    def _listed(self, folder: str) -> Sequence[FileStatus]:
        """What is in a folder, nothing if it does not exist. A file in its place is listed as itself."""
        with _answers():
            try:
                found = list(self._client.list_status(folder.rstrip("/") or "/"))
            except FileNotFoundError:
                return []
        return [about for about in found if about.path != folder.rstrip("/")]

    def delete_folder(self, folder: str) -> None:
        with _answers():
            self._client.delete(folder, True)

    def remove_empty_folders(self, folder: str) -> None:
        for name in self.contents(folder)[1]:
            self.remove_empty_folders(posixpath.join(folder, name))
        with contextlib.suppress(OSError), _answers():
            self._client.delete(folder, False)

    def move_folder(self, folder: str, to: str) -> None:
        with _answers():
            self._client.rename(folder, to, False)

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        self._put(path, data, overwrite=True)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        self._put(path, data, overwrite=False)

    def _put(self, path: str, data: bytes, overwrite: bool) -> None:
        """Write a temporary file beside `path`, and rename it."""
        folder, name = posixpath.split(path)
        temporary = posixpath.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
        with on_failure(lambda: self._discard(temporary)):
            with self.create(temporary) as out:
                out.write(data)
            with _answers():
                self._client.rename(temporary, path, overwrite)

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        from hdfs_native import WriteOptions

        with _answers():
            file = self._client.create(path, WriteOptions(overwrite=False, create_parent=True))
        out = _Output(file)
        with on_failure(lambda: self._discard(path)), on_failure(out.abandon):
            yield cast(BinaryIO, out)
            out.close()

    def _discard(self, path: str) -> None:
        """Remove a partial file. It need not be closed before: the cluster ends the right to write to it."""
        with contextlib.suppress(OSError), _answers():
            self._client.delete(path, False)

    def sync(self, folder: str) -> None:
        pass  # the name server has the names of files as soon as they are made

    def delete(self, path: str) -> None:
        with _answers():
            if not self._client.delete(path, False):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class _Output(io.RawIOBase):
    """A file that is written. The client's own buffers are large enough."""

    def __init__(self, file: FileWriter) -> None:
        self._file = file
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        content = bytes(data)  # the client takes other buffers value by value
        with _answers():
            self._file.write(content)
        self._size += len(content)
        return len(content)

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        """Complete the file, once."""
        if self.closed:
            return
        super().close()
        with _answers():
            self._file.close()

    def abandon(self) -> None:
        """Close this object, which is never completed: at its end Python closes it."""
        super().close()


@contextlib.contextmanager
def _answers() -> Iterator[None]:
    """The client raises RuntimeError for what the cluster refuses, such as permissions, and for lost connections."""
    try:
        yield
    except RuntimeError as e:
        said = str(e)
        raise OSError(errno.EACCES if "AccessControlException" in said else errno.EIO, said) from None


def _part(file: FileReader, start: int, stop: int) -> Bytes:
    """The bytes of a range, as far as the file goes."""
    size = min(stop, len(file)) - start
    return np.frombuffer(file.read_range(start, size) if size > 0 else b"", np.uint8)


def _entry(name: str, about: FileStatus) -> Entry:
    return Entry(name, about.length, datetime.fromtimestamp(about.modification_time / 1000, UTC))
