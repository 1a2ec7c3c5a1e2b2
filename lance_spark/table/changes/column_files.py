"""Column files: new data files for some columns of existing fragments. Rows stay in place, and other columns are not written.

Implements "Data Evolution" of the table specification. A data file has a value for every row of its fragment, including deleted rows, in
row order. Values arrive in ascending order of their row addresses; a row without a new value gets null or keeps its old value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.arrow.selection import take_rows
from lance_spark.errors import AmbiguousMergeError, LanceError, on_failure
from lance_spark.metadata.bitmaps import bitmap_of
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.metadata.row_address import RowAddress, by_fragment
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.plan import BATCH_ROWS
from lance_spark.table.scan.projection import Projection
from lance_spark.table.versions.snapshot import Snapshot, open_pinned
from lance_spark.table.write.conform import as_columns
from lance_spark.table.write.fragment_writer import FragmentWriter
from lance_spark.table.write.nested_fields import Rebuilding
from lance_spark.table.write.rules import Kind
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import delete_data_files, files_of

_ONE_FILE = 2**62
"""No limit of rows or bytes: the new columns of a fragment are in one file."""


@dataclass(frozen=True)
class ColumnTarget:
    """The target of tasks that write columns of one version. Its pickle is small, because tasks open the version themselves.

    `write.schema` has the columns to be written. With `keeps_old`, rows without a new value keep their old value; otherwise they get null.
    If fields in columns are new, `names` are the columns that have their values, by field id: the file has the structs. If fields in
    columns replace others, `origins` are the ids of those, by the new ids. `kind` says which rules the values pass.
    """

    write: WriteTarget
    keeps_old: bool = False
    allow_other_stores: bool = False
    verify_checksums: bool = True
    names: Mapping[int, str] = field(default_factory=dict)
    origins: Mapping[int, int] = field(default_factory=dict)
    kind: Kind = Kind.VALUES

    @property
    def columns(self) -> Iterable[str]:
        """The columns that have the new values."""
        return self.names.values() if self.names else self.write.schema.names

    @property
    def version(self) -> int:
        """The number of the version that the row addresses refer to."""
        return self.write.read_version

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version that the row addresses refer to."""
        opened = open_pinned(self.write.store, self.version, self.write.read_identity, self.allow_other_stores)
        return replace(opened, verify_checksums=self.verify_checksums)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "snapshot"}


def column_target(snapshot: Snapshot, write: WriteTarget, keeps_old: bool = False) -> ColumnTarget:
    """The target for columns of a snapshot. Their files are in the table's own folder, as pylance's."""
    return ColumnTarget(replace(write, bases=()).based_on(snapshot), keeps_old, snapshot.allow_other_stores, snapshot.verify_checksums)


@dataclass(frozen=True)
class ColumnFile:
    """A new data file of the fragment with this id; `rows` is a portable roaring bitmap of the rows that have a new value."""

    fragment_id: int
    file: DataFile
    rows: bytes
    num_rows: int


def write_columns(target: ColumnTarget, batches: Iterable[pa.RecordBatch]) -> list[ColumnFile]:
    """Write the columns of `batches`, except `ROW_ADDRESS`, to one file for each fragment with rows in `batches`.

    Rows must be sorted by address. If this fails, the files are deleted. Raises AmbiguousMergeError for a duplicate address.
    """
    done: list[ColumnFile] = []
    writer: _ColumnFileWriter | None = None

    def undo() -> None:
        open_files = () if writer is None else writer.abort()
        delete_data_files(target.write, [*(c.file for c in done), *files_of(open_files)])

    with on_failure(undo):
        for fragment_id, offsets, values in _pieces(batches):
            if writer is None or writer.fragment.id != fragment_id:
                done += [] if writer is None else [writer.finish()]
                writer = _ColumnFileWriter(target, fragment_id)
            writer.write(offsets, values)
        return done if writer is None else [*done, writer.finish()]


def blank_columns(target: ColumnTarget, fragment_id: int) -> ColumnFile:
    """The file of a fragment all of whose rows are deleted."""
    return _ColumnFileWriter(target, fragment_id).finish()


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, np.ndarray, pa.RecordBatch]]:
    """Split the batches by fragment: the fragment's id, the offsets of the rows in it, and the rows."""
    seen: set[int] = set()
    last = -1
    for batch in batches:
        addresses = np.asarray(batch.column(ROW_ADDRESS).to_numpy()).astype(np.uint64, copy=False)
        values = batch.drop_columns([ROW_ADDRESS])
        start = 0
        for fragment_id, offsets in by_fragment(addresses):
            if fragment_id != last and (fragment_id in seen or fragment_id < last):
                raise LanceError(f"the values of fragment {fragment_id} are not sorted by row address")
            seen.add(fragment_id)
            last = fragment_id
            yield fragment_id, offsets.astype(np.int64), values.slice(start, len(offsets))
            start += len(offsets)


