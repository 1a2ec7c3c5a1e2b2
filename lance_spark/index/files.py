"""The files of one index segment: Lance files with a few flat columns, metadata and extra global buffers.

What was read of them stays in memory, up to a number of bytes per process: files of an index never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.buffers.cache import Cache
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.data_file import open_data_file
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Field
from lance_spark.storage.store import Store

if TYPE_CHECKING:
    from lance_spark.file.reader import DataFileReader

MAX_CACHED_BYTES = 256 << 20
"""Bytes of indexes that stay in memory in each process."""

_OPEN_BYTES = 128 << 10
"""Bytes that an open file is counted with."""

_DIGITS = 18
"""Numbers in metadata have at most so many digits, so that they fit 64 bits."""

BATCH_ROWS = 512 << 10
"""With 8 bytes for a row number, 4 MiB."""

T = TypeVar("T")


_CACHE = Cache(MAX_CACHED_BYTES)


@dataclass(frozen=True)
class IndexFile:
    """An open file of an index."""

    path: str
    reader: DataFileReader

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.reader.num_rows

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the file's schema."""
        return {k.decode(): v.decode(errors="replace") for k, v in self.reader.schema.metadata.items()}

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.reader.schema.to_arrow()

    def number(self, key: str, default: int | None = None) -> int:
        """A number from the metadata. Raises CorruptFileError if it is invalid, or missing without a default."""
        text = self.metadata.get(key)
        if text is None and default is not None:
            return default
        if text is None or not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
            raise CorruptFileError(f"{self.path}: expected a number in the metadata {key!r}, found {text!r}")
        return int(text)

    def batches(self, columns: Sequence[int | str], rows: Rows | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The given rows (None: all) of columns, by name or by number, in batches."""
        fields = [self._field(c) for c in columns]
        # Since 2.1, only leaves have columns of their own; index files have no structs.
        walked = [f for f in self.reader.schema.walk() if f.is_leaf or self.reader.version < (2, 1)]
        places = {f.id: i for i, f in enumerate(walked)}
        names = [f.name for f in fields]
        for arrays in self.reader.read(fields, places, range(self.num_rows) if rows is None else rows, batch_rows):
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def read(self, columns: Sequence[int | str], rows: Rows | None = None) -> pa.RecordBatch:
        """The given rows (None: all) of columns in one batch. Raises CorruptFileError if they are too many for memory."""
        fields = [self._field(c) for c in columns]
        check_bytes(8 * (self.num_rows if rows is None else len(rows)), self.path)
        batches = list(self.batches(columns, rows))
        if len(batches) == 1:
            return batches[0]
        schema = batches[0].schema if batches else pa.schema([pa.field(f.name, f.type) for f in fields])
        if not batches:
            return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
        return pa.RecordBatch.from_arrays([joined([b.column(i) for b in batches]) for i in range(len(fields))], schema=schema)

    def buffer(self, key: str) -> bytes:
        """The global buffer whose number is in the metadata `key`."""
        return self.reader.global_buffer(self.number(key))

    def _field(self, column: int | str) -> Field:
        fields = self.reader.schema.fields
        if isinstance(column, int):
            if column < len(fields):
                return fields[column]
        else:
            for f in fields:
                if f.name == column:
                    return f
        raise CorruptFileError(f"{self.path}: column {column!r} is missing; found {[f.name for f in fields]}")


@dataclass(frozen=True)
class IndexFiles:
    """The files of one segment.

    `indexed` is the indexed column; `fragments` are the numbers of rows (deleted ones too) of the fragments that the segment was built
    from, by id. A segment that is complete names at least `live_rows` rows. `sizes` are known sizes of files, `details` is what the
    manifest says about the kind.
    """

    store: Store
    folder: str
    indexed: Field
    fragments: Mapping[int, int]
    live_rows: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    details: bytes = b""
    verify_checksums: bool = True

    def open(self, name: str) -> IndexFile:
        """Open the file `name`. Raises MissingFileError or CorruptFileError."""
        path = f"{self.folder}/{name}"

        def opened() -> IndexFile:
            reader = open_data_file(self.store, path, self.sizes.get(name), verify_checksums=self.verify_checksums)
            if reader.is_legacy:
                raise UnsupportedFeatureError(f"{path}: the file is of storage version 0.1, which loses the nulls of an index")
            return IndexFile(path, reader)

        return self.cached(f"file {name}", opened, lambda _: _OPEN_BYTES)

    def cached(self, name: str, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """What `make` returns, which stays in memory for later searches of this segment; `size` tells its bytes."""
        return _CACHE.get((self.store.uri, self.folder, name), make, size)

    def cached_each(
        self, name: str, numbers: Sequence[int], make: Callable[[Sequence[int]], Iterable[T]], size: Callable[[T], int]
    ) -> list[T]:
        """As `cached` for several values, by number; `make` returns those that are not there, in order."""
        keys = {i: (self.store.uri, self.folder, name, i) for i in numbers}
        found = {i: _CACHE.known(key) for i, key in keys.items()}
        missing = [i for i, batch in found.items() if batch is None]
        for i, value in zip(missing, make(missing) if missing else ()):
            found[i] = value
            _CACHE.keep(keys[i], value, size(value))
        return [found[i] for i in numbers]

    def fits(self, found: pa.DataType) -> bool:
        """Whether values of the type `found` in an index can be those of the indexed column."""
        return bool(plain_type(found) == plain_type(self.indexed.type))


def unsigned(values: pa.Array, what: str) -> np.ndarray:
    """The values of a column of unsigned integers. Raises CorruptFileError for other types and for nulls; `what` names the file."""
    if not pa.types.is_unsigned_integer(values.type) or values.null_count:
        raise CorruptFileError(f"{what}: expected unsigned integers without nulls, found {values.null_count} nulls in {values.type}")
    found: np.ndarray = values.to_numpy()
    return found


def bitmaps(values: pa.Array, what: str) -> list[bytes]:
    """The values of a column of serialised sets of rows. Raises CorruptFileError for other types and for nulls; `what` names the file."""
    if values.type not in (pa.binary(), pa.large_binary()) or values.null_count:
        raise CorruptFileError(f"{what}: expected bitmaps without nulls, found {values.null_count} nulls in {values.type}")
    found: list[bytes] = values.to_pylist()
    return found


def plain_type(t: pa.DataType) -> pa.DataType:
    """The type without what does not change values: large offsets, dictionaries, extension types."""
    if isinstance(t, pa.BaseExtensionType):
        t = t.storage_type
    if pa.types.is_dictionary(t):
        t = t.value_type
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(t, t)
