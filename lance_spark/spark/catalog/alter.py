"""ALTER TABLE of the SQL catalog. Changes of one kind in one statement are one commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.schema import quoted
from lance_spark.spark.catalog.tables import latest_version
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.options import OF_EACH_WRITE, is_of_new_table, main_name
from lance_spark.spark.types import stored
from lance_spark.table.changes import alter
from lance_spark.table.changes.add_columns import add_calculated_columns
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.write.options import NO_OPTIONS

Change = Mapping[str, Any]
"""A change by Spark: `change` is the name of the class of TableChange, the other keys are its fields."""
CURRENT_DEFAULT, EXISTS_DEFAULT, COMMENT = "CURRENT_DEFAULT", "EXISTS_DEFAULT", "comment"
"""The metadata of a column in which Spark has its default for new rows, its default for existing rows, and its comment."""


def alter_table(catalog: Catalog, id: Sequence[str], changes: Sequence[Change]) -> None:
    """Apply the changes, in order. Raises UnsupportedFeatureError before the first one if there is no way to make one of them."""
    if unknown := [c["change"] for c in changes if c["change"] not in _STEPS]:
        raise UnsupportedFeatureError(f"ALTER TABLE: lance tables do not support {', '.join(unknown)}")
    snapshot = latest_version(catalog, id)
    _check_new_columns(changes)
    _check_properties(snapshot, changes)
    for step, group in groupby(changes, key=lambda c: _STEPS[c["change"]]):
        snapshot = step(snapshot, list(group))


def _check_new_columns(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.get("position") is not None:
            raise UnsupportedFeatureError("ADD COLUMN: a new column becomes the last one; leave out FIRST and AFTER")
        if change["change"] == "AddColumn" and _default(_field(change)) is not None and len(change["path"]) > 1:
            raise UnsupportedFeatureError("ADD COLUMN: a field in a struct cannot have a DEFAULT; add it without one, or call addColumns")


def _check_properties(snapshot: Snapshot, changes: Sequence[Change]) -> None:
    """Raise UnsupportedFeatureError for a property that only says how a new table is written, unless the table has it with this value."""
    for c in changes:
        if c["change"] != "SetProperty" or not is_of_new_table(c["key"]) or main_name(c["key"]) in OF_EACH_WRITE:
            continue
        if snapshot.manifest.config.get(c["key"]) != c["value"]:
            what = f"{c['key']!r} says how a new table is written, so it would have no effect on this one"
            raise UnsupportedFeatureError(f"ALTER TABLE: {what}; give it in CREATE TABLE or CREATE OR REPLACE TABLE")


def _add(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    columns = [_field(c) for c in changes if len(c["path"]) == 1]
    if empty := [f for f in columns if _default(f) is None]:
        snapshot = alter.add_columns(snapshot, stored(StructType(empty), {}))
    for change in changes:
        if len(change["path"]) > 1:
            column = stored(StructType([_field(change)]), {}).field(0).with_name(quoted(change["path"]))
            snapshot = alter.add_null_columns(snapshot, pa.schema([column]))
    if valued := [f for f in columns if _default(f) is not None]:
        values = {f.name: f"CAST({_default(f)} AS {f.dataType.simpleString()})" for f in valued}
        snapshot = reopened(snapshot, add_calculated_columns(snapshot, values, NO_OPTIONS).version)
        snapshot = alter.update_field_metadata(snapshot, {quoted([f.name]): f.metadata for f in valued})
    return snapshot


def _field(change: Change) -> StructField:
    field: StructField = StructType.fromJson(json.loads(change["field"])).fields[0]
    return field


def _default(field: StructField) -> str | None:
    """The value of existing rows."""
    return field.metadata.get(EXISTS_DEFAULT)


def _drop(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    return alter.drop_columns(snapshot, [quoted(c["path"]) for c in changes])


def _edit(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """New names, types and nullability of columns."""
    return reopened(snapshot, alter.alter_columns(snapshot, [_alteration(snapshot, c) for c in changes]).version)


def _alteration(snapshot: Snapshot, change: Change) -> alter.AlterColumn:
    path = quoted(change["path"])
    if change["change"] == "RenameColumn":
        return {"path": path, "name": change["to"]}
    if change["change"] == "UpdateColumnNullability":
        return {"path": path, "nullable": change["nullable"]}
    old = snapshot.manifest.schema.resolve_field(path)[-1].type
    sizes = {"c": old.list_size} if pa.types.is_fixed_size_list(old) else {}
    return {"path": path, "data_type": stored(StructType([StructField("c", _type_from_json(change["type"]))]), sizes).field(0).type}


def _type_from_json(text: str) -> DataType:
    column = {"name": "c", "type": json.loads(text), "nullable": True, "metadata": {}}
    kind: DataType = StructType.fromJson({"type": "struct", "fields": [column]}).fields[0].dataType
    return kind


def _describe(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """Comments and defaults of columns, which are in the metadata of their fields."""
    metadata: dict[str, dict[str, str | None]] = {}
    for c in changes:
        own = metadata.setdefault(quoted(c["path"]), {})
        if c["change"] == "UpdateColumnComment":
            own[COMMENT] = c["comment"] or None
        else:
            default = c["default"] or None
            # Spark needs both keys. Existing rows have values, so theirs is never used.
            own |= {CURRENT_DEFAULT: default, EXISTS_DEFAULT: default and "NULL"}
    return alter.update_field_metadata(snapshot, metadata)


def _configure(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    return alter.update_config(snapshot, {c["key"]: c.get("value") for c in changes})


_STEPS: Mapping[str, Callable[[Snapshot, Sequence[Change]], Snapshot]] = {
    "AddColumn": _add,
    "DeleteColumn": _drop,
    "RenameColumn": _edit,
    "UpdateColumnType": _edit,
    "UpdateColumnNullability": _edit,
    "UpdateColumnComment": _describe,
    "UpdateColumnDefaultValue": _describe,
    "SetProperty": _configure,
    "RemoveProperty": _configure,
}
