"""Bytes of a table, wherever they are: ranged reads, listings, and the one atomic write that a commit stands on."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from lance_spark.buffers.byte_ranges import ByteRange, Bytes, coalesce, cut
from lance_spark.errors import CorruptFileError, InvalidOptionError, LanceError, MissingFileError, StorageError, UnsupportedFeatureError
from lance_spark.storage.local import Contents, Entry, Files, LocalFiles
from lance_spark.storage.location import can_be_path, locate, split_manifest_store
from lance_spark.storage.options import MANIFEST_STORE, arguments, check_names
from lance_spark.storage.remote import client_errors, remote_files
from lance_spark.storage.secrets import redacted
from lance_spark.storage.vended import VendedOptions

_HINTS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than a limit of the system allows",
    errno.EACCES: "check the permissions of the folder and who runs this process",
    errno.EPERM: "check the permissions of the folder; the file system must also allow hard links",
    errno.EOPNOTSUPP: "the file system must allow hard links, which is how a commit is made atomic",
    errno.EROFS: "the file system is mounted read-only",
    errno.ENOTDIR: "a file stands where a folder should be",
    errno.EEXIST: "a file stands where a folder should be",
    errno.EISDIR: "a folder stands where a file should be",
    errno.EMFILE: "the process has too many files open (see ulimit -n)",
    errno.ENAMETOOLONG: "the path is too long for the file system",
}
_NUMBERS = ((PermissionError, errno.EACCES), (FileNotFoundError, errno.ENOENT))
_MAX_READ = 32 << 20
_KEEPS_CONDITIONS: set[tuple[int, str, str, str]] = set()
"""The process and the places that have refused to replace a file."""


@dataclass
class Counters:
    """How often a store was asked and how much it gave; for tests and explanations."""

    requests: int = 0
    bytes_read: int = 0


class Store:
    """The files below one root. Small, picklable, and safe after a fork: each process makes its own connection when it first needs one.

    Paths are relative to the root, with forward slashes; one that would leave the root is refused. A missing file is a MissingFileError,
    any other trouble a StorageError that names the root and the path, and never what the options say.

    Options that are `vended`, by a namespace for a table, are renewed before they expire, wherever the store is used.

    On local disks no symbolic link is followed below `top`: the root, or a folder above it, such as the root of the table of a branch.
    """

    __slots__ = ("_given", "_top", "_vended", "counters", "location")

    def __init__(
        self, uri: str | os.PathLike[str], options: Mapping[str, str] | None = None, top: str = "", vended: VendedOptions | None = None
    ) -> None:
        uri, manifests = split_manifest_store(os.fspath(uri))
        self.location = locate(uri)
        self._top = top or self.location.path
        self._given = dict(options or {}) | ({MANIFEST_STORE: manifests} if manifests else {})
        self._vended = vended
        self.counters = Counters()
        check_names(self._given)

    @property
    def _options(self) -> Mapping[str, str]:
        """The options that count now: those that are vended win."""
        return self._given if self._vended is None else {**self._given, **self._vended.current()}

    @property
    def uri(self) -> str:
        """The root, normalised: a plain absolute path for local files, otherwise scheme://bucket/path; without a slash at the end."""
        return self.location.uri

    def at(self, uri: str) -> Store:
        """Another root, with the same options. If it is in the same table, links on the way to it are not followed either."""
        there = Store(uri, self._given, vended=self._vended)
        if there.location.kind == "file" and f"{there.uri}/".startswith(f"{self._top.rstrip('/')}/"):
            there._top = self._top
        return there

    @property
    def manifest_store(self) -> str:
        """The external manifest store that commits go through, "" for none (see `table.manifest_store.external`)."""
        return self._options.get(MANIFEST_STORE, "")

    def client_options(self, names: Sequence[str]) -> dict[str, Any]:
        """The arguments that this store's client is made with, and options of these names: for another client of the same account."""
        return {**arguments(self.location.kind, self._options), **{n: self._options[n] for n in names if n in self._options}}

    def redacted(self, e: Exception) -> str:
        """What an error of a client says, without what the options say."""
        said = e.strerror if isinstance(e, OSError) and e.strerror and e.errno else str(e)
        held = self._vended.held() if self._vended else {}
        return redacted(str(said) or type(e).__name__, {**self._given, **held})

    def __repr__(self) -> str:
        return f"Store({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.uri, self._given, self._top if self._top != self.location.path else "", self._vended)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and (self.uri, self._given, self._vended) == (other.uri, other._given, other._vended)

    def __hash__(self) -> int:
        return hash(self.uri)

    def read(self, path: str) -> bytes:
        """The whole file."""
        with self._explained(path) as full:
            data = self._files().read(full)
        self._count(1, len(data))
        return data

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Bytes]:
        """The bytes of each range, as read-only arrays; ranges that lie close together are read as one. CorruptFileError beyond the end."""
        files = self._files()
        reads = coalesce(ranges, files.gap, _MAX_READ)
        if not reads:
            return cut(ranges, reads, [])
        with self._explained(path) as full:
            answers = files.read_ranges(full, reads)
        for (start, stop), answer in zip(reads, answers, strict=True):
            if len(answer) != stop - start:
                raise CorruptFileError(f"{path}: bytes {start} to {stop} are needed, the file ends at {start + len(answer)}")
        self._count(len(reads), sum(len(a) for a in answers))
        return cut(ranges, reads, answers)

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        """The last `n` bytes, or the whole file if it is smaller, and the size of the file."""
        with self._explained(path) as full:
            data, size = self._files().read_tail(full, n)
        self._count(1, len(data))
        return data, size

    def about(self, path: str) -> Entry:
        """The name, the size in bytes, and the time of writing by the store's clock, of a file."""
        with self._explained(path) as full:
            self._count(1, 0)
            return self._files().about(full)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self.about(path).size

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def walk(self, folder: str) -> list[Entry]:
        """The files in a folder and in all folders below it, named relative to it; none if there is no such folder."""
        with self._explained(folder) as full:
            self._count(1, 0)
            return sorted(self._files().walk(full), key=lambda entry: entry.name)

    def list(self, folder: str) -> list[Entry]:
        """The files directly in a folder, by name; none if there is no such folder."""
        with self._explained(folder) as full:
            self._count(1, 0)
            return sorted(self._files().list(full), key=lambda entry: entry.name)

    def contents(self, folder: str) -> Contents:
        """The files directly in a folder, and the names of the folders in it, both by name; none if there is no such folder."""
        with self._explained(folder) as full:
            self._count(1, 0)
            files, folders = self._files().contents(full)
            return sorted(files, key=lambda entry: entry.name), sorted(folders)

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        """Write a whole file, atomically; one that is there already is replaced.

        A file that is not `durable` may be older or empty after the machine has crashed.
        """
        with self._explained(path, writes=True) as full:
            self._files().put(full, data, durable)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a whole file, atomically and durably, unless there is one.

        FileExistsError if there is one. On object stores it may be our own: their clients try again inside, after an answer was
        lost. After any other error the file may have been written or not.
        """
        with self._explained(path, writes=True) as full:
            self._files().put_if_absent(full, data)

    def require_put_if_absent(self, path: str) -> None:
        """Raise UnsupportedFeatureError if this store replaces the file at `path`, which is there, when it is put if absent.

        Some servers and old clients ignore the condition, and commits would be lost. Asked once a process for each bucket; what is
        written is what was there.
        """
        place = (os.getpid(), self.location.kind, self.location.bucket, self._options.get("endpoint", ""))
        if self.location.kind in ("file", "memory") or place in _KEEPS_CONDITIONS:
            return
        content = self.read(path)
        try:
            with self._explained(path, writes=True) as full:
                self._files().put_if_absent(full, content)
        except FileExistsError:
            _KEEPS_CONDITIONS.add(place)
            return
        raise UnsupportedFeatureError(
            f"{self.uri}: this store replaces files that are to be written only if absent; commits could be lost, so nothing is committed"
        )

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        """A new file to write to, finished at the end of the block; gone, as far as the store allows, if the block raises."""
        # Errors of whoever writes pass through here, too.
        with self._explained(path, writes=True, faults=False) as full, self._files().create(full) as out:
            yield out

    def delete(self, path: str) -> bool:
        """Remove a file; it is fine if there is none. False if it is known that there was none, which object stores do not tell."""
        with self._explained(path) as full, contextlib.suppress(FileNotFoundError):
            self._files().delete(full)
            return True
        return False

    def delete_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it; it is fine if there is none. Nobody may be writing to it."""
        if not folder.strip("/"):
            raise ValueError("the root of a store is not deleted")
        with self._explained(folder) as full, contextlib.suppress(FileNotFoundError):
            self._files().delete_folder(full)

    def _files(self) -> Files:
        kind = self.location.kind
        if kind == "file":
            return LocalFiles(self._top)
        keywords = arguments(kind, self._options)
        if self.location.account:
            keywords.setdefault("account_name", self.location.account)
        try:
            return remote_files(os.getpid(), kind, json.dumps(keywords, sort_keys=True))
        except OSError as e:
            raise self._unusable(e) from None
        except client_errors(kind) as e:
            raise self._unusable(e) from None

    def _unusable(self, e: Exception) -> InvalidOptionError:
        return InvalidOptionError(f"{self.uri}: no client can be made with these storage options: {self.redacted(e)}")

    def _count(self, requests: int, size: int) -> None:
        self.counters.requests += requests
        self.counters.bytes_read += size

    @contextlib.contextmanager
    def _explained(self, path: str, *, writes: bool = False, faults: bool = True) -> Iterator[str]:
        """Gives the full path, and turns what goes wrong with it into our errors; see `client_errors` for `faults`."""
        if path.startswith("/") or ".." in path.split("/"):
            raise CorruptFileError(f"the path {path!r} leaves the folder {self.uri}")
        if not can_be_path(path):
            raise CorruptFileError(f"the path {path!r} has characters that no path can have")
        try:
            yield posixpath.join(self.location.bucket, self.location.path, path)
        except (LanceError, FileExistsError):
            raise
        except FileNotFoundError as e:
            if writes:
                raise self._failed(path, e, "the bucket or container does not exist") from None
            raise MissingFileError(errno.ENOENT, "no such file", f"{self.uri}/{path}") from None
        except OSError as e:
            raise self._failed(path, e, _HINTS.get(e.errno or 0, "")) from None
        except client_errors(self.location.kind, faults) as e:
            raise self._failed(path, e, "") from None

    def _failed(self, path: str, e: Exception, hint: str) -> StorageError:
        error = StorageError(f"{self.uri}/{path}: {self.redacted(e)}" + (f" ({hint})" if hint else ""))
        # What a client raises without a number says it by its class.
        error.errno = getattr(e, "errno", None) or next((n for kind, n in _NUMBERS if isinstance(e, kind)), None)
        return error
