"""The schema of a new table: the schema of its first data, modified by write options for single columns.

The key of such an option is the column's path, a dot, and a key of `COLUMN_OPTIONS`. It also applies to the column's children.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError, SchemaMismatchError
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.row_columns import check_not_reserved
from lance_spark.schema import primary_key
from lance_spark.schema.blobs import of_version
from lance_spark.schema.schema import BLOB, Field, Schema, from_arrow
from lance_spark.schema.storage_version import StorageVersion


def _encoding(name: str) -> Callable[[Field, str], Field]:
    """Return a function that sets the field metadata of this name, which the file writer reads, on all leaf fields."""
    key = f"lance-encoding:{name}".encode()

    def change(field: Field, value: str) -> Field:
        if not field.is_leaf:
            return replace(field, children=tuple(change(child, value) for child in field.children))
        return replace(field, metadata={**field.metadata, key: value.strip().lower().encode()})

    return change


def _blob(field: Field, value: str) -> Field:
    if value.strip().lower() != "blob":
        raise InvalidOptionError(f"column {field.name!r}: lance.encoding is {value!r}; expected blob")
    return replace(field, metadata={**field.metadata, BLOB: b"true"})


def _retyped(pattern: str, to: str) -> Callable[[Field, str], Field]:
    """Return a function that changes the type of a column, and of lists in it, if the option is true."""

    def change(field: Field, value: str) -> Field:
        if value.strip().lower() not in ("true", "false"):
            raise InvalidOptionError(f"column {field.name!r}: {value!r} is invalid; expected true or false")
        if value.strip().lower() == "false":
            return field
        children = tuple(change(child, value) for child in field.children)
        return replace(field, logical_type=re.sub(pattern, to, field.logical_type), children=children)

    return change


def _fixed_width(field: Field, value: str) -> Field:
    if field.logical_type not in ("binary", "large_binary") or BLOB in field.metadata:
        raise InvalidOptionError(f"column {field.name!r} has the type {field.logical_type}; only binary values can have a fixed width")
    if not (value.isascii() and value.isdecimal() and 0 < int(value) < 2**31):
        raise InvalidOptionError(f"column {field.name!r}: the width {value!r} is invalid; expected a number of bytes from 1 to {2**31 - 1}")
    return replace(field, logical_type=f"fixed_size_binary:{int(value)}")


@dataclass(frozen=True)
class ColumnOption:
    """A write option of a column: its effect on the column's field, and its help text."""

    change: Callable[[Field, str], Field]
    help: str


COLUMN_OPTIONS: Mapping[str, ColumnOption] = {
    "lance.compression": ColumnOption(_encoding("compression"), "Compression of its pages: zstd, lz4, fsst or none."),
    "lance.compression-level": ColumnOption(_encoding("compression-level"), "Compression level of zstd or lz4."),
    "lance.structural-encoding": ColumnOption(_encoding("structural-encoding"), "Page layout: miniblock or fullzip; sparse in 2.3."),
    "lance.rle-threshold": ColumnOption(
        _encoding("rle-threshold"), "Run-length encode if the number of runs is below this fraction of the values (0: never)."
    ),
    "lance.bss": ColumnOption(_encoding("bss"), "Byte-stream split of compressed numbers: off, on or auto."),
    "lance.dict-divisor": ColumnOption(_encoding("dict-divisor"), "Dictionary-encode if there are this many times fewer distinct values."),
    "lance.dict-values-compression": ColumnOption(_encoding("dict-values-compression"), "Compression of dictionaries: zstd, lz4 or none."),
    "lance.dict-values-compression-level": ColumnOption(
        _encoding("dict-values-compression-level"), "Compression level of dictionaries, for pylance's writes."
    ),
    "lance.dict-size-ratio": ColumnOption(
        _encoding("dict-size-ratio"), "The largest size of a dictionary as a fraction of the values', for pylance's writes."
    ),
    "lance.minichunk-size": ColumnOption(_encoding("minichunk-size"), "Bytes of a chunk of the layout miniblock."),
    "lance.encoding": ColumnOption(
        _blob, "`blob` stores binary values outside of the pages (see [large values](reading.md#large-values))."
    ),
    "arrow.float16": ColumnOption(_retyped(r"\b(float|double)\b", "halffloat"), "`true` stores floats in 16 bits."),
    "arrow.large_var_char": ColumnOption(_retyped(r"^string$", "large_string"), "`true` stores strings with 64-bit offsets."),
    "arrow.fixed-size-binary.byte-width": ColumnOption(_fixed_width, "The number of bytes of each value of a binary column."),
}


