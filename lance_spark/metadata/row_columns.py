"""Columns that are not stored in data files: id, address, number and file of the row, and the versions that created and updated it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lance_spark.errors import SchemaMismatchError
from lance_spark.schema.schema import Field, Schema

ROW_ID = -10
ROW_ADDRESS = -11
CREATED_AT = -12
UPDATED_AT = -13
FRAGMENT_ID = -14
ROW_OFFSET = -15
ROW_FILE = -16
FILE_PATH = -17
FILE_NAME = -18
FILE_ROW = -19
DELTA_ROW_ID = -20
DELTA_ROW_VERSION = -21

ROW_COLUMNS = (
    Field("_rowid", ROW_ID, "uint64"),
    Field("_rowaddr", ROW_ADDRESS, "uint64"),
    Field("_fragid", FRAGMENT_ID, "int32", nullable=False),
    Field("_rowoffset", ROW_OFFSET, "uint64"),
    Field("_row_created_at_version", CREATED_AT, "uint64"),
    Field("_row_last_updated_at_version", UPDATED_AT, "uint64"),
    # The names are those of Spark's file sources, and the last two those of Delta Lake. Of a fragment's data files, it is the first one.
    Field(
        "_metadata",
        ROW_FILE,
        "struct",
        nullable=False,
        children=(
            Field("file_path", FILE_PATH, "string", nullable=False),
            Field("file_name", FILE_NAME, "string", nullable=False),
            Field("row_index", FILE_ROW, "int64", nullable=False),
            Field("row_id", DELTA_ROW_ID, "int64"),
            Field("row_commit_version", DELTA_ROW_VERSION, "int64"),
        ),
    ),
)
ROW_COLUMN_IDS = frozenset(f.id for f in ROW_COLUMNS)


RESERVED = frozenset({"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"})
"""Reserved column names: pylance cannot read tables that use them."""


_NOT_OF_COLUMNS = {".": "dots", "`": "backticks"}
"""What names of columns must not contain. Fields of structs may: pylance addresses these in backticks."""


def check_not_reserved(schema: Schema) -> None:
    """Raise SchemaMismatchError if a column has a reserved name."""
    if names := [f.name for f in schema.fields if f.name in RESERVED]:
        raise SchemaMismatchError(f"the column names {', '.join(names)} are reserved; rename the columns")


def check_new_names(fields: Iterable[Field], known: Iterable[Field] = ()) -> None:
    """Raise SchemaMismatchError for names of new columns that other readers cannot address, and in them of fields.

    Columns with the names of `known` are there already; of these, fields with new names are new.
    """
    old = {f.name: f for f in known}
    for field in fields:
        if field.name not in old and (found := [c for c in _NOT_OF_COLUMNS if c in field.name]):
            what = f"names of columns must not contain {' and '.join(_NOT_OF_COLUMNS[c] for c in found)}: {field.name!r}"
            advice = "add a struct, or use another name" if "." in found else "use another name"
            raise SchemaMismatchError(f"{what}, because pylance cannot address such a column; {advice}")
        _check_new_fields(field, old.get(field.name))


def _check_new_fields(field: Field, known: Field | None) -> None:
    old = {} if known is None else {f.name: f for f in known.children}
    for child in field.children:
        if not child.name and child.name not in old and field.logical_type == "struct":
            raise SchemaMismatchError(f"a field of {field.name!r} has no name, and pylance cannot address it; give it one")
        _check_new_fields(child, old.get(child.name))


def check_names(fields: Sequence[Field]) -> None:
    """Raise SchemaMismatchError if two columns, or two fields of one struct, have the same name."""
    counts = Counter(f.name for f in fields)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise SchemaMismatchError(f"duplicate column names {', '.join(map(repr, twice))}")
    for field in fields:
        check_names(field.children)


def with_row_columns(schema: Schema) -> Schema:
    """Append the row columns to a schema, except those whose names it already has."""
    own = {f.name for f in schema.fields}
    return Schema((*schema.fields, *(f for f in ROW_COLUMNS if f.name not in own)), schema.metadata)
