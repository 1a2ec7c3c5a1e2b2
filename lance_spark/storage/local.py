"""Local files, read and written directly. A file that is written in one piece is synced to disk before it gets its final name.

An untrusted table may contain symbolic links to any place, or pipes instead of files. The table's root and the folders above it belong
to the user and may be links; below the root no link is followed. Folders are opened one by one from the root (openat with O_NOFOLLOW),
so a folder that is replaced by a link during the operation is not followed either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import BinaryIO, Protocol, TypeAlias

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.buffers.memory import empty
from lance_spark.errors import CorruptFileError, on_failure

try:
    import fcntl
except ModuleNotFoundError:  # Windows, where `storage.paths` is used
    fcntl = None  # type: ignore[assignment]

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags for opening the folders of a path. With O_PATH, a folder needs the permission to enter it, not to read it."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_SMALL_READ = 64 << 10
_LONGEST_WAIT_S = 1.0
_MOST_GIVEN_UP = 8
"""The threads that may wait in vain; then locks are no longer waited for."""


@dataclass(frozen=True)
class Entry:
    """A file in a folder: its path relative to the folder, its size in bytes, and its modification time (None: not known)."""

    name: str
    size: int
    modified: datetime | None


Contents: TypeAlias = tuple[list[Entry], list[str]]
"""The files and the names of the subfolders of a folder."""


class Files(Protocol):
    """The operations of `Store` on full paths. They raise the errors of the file system or client.

    Ranges at most `gap` bytes apart are read together.
    """

    gap: int

    def read(self, path: str) -> bytes: ...
    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]: ...
    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]: ...
    def read_end(self, path: str, n: int) -> Bytes: ...
    def about(self, path: str) -> Entry: ...
    def walk(self, folder: str) -> list[Entry]: ...
    def list(self, folder: str) -> list[Entry]: ...
    def contents(self, folder: str) -> Contents: ...
    def names(self, folder: str) -> Sequence[str]: ...
    def delete_folder(self, folder: str) -> None: ...
    def remove_empty_folders(self, folder: str) -> None: ...
    def put(self, path: str, data: bytes, durable: bool = True) -> None: ...
    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None: ...
    def create(self, path: str, sync_name: bool = True) -> contextlib.AbstractContextManager[BinaryIO]: ...
    def sync(self, folder: str) -> None: ...
    def delete(self, path: str) -> None: ...


class LocalFiles:
    """Files below the folder `root`. Links below it, and pipes, devices or folders that are read as files, raise CorruptFileError.

    Listings contain everything that is not a folder, so that no replacement for a file goes unnoticed. Deleting or replacing a link
    affects the link, not its target.
    """

    gap = 16 << 10

    def __init__(self, root: str = "/") -> None:
        self._root = root

    def read(self, path: str) -> bytes:
        with self._opened(path) as (fd, _), os.fdopen(fd, "rb", buffering=0, closefd=False) as f:
            return f.read()

    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]:
        with self._opened(path) as (fd, size):
            return [_pread(fd, start, min(stop, max(size, start))) for start, stop in reads]

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        with self._opened(path) as (fd, size):
            return _pread(fd, max(size - n, 0), size), size

    def read_end(self, path: str, n: int) -> Bytes:
        return self.read_tail(path, n)[0]

    def about(self, path: str) -> Entry:
        with self._folder_of(path) as (folder, name):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            return Entry(name, file_size(about, path), modified(about))

    def walk(self, folder: str) -> list[Entry]:
        entries, below = [], [""]
        while below:
            inside = below.pop()
            files, folders = self.contents(os.path.join(folder, inside))
            entries += [replace(entry, name=inside + entry.name) for entry in files]
            below += [f"{inside}{name}/" for name in folders]
        return entries

    def list(self, folder: str) -> list[Entry]:
        files, folders = self.contents(folder)
        # A folder that is named like a file (x.json) is listed, so that the reader of that file raises an error.
        return files + [Entry(name, 0, None) for name in folders if "." in name[1:]]

    def names(self, folder: str) -> Sequence[str]:
        with contextlib.suppress(FileNotFoundError), self._folder(folder) as opened, _readable(opened) as fd:
            return os.listdir(fd)
        return ()

    def contents(self, folder: str) -> Contents:
        """The files and the names of the subfolders of a folder; empty if the folder does not exist."""
        files: list[Entry] = []
        folders: list[str] = []
        with contextlib.suppress(FileNotFoundError), self._folder(folder) as opened, _readable(opened) as fd, os.scandir(fd) as found:
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
        with self._folder_of(folder) as (parent, name):
            shutil.rmtree(name, dir_fd=parent)

    def remove_empty_folders(self, folder: str) -> None:
        for name in self.contents(folder)[1]:
            self.remove_empty_folders(os.path.join(folder, name))
        parent, name = os.path.split(folder)
        # The folder above the root belongs to the user.
        if folder == self._root.rstrip("/"):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            return
        with self._folder(parent) as opened, contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=opened)

    def move_folder(self, folder: str, to: str) -> None:
        with self._folder_of(folder) as (old, name), self._folder_of(to) as (new, new_name):
            os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        with self._temporary(path, data, durable) as (folder, temporary, name):
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        with self._temporary(path, data, sync_name=sync_name) as (folder, temporary, name):
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        with self._folder_of(path, make=True) as (folder, name):
            with _new_file(folder, name) as f, on_failure(lambda: os.unlink(name, dir_fd=folder)):
                yield f
                f.flush()
                os.fsync(f.fileno())
            if sync_name:
                _sync(folder)

    def sync(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._folder(folder) as opened:
            _sync(opened)

    def delete(self, path: str) -> None:
        with self._folder_of(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    @contextlib.contextmanager
    def turn(self, folder: str) -> Iterator[None]:
        """Hold an advisory lock on a folder for the duration of the block, so that writers do not work for nothing.

        Nothing may depend on it: there is none if the folder does not exist, if the file system has no locks, or if another process
        keeps it for a second. It ends with the process.
        """
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                fd = stack.enter_context(_readable(stack.enter_context(self._folder(folder))))
                if _locked(fd):
                    # Explicitly, since a fork of this process may have the folder open, too.
                    stack.callback(fcntl.flock, fd, fcntl.LOCK_UN)
            yield

    @contextlib.contextmanager
    def _folder(self, path: str, make: bool = False) -> Iterator[int]:
        """The folder at `path`, open; see `_open`."""
        fd = self._open(path, make)
        try:
            yield fd
        finally:
            os.close(fd)

    def _open(self, path: str, make: bool = False) -> int:
        """Open the folder at `path`, step by step from the root. With `make`, missing folders are created."""
        try:
            fd = os.open(self._root, _FOLDER)
        except FileNotFoundError:
            if not make:
                raise
            make_root(self._root)
            fd = os.open(self._root, _FOLDER)
        try:
            for name in filter(None, path.removeprefix(self._root).split("/")):
                try:
                    inner = _open_folder(name, fd, make)
                except NotADirectoryError:
                    refuse_link(os.stat(name, dir_fd=fd, follow_symlinks=False), path)
                    raise
                os.close(fd)
                fd = inner
        except BaseException:  # also an interrupt: who opened the folder never gets it, and so cannot close it
            os.close(fd)
            raise
        return fd

    @contextlib.contextmanager
    def _folder_of(self, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open parent folder of the file at `path`, and the file's name."""
        parent, name = os.path.split(path)
        with self._folder(parent, make) as folder:
            yield folder, name

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, int]]:
        """The file at `path`, opened for reading, and its size in bytes."""
        parent, name = os.path.split(path)
        folder = self._open(parent)
        try:
            file_size(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
            # The file may have been replaced after the check by a link or a pipe: do not follow it and do not block.
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            yield fd, file_size(os.fstat(fd), path)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes, durable: bool = True, sync_name: bool = True) -> Iterator[tuple[int, str, str]]:
        """Write `data` to a temporary file. Yield its open folder, its name, and the final name of `path`, for a rename or a link.

        If `durable`, the file is synced before, and with `sync_name` its folder afterwards, so that the name survives a crash.
        """
        with self._folder_of(path, make=True) as (folder, name):
            temporary = f".{name}.{uuid.uuid4().hex}.tmp"
            try:
                with _new_file(folder, temporary) as f:
                    f.write(data)
                    f.flush()
                    if durable:
                        os.fsync(f.fileno())
                yield folder, temporary, name
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
            if durable and sync_name:
                _sync(folder)


