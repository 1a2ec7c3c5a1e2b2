"""A round: a table in Lance and in Parquet, settings of the session, and the queries whose results differ."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.spark.columns.types import to_spark
from tests.spark.plans import PUSH_DOWN, set_to
from tests.spark.sql.rotation.commands import COPY, Command, Commands
from tests.spark.sql.rotation.queries import RELATION, Queries
from tests.spark.sql.rotation.rows import Table, random_table

ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Europe/Amsterdam", "Africa/Monrovia", "Antarctica/Troll", "+05:45"]


def random_settings(rng: random.Random) -> dict[str, str]:
    """Settings of a session that may change what a query means or how it is planned."""
    switches = ["sql.ansi.enabled", "sql.caseSensitive", "lance.columnar", "sql.adaptive.enabled"]
    generated = rng.choice(["true", "false", "false"])
    return {f"spark.{name}": rng.choice(["true", "false"]) for name in switches} | {
        "spark.sql.session.timeZone": rng.choice(ZONES),
        "spark.sql.timestampType": rng.choice(["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"]),
        "spark.sql.codegen.wholeStage": generated,
        "spark.sql.codegen.factoryMode": "FALLBACK" if generated == "true" else "NO_CODEGEN",
        "spark.sql.autoBroadcastJoinThreshold": rng.choice(["-1", "10MB"]),
    }


@dataclass(frozen=True)
class Result:
    """What a query returns: its columns and its rows, sorted, or the class of its error."""

    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    error: str = ""
    message: str = ""

    def same(self, other: Result) -> bool:
        """Whether the error is the same, or the columns and rows."""
        return (self.error, self.columns, self.rows) == (other.error, other.columns, other.rows)

    def against(self, other: Result) -> str:
        """The columns and rows that the other result lacks."""
        if self.error:
            return f"{self.error}: {self.message}"
        columns = set(self.columns) - set(other.columns)
        rows = list((Counter(self.rows) - Counter(other.rows)).elements())
        return f"{len(self.rows)} rows; columns only here: {sorted(columns)}; rows only here: {rows[:4]}"


def run(spark: SparkSession, query: str) -> Result:
    """Run a query."""
    try:
        table = spark.sql(query).toArrow()
    except PySparkException as e:
        return Result(error=f"{type(e).__name__} {e.getCondition()}", message=str(e)[:600])
    except Py4JJavaError as e:
        return Result(error="Py4JJavaError", message=str(e)[:2000])
    names = tuple(f"{f.name} {f.type}".replace(" not null", "") for f in table.schema)
    columns = [column.cast(comparable(column.type)).to_pylist() for column in table.columns]
    return Result(names, tuple(sorted(map(repr, zip(*columns)))))


def comparable(t: pa.DataType) -> pa.DataType:
    """The type with numbers for dates and times, which Python has no values for before year 1."""
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        return pa.int64()
    if pa.types.is_date32(t):
        return pa.int32()
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, comparable(f.type), f.nullable) for f in t])
    if pa.types.is_map(t):
        return pa.map_(comparable(t.key_type), comparable(t.item_type))
    return pa.list_(comparable(t.value_type)) if pa.types.is_list(t) else t


@dataclass(frozen=True)
class Round:
    """The rows of a table, as the relation `ours` in Lance and as the relation `theirs` in Parquet."""

    spark: SparkSession
    rng: random.Random
    table: Table
    settings: dict[str, str]
    ours: str
    theirs: str

    def difference(self, query: str) -> str:
        """The difference of a query's results, "" if there is none.

        Spark takes the statistics of a Parquet file as if there were no NaN in it, so it gets no filters. A row that the reader leaves
        out cannot raise an error: then a query fails only without push-down.
        """
        with set_to(self.spark, {"spark.sql.parquet.filterPushdown": "false"}):
            expected = run(self.spark, query.replace(RELATION, self.theirs))
        mine = query.replace(RELATION, self.ours)
        found = run(self.spark, mine)
        if found.same(expected):
            return ""
        if expected.error and not found.error:
            with set_to(self.spark, {"spark.sql.optimizer.excludedRules": PUSH_DOWN}):
                if run(self.spark, mine).same(expected):
                    return ""
        return f"{self.settings}\n{mine}\n  parquet {expected.against(found)}\n  lance   {found.against(expected)}"

    def change(self, command: Command) -> str:
        """Run a statement, and return how the table differs from what the query for its rows says, "" if it does not."""
        rows = self.spark.sql(f"SELECT * FROM {self.ours}").toArrow()
        self.spark.createDataFrame(rows, to_spark(self.table.rows.schema)).createOrReplaceTempView("rows_before")
        before, expected = (run(self.spark, q.replace(COPY, "rows_before")) for q in ("SELECT * FROM rows_before", command.expected))
        statement = command.statement.replace(RELATION, self.ours).replace(COPY, "rows_before")
        failure = run(self.spark, statement)
        found = run(self.spark, f"SELECT * FROM {self.ours}")
        wanted = before if failure.error else expected
        if found.same(wanted) and (not failure.error or failure.error == expected.error):
            return ""
        error = f"{failure.error}: {failure.message}\n  instead of {expected.error}: {expected.message}" if failure.error else ""
        return f"{self.settings}\n{statement}\n  expected {wanted.against(found)}\n  found    {found.against(wanted)}\n  {error}"


@contextmanager
def started(spark: SparkSession, seed: int, folder: Path) -> Iterator[Round]:
    """The round with this seed."""
    rng = random.Random(seed)
    values = random_settings(rng)
    with set_to(spark, values):
        table = random_table(rng, values["spark.sql.caseSensitive"] == "true")
        frame = spark.createDataFrame(table.rows, to_spark(table.rows.schema))
        lance, parquet = f"{folder}/{seed}.lance", f"{folder}/{seed}.parquet"
        frame.write.parquet(parquet)
        frame.write.format("lance").mode("append").save(lance)
        with relation(spark, rng, lance) as ours:
            yield Round(spark, rng, table, values, ours, f"parquet.`{parquet}`")


@contextmanager
def relation(spark: SparkSession, rng: random.Random, path: str) -> Iterator[str]:
    """The name of a relation: a view of the path, a table of the session catalog, or the path in the SQL catalog."""
    name, kind = f"`{rng.choice(['values', 'comment', 't1', '_rowid'])}`", rng.randrange(3)
    if kind == 0:
        spark.sql(f"CREATE TEMPORARY VIEW {name} USING lance OPTIONS (path '{path}')")
        yield name
        spark.sql(f"DROP VIEW {name}")
    elif kind == 1:
        spark.sql(f"CREATE TABLE {name} USING lance LOCATION '{path}'")
        yield name
        spark.sql(f"DROP TABLE {name}")
    else:
        lance_spark.catalog(spark, "lance")
        yield f"lance.`{path}`"
        spark.conf.unset("spark.sql.catalog.lance")


def differences(spark: SparkSession, seed: int, queries: int, commands: int, folder: Path) -> list[str]:
    """The differences in the round with this seed."""
    with started(spark, seed, folder) as this:
        asked, changes = Queries(this.rng, this.table), Commands(this.rng, this.table)
        found = [this.difference(asked.query()) for _ in range(queries)] + [this.change(changes.command()) for _ in range(commands)]
    return [f"seed {seed}, {difference}" for difference in found if difference]
