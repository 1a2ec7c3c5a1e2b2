"""Writing rows into new fragments batch by batch."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.file.data_file import new_data_file
from lance_spark.file.supported_types import WRITABLE
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.schema.declared_types import undeclared
from lance_spark.schema.schema import Schema
from lance_spark.storage.store import Store
from lance_spark.table.write.conform import conform
from lance_spark.table.write.sidecars import Sidecars

if TYPE_CHECKING:
    from lance_spark.file.writer import DataFileWriter


class FragmentWriter:
    """Writes batches to data files, and starts a new file when one is full. Each file is a fragment without an id.

    A file ends after `max_rows` rows, or with the batch that makes it exceed `max_bytes` bytes. Every file name ends with `job`.
    The commit syncs the names of the files. `check` gets new rows, and raises for those that the table may not have.
    """

    def __init__(
        self,
        store: Store,
        schema: Schema,
        data_format: str,
        job: str,
        max_rows: int,
        max_bytes: int,
        check: Callable[[pa.RecordBatch], None] | None = None,
    ) -> None:
        self._store, self._schema, self._data_format, self._job = store, schema, data_format, job
        self._max_rows, self._max_bytes, self._check = max_rows, max_bytes, check
        self._fragments: list[Fragment] = []
        self._stack = contextlib.ExitStack()
        self._file: DataFileWriter | None = None
        self._name = ""
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`, whose columns fit the schema (see `conform`)."""
        self.write_conformed(conform(batch, self._schema))

    def write_stored(self, batch: pa.RecordBatch) -> None:
        """Add rows that the table has already: they stay as they are, also if other writers ignored declared lengths of strings."""
        self._add(conform(batch, undeclared(self._schema)))

    def write_conformed(self, rows: pa.RecordBatch) -> None:
        """Add rows that `conform` returned."""
        if self._check is not None:
            self._check(rows)
        self._add(rows)

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
        # Encoding needs the compiled kernels, which the driver does not need.
        self._name, self._rows = fresh_name(self._job), 0
        out = self._stack.enter_context(self._store.create(f"data/{self._name}", sync_name=False))
        sidecars = self._stack.enter_context(Sidecars(self._store, f"data/{self._name}"))
        self._file = new_data_file(out, self._schema, WRITABLE[self._data_format], sidecars)
        return self._file

    def _close(self) -> None:
        assert self._file is not None
        file, self._file = self._file, None
        with self._stack:
            written = file.finish()
        named = DataFile(self._name, written.field_ids, written.column_indices, written.version, written.size_bytes)
        self._fragments.append(Fragment(0, (named,), written.num_rows))


class _Aborted(Exception):
    """Tells the store to discard the file."""


_BEFORE_JOB = 24 + 14
"""The digits of a file name before the job."""


def fresh_name(job: str) -> str:
    """A unique file name. It begins with 24 binary digits, because object stores spread load by leading characters."""
    unique = uuid.uuid4().bytes
    return f"{int.from_bytes(unique[:3], 'big'):024b}{unique[3:10].hex()}{job}.lance"


def job_of(name: str) -> str:
    """The job in a name of `fresh_name`; something else for files of other writers."""
    return name.removesuffix(".lance")[_BEFORE_JOB:]