def _open_folder(name: str, parent: int, make: bool) -> int:
    """Open a folder in the open folder `parent`, but no link. With `make`, it is created if it is missing."""
    flags = _FOLDER | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    return os.open(name, flags, dir_fd=parent)


def file_size(about: os.stat_result, path: str) -> int:
    """The size of a regular file in bytes. Raises CorruptFileError for anything else."""
    refuse_link(about, path)
    if not stat.S_ISREG(about.st_mode):
        raise CorruptFileError(f"{path} is {_KINDS.get(stat.S_IFMT(about.st_mode), 'not a regular file')}, expected a file")
    return about.st_size


def refuse_link(about: os.stat_result, path: str) -> None:
    """Raise CorruptFileError for a symbolic link."""
    if stat.S_ISLNK(about.st_mode):
        raise CorruptFileError(
            f"{path} is a symbolic link or is in a linked folder; links inside a table's folder are not followed. "
            "If you trust the table, copy it with the files that the links point to (cp -rL)"
        )


def _new_file(folder: int, name: str) -> BinaryIO:
    return os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder), "wb")


def modified(about: os.stat_result) -> datetime | None:
    """The time of the last change of a file; None if it is out of range."""
    try:
        return datetime.fromtimestamp(about.st_mtime, UTC)
    except (ValueError, OverflowError):
        return None  # after the year 9999, which some archives contain