def _missing(field: pa.Field, count: int) -> pa.Array:
    return pa.nulls(count, field.type) if field.nullable else _blanks(field.type, count)


def _blanks(t: pa.DataType, count: int) -> pa.Array:
    """Values for deleted rows where null is not permitted: zeros, empty texts and lists."""
    if pa.types.is_struct(t):
        return pa.StructArray.from_arrays([_missing(f, count) for f in t], fields=list(t))
    if pa.types.is_fixed_size_list(t):
        return pa.FixedSizeListArray.from_arrays(_blanks(t.value_type, count * t.list_size), type=t)
    if pa.types.is_dictionary(t):
        return _blanks(t.value_type, count).dictionary_encode().cast(t)
    width = t.bit_width if pa.types.is_primitive(t) or pa.types.is_decimal(t) else 0
    if width:
        return pa.Array.from_buffers(t, count, [None, pa.py_buffer(bytes(-(-count * width // 8)))])
    return pa.array([[] if pa.types.is_nested(t) else ""] * count, t)


class _ColumnFileWriter:
    """Writes one column file, and fills in the rows without a new value."""

    def __init__(self, target: ColumnTarget, fragment_id: int) -> None:
        found = target.snapshot.manifest.lazy_fragments.of_ids([fragment_id])
        if not found:
            raise LanceError(f"{target.snapshot} has no fragment {fragment_id}, but a row address refers to it")
        self.fragment: Fragment = found[fragment_id]
        self._target = target
        write = target.write
        self._schema: Schema = write.schema
        self._writer = FragmentWriter(write, _ONE_FILE, _ONE_FILE)
        self._rows = BitMap()
        self._next = 0

    def write(self, offsets: np.ndarray, values: pa.RecordBatch) -> None:
        """Add the values of the rows at the ascending `offsets`."""
        steps = np.diff(np.concatenate([[self._next - 1], offsets]))
        if len(steps) and steps.min() <= 0:
            self._refuse(offsets, steps)
        if len(offsets) and offsets[-1] >= self.fragment.physical_rows:
            raise LanceError(f"fragment {self.fragment.id} has {self.fragment.physical_rows} rows, but row {offsets[-1]} has a new value")
        if self._target.names and self._structs and len(offsets):
            values = self._in_structs(offsets, {i: values.column(name) for i, name in self._target.names.items()})
        rows = self._target.write.rules.apply(values, self._schema, self._target.kind, self._beside(offsets))
        for first in range(0, len(offsets), BATCH_ROWS):
            chosen = offsets[first : first + BATCH_ROWS]
            self._fill(int(chosen[0]))
            self._put(chosen, rows.slice(first, len(chosen)))
        self._rows |= bitmap_of(offsets)

    def finish(self) -> ColumnFile:
        """Fill in the remaining rows and complete the file."""
        self._fill(self.fragment.physical_rows)
        (written,) = self._writer.finish()
        self._rows.run_optimize()
        return ColumnFile(self.fragment.id, written.files[0], bytes(self._rows.serialize()), len(self._rows))

    def abort(self) -> tuple[Fragment, ...]:
        """Discard the open file and return the complete fragments, whose files the caller must delete."""
        return self._writer.abort()

    def _put(self, offsets: np.ndarray, values: pa.RecordBatch) -> None:
        """Write the rows up to the last of `offsets`."""
        start, stop = self._next, int(offsets[-1]) + 1
        if stop - start == len(offsets):
            self._writer.write_stored(values)
            self._next = stop
            return
        # Sparse values: rows in between are written in windows of bounded size.
        cuts = np.searchsorted(offsets, np.arange(start, stop, BATCH_ROWS)[1:])
        for part, at in zip(np.split(offsets, cuts), np.split(np.arange(len(offsets)), cuts)):
            self._put_window(part, values, at, min(self._next + BATCH_ROWS, stop))

    def _put_window(self, offsets: np.ndarray, values: pa.RecordBatch, at: np.ndarray, stop: int) -> None:
        count = stop - self._next
        between = self._between(self._next, stop)
        numbers = np.arange(count, dtype=np.int64)
        numbers[offsets - self._next] = count + at
        both = pa.Table.from_batches([between, values])
        for batch in take_rows(both, pa.array(numbers)).to_batches():
            self._writer.write_stored(batch)
        self._next = stop

    def _fill(self, stop: int) -> None:
        """Write the rows before `stop`, none of which has a new value."""
        while self._next < stop:
            until = min(stop, self._next + BATCH_ROWS)
            self._writer.write_stored(self._between(self._next, until))
            self._next = until

    def _between(self, start: int, stop: int) -> pa.RecordBatch:
        """Rows without a new value, in the file's storage types."""
        if self._structs:
            # The structs are what they were, and their new fields are null.
            nulls = dict.fromkeys(self._target.names, pa.nulls(stop - start))
            return as_columns(self._in_structs(np.arange(start, stop), nulls), self._schema, {})
        if not self._target.keeps_old:
            fields = [f.to_arrow() for f in self._schema.fields]
            arrays = [_missing(f, stop - start) for f in fields]
            return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        reader, columns = self._old
        rows = pa.Table.from_batches(list(reader.read(range(start, stop), columns, BATCH_ROWS))).combine_chunks()
        return as_columns(rows.to_batches()[0], self._schema, {})

    def _beside(self, offsets: np.ndarray) -> Mapping[str, pa.Array]:
        """The other columns that constraints of the written ones read."""
        table = self._target.snapshot.manifest.schema.fields
        known = {f.id for f in table}
        if self._target.kind is Kind.STORED:
            return {}
        # A new column has no constraint, and new fields in a column change none.
        names = [f.name for f in self._schema.fields if f.id in known and not self._structs]
        read = self._target.write.rules.reads(names)
        others = Schema(tuple(f for f in table if f.name in read and f.name not in names))
        if not others.fields or not len(offsets):
            return {}
        reader, columns = self._reader(others)
        rows = pa.Table.from_batches(list(reader.read(offsets, columns, BATCH_ROWS))).combine_chunks()
        return dict(zip(others.names, as_columns(rows.to_batches()[0], others, {}).columns, strict=True))

    @cached_property
    def _old(self) -> tuple[FragmentReader, Projection]:
        return self._reader(self._schema)

    def _reader(self, schema: Schema) -> tuple[FragmentReader, Projection]:
        # The file has values of deleted rows, too.
        return FragmentReader(replace(self.fragment, deletion=None), self._target.snapshot.locations), Projection(schema)

    @cached_property
    def _structs(self) -> tuple[Field, ...]:
        """The columns of the table of which the file has new fields."""
        new = {*self._target.names, *self._target.origins}
        if not new:
            return ()
        table = {f.id: f for f in self._target.snapshot.manifest.schema.fields}
        own = [f for f in self._schema.fields if f.id in table]
        return tuple(table[f.id] for f in own if any(below.id in new for below in f.walk()))

    def _in_structs(self, offsets: np.ndarray, values: Mapping[int, pa.Array]) -> pa.RecordBatch:
        """The rows of the file with values of new fields, by id. The structs and lists around them are read from the fragment."""
        reader, columns = self._reader(Schema(self._structs))
        read = pa.Table.from_batches(list(reader.read(offsets, columns, BATCH_ROWS))).combine_chunks().to_batches()[0]
        before = {f.id: (read.column(at), f) for at, f in enumerate(self._structs)}
        rebuild = Rebuilding(values, self._target.origins, lambda array, f: _missing(f.to_arrow(), len(array)))
        rebuilt: dict[str, pa.Array] = {}
        for f in self._schema.fields:
            if f.id in before:
                rebuilt[f.name] = rebuild(*before[f.id], f)
            elif f.id in values:
                rebuilt[f.name] = values[f.id]
            else:
                rebuilt[f.name] = _missing(f.to_arrow(), len(offsets))
        return pa.RecordBatch.from_arrays(list(rebuilt.values()), names=list(rebuilt))

    def _refuse(self, offsets: np.ndarray, steps: np.ndarray) -> None:
        at = int(np.argmin(steps))
        if steps[at] == 0:
            address = RowAddress.of(self.fragment.id, int(offsets[at]))
            raise AmbiguousMergeError(f"row {offsets[at]} of fragment {self.fragment.id} gets more than one new value", address)
        raise LanceError(f"the values of fragment {self.fragment.id} are not sorted by row address")
