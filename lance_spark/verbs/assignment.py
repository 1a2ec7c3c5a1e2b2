"""SET clauses: the new value of each assigned column, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import SchemaMismatchError
from lance_spark.predicate import Formula
from lance_spark.schema.schema import Schema, quoted
from lance_spark.spark.columns.types import stored
from lance_spark.table.changes.columns_in_place import nullable
from lance_spark.table.changes.update import check_formulas
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits
from lance_spark.verbs.condition import Condition, as_column, naming_columns


def assignments(df: DataFrame, schema: Schema, values: Mapping[str, Condition], alias: str | None) -> dict[str, Column]:
    """The new values by top-level column, for rows of `df`.

    `values` are by name; a name may begin with the alias of the table, and dots lead into structs. Raises SchemaMismatchError for a
    column that is unknown or assigned twice, and for a value whose type does not fit.
    """
    parts: dict[str, list[tuple[list[str], Column]]] = {}
    for name, value in values.items():
        path = schema.resolve(without_alias(name, schema, alias))
        parts.setdefault(path[0].name, []).append(([f.name for f in path], as_column(value)))
    return checked(df, schema, {name: _whole(name, given, alias) for name, given in parts.items()})


def checked(df: DataFrame, schema: Schema, values: Mapping[str, Column]) -> dict[str, Column]:
    """The values by exact column name. Raises SchemaMismatchError for unknown columns; or it lists all values whose types do not fit."""
    with naming_columns():
        types = stored(df.select(*(value.alias(name) for name, value in values.items())).schema, {})
    chosen = tuple(f for f in schema.fields if f.name in values)
    # Nulls in non-nullable columns are detected in the values.
    check_fits(types, Schema(tuple(nullable(f) for f in chosen)))
    return dict(values)


def without_alias(name: str, schema: Schema, alias: str | None) -> str:
    """The name of a column without the table's alias, unless a column is called like the alias."""
    prefix = f"{alias}.".lower()
    if alias and name.lower().startswith(prefix) and alias.lower() not in {f.name.lower() for f in schema.fields}:
        return name[len(prefix) :]
    return name


def _whole(name: str, given: list[tuple[list[str], Column]], alias: str | None) -> Column:
    """The new value of a struct column of which only some fields are assigned."""
    paths = [path for path, _ in given]
    for i, path in enumerate(paths):
        if any(other[: len(path)] == path for j, other in enumerate(paths) if i != j):
            raise SchemaMismatchError(f"column {'.'.join(path)!r} is assigned more than once")
    if len(paths[0]) == 1:
        return given[0][1]
    column = F.col(quoted([alias, name] if alias else [name]))
    for path, value in given:
        column = column.withField(quoted(path[1:]), value)
    return column


def fits_formulas(snapshot: Snapshot, formulas: Mapping[str, Formula]) -> bool:
    """Whether the values of formulas fit the columns; if not, Spark evaluates them, which converts more types or reports the error."""
    try:
        check_formulas(snapshot, formulas)
    except SchemaMismatchError:
        return False
    return True
