"""Writing rows into new fragments batch by batch."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.file.data_file import new_data_file
from lance_spark.file.supported_types import WRITABLE
from lance_spark.metadata.data_file_names import fresh_name
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.table.write.order import Portions, order_of
from lance_spark.table.write.rules import Kind
from lance_spark.table.write.sidecars import Sidecars
from lance_spark.table.write.target import WriteTarget

if TYPE_CHECKING:
    from lance_spark.file.writer import DataFileWriter


class FragmentWriter:
    """Writes batches to data files, and starts a new file when one is full. Each file is a fragment without an id.

    A file ends after `max_rows` rows, or with the batch that makes it exceed `max_bytes` bytes; None: as the target's options say. Every
    file name ends with the job of the target. The commit syncs the names of the files in the table's own folder. Files take turns between
    the folders of the target.
    """

    def __init__(self, target: WriteTarget, max_rows: int | None = None, max_bytes: int | None = None) -> None:
        self._target = target
        self._max_rows = target.options.max_rows_per_file if max_rows is None else max_rows
        self._max_bytes = target.options.max_bytes_per_file if max_bytes is None else max_bytes
        self._portions = Portions(order_of(target.schema, target.options.write_order))
        self._fragments: list[Fragment] = []
        self._stack = contextlib.ExitStack()
        self._file: DataFileWriter | None = None
        self._folder, self._name = target.folders[0], ""
        self._files = 0
        self._rows = 0

    def write(self, batch: pa.RecordBatch, kind: Kind) -> pa.RecordBatch:
        """Add rows, and return them as the rules left them. Inserted rows are sorted if the target has an order."""
        rows = self._target.rules.apply(batch, self._target.schema, kind)
        if kind is not Kind.INSERTED:
            self._add(rows)
            return rows
        for portion in self._portions.add(rows):
            self._add(portion)
        return rows

    def write_stored(self, batch: pa.RecordBatch) -> None:
        """Add rows that are in the table, or that have passed its rules: they stay as they are, even if other writers broke a rule."""
        self._add(self._target.rules.apply(batch, self._target.schema, Kind.STORED))

    def end_portion(self) -> None:
        """Write the rows that wait to be sorted."""
        for portion in self._portions.rest():
            self._add(portion)

    def _add(self, rest: pa.RecordBatch) -> None:
        while rest.num_rows:
            file = self._file or self._open()
            room = self._max_rows - self._rows
            taken = rest if rest.num_rows <= room else rest.slice(0, room)
            file.write(taken)
            self._rows += taken.num_rows
            rest = rest.slice(taken.num_rows)
            if self._rows >= self._max_rows or file.size_bytes >= self._max_bytes:
                self._close()

    def finish(self) -> tuple[Fragment, ...]:
        """Complete the last file and return all fragments, which no version refers to yet."""
        self.end_portion()
        if self._file is not None:
            self._close()
        return tuple(self._fragments)

    def abort(self) -> tuple[Fragment, ...]:
        """Discard the open file and return the complete fragments, whose files the caller must delete."""
        self._file = None
        with contextlib.suppress(_Aborted), self._stack:
            raise _Aborted
        return tuple(self._fragments)

    def _open(self) -> DataFileWriter:
        folders = self._target.folders
        self._folder = folders[self._files % len(folders)]
        self._files += 1
        self._name, self._rows = fresh_name(self._target.job, self._folder.mark), 0
        store, path = self._folder.store, self._folder.place(self._name)
        out = self._stack.enter_context(store.create(path, sync_name=self._folder.base_id is not None))
        sidecars = self._stack.enter_context(Sidecars(store, path))
        # Encoding needs the compiled kernels, which the driver does not need.
        self._file = new_data_file(out, self._target.schema, WRITABLE[self._target.data_format], sidecars)
        return self._file

    def _close(self) -> None:
        assert self._file is not None
        file, self._file = self._file, None
        with self._stack:
            written = file.finish()
        base_id = self._folder.base_id
        named = DataFile(self._name, written.field_ids, written.column_indices, written.version, written.size_bytes, base_id)
        self._fragments.append(Fragment(0, (named,), written.num_rows))


class _Aborted(Exception):
    """Tells the store to discard the file."""
