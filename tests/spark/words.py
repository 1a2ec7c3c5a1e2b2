"""The words of Spark's writers and of its catalog, each with what it means: the cells of `test_words`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark_session import SPARK_VERSION

COLUMNS = "id INT, c STRING, n INT"
WIDE = f"{COLUMNS}, w INT"
OLD, NEW = (1, "a", 1), (2, "a", 1)
BOTH, PLACES, NAMED, PATH = [OLD, NEW], ("path", "session", "sql"), ("session", "sql"), ("path",)
EXISTS, MISSING = "TABLE_OR_VIEW_ALREADY_EXISTS", "TABLE_OR_VIEW_NOT_FOUND"
NO_PARTITIONS = "have no partitions or buckets: .*use CLUSTER BY .clusterBy."
OTHER_CLUSTERS = "clustering columns do not match"
NOT_BELOW = "is not below the root of the namespace"


@dataclass(frozen=True)
class Target:
    """A table, by its name in SQL. `path` is the location of one that is named by its path; `folder` is for other files."""

    spark: SparkSession
    name: str
    folder: Path
    path: str = ""

    @property
    def exists(self) -> bool:
        return self.spark.catalog.tableExists(self.name)

    @property
    def database(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.table(self.name).collect())

    @property
    def properties(self) -> dict[str, str]:
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return {row.key: row.value for row in rows if row.key != "owner"}

    def frame(self, columns: str = COLUMNS) -> DataFrame:
        """One new row."""
        values = dict(zip(["id", "c", "n", "w"], (*NEW, 9), strict=True))
        return self.spark.createDataFrame([tuple(values[column.split()[0]] for column in columns.split(", "))], columns)

    def writer(self, mode: str | None = "append", columns: str = COLUMNS, format: str | None = "lance") -> Any:
        """DataFrameWriter of a new row."""
        writer = self.frame(columns).write
        writer = writer if format is None else writer.format(format)
        return writer if mode is None else writer.mode(mode)

    def stream(self, columns: str = COLUMNS) -> DataFrame:
        """A stream of one new row."""
        source = f"{self.folder}/source.lance"
        self.frame(columns).write.format("lance").mode("append").save(source)
        return self.spark.readStream.format("lance").load(source)


Call = Callable[[Target], Any]
Modify = Callable[[Any], Any]


@dataclass(frozen=True)
class Word:
    """What a user writes: `call`. Then the table `shows` what is `expected`; a text is that of an error.

    `starts`: before, there is a table with one row. `places` are those where it can be said; `elsewhere` is what is expected in one of
    them, if it is not `expected`. `leaves`: the error is that of a second call, and the first one has made the table.
    """

    name: str
    call: Call
    expected: object
    starts: bool = True
    places: tuple[str, ...] = PLACES
    shows: Call = lambda t: t.rows
    elsewhere: tuple[str, object] | None = None
    leaves: bool = False

    def at(self, place: str) -> object:
        """What is expected at a place."""
        return self.elsewhere[1] if self.elsewhere is not None and self.elsewhere[0] == place else self.expected


def _nothing(t: Target) -> None:
    pass


def _same(writer: Any) -> Any:
    return writer


def _both(first: Call, second: Call) -> Call:
    """Two calls, one after the other."""

    def run(t: Target) -> None:
        first(t)
        second(t)

    return run


def _save(mode: str | None = "append", modify: Modify = _same, columns: str = COLUMNS) -> Call:
    return lambda t: modify(t.writer(mode, columns)).save(t.path)


def _save_as_table(mode: str | None = "append", modify: Modify = _same, columns: str = COLUMNS, format: str | None = "lance") -> Call:
    return lambda t: modify(t.writer(mode, columns, format)).saveAsTable(t.name)


def _insert_into(mode: str | None = None, modify: Modify = _same, columns: str = COLUMNS, format: str | None = "lance") -> Call:
    return lambda t: modify(t.writer(mode, columns, format)).insertInto(t.name)


def _write_to(end: Modify, columns: str = COLUMNS, format: str | None = "lance") -> Call:
    """`end` is all that follows `using`."""
    return lambda t: end(t.frame(columns).writeTo(t.name).using(format) if format else t.frame(columns).writeTo(t.name))


def _to_table(modify: Modify, columns: str = COLUMNS) -> Call:
    def run(t: Target) -> None:
        writer = modify(t.stream(columns).writeStream).option("checkpointLocation", f"{t.folder}/progress")
        writer.trigger(availableNow=True).toTable(t.name).awaitTermination()

    return run


def of_writer() -> Iterator[Word]:
    """DataFrameWriter: each mode of each end, with and without a format, with and without a table."""
    no_such_mode = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE.*Append.*Overwrite"
    for mode in (None, "append", "overwrite", "error", "errorifexists", "ignore", "default"):
        name = mode or ""
        saved = {"append": BOTH, "overwrite": [NEW]}.get(name, no_such_mode)
        saved_anew = [NEW] if name in ("append", "overwrite") else no_such_mode
        yield Word(f"save {mode}", _save(mode), saved, places=PATH)
        yield Word(f"save {mode} anew", _save(mode), saved_anew, starts=False, places=PATH)
        for format in ("lance", None):
            end = "" if format else " without a format"
            named = {"append": BOTH, "overwrite": [NEW], "ignore": [OLD]}.get(name, EXISTS)
            inserted = [NEW] if mode == "overwrite" else BOTH
            yield Word(f"saveAsTable {mode}{end}", _save_as_table(mode, format=format), named)
            yield Word(f"saveAsTable {mode} anew{end}", _save_as_table(mode, format=format), [NEW], starts=False)
            yield Word(f"insertInto {mode}{end}", _insert_into(mode, format=format), inserted)
            yield Word(f"insertInto {mode} anew{end}", _insert_into(mode, format=format), MISSING, starts=False)
    yield Word("insertInto overwrite=True", lambda t: t.writer(None).insertInto(t.name, overwrite=True), [NEW])
    yield Word("insertInto overwrite=False", lambda t: t.writer("overwrite").insertInto(t.name, overwrite=False), BOTH)
    yield Word("save by the option path", lambda t: t.writer().option("path", t.path).save(), BOTH, places=PATH)


def of_writer_v2() -> Iterator[Word]:
    """DataFrameWriterV2: each end, with and without a format, with and without a table."""
    partitioned = "require a partitioned namespace; use replaceWhere"
    ends: dict[str, tuple[Modify, object, object]] = {
        "create": (lambda w: w.create(), EXISTS, [NEW]),
        "replace": (lambda w: w.replace(), [NEW], MISSING),
        "createOrReplace": (lambda w: w.createOrReplace(), [NEW], [NEW]),
        "append": (lambda w: w.append(), BOTH, MISSING),
        "overwrite": (lambda w: w.overwrite(F.col("id") == 1), [NEW], MISSING),
        "overwrite of no row": (lambda w: w.overwrite(F.col("id") == 7), BOTH, MISSING),
        "overwritePartitions": (lambda w: w.overwritePartitions(), partitioned, MISSING),
    }
    for (name, (end, on_table, anew)), format in itertools.product(ends.items(), ("lance", None)):
        how = "" if format else " without a format"
        # Spark's own catalog makes a table of its default source, and replaces none by it.
        is_sparks = format is None and name in ("replace", "createOrReplace")
        elsewhere = ("session", "does not support REPLACE TABLE AS SELECT") if is_sparks else None
        yield Word(f"writeTo {name}{how}", _write_to(end, format=format), on_table)
        yield Word(f"writeTo {name} anew{how}", _write_to(end, format=format), anew, starts=False, elsewhere=elsewhere)


def of_modifiers() -> Iterator[Word]:
    """What stands before the end of a write: options, partitions, clusters, properties."""
    options: dict[str, tuple[Modify, str]] = {
        "option": (lambda w: w.option("max_rows_per_file", 1), ""),
        "options": (lambda w: w.options(max_rows_per_file="1"), ""),
        "unknown option": (lambda w: w.option("nearst", "1"), "unknown option 'nearst'; did you mean"),
        "option of reads": (lambda w: w.option("filter", "id > 1"), "'filter' applies only to reads"),
    }
    for name, (modify, error) in options.items():
        yield Word(f"saveAsTable {name} anew", _save_as_table(modify=modify), error or [NEW], starts=False)
        yield Word(f"saveAsTable {name} overwrite", _save_as_table("overwrite", modify), error or [NEW])
        yield Word(f"save {name}", _save(modify=modify), error or BOTH, places=PATH)
        yield Word(f"writeTo {name}", _write_to(_ended(modify, "create")), error or [NEW], starts=False)
        yield Word(f"writeTo append {name}", _write_to(_ended(modify, "append")), error or BOTH)
        yield Word(f"insertInto {name}", _insert_into(modify=modify), error or BOTH)
    parts: dict[str, tuple[Modify, str, str]] = {
        "partitionBy": (lambda w: w.partitionBy("id"), NO_PARTITIONS, "do not match"),
        "bucketBy": (lambda w: w.bucketBy(2, "id"), NO_PARTITIONS, "bucketBy"),
        "bucketBy sortBy": (lambda w: w.bucketBy(2, "id").sortBy("n"), NO_PARTITIONS, "bucketBy"),
        "sortBy": (lambda w: w.sortBy("id"), "sortBy must be used together", "sortBy"),
    }
    for name, (modify, error, of_others) in parts.items():
        yield Word(f"saveAsTable {name} anew", _save_as_table(modify=modify), error, starts=False)
        yield Word(f"saveAsTable {name} overwrite", _save_as_table("overwrite", modify), error)
        yield Word(f"save {name}", _save(modify=modify), of_others, places=PATH)
    yield Word("insertInto partitionBy", _insert_into(modify=lambda w: w.partitionBy("id")), "partitionBy")
    yield Word("insertInto bucketBy", _insert_into(modify=lambda w: w.bucketBy(2, "id")), "bucketBy")
    yield Word("writeTo partitionedBy", _write_to(lambda w: w.partitionedBy(F.col("id")).create()), NO_PARTITIONS, starts=False)
    yield Word("writeTo partitionedBy replace", _write_to(lambda w: w.partitionedBy(F.col("id")).replace()), NO_PARTITIONS)
    unknown = "unknown property 'lance_spark.what'"
    yield Word("writeTo unknown property", _write_to(lambda w: w.tableProperty("lance_spark.what", "1").create()), unknown, starts=False)
    given = _write_to(lambda w: w.tableProperty("team", "x").create())
    yield Word("writeTo tableProperty", given, {"team": "x"}, starts=False, shows=lambda t: t.properties)
    by_id, by_n = _save_as_table(modify=lambda w: w.clusterBy("id")), _save_as_table(modify=lambda w: w.clusterBy("n"))
    clusters: dict[str, Call] = {
        "writeTo clusterBy": _write_to(lambda w: w.clusterBy("id").create()),
        "saveAsTable clusterBy": by_id,
        "toTable clusterBy": _to_table(lambda w: w.format("lance").clusterBy("id")),
    }
    clustered = {"lance_spark.clustering": '{"columns":["id"]}'}
    for name, call in clusters.items():
        yield Word(name, call, clustered, starts=False, shows=lambda t: t.properties)
    yield Word("SHOW CREATE TABLE of clusterBy", by_id, False, starts=False, shows=lambda t: "PARTITIONED" in _created_by(t))
    yield Word("saveAsTable clusterBy twice", _both(by_id, by_id), [NEW, NEW], starts=False)
    yield Word("saveAsTable clusterBy and then without", _both(by_id, _save_as_table()), [NEW, NEW], starts=False)
    yield Word("saveAsTable clusterBy others", _both(by_id, by_n), OTHER_CLUSTERS, starts=False, leaves=True)
    yield Word("saveAsTable clusterBy of a table without", by_id, OTHER_CLUSTERS)
    yield Word("save clusterBy", _save(modify=lambda w: w.clusterBy("id")), OTHER_CLUSTERS, places=PATH)


def _created_by(t: Target) -> str:
    statement: str = t.spark.sql(f"SHOW CREATE TABLE {t.name}").head()[0]  # type: ignore[index]
    return statement


def _ended(modify: Modify, end: str) -> Modify:
    return lambda writer: getattr(modify(writer), end)()


def of_wider_rows() -> Iterator[Word]:
    """mergeSchema and overwriteSchema, at each end."""

    def merging(writer: Any) -> Any:
        return writer.option("mergeSchema", True)

    def replacing(writer: Any) -> Any:
        return writer.option("overwriteSchema", True)

    merged, new = [(*OLD, None), (*NEW, 9)], [(*NEW, 9)]
    adding: dict[str, Call] = {
        "saveAsTable": _save_as_table("append", merging, WIDE),
        "saveAsTable without a format": _save_as_table("append", merging, WIDE, None),
        "insertInto": _insert_into(None, merging, WIDE),
        "writeTo append": _write_to(lambda w: merging(w).append(), WIDE),
        "toTable": _to_table(lambda w: merging(w.format("lance")), WIDE),
    }
    for name, call in adding.items():
        yield Word(f"mergeSchema {name}", call, merged)
    overwriting: dict[str, Call] = {
        "insertInto": _insert_into("overwrite", merging, WIDE),
        "writeTo overwrite": _write_to(lambda w: merging(w).overwrite(F.col("id") == 1), WIDE),
        "writeTo createOrReplace": _write_to(lambda w: merging(w).createOrReplace(), WIDE),
        "saveAsTable overwrite": _save_as_table("overwrite", merging, WIDE),
        "overwriteSchema saveAsTable overwrite": _save_as_table("overwrite", replacing, WIDE),
    }
    for name, call in overwriting.items():
        yield Word(f"mergeSchema overwritten {name}", call, new)
    yield Word("mergeSchema save", _save("append", merging, WIDE), merged, places=PATH)
    yield Word("mergeSchema save overwrite", _save("overwrite", merging, WIDE), new, places=PATH)
    yield Word("overwriteSchema save overwrite", _save("overwrite", replacing, WIDE), new, places=PATH)
    yield Word("overwriteSchema save append", _save("append", replacing, WIDE), "overwriteSchema|is not in the table", places=PATH)
    # Spark drops the options of a writer without a format, for tables of its own catalog.
    dropped = ("session", "TOO_MANY_DATA_COLUMNS")
    yield Word("mergeSchema insertInto without a format", _insert_into(None, merging, WIDE, None), merged, elsewhere=dropped)
    yield Word("wider rows without mergeSchema", _write_to(lambda w: w.append(), WIDE), "TOO_MANY_DATA_COLUMNS|EXTRA_COLUMNS")


def of_streams() -> Iterator[Word]:
    """DataStreamWriter."""

    def started(t: Target) -> None:
        writer = t.stream().writeStream.format("lance").option("checkpointLocation", f"{t.folder}/progress")
        writer.trigger(availableNow=True).start(t.path).awaitTermination()

    def by_batches(t: Target) -> None:
        def write(rows: DataFrame, _: int) -> None:
            rows.write.format("lance").mode("append").saveAsTable(t.name)

        writer = t.stream().writeStream.foreachBatch(write).option("checkpointLocation", f"{t.folder}/progress")
        writer.trigger(availableNow=True).start().awaitTermination()

    def complete(t: Target) -> None:
        rows = t.stream().groupBy("id", "c").agg(F.max("n").alias("n"))
        writer = rows.writeStream.format("lance").outputMode("complete").option("checkpointLocation", f"{t.folder}/progress")
        writer.trigger(availableNow=True).toTable(t.name).awaitTermination()

    lance, plain = _to_table(lambda w: w.format("lance")), _to_table(_same)
    yield Word("toTable", lance, BOTH)
    yield Word("toTable anew", lance, [NEW], starts=False)
    yield Word("toTable without a format", plain, BOTH)
    yield Word("toTable anew without a format", plain, [NEW], starts=False)
    yield Word("start", started, BOTH, places=PATH)
    yield Word("start anew", started, [NEW], starts=False, places=PATH)
    yield Word("foreachBatch", by_batches, BOTH)
    yield Word("toTable complete", complete, [NEW])
    yield Word("toTable update", _to_table(lambda w: w.format("lance").outputMode("update")), "does not support Update mode")
    yield Word("toTable partitionBy", _to_table(lambda w: w.format("lance").partitionBy("id")), NO_PARTITIONS, starts=False)
    yield Word("toTable queryName", _to_table(lambda w: w.format("lance").queryName("words")), BOTH)


KEPT = {
    "comments": {"id": "the key", "d": "a default"},
    "collation": "string collate UNICODE_CI",
    "size": 2,
    "default": "'q'",
    "rows": [(1, "a", [1.0, 2.0], "q", (1,))],
}


def _declared(t: Target) -> DataFrame:
    """Columns with all that a DataFrame's schema can say of them."""
    rows = t.spark.sql("SELECT 1 AS id, CAST('a' AS STRING COLLATE UNICODE_CI) AS c, array(1.0F, 2.0F) AS v, 'q' AS d, struct(1 AS x) AS s")
    default = {"CURRENT_DEFAULT": "'q'", "EXISTS_DEFAULT": "'q'", "comment": "a default"}
    return rows.withMetadata("id", {"comment": "the key"}).withMetadata("v", {"arrow.fixed-size-list.size": 2}).withMetadata("d", default)


