"""The rows of one fragment: columns from several data files joined by position, without deleted rows.

Implements fragments, data evolution and deletions of the table specification. Row positions count only rows that are
not deleted; offsets count all rows of the data files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined, keep
from lance_spark.arrow.views import are_views
from lance_spark.errors import CorruptFileError, MissingFileError, UnsupportedFeatureError
from lance_spark.file import data_file
from lance_spark.file.data_file import open_data_files
from lance_spark.file.held_file import HeldFile, HeldReader
from lance_spark.file.overlaid import has_overlays, overlaid
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import DataFile, Fragment, LogFragment
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.row_address import addresses_of
from lance_spark.metadata.row_columns import (
    CREATED_AT,
    DELTA_ROW_ID,
    DELTA_ROW_VERSION,
    FILE_NAME,
    FILE_PATH,
    FILE_ROW,
    FRAGMENT_ID,
    ROW_ADDRESS,
    ROW_COLUMN_IDS,
    ROW_FILE,
    ROW_ID,
    ROW_OFFSET,
    UPDATED_AT,
)
from lance_spark.metadata.row_ids import RowIds, RowVersions, load_sequence, parse_versions, row_ids_of
from lance_spark.predicate.bounds import Bounds
from lance_spark.reading import spans
from lance_spark.reading.steps import Counts, Rows
from lance_spark.schema.schema import Field
from lance_spark.storage.store import Store
from lance_spark.table.scan.projection import Projection, Stored, projected

if TYPE_CHECKING:
    from lance_spark.file.reader import DataFileReader

_OF_DELTA = {DELTA_ROW_ID: ROW_ID, DELTA_ROW_VERSION: UPDATED_AT}
"""Fields with Delta Lake's names for columns of ours."""
_NAMES_OF_DELTA = {
    DELTA_ROW_ID: ("_metadata.row_id", "_rowid"),
    DELTA_ROW_VERSION: ("_metadata.row_commit_version", "_row_last_updated_at_version"),
}
"""The names of these, and of ours."""
_PROVEN_ROWS = 1 << 22
"""Fragments of more rows are not believed to have them before a data file says so: a few bytes of a manifest can claim billions."""


def physical_rows(fragment: Fragment, locations: Locations) -> int:
    """The number of rows in the fragment's files, including deleted ones; read from a file where a very old manifest lacks it."""
    if not fragment.files:
        raise CorruptFileError(f"fragment {fragment.id} has no data files")
    if fragment.physical_rows:
        return fragment.physical_rows
    return _open(fragment.files[0], locations).num_rows


def count_rows(fragment: Fragment, locations: Locations) -> int:
    """The number of rows in the fragment that are not deleted."""
    deletion = fragment.deletion
    if deletion is None:
        return physical_rows(fragment, locations)
    deleted = deletion.num_deleted if deletion.num_deleted is not None else len(read_deletions(fragment, locations))
    return physical_rows(fragment, locations) - deleted


