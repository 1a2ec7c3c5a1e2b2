"""Columns that no file holds: which row it is and where, and which versions made and changed it. Fields like others, with own ids."""

from __future__ import annotations

from lance_spark.schema import Field, Schema

ROW_ID = -10
ROW_ADDRESS = -11
CREATED_AT = -12
UPDATED_AT = -13
FRAGMENT_ID = -14

ROW_COLUMNS = (
    Field("_rowid", ROW_ID, "uint64"),
    Field("_rowaddr", ROW_ADDRESS, "uint64"),
    Field("_fragid", FRAGMENT_ID, "int32", nullable=False),
    Field("_row_created_at_version", CREATED_AT, "uint64"),
    Field("_row_last_updated_at_version", UPDATED_AT, "uint64"),
)
ROW_COLUMN_IDS = frozenset(f.id for f in ROW_COLUMNS)


def with_row_columns(schema: Schema) -> Schema:
    """The schema with these columns after its own, but for those whose name it has itself."""
    own = {f.name for f in schema.fields}
    return Schema((*schema.fields, *(f for f in ROW_COLUMNS if f.name not in own)), schema.metadata)
