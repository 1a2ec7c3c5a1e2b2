"""The contents of data files: the pages of each column, summed over the files that are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.errors import LanceError
from lance_spark.file.contents import StoredPage
from lance_spark.file.data_file import open_data_file
from lance_spark.inspection.overview import type_name
from lance_spark.inspection.usage import ColumnUse, EncodingUse, Problem
from lance_spark.metadata.fragment import DataFile
from lance_spark.metadata.locations import DATA
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.maintenance.progress import Track
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.file.reader import DataFileReader

_THREADS = 8
_MAX_PAGES = 200_000
"""No more files are read after this many pages, since tables may have ten thousand columns."""
_STRINGS = ("string", "binary", "large_string", "large_binary")


@dataclass(frozen=True)
class _Leaf:
    """A field that may own a column, with its path. `bits` is the width of its values if each row has one of fixed width, else None."""

    path: str
    type: str
    bits: int | None


@dataclass
class _Tally:
    """The pages of one column so far."""

    leaf: _Leaf
    in_use: bool
    files: int = 0
    pages: int = 0
    rows: int = 0
    largest: int = 0
    encodings: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)

    def add(self, pages: Sequence[StoredPage]) -> None:
        self.files += 1
        self.pages += len(pages)
        for page in pages:
            self.rows += page.num_rows
            self.largest = max(self.largest, page.size)
            self.encodings[page.encoding] += 1
            self.sizes[page.encoding] += page.size

    def use(self) -> ColumnUse:
        encodings = tuple(EncodingUse(name, self.encodings[name], size) for name, size in self.sizes.most_common())
        plain = None if self.leaf.bits is None else (self.rows * self.leaf.bits + 7) // 8
        return ColumnUse(
            self.leaf.path,
            self.leaf.type,
            self.in_use,
            self.files,
            self.pages,
            self.rows,
            self.sizes.total(),
            self.largest,
            plain,
            encodings,
        )


@dataclass
class Columns:
    """The contents of the data files that were read; see `usage.Sample` for the numbers."""

    files_read: int = 0
    size_read: int = 0
    metadata_size: int = 0
    rest_size: int = 0
    problems: list[Problem] = field(default_factory=list)
    _tallies: dict[tuple[str, bool], _Tally] = field(default_factory=dict)

    @property
    def uses(self) -> tuple[ColumnUse, ...]:
        """The columns, largest first."""
        uses = [tally.use() for tally in self._tallies.values()]
        return tuple(sorted(uses, key=lambda use: (-use.size, use.path)))

    @property
    def pages(self) -> int:
        """The number of pages found."""
        return sum(tally.pages for tally in self._tallies.values())

    def add(self, file: DataFile, reader: DataFileReader, current: Mapping[int, _Leaf]) -> None:
        """Add the contents of a file. Raises a LanceError, and adds nothing, if its metadata cannot be read."""
        contents = reader.contents()
        owners = _owners(file, reader, current)
        values = 0
        for number, pages in contents.pages.items():
            # In storage version 2.0, the column of a struct is empty.
            if pages and pages[0].encoding != "struct":
                leaf, in_use = owners.get(number) or (_Leaf(f"column {number}", "", None), False)
                self._tallies.setdefault((leaf.path, in_use), _Tally(leaf, in_use)).add(pages)
                values += sum(page.size for page in pages)
        self.files_read += 1
        self.size_read += reader.counts.bytes
        self.metadata_size += contents.metadata_size
        self.rest_size += max(0, reader.counts.bytes - values - contents.metadata_size)


def read_columns(snapshot: Snapshot, files: Sequence[DataFile], track: Track) -> Columns:
    """Read the metadata of `files`, or of fewer files if they have very many pages."""
    found, current = Columns(), _leaves(snapshot.manifest.schema)
    with ThreadPoolExecutor(_THREADS) as pool:
        for file, reader in track(_opened(snapshot, files, pool, found), "read metadata", len(files)):
            try:
                if isinstance(reader, LanceError):
                    raise reader
                found.add(file, reader, current)
            except LanceError as e:
                found.problems.append(Problem(f"{DATA}/{file.path}", str(e)))
    return found


def _opened(
    snapshot: Snapshot, files: Sequence[DataFile], pool: ThreadPoolExecutor, found: Columns
) -> Iterator[tuple[DataFile, DataFileReader | LanceError]]:
    """Files and their readers, some read ahead, until `found` has enough pages."""

    def opened(file: DataFile) -> DataFileReader | LanceError:
        try:
            store, path = snapshot.locations.data_file(file)
            return open_data_file(store, path, external=snapshot.locations.external_blobs)
        except LanceError as e:
            return e

    for start in range(0, len(files), _THREADS):
        if found.pages >= _MAX_PAGES:
            return
        some = files[start : start + _THREADS]
        yield from zip(some, pool.map(opened, some))


def _leaves(schema: Schema) -> dict[int, _Leaf]:
    """All fields by id."""
    return {f.id: leaf for f, leaf in _walk(schema.fields, "", True)}


def _walk(fields: Iterable[Field], prefix: str, one_each: bool) -> Iterator[tuple[Field, _Leaf]]:
    """Fields and all nested fields; `one_each` is True if each row has one value of the field."""
    for f in fields:
        path = prefix + f.name
        yield f, _Leaf(path, type_name(f), _bits(f) if one_each else None)
        yield from _walk(f.children, f"{path}.", one_each and f.logical_type == "struct")


def _bits(f: Field) -> int | None:
    try:
        return None if f.children or f.is_blob else bit_width(f.type)
    except (LanceError, pa.ArrowException):
        return None


def _owners(file: DataFile, reader: DataFileReader, current: Mapping[int, _Leaf]) -> dict[int, tuple[_Leaf, bool]]:
    """The field of each column of the file (legacy: by field id), and whether the version reads it from this file."""
    if not file.column_indices:
        return {i: (current.get(i, leaf), i in current and i in file.fields) for i, leaf in _leaves(reader.schema).items()}
    in_file = list(reader.schema.leaves() if reader.version >= (2, 1) else reader.schema.walk())
    own = _leaves(reader.schema)
    owners: dict[int, tuple[_Leaf, bool]] = {}
    if len(in_file) == reader.num_columns:
        owners = {number: (own[f.id], False) for number, f in enumerate(in_file)}
    owners |= {column: (current[i], True) for i, column in file.columns.items() if i in current}
    # Strings of files of early 2024 have their bytes in a second column.
    bytes_columns = {column + 1: owner for column, owner in owners.items() if owner[0].type in _STRINGS}
    return {**bytes_columns, **owners} if reader.version == (0, 3) else owners