class FragmentReader:
    """The rows of one fragment; each file is opened once, when it is first needed.

    `first_row` is the number of its first row in the table, which only the column `_rowoffset` needs.
    """

    def __init__(self, fragment: Fragment, locations: Locations, stable_row_ids: bool = False, first_row: int | None = None) -> None:
        self._fragment = fragment
        self._locations = locations
        self._stable_row_ids = stable_row_ids
        self._first_row = first_row
        self._files: dict[str, DataFileReader | HeldReader] = {}
        self._overlays: dict[str, DataFileReader] = {}
        self._sequences: dict[int, RowIds | RowVersions | None] = {}

    def counts(self) -> Counts:
        """The cost of reading so far. Files that were not opened count with their size from the manifest."""
        total = Counts(bytes=sum(f.size or 0 for f in self._fragment.files if f.path not in self._files))
        for reader in (*self._files.values(), *self._overlays.values()):
            total.add(reader.counts)
        return total

    @cached_property
    def _total(self) -> int:
        return physical_rows(self._fragment, self._locations)

    @cached_property
    def _deleted(self) -> np.ndarray:
        return read_deletions(self._fragment, self._locations)

    def read(
        self,
        positions: Rows,
        columns: Projection,
        batch_rows: int,
        with_dictionaries: bool = False,
        with_views: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows at `positions`, ascending without duplicates, in batches of at most `batch_rows`, with these columns.

        Fields with the ids of `row_columns` are calculated, all others are read from files. `with_dictionaries`: a column of a batch may
        have a dictionary of the values, if its values are stored so. `with_views`: one of large values may have `arrow.views`, which
        are not converted to the column's type.
        """
        self._prove()
        rows, wanted = rows_to_read(positions, self._deleted, self._total)
        calculates, done = len(columns.stored_fields) < len(columns.schema.fields), 0
        with_dictionaries = with_dictionaries and not self._fragment.overlays
        with_views = with_views and not self._fragment.overlays
        for parts, count in self._from_files(columns, rows, batch_rows, with_dictionaries, with_views):
            chosen = rows[done : done + count]
            selected = None if wanted is None else wanted.slice(done, count)
            done += count
            if self._fragment.overlays:
                parts = overlaid(parts, columns.stored_fields, self._fragment, _numbers(chosen), self._open_overlay)
            if selected is not None and (left := selected.true_count) < count:
                if not left:
                    continue
                parts = {i: keep(array, selected) for i, array in parts.items()}
                # Only calculated columns need the numbers of the rows.
                chosen = _numbers(chosen)[selected.to_numpy(zero_copy_only=False)] if calculates else range(left)
            arrays = []
            target = columns.target
            for i, (field, t) in enumerate(columns.shown):
                part = parts.get(field.id)
                if field.id in ROW_COLUMN_IDS:
                    arrays.append(self.calculated(field, t, chosen))
                elif part is not None and _is_as_asked(part, t, with_dictionaries, with_views):
                    arrays.append(part)
                    target = target.set(i, target.field(i).with_type(part.type))
                else:
                    arrays.append(projected(part, field, t, len(chosen)))
            yield pa.RecordBatch.from_arrays(arrays, schema=target)

    def _prove(self) -> None:
        """Open a file if the number of rows is not believed without it."""
        if self._total > _PROVEN_ROWS:
            self._open(self._fragment.files[0])

    def live(self, offsets: np.ndarray) -> np.ndarray:
        """The offsets, among these ascending ones (int64), of rows that exist and are not deleted."""
        offsets, deleted = offsets[offsets < self._total].astype(np.int64), self._deleted
        if not len(deleted):
            return offsets
        _check_deleted(deleted, self._total)
        there = deleted[np.minimum(np.searchsorted(deleted, offsets), len(deleted) - 1)] != offsets
        live: np.ndarray = offsets[there]
        return live

    def positions_of(self, offsets: np.ndarray) -> np.ndarray:
        """The positions of the rows at these ascending offsets, without those that are deleted or do not exist."""
        offsets, deleted = self.live(offsets), self._deleted
        return offsets - np.searchsorted(deleted, offsets) if len(deleted) else offsets

    def prune_pages(
        self, positions: range, field: Field, may_match: Callable[[pa.Array | Bounds], bool], only_bounds: bool = False
    ) -> spans.Spans | None:
        """The positions in pages of `field` that may have a match (see `DataFileReader.prune_pages`); None if pages have no statistics."""
        files = [f for f in self._fragment.files if field.id in f.fields]
        if len(files) != 1 or (self._fragment.overlays and has_overlays(self._fragment, field)):
            return None
        offsets = self._open(files[0]).prune_pages(field, files[0].columns.get(field.id), may_match, only_bounds)
        if offsets is None:
            return None
        live = spans.merged(offsets - np.searchsorted(self._deleted, offsets), 0)
        return spans.both(spans.from_rows(positions), live)

    def calculated(self, field: Field, t: pa.DataType, rows: Rows) -> pa.Array:
        """The values of a calculated column (see `row_columns`) for these rows of the files, of its type `t`."""
        if field.id == ROW_FILE:
            return pa.StructArray.from_arrays([self._of_row(f.id, rows) for f in field.children], fields=list(t))
        return self._row_column(field.id, rows)

    def _row_column(self, field_id: int, rows: Rows) -> pa.Array:
        fragment = self._fragment
        if isinstance(fragment, LogFragment) and not (fragment.has_addresses and field_id == ROW_ADDRESS):
            return pa.nulls(len(rows), pa.uint64())
        if field_id == FRAGMENT_ID:
            return pa.repeat(pa.scalar(fragment.id, pa.int32()), len(rows))
        if field_id == ROW_ADDRESS or (field_id == ROW_ID and not self._stable_row_ids):
            return pa.array(addresses_of(fragment.id, rows))
        if field_id == ROW_OFFSET:
            if self._first_row is None:
                raise UnsupportedFeatureError("the column _rowoffset is returned by scans and by take only; use _rowaddr")
            offsets = _numbers(rows)
            return pa.array((self._first_row + offsets - np.searchsorted(self._deleted, offsets)).astype(np.uint64))
        if field_id not in self._sequences:
            self._sequences[field_id] = self._sequence(field_id)
        sequence = self._sequences[field_id]
        return pa.array(np.ones(len(rows), dtype=np.uint64) if sequence is None else sequence.at(rows))

    def _of_row(self, field_id: int, rows: Rows) -> pa.Array:
        """The path or the name of the rows' data file, their places in it, their ids, or the versions that changed them last."""
        if field_id in _OF_DELTA:
            return self._signed(field_id, self._row_column(_OF_DELTA[field_id], rows))
        if field_id == FILE_ROW:
            return pa.array(_numbers(rows).astype(np.int64))
        store, path = self._locations.data_file(self._fragment.files[0])
        shown = {FILE_PATH: f"{store.uri}/{path}", FILE_NAME: path.rpartition("/")[2]}
        return pa.repeat(pa.scalar(shown[field_id]), len(rows))

    def _signed(self, field_id: int, numbers: pa.Array) -> pa.Array:
        """The values of a column with a name of Delta Lake's, whose type is signed. Ours are not."""
        try:
            return numbers.cast(pa.int64())
        except pa.ArrowInvalid as e:
            name, own = _NAMES_OF_DELTA[field_id]
            what = f"a value of {name} is from 2^63 on, which its type bigint cannot have; read {own}"
            raise UnsupportedFeatureError(f"fragment {self._fragment.id}: {what}") from e

    def _sequence(self, field_id: int) -> RowIds | RowVersions | None:
        """The row ids or versions of the fragment; None if it has no versions, which means version 1."""
        if field_id == ROW_ID:
            return row_ids_of(self._fragment, self._locations)
        sequence = self._fragment.created_at if field_id == CREATED_AT else self._fragment.updated_at
        return None if sequence is None else parse_versions(load_sequence(sequence, self._locations), self._total)

    def _from_files(
        self, columns: Projection, rows: Rows, batch_rows: int, with_dictionaries: bool, with_views: bool
    ) -> Iterator[tuple[dict[int, pa.Array], int]]:
        """Batches of the top-level fields' arrays, by field id, and the number of rows; fields that are in no file are left out."""
        files, stored = self._fragment.files, self.stored(columns)
        if not stored.in_files:
            for start in range(0, len(rows), batch_rows):
                yield {}, min(batch_rows, len(rows) - start)
            return
        from lance_spark.layouts.levels.assemble import merge  # loads the decoders

        sources = [
            self._open(files[number]).read(fields, places, rows, batch_rows, with_dictionaries=with_dictionaries, with_views=with_views)
            for number, fields, places in stored.in_files
        ]
        for arrays in side_by_side(sources):
            parts: dict[int, list[pa.Array]] = {}
            for (_, fields, _), group in zip(stored.in_files, arrays):
                for field, array in zip(fields, group):
                    parts.setdefault(field.id, []).append(array)
            merged = {i: merge(stored.fields[i], group) for i, group in parts.items()}
            yield merged, len(arrays[0][0])

    def stored(self, columns: Projection) -> Stored:
        """What is read from the files."""
        files = self._fragment.files
        return columns.stored(files, lambda: (f for file in files for f in self._open(file).schema.walk()))

    @staticmethod
    def open_only_files(readers: Sequence[FragmentReader]) -> list[DataFileReader]:
        """Open the only data file of each of `readers`, which have the same locations, together. They are read now, so none is kept."""
        files = [reader._fragment.files[0] for reader in readers]
        if any(file.path not in reader._files for reader, file in zip(readers, files)):
            for reader, file, opened in zip(readers, files, _opened(files, readers[0]._locations)):
                reader._checked(file, opened)
        return [reader._files[file.path] for reader, file in zip(readers, files)]  # type: ignore[misc]

    def _open(self, file: DataFile) -> DataFileReader | HeldReader:
        if file.path not in self._files:
            self._checked(file, HeldReader(file) if isinstance(file, HeldFile) else _open(file, self._locations))
        return self._files[file.path]

    def _checked(self, file: DataFile, reader: DataFileReader | HeldReader) -> None:
        """Keep an open file that has the rows of the fragment."""
        if reader.num_rows != self._total:
            raise CorruptFileError(f"data file {file.path} has {reader.num_rows} rows, but the fragment has {self._total}")
        file.check_version(reader.version)
        self._files[file.path] = reader

    def _open_overlay(self, file: DataFile) -> DataFileReader:
        if file.path not in self._overlays:
            self._overlays[file.path] = _open(file, self._locations)
        return self._overlays[file.path]


def read_few(readers: Sequence[FragmentReader], rows: Sequence[np.ndarray], columns: Projection) -> dict[int, pa.Array] | None:
    """The arrays of the top-level fields, by field id, of a few rows, by their offsets, of fragments whose files have the same columns.

    Fields that are in no file are left out. None if the values are large.
    """
    for reader in readers:
        reader._prove()
    stored = readers[0].stored(columns)
    parts: dict[int, list[pa.Array]] = {}
    for number, fields, places in stored.in_files:
        files = [reader._open(reader._fragment.files[number]) for reader in readers]
        arrays = data_file.read_few(files, fields, places, rows)  # type: ignore[arg-type]  # none is held in memory
        if arrays is None:
            return None
        for field, array in zip(fields, arrays):
            parts.setdefault(field.id, []).append(array)
    if not parts:
        return {}
    from lance_spark.layouts.levels.assemble import merge  # loads the decoders

    return {i: merge(stored.fields[i], group) for i, group in parts.items()}


def batch_of(readers: Sequence[FragmentReader], rows: Sequence[Rows], columns: Projection, parts: Mapping[int, pa.Array]) -> pa.RecordBatch:
    """The batch of these rows, by their offsets, of fragments: `parts` are the fields that are in their files, by field id."""
    arrays, count = [], sum(map(len, rows))
    for field, t in columns.shown:
        if field.id in ROW_COLUMN_IDS:
            arrays.append(joined([reader.calculated(field, t, own) for reader, own in zip(readers, rows)]))
        else:
            arrays.append(projected(parts.get(field.id), field, t, count))
    return pa.RecordBatch.from_arrays(arrays, schema=columns.target)


def rows_to_read(positions: Rows, deleted: np.ndarray, total: int) -> tuple[Rows, pa.BooleanArray | None]:
    """The offsets to read for the rows at `positions`, and which of these to keep afterwards (None: all).

    If at least half of the rows between the first and the last are wanted, reading all of them and dropping the rest costs less
    than picking each of them in every column.
    """
    live = total - len(deleted)
    _check_deleted(deleted, total)
    if len(positions) and not 0 <= positions[0] <= positions[-1] < live:
        raise CorruptFileError(f"rows {positions[0]} to {positions[-1]} are requested, but only {live} rows are not deleted")
    if not len(positions) or (isinstance(positions, range) and not len(deleted)):
        return positions, None
    distance = positions[-1] - positions[0]
    if not len(deleted) and not len(positions) <= distance < 2 * len(positions):
        is_run = distance < len(positions)
        return range(int(positions[0]), int(positions[-1]) + 1) if is_run else positions, None
    # For each deleted row, the number of rows before it that are not deleted.
    before = deleted.astype(np.int64) - np.arange(len(deleted))
    first, last = (int(p + np.searchsorted(before, p, side="right")) for p in (positions[0], positions[-1]))
    span = range(first, last + 1)
    among = deleted[slice(*np.searchsorted(deleted, [first, last]))]
    if isinstance(positions, range) and len(span) <= 2 * len(positions):
        return span, _mask(len(span), among - first, False) if len(among) else None
    offsets = _numbers(positions)
    if len(deleted):
        offsets = offsets + np.searchsorted(before, offsets, side="right")
    if len(span) > 2 * len(offsets):
        return offsets, None
    return span, _mask(len(span), offsets - first, True)


def _check_deleted(deleted: np.ndarray, total: int) -> None:
    if len(deleted) and deleted[-1] >= total:
        raise CorruptFileError(f"row {deleted[-1]} is deleted, but the fragment has {total} rows")


def _mask(count: int, places: np.ndarray, value: bool) -> pa.BooleanArray:
    """`value` at these places, and otherwise the opposite."""
    mask = np.full(count, not value)
    mask[places] = value
    bits = np.packbits(mask, bitorder="little")
    # For `pa.array`, pyarrow would import pandas, which takes half a second.
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bits)])


