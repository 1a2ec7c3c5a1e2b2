"""The changes of a table between two versions, as rows: the columns of the last version, and those of `CHANGE_COLUMNS`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import keep_rows
from lance_spark.arrow.stream import ArrowStream
from lance_spark.errors import InvalidOptionError, SchemaMismatchError, VersionNotFoundError, check_type
from lance_spark.metadata.operations import Project, Restore
from lance_spark.metadata.row_columns import ROW_ADDRESS
from lance_spark.predicate import Predicate, evaluate, parse
from lance_spark.schema.blobs import BlobHandling
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.feed.columns import ColumnHistory, Read, may_be_null
from lance_spark.table.feed.differences import Differences, differences, differing, rows_of, unchanged
from lance_spark.table.feed.net import net_differences
from lance_spark.table.scan.indexed import with_tests
from lance_spark.table.scan.plan import BATCH_ROWS, ScanPlan, fields_with
from lance_spark.table.scan.rows_at import rows_in_order
from lance_spark.table.versions.history import operation_of
from lance_spark.table.versions.snapshot import Snapshot, in_use, list_versions, reopened, to_datetime

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
INSERT, UPDATE_PREIMAGE, UPDATE_POSTIMAGE, DELETE = "insert", "update_preimage", "update_postimage", "delete"

CHANGE_COLUMNS = (
    Field(CHANGE_TYPE, -20, "string", False),
    Field(COMMIT_VERSION, -21, "int64", False),
    Field(COMMIT_TIMESTAMP, -22, "timestamp:us:UTC", False),
)
"""What is added to the columns of the table; names and values are those of Delta Lake. Their ids are those of no field in a file."""


@dataclass(frozen=True)
class Changes(ArrowStream):
    """The changes of the versions after `begin`, up to `end`, from `Dataset.changes`. Rows are read on request.

    They have the columns of `snapshot`, which is the version `end` or a later one. With `net`, there is one change for each row: from what
    it was in the version `begin` to what it is in the version `end`. Without `updates`, an update is a delete and an insert.
    """

    snapshot: Snapshot
    begin: int
    end: int
    plan: ScanPlan
    predicate: Predicate | None = None
    net: bool = False
    updates: bool = True

    def __repr__(self) -> str:
        chosen = {"columns": self.plan.columns and list(self.plan.columns), "filter": self.predicate and self.predicate.text}
        words = [f"{name}={value!r}" for name, value in {**chosen, "net": self.net or None}.items() if value is not None]
        return f"Changes({', '.join([repr(self.snapshot.store.uri), f'begin={self.begin}, end={self.end}', *words])})"

    @cached_property
    def fields(self) -> Schema:
        """The columns of the result as fields of `snapshot`. They may be null, as rows of earlier versions may be."""
        own = self.plan.fields(self.snapshot)
        return Schema((*map(may_be_null, own.fields), *CHANGE_COLUMNS), own.metadata)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return self.fields.to_arrow()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, version by version: deleted rows, updated rows before and after the update, and inserted rows.

        Raises VersionNotFoundError if a version was removed, and UnsupportedFeatureError if a table without stable row ids does not tell
        which rows have changed.
        """
        for found in self._net() if self.net else self._commits():
            yield from self.rows(found)

    def _net(self) -> Iterator[Differences]:
        """The net changes, in the columns that the rows had in the version `begin` and have in the version `end`."""
        before = self._version(self.begin) if self.begin else None
        return net_differences(self._commits(), before, self._version(self.end), self._version, self._differing)

    def _commits(self) -> Iterator[Differences]:
        before = self._version(self.begin) if self.begin else None
        for version in range(self.begin + 1, self.end + 1):
            after = self._version(version)
            with in_use(after):
                found = self._with_columns(differences(before, after))
            yield found
            before = after

    def _with_columns(self, found: Differences) -> Differences:
        """The changes of a commit, and updates of the rows in which it has changed values only by dropping columns or bringing them back.

        New columns update no rows, and an overwrite leaves none as it was.
        """
        before, after = found.before, found.after
        if before is None or not isinstance(operation_of(after), Project | Restore):
            return found
        affected = self._history.came_or_went(before, after, tuple(map(may_be_null, self.to_read)))
        if not affected:
            return found
        old, new = unchanged(found)
        differ = self._differing_in(affected, before, old, after, new)
        known_old, known_new = found.updated
        updated = np.concatenate([known_old, old[differ]]), np.concatenate([known_new, new[differ]])
        return replace(found, updated=updated)

    def _version(self, version: int) -> Snapshot:
        if version == self.snapshot.version:
            return self.snapshot
        try:
            return reopened(self.snapshot, version)
        except VersionNotFoundError as e:
            there = set(list_versions(self.snapshot.store))
            first = next(v for v in range(self.snapshot.version, -1, -1) if v - 1 not in there)
            if version >= first:
                raise
            raise VersionNotFoundError(
                f"{self.snapshot}: the changes after version {self.begin} need version {version}, which does not exist; "
                f"ask for those after version {first} or later"
            ) from e

    def of_fragments(self, ids: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """All rows of fragments of the version `end`, as its inserts."""
        after = self._version(self.end)
        with in_use(after):
            found = rows_of(after, ids)
        return self.rows(Differences(None, after, inserted=found))

    def rows(self, found: Differences) -> Iterator[pa.RecordBatch]:
        """The changes of one commit."""
        with in_use(found.after):
            yield from self._rows(found)

    def _rows(self, found: Differences) -> Iterator[pa.RecordBatch]:
        commit = found.changed_by
        before_label, after_label = (UPDATE_PREIMAGE, UPDATE_POSTIMAGE) if self.updates else (DELETE, INSERT)
        for part in found.deleted:
            yield from self._labelled(DELETE, part.snapshot, part.read, commit)
        old, new = found.updated
        order = np.argsort(new)
        for start in range(0, len(order), BATCH_ROWS):
            rows = order[start : start + BATCH_ROWS]
            if found.before is not None:
                yield from self._labelled(before_label, found.before, _at(found.before, old[rows]), commit)
            yield from self._labelled(after_label, found.after, _at(found.after, new[rows]), commit)
        for part in found.inserted:
            yield from self._labelled(INSERT, part.snapshot, part.read, commit)

    def _labelled(self, label: str, snapshot: Snapshot, read: Read, commit: Snapshot) -> Iterator[pa.RecordBatch]:
        """Rows of a version in the columns of the result, with the kind of change and the commit that made it."""
        fields = tuple(map(may_be_null, self.to_read))
        moment = to_datetime(commit.manifest.timestamp)
        for columns in self._history.read(snapshot, fields, read):
            told = zip((label, commit.version, moment), CHANGE_COLUMNS)
            columns += [pa.repeat(pa.scalar(value, f.type), len(columns[0])) for value, f in told]
            rows = pa.RecordBatch.from_arrays(columns, schema=Schema((*fields, *CHANGE_COLUMNS)).to_arrow())
            if self.predicate is not None:
                rows = keep_rows(rows, pc.fill_null(evaluate(with_tests(self.snapshot, self.predicate), rows), False))
            if rows.num_rows:
                yield pa.RecordBatch.from_arrays([rows.column(name) for name in self.schema.names], schema=self.schema)

    @cached_property
    def to_read(self) -> tuple[Field, ...]:
        """The fields of the result, and those that the filter needs, without `CHANGE_COLUMNS`."""
        given = self.plan.fields(self.snapshot).fields
        known, added = self.plan.known(self.snapshot), {f.id for f in CHANGE_COLUMNS}
        if self.predicate is not None:
            needed = Schema((*known.fields, *CHANGE_COLUMNS)).select(self.predicate.columns)
            given = fields_with(given, [f for f in needed.fields if f.id not in added])
        # One column tells how many rows there are.
        return given or tuple(f for f in known.fields if f.id == ROW_ADDRESS)

    @cached_property
    def _history(self) -> ColumnHistory:
        return ColumnHistory(self.snapshot, self._version, self.begin or 1)

    def _differing(self, before: Snapshot, old: np.ndarray, after: Snapshot, new: np.ndarray) -> np.ndarray:
        return self._differing_in(tuple(map(may_be_null, self.snapshot.manifest.schema.fields)), before, old, after, new)

    def _differing_in(self, fields: Sequence[Field], before: Snapshot, old: np.ndarray, after: Snapshot, new: np.ndarray) -> np.ndarray:
        """Which rows, at their addresses in two versions, have other values of the fields."""
        found = [np.empty(0, bool)]
        for start in range(0, len(old), BATCH_ROWS):
            sides = ((before, old[start : start + BATCH_ROWS]), (after, new[start : start + BATCH_ROWS]))
            values = [self._history.read(s, fields, _at(s, addresses)) for s, addresses in sides]
            found.extend(map(differing, *values))
        return np.concatenate(found)


def _at(snapshot: Snapshot, addresses: np.ndarray) -> Read:
    return lambda schema: iter([rows_in_order(snapshot, addresses, schema)])


def changes(
    snapshot: Snapshot, begin: int, columns: tuple[str, ...] | None, filter: str | None, net: bool, blob_handling: BlobHandling
) -> Changes:
    """The changes after the version `begin`, up to the snapshot.

    Raises InvalidOptionError for another `begin`, and SchemaMismatchError for columns that the table does not have or whose names are those
    of `CHANGE_COLUMNS`.
    """
    check_type("begin", begin, Integral, "the number of a version")
    check_type("net", net, bool, "True or False")
    if not 0 <= begin <= snapshot.version:
        raise InvalidOptionError(f"{snapshot}: begin must be at least 0 and at most {snapshot.version}, not {begin}")
    plan = ScanPlan(columns, blob_handling=blob_handling).checked(snapshot)
    if taken := [f.name for f in plan.fields(snapshot).fields if f.name in {c.name for c in CHANGE_COLUMNS}]:
        raise SchemaMismatchError(f"{snapshot}: the column {taken[0]!r} has the name of a column that the changes have; rename it")
    known = plan.known(snapshot)
    predicate = None if filter is None else parse(filter, Schema((*known.fields, *CHANGE_COLUMNS), known.metadata))
    return Changes(snapshot, int(begin), snapshot.version, plan, predicate, net)
