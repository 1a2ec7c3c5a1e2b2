"""A table of the session catalog and one of a SQL catalog are the same: one script of statements and calls, run in both."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION

Call = Callable[[SparkSession, str], Any]
Step = str | Call
CATALOGS = {"session": "spark_catalog.both", "sql": "lance.both"}


def _rows(spark: SparkSession, first: int, columns: str = "id INT, c STRING, n INT") -> DataFrame:
    values = {"id": first, "c": "a", "n": 1, "w": 9}
    names = [column.split()[0] for column in columns.split(", ")]
    return spark.createDataFrame([tuple(values[name] for name in names)], columns)


DECLARED: dict[str, Step] = {
    "create": """CREATE TABLE {t} (id INT NOT NULL COMMENT 'key', c CHAR(3), v VARCHAR(5) DEFAULT 'vv', n INT DEFAULT 7)
        USING lance COMMENT 'words' TBLPROPERTIES ('a' = 'b', 'gone' = 'x')""",
    "create again": "CREATE TABLE {t} (id INT) USING lance",
    "create if not exists": "CREATE TABLE IF NOT EXISTS {t} (id INT) USING lance",
    "partitioned by": "CREATE TABLE {t}_p (id INT) USING lance PARTITIONED BY (id)",
    "clustered by": "CREATE TABLE {t}_p (id INT) USING lance CLUSTERED BY (id) INTO 2 BUCKETS",
    "unknown property": "CREATE TABLE {t}_p (id INT) USING lance TBLPROPERTIES ('lance_spark.what' = '1')",
    "strange name": "CREATE TABLE {t}_p (`_rowid` INT) USING lance",
    "show": "SHOW TBLPROPERTIES {t}",
    "describe": "DESCRIBE {t}",
    "set property": "ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v')",
    "unset property": "ALTER TABLE {t} UNSET TBLPROPERTIES ('gone')",
    "set unknown property": "ALTER TABLE {t} SET TBLPROPERTIES ('lance_spark.what' = '1')",
    "comment": "COMMENT ON TABLE {t} IS 'other words'",
    "set location": "ALTER TABLE {t} SET LOCATION '/elsewhere'",
    "add column": "ALTER TABLE {t} ADD COLUMN w INT DEFAULT 3 COMMENT 'added' AFTER c",
    "add column not null": "ALTER TABLE {t} ADD COLUMN q INT NOT NULL",
    "set default": "ALTER TABLE {t} ALTER COLUMN n SET DEFAULT 8",
    "cluster": "ALTER TABLE {t} CLUSTER BY (id)",
    "show after cluster": "SHOW TBLPROPERTIES {t}",
    "count before rows": "SELECT count(*), max(id) FROM {t}",
    "version before rows": "SELECT * FROM {t} VERSION AS OF 1",
    "optimize before rows": "OPTIMIZE {t}",
    "update before rows": "UPDATE {t} SET n = 1",
    "delete before rows": "DELETE FROM {t} WHERE id = 1",
    "truncate before rows": "TRUNCATE TABLE {t}",
    "too long": "INSERT INTO {t} VALUES (1, 'aaaa', 1, 'v', 1)",
    "null": "INSERT INTO {t} VALUES (NULL, 'a', 1, 'v', 1)",
    "merge": """MERGE INTO {t} t USING (SELECT 1 AS id, 'a' AS c) s ON t.id = s.id
        WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c)""",
    "insert": "INSERT INTO {t} (id, c) VALUES (2, 'b')",
    "describe after rows": "DESCRIBE {t}",
    "show after rows": "SHOW TBLPROPERTIES {t}",
    "show create": "SHOW CREATE TABLE {t}",
    "cluster by none": "ALTER TABLE {t} CLUSTER BY NONE",
    "show without clusters": "SHOW TBLPROPERTIES {t}",
    "truncate": "TRUNCATE TABLE {t}",
}
"""Of a table that a statement declares: in the session catalog it has no version before its first rows."""

CHANGES: dict[str, Step] = {
    "create": "CREATE TABLE {t} USING lance TBLPROPERTIES ('a' = 'b') AS SELECT 1 AS id, 'a' AS c, 1 AS n",
    "create again": "CREATE TABLE {t} USING lance AS SELECT 1 AS id",
    "insert": "INSERT INTO {t} VALUES (2, 'b', 2), (3, 'c', 3)",
    "tag": "ALTER TABLE {t} CREATE TAG three",
    "files": "SELECT count(*) FROM {t}.files",
    "branch": "ALTER TABLE {t} CREATE BRANCH x",
    "branch by name": "SELECT count(*) FROM {t}.branch_x",
    "version of a branch": "SELECT count(*) FROM {t} VERSION AS OF 'x'",
    "insert by name": "INSERT INTO {t} BY NAME SELECT 4 AS id, 'd' AS c",
    "insert too many": "INSERT INTO {t} VALUES (1, 'a', 1, 1)",
    "insert unknown": "INSERT INTO {t} BY NAME SELECT 4 AS id, 'd' AS other",
    "replace where": "INSERT INTO {t} REPLACE WHERE id = 4 VALUES (40, 'd', 4)",
    "replace where undecidable": "INSERT INTO {t} REPLACE WHERE c RLIKE 'q' VALUES (40, 'd', 4)",
    "update": "UPDATE {t} SET n = n + 1 WHERE id = 2",
    "delete": "DELETE FROM {t} WHERE id = 3",
    "merge": """MERGE INTO {t} t USING (SELECT 1 AS id, 'z' AS c, 5 AS n UNION ALL SELECT 6, 'f', 6) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "merge with evolution": """MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 7 AS id, 'g' AS c, 7 AS n, 70 AS w) s
        ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "version": "SELECT * FROM {t} VERSION AS OF 2",
    "version of a tag": "SELECT * FROM {t} VERSION AS OF 'three'",
    "no such version": "SELECT * FROM {t} VERSION AS OF 99",
    "no such tag": "SELECT * FROM {t} VERSION AS OF 'four'",
    "timestamp": "SELECT * FROM {t} TIMESTAMP AS OF (SELECT current_timestamp())",
    "timestamp too early": "SELECT * FROM {t} TIMESTAMP AS OF '2001-01-01'",
    "timestamp of an expression": "SELECT count(*) FROM {t} FOR TIMESTAMP AS OF current_timestamp() - INTERVAL 0 SECONDS",
    "version by option": lambda spark, t: spark.read.option("versionAsOf", 2).table(t).collect(),
    "tag by option": lambda spark, t: spark.read.option("tag", "three").table(t).collect(),
    "row columns": "SELECT id, _rowid IS NULL, _rowaddr IS NULL FROM {t}",
    "restore": "RESTORE TABLE {t} TO VERSION AS OF 'three'",
    "history": "DESCRIBE HISTORY {t}",
    "add columns": "ALTER TABLE {t} ADD COLUMNS (x INT DEFAULT 2 COMMENT 'two' FIRST, s STRUCT<a: INT>)",
    "add a field": "ALTER TABLE {t} ADD COLUMN s.b STRING",
    "rename": "ALTER TABLE {t} RENAME COLUMN x TO y",
    "comment on a column": "ALTER TABLE {t} ALTER COLUMN y COMMENT 'why'",
    "type": "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
    "collation": "ALTER TABLE {t} ALTER COLUMN c TYPE STRING COLLATE UNICODE_CI",
    "no collation": "ALTER TABLE {t} ALTER COLUMN c TYPE STRING",
    "describe without a collation": "DESCRIBE {t}",
    "narrower type": "ALTER TABLE {t} ALTER COLUMN n TYPE INT",
    "not null": "ALTER TABLE {t} ALTER COLUMN id SET NOT NULL",
    "drop columns": "ALTER TABLE {t} DROP COLUMNS (s, y)",
    "drop no column": "ALTER TABLE {t} DROP COLUMN missing",
    "set property": "ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v')",
    "unset property": "ALTER TABLE {t} UNSET TBLPROPERTIES ('a')",
    "comment": "COMMENT ON TABLE {t} IS 'words'",
    "show": "SHOW TBLPROPERTIES {t}",
    "constraint": "ALTER TABLE {t} ADD CONSTRAINT low CHECK (n < 100)",
    "violated constraint": "INSERT INTO {t} VALUES (8, 'h', 100)",
    "drop constraint": "ALTER TABLE {t} DROP CONSTRAINT low",
    "insert overwrite": "INSERT OVERWRITE {t} VALUES (9, 'i', 9)",
    "index": "CREATE INDEX by_id ON {t} (id)",
    "show indexes": "SHOW INDEXES FROM {t}",
    "optimize": "OPTIMIZE {t}",
    "vacuum": "VACUUM {t}",
    "analyze": "ANALYZE TABLE {t} COMPUTE STATISTICS",
    "repair": "MSCK REPAIR TABLE {t}",
    "add partition": "ALTER TABLE {t} ADD PARTITION (id = 1)",
    "show partitions": "SHOW PARTITIONS {t}",
    "show columns": "SHOW COLUMNS IN {t}",
    "truncate": "TRUNCATE TABLE {t}",
    "replace": "CREATE OR REPLACE TABLE {t} (id INT COMMENT 'new', c CHAR(3)) USING lance TBLPROPERTIES ('p' = 'q')",
    "show replaced": "SHOW TBLPROPERTIES {t}",
    "replace partitioned": "REPLACE TABLE {t} USING lance PARTITIONED BY (id) AS SELECT 5 AS id",
    "replace clustered": "REPLACE TABLE {t} USING lance CLUSTER BY (id) AS SELECT 5 AS id",
    "show clustered": "SHOW TBLPROPERTIES {t}",
    "replace as select": "REPLACE TABLE {t} USING lance AS SELECT 5 AS id, 'e' AS c, 5 AS n",
    "rename table": "ALTER TABLE {t} RENAME TO both.renamed",
    "rename back": "ALTER TABLE {space}.renamed RENAME TO both.t",
}
"""Of a table that has versions."""


def _inserted_with_a_new_column(spark: SparkSession, t: str) -> None:
    _rows(spark, 7).write.format("lance").saveAsTable(f"{t}_i")
    _rows(spark, 7, "id INT, c STRING, n INT, w INT").write.option("mergeSchema", True).insertInto(f"{t}_i")


def _counted_in_the_cache(spark: SparkSession, t: str) -> int:
    spark.catalog.cacheTable(t)
    count = spark.table(t).count()
    spark.catalog.uncacheTable(t)
    return count


WRITERS: dict[str, Step] = {
    "saveAsTable": lambda spark, t: _rows(spark, 1).write.format("lance").saveAsTable(t),
    "saveAsTable again": lambda spark, t: _rows(spark, 1).write.format("lance").saveAsTable(t),
    "saveAsTable ignore": lambda spark, t: _rows(spark, 9).write.format("lance").mode("ignore").saveAsTable(t),
    "saveAsTable append": lambda spark, t: _rows(spark, 2).write.format("lance").mode("append").saveAsTable(t),
    "saveAsTable append of other columns": lambda spark, t: (
        _rows(spark, 2, "id INT, w INT").write.format("lance").mode("append").saveAsTable(t)
    ),
    "saveAsTable mergeSchema": lambda spark, t: (
        _rows(spark, 3, "id INT, c STRING, n INT, w INT").write.format("lance").mode("append").option("mergeSchema", True).saveAsTable(t)
    ),
    "saveAsTable overwrite": lambda spark, t: _rows(spark, 4).write.format("lance").mode("overwrite").saveAsTable(t),
    "saveAsTable replaceWhere": lambda spark, t: (
        _rows(spark, 5).write.format("lance").mode("overwrite").option("replaceWhere", "id = 5").saveAsTable(t)
    ),
    "saveAsTable partitionBy": lambda spark, t: _rows(spark, 1).write.format("lance").partitionBy("id").saveAsTable(f"{t}_p"),
    "saveAsTable bucketBy": lambda spark, t: _rows(spark, 1).write.format("lance").bucketBy(2, "id").saveAsTable(f"{t}_p"),
    "insertInto": lambda spark, t: _rows(spark, 6).write.insertInto(t),
    "insertInto mergeSchema": _inserted_with_a_new_column,
    "insertInto of the format mergeSchema": lambda spark, t: (
        _rows(spark, 7, "id INT, c STRING, n INT, w INT").write.format("lance").option("mergeSchema", True).insertInto(t)
    ),
    "insertInto overwrite": lambda spark, t: _rows(spark, 8, "id INT, c STRING, n INT, w INT").write.insertInto(t, overwrite=True),
    "insertInto of the format dynamic": lambda spark, t: (
        _rows(spark, 8, "id INT, c STRING, n INT, w INT")
        .write.format("lance")
        .option("partitionOverwriteMode", "dynamic")
        .insertInto(t, overwrite=True)
    ),
    "writeTo append": lambda spark, t: _rows(spark, 9, "id INT, c STRING, n INT, w INT").writeTo(t).append(),
    "writeTo append mergeSchema": lambda spark, t: (
        _rows(spark, 10, "id INT, c STRING, n INT, w INT").withColumn("z", F.lit(1)).writeTo(t).option("mergeSchema", True).append()
    ),
    "writeTo overwrite": lambda spark, t: _rows(spark, 60).selectExpr("*", "9 AS w", "1 AS z").writeTo(t).overwrite(F.col("id") == 10),
    "writeTo overwrite of an undecidable condition": lambda spark, t: (
        _rows(spark, 60).selectExpr("*", "9 AS w", "1 AS z").writeTo(t).overwrite(F.col("c").rlike("q"))
    ),
    "writeTo overwritePartitions": lambda spark, t: _rows(spark, 11).selectExpr("*", "9 AS w", "1 AS z").writeTo(t).overwritePartitions(),
    "writeTo create again": lambda spark, t: _rows(spark, 12).writeTo(t).using("lance").create(),
    "writeTo replace": lambda spark, t: _rows(spark, 13).writeTo(t).using("lance").tableProperty("p", "q").replace(),
    "show replaced": "SHOW TBLPROPERTIES {t}",
    "writeTo createOrReplace": lambda spark, t: _rows(spark, 14).writeTo(t).using("lance").createOrReplace(),
    "writeTo create of declared columns": lambda spark, t: (
        spark.sql("SELECT CAST('a' AS STRING COLLATE UNICODE_CI) AS c")
        .withMetadata("c", {"comment": "why"})
        .writeTo(f"{t}_d")
        .using("lance")
        .create()
    ),
    "declared columns": "DESCRIBE {t}_d",
    "writeTo partitionedBy": lambda spark, t: _rows(spark, 1).writeTo(f"{t}_p").using("lance").partitionedBy(F.col("id")).create(),
    "writeTo option": lambda spark, t: _rows(spark, 15).writeTo(t).option("max_rows_per_file", "1").append(),
    "writeTo unknown option": lambda spark, t: _rows(spark, 15).writeTo(t).option("nearst", "1").append(),
    "catalog.tableExists": lambda spark, t: (spark.catalog.tableExists(t), spark.catalog.tableExists(f"{t}_none")),
    "catalog.getTable": lambda spark, t: tuple(getattr(spark.catalog.getTable(t), name) for name in ("name", "tableType", "isTemporary")),
    "catalog.listColumns": lambda spark, t: [tuple(column) for column in spark.catalog.listColumns(t)],
    "catalog.listTables": lambda spark, t: sorted(table.name for table in spark.catalog.listTables(t.rpartition(".")[0])),
    "catalog.createTable": lambda spark, t: spark.catalog.createTable(f"{t}_c", source="lance", schema=_rows(spark, 1).schema).collect(),
    "catalog.recoverPartitions": lambda spark, t: spark.catalog.recoverPartitions(t),
    "catalog.refreshTable": lambda spark, t: spark.catalog.refreshTable(t),
    "catalog.cacheTable": _counted_in_the_cache,
    "saveAsTable of a Dataset that reads it": lambda spark, t: (
        spark.table(t).selectExpr("id + 1 AS id", "c", "n").write.format("lance").mode("overwrite").saveAsTable(t)
    ),
    "drop": "DROP TABLE {t}",
    "drop again": "DROP TABLE {t}",
}
if SPARK_VERSION >= (4, 1):
    WRITERS["saveAsTable clusterBy"] = lambda spark, t: _rows(spark, 1).write.format("lance").clusterBy("id").saveAsTable(f"{t}_k")
    WRITERS["show clustered"] = "SHOW TBLPROPERTIES {t}_k"
    WRITERS["writeTo clusterBy"] = lambda spark, t: _rows(spark, 1).writeTo(f"{t}_l").using("lance").clusterBy("id").create()

if SPARK_VERSION >= (4, 2):
    DECLARED["constraint in create"] = "CREATE TABLE {t}_k (id INT, CONSTRAINT low CHECK (id < 9)) USING lance"

SCRIPTS = {"declared": DECLARED, "changes": CHANGES, "writers": WRITERS}

DIFFERENT: dict[tuple[str, str], str] = {
    ("changes", "branch by name"): "a name has one database and one table",
    ("declared", "constraint in create"): "Spark's catalog takes no constraints",
    ("declared", "version before rows"): "CREATE TABLE makes no version",
    ("declared", "optimize before rows"): "CREATE TABLE makes no version",
}
"""What stays different, with the reason. docs/limits.md has it, too."""
if SPARK_VERSION >= (4, 3):  # before, no table of a catalog takes mergeSchema
    DIFFERENT["writers", "insertInto mergeSchema"] = "Spark drops the options of a writer without format"

NOT_COMPARED = ("owner",)
"""Properties that say where a table is, and whose it is."""


OF_A_RUN = {
    # Spark needs the key beside CURRENT_DEFAULT, and has no use for it: rows that exist have values.
    r'"EXISTS_DEFAULT":"[^"]*",?': "",
    r"(file:)?/(tmp|dev/shm)/[^\s';,]+": "PLACE",
    r"\d{4}-\d\d-\d\d[ T][\d:.]+(\+[\d:]+)?|datetime\.datetime\([^)]*\)": "TIME",
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "ID",
    r"(\w+)#\d+": r"\1",
    r', "jobs": \[\]': "",
    r'"columns": \[': '"columns":[',
    r"('num_bytes_added'): '\d+'": r"\1",
}
"""What is another text in each run."""


@dataclass(frozen=True)
class Outcome:
    """What a step gives: its rows or its error; and the table after it: its columns and its rows, or the error."""

    result: object
    table: object


def _shown(value: object, space: str) -> object:
    """A result, in which the names and places of the catalogs are alike."""
    text = str(value)
    for pattern, name in OF_A_RUN.items():
        text = re.sub(pattern, name, text)
    return text.replace(space, "SPACE").replace("`{}`.`{}`".format(*space.split(".")), "SPACE")


def _ran(spark: SparkSession, step: Step, table: str, space: str) -> object:
    try:
        if callable(step):
            found = step(spark, table)
        else:
            found = [tuple(row) for row in spark.sql(step.format(t=table, space=space)).collect()]
    except SPARK_ERRORS as e:
        return _shown(f"{type(e).__name__}: {_message(e)}", space)
    if isinstance(found, list):
        found = sorted((row for row in found if not row or row[0] not in NOT_COMPARED), key=str)
    return _shown(found, space)


def _message(error: Exception) -> str:
    """What an error says: the last line of a Python worker's, without the plan."""
    text = str(error).split("JVM stacktrace")[0]
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "File ", "+-", ":", "'"))]
    own = [line for line in lines if "lance_spark.errors." in line or "Error:" in line]
    return (own or lines)[0]