def _pread(fd: int, start: int, stop: int) -> Bytes:
    size = stop - start
    if size < _SMALL_READ:
        small = os.pread(fd, size, start)
        if len(small) == size:
            return np.frombuffer(small, np.uint8)
    if not hasattr(os, "preadv"):  # macOS before 11
        return np.frombuffer(os.pread(fd, stop - start, start), np.uint8)
    data = empty(stop - start)
    done = n = os.preadv(fd, [data.data], start)
    while n and done < len(data):
        n = os.preadv(fd, [data[done:].data], start + done)
        done += n
    data = data[:done]
    data.flags.writeable = False
    return data


def make_root(folder: str) -> None:
    """Make a folder and those above it, unless they exist. Raises NotADirectoryError if a file is in the place of one."""
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError as e:
        # Not FileExistsError, which means to a commit that another writer was first.
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), e.filename) from None


@contextlib.contextmanager
def _readable(folder: int) -> Iterator[int]:
    """Reopen a folder so that it can be listed and synced, which O_PATH does not allow."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    """Lock an open folder. Returns False if others had it locked for `_LONGEST_WAIT_S`.

    The system has no wait with an end, and trying again and again would take the processor from those who work. So a thread waits.
    """
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    if len(_GIVEN_UP) >= _MOST_GIVEN_UP:
        return False
    waiter = _Waiter(own := os.dup(fd))
    try:
        waiter.start()
    except RuntimeError:  # there are too many threads
        os.close(own)
        return False
    return waiter.result(_LONGEST_WAIT_S)


class _Waiter(threading.Thread):
    """Waits for the lock of an open folder, `fd`, which it closes: its duplicate keeps the lock, unless nobody waits any more."""

    def __init__(self, fd: int) -> None:
        super().__init__(daemon=True, name="lance_spark-lock")
        self._fd, self._guard = fd, threading.Lock()
        self._done, self._has, self._given_up = threading.Event(), False, False

    def run(self) -> None:
        """Wait."""
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_EX)
                with self._guard:
                    self._has = not self._given_up
                    if self._given_up:
                        fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            os.close(self._fd)
            with self._guard:
                _GIVEN_UP.discard(self)
                self._done.set()

    def result(self, seconds: float) -> bool:
        """Whether the folder is locked after so many seconds at most. If it is not, a later lock is given back at once."""
        try:
            self._done.wait(seconds)
        finally:
            with self._guard:
                self._given_up = True
                if not self._done.is_set() and not self._has:
                    _GIVEN_UP.add(self)
        return self._has


_GIVEN_UP: set[_Waiter] = set()
"""Threads that still wait, though nobody waits for them: as long as another process that was stopped keeps a lock."""


def _sync(folder: int) -> None:
    with _readable(folder) as fd:
        os.fsync(fd)
