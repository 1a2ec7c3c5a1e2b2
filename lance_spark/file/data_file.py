"""The one door to the decoders and encoders: opening a data file, and making one.

They are imported with the first file. Opening a table and planning a scan need none, and take less time than the import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.metadata.locations import ExternalBlobs, no_external_blobs
from lance_spark.schema.schema import Field, Schema
from lance_spark.schema.storage_version import StorageVersion
from lance_spark.storage.store import Store

if TYPE_CHECKING:
    from lance_spark.file.blob_writer import Sidecars
    from lance_spark.file.checksums import Output
    from lance_spark.file.reader import DataFileReader
    from lance_spark.file.source import Source
    from lance_spark.file.writer import DataFileWriter


def open_data_file(
    store: Store, path: str, size: int | None = None, external: ExternalBlobs = no_external_blobs, verify_checksums: bool = True
) -> DataFileReader:
    """The reader of the data file at `path`; see `file.reader.read_data_file`, which it is."""
    from lance_spark.file.reader import read_data_file

    return read_data_file(store, path, size, external, verify_checksums)


def open_data_files(
    store: Store, files: Sequence[tuple[str, int | None]], external: ExternalBlobs = no_external_blobs, verify_checksums: bool = True
) -> list[DataFileReader]:
    """The readers of several data files, by path and size; see `file.reader.read_data_files`, which it is."""
    from lance_spark.file.reader import read_data_files

    return read_data_files(store, files, external, verify_checksums)


def read_together(files: Sequence[DataFileReader], fields: Sequence[Field], columns: Mapping[int, int]) -> list[pa.Array]:
    """All rows of many small files; see `file.together.read_together`, which it is."""
    from lance_spark.file import together

    return together.read_together(files, fields, columns)


def read_few(
    files: Sequence[DataFileReader], fields: Sequence[Field], columns: Mapping[int, int], rows: Sequence[np.ndarray]
) -> list[pa.Array] | None:
    """Some rows of many files; see `file.together.read_few`, which it is."""
    from lance_spark.file import together

    return together.read_few(files, fields, columns, rows)


def open_blobs(store: Store, path: str, verify_checksums: bool = True) -> Source:
    """The file at `path`, for reading blobs only; see `file.source.blob_source`."""
    from lance_spark.file.source import blob_source

    return blob_source(store, path, verify_checksums)


def new_data_file(out: Output, schema: Schema, version: StorageVersion, sidecars: Sidecars | None = None) -> DataFileWriter:
    """The writer of a data file; see `file.writer.DataFileWriter`."""
    from lance_spark.file.writer import DataFileWriter

    return DataFileWriter(out, schema, version, sidecars)
