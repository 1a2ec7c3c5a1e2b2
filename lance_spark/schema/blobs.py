"""Blob columns in a schema: their form for readers, and the form that each storage version stores.

Version 1 (storage 2.0 and 2.1) is large_binary with the metadata `lance-encoding:blob`; version 2 (since 2.2) is a struct of data and URI
with the extension name `lance.blob.v2`, for which files store only a descriptor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Literal

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.logical_types import EXTENSION_METADATA, EXTENSION_NAME
from lance_spark.schema.schema import BLOB, BLOB_V2, PACKED, Field, Schema
from lance_spark.schema.storage_version import StorageVersion


class BlobKind(IntEnum):
    """The `kind` of a version 2 descriptor, where the blob is: in the data file, in a shared or dedicated file beside it, at a URI, or in a
    file of its own in the table's folder of blobs, which a compaction leaves there ("managed").
    """

    INLINE = 0
    PACKED = 1
    DEDICATED = 2
    EXTERNAL = 3
    MANAGED = 4


BlobHandling = Literal["bytes", "descriptor", "none"]
BLOB_HANDLINGS = ("bytes", "descriptor", "none")

_PLACE = (("position", "uint64"), ("size", "uint64"))
_PLACE_V2 = (("kind", "uint8"), *_PLACE, ("blob_id", "uint32"), ("blob_uri", "string"))
_FIRST_ID = -20
"""Ids of the parts of a descriptor go down from here: no file has columns for them, and no column of `row_columns` has these."""


def handled(schema: Schema, handling: BlobHandling) -> Schema:
    """The schema with its blob columns unchanged ("bytes"), as structs with the location of each value ("descriptor"), or without them.

    The descriptor of version 1 is struct<position, size>, that of version 2 struct<kind, position, size, blob_id, blob_uri> (see
    `BlobKind`). A null blob has a null descriptor.
    """
    if handling == "descriptor":
        return Schema(tuple(_mapped(f, lambda f: descriptor(f) if f.is_blob else f) for f in schema.fields), schema.metadata)
    return schema if handling == "bytes" else schema.keep(lambda leaf: not leaf.is_blob)


def descriptor(field: Field) -> Field:
    """The blob column with a descriptor in place of each value."""
    is_v2 = field.extension == BLOB_V2
    parts = enumerate(_PLACE_V2 if is_v2 else _PLACE)
    children = tuple(Field(name, _FIRST_ID - i, kind, nullable=not is_v2) for i, (name, kind) in parts)
    return replace(field, logical_type="struct", children=children, descriptors=True)


def signed(schema: Schema) -> Schema:
    """The schema with 64-bit positions and sizes in descriptors as signed numbers, for engines without unsigned ones."""
    return Schema(tuple(_mapped(f, _signed) for f in schema.fields), schema.metadata)


def _signed(field: Field) -> Field:
    if not field.descriptors:
        return field
    children = (replace(c, logical_type="int64") if c.logical_type == "uint64" else c for c in field.children)
    return replace(field, children=tuple(children))


def in_file(schema: Schema) -> Schema:
    """The schema in a data file: blobs of version 2 are packed structs, whose children have no ids."""
    if not any(f.extension == BLOB_V2 for f in schema.walk()):
        return schema
    return Schema(tuple(_mapped(f, _stored) for f in schema.fields), schema.metadata)


def _stored(field: Field) -> Field:
    if field.extension != BLOB_V2:
        return field
    children = tuple(Field(name, -1, kind, nullable=False) for name, kind in _PLACE_V2)
    return replace(field, logical_type="struct", children=children, metadata={PACKED[0]: b"true", BLOB: b"true"})


def of_version(schema: Schema, version: StorageVersion) -> Schema:
    """The schema with its blob columns in the form of files of `version`; ids are not kept unique.

    Raises SchemaMismatchError for a blob column that is not binary, UnsupportedFeatureError for version 2 if the files need version 1.
    """
    if not any(f.metadata for f in schema.walk()):
        return schema  # blobs are marked by metadata
    convert = _to_version_2 if version >= (2, 2) else _to_version_1
    return Schema(tuple(_mapped(f, convert) for f in schema.fields), schema.metadata)


def _to_version_1(field: Field) -> Field:
    if field.extension == BLOB_V2:
        advice = "a large_binary with the metadata lance-encoding:blob=true can be stored in older ones too"
        raise UnsupportedFeatureError(f"column {field.name!r}: blobs of version 2 need storage version 2.2; {advice}")
    if not field.is_blob:
        return field
    if field.logical_type not in ("binary", "large_binary"):
        raise SchemaMismatchError(f"column {field.name!r} is marked as a blob: expected type binary, found {field.logical_type}")
    return replace(field, logical_type="large_binary")


def _to_version_2(field: Field) -> Field:
    if field.extension == BLOB_V2 or not field.is_blob:
        return field
    field = _to_version_1(field)
    kept = {k: v for k, v in field.metadata.items() if k not in (BLOB, EXTENSION_METADATA)}
    children = (Field("data", -1, "large_binary"), Field("uri", -1, "string"))
    return replace(field, logical_type="struct", children=children, metadata={**kept, EXTENSION_NAME: BLOB_V2})


def _mapped(field: Field, change: Callable[[Field], Field]) -> Field:
    """The field with `change` applied to it and to all fields below it."""
    changed = change(field)
    if changed.is_leaf:
        return changed
    return replace(changed, children=tuple(_mapped(c, change) for c in changed.children))
