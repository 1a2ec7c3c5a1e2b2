"""A table's files in any store: ranged reads, listings, and the atomic conditional write that commits depend on."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

from lance_spark.buffers.byte_ranges import ByteRange, Bytes, coalesce, cut
from lance_spark.errors import (
    CorruptFileError,
    InvalidOptionError,
    LanceError,
    MissingFileError,
    StorageError,
    UnsupportedFeatureError,
    check_type,
)
from lance_spark.storage.hadoop import HadoopFiles, hadoop_files
from lance_spark.storage.local import Contents, Entry, Files, LocalFiles
from lance_spark.storage.location import can_be_path, locate, split_manifest_store
from lance_spark.storage.options import MANIFEST_STORE, arguments, check_names, is_of_base, options_of_base
from lance_spark.storage.paths import local_files
from lance_spark.storage.remote import client_errors, remote_files
from lance_spark.storage.secrets import redacted
from lance_spark.storage.vended import VendedOptions
from lance_spark.storage.waiting import waiting, working

_HINTS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file exceeds a limit of the system",
    errno.EACCES: "check the permissions of the folder and the user of this process",
    errno.EPERM: "check the permissions of the folder; the file system must also allow hard links",
    errno.EOPNOTSUPP: "the file system must allow hard links, which make commits atomic",
    errno.EROFS: "the file system is mounted read-only",
    errno.ENOTDIR: "expected a folder, found a file; a Lance table is a folder",
    errno.EEXIST: "expected a folder, found a file",
    errno.EISDIR: "expected a file, found a folder",
    errno.EMFILE: "the process has too many files open (see ulimit -n)",
    errno.ENAMETOOLONG: "the path is too long for the file system",
}
_NO_KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the storage options access_key_id and secret_access_key"
_NO_BUCKET = "the bucket or container does not exist"
_GONE_FOLDER = "its folder was removed during the write: the table was dropped"
_NUMBERS = ((PermissionError, errno.EACCES), (FileNotFoundError, errno.ENOENT))
_MAX_READ = 32 << 20
CONNECTIONS = 32
"""Maximum number of concurrent reads of different files."""
_KEEPS_CONDITIONS: set[tuple[int, str, str, str]] = set()
"""Process, kind, bucket and endpoint of stores that are known to honour conditional puts."""


@dataclass
class Counters:
    """Number of read requests and bytes read, for tests and diagnostics."""

    requests: int = 0
    bytes_read: int = 0


class Store:
    """The files below one root. Small, picklable, and safe after a fork: each process opens its own connection on first use.

    Paths are relative to the root, with forward slashes; a path that leaves the root raises CorruptFileError. A missing file raises
    MissingFileError. Any other failure raises StorageError, which names the root and the path but never the values of options.

    Options that a namespace has `vended` for a table are renewed before they expire, in every process.

    For the base path with the id `base_id`, its own options replace those that are for all.

    On local disks no symbolic link is followed below `top`, which is the root or a folder above it: for a branch, the root of its table.
    """

    __slots__ = ("_base_id", "_given", "_top", "_vended", "counters", "location")

    def __init__(
        self,
        uri: str | os.PathLike[str],
        options: Mapping[str, str] | None = None,
        top: str = "",
        vended: VendedOptions | None = None,
        base_id: int | None = None,
    ) -> None:
        uri, manifests = split_manifest_store(os.fspath(uri))
        self.location = locate(uri)
        self._top = top or self.location.path
        check_type("storage_options", options or {}, Mapping, "a mapping of names to text")
        for name in options or {}:
            check_type("the name of a storage option", name, str, "text")
        self._given = dict(options or {}) | ({MANIFEST_STORE: manifests} if manifests else {})
        self._vended = vended
        self._base_id = base_id
        self.counters = Counters()
        check_names(self._given)

    @property
    def _options(self) -> Mapping[str, str]:
        """The options that count now: those that are vended win."""
        options = self._given if self._vended is None else {**self._given, **self._vended.current()}
        return options if self._base_id is None else options_of_base(options, self._base_id)

    @property
    def uri(self) -> str:
        """The normalised root without a trailing slash: an absolute path for local files, otherwise scheme://bucket/path."""
        return self.location.uri

    @property
    def is_remote(self) -> bool:
        """Whether a request takes long, so that several are made at once."""
        return self.location.kind not in ("file", "memory")

    def at(self, uri: str, base_id: int | None = None) -> Store:
        """A store with another root and the same options. If that root is in the same table, links on the way to it are not followed.

        It is the base path with the id `base_id`, if any, whose options `base_<id>.<name>` replace the others.
        """
        if base_id is not None and not any(is_of_base(name) for name in self._options):
            base_id = None
        there = Store(uri, self._given, vended=self._vended, base_id=base_id)
        if there.location.kind == "file" and f"{there.uri}/".startswith(f"{self._top.rstrip('/')}/"):
            there._top = self._top
        return there

    @property
    def manifest_store(self) -> str:
        """The external manifest store for commits, "" for none (see `table.manifest_store.external`)."""
        return self._options.get(MANIFEST_STORE, "")

    def client_options(self, names: Sequence[str]) -> dict[str, Any]:
        """The arguments of this store's client and the options with these names, to make another client of the same account."""
        return {**arguments(self.location.kind, self._options), **{n: self._options[n] for n in names if n in self._options}}

    def redacted(self, error: Exception) -> str:
        """The message of a client's error, without the values of options."""
        said = error.strerror if isinstance(error, OSError) and error.strerror and error.errno else str(error)
        held = self._vended.held() if self._vended else {}
        return redacted(str(said) or type(error).__name__, {**self._given, **held})

    def __repr__(self) -> str:
        return f"Store({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        top = self._top if self._top != self.location.path else ""
        return Store, (self.uri, self._given, top, self._vended, self._base_id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Store):
            return False
        ours, theirs = ((s.uri, s._given, s._vended, s._base_id) for s in (self, other))
        return ours == theirs

    def __hash__(self) -> int:
        return hash(self.uri)

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        with self._explained(path) as full:
            data = self._files().read(full)
        self._count(1, len(data))
        return data

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Bytes]:
        """Read ranges as read-only arrays; nearby ranges are read together. Raises CorruptFileError for a range beyond the end."""
        files = self._files()
        reads = coalesce(ranges, files.gap, _MAX_READ)
        if not reads:
            return cut(ranges, reads, [])
        with self._explained(path) as full:
            answers = files.read_ranges(full, reads)
        for (start, stop), answer in zip(reads, answers, strict=True):
            if len(answer) != stop - start:
                raise CorruptFileError(f"{path}: expected bytes {start} to {stop}, but the file ends at {start + len(answer)}")
        self._count(len(reads), sum(len(a) for a in answers))
        return cut(ranges, reads, answers)

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        """Read the last `n` bytes, or the whole file if it is smaller. Also returns the size of the file."""
        with self._explained(path) as full:
            data, size = self._files().read_tail(full, n)
        self._count(1, len(data))
        return data, size

    def read_tails(self, paths: Sequence[str], n: int) -> list[tuple[Bytes, int]]:
        """`read_tail` of several files. Remote ones are read concurrently."""
        if not self.is_remote or len(paths) < 2:
            return [self.read_tail(path, n) for path in paths]
        with waiting(), ThreadPoolExecutor(min(len(paths), CONNECTIONS)) as threads:
            return list(threads.map(lambda path: self.read_tail(path, n), paths))

    def read_end(self, path: str, n: int) -> Bytes:
        """Read the last `n` bytes, or the whole file if it is smaller: one request, unlike `read_tail`."""
        with self._explained(path) as full:
            data = self._files().read_end(full, n)
        self._count(1, len(data))
        return data

    def about(self, path: str) -> Entry:
        """The name, the size in bytes and the modification time (on the store's clock) of a file."""
        with self._explained(path) as full:
            self._count(1, 0)
            return self._files().about(full)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self.about(path).size

    def exists(self, path: str) -> bool:
        """True if the file exists."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def walk(self, folder: str) -> list[Entry]:
        """The files in a folder and its subfolders, by path relative to it; empty if the folder does not exist."""
        with self._explained(folder) as full:
            self._count(1, 0)
            return sorted(self._files().walk(full), key=lambda entry: entry.name)

    def list(self, folder: str) -> list[Entry]:
        """The files directly in a folder, sorted by name; empty if the folder does not exist."""
        with self._explained(folder) as full:
            self._count(1, 0)
            return sorted(self._files().list(full), key=lambda entry: entry.name)

    def names(self, folder: str) -> Sequence[str]:
        """The names of what is directly in a folder, in any order; none if the folder does not exist."""
        with self._explained(folder) as full:
            self._count(1, 0)
            return self._files().names(full)

    def contents(self, folder: str) -> Contents:
        """The files directly in a folder, and the names of the folders in it, both by name; none if there is no such folder."""
        with self._explained(folder) as full:
            self._count(1, 0)
            files, folders = self._files().contents(full)
            return sorted(files, key=lambda entry: entry.name), sorted(folders)

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        """Write a whole file atomically; an existing file is replaced.

        Without `durable`, a crash of the machine may leave the old content or an empty file.
        """
        with self._explained(path, writes=True) as full:
            self._files().put(full, data, durable)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        """Write a whole file atomically and durably. Raises FileExistsError if it exists. For `sync_name` see `create`.

        On object stores the existing file may be our own, because clients retry internally when a response is lost. After any other
        error it is unknown whether the file was written.
        """
        with self._explained(path, writes=True) as full:
            self._files().put_if_absent(full, data, sync_name)

    def require_put_if_absent(self, path: str) -> None:
        """Raise UnsupportedFeatureError if a conditional put replaces the existing file at `path` in this store.

        Some servers and old clients ignore the condition, so commits would be lost. Each process checks each bucket once, by writing
        the file's own content.
        """
        place = (os.getpid(), self.location.kind, self.location.bucket, self._options.get("endpoint", ""))
        if not self.is_remote or place in _KEEPS_CONDITIONS:
            return
        content = self.read(path)
        try:
            with self._explained(path, writes=True) as full:
                self._files().put_if_absent(full, content)
        except FileExistsError:
            _KEEPS_CONDITIONS.add(place)
            return
        raise UnsupportedFeatureError(
            f"{self.uri}: this store ignores the condition of conditional puts, so commits could be lost; nothing was committed"
        )

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        """Open a new file for writing. It is completed when the block ends, and removed, where the store allows it, if the block raises.

        Without `sync_name`, the file survives a crash of the machine only after a `sync` of its folder.
        """
        # Errors of the calling code pass through here, too.
        with self._explained(path, writes=True, faults=False) as full, self._files().create(full, sync_name) as out, working():
            yield out

    def sync(self, folder: str) -> None:
        """Make the names of all files in a folder durable."""
        with self._explained(folder, writes=True) as full:
            self._files().sync(full)

    @contextlib.contextmanager
    def turn(self, folder: str) -> Iterator[None]:
        """Let the writers of a local folder do the work of the block one after the other, if possible; see `LocalFiles.turn`."""
        files = self._files()
        with self._explained(folder) as full:
            turn = files.turn(full) if isinstance(files, LocalFiles) else contextlib.nullcontext()
        with turn:
            yield

    def delete(self, path: str) -> bool:
        """Remove a file if it exists. Returns False if it is known not to have existed, which object stores do not report."""
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

    def remove_empty_folders(self, folder: str = "") -> None:
        """Remove the root, or `folder`, and the folders below it that contain no file. Object stores have no folders."""
        with self._explained(folder) as full, contextlib.suppress(FileNotFoundError):
            self._files().remove_empty_folders(full.rstrip("/"))

    def move_folder(self, folder: str, to: str) -> None:
        """Move a folder at once. Raises UnsupportedFeatureError in object stores, where folders cannot be moved."""
        files = self._files()
        if not isinstance(files, LocalFiles | HadoopFiles):
            raise UnsupportedFeatureError(f"{self.uri}: the folder {folder!r} cannot be moved, since object stores only copy files")
        with self._explained(folder) as full, self._explained(to, writes=True) as full_to:
            files.move_folder(full, full_to)

    def _files(self) -> Files:
        kind = self.location.kind
        if kind == "file":
            return local_files(self._top)
        if kind == "hdfs":
            return hadoop_files(os.getpid(), self.location.bucket)
        keywords = arguments(kind, self._options)
        if self.location.account:
            keywords.setdefault("account_name", self.location.account)
        try:
            return remote_files(os.getpid(), kind, json.dumps(keywords, sort_keys=True))
        except OSError as e:
            raise self._unusable(e) from None
        except client_errors(kind) as e:
            raise self._unusable(e) from None

    def _unusable(self, error: Exception) -> InvalidOptionError:
        return InvalidOptionError(f"{self.uri}: the storage options are not accepted by the client: {self.redacted(error)}")

    def _count(self, requests: int, size: int) -> None:
        self.counters.requests += requests
        self.counters.bytes_read += size

    @contextlib.contextmanager
    def _explained(self, path: str, *, writes: bool = False, faults: bool = True) -> Iterator[str]:
        """Yield the full path and translate errors of the block, whose time counts as waiting, into our own.

        See `client_errors` for `faults`.
        """
        if path.startswith("/") or ".." in path.split("/"):
            raise CorruptFileError(f"the path {path!r} leaves the folder {self.uri}")
        if not can_be_path(path):
            raise CorruptFileError(f"the path {path!r} contains characters that are not allowed in a path")
        try:
            with waiting():
                yield posixpath.join(self.location.bucket, self.location.path, path)
        except (LanceError, FileExistsError):
            raise
        except FileNotFoundError as e:
            if writes:
                raise self._failed(path, e, _GONE_FOLDER if self.location.kind in ("file", "hdfs") else _NO_BUCKET) from None
            raise MissingFileError(errno.ENOENT, "no such file", f"{self.uri}/{path}") from None
        except OSError as e:
            raise self._failed(path, e, _HINTS.get(e.errno or 0, "")) from None
        except client_errors(self.location.kind, faults) as e:
            raise self._failed(path, e, _NO_KEYS if "locate credentials" in str(e) else "") from None

    def _failed(self, path: str, error: Exception, hint: str) -> StorageError:
        failed = StorageError(f"{self.uri}/{path}: {self.redacted(error)}" + (f" ({hint})" if hint else ""))
        # Some clients raise errors without an errno; their class tells it.
        failed.errno = getattr(error, "errno", None) or next((n for kind, n in _NUMBERS if isinstance(error, kind)), None)
        return failed