def _known(t: Target) -> dict[str, object]:
    """What the table knows of these columns."""
    schema = t.spark.table(t.name).schema
    return {
        "comments": {f.name: f.metadata["comment"] for f in schema if "comment" in f.metadata},
        "collation": schema["c"].dataType.simpleString(),
        "size": schema["v"].metadata.get("arrow.fixed-size-list.size"),
        "default": schema["d"].metadata.get("CURRENT_DEFAULT"),
        "rows": t.rows,
    }


def of_schemas() -> Iterator[Word]:
    """What the schema of a DataFrame carries stays."""

    def make_table(t: Target) -> None:
        t.spark.catalog.createTable(t.name, source="lance", schema=_declared(t).schema)
        _declared(t).writeTo(t.name).append()

    new: dict[str, tuple[Call, tuple[str, ...]]] = {
        "save": (lambda t: _declared(t).write.format("lance").mode("append").save(t.path), PATH),
        "saveAsTable": (lambda t: _declared(t).write.format("lance").saveAsTable(t.name), PLACES),
        "create": (lambda t: _declared(t).writeTo(t.name).using("lance").create(), PLACES),
        "createOrReplace": (lambda t: _declared(t).writeTo(t.name).using("lance").createOrReplace(), PLACES),
        "createTable": (make_table, PLACES),
    }
    replaced: dict[str, tuple[Call, tuple[str, ...]]] = {
        "save overwrite": (lambda t: _declared(t).write.format("lance").mode("overwrite").save(t.path), PATH),
        "saveAsTable overwrite": (lambda t: _declared(t).write.format("lance").mode("overwrite").saveAsTable(t.name), PLACES),
        "replace": (lambda t: _declared(t).writeTo(t.name).using("lance").replace(), PLACES),
    }
    for name, (call, places) in new.items():
        yield Word(f"declared {name}", call, KEPT, starts=False, places=places, shows=_known)
    for name, (call, places) in replaced.items():
        yield Word(f"declared {name}", call, KEPT, places=places, shows=_known)


