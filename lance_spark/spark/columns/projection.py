"""Mapping of a schema that a user specifies, for a read or of a table, to the table's columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.errors import SchemaMismatchError
from lance_spark.schema.schema import quoted
from lance_spark.spark.columns.types import stored, to_spark

_SAME_VALUES = ("StringType", "DayTimeIntervalType", "TimeType")
"""Types whose parameters (collation, fields, precision) do not change how values are stored. By name, since Spark 4.0 lacks one."""
_NOT_STORED = ("DayTimeIntervalType", "TimeType")
"""Those of them whose parameters are not stored."""


def paths(own: pa.Schema, wanted: st.StructType) -> tuple[str, ...]:
    """The paths, for `Schema.select`, of the columns of `own` that `wanted` needs.

    Names match exactly or, failing that, case-insensitively. Structs may have fewer fields than the table's. Raises SchemaMismatchError,
    which lists all differences: unknown names, other types, and NOT NULL columns that are nullable in the table.
    """
    found: list[str] = []
    differences: list[str] = []
    if not wanted.fields:
        differences.append("it has no columns")
    for field in wanted.fields:
        position = _find(own.names, field.name)
        if position is None:
            differences.append(f"no column {field.name!r} in the table")
            continue
        name = own.names[position]
        mine = to_spark(pa.schema([own.field(position)])).fields[0]
        differences += _field_differences(mine, field, name)
        found += _paths(mine.dataType, field.dataType, (name,))
    if differences:
        what = f"the schema asked for does not fit the table: {'; '.join(differences)}"
        raise SchemaMismatchError(f"{what}. The table has {', '.join(own.names)}")
    return tuple(found)


def _find(names: Sequence[str], name: str) -> int | None:
    if name in names:
        return names.index(name)
    return next((i for i, n in enumerate(names) if n.lower() == name.lower()), None)


def _field_differences(mine: st.StructField, wanted: st.StructField, path: str) -> list[str]:
    nulls = [f"{path!r} may be null in the table"] if mine.nullable and not wanted.nullable else []
    return nulls + _differences(mine.dataType, wanted.dataType, path)


def _differences(mine: st.DataType, wanted: st.DataType, path: str) -> list[str]:
    if isinstance(mine, st.StructType) and isinstance(wanted, st.StructType):
        out = []
        for child in wanted.fields:
            position = _find(mine.names, child.name)
            if position is None:
                out.append(f"no column '{path}.{child.name}' in the table")
            else:
                out += _field_differences(mine.fields[position], child, f"{path}.{child.name}")
        return out
    if isinstance(mine, st.ArrayType) and isinstance(wanted, st.ArrayType):
        nulls = [f"'{path}.element' may be null in the table"] if mine.containsNull and not wanted.containsNull else []
        return nulls + _differences(mine.elementType, wanted.elementType, f"{path}.element")
    if isinstance(mine, st.MapType) and isinstance(wanted, st.MapType):
        nulls = [f"'{path}.value' may be null in the table"] if mine.valueContainsNull and not wanted.valueContainsNull else []
        inside = _differences(mine.keyType, wanted.keyType, f"{path}.key") + _differences(mine.valueType, wanted.valueType, f"{path}.value")
        return nulls + inside
    if mine != wanted and not (type(mine) is type(wanted) and type(mine).__name__ in _SAME_VALUES):
        return [f"{path!r} is {mine.simpleString()} in the table, not {wanted.simpleString()}"]
    return []


def _with_parameters(own: st.DataType, declared: st.DataType) -> st.DataType:
    """The type of a table's column with the parameters that only its declaration has, such as INTERVAL HOUR."""
    if isinstance(own, st.StructType) and isinstance(declared, st.StructType):
        return with_parameters(own, declared)
    if isinstance(own, st.ArrayType) and isinstance(declared, st.ArrayType):
        return st.ArrayType(_with_parameters(own.elementType, declared.elementType), own.containsNull)
    if isinstance(own, st.MapType) and isinstance(declared, st.MapType):
        key = _with_parameters(own.keyType, declared.keyType)
        value = _with_parameters(own.valueType, declared.valueType)
        return st.MapType(key, value, own.valueContainsNull)
    is_declared = type(own) is type(declared) and type(own).__name__ in _NOT_STORED
    return declared if is_declared and _is_stored_as(declared, own) else own


def _is_stored_as(declared: st.DataType, own: st.DataType) -> bool:
    """False for a time with nanoseconds in the table and microseconds in its declaration."""
    both = st.StructType([st.StructField("declared", declared), st.StructField("own", own)])
    return len(set(stored(both, {}).types)) == 1


def with_parameters(own: st.StructType, declared: st.StructType) -> st.StructType:
    """The columns of a table with the parameters of their types that only their declaration has."""
    known = {f.name: f.dataType for f in declared.fields}
    found = st.StructType()
    for f in own.fields:
        found.add(st.StructField(f.name, _with_parameters(f.dataType, known.get(f.name, f.dataType)), f.nullable, f.metadata))
    return found


def _paths(mine: st.DataType, wanted: st.DataType, steps: tuple[str, ...]) -> list[str]:
    """The path of a column, or the paths of the required fields if only part of a struct is required."""
    if isinstance(mine, st.StructType) and isinstance(wanted, st.StructType) and wanted.fields and mine != wanted:
        out = []
        for child in wanted.fields:
            position = _find(mine.names, child.name)
            if position is not None:
                out += _paths(mine.fields[position].dataType, child.dataType, (*steps, mine.names[position]))
        return out
    return [quoted(steps)]
