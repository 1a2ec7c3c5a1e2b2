"""Inspection of a version: the sizes of all files, and the columns, pages and encodings in the metadata of data files.

The work is bounded: if there are many data files, only those of some fragments are read. These are chosen at random with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError
from lance_spark.inspection.advice import advice
from lance_spark.inspection.columns import Columns, read_columns
from lance_spark.inspection.listing import FileSizes, areas, list_files
from lance_spark.inspection.overview import overview
from lance_spark.inspection.usage import FragmentGroup, FragmentUse, IndexUse, Inspection, Problem, Sample
from lance_spark.metadata.fragment import DataFile, IndexMetadata
from lance_spark.metadata.manifest import Manifest
from lance_spark.table.build.index_coverage import fragments_of
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.versions.history import history
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.tags_and_branches import Branches, Tags

MAX_FILES = 256
"""The default number of data files whose metadata is read."""
FRAGMENTS = 20
"""The number of fragments that are reported one by one."""
VERSIONS = 10
"""The number of newest versions that are listed."""
GROUPS = 100
"""The largest number of groups of neighbouring fragments."""


def inspect(snapshot: Snapshot, max_files: int = MAX_FILES, track: Track = untracked) -> Inspection:
    """Inspect a version. The metadata of at most `max_files` data files is read, or of one fragment if that has more.

    Data files that are missing or cannot be read are reported in `problems`.
    """
    manifest = snapshot.manifest
    problems: list[Problem] = []
    sizes = list_files(snapshot, track)
    found = read_columns(snapshot, _chosen(manifest, max_files), track)
    fragments = _fragments(manifest, sizes)
    by_purpose, indexes = areas(snapshot, sizes), _indexes(manifest, sizes, problems)
    return Inspection(
        overview(snapshot),
        by_purpose,
        _sample(manifest, sizes, found),
        found.uses,
        _groups(fragments),
        tuple(sorted(fragments, key=lambda f: (-f.size, f.id))[:FRAGMENTS]),
        indexes,
        (*found.problems, *problems),
        advice(snapshot, by_purpose, found.uses, indexes),
        history(snapshot.store, VERSIONS),
        Tags(snapshot).list(),
        Branches(snapshot).list(),
        manifest.config,
    )


def _chosen(manifest: Manifest, max_files: int) -> list[DataFile]:
    """The data files to read: those of whole fragments. A file that several fragments share is read once."""
    fragments = manifest.fragments
    order = range(len(fragments)) if len(fragments) <= max_files else np.random.default_rng(0).permutation(len(fragments)).tolist()
    chosen: dict[tuple[int | None, str], DataFile] = {}
    for number in order:
        files = {(f.base_id, f.path): f for f in fragments[number].files}
        if chosen and len(chosen | files) > max_files:
            break
        chosen |= files
    return list(chosen.values())


def _sample(manifest: Manifest, sizes: FileSizes, found: Columns) -> Sample:
    files = {(f.base_id, f.path): sizes.data_file(f) for fragment in manifest.fragments for f in fragment.files}
    return Sample(len(files), found.files_read, sum(files.values()), found.size_read, found.metadata_size, found.rest_size)


def _fragments(manifest: Manifest, sizes: FileSizes) -> list[FragmentUse]:
    uses = []
    for fragment, live in zip(manifest.fragments, manifest.lazy_fragments.live_rows.tolist()):
        deletion = fragment.deletion
        known = live >= 0
        uses.append(
            FragmentUse(
                fragment.id,
                len(fragment.files),
                sum(sizes.data_file(file) for file in fragment.files),
                live if known else None,
                fragment.physical_rows - live if known else None,
                None if deletion is None else "bitmap" if deletion.is_bitmap else "arrow",
            )
        )
    return uses


def _groups(fragments: Sequence[FragmentUse]) -> tuple[FragmentGroup, ...]:
    parts = min(len(fragments), GROUPS)
    bounds = [len(fragments) * i // parts for i in range(parts + 1)] if parts else []
    return tuple(_group(fragments[start:stop]) for start, stop in pairwise(bounds))


def _group(fragments: Sequence[FragmentUse]) -> FragmentGroup:
    return FragmentGroup(
        min(f.id for f in fragments),
        max(f.id for f in fragments),
        len(fragments),
        sum(f.size for f in fragments),
        sum(f.rows or 0 for f in fragments),
        sum(f.deleted or 0 for f in fragments),
    )


def _indexes(manifest: Manifest, sizes: FileSizes, problems: list[Problem]) -> tuple[IndexUse, ...]:
    segments: dict[str, list[IndexMetadata]] = {}
    for index in manifest.indexes:
        segments.setdefault(index.name, []).append(index)
    names = {f.id: f.name for f in manifest.schema.walk()}
    live = BitMap(manifest.lazy_fragments.ids.tolist())
    uses = []
    for name, parts in segments.items():
        stored = [size for segment in parts for size in sizes.index(segment)]
        columns = tuple(names.get(i, f"field {i}") for i in parts[0].fields)
        kind = parts[0].details_type.rpartition(".")[2].removesuffix("Details").removesuffix("Index")
        covered = _covered(name, parts, live, problems)
        uses.append(IndexUse(name, kind, columns, len(parts), len(stored), sum(stored), covered))
    return tuple(uses)


def _covered(name: str, segments: Sequence[IndexMetadata], live: BitMap, problems: list[Problem]) -> int | None:
    """The number of the fragments `live` that an index covers."""
    covered = BitMap()
    for segment in segments:
        try:
            fragments = fragments_of(segment)
        except CorruptFileError as e:
            problems.append(Problem(f"index {name}", str(e)))
            return None
        if fragments is None:
            return None
        covered |= live & fragments
    return len(covered)