def _is_as_asked(array: pa.Array, t: pa.DataType, with_dictionaries: bool, with_views: bool) -> bool:
    """Whether values of type `t` are in a form that was asked for."""
    return (with_views and are_views(array)) or (with_dictionaries and _is_dictionary_of(array, t))


def _is_dictionary_of(array: pa.Array, t: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(array.type) and array.type.value_type.equals(t))


def _numbers(rows: Rows) -> np.ndarray:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def _open(file: DataFile, locations: Locations) -> DataFileReader:
    store, path = locations.data_file(file)
    new: list[DataFileReader] = []

    def opened() -> DataFileReader:
        new.extend(_opened([file], locations))
        return new[0].again()

    known = locations.kept.get(("file", store.uri, path), opened, lambda reader: reader.nbytes)
    return new[0] if new else known.again()


def _opened(files: Sequence[DataFile], locations: Locations) -> list[DataFileReader]:
    """Open data files, those of one store together."""
    found: dict[int, DataFileReader] = {}
    stores: dict[str, tuple[Store, list[int], list[tuple[str, int | None]]]] = {}
    for i, file in enumerate(files):
        store, path = locations.data_file(file)
        _, numbers, wanted = stores.setdefault(store.uri, (store, [], []))
        numbers.append(i)
        # Writers of 0.1 files recorded the size before the file was complete.
        wanted.append((path, None if file.is_legacy else file.size))
    for store, numbers, wanted in stores.values():
        try:
            found.update(zip(numbers, open_data_files(store, wanted, locations.external_blobs, locations.verify_checksums)))
        except MissingFileError as e:
            raise CorruptFileError(f"the data file {e.filename} is missing") from e
    return [found[i] for i in range(len(files))]


def side_by_side(sources: Sequence[Iterator[list[pa.Array]]]) -> Iterator[list[list[pa.Array]]]:
    """Batches of several files, sliced so that they end at the same rows."""
    if len(sources) == 1:
        yield from ([arrays] for arrays in sources[0])
        return
    current: list[list[pa.Array]] = [[] for _ in sources]
    while True:
        for i, source in enumerate(sources):
            if not current[i] or not len(current[i][0]):
                current[i] = next(source, [])
        ended = [not arrays for arrays in current]
        if all(ended):
            return
        if any(ended):
            raise CorruptFileError("a data file of the fragment has fewer rows than another one")
        count = min(len(arrays[0]) for arrays in current)
        yield [[a.slice(0, count) for a in arrays] for arrays in current]
        current = [[a.slice(count) for a in arrays] for arrays in current]
