"""The columns of one version as they were in earlier ones: renamed, cast to other types, added later, or replaced by an overwrite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.operations import Overwrite, Restore
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_COLUMN_IDS, ROW_COLUMNS
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.changes.alter_types import cast
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import Snapshot

Read = Callable[[Schema], Iterator[pa.RecordBatch]]
"""Reads rows of one version with the given fields."""

_ADDRESS = next(f for f in ROW_COLUMNS if f.id == ROW_ADDRESS)


class ColumnHistory:
    """The columns of `last` in the versions before it; `opened` opens one of them."""

    def __init__(self, last: Snapshot, opened: Callable[[int], Snapshot]) -> None:
        self._last, self._opened = last, opened
        self._before: dict[int, Mapping[int, Field]] = {last.version: {f.id: f for f in last.manifest.schema.fields}}

    def read(self, snapshot: Snapshot, fields: Sequence[Field], read: Read) -> Iterator[list[pa.Array]]:
        """Batches of the columns `fields` of the last version, for rows of an earlier one; null if they were added since.

        Raises SchemaMismatchError for a value that does not fit the column's new type, and UnsupportedFeatureError if fields of a struct or
        of a list have other types since.
        """
        before = [self._stored(field, snapshot) for field in fields]
        # The address costs nothing, and tells the number of rows where no column is read.
        stored = Schema((*(f for f in before if f is not None), _ADDRESS))
        for batch in read(stored):
            values = iter(batch.columns)
            yield [self._value(next(values), old, new) if old is not None else _nulls(batch, new) for old, new in zip(before, fields)]

    def _stored(self, field: Field, snapshot: Snapshot) -> Field | None:
        # With equal columns, none of the versions between them is opened.
        if field.id in ROW_COLUMN_IDS or snapshot.manifest.schema.fields == self._last.manifest.schema.fields:
            return field
        old = self._in(snapshot.version).get(field.id)
        return field if old is not None and _agrees(old, field) else old

    def _value(self, values: pa.Array, old: Field, new: Field) -> pa.Array:
        if old is new or old.type == new.type:
            return values
        if old.children or new.children:
            raise UnsupportedFeatureError(
                f"{self._last}: the type of column {new.name!r} was {old.type} in one of the versions, and is {new.type}; "
                "ask for the changes before and after that separately, or without this column"
            )
        return cast(values, new)

    def _in(self, version: int) -> Mapping[int, Field]:
        """The columns of the last version that an earlier one has, as its own fields, by id in the last version."""
        known = min(v for v in self._before if v >= version)
        for v in range(known - 1, version - 1, -1):
            later = self._before[v + 1]
            before = _matching(self._opened(v), self._opened(v + 1), self._opened)
            self._before[v] = {i: old for i, f in later.items() if (old := before.get(f.id)) is not None}
        return self._before[version]


def _matching(before: Snapshot, after: Snapshot, opened: Callable[[int], Snapshot]) -> dict[int, Field]:
    """The fields of a version that the next one has as well, by the id in the next one."""
    by_id = {f.id: f for f in before.manifest.schema.fields}
    by_name = {f.name: f for f in before.manifest.schema.fields}
    found = {f.id: f for f in after.manifest.schema.fields if by_id.get(f.id) == f}
    others = [f for f in after.manifest.schema.fields if f.id not in found]
    if not others:
        return found
    operation = transaction_of(after).operation
    # An overwrite gives out the ids again.
    again = isinstance(operation, Overwrite) or (isinstance(operation, Restore) and _overwritten(operation.version, before, opened))
    for field in others:
        old = by_name.get(field.name) if again else by_id.get(field.id, by_name.get(field.name))
        # pylance gives the id of a dropped column to a new one, and a Restore brings the dropped one back.
        if old is not None and (old.name == field.name or old.logical_type == field.logical_type):
            found[field.id] = old
    return found


def _overwritten(version: int, before: Snapshot, opened: Callable[[int], Snapshot]) -> bool:
    """True if a version after `version`, up to `before`, is an overwrite."""
    later = (opened(v) for v in range(version + 1, before.version + 1))
    return any(isinstance(transaction_of(snapshot).operation, Overwrite) for snapshot in later)


def _agrees(old: Field, new: Field) -> bool:
    """True if the files of the earlier version have the column under the ids of the later one."""
    if old.id != new.id or old.logical_type != new.logical_type:
        return False
    by_id, names = {c.id: c for c in old.children}, {c.name for c in old.children}
    return all(_agrees(by_id[c.id], c) if c.id in by_id else c.name not in names for c in new.children)


def _nulls(batch: pa.RecordBatch, field: Field) -> pa.Array:
    return pa.nulls(batch.num_rows, Schema((field,)).to_arrow().field(0).type)
