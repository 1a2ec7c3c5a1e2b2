"""Checks on the driver, before anything is written, that a storage version supports the columns."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.layouts.choose.encoding_options import BlobThresholds, EncodingOptions
from lance_spark.layouts.nodes.version_grammar import GRAMMARS
from lance_spark.schema.logical_types import parse_logical_type
from lance_spark.schema.schema import Field, Schema
from lance_spark.schema.storage_version import V2_0, V2_1, V2_2, V2_3, StorageVersion

WRITABLE: Mapping[str, StorageVersion] = {str(v): v for v in (V2_0, V2_1, V2_2, V2_3)}
"""The storage versions that can be written."""

_LOG = logging.getLogger("lance_spark")

_VARIABLE = ("string", "large_string", "binary", "large_binary")


def storage_version(name: str, advice: str = "") -> StorageVersion:
    """The storage version of new data files. Raises UnsupportedFeatureError, with `advice`, for one that cannot be written."""
    if name not in WRITABLE:
        raise UnsupportedFeatureError(f"writing data files of storage version {name} is not supported; use {', '.join(WRITABLE)}{advice}")
    return WRITABLE[name]


def warn_if_unstable(name: str, table: str) -> None:
    """Log a warning about a new table in a storage version whose specification is not final, as pylance does."""
    if storage_version(name) > V2_2:
        _LOG.warning("%s: storage version %s is unstable: later readers may not read its files, so use it for trials only", table, name)


def check_supported(schema: Schema, version: StorageVersion) -> None:
    """Raise UnsupportedFeatureError, naming the column and what supports it, for a column that files of `version` cannot store; and
    InvalidOptionError for field metadata with an invalid encoding.
    """
    if not schema.fields:
        raise UnsupportedFeatureError("data without columns is not supported: a Lance table has at least one")
    for path, field in _walk(schema.fields, ""):
        why = _refusal(field, version)
        if why:
            raise UnsupportedFeatureError(f"column {path!r}: {why}")
        if field.metadata and field.is_leaf:
            named = replace(field, name=path)
            if EncodingOptions.of(named).structure == "sparse" and not (version in GRAMMARS and GRAMMARS[version].planar):
                raise InvalidOptionError(f"column {path!r}: structural-encoding: files of version {version} are not sparse; 2.3 is")
            BlobThresholds.of(named)
    if version < (2, 2):
        for field in schema.fields:
            _check_blobs(field, version, in_list=False)


def _walk(fields: tuple[Field, ...], prefix: str) -> Iterator[tuple[str, Field]]:
    for field in fields:
        path = prefix + field.name
        yield path, field
        if not field.is_leaf:
            yield from _walk(field.children, path + ".")


def _refusal(field: Field, version: StorageVersion) -> str:
    """The reason why files of `version` cannot store the field, regardless of its children; empty if they can."""
    kind = field.logical_type.split(":")[0]
    has_maps = version in GRAMMARS and GRAMMARS[version].maps
    if not field.name:
        return "a column without a name, which pylance cannot read; give it one"
    if kind == "struct" and not field.children and (version != V2_0 or field.is_packed):
        what = "structs without fields are written to files of version 2.0 only"
        return f"{what}, for pylance cannot tell which of them are null in later ones; give it a field or leave it out"
    if kind == "map" and not has_maps:
        return f"storage version {version} has no maps; 2.2 has"
    if kind == "fixed_size_list" and field.children:
        return "fixed-size lists of structs are not written: pylance does not read them beside other columns. Lists of any size are"
    if kind == "fixed_size_list" and not _is_fixed_width(parse_logical_type(field.logical_type, field.name)):
        return f"no storage version has {field.type}; lists of any size can have such items"
    if field.is_packed and not field.is_blob:
        return next((why for why in (_packed_refusal(child, version) for child in field.children) if why), "")
    return ""


def _packed_refusal(child: Field, version: StorageVersion) -> str:
    """The reason why a packed struct in files of `version` cannot have this child; empty if it can."""
    kind = child.logical_type
    what = f"its field {child.name!r} of type {kind} cannot be in a packed struct (lance-encoding:packed)"
    if child.children or kind in ("null", "json", "bool") or kind.startswith(("dict:", "fixed_size_list:bool")):
        return what
    needs_variable = kind in _VARIABLE or (kind.startswith("fixed_size_list") and version != (2, 0))
    if needs_variable and not (version in GRAMMARS and GRAMMARS[version].variable_packed_structs):
        return f"{what} of storage version {version}; it can in 2.2"
    return ""


def _check_blobs(field: Field, version: StorageVersion, *, in_list: bool) -> None:
    """Before 2.2 the positions of blobs cannot encode the levels of lists; 2.0 has no levels."""
    if field.is_blob and in_list and version in GRAMMARS:
        raise UnsupportedFeatureError(f"column {field.name!r}: lists of blobs are not supported in storage version {version}; use 2.2")
    if not field.is_leaf:
        for child in field.children:
            _check_blobs(child, version, in_list=in_list or field.logical_type != "struct")


def _is_fixed_width(t: pa.DataType) -> bool:
    while pa.types.is_fixed_size_list(t):
        t = t.value_type
    return bool(pa.types.is_primitive(t) or pa.types.is_decimal(t) or pa.types.is_fixed_size_binary(t))
