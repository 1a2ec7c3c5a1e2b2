"""Details of an index that are too large for the manifest: a file in the folder of the index, which is read when it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.storage.store import Store


@dataclass(frozen=True)
class DetailsFile:
    """The bytes of a file from `offset` on. They stay in memory, and are not in the pickle."""

    store: Store
    path: str
    offset: int
    size: int

    @cached_property
    def content(self) -> bytes:
        """The details. Raises MissingFileError, and CorruptFileError if the file is too short."""
        return bytes(self.store.read_ranges(self.path, [ByteRange(self.offset, self.offset + self.size)])[0])

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "content"}
