"""The bytes of a data file, verified if it has checksums, and errors that name the file and the part that was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import CorruptFileError
from lance_spark.file.blob_file_names import sidecar_path
from lance_spark.file.checksums import ChecksumError, Checksums, read_checksums
from lance_spark.layouts.read_blob import ExternalRange, ManagedRange, SidecarRange, place
from lance_spark.metadata.fragment import TAIL
from lance_spark.metadata.locations import ExternalBlobs, managed_blob, no_external_blobs
from lance_spark.reading.naming import checked, naming
from lance_spark.reading.steps import Counts, Steps, run
from lance_spark.storage.store import Store

_NOTHING = np.empty(0, np.uint8)

T = TypeVar("T")


def open_sources(
    store: Store, paths: Sequence[str], external: ExternalBlobs = no_external_blobs, verify_checksums: bool = True
) -> list[Source]:
    """The files at these paths, after reading their ends. `external` and `verify_checksums` are those of `read_data_file`."""
    ends = store.read_tails(paths, TAIL)
    return [_source(store, path, tail, size, external, verify_checksums) for path, (tail, size) in zip(paths, ends)]


def _source(store: Store, path: str, tail: Bytes, size: int, external: ExternalBlobs, verify_checksums: bool) -> Source:
    source = Source(store, path, size, tail, external, Counts(len(tail), size))
    checksums = source.run("checksums", read_checksums(size)) if verify_checksums else None
    if checksums is None:
        return source
    # If the file in memory is damaged, or if it has sidecars, each read compares what it reads.
    is_checked = len(tail) == size and not checksums.num_sidecars and checksums.are_those_of(tail)
    return Source(store, path, size, tail, external, source.counts, checksums, is_checked)


def blob_source(store: Store, path: str, verify_checksums: bool = True) -> Source:
    """The file at `path`, for reading blobs only; its end is read only for its checksums."""
    return open_sources(store, [path])[0] if verify_checksums else Source(store, path, 2**63, np.empty(0, np.uint8), no_external_blobs)


@dataclass(frozen=True)
class Source:
    """One data file and its blob files; `tail` is the end of the data file, in memory. If `is_checked`, it is all of it, without damage."""

    store: Store
    path: str
    size: int
    tail: Bytes
    external: ExternalBlobs
    counts: Counts = field(default_factory=Counts)
    checksums: Checksums | None = None
    is_checked: bool = False

    def again(self) -> Source:
        """The same file, with counts of its own and without the end in memory."""
        return Source(self.store, self.path, self.size, _NOTHING, self.external, Counts(0, self.size), self.checksums)

    def fetch(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        """The bytes of each range. Raises ChecksumError if they differ from the file's checksums."""
        if self.checksums is None or self.is_checked:
            return self._fetch(ranges)
        return run(self.checksums.read(ranges), self._fetch)

    def _fetch(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        size, first = self.size, self.size - len(self.tail)
        if all(type(wanted) is ByteRange and 0 <= wanted[0] <= wanted[1] <= first for wanted in ranges):
            self.counts.bytes_read += sum(stop - start for start, stop in ranges)
            return self.store.read_ranges(self.path, ranges)
        answers: list[Bytes | None] = [None] * len(ranges)
        not_read: dict[str, list[int]] = {}
        for i, wanted in enumerate(ranges):
            start, stop = wanted
            if type(wanted) is ByteRange and 0 <= start <= stop <= size:
                if start < first:
                    not_read.setdefault(self.path, []).append(i)
                else:
                    answers[i] = self.tail[start - first : stop - first]
            elif isinstance(wanted, ManagedRange):
                not_read.setdefault(managed_blob(wanted.uri), []).append(i)
            elif isinstance(wanted, ExternalRange):
                answers[i] = _external_bytes(wanted, self.external)
            elif isinstance(wanted, SidecarRange):
                not_read.setdefault(sidecar_path(self.path, wanted.blob_id), []).append(i)
            elif not 0 <= start <= stop <= size:
                raise CorruptFileError(f"{self.path}: bytes {start} to {stop} are outside the file of {size} bytes")
            else:
                not_read.setdefault(self.path, []).append(i)
        for path, numbers in not_read.items():
            self.counts.bytes_read += sum(ranges[i].stop - ranges[i].start for i in numbers)
            plain = [ranges[i] for i in numbers]
            if path != self.path:
                plain = [ByteRange(*wanted) for wanted in plain]
            for i, answer in zip(numbers, self.store.read_ranges(path, plain)):
                answers[i] = answer
        return answers  # type: ignore[return-value]

    def read(self, ranges: Sequence[ByteRange], what: str) -> list[Bytes]:
        """The bytes of each range; errors name the file and `what`, the part that is read."""
        try:
            return self.fetch(ranges)
        except ChecksumError as e:
            raise self.damaged(e, what) from e

    def read_blob(self, where: ByteRange, kind: int, blob_id: int, uri: str) -> Bytes:
        """The bytes of a part of a blob of this kind, not external."""
        return self.read([place(where, kind, blob_id, uri)], "blob")[0]

    def checked(self, what: str, work: Callable[[], T]) -> T:
        """Do `work`; errors name the file and `what`, the part that is read."""
        return checked(f"{self.path}: {what}", work)

    def run(self, what: str, steps: Steps[T]) -> T:
        """Run `steps`; errors name the file and `what`, the part that is read."""
        try:
            return run(naming(f"{self.path}: {what}", steps), self.fetch)
        except ChecksumError as e:
            raise self.damaged(e, what) from e

    def damaged(self, error: ChecksumError, what: str) -> CorruptFileError:
        """The error that names the damaged file and `what` was read; "" if unknown."""
        path = sidecar_path(self.path, error.blob_id) if error.blob_id else self.path
        return CorruptFileError(f"{path}: {what}: {error}" if what else f"{path}: {error}")


def _external_bytes(wanted: ExternalRange, external: ExternalBlobs) -> Bytes:
    """The bytes of a blob that is stored outside of the table's own files."""
    there, name = external(wanted.uri, wanted.base_id)
    stop = wanted.stop if wanted.stop > wanted.start else there.size(name)
    return there.read_ranges(name, [ByteRange(wanted.start, stop)])[0]
