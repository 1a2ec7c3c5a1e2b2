"""The rows that differ in two branches, as a feed of changes: what leads from one to the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.arrow.stream import ArrowStream
from lance_spark.display.figures import Figures
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.branches.heads import Heads, name_of, seen_from
from lance_spark.table.branches.rows import RowDifferences, identity_of, row_differences
from lance_spark.table.feed.changes import CHANGE_TYPE, DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from lance_spark.table.feed.columns import may_be_null
from lance_spark.table.scan.plan import BATCH_ROWS
from lance_spark.table.scan.rows_at import rows_in_order
from lance_spark.table.versions.snapshot import Snapshot

_CHANGE = Field(CHANGE_TYPE, -20, "string", False)


@dataclass(frozen=True)
class DiffSummary(Figures):
    """How many rows two branches differ in, and the names of columns and indexes that only one of them has."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    columns_added: tuple[str, ...]
    columns_removed: tuple[str, ...]
    columns_changed: tuple[str, ...]
    config_changed: tuple[str, ...]
    indexes_added: tuple[str, ...]
    indexes_removed: tuple[str, ...]


@dataclass(frozen=True)
class BranchDiff(ArrowStream):
    """The changes that lead from `before` to `after`, as rows with the columns of `after` and `_change_type`.

    Rows are read on request; fragments that both share are not read. Values of `_change_type` are those of a
    change feed: "insert", "update_preimage", "update_postimage" and "delete".
    """

    before: Snapshot
    after: Snapshot

    def __repr__(self) -> str:
        return f"BranchDiff({self.after.root.uri!r}, {name_of(self.before)!r}, {name_of(self.after)!r})"

    @cached_property
    def fields(self) -> Schema:
        """The columns of the result. They may be null, as rows of the other branch may be."""
        own = self.after.manifest.schema
        return Schema((*map(may_be_null, own.fields), _CHANGE), own.metadata)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return self.fields.to_arrow()

    def summary(self) -> DiffSummary:
        """The numbers of rows, and what differs in columns, config and indexes."""
        rows, old, new = self._rows, self.before.manifest, self.after.manifest
        before, after = ({f.name: f for f in manifest.schema.fields} for manifest in (old, new))
        was, is_now = ({index.name for index in manifest.indexes} for manifest in (old, new))
        configs = [Counter(dict(manifest.config).items()) for manifest in (old, new)]
        differing = (configs[0] - configs[1]) + (configs[1] - configs[0])
        both = before.keys() & after.keys()
        return DiffSummary(
            len(rows.inserted),
            len(rows.updated_after),
            len(rows.deleted),
            tuple(name for name in after if name not in before),
            tuple(name for name in before if name not in after),
            tuple(name for name in after if name in both and _kind(before[name]) != _kind(after[name])),
            tuple(sorted({key for key, _ in differing})),
            tuple(sorted(is_now - was)),
            tuple(sorted(was - is_now)),
        )

    @cached_property
    def _rows(self) -> RowDifferences:
        identity = identity_of(Heads(self.after, self.before))
        return row_differences(seen_from(self.before, self.after), self.after, identity)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = self._rows
        for some in _slices(len(rows.deleted)):
            yield self._labelled(DELETE, rows.before, rows.deleted[some])
        for some in _slices(len(rows.updated_after)):
            yield self._labelled(UPDATE_PREIMAGE, rows.before, rows.updated_before[some])
            yield self._labelled(UPDATE_POSTIMAGE, rows.after, rows.updated_after[some])
        for some in _slices(len(rows.inserted)):
            yield self._labelled(INSERT, rows.after, rows.inserted[some])

    def _labelled(self, label: str, snapshot: Snapshot, addresses: np.ndarray) -> pa.RecordBatch:
        known = {f.name: f for f in snapshot.manifest.schema.fields}
        wanted = [f for f in self.fields.fields[:-1] if f.name in known and _kind(known[f.name]) == _kind(f)]
        found = rows_in_order(snapshot, addresses, snapshot.manifest.schema.select([quoted([f.name]) for f in wanted]))
        there = dict(zip([f.name for f in wanted], found.columns, strict=True))
        columns = [there[f.name] if f.name in there else pa.nulls(len(addresses), f.type) for f in self.fields.fields[:-1]]
        columns.append(pa.repeat(pa.scalar(label, pa.string()), len(addresses)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _kind(field: Field) -> tuple[object, ...]:
    return (field.logical_type, *(_kind(child) for child in field.children))


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, start + BATCH_ROWS) for start in range(0, count, BATCH_ROWS))
