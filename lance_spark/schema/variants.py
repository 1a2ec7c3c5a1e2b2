"""Variants: each value has its own type, as in Parquet, and is stored in Arrow's canonical extension type for them.

Arrow's type is a struct of two binaries: `metadata`, the names of fields, and `value`. Arrow clients that know the extension name, such as
DuckDB, read variants, others the struct. Lance's specification has no type of its own for them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.logical_types import EXTENSION_METADATA, EXTENSION_NAME

NAME = b"arrow.parquet.variant"
STORED = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
"""The storage type of a new column. DuckDB takes no other order of its fields."""
FIELD_METADATA: Mapping[bytes, bytes] = {EXTENSION_NAME: NAME, EXTENSION_METADATA: b""}
"""The metadata of the field, beside its own."""


def is_variant(field: pa.Field) -> bool:
    """True if the field has variants, whether pyarrow knows the extension type or not."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name.encode() == NAME)
    return bool((field.metadata or {}).get(EXTENSION_NAME) == NAME and pa.types.is_struct(field.type))


def check_whole(t: pa.StructType, path: str) -> None:
    """Raise UnsupportedFeatureError for the storage type of variants that have parts of their values in columns of their own (shredded)."""
    names = sorted(child.name for child in t)
    if names != ["metadata", "value"]:
        what = f"column {path!r} has shredded variants, with the fields {', '.join(names)}; only those with metadata and value are read"
        advice = "leave it out by naming the other columns in the `columns` option, or read it as Arrow with Dataset"
        raise UnsupportedFeatureError(f"{what}. To read the others, {advice}")
