"""The columns of one version as they were in earlier ones: renamed, cast to other types, added later, or replaced by an overwrite.

Field ids do not tell which columns are the same: a cast makes a new field, an overwrite and other writers give out ids again, and a restore
brings dropped fields back. Therefore columns are followed from commit to commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.operations import Overwrite, Restore
from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_COLUMN_IDS, ROW_COLUMNS
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.changes.alter_types import cast, castable
from lance_spark.table.feed.differences import only
from lance_spark.table.versions.history import operation_of
from lance_spark.table.versions.snapshot import Snapshot, list_versions

Read = Callable[[Schema], Iterator[pa.RecordBatch]]
"""Reads rows of one version with the given fields."""

_ADDRESS = next(f for f in ROW_COLUMNS if f.id == ROW_ADDRESS)


def may_be_null(field: Field) -> Field:
    """The field as one that may be null, and so are fields in structs: in earlier versions, it may have been null, or not there."""
    if field.id in ROW_COLUMN_IDS:
        return field
    children = tuple(map(may_be_null, field.children)) if field.logical_type == "struct" else field.children
    return replace(field, nullable=True, children=children)


@dataclass(frozen=True, eq=False)
class _Column:
    """A column for as long as it keeps its values, whatever its name is. One of another type is another column, `cast_of` this one."""

    field: Field
    cast_of: _Column | None = None

    @property
    def casts(self) -> list[_Column]:
        """The column and those that it was cast of, from the first one on."""
        return [*(self.cast_of.casts if self.cast_of is not None else ()), self]


_Columns = Mapping[int, _Column]
"""The columns of a version by field id."""


class ColumnHistory:
    """The columns of `last` in the versions before it, from `first` on; `opened` opens one of them."""

    def __init__(self, last: Snapshot, opened: Callable[[int], Snapshot], first: int) -> None:
        self._last, self._opened, self._first = last, opened, first
        self._known: dict[int, _Columns] = {}
        self._cast_of: dict[int, int] = {}
        """The ids of the fields in columns that are casts of others, with the id that the first of those had."""

    def read(self, snapshot: Snapshot, fields: Sequence[Field], read: Read) -> Iterator[list[pa.Array]]:
        """Batches of the columns `fields` of the last version, for rows of an earlier one; null if that version lacks the column.

        The fields are those of the last version, as `may_be_null` makes them.

        Raises SchemaMismatchError for a value that does not fit the column's new type, and UnsupportedFeatureError if fields of a struct or
        of a list have other types since.
        """
        before = [self._stored(field, snapshot) for field in fields]
        # The address costs nothing, and tells the number of rows where no column is read.
        stored = Schema((*(f for f in before if f is not None), _ADDRESS))
        for batch in read(stored):
            values = iter(batch.columns)
            columns = []
            for old, new in zip(before, fields):
                if old is None:
                    columns.append(_nulls(batch, new))
                else:
                    columns.append(self._value(next(values), old, new, snapshot))
            yield columns

    def _stored(self, field: Field, snapshot: Snapshot) -> Field | None:
        # With equal columns, none of the versions between them is opened.
        if field.id in ROW_COLUMN_IDS or snapshot.manifest.schema.fields == self._last.manifest.schema.fields:
            return field
        column, there = self._columns(self._last.version)[field.id], self._columns(snapshot.version)
        own = snapshot.manifest.schema.fields
        old = next((f for f in own if there[f.id].casts[0] is column.casts[0]), None)
        if old is None:
            return None
        if there[old.id] is not column or not _agrees(old, field) or self._has_cast(old, field):
            return may_be_null(old)
        # Files go on having fields that were dropped: what the version lacks is null, whatever its files have.
        return next(iter(only((field,), {f.id for f in old.walk()})), None)

    def came_or_went(self, before: Snapshot, after: Snapshot, fields: Sequence[Field]) -> tuple[Field, ...]:
        """The fields, given as for `read`, that one of the versions lacks in whole or in part, and the other one has."""
        if before.manifest.schema.fields == after.manifest.schema.fields:
            return ()
        return tuple(f for f in fields if _paths(self._stored(f, before)) != _paths(self._stored(f, after)))

    def _value(self, values: pa.Array, old: Field, new: Field, snapshot: Snapshot) -> pa.Array:
        if old is new:
            return values
        was = self._columns(snapshot.version)[old.id]
        casts = self._columns(self._last.version)[new.id].casts
        if old.type == new.type and (was is casts[-1] or old.children):
            return values
        if was is casts[-1] and _agrees(old, new) and not self._has_cast(old, new):
            return _widened(values, old, new, _type(new))
        if old.children or new.children:
            raise UnsupportedFeatureError(
                f"{self._last}: the type of column {new.name!r} was {old.type} in one of the versions, and is {new.type}; "
                "ask for the changes before and after that separately, or without this column"
            )
        # Each cast may round, so one that leads back does not give back the values.
        shared = max(i for i, column in enumerate(casts) if column in was.casts)
        steps = casts[shared + 1 :] if casts[shared] is was else casts[shared:]
        for column in steps[:-1]:
            values = cast(values, replace(column.field, nullable=True))
        return cast(values, replace(new, nullable=True))

    def _has_cast(self, old: Field, new: Field) -> bool:
        """True if a field in the earlier column is a cast of one in the later column, or the other way round, whatever their names are."""
        before, after = ({f.id for f in column.walk()} for column in (old, new))
        firsts = ({self._cast_of.get(i, i) for i in ids} for ids in (before - after, after - before))
        return not next(firsts).isdisjoint(next(firsts))

    def _note_casts(self, before: Sequence[Field], after: Sequence[Field]) -> None:
        for field in after:
            origin = _origin(field, before, after)
            if origin is None:
                continue
            if origin.id != field.id:
                self._cast_of[field.id] = self._cast_of.get(origin.id, origin.id)
            self._note_casts(origin.children, field.children)

    def _columns(self, version: int) -> _Columns:
        if not self._known:
            self._follow()
        return self._known[version]

    def _follow(self) -> None:
        """Follow the columns through the commits up to the last version."""
        first, before = self._start(), None
        for version in range(first, self._last.version + 1):
            after = self._opened(version)
            if before is None:
                self._known[version] = {f.id: _Column(f) for f in after.manifest.schema.fields}
            else:
                self._known[version] = self._after(before, after)
            before = after

    def _start(self) -> int:
        """The version to begin with: `first`, or one before it that was restored since, if it and those in between are still there."""
        start, version = self._first, self._last.version
        while version > start:
            operation = operation_of(self._opened(version))
            if isinstance(operation, Restore) and operation.version < start:
                needed = range(operation.version, start)
                start = operation.version if set(needed) <= set(list_versions(self._last.store)) else start
            version -= 1
        return start

    def _after(self, before: Snapshot, after: Snapshot) -> _Columns:
        """The columns of a version that follows another one."""
        operation = operation_of(after)
        fields = after.manifest.schema.fields
        if isinstance(operation, Restore) and (restored := self._known.get(operation.version)) is not None:
            return {f.id: restored[f.id] for f in fields}
        known, earlier = self._known[before.version], before.manifest.schema.fields
        if isinstance(operation, Overwrite):
            by_name = {f.name: f for f in earlier}
            return {f.id: _written_anew(by_name.get(f.name), f, known) for f in fields}
        self._note_casts(earlier, fields)
        return {f.id: _followed(_origin(f, earlier, fields), f, known) for f in fields}


def _origin(field: Field, before: Sequence[Field], after: Sequence[Field]) -> Field | None:
    """The field of the version before that has become this one; None if it is new."""
    same = next((f for f in before if f.id == field.id), None)
    if same is not None and (same.name == field.name or same.logical_type == field.logical_type):
        return same
    kept = {f.id for f in after}
    gone = [f for f in before if f.id not in kept]
    named = next((f for f in gone if f.name == field.name), None)
    if named is not None or len(before) != len(after):
        return named
    # A column that is cast and renamed in one commit stays in its place.
    place = before[after.index(field)]
    return place if place in gone and castable(place.type, field.type) else None


def _followed(origin: Field | None, field: Field, known: _Columns) -> _Column:
    """The column that `origin` has become. Types of columns with fields may change in their fields."""
    if origin is None:
        return _Column(field)
    column = known[origin.id]
    return column if origin.type == field.type or (origin.children and field.children) else _Column(field, column)


def _written_anew(origin: Field | None, field: Field, known: _Columns) -> _Column:
    """The column that an overwrite has put in the place of `origin`. The ids of fields in it may be those of others before."""
    if origin is None:
        return _Column(field)
    column = known[origin.id]
    return column if origin.type == field.type and not field.children else _Column(field, column)


def _agrees(old: Field, new: Field) -> bool:
    """True if the files of the earlier version have the column under the ids of the later one."""
    if old.id != new.id or old.logical_type != new.logical_type:
        return False
    by_id, names = {c.id: c for c in old.children}, {c.name for c in old.children}
    for child in new.children:
        agrees = _agrees(by_id[child.id], child) if child.id in by_id else child.name not in names
        if not agrees:
            return False
    return True


def _paths(field: Field | None, above: str = "") -> set[str]:
    """The paths of a field and of those in it; none if there is no field."""
    if field is None:
        return set()
    path = f"{above}.{field.name}"
    return {path}.union(*(_paths(child, path) for child in field.children))


def _widened(values: pa.Array, old: Field, new: Field, to: pa.DataType) -> pa.Array:
    """A column `old` as `new`, of the type `to`, which has more fields in structs: they are null."""
    if values.type.equals(to):
        return values
    there = {child.id: child for child in old.children}
    if not pa.types.is_struct(to):
        return _with_items(values, old.children[0], new.children[0], to)
    children = []
    for child, shown in zip(new.children, to):
        before = there.get(child.id)
        if before is None:
            children.append(pa.nulls(len(values), shown.type))
        else:
            children.append(_widened(values.field(before.name), before, child, shown.type))
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(to), mask=mask)


def _with_items(values: pa.Array, old: Field, new: Field, to: pa.DataType) -> pa.Array:
    """A list or a map with items `old` as one with items `new`."""
    item_type = pa.struct([to.key_field, to.item_field]) if pa.types.is_map(to) else to.value_type
    items = _widened(values.values, old, new, item_type)
    buffers = values.buffers()[: 1 if pa.types.is_fixed_size_list(to) else 2]
    return pa.Array.from_buffers(to, len(values), buffers, values.null_count, values.offset, [items])


def _nulls(batch: pa.RecordBatch, field: Field) -> pa.Array:
    return pa.nulls(batch.num_rows, _type(field))


def _type(field: Field) -> pa.DataType:
    """The type of the column, as users see it."""
    return Schema((field,)).to_arrow().field(0).type
