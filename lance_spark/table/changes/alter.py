"""Changes that write no data files: to the columns, the config or the primary key, and Restore. Each is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Required, TypeAlias, TypedDict

import pyarrow as pa

from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError, check_texts, check_type
from lance_spark.metadata.operations import CONSTRAINT, Merge, Operation, Project, Restore, UpdateConfig, UpdateMap
from lance_spark.metadata.row_columns import check_names, check_new_names, check_not_reserved
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.primary_key import broken_rule, primary_key_position
from lance_spark.schema.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, Field, Schema
from lance_spark.table.changes.alter_types import Retyped, RetypePlan, retyped
from lance_spark.table.changes.column_order import Move, moved, reordered
from lance_spark.table.changes.new_columns import check_new
from lance_spark.table.changes.row_changes import RowChanges, RowPlan, change_rows
from lance_spark.table.changes.rule_checks import check_constraint, check_no_nulls
from lance_spark.table.commit.commit import commit, with_own_ids
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.commit.retry import retried
from lance_spark.table.scan.plan import names
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.versions.field_ids import next_field_id
from lance_spark.table.versions.named_files import check_whole
from lance_spark.table.versions.snapshot import Snapshot, of_same_table, reopened
from lance_spark.table.write.constraints import condition, constraints
from lance_spark.table.write.generated import generated_of
from lance_spark.table.write.nested_fields import New, extended, named, within, written_part
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.properties import check_properties

NewColumns: TypeAlias = pa.Field | Sequence[pa.Field] | pa.Schema
"""Columns to add."""


class AlterColumn(TypedDict, total=False):
    """A change of the column at `path` (dots for nested fields): a new name, type or nullability. The keys are those of pylance."""

    path: Required[str]
    name: str
    nullable: bool
    data_type: pa.DataType


_ALTERATIONS = {"name": (str, "text"), "nullable": (bool, "True or False"), "data_type": (pa.DataType, "a type of pyarrow")}

NOTHING_NOTED: Mapping[str, str] = {}


def add_columns(snapshot: Snapshot, columns: NewColumns) -> Snapshot:
    """Add columns that are null in all rows. They must be nullable and have new names."""
    if isinstance(columns, Mapping):
        raise TypeError("expected fields or a schema; to add columns with values, pass expressions or functions to LanceTable.addColumns")
    if isinstance(columns, str):
        raise TypeError(f'columns must be SQL text by name, such as {{"w": "v + 1"}}, or fields, not {columns!r}')
    fields = [columns] if isinstance(columns, pa.Field) else columns
    check_type("columns", fields, (pa.Schema, Iterable), "a field, a list of fields, a schema, or SQL text by name")
    for field in fields:
        check_type("a new column", field, pa.Field, "a field")
    added = pa.schema(fields)
    return _commit(with_own_ids(snapshot), lambda latest: _with_null_columns(latest, added))


def _with_null_columns(snapshot: Snapshot, added: pa.Schema) -> Merge:
    return _with_null_fields(snapshot, within(snapshot.manifest.schema.fields, added))


def add_null_columns(snapshot: Snapshot, columns: pa.Schema) -> Snapshot:
    """Add columns that are null in all rows. Their names may be paths of fields in structs, also in lists; see `nested_fields.named`."""
    return _commit(with_own_ids(snapshot), lambda latest: _with_null_fields(latest, named(latest.manifest.schema, columns)))


def _with_null_fields(snapshot: Snapshot, new: Sequence[New]) -> Merge:
    manifest = snapshot.manifest
    if manifest.data_format == "0.1":
        raise UnsupportedFeatureError(f"{snapshot}: tables of storage version 0.1 cannot have columns without values")
    if required := [column.name for _, column in new if not column.nullable]:
        raise SchemaMismatchError(f"columns without values must be nullable; these are not: {', '.join(required)}")
    schema, made = extended(manifest, new, next_field_id(snapshot))
    check_new(new, made)
    check_names(schema.fields)
    check_new_names(schema.fields, manifest.schema.fields)
    return Merge(tuple(manifest.fragments), schema, preserves_nullability=True)


def drop_columns(snapshot: Snapshot, columns: Iterable[str], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Remove columns. Data files with other columns are kept as they are."""
    paths = list(columns)

    def project(latest: Snapshot) -> Project:
        schema = latest.manifest.schema
        resolved = [schema.resolve_field(path) for path in paths]
        for path, fields in zip(paths, resolved):
            _check_not_of_map(path, fields)
        _check_unconstrained(latest, (fields[0].name for fields in resolved))
        dropped = {fields[-1].id for fields in resolved}
        kept = _edited(schema.fields, lambda f: None if f.id in dropped else f)
        if not kept:
            raise SchemaMismatchError("a table must keep at least one column")
        return Project(replace(schema, fields=kept), preserves_nullability=True)

    return _commit(snapshot, project, noted)


