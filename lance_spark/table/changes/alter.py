"""Changes of a table that touch no data file: its columns, its config, an older version restored. Each is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Required, TypeAlias, TypedDict

import pyarrow as pa

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.operations import Merge, Operation, Project, Restore, UpdateConfig, UpdateMap
from lance_spark.metadata.row_columns import check_no_dots, check_not_reserved
from lance_spark.metadata.transaction import Transaction
from lance_spark.predicate import parse
from lance_spark.schema.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, Field, from_arrow
from lance_spark.table.commit.commit import commit, with_own_ids
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.versions.named_files import check_whole
from lance_spark.table.versions.snapshot import Snapshot, list_versions
from lance_spark.table.write.conform import check_fits
from lance_spark.table.write.new_schema import next_field_id

NewColumns: TypeAlias = pa.Field | Sequence[pa.Field] | pa.Schema
"""Columns to add."""


class AlterColumn(TypedDict, total=False):
    """What to change of the column at `path` (dots lead into structs): its name, or whether it may be null. As pylance has it."""

    path: Required[str]
    name: str
    nullable: bool


NOTHING_NOTED: Mapping[str, str] = {}


def add_columns(snapshot: Snapshot, columns: NewColumns) -> Snapshot:
    """Add columns that are null in all rows. They must be nullable and have new names."""
    if isinstance(columns, Mapping):
        raise TypeError("add_columns takes fields or a schema; columns with values come from a job, not from expressions")
    snapshot = with_own_ids(snapshot)
    manifest = snapshot.manifest
    added = pa.schema([columns] if isinstance(columns, pa.Field) else columns)
    if manifest.data_format == "0.1":
        raise UnsupportedFeatureError(f"{snapshot}: tables of storage version 0.1 cannot have columns without values")
    if required := [f.name for f in added if not f.nullable]:
        raise SchemaMismatchError(f"columns without values must be nullable; these are not: {', '.join(required)}")
    new = from_arrow(added, next_field_id(manifest))
    check_fits(added, new)
    check_not_reserved(new)
    check_no_dots(new.names)
    schema = replace(manifest.schema, fields=(*manifest.schema.fields, *new.fields))
    check_names(schema.fields)
    return _commit(snapshot, Merge(tuple(manifest.fragments), schema, preserves_nullability=True))


def drop_columns(snapshot: Snapshot, columns: Iterable[str], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Remove columns; the data files keep them, if they have others too."""
    schema = snapshot.manifest.schema
    dropped = {schema.resolve(path)[-1].id for path in columns}
    fields = _edited(schema.fields, lambda f: None if f.id in dropped else f)
    if not fields:
        raise SchemaMismatchError("a table must keep at least one column")
    return _commit(snapshot, Project(replace(schema, fields=fields), preserves_nullability=True), noted)


def alter_columns(snapshot: Snapshot, alterations: Iterable[AlterColumn], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Rename columns, or change whether they may be null; a column that has nulls cannot be made to have none."""
    schema, tightened = snapshot.manifest.schema, False
    by_id: dict[int, AlterColumn] = {}
    for alteration in alterations:
        if unknown := alteration.keys() - AlterColumn.__annotations__.keys():
            raise UnsupportedFeatureError(f"altering the {', '.join(sorted(unknown))} of a column; there are: name, nullable")
        field = schema.resolve(alteration["path"])[-1]
        by_id[field.id] = alteration
        if alteration.get("nullable") is False and field.nullable:
            tightened = True
            _check_no_nulls(snapshot, alteration["path"])

    def altered(field: Field) -> Field:
        alteration = by_id.get(field.id)
        if alteration is None:
            return field
        return replace(field, name=alteration.get("name", field.name), nullable=alteration.get("nullable", field.nullable))

    changed = replace(schema, fields=_edited(schema.fields, altered))
    check_names(changed.fields)
    check_not_reserved(changed)
    known = {f.id: f.name for f in schema.fields}
    check_no_dots(f.name for f in changed.fields if f.name != known[f.id])
    return _commit(snapshot, Project(changed, preserves_nullability=None if tightened else True), noted)


def _check_no_nulls(snapshot: Snapshot, path: str) -> None:
    from lance_spark.table.scan.task import read_task  # loads the decoders, which opening a table does not need

    plan = ScanPlan(columns=("_rowaddr",), predicate=parse(f"{path} IS NULL", snapshot.manifest.schema), limit=1)
    if any(batch.num_rows for task in plan_tasks(snapshot, plan) for batch in read_task(task)):
        raise SchemaMismatchError(f"{snapshot}: column {path!r} has nulls, so it must be nullable")


def _edited(fields: Sequence[Field], edit: Callable[[Field], Field | None]) -> tuple[Field, ...]:
    """The fields as `edit` makes them, children first; without those that it gives None for, and structs that lose all their children."""
    done = []
    for field in fields:
        children = _edited(field.children, edit)
        edited = None if field.children and not children else edit(replace(field, children=children))
        if edited is not None:
            done.append(edited)
    return tuple(done)


def check_names(fields: Sequence[Field]) -> None:
    """Raise SchemaMismatchError if two columns, or two fields of one struct, have the same name."""
    names = [f.name for f in fields]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise SchemaMismatchError(f"there would be two columns called {', '.join(map(repr, twice))}")
    for field in fields:
        check_names(field.children)


def update_config(snapshot: Snapshot, values: Mapping[str, str | None], *, replace_all: bool = False) -> Snapshot:
    """Set keys of the table's config, or remove them (None); with `replace_all` nothing else remains."""
    return _commit(snapshot, UpdateConfig(UpdateMap(dict(values), replace_all)))


def set_primary_key(snapshot: Snapshot, columns: Sequence[str], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Declare the columns that tell rows apart, in this order. Nothing enforces it; a table's key is declared once.

    Raises SchemaMismatchError for columns that may be null, and ValueError for a table that has another key.
    """
    if not columns:
        raise ValueError("a primary key needs at least one column")
    fields = [snapshot.manifest.schema.resolve(path)[-1] for path in columns]
    if unfit := [f.name for f in fields if f.nullable or f.children]:
        raise SchemaMismatchError(f"columns of a primary key are plain and not nullable; these are not: {', '.join(unfit)}")
    values = {
        f.id: UpdateMap({PRIMARY_KEY.decode(): "true", PRIMARY_KEY_POSITION.decode(): str(position)})
        for position, f in enumerate(fields, start=1)
    }
    return _commit(snapshot, UpdateConfig(field_metadata_updates=values), noted)


def restore(snapshot: Snapshot, noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Make the snapshot's version the latest again, as a new one."""
    check_whole(snapshot)
    latest = max(list_versions(snapshot.store))
    return commit(snapshot.store, Transaction(latest, Restore(snapshot.version), properties=noted))


def _commit(snapshot: Snapshot, operation: Operation, noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    return commit(snapshot.store, Transaction(snapshot.version, operation, properties=noted), base=snapshot)
