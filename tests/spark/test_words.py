"""Each word of Spark's writers, and of its catalog, on a path, in the session catalog and in a SQL catalog.

A word gives the rows and columns that it means in Spark, or a refusal that says what to write instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.catalog import Catalog
from pyspark.sql.streaming.readwriter import DataStreamWriter

import lance_spark
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION

COLUMNS = "id INT, c STRING, n INT"
WIDE = f"{COLUMNS}, w INT"
OLD, NEW = (1, "a", 1), (2, "a", 1)
PLACES = ("path", "session", "sql")


@dataclass(frozen=True)
class Target:
    """A table, by its name in SQL; `path` is the location of one that is named by its path. It is there if `exists`."""

    spark: SparkSession
    name: str
    folder: Path
    path: str = ""

    @property
    def exists(self) -> bool:
        return self.spark.catalog.tableExists(self.name)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.table(self.name).collect())

    def properties(self) -> dict[str, str]:
        found = {row.key: row.value for row in self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()}
        found.pop("owner", None)
        return found

    def frame(self, columns: str = COLUMNS) -> DataFrame:
        """One new row."""
        values = dict(zip(["id", "c", "n", "w"], (*NEW, 9), strict=True))
        return self.spark.createDataFrame([tuple(values[column.split()[0]] for column in columns.split(", "))], columns)


Call = Callable[[Target], Any]


@dataclass(frozen=True)
class Word:
    """What a user writes: `call`. It gives the rows `expected`, or the error with these words; or, of a `result`, what the call returns.

    `starts`: there is a table with one row before. `places` are those where it can be said.
    """

    name: str
    call: Call
    expected: object
    starts: bool = True
    places: tuple[str, ...] = PLACES
    elsewhere: tuple[tuple[str, object], ...] = ()
    """What is expected in one of the places, if not `expected`."""
    leaves: bool = False
    """Whether a word that is refused has made a table before, by another call."""

    def at(self, place: str) -> object:
        return dict(self.elsewhere).get(place, self.expected)


@dataclass(frozen=True)
class Result:
    """What a call returns."""

    value: object


EXISTS, MISSING = "TABLE_OR_VIEW_ALREADY_EXISTS", "TABLE_OR_VIEW_NOT_FOUND"
NO_PARTITIONS = "have no partitions or buckets: .*use CLUSTER BY .clusterBy."
MODES = (None, "append", "overwrite", "error", "errorifexists", "ignore", "default")


def _first(writer: Any, format: str | None, mode: str | None) -> Any:
    writer = writer if format is None else writer.format(format)
    return writer if mode is None else writer.mode(mode)


def _rows_after(mode: str | None, starts: bool) -> object:
    """What saveAsTable means."""
    if not starts or mode == "overwrite":
        return [NEW]
    return {"append": [OLD, NEW], "ignore": [OLD]}.get(mode or "", EXISTS)


def _of_writer() -> Iterator[Word]:
    """DataFrameWriter: each mode of each end, with and without a format, with and without a table."""
    for mode in MODES:
        needs = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE.*Append.*Overwrite"
        saved = {"append": ([OLD, NEW], [NEW]), "overwrite": ([NEW], [NEW])}.get(mode or "", (needs, needs))
        for starts in (True, False):
            there = "on a table" if starts else "anew"
            yield Word(
                f"save {mode} {there}",
                lambda t, mode=mode: _first(t.frame().write, "lance", mode).save(t.path),
                saved[0 if starts else 1],
                starts,
                ("path",),
            )
            for format in ("lance", None):
                yield Word(
                    f"saveAsTable {mode} {there}{'' if format else ' without a format'}",
                    lambda t, mode=mode, format=format: _first(t.frame().write, format, mode).saveAsTable(t.name),
                    _rows_after(mode, starts),
                    starts,
                )
                yield Word(
                    f"insertInto {mode} {there}{'' if format else ' without a format'}",
                    lambda t, mode=mode, format=format: _first(t.frame().write, format, mode).insertInto(t.name),
                    MISSING if not starts else [NEW] if mode == "overwrite" else [OLD, NEW],
                    starts,
                )
    yield Word("insertInto overwrite=True", lambda t: t.frame().write.insertInto(t.name, overwrite=True), [NEW])
    yield Word("insertInto overwrite=False", lambda t: t.frame().write.mode("overwrite").insertInto(t.name, overwrite=False), [OLD, NEW])
    yield Word(
        "save by the option path",
        lambda t: t.frame().write.format("lance").mode("append").option("path", t.path).save(),
        [OLD, NEW],
        places=("path",),
    )


def _of_writer_v2() -> Iterator[Word]:
    """DataFrameWriterV2: each end, with and without a format, with and without a table."""
    partitioned = "require a partitioned namespace; use replaceWhere"
    ends: dict[str, tuple[Callable[[Any], Any], object, object]] = {
        "create": (lambda w: w.create(), EXISTS, [NEW]),
        "replace": (lambda w: w.replace(), [NEW], MISSING),
        "createOrReplace": (lambda w: w.createOrReplace(), [NEW], [NEW]),
        "append": (lambda w: w.append(), [OLD, NEW], MISSING),
        "overwrite": (lambda w: w.overwrite(F.col("id") == 1), [NEW], MISSING),
        "overwrite of no row": (lambda w: w.overwrite(F.col("id") == 7), [OLD, NEW], MISSING),
        "overwritePartitions": (lambda w: w.overwritePartitions(), partitioned, MISSING),
    }
    for (end, (call, on_table, anew)), starts, is_named in itertools.product(ends.items(), (True, False), (True, False)):
        # Spark's own catalog makes a table of its default source, which it cannot replace by.
        sparks = "does not support REPLACE TABLE AS SELECT" if end in ("replace", "createOrReplace") else anew
        yield Word(
            f"writeTo {end} {'on a table' if starts else 'anew'}{'' if is_named else ' without a format'}",
            lambda t, call=call, is_named=is_named: call(
                t.frame().writeTo(t.name).using("lance") if is_named else t.frame().writeTo(t.name)
            ),
            on_table if starts else anew,
            starts,
            elsewhere=() if is_named or starts else (("session", sparks),),
        )


def _appended(modify: Callable[[Any], Any]) -> Call:
    return lambda t: modify(t.frame().write.format("lance").mode("append")).saveAsTable(t.name)


def _overwritten(modify: Callable[[Any], Any]) -> Call:
    return lambda t: modify(t.frame().write.format("lance").mode("overwrite")).saveAsTable(t.name)


def _saved(modify: Callable[[Any], Any]) -> Call:
    return lambda t: modify(t.frame().write.format("lance").mode("append")).save(t.path)


def _of_modifiers() -> Iterator[Word]:
    """What stands before the end of a write: partitions, clusters, options, properties."""
    unknown, of_reads = "unknown option 'nearst'; did you mean", "'filter' applies only to reads"
    options: dict[str, tuple[Callable[[Any], Any], object]] = {
        "option": (lambda w: w.option("max_rows_per_file", 1), [NEW]),
        "options": (lambda w: w.options(max_rows_per_file="1"), [NEW]),
        "unknown option": (lambda w: w.option("nearst", "1"), unknown),
        "option of reads": (lambda w: w.option("filter", "id > 1"), of_reads),
    }
    parts: dict[str, tuple[Callable[[Any], Any], object]] = {
        "partitionBy": (lambda w: w.partitionBy("id"), NO_PARTITIONS),
        "bucketBy": (lambda w: w.bucketBy(2, "id"), NO_PARTITIONS),
        "bucketBy sortBy": (lambda w: w.bucketBy(2, "id").sortBy("n"), NO_PARTITIONS),
        "sortBy": (lambda w: w.sortBy("id"), "sortBy"),
    }
    for name, (modify, expected) in {**options, **parts}.items():
        yield Word(f"saveAsTable {name} anew", _appended(modify), expected, starts=False)
        yield Word(f"saveAsTable {name} overwrite", _overwritten(modify), expected)
    for name, (modify, expected) in options.items():
        rows = [OLD, NEW] if isinstance(expected, list) else expected
        yield Word(f"save {name}", _saved(modify), rows, places=("path",))
        yield Word(
            f"writeTo {name}", lambda t, modify=modify: modify(t.frame().writeTo(t.name).using("lance")).create(), expected, starts=False
        )
        yield Word(f"writeTo append {name}", lambda t, modify=modify: modify(t.frame().writeTo(t.name)).append(), rows)
        yield Word(f"insertInto {name}", lambda t, modify=modify: modify(t.frame().write.format("lance")).insertInto(t.name), rows)
    yield Word("save partitionBy", _saved(lambda w: w.partitionBy("id")), "partition", places=("path",))
    yield Word("save bucketBy", _saved(lambda w: w.bucketBy(2, "id")), "bucketBy", places=("path",))
    yield Word("save sortBy", _saved(lambda w: w.sortBy("id")), "sortBy", places=("path",))
    yield Word("insertInto partitionBy", lambda t: t.frame().write.partitionBy("id").insertInto(t.name), "partitionBy")
    yield Word("insertInto bucketBy", lambda t: t.frame().write.bucketBy(2, "id").insertInto(t.name), "bucketBy")
    yield Word(
        "writeTo partitionedBy",
        lambda t: t.frame().writeTo(t.name).using("lance").partitionedBy(F.col("id")).create(),
        NO_PARTITIONS,
        False,
    )
    yield Word(
        "writeTo partitionedBy replace",
        lambda t: t.frame().writeTo(t.name).using("lance").partitionedBy(F.col("id")).replace(),
        NO_PARTITIONS,
    )
    yield Word(
        "writeTo unknown property",
        lambda t: t.frame().writeTo(t.name).using("lance").tableProperty("lance_spark.what", "1").create(),
        "unknown property 'lance_spark.what'",
        starts=False,
    )
    yield Word(
        "writeTo tableProperty",
        lambda t: Result((t.frame().writeTo(t.name).using("lance").tableProperty("team", "x").create(), t.properties())[1]),
        Result({"team": "x"}),
        starts=False,
    )
    yield Word("save clusterBy", _saved(lambda w: w.clusterBy("id")), "clustering columns do not match", places=("path",))
    yield Word("saveAsTable clusterBy of a table without", _appended(lambda w: w.clusterBy("id")), "clustering columns do not match")
    yield Word(
        "saveAsTable clusterBy twice",
        lambda t: (_appended(lambda w: w.clusterBy("id"))(t), _appended(lambda w: w.clusterBy("id"))(t)),
        [NEW, NEW],
        starts=False,
    )
    yield Word(
        "saveAsTable clusterBy others",
        lambda t: (_appended(lambda w: w.clusterBy("id"))(t), _appended(lambda w: w.clusterBy("n"))(t)),
        "clustering columns do not match",
        starts=False,
        leaves=True,
    )
    clustered = Result({"lance_spark.clustering": '{"columns":["id"]}'})
    clusters: dict[str, Call] = {
        "writeTo clusterBy": lambda t: t.frame().writeTo(t.name).using("lance").clusterBy("id").create(),
        "saveAsTable clusterBy": lambda t: t.frame().write.format("lance").clusterBy("id").saveAsTable(t.name),
        "toTable clusterBy": lambda t: _streamed(t, lambda w: w.format("lance").clusterBy("id")),
    }
    for name, call in clusters.items():
        yield Word(name, lambda t, call=call: Result((call(t), t.properties())[1]), clustered, starts=False)


def _of_wider_rows() -> Iterator[Word]:
    """mergeSchema and overwriteSchema, at each end."""
    merged = [(*OLD, None), (*NEW, 9)]
    new = [(*NEW, 9)]
    for name, word, expected, places in (
        ("save", lambda t: t.frame(WIDE).write.format("lance").mode("append").option("mergeSchema", True).save(t.path), merged, ("path",)),
        (
            "saveAsTable",
            lambda t: t.frame(WIDE).write.format("lance").mode("append").option("mergeSchema", True).saveAsTable(t.name),
            merged,
            PLACES,
        ),
        (
            "saveAsTable without a format",
            lambda t: t.frame(WIDE).write.mode("append").option("mergeSchema", True).saveAsTable(t.name),
            merged,
            PLACES,
        ),
        ("insertInto", lambda t: t.frame(WIDE).write.format("lance").option("mergeSchema", True).insertInto(t.name), merged, PLACES),
        (
            "insertInto overwrite",
            lambda t: t.frame(WIDE).write.format("lance").option("mergeSchema", True).insertInto(t.name, True),
            new,
            PLACES,
        ),
        ("writeTo append", lambda t: t.frame(WIDE).writeTo(t.name).option("mergeSchema", True).append(), merged, PLACES),
        ("writeTo overwrite", lambda t: t.frame(WIDE).writeTo(t.name).option("mergeSchema", True).overwrite(F.col("id") == 1), new, PLACES),
        (
            "writeTo createOrReplace",
            lambda t: t.frame(WIDE).writeTo(t.name).using("lance").option("mergeSchema", True).createOrReplace(),
            new,
            PLACES,
        ),
        (
            "saveAsTable overwrite",
            lambda t: t.frame(WIDE).write.format("lance").mode("overwrite").option("mergeSchema", True).saveAsTable(t.name),
            new,
            PLACES,
        ),
        (
            "save overwrite",
            lambda t: t.frame(WIDE).write.format("lance").mode("overwrite").option("mergeSchema", True).save(t.path),
            new,
            ("path",),
        ),
        ("toTable", lambda t: _streamed(t, lambda w: w.format("lance").option("mergeSchema", True), WIDE), merged, PLACES),
    ):
        yield Word(f"mergeSchema {name}", word, expected, places=places)
    refused = "too many data columns|TOO_MANY_DATA_COLUMNS"
    yield Word(
        "mergeSchema insertInto without a format",
        lambda t: t.frame(WIDE).write.option("mergeSchema", True).insertInto(t.name),
        merged,
        elsewhere=(("session", refused),),
    )
    yield Word("wider rows without mergeSchema", lambda t: t.frame(WIDE).writeTo(t.name).append(), "(?i)too many|cannot|EXTRA_COLUMNS")
    for saver in ("save", "saveAsTable"):
        for mode in ("append", "overwrite"):
            end: Call = (lambda t: t.path) if saver == "save" else (lambda t: t.name)
            yield Word(
                f"overwriteSchema {saver} {mode}",
                lambda t, saver=saver, mode=mode, end=end: getattr(
                    t.frame(WIDE).write.format("lance").mode(mode).option("overwriteSchema", True), saver
                )(end(t)),
                new if mode == "overwrite" else "overwriteSchema",
                places=("path",) if saver == "save" else PLACES,
            )


def _streamed(t: Target, modify: Callable[[Any], Any], columns: str = COLUMNS, ends: str = "toTable") -> None:
    source = f"{t.folder}/source.lance"
    t.frame(columns).write.format("lance").mode("append").save(source)
    rows = t.spark.readStream.format("lance").load(source)
    writer = modify(rows.writeStream).option("checkpointLocation", f"{t.folder}/progress").trigger(availableNow=True)
    query = writer.toTable(t.name) if ends == "toTable" else writer.start(t.path) if ends == "start" else writer.start()
    query.awaitTermination()


def _complete(t: Target) -> None:
    source = f"{t.folder}/source.lance"
    t.frame().write.format("lance").mode("append").save(source)
    rows = t.spark.readStream.format("lance").load(source).groupBy("id", "c").agg(F.max("n").alias("n"))
    writer = rows.writeStream.format("lance").outputMode("complete").option("checkpointLocation", f"{t.folder}/progress")
    writer.trigger(availableNow=True).toTable(t.name).awaitTermination()


def _of_streams() -> Iterator[Word]:
    """DataStreamWriter."""
    for starts in (True, False):
        there, rows = ("on a table", [OLD, NEW]) if starts else ("anew", [NEW])
        yield Word(f"toTable {there}", lambda t: _streamed(t, lambda w: w.format("lance")), rows, starts)
        yield Word(f"toTable {there} without a format", lambda t: _streamed(t, lambda w: w), rows, starts, ("path", "sql"))
        yield Word(f"start {there}", lambda t: _streamed(t, lambda w: w.format("lance"), ends="start"), rows, starts, ("path",))
    yield Word("toTable complete", _complete, [NEW])
    yield Word("toTable update", lambda t: _streamed(t, lambda w: w.format("lance").outputMode("update")), "does not support Update mode")
    yield Word("toTable partitionBy", lambda t: _streamed(t, lambda w: w.format("lance").partitionBy("id")), NO_PARTITIONS, starts=False)
    yield Word("toTable queryName", lambda t: _streamed(t, lambda w: w.format("lance").queryName("words")), [OLD, NEW])
    yield Word(
        "foreachBatch",
        lambda t: _streamed(
            t, lambda w: w.foreachBatch(lambda rows, _: rows.write.format("lance").mode("append").saveAsTable(t.name)), ends=""
        ),
        [OLD, NEW],
    )


def _declared(t: Target) -> DataFrame:
    """Columns with all that a DataFrame's schema can say of them."""
    rows = t.spark.sql("SELECT 1 AS id, CAST('a' AS STRING COLLATE UNICODE_CI) AS c, array(1.0F, 2.0F) AS v, 'q' AS d, struct(1 AS x) AS s")
    default = {"CURRENT_DEFAULT": "'q'", "EXISTS_DEFAULT": "'q'", "comment": "a default"}
    return rows.withMetadata("id", {"comment": "the key"}).withMetadata("v", {"arrow.fixed-size-list.size": 2}).withMetadata("d", default)