def move_columns(snapshot: Snapshot, moves: Sequence[Move], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Move columns to other places in the table or their structs. Data files are kept as they are."""
    return _commit(snapshot, lambda latest: _only_schema(moved(latest.manifest.schema, moves)), noted)


def reorder_columns(snapshot: Snapshot, order: Sequence[str], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Put the columns `order` first, in this order, each in the table or its struct; the others follow. Data files are kept."""
    wanted = names([order] if isinstance(order, str) else order)
    if not wanted:
        raise ValueError("the order of columns must name at least one column")
    return _commit(snapshot, lambda latest: _only_schema(reordered(latest.manifest.schema, wanted)), noted)


def _only_schema(schema: Schema) -> Project:
    return Project(schema, preserves_nullability=True)


def alter_columns(
    snapshot: Snapshot, alterations: Iterable[AlterColumn], options: WriteOptions = NO_OPTIONS, runner: Runner | None = None
) -> RowChanges:
    """Change names, types or nullability of columns in one commit. Tasks that write new values run on `runner`.

    Only columns with a new type are rewritten; see `alter_types` for the types. Raises SchemaMismatchError for a null in a column that
    is to become non-nullable (it names the row), and for a value that does not fit the new type.
    """
    wanted = list(alterations)
    for alteration in wanted:
        check_type("an alteration", alteration, Mapping, "a mapping such as {'path': 'a', 'name': 'b'}")
        check_type("path", alteration.get("path"), str, "the name of a column")
        for key, (kind, expected) in _ALTERATIONS.items():
            if key in alteration:
                check_type(key, alteration.get(key), kind, expected)
        if unknown := alteration.keys() - AlterColumn.__annotations__.keys():
            known = ", ".join(AlterColumn.__annotations__)
            raise UnsupportedFeatureError(f"cannot alter {', '.join(sorted(unknown))} of a column; expected keys: {known}")
        if alteration.keys() == {"path"}:
            raise ValueError(f"nothing to alter in column {alteration['path']!r}; give a name, nullable or data_type")
    if done := done_before(snapshot.store, options.noted):
        return RowChanges(done.version)
    if not _altered(snapshot, wanted)[1]:
        return RowChanges(_commit(snapshot, lambda latest: _altered(latest, wanted)[0], options.noted).version)

    def plan(latest: Snapshot) -> RowPlan:
        project, cast = _altered(latest, wanted)
        return RowPlan(RetypePlan(runner or Here(), latest, cast, project.schema, project.preserves_nullability).write)

    return change_rows(snapshot, options, plan)


def _check_not_of_map(path: str, fields: Sequence[Field]) -> None:
    if len(fields) > 2 and fields[-3].logical_type == "map":
        raise UnsupportedFeatureError(f"{path!r} is the key or the value of a map, which cannot be changed or dropped alone")


def _check_unconstrained(snapshot: Snapshot, columns: Iterable[str]) -> None:
    """Raise SchemaMismatchError for columns that a constraint or a computed column reads, which would not fit them any more."""
    names = set(columns)
    if found := constraints(snapshot.manifest.config, snapshot.manifest.schema).of(names):
        raise SchemaMismatchError(f"{snapshot}: the column is in the constraint {found[0]!r}; DROP CONSTRAINT {found[0]} first")
    for computed in generated_of(snapshot.manifest.schema, snapshot.root, has_rows=True).computed:
        if computed.read & names and computed.column.name not in names:
            name = computed.column.name
            raise SchemaMismatchError(f"{snapshot}: column {name!r} is GENERATED from the column; DROP COLUMN {name} first")


def add_constraint(snapshot: Snapshot, name: str, text: str, noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Declare a condition that no row may fail; see `table.write.constraints`.

    Raises SchemaMismatchError if a row fails it or it does not fit the columns, and InvalidOptionError if there is one of this name.
    """
    key = CONSTRAINT + name

    def update(latest: Snapshot) -> UpdateConfig:
        if key in latest.manifest.config:
            raise InvalidOptionError(f"{latest}: there is a constraint {name!r}, CHECK ({latest.manifest.config[key]}), already")
        condition(name, text, latest.manifest.schema)
        check_constraint(latest, name, text)
        return UpdateConfig(UpdateMap({key: text}))

    return _commit(snapshot, update, noted)


def drop_constraint(snapshot: Snapshot, name: str, if_exists: bool = False, noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Remove a constraint. Raises InvalidOptionError if there is none of this name, unless `if_exists`."""
    if CONSTRAINT + name in snapshot.manifest.config:
        return _commit(snapshot, lambda latest: UpdateConfig(UpdateMap({CONSTRAINT + name: None})), noted)
    if if_exists:
        return snapshot
    found = sorted(key.removeprefix(CONSTRAINT) for key in snapshot.manifest.config if key.startswith(CONSTRAINT))
    raise InvalidOptionError(f"{snapshot} has no constraint {name!r}; it has: {', '.join(found) or 'none'}")


def _altered(snapshot: Snapshot, alterations: Sequence[AlterColumn]) -> tuple[Project, list[Retyped]]:
    """The new schema, and what is written anew."""
    schema, tightened = snapshot.manifest.schema, False
    by_id: dict[int, Field] = {}
    origins: dict[int, int] = {}
    first_id = next_field_id(snapshot) if any("data_type" in alteration for alteration in alterations) else 0
    for alteration in alterations:
        path = schema.resolve_field(alteration["path"])
        _check_not_of_map(alteration["path"], path)
        if alteration.keys() & {"name", "data_type"}:
            _check_unconstrained(snapshot, [path[0].name])
        if "name" in alteration and len(path) > 1 and path[-2].logical_type != "struct" and snapshot.manifest.data_format == "0.1":
            raise UnsupportedFeatureError(f"{snapshot}: items of lists in files of storage version 0.1 cannot be renamed")
        old = by_id.get(path[-1].id, path[-1])
        if alteration.get("nullable") and primary_key_position(old) is not None:
            raise SchemaMismatchError(f"{snapshot}: column {old.name!r} is in the primary key, so it must not be nullable")
        if alteration.get("nullable") is False and old.nullable:
            tightened = True
            check_no_nulls(snapshot, path)
        new = replace(old, name=alteration.get("name", old.name), nullable=alteration.get("nullable", old.nullable))
        if (t := alteration.get("data_type")) is not None and t != old.type:
            new = retyped(snapshot, new, t, first_id)
            first_id = max(f.id for f in new.walk()) + 1
            origins[new.id] = path[-1].id
        by_id[path[-1].id] = new
    for f in (f for f in schema.walk() if f.id in origins.values()):
        if any(below.id in by_id for child in f.children for below in child.walk()):
            raise ValueError(f"{f.name!r} and a field in it are altered together; alter one of them first")

    def altered(field: Field) -> Field:
        # The children were altered before.
        new = by_id.get(field.id, field)
        return new if new.id != field.id else replace(field, name=new.name, nullable=new.nullable)

    changed = replace(schema, fields=_edited(schema.fields, altered))
    check_names(changed.fields)
    check_not_reserved(changed)
    check_new_names(changed.fields, schema.fields)
    parts = (written_part(f, set(origins.values()), snapshot.manifest.data_format) for f in schema.fields)
    cast = [Retyped(old, new, origins) for old in parts if old is not None for new in _edited((old,), altered)]
    return Project(changed, preserves_nullability=None if tightened else True), cast


def _edited(fields: Sequence[Field], edit: Callable[[Field], Field | None]) -> tuple[Field, ...]:
    """Apply `edit` to all fields, children first. Drops fields for which it returns None, and structs that lose all children."""
    done = []
    for field in fields:
        children = _edited(field.children, edit)
        edited = None if field.children and not children else edit(replace(field, children=children))
        if edited is not None:
            done.append(edited)
    return tuple(done)


def update_config(snapshot: Snapshot, values: Mapping[str, str | None], *, replace_all: bool = False) -> Snapshot:
    """Set keys of the table's config, or remove them (None). With `replace_all`, all other keys are removed.

    Raises InvalidOptionError for an unknown property that looks like one of ours (see `check_properties`), and for a new constraint:
    `add_constraint` finds out whether all rows fulfil it.
    """
    check_texts("values", values, '{"key": "text"}', null=True)
    for key, text in values.items():
        if key.startswith(CONSTRAINT) and text is not None and snapshot.manifest.config.get(key) != text:
            name = key.removeprefix(CONSTRAINT)
            raise InvalidOptionError(f"{key!r} is a constraint; write ALTER TABLE t ADD CONSTRAINT {name} CHECK ({text})")
    known = snapshot.manifest.config
    check_properties(key for key, text in values.items() if text is not None and known.get(key) != text)
    check_type("replace", replace_all, bool, "True or False")
    return _commit(snapshot, lambda latest: UpdateConfig(UpdateMap(dict(values), replace_all)))


def update_field_metadata(snapshot: Snapshot, values: Mapping[str, Mapping[str, str | None]]) -> Snapshot:
    """Set keys of the metadata of columns, by their paths, or remove them (None)."""

    def update(latest: Snapshot) -> UpdateConfig:
        schema = latest.manifest.schema
        return UpdateConfig(field_metadata_updates={schema.resolve(path)[-1].id: UpdateMap(dict(own)) for path, own in values.items()})

    return _commit(snapshot, update)


def set_primary_key(snapshot: Snapshot, columns: Sequence[str], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Declare the columns of the primary key, in this order. The key is not enforced, and it can be declared only once.

    Raises SchemaMismatchError for a column that cannot be in a key (see `schema.primary_key`), and ValueError for a key that is empty or
    names a column twice.
    """
    if not columns:
        raise ValueError("a primary key must have at least one column")
    if len(set(columns)) < len(columns):
        raise ValueError(f"the primary key names a column twice: {', '.join(columns)}")

    def update(latest: Snapshot) -> UpdateConfig:
        values = {}
        for position, name in enumerate(columns, start=1):
            path = latest.manifest.schema.resolve_field(name)
            if (rule := broken_rule(path)) is not None:
                raise SchemaMismatchError(f"{latest}: column {name!r} cannot be in the primary key: {rule}")
            values[path[-1].id] = UpdateMap({PRIMARY_KEY.decode(): "true", PRIMARY_KEY_POSITION.decode(): str(position)})
        return UpdateConfig(field_metadata_updates=values)

    return _commit(snapshot, update, noted)


def restore(snapshot: Snapshot, noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Commit the snapshot's version again as the latest one."""
    with of_same_table(snapshot):
        check_whole(snapshot)
    latest = reopened(snapshot)
    return commit(snapshot.store, Transaction(latest.version, Restore(snapshot.version), properties=noted), base=latest)


def _commit(snapshot: Snapshot, plan: Callable[[Snapshot], Operation], noted: Mapping[str, str] = NOTHING_NOTED) -> Snapshot:
    """Commit the operation that `plan` makes for a version: the snapshot's, or a later one after a conflict."""

    def planned(latest: Snapshot) -> Callable[[], Snapshot]:
        if done := done_before(latest.store, noted):
            return lambda: done
        transaction = Transaction(latest.version, plan(latest), properties=noted)
        return lambda: commit(latest.store, transaction, base=latest)

    return retried(snapshot, planned)