def _created(**options: Any) -> Call:
    """createTable, and a row that is appended to the table."""

    def run(t: Target) -> None:
        t.spark.catalog.createTable(t.name, schema=t.frame().schema, **options)
        t.frame().writeTo(t.name).append()

    return run


def _placed(method: str) -> Call:
    """The same of a table with a location."""

    def run(t: Target) -> None:
        place = f"{t.folder}/placed.lance"
        getattr(t.spark.catalog, method)(t.name, path=place, source="lance", schema=t.frame().schema)
        t.frame().writeTo(t.name).append()
        assert t.spark.read.format("lance").load(place).count() == 1

    return run


def _cached(t: Target) -> list[bool]:
    t.spark.catalog.cacheTable(t.name)
    before = t.spark.catalog.isCached(t.name)
    t.spark.catalog.uncacheTable(t.name)
    return [before, t.spark.catalog.isCached(t.name)]


def of_catalog() -> Iterator[Word]:
    """Catalog: the methods that name a table."""
    yield Word("createTable", _created(source="lance"), [NEW], starts=False)
    # Spark's own catalog makes a table of its default source.
    yield Word("createTable without a format", _created(), [NEW], starts=False, places=("path", "sql"))
    described = _created(source="lance", description="words")
    shows_description: Call = lambda t: [t.spark.catalog.getTable(t.name).description]  # noqa: E731
    yield Word("createTable described", described, ["words"], starts=False, places=NAMED, shows=shows_description)
    yield Word("createTable again", _created(source="lance"), EXISTS)
    unknown = _created(source="lance", nearst="1")
    yield Word("createTable with an unknown option", unknown, "unknown option 'nearst'", starts=False)
    for method in ("createTable", "createExternalTable"):
        yield Word(f"{method} at a path", _placed(method), [NEW], starts=False, places=NAMED, elsewhere=("sql", NOT_BELOW))
    shown: dict[str, tuple[Call, object]] = {
        "tableExists": (lambda t: t.spark.catalog.tableExists(t.name), True),
        "getTable": (
            lambda t: (t.spark.catalog.getTable(t.name).name in t.name, t.spark.catalog.getTable(t.name).isTemporary),
            (True, False),
        ),
        "listColumns": (
            lambda t: [(c.name, c.dataType, c.nullable, c.isPartition) for c in t.spark.catalog.listColumns(t.name)],
            [("id", "int", True, False), ("c", "string", True, False), ("n", "int", True, False)],
        ),
        "cacheTable": (_cached, [True, False]),
    }
    for name, (shows, expected) in shown.items():
        yield Word(name, _nothing, expected, shows=shows)
    yield Word("refreshTable", lambda t: t.spark.catalog.refreshTable(t.name), [OLD])
    yield Word("refreshByPath", lambda t: t.spark.catalog.refreshByPath(t.path or str(t.folder)), [OLD])
    yield Word("tableExists of none", _nothing, False, starts=False, shows=lambda t: t.exists)
    yield Word("listColumns of none", lambda t: t.spark.catalog.listColumns(t.name), MISSING, starts=False)
    yield Word("recoverPartitions", lambda t: t.spark.catalog.recoverPartitions(t.name), "RECOVER PARTITIONS")
    listed: dict[str, Call] = {
        "listTables": lambda t: [x.name for x in t.spark.catalog.listTables(t.database) if not x.isTemporary],
        "listTables by a pattern": lambda t: [x.name for x in t.spark.catalog.listTables(t.database, "t*")],
    }
    for name, shows in listed.items():
        yield Word(name, _nothing, ["t"], places=NAMED, shows=shows)
    if SPARK_VERSION >= (4, 2):
        yield from _of_newer_catalog()


