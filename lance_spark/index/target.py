"""Writing the files of a new index segment: Lance files with metadata and extra global buffers, in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.file.data_file import new_data_file
from lance_spark.metadata.fragment import IndexFile
from lance_spark.schema.schema import from_arrow
from lance_spark.schema.storage_version import V2_2
from lance_spark.storage.store import Store

if TYPE_CHECKING:
    from lance_spark.file.writer import DataFileWriter


@dataclass(frozen=True)
class Trained:
    """What a manifest stores about a new segment: the details and the index_version of its kind, and the files."""

    details: bytes
    version: int
    files: tuple[IndexFile, ...]


@dataclass
class IndexFileWriter:
    """An unfinished file. `metadata` is added to the schema's when the file is finished, and `buffers` become global buffers 1, 2, ..."""

    file: DataFileWriter
    schema: pa.Schema
    metadata: dict[str, str] = field(default_factory=dict)
    buffers: list[bytes] = field(default_factory=list)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Their columns have the names and types of the schema."""
        self.file.write(batch)

    def put(self, *columns: pa.Array) -> None:
        """Add rows, as one array for each column."""
        self.write(pa.RecordBatch.from_arrays(list(columns), schema=self.schema))

    def attach(self, key: str, data: bytes) -> None:
        """Add a global buffer, whose number the metadata `key` has."""
        self.buffers.append(data)
        self.metadata[key] = str(len(self.buffers))


@dataclass
class IndexTarget:
    """The folder of a new segment, `_indices/<uuid>` in `store`, and the files written so far."""

    store: Store
    folder: str
    files: list[IndexFile] = field(default_factory=list)

    @contextmanager
    def create(self, name: str, schema: pa.Schema) -> Iterator[IndexFileWriter]:
        """Write the file `name` in the block. If the block raises, the file is not completed."""
        with self.store.create(f"{self.folder}/{name}") as out:
            writer = IndexFileWriter(new_data_file(out, from_arrow(schema), V2_2), schema)
            yield writer
            written = writer.file.finish({key: value.encode() for key, value in writer.metadata.items()}, writer.buffers)
        self.files.append(IndexFile(name, written.size_bytes))

    def trained(self, details: bytes, version: int) -> Trained:
        """The result, with all files written so far."""
        return Trained(details, version, tuple(self.files))
