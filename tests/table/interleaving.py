"""A store that runs an action of another client between two of its calls."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.storage.local import Contents, Entry, Files, LocalFiles
from lance_spark.storage.store import Store


class InterruptedFiles:
    """Local files that run `action` before the call with the number `at` (from 1)."""

    gap = LocalFiles.gap

    def __init__(self, at: int, action: Callable[[], object]) -> None:
        self._inner = LocalFiles()
        self._at, self._action = at, action
        self._calls = 0

    @property
    def reached(self) -> bool:
        """True if there were that many calls."""
        return self._calls >= self._at

    def _called(self) -> LocalFiles:
        self._calls += 1
        if self._calls == self._at:
            self._action()
        return self._inner

    def read(self, path: str) -> bytes:
        return self._called().read(path)

    def read_ranges(self, path: str, reads: Sequence[ByteRange]) -> list[Bytes]:
        return self._called().read_ranges(path, reads)

    def read_tail(self, path: str, n: int) -> tuple[Bytes, int]:
        return self._called().read_tail(path, n)

    def read_end(self, path: str, n: int) -> Bytes:
        return self._called().read_end(path, n)

    def about(self, path: str) -> Entry:
        return self._called().about(path)

    def walk(self, folder: str) -> list[Entry]:
        return self._called().walk(folder)

    def list(self, folder: str) -> list[Entry]:
        return self._called().list(folder)

    def names(self, folder: str) -> Sequence[str]:
        return self._called().names(folder)

    def contents(self, folder: str) -> Contents:
        return self._called().contents(folder)

    def delete_folder(self, folder: str) -> None:
        self._called().delete_folder(folder)

    def remove_empty_folders(self, folder: str) -> None:
        self._called().remove_empty_folders(folder)

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        self._called().put(path, data, durable)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        self._called().put_if_absent(path, data, sync_name)

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        with self._called().create(path, sync_name) as out:
            yield out

    def sync(self, folder: str) -> None:
        self._called().sync(folder)

    def delete(self, path: str) -> None:
        self._called().delete(path)


class InterruptedStore(Store):
    """A store of local files that uses `InterruptedFiles`, for all roots."""

    __slots__ = ("files",)

    def __init__(self, uri: str, files: InterruptedFiles) -> None:
        super().__init__(uri)
        self.files = files

    def at(self, uri: str, base_id: int | None = None) -> Store:
        return InterruptedStore(uri, self.files)

    def _files(self) -> Files:
        return self.files


def interrupted_everywhere(
    run: Callable[[Callable[[str], Store]], None],
    prepare: Callable[[], object],
    action: Callable[[], object],
    first: int = 1,
    step: int = 1,
) -> Iterator[int]:
    """`run`, which is given how to open stores, once for each of its calls, with the `action` before it; prepared anew each time.

    With a `step`, every so many calls, from the call `first` on.
    """
    for at in itertools.count(first, step):
        prepare()
        files = InterruptedFiles(at, action)
        run(functools.partial(InterruptedStore, files=files))
        if not files.reached:
            assert at > first, f"there is no call {first}"
            return
        yield at
