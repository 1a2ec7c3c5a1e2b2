"""The results of inspecting a version, for the charts, the text and the JSON of `lance-spark inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.inspection.overview import Overview
from lance_spark.table.versions.history import History
from lance_spark.table.versions.ref_files import BranchList, TagList


@dataclass(frozen=True)
class Area:
    """The files of one purpose: their number and bytes."""

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
    """The pages of one column in the data files that were read. `size` is in bytes.

    `plain_size` is the size of the values without any encoding, None if their width varies. `in_use` is False if the version does not read
    the column in these files, because it was dropped or its values were replaced.
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

    In these files, `metadata_size` bytes are footers, schemas and column metadata. `rest_size` bytes belong to no page: values of blobs
    and padding.
    """

    files: int
    files_read: int
    size: int
    size_read: int
    metadata_size: int
    rest_size: int

    @property
    def scale(self) -> float:
        """The factor that turns sizes in the files that were read into estimates for all files; 1 if all were read."""
        return self.size / self.size_read if self.size_read and self.files_read < self.files else 1.0


@dataclass(frozen=True)
class FragmentUse:
    """A fragment. `rows` (live rows) and `deleted` are None if not recorded; `deletion_file` is "bitmap" or "arrow"."""

    id: int
    files: int
    size: int
    rows: int | None
    deleted: int | None
    deletion_file: str | None


@dataclass(frozen=True)
class FragmentGroup:
    """Neighbouring fragments, added up. `first` and `last` are the smallest and the largest of their ids."""

    first: int
    last: int
    fragments: int
    size: int
    rows: int
    deleted: int


@dataclass(frozen=True)
class IndexUse:
    """An index with all its segments. `fragments` is the number of fragments that it covers, None if that is not recorded."""

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
    """The storage usage of a version.

    `advice` has a sentence for each thing to do, and `history` the newest versions. `columns` and `largest_fragments` are sorted by
    size, the largest first. All fragments are in `groups`, in the order of the manifest.
    """

    overview: Overview
    areas: tuple[Area, ...]
    sample: Sample
    columns: tuple[ColumnUse, ...]
    groups: tuple[FragmentGroup, ...]
    largest_fragments: tuple[FragmentUse, ...]
    indexes: tuple[IndexUse, ...]
    problems: tuple[Problem, ...]
    advice: tuple[str, ...]
    history: History
    tags: TagList
    branches: BranchList
    config: Mapping[str, str]

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(area.size for area in self.areas)
