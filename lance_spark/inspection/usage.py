"""What inspecting a version finds: plain values, for the pictures, the text and the JSON of `lance-spark inspect`."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.inspection.overview import Overview


@dataclass(frozen=True)
class Area:
    """The files of one purpose: how many, and their bytes as far as they are known."""

    name: str
    files: int
    size: int


@dataclass(frozen=True)
class EncodingUse:
    """Pages of one column with the same encoding."""

    encoding: str
    pages: int
    size: int


@dataclass(frozen=True)
class ColumnUse:
    """The pages of one column in the data files that were read; bytes are `size`.

    `plain_size` is what its values would take one after the other, None where their width varies. `in_use` is False for the columns in
    data files that the version does not read: of dropped columns and of replaced values.
    """

    path: str
    type: str
    in_use: bool
    files: int
    pages: int
    rows: int
    size: int
    largest_page: int
    plain_size: int | None
    encodings: tuple[EncodingUse, ...]


@dataclass(frozen=True)
class Sample:
    """The data files whose metadata was read: `files_read` of `files`, with `size_read` of `size` bytes.

    Of the bytes that were read `metadata_size` are footers, schemas and metadata of columns, and `rest_size` belong to no page: the values
    of blobs, and padding.
    """

    files: int
    files_read: int
    size: int
    size_read: int
    metadata_size: int
    rest_size: int

    @property
    def scale(self) -> float:
        """By how much sizes in the files that were read are multiplied to estimate those in all files."""
        return self.size / self.size_read if self.size_read and self.files_read < self.files else 1.0


@dataclass(frozen=True)
class FragmentUse:
    """A fragment; `rows` and `deleted` are None where the manifest does not say, `deletion_file` is its kind ("bitmap", "arrow")."""

    id: int
    files: int
    size: int
    rows: int | None
    deleted: int | None
    deletion_file: str | None


@dataclass(frozen=True)
class FragmentGroup:
    """Neighbouring fragments together: their ids lie between `first` and `last`."""

    first: int
    last: int
    fragments: int
    size: int
    rows: int
    deleted: int


@dataclass(frozen=True)
class IndexUse:
    """An index with all its segments; `fragments` of the version's are covered by it, None where that is not recorded."""

    name: str
    kind: str
    columns: tuple[str, ...]
    segments: int
    files: int
    size: int
    fragments: int | None


@dataclass(frozen=True)
class Problem:
    """A file that could not be read."""

    path: str
    message: str


@dataclass(frozen=True)
class Inspection:
    """A version of a table from afar: where its bytes are.

    `columns` are by size, `largest_fragments` too, of which no more than `FRAGMENTS` are kept; `groups` are all fragments in order.
    """

    overview: Overview
    areas: tuple[Area, ...]
    sample: Sample
    columns: tuple[ColumnUse, ...]
    groups: tuple[FragmentGroup, ...]
    largest_fragments: tuple[FragmentUse, ...]
    indexes: tuple[IndexUse, ...]
    problems: tuple[Problem, ...]

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(area.size for area in self.areas)