def _known(t: Target) -> Result:
    schema = t.spark.table(t.name).schema
    return Result(
        {
            "comments": {f.name: f.metadata["comment"] for f in schema if "comment" in f.metadata},
            "collation": schema["c"].dataType.simpleString(),
            "size": schema["v"].metadata.get("arrow.fixed-size-list.size"),
            "default": schema["d"].metadata.get("CURRENT_DEFAULT"),
            "rows": t.rows(),
        }
    )


KEPT = {
    "comments": {"id": "the key", "d": "a default"},
    "collation": "string collate UNICODE_CI",
    "size": 2,
    "default": "'q'",
    "rows": [(1, "a", [1.0, 2.0], "q", (1,))],
}


def _of_schemas() -> Iterator[Word]:
    """What the schema of a DataFrame carries stays."""
    ends: dict[str, tuple[Call, bool, tuple[str, ...]]] = {
        "save": (lambda t: _declared(t).write.format("lance").mode("append").save(t.path), False, ("path",)),
        "save overwrite": (lambda t: _declared(t).write.format("lance").mode("overwrite").save(t.path), True, ("path",)),
        "saveAsTable": (lambda t: _declared(t).write.format("lance").saveAsTable(t.name), False, PLACES),
        "saveAsTable overwrite": (lambda t: _declared(t).write.format("lance").mode("overwrite").saveAsTable(t.name), True, PLACES),
        "create": (lambda t: _declared(t).writeTo(t.name).using("lance").create(), False, PLACES),
        "replace": (lambda t: _declared(t).writeTo(t.name).using("lance").replace(), True, PLACES),
        "createOrReplace": (lambda t: _declared(t).writeTo(t.name).using("lance").createOrReplace(), False, PLACES),
        "createTable": (
            lambda t: (
                t.spark.catalog.createTable(t.name, source="lance", schema=_declared(t).schema),
                _declared(t).writeTo(t.name).append(),
            ),
            False,
            PLACES,
        ),
    }
    for name, (call, starts, places) in ends.items():
        yield Word(f"declared {name}", lambda t, call=call: (call(t), _known(t))[1], Result(KEPT), starts, places)


