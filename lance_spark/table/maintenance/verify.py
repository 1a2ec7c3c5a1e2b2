"""Verification of a version: each of its files exists, matches the manifest and can be decoded. Also finds orphaned files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lance_spark.display.listing import SHOWN, left_out
from lance_spark.display.table import Table, escape
from lance_spark.display.words import counted
from lance_spark.errors import CorruptFileError, LanceError, UnsupportedFeatureError, one_line
from lance_spark.file.data_file import open_data_file
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.locations import DATA, Locations
from lance_spark.metadata.manifest import DataFile, ExternalFile, Fragment, IndexMetadata
from lance_spark.metadata.row_ids import load_sequence, parse_row_ids, parse_versions
from lance_spark.schema.schema import Schema, quoted
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of
from lance_spark.table.build.reuse_history import reuse_history
from lance_spark.table.maintenance.cleanup import CleanupPolicy, cleanup_old_versions
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.versions.clones import unheld
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.indexed_columns import missing_column
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.versions.write_ahead_log import unread_shards

Kind = Literal["missing", "size", "rows", "nulls", "corrupt"]

Found = list[tuple[Kind, str]]
"""The problems of a file: their kinds and messages."""

_ALL_VERSIONS = 2**62
"""More versions than a table can have: only what no version refers to is looked for."""
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20
"""What is read and checked at once, so that memory is bounded also for wide rows."""


@dataclass(frozen=True)
class Problem:
    """A problem of a file: it is missing, its size or row count differs from the manifest, or it cannot be decoded.

    Of the kind "nulls" are files with values in null structs, which our readers do not show, but others do.
    """

    path: str
    kind: Kind
    message: str


@dataclass(frozen=True)
class Report:
    """The report on one version. `orphans` are files that no version refers to, by path; they may belong to active writers.

    `unread` says that the table's write-ahead log has rows that are not read; "" if it has none. `unheld` are the tables whose files a
    clone reads and that have no tag for it: their cleanups may remove these files.
    """

    uri: str
    version: int
    files: int
    problems: tuple[Problem, ...]
    orphans: tuple[str, ...]
    unread: str = ""
    unheld: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if there are no problems; orphans are harmless."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{p.kind}: {p.path}: {p.message}" for p in self.problems]
        lines += [f"orphan: {path}" for path in self.orphans]
        lines += [f"unread: {self.unread}"] if self.unread else []
        lines += [f"unheld: {notice}" for notice in self._notices()]
        return "\n".join([self._summary(), *map(one_line, lines)])

    def _notices(self) -> list[str]:
        what = (
            "has no tag for this clone: a cleanup of it may remove files that this one reads; tag the version there, or make a deep clone"
        )
        return [f"{uri} {what}" for uri in self.unheld]

    def _summary(self) -> str:
        found = f"{counted(self.files, 'file')}, {counted(len(self.problems), 'problem')}, {counted(len(self.orphans), 'orphan')}"
        return f"{one_line(self.uri)}, version {self.version}: {found}"

    def _repr_html_(self) -> str:
        mark = "✓" if self.ok else "✗"
        found = [(p.kind, p.path, p.message) for p in self.problems[:SHOWN]]
        problems = Table(("problem", "file", "message"), found, note=left_out(self.problems))
        orphans = Table(("orphans",), [(path,) for path in self.orphans[:SHOWN]], note=left_out(self.orphans))
        tables = "".join(t._repr_html_() for t in (problems, orphans) if t.rows)
        notices = "".join(f"<div>{escape(notice)}</div>" for notice in (self.unread, *self._notices()) if notice)
        return f"<div><div>{mark} <strong>{escape(self._summary())}</strong></div>{notices}{tables}</div>"


def verify(snapshot: Snapshot, decode: bool = True, track: Track = untracked, contents: Iterable[tuple[str, Found]] = ()) -> Report:
    """Verify all files of a version, including checksums if they have any. Without `decode`, only sizes and row counts.

    `contents` are more problems, by path: those of the contents of indexes (see `table.indexes.check`).
    """
    snapshot = replace(snapshot, verify_checksums=True)
    problems: list[Problem] = []
    files = 0
    for path, found in track(_checks(snapshot, decode), "verify files"):
        files += 1
        problems += [Problem(path, kind, message) for kind, message in found]
    problems += [Problem(path, kind, message) for path, found in contents for kind, message in found]
    policy = CleanupPolicy(retain_versions=_ALL_VERSIONS, delete_unverified=True, dry_run=True)
    orphans: tuple[str, ...] = ()
    try:
        orphans = cleanup_old_versions(open_snapshot(snapshot.store, allow_other_stores=snapshot.allow_other_stores), policy, track).files
    except (CorruptFileError, UnsupportedFeatureError) as e:
        # Finding orphans needs all manifests, tags and branches.
        problems.append(Problem("other versions and references", "corrupt", str(e)))
    unread = ""
    try:
        shards = unread_shards(snapshot)
        unread = str(shards) if shards else ""
    except LanceError as e:
        problems.append(Problem("write-ahead log", "corrupt", str(e)))
    return Report(snapshot.store.uri, snapshot.version, files, tuple(problems), orphans, unread, tuple(unheld(snapshot)))


def _checks(snapshot: Snapshot, decode: bool) -> Iterator[tuple[str, Found]]:
    """Every file of the version, with its problems."""
    manifest, locations = snapshot.manifest, replace(snapshot).locations  # nothing of its files is in memory
    for fragment in manifest.fragments:
        for file in fragment.files:
            yield f"{DATA}/{file.path}", _at_base(snapshot, file.base_id, _data_file(snapshot, fragment, file, decode))
        if fragment.deletion is not None:
            found = _deletions(fragment, locations)
            yield fragment.deletion.path(fragment.id), _at_base(snapshot, fragment.deletion.base_id, found)
        yield from _sequences(fragment, locations)
    for index in manifest.indexes:
        if (reason := missing_column(snapshot, index)) is not None:
            yield index.name, [("corrupt", reason)]
        try:
            store, folder = locations.index_folder(index)
            covered = fragments_of(index)
        except LanceError as e:
            yield index.name, [("corrupt", str(e))]
            continue
        if not index.files and index.name not in SYSTEM_INDEXES and covered and not store.walk(folder):
            # Old writers did not list the files. An index without rows has none.
            yield folder, _at_base(snapshot, index.base_id, [("missing", f"not found in {store.uri}")])
        if index.details_file is not None:
            yield index.details_file.path, _at_base(snapshot, index.base_id, _details(index))
        for listed in index.files:
            path = f"{folder}/{listed.path}"
            yield path, _at_base(snapshot, index.base_id, check_size(store, path, listed.size))
    if manifest.transaction is None and manifest.transaction_file:
        path = f"{TRANSACTIONS}/{manifest.transaction_file}"
        yield path, check_size(snapshot.store, path, None)


def _at_base(snapshot: Snapshot, base_id: int | None, found: Found) -> Found:
    """The problems of a file at a base path: a missing one is to be looked for in another table."""
    base = next((base for base in snapshot.manifest.base_paths if base.id == base_id), None)
    if base is None:
        return found
    of = f"it is a file of {shown(base.path)}, which this table reads"
    return [(kind, f"{message}; {of}" if kind == "missing" else message) for kind, message in found]


def _details(index: IndexMetadata) -> Found:
    """The problems of the file with the details of the fragment reuse index."""
    assert index.details_file is not None
    where = index.details_file
    if missing := check_size(where.store, where.path, None):
        return missing
    return [] if reuse_history((index,)) is not None else [("corrupt", "it is no list of the versions that moved rows")]


def check_size(store: Store, path: str, expected: int | None) -> Found:
    """The problems of a file that `expected` bytes are recorded for (None: unknown)."""
    try:
        size = store.size(path)
    except FileNotFoundError:
        return [("missing", f"not found in {store.uri}")]
    except LanceError as e:
        return [("corrupt", str(e))]
    return [("size", f"it has {size} bytes, expected {expected} as in the manifest")] if expected and size != expected else []


def _data_file(snapshot: Snapshot, fragment: Fragment, file: DataFile, decode: bool) -> Found:
    # Loads the compiled kernels, which the driver does not need.
    try:
        store, path = snapshot.locations.data_file(file)
        size = None if file.is_legacy else file.size
        try:
            reader = open_data_file(store, path, size, snapshot.locations.external_blobs)
        except (LanceError, FileNotFoundError):
            if wrong := check_size(store, path, size):
                return wrong
            raise
        file.check_version(reader.version)
        if fragment.physical_rows and reader.num_rows != fragment.physical_rows:
            return [("rows", f"it has {reader.num_rows} rows, expected {fragment.physical_rows} as in the manifest")]
        found = _values_in_nulls(reader.columns_with_values_in_nulls(), snapshot.manifest.schema, file)
        if decode:
            reader.check()
            columns = file.columns
            ids = set(columns) if file.column_indices else set(file.fields)
            fields = snapshot.manifest.schema.keep(lambda leaf: leaf.id in ids).fields
            for arrays in reader.read(fields, columns, range(reader.num_rows), _BATCH_ROWS, _BATCH_BYTES) if fields else ():
                for array in arrays:
                    array.validate(full=True)
    except (LanceError, ValueError) as e:
        return [("corrupt", str(e))]
    return found


def _values_in_nulls(columns: Sequence[int], schema: Schema, file: DataFile) -> Found:
    ids = {i for i, column in file.columns.items() if column in columns}
    paths = [path for path in schema.paths() if path[-1].id in ids]
    if not paths:
        return []
    names = ", ".join(repr(".".join(f.name for f in path)) for path in paths[:SHOWN])
    tops = {path[0].name: quoted([path[0].name]) for path in paths}
    wrong = f"null structs have values in {names}, as lance-spark 0.1.0 wrote them, which other readers show"
    return [("nulls", f"{wrong}; write these columns anew by update({tops}), which sets them to themselves")]


def _deletions(fragment: Fragment, locations: Locations) -> Found:
    try:
        read_deletions(fragment, locations)
    except FileNotFoundError as e:
        return [("missing", str(e))]
    except LanceError as e:
        return [("corrupt", str(e))]
    return []


def _sequences(fragment: Fragment, locations: Locations) -> Iterator[tuple[str, Found]]:
    """Problems of row ids and row versions, which are in the manifest or in separate files."""
    for sequence, parse in (
        (fragment.row_ids, parse_row_ids),
        (fragment.created_at, parse_versions),
        (fragment.updated_at, parse_versions),
    ):
        if sequence is None:
            continue
        path = sequence.path if isinstance(sequence, ExternalFile) else f"row ids of fragment {fragment.id}"
        try:
            parse(load_sequence(sequence, locations), fragment.physical_rows)
        except FileNotFoundError as e:
            yield path, [("missing", str(e))]
        except LanceError as e:
            yield path, [("corrupt", str(e))]
        else:
            if isinstance(sequence, ExternalFile):
                yield path, []
