"""The doors through which rows get into tables, as values: each writes one row in its own way."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark import Dataset, LanceTable, PartitionedNamespace, lance_udf
from lance_spark.table.changes.alter import AlterColumn
from tests.rules import DECLARED, OLD, TYPES, Kind

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
    def by_path(self) -> str:
        """The path in the SQL catalog, also of a partitioned namespace."""
        return f"{CATALOG}.`{self.uri}`"

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
        """The rows in Spark, with the metadata of their columns."""
        frame = self.spark.createDataFrame(pa.table(dict(zip(rows.schema.names, rows.columns, strict=True))))
        for f in rows.schema:
            if f.metadata:
                frame = frame.withMetadata(f.name, {key.decode(): value.decode() for key, value in f.metadata.items()})
        return frame

    def addressed(self, rows: pa.Table) -> str:
        """A view of the rows without `id`, with the addresses that rows of this id have in the table."""
        own = self.spark.sql(f"SELECT _rowaddr, id FROM {self.in_catalog}")
        own.join(self.frame(rows), "id").drop("id").createOrReplaceTempView(f"{self.name}_values")
        return f"{self.name}_values"

    def seen(self, rows: pa.Table) -> str:
        """A view of the rows."""
        self.frame(rows).createOrReplaceTempView(f"{self.name}_rows")
        return f"{self.name}_rows"


@dataclass(frozen=True)
class Door:
    """A way to write rows. `without` says which rules, or cases of rules, do not apply to it, and why.

    `public` are the public methods and the kinds of writes of Spark that it stands for. An overwriting door leaves only the rows that it
    writes. A partitioned one writes to a partitioned namespace, whose column `id` divides the rows. `declare` makes a table without a
    version.
    """

    name: str
    kind: Kind
    write: Callable[[Place, pa.Table], object]
    spark: bool = True
    overwrites: bool = False
    partitioned: bool = False
    declare: Callable[[Place, pa.Schema], object] | None = None
    public: tuple[str, ...] = ()
    without: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _columns(rows: pa.Table) -> str:
    return ", ".join(rows.schema.names)


def _saved(place: Place, rows: pa.Table, mode: str = "append", **options: str) -> None:
    place.frame(rows).write.format("lance").mode(mode).options(**options).save(place.uri)


def _insert(table: str, place: Place, rows: pa.Table, what: str = "INTO") -> None:
    place.spark.sql(f"INSERT {what} {table} ({_columns(rows)}) SELECT {_columns(rows)} FROM {place.seen(rows)}")


def _replaced_where(table: str, place: Place, rows: pa.Table) -> None:
    place.spark.sql(f"INSERT INTO {table} REPLACE WHERE id >= 2 SELECT * FROM {place.seen(rows)}")


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


def _merge_insert(place: Place, rows: pa.Table, kind: type[Dataset | PartitionedNamespace] = Dataset) -> None:
    kind.open(place.uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _stream(place: Place, rows: pa.Table) -> Any:
    """A stream of the rows, from files."""
    folder = Path(place.uri).with_suffix(".in")
    place.frame(rows).write.parquet(str(folder / "rows"))
    frame = place.spark.read.parquet(str(folder / "rows"))
    stream = place.spark.readStream.schema(frame.schema).parquet(str(folder / "rows")).writeStream
    return stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)


def _streamed_into_log(place: Place, rows: pa.Table) -> None:
    Dataset.open(place.uri).initialize_mem_wal()
    shard = str(uuid.uuid4())
    stream = _stream(place, rows).format("lance").option("putIntoLog", "true").option("logShard", shard)
    stream.start(place.uri).awaitTermination()
    Dataset.open(place.uri).mem_wal_writer(shard).close()
    place.table.mergeMemWal()


def _columns_from(table: str, verb: str, place: Place, rows: pa.Table) -> None:
    names = ", ".join(_values(rows).names)
    place.spark.sql(f"ALTER TABLE {table} {verb} COLUMNS {names} FROM {place.addressed(rows)}")


def _values(rows: pa.Table) -> pa.Schema:
    """The columns of the rows without `id`."""
    return pa.schema([f for f in rows.schema if f.name != "id"])


def _added_by_function(place: Place, rows: pa.Table) -> None:
    [row] = rows.drop_columns("id").to_batches()
    schema = pa.schema([f.with_type(TYPES.get(f.name, f.type)) for f in row.schema])
    place.table.addColumns(lambda batch: pa.concat_batches([row] * batch.num_rows), schema=schema, columns=["id"])


def _retyped(rows: pa.Table, change: Callable[[str, str], object]) -> None:
    """Give each column the type that its case declares."""
    for f in _values(rows):
        name = {pa.int16(): "SMALLINT", pa.int64(): "BIGINT"}.get(TYPES[f.name])
        change(f.name, name or f.metadata[DECLARED.encode()].decode())


def _retyped_by_dataset(place: Place, rows: pa.Table) -> None:
    alterations: list[AlterColumn] = [{"path": f.name, "data_type": TYPES[f.name]} for f in _values(rows)]
    Dataset.open(place.uri).alter_columns(*alterations)


def _logged(place: Place, rows: pa.Table) -> None:
    """Write the rows to a log, as pylance does."""
    table = lance.dataset(place.uri)
    table.initialize_mem_wal()
    with table.mem_wal_writer(str(uuid.uuid4())) as writer:
        writer.put(rows.cast(table.schema))


def _put_into_log(place: Place, rows: pa.Table) -> None:
    """Put the rows into a log by our writer, and merge it, which fails for no row that the log has."""
    table = Dataset.open(place.uri).initialize_mem_wal()
    with table.mem_wal_writer(str(uuid.uuid4())) as writer:
        writer.put(rows)
    table.merge_mem_wal()


def _put_into_log_by_spark(place: Place, rows: pa.Table) -> None:
    Dataset.open(place.uri).initialize_mem_wal()
    shard = str(uuid.uuid4())
    place.table.putRows(place.frame(rows), shard=shard)
    Dataset.open(place.uri).mem_wal_writer(shard).close()
    place.table.mergeMemWal()


def _merged_log(place: Place, rows: pa.Table) -> None:
    _logged(place, rows)
    Dataset.open(place.uri).merge_mem_wal()


def _merged_log_by_spark(place: Place, rows: pa.Table) -> None:
    _logged(place, rows)
    place.table.mergeMemWal()


def _declared_in_session(place: Place, columns: pa.Schema) -> None:
    """A table that only the session catalog knows, until it gets rows."""
    names = {pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.list_(pa.int32()): "ARRAY<INT>"}
    texts = []
    for f in columns:
        metadata = {key.decode(): value.decode() for key, value in (f.metadata or {}).items()}
        default = f" DEFAULT {metadata['CURRENT_DEFAULT']}" if "CURRENT_DEFAULT" in metadata else ""
        texts.append(f"{f.name} {metadata.get(DECLARED) or names.get(f.type, 'STRING')}{'' if f.nullable else ' NOT NULL'}{default}")
    place.spark.sql(f"CREATE TABLE spark_catalog.default.{place.name} ({', '.join(texts)}) USING lance LOCATION '{place.uri}'")


def _insert_into(table: str, place: Place, rows: pa.Table, overwrite: bool) -> None:
    """The columns go by position: the rows have all of them, in order."""
    place.frame(rows).write.insertInto(table, overwrite=overwrite)


def _converted(place: Place, rows: pa.Table) -> None:
    folder = str(Path(place.uri).with_suffix(".in"))
    place.frame(rows).write.parquet(folder)
    LanceTable.convert(place.spark, f"parquet.`{folder}`", place.uri, progress=False)


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


def _created_as(table: str, statement: str, place: Place, rows: pa.Table) -> None:
    place.spark.sql(f"{statement} {table} USING lance LOCATION '{place.uri}' AS SELECT * FROM {place.seen(rows)}")


def _saved_as(table: str, mode: str, place: Place, rows: pa.Table) -> None:
    place.frame(rows).write.format("lance").mode(mode).option("path", place.uri).saveAsTable(table)


def _in_namespace(place: Place, rows: pa.Table, mode: Any = "append", **options: str) -> None:
    PartitionedNamespace.open(place.uri).write(rows, mode, **options)


OF_VALUES = dict.fromkeys(
    ("a number that is too large", "a vector", "a vector of another size", "a blob", "length"), "a new column has the type of its values"
)
REPLACED = dict.fromkeys(("match", "default", "generate", "cast", "not null"), "the columns become those of the rows")
OF_ROWS = {**REPLACED, "length": "the columns become those of the rows, with all that these declare"}
NEW_BY_SPARK = {"length": "only a statement declares CHAR", "a null": "Spark does not declare what may be null"}
BY_POSITION = dict.fromkeys(("match", "default", "generate", "a missing column"), "the rows have all columns, which go by position")
OF_PARTITIONS = {"check": "a namespace has no constraints", "generate": "a namespace refuses GENERATED columns"}
LOGGED = dict.fromkeys(
    ("match", "default", "generate", "cast", "not null"), "pylance's writer of a log takes only rows that have the columns of the table"
)
PUT_INTO_LOG = dict.fromkeys(
    ("a blob", "an identity", "a number of an identity"), "such columns cannot be in a write-ahead log, and are refused by its writer"
)
DECLARED_ONLY = dict.fromkeys(
    ("check", "generate", "a stranger's", "a null in a primary key", "a vector", "a vector of another size", "a blob"),
    "CREATE TABLE of the session catalog does not declare it",
)

DOORS: tuple[Door, ...] = (
    Door(
        "Dataset.write append",
        "inserted",
        lambda p, rows: Dataset.write(p.uri, rows, mode="append"),
        spark=False,
        public=("Dataset.write",),
    ),
    Door("Dataset.write create", "created", lambda p, rows: Dataset.write(p.uri, rows), spark=False, public=("Dataset.write",)),
    Door(
        "Dataset.write overwrite",
        "inserted",
        lambda p, rows: Dataset.write(p.uri, rows, mode="overwrite"),
        spark=False,
        overwrites=True,
        public=("Dataset.write",),
        without=OF_ROWS,
    ),
    Door("Dataset.insert", "inserted", lambda p, rows: Dataset.open(p.uri).insert(rows), spark=False, public=("Dataset.insert",)),
    Door(
        "Dataset.add_columns",
        "added",
        lambda p, rows: Dataset.open(p.uri).add_columns(_assigned(rows)),
        spark=False,
        public=("Dataset.add_columns",),
        without=OF_VALUES,
    ),
    Door(
        "Dataset.alter_columns",
        "retyped",
        _retyped_by_dataset,
        spark=False,
        public=("Dataset.alter_columns",),
        without={"length": "the types of pyarrow have no lengths"},
    ),
    Door("Dataset.mem_wal_writer", "inserted", _put_into_log, spark=False, public=("Dataset.mem_wal_writer",), without=PUT_INTO_LOG),
    Door("Dataset.merge_mem_wal", "inserted", _merged_log, spark=False, public=("Dataset.merge_mem_wal",), without=LOGGED),
    Door(
        "PartitionedNamespace.write append",
        "inserted",
        _in_namespace,
        spark=False,
        partitioned=True,
        public=("PartitionedNamespace.write",),
        without=OF_PARTITIONS,
    ),
    Door(
        "PartitionedNamespace.write overwrite",
        "inserted",
        lambda p, rows: _in_namespace(p, rows, "overwrite"),
        spark=False,
        partitioned=True,
        overwrites=True,
        public=("PartitionedNamespace.write",),
        without=OF_PARTITIONS,
    ),
    Door(
        "PartitionedNamespace.write dynamic",
        "inserted",
        lambda p, rows: _in_namespace(p, rows, "dynamic"),
        spark=False,
        partitioned=True,
        public=("PartitionedNamespace.write",),
        without=OF_PARTITIONS,
    ),
    Door(
        "PartitionedNamespace.write replaceWhere",
        "inserted",
        lambda p, rows: _in_namespace(p, rows, "overwrite", replace_where="id >= 2"),
        spark=False,
        partitioned=True,
        public=("PartitionedNamespace.write",),
        without=OF_PARTITIONS,
    ),
    Door(
        "PartitionedNamespace.merge_insert inserts",
        "inserted",
        lambda p, rows: _merge_insert(p, rows, PartitionedNamespace),
        spark=False,
        partitioned=True,
        public=("PartitionedNamespace.merge_insert",),
        without=OF_PARTITIONS,
    ),
    Door(
        "PartitionedNamespace.merge_insert updates",
        "updated",
        lambda p, rows: _merge_insert(p, rows, PartitionedNamespace),
        spark=False,
        partitioned=True,
        public=("PartitionedNamespace.merge_insert",),
        without=OF_PARTITIONS,
    ),
    Door(
        "PartitionedNamespace.update",
        "updated",
        lambda p, rows: PartitionedNamespace.open(p.uri).update(_assigned(rows), f"id = {OLD}"),
        spark=False,
        partitioned=True,
        public=("PartitionedNamespace.update",),
        without=OF_PARTITIONS,
    ),
    Door("Dataset.merge_insert inserts", "inserted", _merge_insert, spark=False, public=("Dataset.merge_insert",)),
    Door("Dataset.merge_insert updates", "updated", _merge_insert, spark=False, public=("Dataset.merge_insert",)),
    Door(
        "Dataset.update",
        "updated",
        lambda p, rows: Dataset.open(p.uri).update(_assigned(rows), f"id = {OLD}"),
        spark=False,
        public=("Dataset.update",),
    ),
    Door(
        "Dataset.update in place",
        "values",
        lambda p, rows: Dataset.open(p.uri).update(_assigned(rows)),
        spark=False,
        public=("Dataset.update",),
    ),
    Door("save append", "inserted", _saved, public=("Rows",)),
    Door("save append of a new table", "created", _saved, without=NEW_BY_SPARK, public=("Rows",)),
    Door(
        "save overwrite of the columns",
        "inserted",
        lambda p, rows: _saved(p, rows, "overwrite"),
        overwrites=True,
        without=REPLACED,
        public=("Rows",),
    ),
    Door("save append to partitions", "inserted", _saved, partitioned=True, without=OF_PARTITIONS, public=("Partitions",)),
    Door(
        "save overwrite of partitions",
        "inserted",
        lambda p, rows: _saved(p, rows, "overwrite"),
        partitioned=True,
        overwrites=True,
        without=OF_PARTITIONS,
        public=("Partitions",),
    ),
    Door(
        "save replaceWhere of partitions",
        "inserted",
        lambda p, rows: _saved(p, rows, "overwrite", replaceWhere="id >= 2"),
        partitioned=True,
        without=OF_PARTITIONS,
        public=("Partitions",),
    ),
    Door("insertInto the SQL catalog", "inserted", lambda p, rows: _insert_into(p.in_catalog, p, rows, False), without=BY_POSITION),
    Door(
        "insertInto overwrite in the SQL catalog",
        "inserted",
        lambda p, rows: _insert_into(p.in_catalog, p, rows, True),
        overwrites=True,
        without=BY_POSITION,
    ),
    Door("insertInto the session catalog", "inserted", lambda p, rows: _insert_into(p.in_session, p, rows, False), without=BY_POSITION),
    Door(
        "insertInto overwrite in the session catalog",
        "inserted",
        lambda p, rows: _insert_into(p.in_session, p, rows, True),
        overwrites=True,
        without=BY_POSITION,
    ),
    Door(
        "INSERT of first rows",
        "inserted",
        lambda p, rows: _insert(p.in_session, p, rows),
        declare=_declared_in_session,
        overwrites=True,
        without=DECLARED_ONLY,
        public=("Rows",),
    ),
    Door(
        "save append of first rows",
        "inserted",
        lambda p, rows: p.frame(rows).write.format("lance").mode("append").saveAsTable(p.in_session),
        declare=_declared_in_session,
        overwrites=True,
        without=DECLARED_ONLY,
        public=("Rows",),
    ),
    Door(
        "MERGE of first rows",
        "inserted",
        lambda p, rows: _merged(p.in_session, p, rows),
        declare=_declared_in_session,
        overwrites=True,
        without=DECLARED_ONLY,
        public=("FirstRows",),
    ),
    Door("writeTo create", "created", lambda p, rows: p.frame(rows).writeTo(p.in_catalog).create(), without=NEW_BY_SPARK),
    Door(
        "writeTo createOrReplace",
        "inserted",
        lambda p, rows: p.frame(rows).writeTo(p.in_catalog).createOrReplace(),
        overwrites=True,
        without=OF_ROWS,
    ),
    Door("writeTo replace", "inserted", lambda p, rows: p.frame(rows).writeTo(p.in_catalog).replace(), overwrites=True, without=OF_ROWS),
    Door(
        "writeTo replace in the session catalog",
        "inserted",
        lambda p, rows: p.frame(rows).writeTo(p.in_session).using("lance").replace(),
        overwrites=True,
        without=OF_ROWS,
    ),
    Door(
        "CREATE AS SELECT in the SQL catalog",
        "created",
        lambda p, rows: _created_as(p.in_catalog, "CREATE TABLE", p, rows),
        without=NEW_BY_SPARK,
    ),
    Door(
        "CREATE AS SELECT in the session catalog",
        "created",
        lambda p, rows: _created_as(f"spark_catalog.default.{p.name}", "CREATE TABLE", p, rows),
        without=NEW_BY_SPARK,
    ),
    Door(
        "REPLACE AS SELECT in the SQL catalog",
        "inserted",
        lambda p, rows: _created_as(p.in_catalog, "REPLACE TABLE", p, rows),
        overwrites=True,
        without=OF_ROWS,
    ),
    Door(
        "REPLACE AS SELECT in the session catalog",
        "inserted",
        lambda p, rows: _created_as(p.in_session, "REPLACE TABLE", p, rows),
        overwrites=True,
        without=OF_ROWS,
    ),
    Door("saveAsTable of a new table", "created", lambda p, rows: _saved_as(p.in_catalog, "error", p, rows), without=NEW_BY_SPARK),
    Door(
        "saveAsTable of a new table in the session catalog",
        "created",
        lambda p, rows: _saved_as(f"spark_catalog.default.{p.name}", "error", p, rows),
        without=NEW_BY_SPARK,
    ),
    Door(
        "saveAsTable overwrite",
        "inserted",
        lambda p, rows: _saved_as(p.in_catalog, "overwrite", p, rows),
        overwrites=True,
        without=OF_ROWS,
    ),
    Door(
        "saveAsTable overwrite in the session catalog",
        "inserted",
        lambda p, rows: _saved_as(p.in_session, "overwrite", p, rows),
        overwrites=True,
        without=OF_ROWS,
    ),
    Door("LanceTable.putRows", "inserted", _put_into_log_by_spark, public=("LanceTable.putRows",), without=PUT_INTO_LOG),
    Door("LanceTable.mergeMemWal", "inserted", _merged_log_by_spark, public=("LanceTable.mergeMemWal",), without=LOGGED),
    Door("convert", "created", _converted, without=NEW_BY_SPARK, public=("LanceTable.convert",)),
    Door(
        "LanceTable.addColumns of texts",
        "added",
        lambda p, rows: p.table.addColumns(_assigned(rows)),
        without=OF_VALUES,
        public=("LanceTable.addColumns",),
    ),
    Door(
        "LanceTable.addColumns by Spark",
        "added",
        lambda p, rows: p.table.addColumns({name: F.expr(text) for name, text in _assigned(rows).items()}),
        without=OF_VALUES,
        public=("LanceTable.addColumns",),
    ),
    Door(
        "LanceTable.addColumns of a DataFrame",
        "added",
        lambda p, rows: p.table.addColumns(p.frame(rows), on="id"),
        without=OF_VALUES,
        public=("LanceTable.addColumns",),
    ),
    Door("LanceTable.addColumns of a function", "added", _added_by_function, public=("LanceTable.addColumns",)),
    Door(
        "ADD COLUMNS FROM",
        "added",
        lambda p, rows: _columns_from(p.in_catalog, "ADD", p, rows),
        without=OF_VALUES,
        public=("ColumnValues",),
    ),
    Door(
        "ADD COLUMNS FROM in the session catalog",
        "added",
        lambda p, rows: _columns_from(p.in_session, "ADD", p, rows),
        without=OF_VALUES,
        public=("ColumnValues",),
    ),
    Door(
        "LanceTable.alterColumn",
        "retyped",
        lambda p, rows: _retyped(rows, lambda name, t: p.table.alterColumn(name, type=t)),
        public=("LanceTable.alterColumn",),
    ),
    Door(
        "ALTER TYPE in the SQL catalog",
        "retyped",
        lambda p, rows: _retyped(rows, lambda name, t: p.spark.sql(f"ALTER TABLE {p.in_catalog} ALTER COLUMN {name} TYPE {t}")),
    ),
    Door(
        "ALTER TYPE in the session catalog",
        "retyped",
        lambda p, rows: _retyped(rows, lambda name, t: p.spark.sql(f"ALTER TABLE {p.in_session} ALTER COLUMN {name} TYPE {t}")),
    ),
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
    Door(
        "lance_spark.write",
        "inserted",
        lambda p, rows: lance_spark.write(p.frame(rows), p.uri, mode="append"),
        public=("lance_spark.write", "Rows"),
    ),
    Door("INSERT in the SQL catalog", "inserted", lambda p, rows: _insert(p.in_catalog, p, rows)),
    Door("INSERT OVERWRITE in the SQL catalog", "inserted", lambda p, rows: _insert(p.in_catalog, p, rows, "OVERWRITE"), overwrites=True),
    Door("INSERT in the session catalog", "inserted", lambda p, rows: _insert(p.in_session, p, rows)),
    Door(
        "INSERT OVERWRITE in the session catalog", "inserted", lambda p, rows: _insert(p.in_session, p, rows, "OVERWRITE"), overwrites=True
    ),
    Door(
        "INSERT REPLACE WHERE in the SQL catalog",
        "inserted",
        lambda p, rows: _replaced_where(p.in_catalog, p, rows),
        without=BY_POSITION,
    ),
    Door(
        "INSERT REPLACE WHERE in the session catalog",
        "inserted",
        lambda p, rows: _replaced_where(p.in_session, p, rows),
        without=BY_POSITION,
    ),
    Door("INSERT into a view", "inserted", lambda p, rows: _insert(p.view, p, rows)),
    Door(
        "INSERT OVERWRITE into a view",
        "inserted",
        lambda p, rows: _insert(p.view, p, rows, "OVERWRITE"),
        overwrites=True,
    ),
    Door(
        "writeTo append in the session catalog",
        "inserted",
        lambda p, rows: p.frame(rows).writeTo(p.in_session).append(),
    ),
    Door(
        "writeTo overwrite in the session catalog",
        "inserted",
        lambda p, rows: p.frame(rows).writeTo(p.in_session).overwrite(F.col("id") >= 2),
    ),
    Door("writeTo append", "inserted", lambda p, rows: p.frame(rows).writeTo(p.in_catalog).append()),
    Door("writeTo overwrite", "inserted", lambda p, rows: p.frame(rows).writeTo(p.in_catalog).overwrite(F.col("id") >= 2)),
    Door("saveAsTable append", "inserted", lambda p, rows: p.frame(rows).write.mode("append").saveAsTable(p.in_catalog)),
    Door(
        "saveAsTable append in the session catalog",
        "inserted",
        lambda p, rows: p.frame(rows).write.format("lance").mode("append").saveAsTable(p.in_session),
    ),
    Door("MERGE inserts", "inserted", lambda p, rows: _merged(p.in_catalog, p, rows), public=("Delta",)),
    Door("MERGE inserts into a view", "inserted", lambda p, rows: _merged(p.view, p, rows)),
    Door("MERGE updates", "updated", lambda p, rows: _merged(p.in_catalog, p, rows), public=("Delta",)),
    Door(
        "UPDATE",
        "updated",
        lambda p, rows: p.spark.sql(f"UPDATE {p.in_catalog} SET {_settings(rows)} WHERE id = {OLD}"),
        public=("Delta",),
    ),
    Door(
        "MERGE inserts into a partitioned namespace",
        "inserted",
        lambda p, rows: _merged(p.by_path, p, rows),
        partitioned=True,
        public=("PartitionedDelta",),
        without=OF_PARTITIONS,
    ),
    Door(
        "MERGE updates a partitioned namespace",
        "updated",
        lambda p, rows: _merged(p.by_path, p, rows),
        partitioned=True,
        public=("PartitionedDelta",),
        without=OF_PARTITIONS,
    ),
    Door(
        "UPDATE of a partitioned namespace",
        "updated",
        lambda p, rows: p.spark.sql(f"UPDATE {p.by_path} SET {_settings(rows)} WHERE id = {OLD}"),
        partitioned=True,
        public=("PartitionedDelta",),
        without=OF_PARTITIONS,
    ),
    Door(
        "LanceTable.merge inserts into a partitioned namespace",
        "inserted",
        lambda p, rows: _merge_of_table(p, rows, False),
        partitioned=True,
        public=("LanceTable.merge",),
        without=OF_PARTITIONS,
    ),
    Door(
        "LanceTable.update of a partitioned namespace",
        "updated",
        lambda p, rows: p.table.update(f"id = {OLD}", _assigned(rows)),
        partitioned=True,
        public=("LanceTable.update",),
        without=OF_PARTITIONS,
    ),
    Door("LanceTable.merge inserts", "inserted", lambda p, rows: _merge_of_table(p, rows, False), public=("LanceTable.merge",)),
    Door("LanceTable.merge inserts by a join", "inserted", lambda p, rows: _merge_of_table(p, rows, True), public=("LanceTable.merge",)),
    Door("LanceTable.merge inserts by two clauses", "inserted", _inserted_by_two_clauses, public=("LanceTable.merge",)),
    Door("LanceTable.merge updates", "updated", lambda p, rows: _merge_of_table(p, rows, False), public=("LanceTable.merge",)),
    Door("LanceTable.merge updates by a join", "updated", lambda p, rows: _merge_of_table(p, rows, True), public=("LanceTable.merge",)),
    Door("LanceTable.update", "updated", lambda p, rows: p.table.update(f"id = {OLD}", _assigned(rows)), public=("LanceTable.update",)),
    Door(
        "LanceTable.update by Spark",
        "updated",
        lambda p, rows: p.table.update(F.col("id") == OLD, {k: F.expr(v) for k, v in _assigned(rows).items()}),
        public=("LanceTable.update",),
    ),
    Door(
        "LanceTable.updateColumns",
        "values",
        lambda p, rows: p.table.updateColumns(p.frame(rows), "id"),
        public=("LanceTable.updateColumns",),
    ),
    Door("UPDATE COLUMNS FROM", "values", lambda p, rows: _columns_from(p.in_session, "UPDATE", p, rows), public=("ColumnValues",)),
    Door("backfill", "values", _backfill, without={"a column that the table lacks": "it is added"}, public=("LanceTable.backfill",)),
    Door(
        "writeStream to a path",
        "inserted",
        lambda p, rows: _stream(p, rows).format("lance").start(p.uri).awaitTermination(),
        public=("LanceStreamWriter",),
    ),
    Door(
        "writeStream to a name of the session catalog",
        "inserted",
        lambda p, rows: _stream(p, rows).format("lance").toTable(p.in_session).awaitTermination(),
        public=("LanceStreamWriter",),
    ),
    Door(
        "writeStream to a name",
        "inserted",
        lambda p, rows: _stream(p, rows).toTable(p.in_catalog).awaitTermination(),
        public=("LanceStreamWriter",),
    ),
    Door("writeStream into the log", "inserted", _streamed_into_log, public=("LogStreamWriter",), without=PUT_INTO_LOG),
    Door(
        "foreachBatch",
        "inserted",
        lambda p, rows: (
            _stream(p, rows).foreachBatch(lambda df, _: df.write.format("lance").mode("append").save(p.uri)).start().awaitTermination()
        ),
    ),
)

NO_DOORS: Mapping[str, frozenset[str]] = {
    "it reads": frozenset(
        {
            *(
                f"Dataset.{name}"
                for name in (
                    *("branches", "changes", "checkout_version", "consumers", "count_rows", "head", "history", "index_statistics"),
                    *(
                        "last_change",
                        "list_indices",
                        "maintenance_report",
                        "mem_wal_index_details",
                        "metadata_table",
                        "open",
                        "recall",
                        "evaluate_search",
                        "search_snapshot",
                        "replay",
                        "sample",
                        "scan",
                        "schema",
                        "tags",
                        "take",
                        "take_blobs",
                    ),
                    *("take_rows", "to_arrow_dataset", "to_batches", "to_pandas", "to_polars", "to_table"),
                    *("uri", "verify", "version", "versions"),
                )
            ),
            *(
                f"LanceTable.{name}"
                for name in (
                    *("alias", "backfillFailures", "branches", "changes", "consumers", "detail", "forName", "forPath", "history"),
                    *(
                        "indexStatistics",
                        "isLanceTable",
                        "listIndices",
                        "maintenanceReport",
                        "metadataTable",
                        "nearDuplicateVectors",
                        "nearDuplicates",
                    ),
                    *("nearestJoin", "search", "tags", "toDF", "verify"),
                )
            ),
            *(
                f"PartitionedNamespace.{name}"
                for name in ("changes", "count_rows", "open", "partitions", "scan", "schema", "spec", "specs", "uri", "verify", "version")
            ),
            *(f"lance_spark.{name}" for name in ("catalog", "enable", "lance_udf", "last_change", "namespace")),
        }
    ),
    "it writes no rows": frozenset(
        {
            *(f"Dataset.{name}" for name in ("cleanup_old_versions", "commit", "create_branch", "create_index", "create_scalar_index")),
            *(
                f"Dataset.{name}"
                for name in (
                    "deep_clone",
                    "delete",
                    "drop_columns",
                    "drop_index",
                    "reorder_columns",
                    "restore",
                    "shallow_clone",
                    "update_config",
                )
            ),
            *(
                f"LanceTable.{name}"
                for name in ("create", "createBranch", "createIfNotExists", "createIndex", "createOrReplace", "deepClone")
            ),
            *(
                f"LanceTable.{name}"
                for name in ("delete", "dropColumns", "dropIndex", "optimizeIndices", "renameColumn", "reorderColumns", "replace")
            ),
            *(f"LanceTable.{name}" for name in ("restoreToTimestamp", "restoreToVersion", "setPrimaryKey", "shallowClone", "vacuum")),
            *(f"PartitionedNamespace.{name}" for name in ("add_columns", "add_spec", "alter_column", "cleanup_old_versions", "create")),
            "Dataset.add_bases",
            "Dataset.maintain",
            "LanceTable.maintain",
            "Dataset.initialize_mem_wal",
            "LanceTable.initializeMemWal",
            "Dataset.migrate_manifest_paths_v2",
            "LanceTable.addBases",
            "PartitionedNamespace.delete",
            "PartitionedNamespace.drop_column",
            "PartitionedTruncation",
            "lance_spark.create_partitioned_namespace",
            "lance_spark.maintain",
            "lance_spark.transaction",
            "lance_spark.materialized_view",
            "Truncation",
        }
    ),
    "it writes rows of the table as they are": frozenset(
        {"Dataset.migrate", "Dataset.optimize", "LanceTable.migrate", "LanceTable.optimize", "PartitionedNamespace.compact"}
    ),
}
"""What is public and stands behind no door, by the reason."""