def _of_newer_catalog() -> Iterator[Word]:
    """The methods of Spark 4.2."""
    yield Word("getTableProperties", _nothing, False, shows=lambda t: "team" in t.spark.catalog.getTableProperties(t.name))
    yield Word("getCreateTableString", _nothing, True, shows=lambda t: "USING lance" in t.spark.catalog.getCreateTableString(t.name))
    yield Word("listPartitions", lambda t: t.spark.catalog.listPartitions(t.name), "PARTITION_MANAGEMENT_IS_UNSUPPORTED")
    yield Word("analyzeTable", lambda t: t.spark.catalog.analyzeTable(t.name), "ANALYZE TABLE")
    yield Word("truncateTable", lambda t: t.spark.catalog.truncateTable(t.name), [])
    yield Word("dropTable", lambda t: t.spark.catalog.dropTable(t.name), False, shows=lambda t: t.exists)
    yield Word("dropTable with its files", lambda t: t.spark.catalog.dropTable(t.name, purge=True), False, shows=lambda t: t.exists)
    yield Word("dropTable of none", lambda t: t.spark.catalog.dropTable(t.name), MISSING, starts=False)
    if_there: Call = lambda t: t.spark.catalog.dropTable(t.name, ifExists=True)  # noqa: E731
    yield Word("dropTable if it exists", if_there, False, starts=False, shows=lambda t: t.exists)


GROUPS: dict[str, Callable[[], Iterator[Word]]] = {
    "writer": of_writer,
    "writeTo": of_writer_v2,
    "modifiers": of_modifiers,
    "wider": of_wider_rows,
    "streams": of_streams,
    "schemas": of_schemas,
    "catalog": of_catalog,
}
