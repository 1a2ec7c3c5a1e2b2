"""Reading one data file of any version: rows of selected columns as batches of Arrow arrays.

All fields of a batch are decoded side by side, so that their bytes are fetched together. Errors of decoding name the file and the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import size_up_to
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file import legacy
from lance_spark.file.batch_limits import BatchLimits
from lance_spark.file.checksums import ChecksumError, refuse_lost_trailer
from lance_spark.file.contents import Contents, read_contents
from lance_spark.file.footer import Footer, file_version, read_columns, read_descriptor, read_footer
from lance_spark.file.source import Source, open_sources
from lance_spark.file.whole_structs import pruned, unpruned_field
from lance_spark.layouts import read_column as layouts
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.page_layouts import has_values_in_nulls, parse_layout
from lance_spark.layouts.nodes.version_grammar import GRAMMARS
from lance_spark.layouts.page_bounds import read_bounds
from lance_spark.layouts.page_pruning import distinct_values
from lance_spark.layouts.read_alike import open_alike, path_of
from lance_spark.metadata.locations import ExternalBlobs, no_external_blobs
from lance_spark.predicate.bounds import Bounds
from lance_spark.reading import spans
from lance_spark.reading.naming import checked, naming
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Column, FieldReader, Page, Rows, Steps, run, side_by_side
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.store import CONNECTIONS, Store
from lance_spark.storage.waiting import waiting
from lance_spark.v0_1 import field as v0_1
from lance_spark.v0_1.statistics import page_bounds
from lance_spark.v2_0 import field as v2_0

_BATCH_BYTES = 8 * 1024 * 1024
"""Target size of a batch in bytes: larger batches do not fit in the processor's caches."""

_FEW_BYTES = 64 << 10
"""Batches of no more bytes are not measured exactly."""

_OPEN_BYTES = 8 << 10
"""The memory of an open file without the metadata of its columns."""

_CHUNK_BYTES = 1 << 10
"""The size of a small chunk of a page."""

_PAGES_NAMED = 5
"""Maximum number of pages in an error message."""

PageInMemory = tuple[Page, Sequence[Bytes]]
"""A page and its buffers."""

Open = Callable[[Field, Mapping[int, Column], Spans, int], FieldReader]

_OPEN_FIELD: dict[tuple[int, int], Open] = {
    (0, 3): v2_0.open_field,
    (2, 0): v2_0.open_field,
    (2, 1): layouts.open_field,
    (2, 2): layouts.open_field,
    (2, 3): layouts.open_field,
}


def read_data_file(
    store: Store, path: str, size: int | None = None, external: ExternalBlobs = no_external_blobs, verify_checksums: bool = True
) -> DataFileReader:
    """Read the metadata at the end of the data file at `path`; `size`, if given, is checked.

    `external` finds external blobs; `verify_checksums` compares what is read with the checksums of the file, if it has any.
    """
    return read_data_files(store, [(path, size)], external, verify_checksums)[0]


def read_data_files(
    store: Store, files: Sequence[tuple[str, int | None]], external: ExternalBlobs = no_external_blobs, verify_checksums: bool = True
) -> list[DataFileReader]:
    """`read_data_file` of several files, by path and size."""
    sources = open_sources(store, [path for path, _ in files], external, verify_checksums)
    return [_opened(source, size, verify_checksums) for source, (_, size) in zip(sources, files)]


def _opened(source: Source, size: int | None, verify_checksums: bool) -> DataFileReader:
    path, tail, actual = source.path, source.tail, source.size
    version = source.checked("footer", lambda: file_version(tail))
    if version in legacy.VERSIONS:
        # The size is not checked, because writers of about 0.30 recorded it before they wrote the metadata.
        file = source.run("footer", legacy.read_legacy_file(actual))
        return DataFileReader(source, version, file.pages.num_rows, file.schema, file)
    if size and size != actual:
        raise CorruptFileError(f"{path}: expected {size} bytes, found {actual}")
    if version not in _OPEN_FIELD:
        raise UnsupportedFeatureError(f"{path}: Lance file version {version[0]}.{version[1]} is not supported")
    footer = source.run("footer", read_footer(actual))
    if verify_checksums and source.checksums is None:
        source.checked("checksums", lambda: refuse_lost_trailer(footer, tail))
    descriptor = source.run("schema", read_descriptor(footer))
    return DataFileReader(source, version, descriptor.num_rows, descriptor.schema, footer)


