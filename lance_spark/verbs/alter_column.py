"""ALTER COLUMN: nullability and type. Tasks on the executors write columns with a new type."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.declared_types import DECLARED
from lance_spark.schema.schema import Schema
from lance_spark.spark.columns.types import stored
from lance_spark.spark.stopped import named
from lance_spark.table.changes.alter import AlterColumn, alter_columns
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.job import OnExecutors
from lance_spark.verbs.target import Target


def alter_column(
    target: Target, column: str, nullable: bool | None, type: str | DataType | pa.DataType | None, options: WriteOptions
) -> RowChanges:
    """Change the column. Arguments that are None change nothing; raises ValueError if all are None."""
    if nullable is None and type is None:
        raise ValueError("alterColumn needs nullable or type; renameColumn changes the name")
    snapshot = target.latest()
    alteration: AlterColumn = {"path": column}
    if nullable is not None:
        alteration["nullable"] = nullable
    if type is not None:
        alteration["data_type"] = type if isinstance(type, pa.DataType) else _in_arrow(type, snapshot.manifest.schema, column)
    return alter_columns(snapshot, [alteration], options, OnExecutors(target.spark, target.cores()))


def _in_arrow(type: str | DataType, schema: Schema, column: str) -> pa.DataType:
    """The Arrow type of a Spark type; fixed-size lists keep their size. Raises UnsupportedFeatureError for a type that Arrow lacks."""
    old = schema.resolve_field(column)[-1]
    sizes = {"c": old.type.list_size} if pa.types.is_fixed_size_list(old.type) else {}
    wanted = named(type)
    new = stored(StructType([StructField("c", wanted)]), sizes).field(0)
    declared = {(key, value) for key, value in (new.metadata or {}).items() if key.endswith(DECLARED)}
    if declared - old.metadata.items():
        advice = "ALTER TABLE .. ALTER COLUMN .. TYPE makes a VARCHAR longer, and INSERT copies rows to a table that declares the type"
        raise UnsupportedFeatureError(f"column {column!r} cannot become {wanted.simpleString()} by alterColumn: {advice}")
    return new.type