def _content(spark: SparkSession, table: str) -> tuple[str, list[str]]:
    """The columns and the rows of a table."""
    frame = spark.table(table)
    return frame.schema.json(), sorted(str(tuple(row)) for row in frame.collect())


def outcomes_of(spark: SparkSession, steps: dict[str, Step], space: str) -> dict[str, Outcome]:
    """What each step gives, on the table `t` of a database."""
    table = f"{space}.t"
    found = {}
    for name, step in steps.items():
        found[name] = Outcome(_ran(spark, step, table, space), _ran(spark, _content, table, space))
    return found


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], dict[str, Outcome]]:
    """The outcomes of a script in a catalog, by the names of the steps."""
    lance_spark.catalog(spark, "lance", root=str(tmp_path_factory.mktemp("lake")))
    known: dict[tuple[str, str], dict[str, Outcome]] = {}

    def of(script: str, catalog: str) -> dict[str, Outcome]:
        if (script, catalog) not in known:
            spark.sql(f"CREATE NAMESPACE {CATALOGS[catalog]}")
            known[script, catalog] = outcomes_of(spark, SCRIPTS[script], CATALOGS[catalog])
            spark.sql(f"DROP NAMESPACE {CATALOGS[catalog]} CASCADE")
        return known[script, catalog]

    return of