def fetch_all(wanted: Sequence[tuple[DataFileReader, Sequence[ByteRange]]]) -> list[list[Bytes]]:
    """The bytes of ranges of several files. Remote ones are read concurrently."""
    sources = [(file._source, ranges) for file, ranges in wanted]
    if len(sources) < 2 or not any(source.store.is_remote for source, _ in sources):
        return [source.fetch(ranges) for source, ranges in sources]
    with waiting(), ThreadPoolExecutor(min(len(sources), CONNECTIONS)) as threads:
        return list(threads.map(lambda one: one[0].fetch(one[1]), sources))


class DataFileReader:
    """An open data file: its metadata and its rows.

    `schema` is the file's own; its names and types may be older than the table's, so fields are matched by id.
    """

    def __init__(self, source: Source, version: tuple[int, int], num_rows: int, schema: Schema, layout: Footer | legacy.LegacyFile) -> None:
        self.version = version
        self.num_rows = num_rows
        self.schema = schema
        self.counts = source.counts
        self._source = source
        self._layout = layout
        self._known: dict[int, Column] = {}
        self._counted: set[int] = set()

    def again(self) -> DataFileReader:
        """A reader of the same file that knows its metadata. What it reads is read again from the store."""
        other = DataFileReader(self._source.again(), self.version, self.num_rows, self.schema, self._layout)
        other._known = self._known
        return other

    @property
    def nbytes(self) -> int:
        """About the memory of the file's metadata, if that of all columns is read, and of what is kept of its pages."""
        if isinstance(self._layout, legacy.LegacyFile):
            return _OPEN_BYTES + self._layout.pages.entries.nbytes
        # A chunk of 8 bytes or more has a word of 4 bytes at most, but most chunks have kilobytes.
        return _OPEN_BYTES + 4 * int(np.diff(self._layout.column_metadata).sum()) + self._source.size // _CHUNK_BYTES * 4

    @property
    def is_legacy(self) -> bool:
        """Whether the file is of version 0.1 or 0.2."""
        return isinstance(self._layout, legacy.LegacyFile)

    @property
    def num_columns(self) -> int:
        """The number of columns; a legacy file has one for each field."""
        return self._layout.num_columns if isinstance(self._layout, Footer) else sum(1 for _ in self.schema.walk())

    def contents(self) -> Contents:
        """The pages of all columns, without their values."""
        return self._source.run("column metadata", read_contents(self._layout))

    def read(
        self,
        fields: Sequence[Field],
        columns: Mapping[int, int],
        rows: Rows,
        batch_rows: int,
        batch_bytes: int = _BATCH_BYTES,
        with_dictionaries: bool = False,
        with_views: bool = False,
    ) -> Iterator[list[pa.Array]]:
        """The given rows in order, as one array for each of `fields`, at most `batch_rows` at a time and about `batch_bytes`.

        `fields` are top-level fields, pruned to what is read from this file; `columns` maps field ids to columns (not needed for legacy
        files). `with_dictionaries`: values that a page stores as indices into a dictionary may be a dictionary array instead of one of
        the field's type. `with_views`: large values may be an array of `arrow.views` instead.
        """
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self.num_rows:
            raise IndexError(f"rows {rows[0]} to {rows[-1]} are out of bounds of a file of {self.num_rows} rows")
        if not len(rows):
            return
        wanted, selected = fields, spans.from_rows(rows)
        is_nested = any(f.children for f in wanted)
        if is_nested:
            in_file = {f.id: f for f in self.schema.walk()}
            fields = [unpruned_field(f, in_file) for f in wanted]
        metadata = self._columns(fields, columns)
        self._count_pages(metadata, selected)
        readers = self._open_fields(fields, metadata, rows, selected, with_dictionaries, with_views)
        count = self._first_batch(fields, metadata, batch_bytes)
        limits = BatchLimits(metadata.values(), selected, self.num_rows)
        done = 0
        while done < len(rows):
            stop = limits.stop(done, min(len(rows), done + min(count, batch_rows)))
            arrays = self._read_batch(fields, metadata, readers, done, stop)
            size = max(1, size_up_to(_FEW_BYTES, *arrays) // (stop - done))
            fitting = max(1, batch_bytes // size)
            for start in range(0, stop - done, fitting):
                parts = arrays if fitting >= stop - done else [a.slice(start, fitting) for a in arrays]
                yield [pruned(a, *both) for a, *both in zip(parts, fields, wanted)] if is_nested else parts
            # Later rows may be larger than those read so far, so batches grow step by step.
            count, done = min(fitting, 4 * (stop - done)), stop

    def _read_batch(
        self, fields: Sequence[Field], metadata: Mapping[int, Column], readers: Sequence[FieldReader], start: int, stop: int
    ) -> list[pa.Array]:
        steps = [naming(self._where(f), r.read(start, stop)) for f, r in zip(fields, readers)]
        try:
            arrays = run(side_by_side(steps), self._source.fetch)
        except ChecksumError as e:
            raise self._source.damaged(e, _pages_at(e, fields, metadata)) from e
        for f, array in zip(fields, arrays):
            if len(array) != stop - start:
                raise CorruptFileError(f"{self._where(f)}: expected {stop - start} values, found {len(array)}")
        return arrays

    def _where(self, field: Field) -> str:
        return f"{self._source.path}: column {field.name!r}"

    def _columns(self, fields: Sequence[Field], columns: Mapping[int, int]) -> Mapping[int, Column]:
        """The metadata of the columns of `fields`, by field id."""
        if isinstance(self._layout, legacy.LegacyFile):
            return {}
        if self.version == (0, 3):
            columns = {**columns, **v2_0.early_bytes_columns(fields, columns, self._layout.num_columns)}
        ids = (i for field in fields for f in field.walk() for i in (f.id, ~f.id))
        wanted = {i: columns[i] for i in ids if i in columns}
        if missing := sorted(set(wanted.values()) - self._known.keys()):
            self._known.update(zip(missing, self._source.run("column metadata", read_columns(self._layout, missing))))
        return {i: self._known[c] for i, c in wanted.items()}

    def metadata_of(self, fields: Sequence[Field], columns: Mapping[int, int]) -> Mapping[int, Column]:
        """The pages of the columns of `fields`, by field id; none if the file is of a version before 2.1, whose pages are others."""
        return self._columns(fields, columns) if self.version in GRAMMARS else {}

    def steps(self, field: Field, columns: Mapping[int, int], rows: np.ndarray) -> Steps[pa.Array]:
        """The given rows of a field, see `read`, in one array."""
        wanted = field
        if field.children:
            field = unpruned_field(field, {f.id: f for f in self.schema.walk()})
        metadata, selected = self._columns([field], columns), spans.from_rows(rows)
        self._count_pages(metadata, selected)
        (reader,) = self._open_fields([field], metadata, rows, selected)
        array = yield from naming(self._where(field), reader.read(0, len(rows)))
        if len(array) != len(rows):
            raise CorruptFileError(f"{self._where(field)}: expected {len(rows)} values, found {len(array)}")
        return pruned(array, field, wanted) if field.children else array

    def pages_in_memory(self, fields: Sequence[Field], columns: Mapping[int, int]) -> list[PageInMemory | None]:
        """The page of each of `fields` with its bytes, if all of the file is in memory; None for fields with more columns or pages.

        Only for files of version 2.1 or later. Whoever decodes a page counts it.
        """
        source = self._source
        if self.version not in GRAMMARS or len(source.tail) < source.size or not (source.is_checked or source.checksums is None):
            return [None] * len(fields)
        metadata = self._columns(fields, columns)
        found: list[PageInMemory | None] = []
        for field in fields:
            path = path_of(field)
            column = None if path is None else metadata.get(path[-1].id)
            if column is None or len(column.pages) != 1 or column.pages[0].num_rows != self.num_rows:
                found.append(None)
            else:
                found.append((column.pages[0], source.fetch(column.pages[0].buffers)))
        return found

    def count_pages(self, leaf: int, read: int = 1, pages: int = 1) -> None:
        """Count the pages of the column of a leaf, by its field id, and those of them that are read by others: see `pages_in_memory`."""
        self.counts.pages_read += read
        self.counts.pages += 0 if leaf in self._counted else pages
        self._counted.add(leaf)

    def encoded_pages(self, column: int) -> Iterator[EncodedPage]:
        """The encoded pages of a column, in order; only for files of version 2.1 or later, whose pages are self-contained."""
        assert isinstance(self._layout, Footer)
        (metadata,) = self._source.run("column metadata", read_columns(self._layout, [column]))
        if metadata.buffers:
            raise UnsupportedFeatureError(
                f"{self._source.path}: copying the pages of column {column} is not supported, since it has column buffers"
            )
        for page in metadata.pages:
            buffers = tuple(self._source.read(page.buffers, f"column {column}"))
            yield EncodedPage(page.encoding_type, page.encoding, buffers, page.num_rows, page.bounds)

    def columns_with_values_in_nulls(self) -> list[int]:
        """The columns with values in null structs, which some readers show (see `has_values_in_nulls`)."""
        if self.version < (2, 1) or not any(f.children for f in self.schema.fields):
            return []
        assert isinstance(self._layout, Footer)
        found = []
        for i, column in enumerate(self._source.run("column metadata", read_columns(self._layout, range(self.num_columns)))):
            pages = {(page.encoding_type, page.encoding) for page in column.pages}
            layouts = self._source.checked(f"column {i}", lambda pages=pages: [parse_layout(*page) for page in pages])  # type: ignore[misc]
            if any(has_values_in_nulls(layout.structure) for layout in layouts):
                found.append(i)
        return found

    def global_buffer(self, number: int) -> bytes:
        """A global buffer of a file of version 2.0 or later. Raises CorruptFileError if it does not exist."""
        known = len(self._layout.global_buffers) if isinstance(self._layout, Footer) else 0
        if not 0 <= number < known:
            raise CorruptFileError(f"{self._source.path}: global buffer {number} does not exist; the file has {known}")
        assert isinstance(self._layout, Footer)
        return bytes(self._source.read([ByteRange(*self._layout.global_buffers[number].tolist())], f"global buffer {number}")[0])

    @property
    def has_checksums(self) -> bool:
        """Whether the file has checksums, and is compared with them."""
        return self._source.checksums is not None

    def check(self) -> None:
        """Read the whole file and its blob files and compare them with their checksums, if there are any."""
        if self._source.checksums is not None and not self._source.is_checked:
            self._source.run("checksums", self._source.checksums.check_all())

    def prune_pages(
        self, field: Field, column: int | None, may_match: Callable[[pa.Array | Bounds], bool], only_bounds: bool = False
    ) -> spans.Spans | None:
        """The rows of pages of `field` whose distinct values or bounds pass `may_match`; also those of pages without either.

        None if no page has any. With `only_bounds`, only metadata is read of files of version 2.1 and later.
        """
        if field.children or field.is_blob:
            return None
        values: Sequence[pa.Array | Bounds | None]
        if isinstance(self._layout, legacy.LegacyFile):
            if self._layout.statistics is None:
                return None
            ends = self._layout.pages.bounds[1:]
            values = self._source.run(f"statistics of column {field.name!r}", page_bounds(field, self._layout.statistics))
        elif self.version < (2, 1) or column is None:
            return None
        else:
            metadata = self._columns([field], {field.id: column})[field.id]
            bounds = [read_bounds(page.bounds, field) for page in metadata.pages]
            left = [b is None or may_match(b) for b in bounds]
            # What the bounds leave may have a dictionary, which costs a read.
            rest = replace(metadata, pages=tuple(page for page, is_left in zip(metadata.pages, left) if is_left))
            known = [] if only_bounds else self._source.run(f"column {field.name!r}", distinct_values(field, rest))
            distinct = iter(known)
            values = [next(distinct) if is_left and not only_bounds else b for b, is_left in zip(bounds, left)]
            if all(v is None for v in values):
                return None
            ends = np.cumsum([page.num_rows for page in metadata.pages], dtype=np.int64)
        if not len(ends) or ends[-1] != self.num_rows:
            return None
        pages = spans.of(np.concatenate([[0], ends[:-1]]), ends)
        kept = np.array([v is None or may_match(v) for v in values], dtype=bool)
        return spans.merged(pages[kept], 0)

    def _count_pages(self, columns: Mapping[int, Column], selected: Spans) -> None:
        """Count the pages of the columns, and those with selected rows. Columns of items count as if items were rows."""
        starts, stops = selected[:, 0], selected[:, 1]
        for number, column in columns.items():
            if len(column.pages) == 1:
                self.counts.pages_read += 1
            else:
                bounds = column.bounds
                begun = starts.searchsorted(bounds[1:])
                ended = stops.searchsorted(bounds[:-1], side="right")
                self.counts.pages_read += int((begun > ended).sum())
            self.counts.pages += 0 if number in self._counted else len(column.pages)
            self._counted.add(number)

    def _first_batch(self, fields: Sequence[Field], columns: Mapping[int, Column], batch_bytes: int) -> int:
        """Rows of the first batch: as many as take `batch_bytes` in the file."""
        if any(f.is_blob for field in fields for f in field.walk()):
            return 1  # the bytes of blobs are not in their pages
        if self._source.size <= batch_bytes:
            return self.num_rows
        stored = sum(column.size for column in columns.values())
        return max(1, batch_bytes * self.num_rows // max(1, stored))

    def _open_fields(
        self,
        fields: Sequence[Field],
        columns: Mapping[int, Column],
        rows: Rows,
        selected: Spans,
        with_dictionaries: bool = False,
        with_views: bool = False,
    ) -> list[FieldReader]:
        layout = self._layout
        if isinstance(layout, legacy.LegacyFile):
            return [checked(self._where(f), lambda f=f: v0_1.open_field(f, layout.pages, rows)) for f in fields]  # type: ignore[misc]
        make = _OPEN_FIELD[self.version]
        if self.version in GRAMMARS:
            make = partial(layouts.open_field, with_dictionaries=with_dictionaries, with_views=with_views)

        def alone(field: Field) -> FieldReader:
            return checked(self._where(field), lambda: make(field, columns, selected, self.num_rows))

        alike = open_alike(fields, columns, rows, self.num_rows, alone) if self.version in GRAMMARS else {}
        return [alike[i] if i in alike else alone(f) for i, f in enumerate(fields)]


def _pages_at(damage: ChecksumError, fields: Sequence[Field], columns: Mapping[int, Column]) -> str:
    """Which pages of `columns`, the columns that are read, by field id, have bytes in a damaged block."""
    names = {i: f.name for field in fields for f in field.walk() for i in (f.id, ~f.id)}
    if damage.blob_id:
        return ""
    where = damage.where
    pages = []
    for i, column in columns.items():
        for number, page in enumerate(column.pages):
            if any(b.start < where.stop and where.start < b.stop for b in page.buffers):
                pages.append(f"page {number} of column {names.get(i, '')!r}")
    return ", ".join(pages[:_PAGES_NAMED])
