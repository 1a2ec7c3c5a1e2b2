"""Writing values of columns by row address: of new columns, or of old ones. Rows stay in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.schema import quoted
from lance_spark.spark.columns.types import inferred, stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import Command
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.delta import as_statement
from lance_spark.spark.write.writer import Batches, Job, TaskMessage, Write
from lance_spark.table.changes.column_files import (
    ColumnFile,
    ColumnTarget,
    column_target,
    write_columns,
)
from lance_spark.table.changes.columns_in_place import InPlace, columns_of, is_possible
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.changes.new_columns import NewFields, commit_columns, new_fields
from lance_spark.table.changes.row_changes import noted
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.new_schema import with_properties
from lance_spark.table.write.write import rewrite_target

ADD_COLUMNS = "ADD COLUMNS"
COMMANDS = ADD_COLUMNS, "UPDATE COLUMNS"
"""The kinds of commands that write values of columns."""
Files = list[ColumnFile]


@dataclass(frozen=True)
class ColumnValues(Write[Files]):
    """Values of columns. A task gets whole fragments, in the order of their rows.

    `new` are the columns that the table gets; None if it has all. `names` are then those of the
    table, by the names in the rows.
    """

    job: Job
    target: ColumnTarget
    command: Command
    properties: Mapping[str, str]
    new: NewFields | None
    names: Mapping[str, str]

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[Files]:
        files = write_columns(self.target, (self._named(batch) for batch in rows if batch.num_rows))
        return TaskMessage(clock.report((), updated=sum(file.num_rows for file in files)), files)

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.rename_columns([self.names.get(name, name) for name in batch.schema.names])

    def commit(self, parts: Sequence[Files]) -> None:
        files = [file for part in parts for file in part]
        snapshot, write = self.target.snapshot, self.target.write
        in_place = InPlace(snapshot, write, files)
        properties = {**self.properties, **noted(in_place.changes)}
        with as_statement(self.command, snapshot.version):
            if self.new is None:
                in_place.commit(properties)
            else:
                by_fragment = {file.fragment_id: file for file in files}
                commit_columns(snapshot, self.new, write.since, by_fragment, properties)


def values_of(
    snapshot: Snapshot,
    options: SparkWriteOptions,
    command: Command,
    rows: StructType,
) -> ColumnValues:
    """Prepare to write the values in `rows`, which have the address of a row of `snapshot` each."""
    values = StructType([f for f in rows.fields if f.name != ROW_ADDRESS])
    new, names = None, dict[str, str]()
    if command.kind == ADD_COLUMNS:
        columns = inferred(values, options.sizes)
        new = new_fields(snapshot, with_properties(columns, snapshot.manifest))
        schema = new.written
    else:
        names = _own_names(snapshot, stored(values, options.sizes).names)
        schema = columns_of(snapshot, list(names.values()))
    write = replace(rewrite_target(snapshot, options.write), schema=schema)
    target = column_target(snapshot, write, keeps_old=new is None)
    if new is not None:
        target = replace(target, names=new.names)
    job = Job.of(target.write, command.statement)
    properties = {**options.write.noted, **command.properties}
    return ColumnValues(job, target, command, properties, new, names)


def _own_names(snapshot: Snapshot, given: Sequence[str]) -> dict[str, str]:
    """The table's names of columns that are to be replaced.

    Raises UnsupportedFeatureError for columns whose files cannot be.
    """
    schema = snapshot.manifest.schema
    names = {name: schema.resolve_field(quoted([name]))[0].name for name in given}
    if not is_possible(snapshot, list(names.values())):
        what = "these columns cannot be rewritten in place; write MERGE INTO, which moves the rows"
        raise UnsupportedFeatureError(f"{snapshot}: {what}")
    return names