def _database(t: Target) -> str:
    return t.name.rpartition(".")[0]


def _of_catalog() -> Iterator[Word]:
    """Catalog: the methods that name a table."""
    schema = lambda t: t.frame().schema  # noqa: E731
    named = ("session", "sql")
    yield Word(
        "createTable",
        lambda t: (t.spark.catalog.createTable(t.name, source="lance", schema=schema(t)), t.frame().writeTo(t.name).append()),
        [NEW],
        False,
    )
    yield Word(
        "createTable without a format",
        lambda t: (t.spark.catalog.createTable(t.name, schema=schema(t)), t.frame().writeTo(t.name).append()),
        [NEW],
        False,
        ("path", "sql"),
    )
    yield Word(
        "createTable described",
        lambda t: (
            t.spark.catalog.createTable(t.name, source="lance", schema=schema(t), description="words"),
            Result(t.spark.catalog.getTable(t.name).description),
        )[1],
        Result("words"),
        False,
        named,
    )
    yield Word(
        "createTable at a path",
        lambda t: (
            t.spark.catalog.createTable(t.name, path=f"{t.folder}/placed.lance", source="lance", schema=schema(t)),
            t.frame().writeTo(t.name).append(),
            Result(sorted(tuple(row) for row in t.spark.read.format("lance").load(f"{t.folder}/placed.lance").collect())),
        )[2],
        Result([NEW]),
        False,
        named,
        (("sql", "is not below the root of the namespace"),),
    )
    yield Word(
        "createTable with an unknown option",
        lambda t: t.spark.catalog.createTable(t.name, source="lance", schema=schema(t), nearst="1"),
        "unknown option 'nearst'",
        False,
        named,
    )
    yield Word("createTable again", lambda t: t.spark.catalog.createTable(t.name, source="lance", schema=schema(t)), EXISTS, places=named)
    yield Word(
        "createExternalTable",
        lambda t: (
            t.spark.catalog.createExternalTable(t.name, path=f"{t.folder}/placed.lance", source="lance", schema=schema(t)),
            t.frame().writeTo(t.name).append(),
        ),
        [NEW],
        False,
        named,
        (("sql", "is not below the root of the namespace"),),
    )
    results: dict[str, tuple[Callable[[Target], object], object]] = {
        "tableExists": (lambda t: t.spark.catalog.tableExists(t.name), True),
        "getTable": (
            lambda t: (
                t.spark.catalog.getTable(t.name).name == t.name.rpartition(".")[2].strip("`"),
                t.spark.catalog.getTable(t.name).isTemporary,
            ),
            (True, False),
        ),
        "listColumns": (
            lambda t: [(c.name, c.dataType, c.nullable, c.isPartition) for c in t.spark.catalog.listColumns(t.name)],
            [("id", "int", True, False), ("c", "string", True, False), ("n", "int", True, False)],
        ),
        "refreshTable": (lambda t: t.spark.catalog.refreshTable(t.name), None),
        "refreshByPath": (lambda t: t.spark.catalog.refreshByPath(t.path or str(t.folder)), None),
        "cacheTable": (
            lambda t: (
                t.spark.catalog.cacheTable(t.name),
                t.spark.catalog.isCached(t.name),
                t.spark.catalog.uncacheTable(t.name),
                t.spark.catalog.isCached(t.name),
            ),
            (None, True, None, False),
        ),
    }
    for name, (call, value) in results.items():
        yield Word(name, lambda t, call=call: Result(call(t)), Result(value))
    yield Word("tableExists of none", lambda t: Result(t.spark.catalog.tableExists(t.name)), Result(False), False)
    yield Word("listColumns of none", lambda t: t.spark.catalog.listColumns(t.name), MISSING, False)
    yield Word("recoverPartitions", lambda t: t.spark.catalog.recoverPartitions(t.name), "partition")
    yield Word(
        "listTables",
        lambda t: Result([x.name for x in t.spark.catalog.listTables(_database(t)) if t.name.endswith(f".{x.name}")]),
        Result(["t"]),
        places=named,
    )
    yield Word(
        "listTables by a pattern",
        lambda t: Result([x.name for x in t.spark.catalog.listTables(_database(t), "t*")]),
        Result(["t"]),
        places=named,
    )
    if SPARK_VERSION >= (4, 2):
        yield Word(
            "getTableProperties",
            lambda t: Result({k: v for k, v in t.spark.catalog.getTableProperties(t.name).items() if k == "team"}),
            Result({}),
        )
        yield Word("getCreateTableString", lambda t: Result("USING lance" in t.spark.catalog.getCreateTableString(t.name)), Result(True))
        yield Word("listPartitions", lambda t: t.spark.catalog.listPartitions(t.name), "(?i)partition")
        yield Word("analyzeTable", lambda t: t.spark.catalog.analyzeTable(t.name), "(?i)analyze|statistics")
        yield Word("truncateTable", lambda t: t.spark.catalog.truncateTable(t.name), [])
        yield Word("dropTable", lambda t: (t.spark.catalog.dropTable(t.name), Result(t.exists))[1], Result(False))
        yield Word(
            "dropTable with its files", lambda t: (t.spark.catalog.dropTable(t.name, purge=True), Result(t.exists))[1], Result(False)
        )
        yield Word("dropTable of none", lambda t: t.spark.catalog.dropTable(t.name), MISSING, False)
        yield Word(
            "dropTable if it exists",
            lambda t: (t.spark.catalog.dropTable(t.name, ifExists=True), Result(t.exists))[1],
            Result(False),
            False,
        )