STEPS = [(script, step) for script, steps in SCRIPTS.items() for step in steps]


# Slow: the doors of the session catalog have quicker tests, in test_session_tables.py, test_session_doors.py, test_declared_in_session.py.
@pytest.mark.slow
@pytest.mark.parametrize(("script", "step"), STEPS)
def test_a_step_has_the_same_outcome(outcomes: Callable[[str, str], dict[str, Outcome]], script: str, step: str) -> None:
    session, sql = outcomes(script, "session")[step], outcomes(script, "sql")[step]
    if (script, step) in DIFFERENT:
        assert session != sql, "the difference is gone: take it out of the list, and out of docs/limits.md"
        return
    assert session == sql


def _saved(mode: str, columns: str = "id INT, c STRING, n INT", **options: str | bool) -> Call:
    return lambda spark, p: _rows(spark, 2, columns).write.format("lance").mode(mode).options(**options).save(p)


OF_PATHS: dict[str, tuple[Call, object]] = {
    "errorifexists": (_saved("errorifexists"), "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    "ignore": (_saved("ignore"), "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    "append": (_saved("append"), [(1, "a", 1), (2, "a", 1)]),
    "append of other columns": (_saved("append", "id INT, c STRING, n INT, w INT"), "is not in the table"),
    "mergeSchema": (_saved("append", "id INT, c STRING, n INT, w INT", mergeSchema=True), [(1, "a", 1, None), (2, "a", 1, 9)]),
    "overwrite": (_saved("overwrite", "id INT, w INT"), [(2, 9)]),
    "replaceWhere": (_saved("overwrite", replaceWhere="id = 2"), [(1, "a", 1), (2, "a", 1)]),
    "dynamic": (_saved("overwrite", partitionOverwriteMode="dynamic"), "use replaceWhere for a table"),
    "partitionBy": (lambda spark, p: _rows(spark, 2).write.format("lance").mode("append").partitionBy("id").save(p), "partition"),
    "bucketBy": (lambda spark, p: _rows(spark, 2).write.format("lance").mode("append").bucketBy(2, "id").save(p), "bucketBy"),
    "writeTo": (lambda spark, p: _rows(spark, 2).writeTo(f"lance.`{p}`").append(), [(1, "a", 1), (2, "a", 1)]),
    "writeTo replace": (lambda spark, p: _rows(spark, 2).writeTo(f"lance.`{p}`").createOrReplace(), [(2, "a", 1)]),
    "saveAsTable": (lambda spark, p: _rows(spark, 2).write.mode("append").saveAsTable(f"lance.`{p}`"), [(1, "a", 1), (2, "a", 1)]),
    "insertInto": (lambda spark, p: _rows(spark, 2).write.insertInto(f"lance.`{p}`"), [(1, "a", 1), (2, "a", 1)]),
}
"""What a call writes to a path where the row (1, 'a', 1) is, or the error."""


@pytest.mark.parametrize("word", OF_PATHS)
def test_a_call_writes_to_a_path_or_is_refused(spark: SparkSession, tmp_path: Path, word: str) -> None:
    lance_spark.catalog(spark, "lance", root=str(tmp_path / "lake"))
    path = str(tmp_path / "t.lance")
    _rows(spark, 1).write.format("lance").mode("append").save(path)
    call, expected = OF_PATHS[word]
    if isinstance(expected, str):
        with pytest.raises(SPARK_ERRORS, match=expected):
            call(spark, path)
    else:
        call(spark, path)
        assert sorted(tuple(row) for row in spark.read.format("lance").load(path).collect()) == expected
