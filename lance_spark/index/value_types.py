"""The types of columns that each kind of index can be built for: those of other writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as types

from lance_spark.arrow.types import is_binary, is_list, is_text


def _is_hashable(t: pa.DataType) -> bool:
    plain = types.is_integer(t) or types.is_float32(t) or types.is_float64(t) or types.is_date(t) or types.is_time(t)
    return bool(plain or types.is_timestamp(t) or is_text(t) or is_binary(t))


def _is_ordered(t: pa.DataType) -> bool:
    more = types.is_boolean(t) or types.is_float16(t) or types.is_duration(t) or types.is_decimal(t) or types.is_fixed_size_binary(t)
    return bool(_is_hashable(t) or more)


def _is_list(t: pa.DataType) -> bool:
    return bool(is_list(t) and _is_ordered(t.value_type))


def _is_document(t: pa.DataType) -> bool:
    return bool(is_text(t.value_type if is_list(t) else t) or types.is_large_binary(t))


def _may_be_geometry(t: pa.DataType) -> bool:
    """The extension of a field tells whether it has geometries; see `predicate.geometry`."""
    return bool(types.is_struct(t) or types.is_fixed_size_list(t) or is_list(t) or is_text(t) or is_binary(t))


def _has_zones(t: pa.DataType) -> bool:
    """Zones of ordered values have bounds; those of vectors have only the number of their nulls."""
    return bool(_is_ordered(t) or (types.is_fixed_size_list(t) and _is_ordered(t.value_type)))


TAKES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "BTREE": _is_ordered,
    "BITMAP": _is_ordered,
    "ZONEMAP": _has_zones,
    "BLOOMFILTER": _is_hashable,
    "NGRAM": is_text,
    "FM": is_text,
    "LABEL_LIST": _is_list,
    "JSON": types.is_large_binary,
    "INVERTED": _is_document,
    "MINHASHLSH": is_text,
    "RTREE": _may_be_geometry,
}
"""By the name of the kind. JSON columns are stored as JSONB; other binary columns have neither JSON nor full-text indexes."""


def may_index(kind: str, t: pa.DataType) -> bool:
    """Whether a segment of this kind, of any writer, can be of a column of the type `t`."""
    if isinstance(t, pa.BaseExtensionType):
        t = t.storage_type
    # pylance counts the nulls of zones of any type, and makes FM of bytes, which have no substrings here.
    if kind in ("ZONEMAP", "FM") or kind not in TAKES:
        return True
    return TAKES[kind](pa.list_(t.value_type.value_type) if _is_dictionary_list(t) else t)


def _is_dictionary_list(t: pa.DataType) -> bool:
    return bool(is_list(t) and types.is_dictionary(t.value_type))
