"""Merges by a join of Spark whose source lacks nested fields of a column: see `table.write.nested_values`, which does it for Arrow."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lance_spark.errors import SchemaMismatchError


def lacks_fields(given: DataType, known: DataType) -> bool:
    """Whether values of the type `given` lack a field of structs of the table's type `known`."""
    if isinstance(given, StructType) and isinstance(known, StructType):
        found = ((_field(given, f.name), f) for f in known)
        return any(own is None or lacks_fields(own.dataType, f.dataType) for own, f in found)
    if isinstance(given, ArrayType) and isinstance(known, ArrayType):
        return lacks_fields(given.elementType, known.elementType)
    return isinstance(given, MapType) and isinstance(known, MapType) and lacks_fields(given.valueType, known.valueType)


def completed(new: Column, given: DataType, old: Column, known: DataType, path: str) -> Column:
    """The value `new` with those of `old`, the table's, in the fields that it lacks. A struct is null only if both are.

    Raises SchemaMismatchError for lists and maps: it is unknown which of their old items belong to the new ones.
    """
    if not lacks_fields(given, known):
        return new
    if not (isinstance(given, StructType) and isinstance(known, StructType)):
        raise SchemaMismatchError(
            f"column {path!r}: the source ({given.simpleString()}) lacks fields of the table's structs ({known.simpleString()}); "
            "in lists and maps, give all fields"
        )
    children = []
    for f in known:
        own, kept = _field(given, f.name), old.getField(f.name)
        child = kept
        if own is not None:
            given_child = new.getField(own.name)
            child = completed(given_child, own.dataType, kept, f.dataType, f"{path}.{f.name}")
        children.append(child.alias(f.name))
    # Fields that the table will get.
    children += [new.getField(f.name).alias(f.name) for f in given if _field(known, f.name) is None]
    return F.when(new.isNotNull() | old.isNotNull(), F.struct(*children))


def _field(t: StructType, name: str) -> StructField | None:
    """The field with this name, else one whose name differs only in case."""
    exact = [f for f in t if f.name == name]
    return next(iter(exact or [f for f in t if f.name.lower() == name.lower()]), None)
