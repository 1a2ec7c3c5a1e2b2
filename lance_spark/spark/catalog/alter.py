"""ALTER TABLE of the SQL catalog. Changes of one kind in one statement are one commit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.types import CharType, DataType, StringType, StructField, StructType, VarcharType

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.declared_types import DECLARED
from lance_spark.schema.schema import quoted
from lance_spark.spark.catalog.definition import declared_columns
from lance_spark.spark.catalog.tables import Place, latest_at
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.columns.field_metadata import COMMENT, is_checked
from lance_spark.spark.columns.types import stored, to_spark
from lance_spark.spark.options.known import is_of_new_table, main_name
from lance_spark.spark.options.write import OF_EACH_WRITE
from lance_spark.table.changes import alter
from lance_spark.table.changes.add_columns import add_calculated_columns
from lance_spark.table.changes.column_order import Move
from lance_spark.table.compaction.clustered import CONFIG, Clustered
from lance_spark.table.compaction.curve import check_columns
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.write.defaults import CURRENT_DEFAULT, EXISTS_DEFAULT
from lance_spark.table.write.new_schema import column_of, with_properties
from lance_spark.table.write.options import NO_OPTIONS

Change = Mapping[str, Any]
"""A change by Spark: `change` is the name of the class of TableChange, the other keys are its fields."""
NO_SIZES: Mapping[str, int] = {}
"""The sizes of lists of a field without fixed-size lists."""
_MOVE = "UpdateColumnPosition"


def alter_table(catalog: Catalog, place: Place, changes: Sequence[Change]) -> None:
    """Apply the changes, in order. Raises UnsupportedFeatureError before the first one if there is no way to make one of them."""
    if any(c.get("key") == "location" for c in changes):
        raise UnsupportedFeatureError(
            "ALTER TABLE .. SET LOCATION is not supported: a lance table stays where its versions are. "
            "Give the table at another place a name of its own: CREATE TABLE .. USING lance LOCATION"
        )
    if unknown := [c["change"] for c in changes if c["change"] not in _STEPS]:
        raise UnsupportedFeatureError(f"ALTER TABLE: lance tables do not support {', '.join(unknown)}")
    _check_new_columns(changes)
    snapshot = latest_at(catalog, place)
    changes = _without_replacement(snapshot, changes)
    _check_properties(snapshot, changes)
    for step, group in groupby(changes, key=lambda c: _STEPS[c["change"]]):
        snapshot = step(snapshot, list(group))


def _without_replacement(snapshot: Snapshot, changes: Sequence[Change]) -> Sequence[Change]:
    """The changes that REPLACE COLUMNS means. For Spark it drops all columns and adds those of the statement; here, columns of the same
    name keep their values, and all get the order of the statement.

    Raises SchemaMismatchError for a name in another case.
    """
    own = {f.name: f for f in to_spark(snapshot.manifest.schema.to_arrow()).fields}
    added = [c for c in changes if c["change"] == "AddColumn" and len(c["path"]) == 1]
    dropped = [c for c in changes if c["change"] == "DeleteColumn" and len(c["path"]) == 1]
    if not added or len(changes) != len(added) + len(dropped) or {c["path"][0] for c in dropped} != own.keys():
        return changes
    names = [c["path"][0] for c in added]
    folded = {name.lower(): name for name in own}
    if alike := [name for name in names if name not in own and name.lower() in folded]:
        raise SchemaMismatchError(f"REPLACE COLUMNS: the table has {folded[alike[0].lower()]!r}, not {alike[0]!r}; use RENAME COLUMN")
    edits = [e for c in added if c["path"][0] in own for e in _differences(own[c["path"][0]], c)]
    new = [c for c in added if c["path"][0] not in own]
    order = [name for name in own if name in names] + [c["path"][0] for c in new]
    return [*edits, *(c for c in dropped if c["path"][0] not in names), *new, *(_places(names) if order != names else ())]


def _places(names: Sequence[str]) -> list[Change]:
    """The changes that put all columns in this order."""
    return [{"change": _MOVE, "path": [name], "after": after} for after, name in zip([None, *names[:-1]], names, strict=True)]


def _differences(old: StructField, change: Change) -> list[Change]:
    """The changes that make a column the one that `change` would add. REPLACE COLUMNS cannot say NOT NULL, so a column keeps it."""
    new, path = _field(change), change["path"]
    found: list[Change] = []
    if new.dataType != old.dataType:
        found.append({"change": "UpdateColumnType", "path": path, "type": json.dumps(new.dataType.jsonValue())})
    if new.metadata.get(COMMENT) != old.metadata.get(COMMENT):
        found.append({"change": "UpdateColumnComment", "path": path, "comment": new.metadata.get(COMMENT)})
    return found


def _check_new_columns(changes: Sequence[Change]) -> None:
    for change in changes:
        if change["change"] != "AddColumn":
            continue
        field = _field(change)
        if not field.nullable:
            raise SchemaMismatchError(f"ADD COLUMN: existing rows have no values, so {field.name!r} must be nullable; leave out NOT NULL")
        if CURRENT_DEFAULT in field.metadata and len(change["path"]) > 1:
            raise UnsupportedFeatureError("ADD COLUMN: a field in a struct cannot have a DEFAULT; add it without one, or call addColumns")


def _check_properties(snapshot: Snapshot, changes: Sequence[Change]) -> None:
    """Raise UnsupportedFeatureError for a property that only says how a new table is written, unless the table has it with this value.

    One for a column that the table lacks says how that is written when it is added.
    """
    for c in changes:
        if c["change"] == "SetProperty" and _is_of_new_column(snapshot, c["key"]):
            continue
        if c["change"] != "SetProperty" or not is_of_new_table(c["key"]) or main_name(c["key"]) in OF_EACH_WRITE:
            continue
        if snapshot.manifest.config.get(c["key"]) != c["value"]:
            what = f"{c['key']!r} says how a new table is written, so it would have no effect on this one"
            raise UnsupportedFeatureError(f"ALTER TABLE: {what}; give it in CREATE TABLE or CREATE OR REPLACE TABLE")


def _is_of_new_column(snapshot: Snapshot, key: str) -> bool:
    path = column_of(key)
    try:
        return path is not None and not snapshot.manifest.schema.resolve(path)
    except SchemaMismatchError:
        return True


def _add(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    fields = [_field(c) for c in changes]
    columns = with_properties(pa.schema([_arrow(f, c["path"]) for f, c in zip(fields, changes)]), snapshot.manifest)
    values = {f.name: value for f, c in zip(fields, changes) if len(c["path"]) == 1 and (value := _default(f)) is not None}
    if values:
        snapshot = reopened(snapshot, add_calculated_columns(snapshot, values, NO_OPTIONS, columns).version)
    else:
        snapshot = alter.add_null_columns(snapshot, columns)
    placed = [c for c in changes if "after" in c]
    return _move(snapshot, placed) if placed else snapshot


def _move(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """The places of columns: first, or after another one of the same struct."""
    return alter.move_columns(snapshot, [Move(quoted(c["path"]), c["after"]) for c in changes])


def _arrow(field: StructField, path: Sequence[str], sizes: Mapping[str, int] = NO_SIZES) -> pa.Field:
    """The field as it is stored at a path, which is the name of a field in a struct."""
    if len(path) == 1:
        return stored(StructType([field]), sizes).field(0)
    sizes = {f"c.{name}": size for name, size in sizes.items()}
    inside = stored(StructType([StructField("c", StructType([field]))]), sizes).field(0).type.field(0)
    return inside.with_name(quoted(path))


def _field(change: Change) -> StructField:
    return declared_columns(change["field"]).fields[0]


def _default(field: StructField) -> str | None:
    """The value of existing rows, as SQL of ours; None for null."""
    value: str | None = field.metadata.get(EXISTS_DEFAULT)
    if value is None or value.upper() == "NULL" or value.upper().startswith("CAST(NULL AS "):
        return None
    if isinstance(field.dataType, CharType | VarcharType | StringType):
        return re.sub(r"'\s+collate\s+\w+$", "'", value, flags=re.IGNORECASE)
    return f"CAST({value} AS {field.dataType.simpleString()})"


def _drop(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    return alter.drop_columns(snapshot, [quoted(c["path"]) for c in changes])


def _edit(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """New names, types and nullability of columns."""
    alterations: list[alter.AlterColumn] = []
    declarations: dict[str, dict[str, str | None]] = {}
    for change in changes:
        alteration, declaration = _alteration(snapshot, change)
        alterations += [alteration] if alteration is not None else []
        declarations |= {quoted(change["path"]): declaration} if declaration else {}
    if alterations:
        snapshot = reopened(snapshot, alter.alter_columns(snapshot, alterations).version)
    return alter.update_field_metadata(snapshot, declarations) if declarations else snapshot


def _alteration(snapshot: Snapshot, change: Change) -> tuple[alter.AlterColumn | None, dict[str, str | None]]:
    """The change of a field, if there is one, and of the metadata that declares types of strings."""
    path = quoted(change["path"])
    if change["change"] == "RenameColumn":
        return {"path": path, "name": change["to"]}, {}
    if change["change"] == "UpdateColumnNullability":
        return {"path": path, "nullable": change["nullable"]}, {}
    old = snapshot.manifest.schema.resolve_field(path)[-1]
    sizes = {"c": old.type.list_size} if pa.types.is_fixed_size_list(old.type) else {}
    new = _arrow(StructField("c", _type_from_json(change["type"])), change["path"], sizes)
    now = {key.decode(): value.decode() for key, value in (new.metadata or {}).items()}
    before = {key.decode() for key in old.metadata if key.endswith(DECLARED)}
    if new.type == old.type or (pa.types.is_string(new.type) and pa.types.is_large_string(old.type)):
        return None, {**dict.fromkeys(before), **now}
    return {"path": path, "data_type": new.type}, dict.fromkeys(before)


def _type_from_json(text: str) -> DataType:
    column = {"name": "c", "type": json.loads(text), "nullable": True, "metadata": {}}
    return declared_columns(json.dumps({"type": "struct", "fields": [column]})).fields[0].dataType


def _describe(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """Comments and defaults of columns, which are in the metadata of their fields."""
    metadata: dict[str, dict[str, str | None]] = {}
    for c in changes:
        own = metadata.setdefault(quoted(c["path"]), {})
        if c["change"] == "UpdateColumnComment":
            own[COMMENT] = c["comment"] or None
        else:
            default = _new_default(snapshot, c)
            # Spark needs both keys. Existing rows have values, so theirs is never used.
            own |= {CURRENT_DEFAULT: default, EXISTS_DEFAULT: default and "NULL"}
    return alter.update_field_metadata(snapshot, metadata)


def _new_default(snapshot: Snapshot, change: Change) -> str | None:
    """A default that Spark may evaluate. Raises UnsupportedFeatureError for others."""
    default: str | None = change["default"] or None
    if default is None:
        return None
    field = snapshot.manifest.schema.resolve(quoted(change["path"]))[-1]
    t = to_spark(pa.schema([field.to_arrow()])).fields[0].dataType
    if len(change["path"]) > 1 or not is_checked(default, t):
        functions = "current_timestamp(), current_date(), localtimestamp() or current_user()"
        expected = f"expected a literal of the type {t.simpleString()}, or {functions}"
        raise UnsupportedFeatureError(f"ALTER COLUMN {quoted(change['path'])} SET DEFAULT {default}: {expected}")
    return default


def _configure(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    return alter.update_config(snapshot, {c["key"]: c.get("value") for c in changes})


def _cluster(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """CLUSTER BY of a table says how later runs of a clustering order its rows; NONE forgets it."""
    columns = tuple(changes[-1]["columns"])
    check_columns(snapshot.manifest.schema, columns)
    before = Clustered.of(snapshot)
    new = before if before.columns == columns else Clustered(columns)
    return alter.update_config(snapshot, new.config if columns else {CONFIG: None})


_STEPS: Mapping[str, Callable[[Snapshot, Sequence[Change]], Snapshot]] = {
    "AddColumn": _add,
    "DeleteColumn": _drop,
    "RenameColumn": _edit,
    "UpdateColumnType": _edit,
    "UpdateColumnNullability": _edit,
    _MOVE: _move,
    "UpdateColumnComment": _describe,
    "UpdateColumnDefaultValue": _describe,
    "SetProperty": _configure,
    "RemoveProperty": _configure,
    "ClusterBy": _cluster,
}
