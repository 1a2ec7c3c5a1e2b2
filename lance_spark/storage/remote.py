"""Object stores and in-memory files, through fsspec. No other module imports fsspec.

Local files do not use fsspec (see `storage.local`): there, its "create" mode checks first and writes afterwards, so one of two
concurrent commits could be lost.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import os
import posixpath
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO, cast

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import UnsupportedFeatureError, on_failure
from lance_spark.storage.local import Contents, Entry

_EXTRAS = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gcs"), "az": ("adlfs", "azure")}
# Errors of the clients that are not OSErrors. They are imported only after a failure.
_CLIENT_ERRORS = {
    "s3": ("botocore.exceptions:BotoCoreError", "botocore.exceptions:ClientError", "aiohttp:ClientError"),
    "gs": ("gcsfs.retry:HttpError", "google.auth.exceptions:GoogleAuthError", "aiohttp:ClientError", "requests:RequestException"),
    "az": ("azure.core.exceptions:AzureError", "aiohttp:ClientError"),
}
_FAULTS = (ValueError, TypeError, KeyError, AttributeError, RuntimeError)
"""Errors that clients raise for settings and names that they do not validate."""
_MODIFIED = ("LastModified", "last_modified", "mtime", "updated", "created")
_SUFFIX_RANGES = ("s3", "gs")
"""Stores whose clients can ask for the last bytes of a file without its size."""
_UPLOAD_BLOCK = 16 << 20
"""The part of a multipart upload: stores allow 10,000 parts, so a file may have 156 GiB."""
_MEMORY_LOCK = threading.Lock()


def client_errors(kind: str, faults: bool = True) -> tuple[type[Exception], ...]:
    """The exception types, other than OSError, that the client of a store raises; `faults` adds general ones such as ValueError."""
    found: list[type[Exception]] = [*_FAULTS] if faults and kind in _CLIENT_ERRORS else []
    for place in _CLIENT_ERRORS.get(kind, ()):
        module, _, name = place.partition(":")
        with contextlib.suppress(ImportError):
            found.append(getattr(importlib.import_module(module), name))
    return tuple(found)


@lru_cache(maxsize=32)
def remote_files(pid: int, kind: str, keywords: str) -> RemoteFiles:
    """Return the client for a process and its arguments. fsspec's own cache is not used, since it shares connections across a fork."""
    import fsspec  # not needed for local tables

    try:
        fs = fsspec.filesystem(kind, skip_instance_cache=True, use_listings_cache=False, **json.loads(keywords))
    except ImportError:
        package, extra = _EXTRAS[kind]
        raise UnsupportedFeatureError(f"{kind}:// needs the package {package}: pip install 'lance-spark[{extra}]'") from None
    return RemoteFiles(fs, kind)


class RemoteFiles:
    """Files of an fsspec file system; implements `storage.local.Files`."""

    gap = 512 << 10

    def __init__(self, fs: Any, kind: str) -> None:
        self.fs = fs
        self.kind = kind

    def read(self, path: str) -> bytes:
        try:
            # Without a range, s3fs would ask for the size first.
            return cast(bytes, self.fs.cat_file(path, start=0 if self.kind == "s3" else None))
        except OSError as e:
            if _code(e) in ("InvalidRange", "416"):
                return b""  # only an empty file has no first byte
            raise

    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]:
        # One call for all ranges: the asynchronous clients send the requests concurrently.
        starts, stops = [r.start for r in reads], [r.stop for r in reads]
        answers = self.fs.cat_ranges([path] * len(reads), starts, stops, on_error="raise")
        return [np.frombuffer(a, dtype=np.uint8) for a in answers]

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        size = self.about(path).size
        data = self.fs.cat_file(path, start=max(size - n, 0), end=size) if size and n else b""
        return np.frombuffer(data, dtype=np.uint8), size

    def read_end(self, path: str, n: int) -> Bytes:
        if self.kind not in _SUFFIX_RANGES:
            return self.read_tail(path, n)[0]
        try:
            return np.frombuffer(self.fs.cat_file(path, start=-n), dtype=np.uint8)
        except OSError as e:
            if _code(e) in ("InvalidRange", "416"):
                return np.empty(0, np.uint8)  # only an empty file has no last byte
            raise

    def about(self, path: str) -> Entry:
        info = self.fs.info(path)
        if info["type"] != "file":
            raise FileNotFoundError(path)
        return Entry(posixpath.basename(path), int(info["size"]), _modified(info))

    def walk(self, folder: str) -> list[Entry]:
        found = self.fs.find(folder, detail=True)
        inside = folder.strip("/") + "/"
        entries = []
        for name, about in found.items():
            if about["type"] == "file":
                below = name.strip("/").removeprefix(inside)
                entries.append(Entry(below, int(about["size"] or 0), _modified(about)))
        return entries

    def list(self, folder: str) -> list[Entry]:
        return self.contents(folder)[0]

    def names(self, folder: str) -> Sequence[str]:
        files, folders = self.contents(folder)
        return [*(entry.name for entry in files), *folders]

    def contents(self, folder: str) -> Contents:
        try:
            found = self.fs.ls(folder, detail=True)
        except FileNotFoundError:
            return [], []
        inside = [f for f in found if posixpath.dirname(f["name"].strip("/")) == folder.strip("/")]
        files = [f for f in inside if f["type"] == "file" and not f["name"].endswith("/")]
        entries = [Entry(posixpath.basename(f["name"]), int(f["size"] or 0), _modified(f)) for f in files]
        return entries, [posixpath.basename(f["name"].strip("/")) for f in inside if f["type"] == "directory"]

    def delete_folder(self, folder: str) -> None:
        self.fs.rm(folder, recursive=True)

    def remove_empty_folders(self, folder: str) -> None:
        pass

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        self.fs.pipe_file(path, data)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        if self.kind == "memory":
            with _MEMORY_LOCK:
                if self.fs.exists(path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
                self.fs.pipe_file(path, data)
            return
        try:
            self.fs.pipe_file(path, data, mode="create")
        except OSError as e:
            if _is_refused_condition(e):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
            raise

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        if self.kind == "memory":
            whole = io.BytesIO()
            yield whole
            self.put(path, whole.getvalue())
            return
        out = self.fs.open(path, "wb", block_size=_UPLOAD_BLOCK)
        with on_failure(lambda: self._discard(out, path)):
            yield out
            out.close()

    def _discard(self, out: Any, path: str) -> None:
        """Remove a partial file. Closing it would complete the upload."""
        out.discard()
        out.closed = True
        with contextlib.suppress(OSError, *client_errors(self.kind)):
            self.fs.rm_file(path)

    def sync(self, folder: str) -> None:
        pass  # what is written is durable

    def delete(self, path: str) -> None:
        self.fs.rm_file(path)


def _is_refused_condition(error: OSError) -> bool:
    """True if an error of s3fs means that the file exists or is being written. s3fs translates this answer only for some stores."""
    return _code(error) in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


def _code(error: OSError) -> str:
    """The code of an error of s3fs, "" if it has none. The errors of other stores have responses of their own types."""
    response = getattr(error.__cause__, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, Mapping) else ""


def _modified(info: Mapping[str, Any]) -> datetime | None:
    for key in _MODIFIED:
        value = info.get(key)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, float):
            value = datetime.fromtimestamp(value, UTC)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
    return None
