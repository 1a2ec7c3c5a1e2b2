"""Sidecar files, which hold the large blobs of a data file and are written together with it."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import BinaryIO

from lance_spark.errors import StorageError
from lance_spark.file.blob_file_names import sidecar_path
from lance_spark.storage.store import Store


class Sidecars:
    """The sidecar files of the data file at `path`, as a context manager: if the block raises, all of them are deleted."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._path = path
        self._open: dict[int, contextlib.ExitStack] = {}
        self._ended: list[int] = []

    def begin(self, blob_id: int) -> BinaryIO:
        """Begin the sidecar file with this id."""
        stack = contextlib.ExitStack()
        out = stack.enter_context(self._store.create(sidecar_path(self._path, blob_id)))
        self._open[blob_id] = stack
        return out

    def end(self, blob_id: int) -> None:
        """Complete a sidecar file."""
        self._open.pop(blob_id).close()
        self._ended.append(blob_id)

    def __enter__(self) -> Sidecars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for stack in self._open.values():
            # If the block raises, the store discards the file and raises the same error again.
            with contextlib.suppress(*(() if error is None else (type(error),))):
                stack.__exit__(kind, error, trace)
        if error is not None:
            for blob_id in self._ended:
                with contextlib.suppress(StorageError):
                    self._store.delete(sidecar_path(self._path, blob_id))