GROUPS = {
    "writer": _of_writer,
    "writeTo": _of_writer_v2,
    "modifiers": _of_modifiers,
    "wider": _of_wider_rows,
    "streams": _of_streams,
    "schemas": _of_schemas,
    "catalog": _of_catalog,
}
WORDS = [word for make in GROUPS.values() for word in make()]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A SQL catalog, and a database in the session catalog."""
    lance_spark.catalog(spark, "words", root=str(tmp_path_factory.mktemp("lake")))
    yield "words"
    spark.sql("USE spark_catalog.default")


_NUMBERS = itertools.count()


@pytest.fixture
def target(request: pytest.FixtureRequest, spark: SparkSession, lake: str, tmp_path: Path) -> Iterator[Target]:
    """The table of a place, in a database of its own."""
    place = request.param
    if place == "path":
        path = str(tmp_path / "t.lance")
        yield Target(spark, f"{lake}.`{path}`", tmp_path, path)
        return
    database = f"{'spark_catalog' if place == 'session' else lake}.words_{next(_NUMBERS)}"
    spark.sql(f"CREATE NAMESPACE {database}")
    yield Target(spark, f"{database}.t", tmp_path)
    spark.sql(f"DROP NAMESPACE {database} CASCADE")


def _cells() -> Iterator[Any]:
    """Each word at each place. Plain: the first words of each group, each at one place."""
    for group, make in GROUPS.items():
        for number, word in enumerate(make()):
            for place in word.places:
                is_plain = number % 6 == 0 and place == word.places[number // 6 % len(word.places)]
                marks = () if is_plain else pytest.mark.slow
                yield pytest.param(word, place, place, id=f"{group}-{word.name}-{place}", marks=marks)


@pytest.mark.parametrize(("word", "place", "target"), list(_cells()), indirect=["target"])
def test_a_word_means_what_it_says(word: Word, place: str, target: Target) -> None:
    if word.starts:
        old = target.spark.createDataFrame([OLD], COLUMNS).write.format("lance")
        if target.path:
            old.mode("append").save(target.path)
        else:
            old.saveAsTable(target.name)
    expected = word.at(place)
    if isinstance(expected, str):
        with pytest.raises((*SPARK_ERRORS, ValueError), match=f"(?s){expected}"):
            word.call(target)
        if word.starts:
            assert target.rows() == [OLD], "a refused word changes nothing"
        else:
            assert word.leaves or not target.exists, "a refused word makes no table"
        return
    result = word.call(target)
    if isinstance(expected, Result):
        assert result == expected
    else:
        assert target.rows() == expected


OTHERS = {
    "DataFrameWriter": {"csv", "jdbc", "json", "orc", "parquet", "text", "xml", "format", "mode"},
    "DataFrameWriterV2": {"using"},
    "DataStreamWriter": {"format", "foreach", "option", "options", "outputMode", "queryName", "trigger"},
    "Catalog": {
        *("clearCache", "createDatabase", "currentCatalog", "currentDatabase", "databaseExists", "dropDatabase", "dropGlobalTempView"),
        *("dropTempView", "dropView", "functionExists", "getDatabase", "getFunction", "isCached", "listCatalogs", "listDatabases"),
        *("listFunctions", "listViews", "registerFunction", "setCurrentCatalog", "setCurrentDatabase", "uncacheTable"),
    },
}
"""Methods that are in no name of a word: other formats, those that each word needs, and those that name no table."""


@pytest.mark.parametrize("api", [DataFrameWriter, DataFrameWriterV2, DataStreamWriter, Catalog], ids=lambda api: api.__name__)
def test_each_method_of_spark_is_a_word(api: type) -> None:
    said = {part for word in WORDS for part in word.name.split()}
    methods = {name for name in dir(api) if not name.startswith("_")}
    assert methods - said - OTHERS[api.__name__] == set()


def test_databases_of_a_catalog_are_those_of_its_namespace(spark: SparkSession, lake: str) -> None:
    catalog = spark.catalog
    catalog.setCurrentCatalog(lake)
    try:
        spark.sql("CREATE NAMESPACE shop")
        assert catalog.databaseExists("shop")
        assert "shop" in [database.name for database in catalog.listDatabases()]
        assert catalog.getDatabase("shop").catalog == lake
        catalog.setCurrentDatabase("shop")
        spark.sql("CREATE TABLE orders (id INT)")
        assert (catalog.currentCatalog(), catalog.currentDatabase()) == (lake, "shop")
        assert [table.name for table in catalog.listTables() if not table.isTemporary] == ["orders"]
        assert (catalog.tableExists("orders"), catalog.tableExists("none")) == (True, False)
    finally:
        spark.sql(f"DROP NAMESPACE IF EXISTS {lake}.shop CASCADE")
        catalog.setCurrentCatalog("spark_catalog")