def new_schema(data: pa.Schema, version: StorageVersion, options: Mapping[str, str]) -> Schema:
    """The schema of a table of data files of `version` with the columns of `data`, changed as the column options say.

    Raises InvalidOptionError for an unknown option, an invalid value or an unknown column, UnsupportedFeatureError for a type that
    no data file can store, SchemaMismatchError for metadata that is not UTF-8, and InvalidOperationError for an invalid primary key.
    """
    schema = from_arrow(data)
    check_not_reserved(schema)
    _check_texts("the data's schema", schema.metadata)
    for field in schema.walk():
        if field.metadata:
            _check_texts(f"column {field.name!r}", field.metadata)
    primary_key.check_rules(schema)
    schema = _changed(schema, options)
    ids = itertools.count()
    converted = of_version(schema, version)
    # A schema of Arrow is numbered like this already.
    if converted is schema and not options:
        return converted
    return Schema(tuple(numbered(f, ids) for f in converted.fields), schema.metadata)


def with_properties(data: pa.Schema, manifest: Manifest) -> pa.Schema:
    """New columns of a table, changed as its properties say, which may name columns before they are added."""
    options = {}
    for key, value in manifest.config.items():
        path = column_of(key)
        if path is not None and path in data.names:
            options[key] = value
    return _changed(from_arrow(data), options).to_arrow() if options else data


def column_of(key: str) -> str | None:
    """The path of the column that an option is for; None if the key is not that of a column's option."""
    try:
        return split_key(key)[0]
    except InvalidOptionError:
        return None


def _changed(schema: Schema, options: Mapping[str, str]) -> Schema:
    for key, value in options.items():
        path, name = split_key(key)
        try:
            target = schema.resolve(path)[-1]
        except SchemaMismatchError as e:
            raise InvalidOptionError(f"the option {key!r}: {e}") from e
        changed = COLUMN_OPTIONS[name].change(target, value)
        if changed == target and "arrow." in name and value.strip().lower() == "true":
            raise InvalidOptionError(f"the option {key!r} does not apply to columns of type {target.logical_type}; remove it")
        schema = Schema(tuple(_with(f, changed) for f in schema.fields), schema.metadata)
    return schema


def _check_texts(what: str, metadata: Mapping[bytes, bytes]) -> None:
    """Other readers return metadata as text."""
    for key, value in metadata.items():
        try:
            key.decode(), value.decode()
        except UnicodeDecodeError as e:
            raise SchemaMismatchError(f"{what}: the metadata {key!r} is not UTF-8 text; encode it, for example in base64") from e


def split_key(key: str) -> tuple[str, str]:
    """The column path and the name of an option. Raises InvalidOptionError for an unknown suffix."""
    for name in COLUMN_OPTIONS:
        if key.lower().endswith(f".{name}") and len(key) > len(name) + 1:
            return key[: -len(name) - 1], name
    said = nearest(key.partition(".")[2], COLUMN_OPTIONS)
    raise InvalidOptionError(
        f"unknown column option {key!r}{said}; expected one of: {', '.join(f'<col>.{name}' for name in COLUMN_OPTIONS)}"
    )


def _with(field: Field, changed: Field) -> Field:
    """`field` with the field that has the id of `changed` replaced by it."""
    if field.id == changed.id:
        return changed
    return replace(field, children=tuple(_with(child, changed) for child in field.children))


def numbered(field: Field, ids: Iterator[int]) -> Field:
    """The field with the next ids, for itself and then for the fields below it."""
    own = next(ids)
    if field.id == own and not field.children:
        return field
    return replace(field, id=own, children=tuple(numbered(child, ids) for child in field.children))
