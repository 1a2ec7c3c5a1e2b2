"""A read is a value: it knows its columns, what Spark may push into it, and the reader that reads it.

Each kind is a file beside this one, and `kinds` says which of them the options of a DataFrame mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from lance_spark.metadata.row_columns import ROW_ADDRESS, ROW_ID
from lance_spark.predicate import parse
from lance_spark.schema.blobs import signed
from lance_spark.schema.schema import Schema
from lance_spark.spark.columns.projection import paths
from lance_spark.spark.columns.types import to_spark
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.opened import Opened
from lance_spark.spark.read.request import Request
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.write_ahead_log import has_log


@dataclass(frozen=True)
class Abilities:
    """What Spark's planner may ask of a read, besides some of its columns (see `Request`).

    The classes in the JVM ask for them by their names: `source.can("filter")`.
    """

    filter: bool = False
    """It leaves out rows for which conditions are not true. `limit`, `top` and `aggregates` may then come after these."""
    limit: bool = False
    exact_limit: bool = False
    """Without conditions, the tasks together return no more rows than the limit."""
    top: bool = False
    aggregates: bool = False
    count: bool = False
    """Planning counts the rows, if there are no conditions."""
    found: bool = False
    """The driver may find the rows while it plans."""
    is_filtered: bool = False
    """The options have a condition, for which planning may use indexes."""
    has_log: bool = False
    """Its tasks tell how many rows are from a write-ahead log."""
    has_tables: bool = False
    """Its tasks tell how many of the tables of a namespace they read."""
    unjoined: str = "the options of the table choose rows by more than a condition"
    """Why no join by nearness finds its rows; "" if one does."""

    @property
    def join(self) -> bool:
        """Whether a join by nearness finds its rows."""
        return not self.unjoined

    @property
    def names(self) -> str:
        """Those that the read has, with spaces between."""
        return " ".join(f.name for f in fields(self) if getattr(self, f.name) is True)


COLUMNS_ONLY = Abilities()
"""Those of a read whose rows are chosen by more than conditions: what is pushed comes after it."""


class Read(Protocol):
    """What a DataFrame of the format reads."""

    @property
    def kind(self) -> str:
        """What it is called in errors."""

    @property
    def abilities(self) -> Abilities:
        """What it can be asked for."""

    def columns(self) -> pa.Schema:
        """The schema of its rows, with types that Spark has."""

    def reader(self, schema: StructType, request: Request) -> DataSourceReader:
        """What reads the columns of `schema`, as the planner requests; only for its abilities."""


def checked_reader(read: Read, schema: StructType, request: Request) -> DataSourceReader:
    """The reader of a read. Raises ValueError for a request that is none of its abilities."""
    for ability in request.needs:
        if not getattr(read.abilities, ability):
            raise ValueError(f"Spark's planner must not push {ability} into {read.kind}")
    return read.reader(schema, request)


def plan_of(opened: Opened, options: ReadOptions) -> ScanPlan:
    """The plan of a scan that the options describe. Their filter is a part of it, if that chooses rows of the table."""
    plan = ScanPlan(
        columns=options.columns,
        limit=options.limit,
        with_row_id=options.with_row_id,
        with_row_address=options.with_row_address,
        batch_size=options.batch_size,
        blob_handling=options.blob_handling,
        fragments=options.fragments,
        use_scalar_index=options.use_scalar_index,
    )
    if options.filter is not None and not options.searches and not options.feed.changes:
        plan = replace(plan, predicate=parse(options.filter, plan.known(opened.shape), None))
    opened.check(plan)
    return plan


def shown(fields: Schema) -> pa.Schema:
    """The Arrow schema of the fields in Spark, which has no unsigned numbers."""
    return signed(fields).to_arrow()


def selected(plan: ScanPlan, snapshot: Snapshot, own: pa.Schema, added: Sequence[str], schema: StructType) -> ScanPlan:
    """The plan for those columns of `schema` that the table has.

    `added` are others of `own`, all columns of the read, which it returns itself.
    """
    if schema == to_spark(own):
        return plan
    wanted = StructType([field for field in schema.fields if field.name not in added])
    is_own = all(name in own.names for name in wanted.names)
    return only(plan, own if is_own else shown(plan.known(snapshot)), wanted)


def only(plan: ScanPlan, known: pa.Schema, wanted: StructType) -> ScanPlan:
    """The plan for the columns `wanted`, of those that are known."""
    columns = paths(known, wanted) if wanted.fields else ()
    return replace(plan, columns=columns, with_row_id=False, with_row_address=False)


def check_ids(snapshot: Snapshot, plan: ScanPlan) -> None:
    """Raise UnsupportedFeatureError for ids and addresses of rows of a log.

    They are null, but Spark relies on these columns not to be.
    """
    if not has_log(snapshot.manifest):
        return
    ids = [f.name for f in plan.fields(snapshot).fields if f.id in (ROW_ID, ROW_ADDRESS)]
    if ids:
        from lance_spark.table.mem_wal.scan import check_no_log

        check_no_log(snapshot, f"the column {ids[0]} of Spark")
