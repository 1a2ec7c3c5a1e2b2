"""The entries of a shard's log that are in no SSTable yet, as rows of the table.

Implements "WAL Entry" of the MemTable and WAL specification: an entry is an Arrow stream with columns of the table, whose fields have
the metadata `lance:field_id`, and with `_tombstone`, which is true for the key of a deleted row. An entry without columns marks where a
new writer took over.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.arrow.equal_keys import value_numbers
from lance_spark.arrow.selection import joined
from lance_spark.buffers.cache import Cache
from lance_spark.errors import CorruptFileError, MissingFileError, UnsupportedFeatureError
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.store import Store
from lance_spark.table.scan.plan import fields_with
from lance_spark.table.scan.projection import projected
from lance_spark.table.versions.write_ahead_log import generation_of

TOMBSTONE = "_tombstone"
FIELD_ID = b"lance:field_id"
"""The metadata of a field in an entry: the id of the field in the table."""
_CONNECTIONS = 8


@dataclass(frozen=True)
class Entry:
    """The rows of an entry as columns of the table and `_tombstone`, and the generation that it belongs to, if it notes one."""

    batches: list[pa.RecordBatch]
    generation: int | None


@dataclass(frozen=True)
class Newest:
    """The newest rows of the entries at these paths."""

    paths: tuple[str, ...]
    rows: pa.RecordBatch


_NEWEST = Cache(256 << 20)
"""The newest rows of logs that this process has read: entries do not change, so that only those are read that came since."""
_FILES = Cache(16 << 20)
"""The last files of entries that this process has read, which a scan needs for their keys, and then for their rows."""


@dataclass(frozen=True)
class Entries:
    """Entries of the log of one shard, in their order. `fields` are columns of the table; `keys` are the names of its primary key.

    Their rows stay in memory if the `identity` of the version that is read is given: a table that is made anew at the same place
    may have other entries of the same names.
    """

    store: Store
    paths: tuple[str, ...]
    fields: Schema
    keys: tuple[str, ...]
    identity: str = ""

    def of(self, fields: Schema) -> Entries:
        """The same entries with other columns."""
        return replace(self, fields=fields)

    def each(self) -> Iterator[Entry]:
        """The entries in their order. Raises CorruptFileError, which names the entry, and MissingFileError."""
        return map(self._read, self.paths)

    def newest(self) -> pa.RecordBatch:
        """The last row of each key, all rows without a key, with `fields` and with `_tombstone`.

        Raises CorruptFileError, which names the entry, and MissingFileError if the log was cleaned up meanwhile.
        """
        known = self._known()
        if known.paths == self.paths:
            return known.rows
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            entries = pool.map(self._read, self.paths[len(known.paths) :])
            batches = [known.rows, *(batch for entry in entries for batch in entry.batches)]
        rows = pa.Table.from_batches(batches, schema=self._schema)
        if self.keys:
            rows = rows.take(pa.array(last_of_each(rows.select(list(self.keys)))))
        newest = pa.RecordBatch.from_arrays([_joined(column) for column in rows.columns], schema=self._schema)
        if self.identity:
            _NEWEST.keep(self._place, Newest(self.paths, newest), newest.nbytes)
        return newest

    def _known(self) -> Newest:
        """The newest rows of the first entries, as far as this process has read them."""
        known: Newest | None = _NEWEST.known(self._place) if self.identity else None
        if known is not None and self.paths[: len(known.paths)] == known.paths:
            return known
        nothing = [pa.array([], field.type) for field in self._schema]
        return Newest((), pa.RecordBatch.from_arrays(nothing, schema=self._schema))

    @property
    def _place(self) -> tuple[object, ...]:
        """What tells rows in `_NEWEST` apart, but for the last entry that they are of."""
        columns = tuple((f.id, f.name, str(f.type)) for f in self.fields.walk())
        return (self.store.uri, self.identity, self.paths[:1], columns, self.keys)

    def rows(self, fields: Schema) -> pa.RecordBatch:
        """The rows of `newest`, with these columns and, of tombstones, nulls in them. For entries whose own fields are those of the key."""
        whole = Schema(fields_with(fields.fields, self.fields.fields), fields.metadata)
        return self.of(whole).newest().select(fields.names)

    @property
    def _schema(self) -> pa.Schema:
        return self.fields.to_arrow().append(pa.field(TOMBSTONE, pa.bool_()))

    def _read(self, path: str) -> Entry:
        where = f"{self.store.uri}/{path}"
        try:
            with pa.ipc.open_stream(self._content(path)) as stream:
                batches, noted = list(stream), stream.schema.metadata or {}
            for batch in batches:
                batch.validate(full=True)
        except FileNotFoundError as e:
            raise MissingFileError(f"{where}: this entry of the write-ahead log was removed while the table was read; read it again") from e
        except (pa.ArrowException, OSError) as e:
            raise CorruptFileError(f"{where}: not a valid entry of a write-ahead log: {e}; mem_wal=base reads the table without it") from e
        try:
            return Entry([self._conformed(batch) for batch in batches if batch.num_columns], generation_of(noted))
        except (pa.ArrowException, CorruptFileError, UnicodeDecodeError) as e:
            raise CorruptFileError(f"{where}: the entry does not have the columns of the table: {e}") from e

    def _content(self, path: str) -> bytes:
        if not self.identity:
            return self.store.read(path)
        return _FILES.get((self.store.uri, self.identity, path), lambda: self.store.read(path), len)

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of an entry with the columns of the table; those that it does not have are null."""
        there = {_id(f): i for i, f in enumerate(batch.schema) if f.name != TOMBSTONE}
        columns = []
        for field, shown in zip(self.fields.fields, self._schema):
            if field.is_blob:
                raise UnsupportedFeatureError(f"the blob column {field.name!r} cannot be read from entries of a write-ahead log")
            at = there.get(field.id)
            found = None if at is None else _renamed(batch.column(at), batch.schema.field(at), field)
            columns.append(projected(found, field, shown.type, batch.num_rows))
        at = batch.schema.get_field_index(TOMBSTONE)
        columns.append(pa.repeat(pa.scalar(False), batch.num_rows) if at < 0 else batch.column(at))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def last_of_each(keys: pa.Table) -> np.ndarray:
    """The numbers of the rows that are the last ones with their key, ascending."""
    columns = [value_numbers(_joined(column)) for column in keys.columns]
    numbers = columns[0] if len(columns) == 1 else np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    _, from_end = np.unique(numbers[::-1], return_index=True)
    return np.sort(len(numbers) - 1 - from_end)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return joined(column.chunks or [pa.array([], column.type)])


def _id(field: pa.Field) -> int:
    text = (field.metadata or {}).get(FIELD_ID, b"")
    # Ids have 32 bits.
    if not text.isdigit() or len(text) > 10:
        raise CorruptFileError(f"the column {field.name!r} has no field id")
    return int(text)


def _renamed(array: pa.Array, given: pa.Field, field: Field) -> pa.Array:
    """The values with the present names of struct fields."""
    if not pa.types.is_struct(given.type) or not field.children:
        return array
    names = {child.id: child for child in field.children}
    kept = [(i, names[_id(f)]) for i, f in enumerate(given.type) if _id(f) in names]
    children = [_renamed(array.field(i), given.type.field(i), child) for i, child in kept]
    fields = [pa.field(child.name, values.type) for (_, child), values in zip(kept, children)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null()) if children else array
