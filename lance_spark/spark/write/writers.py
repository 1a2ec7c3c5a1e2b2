"""The writer of rows, of a table or of a partitioned namespace."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

from lance_spark.predicate.tree import Predicate
from lance_spark.spark.options.table_location import store_to_write
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.read.opened import Opened, OpenedNamespace, OpenedTable
from lance_spark.spark.write.writer import LanceWriter


def writer_of(
    opened: Opened,
    schema: StructType,
    overwrite: bool,
    options: SparkWriteOptions,
    replaced: Predicate | None,
) -> DataSourceWriter:
    """The writer of rows with `schema`, in place of all rows or of those that satisfy `replaced`."""
    if isinstance(opened, OpenedNamespace):
        from lance_spark.spark.write.partitioned_writer import PartitionedWriter

        return PartitionedWriter(opened.version, schema, overwrite, options)
    assert isinstance(opened, OpenedTable)
    place, columns = opened.shape, opened.shape.manifest.schema.to_arrow()
    if options.table is not None and options.branch is None:
        # A namespace may give a store with other rights for writing.
        place = replace(place, store=store_to_write(options))
    return LanceWriter(place, schema, overwrite, options, columns, replaced)
