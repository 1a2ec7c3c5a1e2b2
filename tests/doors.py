"""The doors through which rows get into tables, as values: each writes one row in its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark import Dataset, LanceTable, lance_udf
from tests.rules import OLD, Kind

CATALOG = "doors"


@dataclass(frozen=True)
class Place:
    """A table at `uri` with all of its names. `spark` is None for doors that need no Spark."""

    session: SparkSession | None
    uri: str

    @property
    def spark(self) -> SparkSession:
        """The session."""
        assert self.session is not None
        return self.session

    @property
    def name(self) -> str:
        """The name of the table in each catalog."""
        return Path(self.uri).stem

    @property
    def in_catalog(self) -> str:
        """The table in the SQL catalog."""
        return f"{CATALOG}.{self.name}"

    @property
    def in_session(self) -> str:
        """The table in the session catalog."""
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS spark_catalog.default.{self.name} USING lance LOCATION '{self.uri}'")
        return f"spark_catalog.default.{self.name}"

    @property
    def view(self) -> str:
        """A view of the path."""
        self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {self.name}_seen USING lance OPTIONS (path '{self.uri}')")
        return f"{self.name}_seen"

    @property
    def table(self) -> LanceTable:
        """The table at the path."""
        return LanceTable.forPath(self.spark, self.uri)

    def frame(self, rows: pa.Table) -> DataFrame:
        """The rows in Spark."""
        return self.spark.createDataFrame(rows)

    def seen(self, rows: pa.Table) -> str:
        """A view of the rows."""
        self.frame(rows).createOrReplaceTempView(f"{self.name}_rows")
        return f"{self.name}_rows"


@dataclass(frozen=True)
class Door:
    """A way to write rows. `public` are the public methods that it stands for; `without` says which rules do not apply to it, and why.

    An overwriting door leaves only the rows that it writes.
    """

    name: str
    kind: Kind
    write: Callable[[Place, pa.Table], object]
    spark: bool = True
    overwrites: bool = False
    without: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _columns(rows: pa.Table) -> str:
    return ", ".join(rows.schema.names)


def _saved(place: Place, rows: pa.Table, mode: str = "append", **options: str) -> None:
    place.frame(rows).write.format("lance").mode(mode).options(**options).save(place.uri)


def _insert(table: str, place: Place, rows: pa.Table, what: str = "INTO") -> None:
    place.spark.sql(f"INSERT {what} {table} ({_columns(rows)}) SELECT {_columns(rows)} FROM {place.seen(rows)}")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _assigned(rows: pa.Table) -> dict[str, str]:
    [row] = rows.to_pylist()
    return {name: _literal(value) for name, value in row.items() if name != "id"}


def _settings(rows: pa.Table, prefix: str = "") -> str:
    return ", ".join(f"{prefix}{name} = {prefix}{text}" for name, text in _assigned(rows).items())


def _merged(table: str, place: Place, rows: pa.Table) -> None:
    names = _columns(rows)
    values = ", ".join(f"s.{name}" for name in rows.schema.names)
    sets = ", ".join(f"{name} = s.{name}" for name in rows.schema.names if name != "id")
    updates = f"WHEN MATCHED THEN UPDATE SET {sets} " if sets else ""
    inserts = f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    place.spark.sql(f"MERGE INTO {table} t USING {place.seen(rows)} s ON t.id = s.id {updates}{inserts}")


def _merge_of_table(place: Place, rows: pa.Table, by_spark: bool) -> None:
    def value(name: str) -> Any:
        return F.col(f"s.{name}") if by_spark else f"s.{name}"

    values = {name: value(name) for name in rows.schema.names}
    new = {name: given for name, given in values.items() if name != "id"}
    merge = place.table.alias("t").merge(place.frame(rows).alias("s"), "t.id = s.id").whenNotMatchedInsert(values=values)
    (merge.whenMatchedUpdate(set=new) if new else merge).execute()


def _inserted_by_two_clauses(place: Place, rows: pa.Table) -> None:
    """Only the clause that does not apply gives all columns of the table values."""
    everything = {f.name: F.lit(None).cast(f.dataType) for f in place.table.toDF().schema.fields}
    values = {name: F.col(f"s.{name}") for name in rows.schema.names}
    merge = place.table.alias("t").merge(place.frame(rows).alias("s"), "t.id = s.id")
    merge.whenNotMatchedInsert(condition="s.id = 100", values=everything).whenNotMatchedInsert(values=values).execute()


def _schema(place: Place) -> pa.Schema:
    return Dataset.open(place.uri).schema


def _merge_insert(place: Place, rows: pa.Table) -> None:
    Dataset.open(place.uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _stream(place: Place, rows: pa.Table) -> Any:
    """A stream of the rows, from files."""
    folder = Path(place.uri).with_suffix(".in")
    place.frame(rows).write.parquet(str(folder / "rows"))
    frame = place.spark.read.parquet(str(folder / "rows"))
    stream = place.spark.readStream.schema(frame.schema).parquet(str(folder / "rows")).writeStream
    return stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)


def _update_columns_from(place: Place, rows: pa.Table) -> None:
    names = ", ".join(name for name in rows.schema.names if name != "id")
    own = place.spark.sql(f"SELECT _rowaddr, id FROM {place.in_catalog}")
    own.join(place.frame(rows), "id").drop("id").createOrReplaceTempView(f"{place.name}_values")
    place.spark.sql(f"ALTER TABLE {place.in_session} UPDATE COLUMNS {names} FROM {place.name}_values")


def _backfill(place: Place, rows: pa.Table) -> None:
    for name in rows.schema.names:
        if name != "id":
            _backfill_column(place, rows, name)


def _backfill_column(place: Place, rows: pa.Table, name: str) -> None:
    column, t = rows.column(name).combine_chunks(), next(f.type for f in _schema(place) if f.name == name.lower())

    @lance_udf(t, inputs=["id"])
    def value(id: pa.Array) -> pa.Array:
        return pa.concat_arrays([column] * len(id))

    place.table.backfill(name, value)



DOORS: tuple[Door, ...] = (
    Door("Dataset.write append", "inserted", lambda p, rows: Dataset.write(p.uri, rows, mode="append"), spark=False),
    Door("Dataset.insert", "inserted", lambda p, rows: Dataset.open(p.uri).insert(rows), spark=False),
    Door("Dataset.merge_insert inserts", "inserted", _merge_insert, spark=False),
    Door("Dataset.merge_insert updates", "updated", _merge_insert, spark=False),
    Door("Dataset.update", "updated", lambda p, rows: Dataset.open(p.uri).update(_assigned(rows), f"id = {OLD}"), spark=False),
    Door("Dataset.update in place", "values", lambda p, rows: Dataset.open(p.uri).update(_assigned(rows)), spark=False),
    Door("save append", "inserted", _saved),
    Door(
        "save mergeSchema",
        "inserted",
        lambda p, rows: _saved(p, rows.append_column("added", [[1]]), mergeSchema="true"),
        without={"a column that the table lacks": "it is added"},
    ),
    Door(
        "save overwrite",
        "inserted",
        lambda p, rows: _saved(p, rows, "overwrite", overwriteSchema="false"),
        overwrites=True,
    ),
    Door("save replaceWhere", "inserted", lambda p, rows: _saved(p, rows, "overwrite", replaceWhere="id >= 2")),
    Door("lance_spark.write", "inserted", lambda p, rows: lance_spark.write(p.frame(rows), p.uri, mode="append")),
    Door("INSERT in the SQL catalog", "inserted", lambda p, rows: _insert(p.in_catalog, p, rows)),
    Door("INSERT OVERWRITE in the SQL catalog", "inserted", lambda p, rows: _insert(p.in_catalog, p, rows, "OVERWRITE"), overwrites=True),
    Door("INSERT in the session catalog", "inserted", lambda p, rows: _insert(p.in_session, p, rows)),
    Door(
        "INSERT OVERWRITE in the session catalog", "inserted", lambda p, rows: _insert(p.in_session, p, rows, "OVERWRITE"), overwrites=True
    ),
    Door("INSERT into a view", "inserted", lambda p, rows: _insert(p.view, p, rows)),
    Door("writeTo append", "inserted", lambda p, rows: p.frame(rows).writeTo(p.in_catalog).append()),
    Door("writeTo overwrite", "inserted", lambda p, rows: p.frame(rows).writeTo(p.in_catalog).overwrite(F.col("id") >= 2)),
    Door("saveAsTable append", "inserted", lambda p, rows: p.frame(rows).write.mode("append").saveAsTable(p.in_catalog)),
    Door(
        "saveAsTable append in the session catalog",
        "inserted",
        lambda p, rows: p.frame(rows).write.format("lance").mode("append").saveAsTable(p.in_session),
    ),
    Door("MERGE inserts", "inserted", lambda p, rows: _merged(p.in_catalog, p, rows)),
    Door("MERGE inserts into a view", "inserted", lambda p, rows: _merged(p.view, p, rows)),
    Door("MERGE updates", "updated", lambda p, rows: _merged(p.in_catalog, p, rows)),
    Door("UPDATE", "updated", lambda p, rows: p.spark.sql(f"UPDATE {p.in_catalog} SET {_settings(rows)} WHERE id = {OLD}")),
    Door("LanceTable.merge inserts", "inserted", lambda p, rows: _merge_of_table(p, rows, False)),
    Door("LanceTable.merge inserts by a join", "inserted", lambda p, rows: _merge_of_table(p, rows, True)),
    Door("LanceTable.merge inserts by two clauses", "inserted", _inserted_by_two_clauses),
    Door("LanceTable.merge updates", "updated", lambda p, rows: _merge_of_table(p, rows, False)),
    Door("LanceTable.merge updates by a join", "updated", lambda p, rows: _merge_of_table(p, rows, True)),
    Door("LanceTable.update", "updated", lambda p, rows: p.table.update(f"id = {OLD}", _assigned(rows))),
    Door(
        "LanceTable.update by Spark",
        "updated",
        lambda p, rows: p.table.update(F.col("id") == OLD, {k: F.expr(v) for k, v in _assigned(rows).items()}),
    ),
    Door("LanceTable.updateColumns", "values", lambda p, rows: p.table.updateColumns(p.frame(rows), "id")),
    Door("UPDATE COLUMNS FROM", "values", _update_columns_from),
    Door("backfill", "values", _backfill, without={"a column that the table lacks": "it is added"}),
    Door("writeStream to a path", "inserted", lambda p, rows: _stream(p, rows).format("lance").start(p.uri).awaitTermination()),
    Door("writeStream to a name", "inserted", lambda p, rows: _stream(p, rows).toTable(p.in_catalog).awaitTermination()),
    Door(
        "foreachBatch",
        "inserted",
        lambda p, rows: (
            _stream(p, rows).foreachBatch(lambda df, _: df.write.format("lance").mode("append").save(p.uri)).start().awaitTermination()
        ),
    ),
)
