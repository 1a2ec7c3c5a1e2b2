"""A merge finds the rows that match in tasks, or before Spark joins them: it changes the same rows as a join of all rows."""

from __future__ import annotations

import datetime
import decimal
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lance_spark import LanceTable
from lance_spark.errors import AmbiguousMergeError
from lance_spark.spark.columns.types import to_spark
from lance_spark.table.changes.merge import rows as merge_rows
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.scan import runner
from lance_spark.verbs.merge import matching, merge
from lance_spark.verbs.merge.matching import Keys, equal_columns, used_columns
from tests.sample import others_slow

NEVER = 1 << 60
COUNT = 600
TYPES = {
    "small": pa.int16(),
    "long": pa.int64(),
    "double": pa.float64(),
    "single": pa.float32(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "money": pa.decimal128(20, 2),
    "wide": pa.decimal128(38, 0),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("ms"),
    "day": pa.date32(),
    "flag": pa.bool_(),
}


def value(rng: random.Random, kind: str) -> Any:
    """A value of a column; few of them are equal by chance, except flags."""
    if rng.random() < 0.05:
        return None
    n = rng.randrange(-400, 400)
    special = rng.choice([float("nan"), 0.0, -0.0, float("inf")]) if rng.random() < 0.01 else n / 4
    epoch = datetime.datetime(2020, 1, 1)
    return {
        "small": n,
        "long": n,
        "double": special,
        "single": special,
        "text": "é" * (n % 3) + f"text {n}",
        "bytes": bytes([n % 256]) * (n % 11),
        "money": decimal.Decimal(n) / 4,
        "wide": decimal.Decimal(n) * 10**30,
        "at": epoch.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=n),
        "local": epoch + datetime.timedelta(milliseconds=n),
        "day": datetime.date(2020, 1, 1) + datetime.timedelta(days=n),
        "flag": n % 2 == 0,
    }[kind]


def rows(rng: random.Random, count: int, first: int) -> pa.Table:
    columns = {name: pa.array([value(rng, name) for _ in range(count)], kind) for name, kind in TYPES.items()}
    return pa.table({"n": pa.array(range(first, first + count), pa.int64()), **columns})


def source_of(spark: SparkSession, data: pa.Table) -> DataFrame:
    """A frame with the rows; `long` is an int there, `small` a long and `single` a double."""
    schema = pa.schema(
        [f.with_type({"long": pa.int32(), "small": pa.int64(), "single": pa.float64()}.get(f.name, f.type)) for f in data.schema]
    )
    return spark.createDataFrame(data.cast(schema), to_spark(schema)).alias("s")


def merged(table: LanceTable, source: DataFrame, condition: str) -> RowChanges | str:
    builder = table.alias("t").merge(source, condition)
    builder = builder.whenMatchedDelete("s.n % 7 = 0 AND t.n % 2 = 0").whenMatchedUpdate(
        "t.day IS NOT NULL", {"n": "s.n + t.n", "text": "s.text"}
    )
    try:
        return builder.whenNotMatchedInsert("s.n % 5 <> 0", {"n": "s.n", "text": "s.text", "double": "s.double"}).execute()
    except AmbiguousMergeError as e:
        return type(e).__name__


def contents(uri: str) -> list[str]:
    """The rows, with the ids of those that were there."""
    dataset = lance.dataset(uri)
    dataset.validate()
    found = dataset.to_table(with_row_id=True).to_pylist()
    return sorted(str({**row, "_rowid": min(row["_rowid"], COUNT) if dataset.has_stable_row_ids else 0}) for row in found)


CONDITIONS = [
    "t.double = s.double",
    "t.small = s.small",
    "(t.single = s.single)",
    "t.bytes = s.bytes AND t.flag = s.flag AND t.day IS NOT NULL",
    "t.`text` = s.text AND s.n > 3",
    "s.long == t.long AND t.n > 10",
    "t.wide = s.wide",
    "t.money = s.money",
    "t.at = s.at",
    "t.local = s.local",
    "t.day = s.day AND (t.flag = s.flag OR s.n > 5)",
]


TRIED = range(0, len(CONDITIONS), 1 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 3)


@pytest.mark.parametrize("number", others_slow(TRIED, TRIED[::2]), ids=[CONDITIONS[number] for number in TRIED])
def test_the_rows_are_those_of_a_join(number: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(number)
    tasks, found, joined = (str(tmp_path / name) for name in ("tasks.lance", "found.lance", "joined.lance"))
    lance.write_dataset(rows(rng, COUNT, 0), found, max_rows_per_file=170, enable_stable_row_ids=number % 2 == 0)
    lance.dataset(found).delete("n % 9 = 4")
    shutil.copytree(found, joined)
    shutil.copytree(found, tasks)
    source = source_of(spark, rows(rng, 40, COUNT)).dropDuplicates(["flag", *(c for c in TYPES if c in CONDITIONS[number] and c != "flag")])
    used: list[str] = []

    def noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            used.append(name)
            return original(*given)

        return noted

    monkeypatch.setattr(matching, "frame_of", noting("found", matching.frame_of))
    monkeypatch.setattr(merge, "merge_in_tasks", noting("in tasks", merge_rows.merge_in_tasks))
    if number % 2:
        # Executors run the tasks, and write all rows themselves.
        monkeypatch.setattr(runner, "_SMALL_WORK", -1)
        monkeypatch.setattr(merge_rows, "_LEFT_BYTES", 0)
    in_tasks = merged(LanceTable.forPath(spark, tasks), source, CONDITIONS[number])
    monkeypatch.setattr(merge, "own_merge", lambda *given: None)
    monkeypatch.setattr(matching, "MIN_ROWS", 0)
    done = merged(LanceTable.forPath(spark, found), source, CONDITIONS[number])
    assert used == ["in tasks", "found"]
    monkeypatch.setattr(matching, "MIN_ROWS", NEVER)
    expected = merged(LanceTable.forPath(spark, joined), source, CONDITIONS[number])
    assert figures(in_tasks) == figures(done) == figures(expected)
    assert contents(tasks) == contents(found) == contents(joined)


def figures(done: RowChanges | str) -> object:
    """What a merge did, without the files, whose number depends on the tasks."""
    return done if isinstance(done, str) else (done.version, done.num_updated_rows, done.num_deleted_rows, done.num_inserted_rows)


@pytest.fixture
def table(uri: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> LanceTable:
    monkeypatch.setattr(merge, "own_merge", lambda *given: None)
    monkeypatch.setattr(matching, "MIN_ROWS", 0)
    lance.write_dataset(pa.table({"id": pa.array(range(1000), pa.int64()), "v": ["old"] * 1000}), uri, max_rows_per_file=400)
    return LanceTable.forPath(spark, uri).alias("t")


def ids(table: LanceTable) -> list[int]:
    return sorted(row[0] for row in table.toDF().select("id").collect())


def test_a_source_is_evaluated_once(table: LanceTable, spark: SparkSession) -> None:
    number = F.udf(lambda _: random.SystemRandom().randrange(8000), "bigint").asNondeterministic()
    source = spark.range(200).select(number("id").alias("id"), F.lit("new").alias("v")).dropDuplicates(["id"]).alias("s")
    table.merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert len(ids(table)) == len(set(ids(table))) > 1000


def test_what_is_kept_of_a_source_is_released(table: LanceTable, spark: SparkSession) -> None:
    table.merge(spark.range(5).alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    assert not spark.range(5).is_cached
    assert ids(table)[0] == 5
    cached = spark.range(5, 8).cache()
    table.merge(cached.alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    assert ids(table)[0] == 8
    assert cached.storageLevel.useMemory
    cached.unpersist()


def test_a_source_with_too_many_keys_is_joined(table: LanceTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MAX_KEYS", 10)
    source = spark.range(990, 1010).alias("s")
    assert matching.keys_of(source, ["id"]) is None
    done = table.merge(source, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsert(values={"id": "s.id"}).execute()
    assert (done.num_deleted_rows, done.num_inserted_rows) == (10, 10)
    assert not source.storageLevel.useMemory


def test_rows_without_a_match_are_only_inserted(table: LanceTable, spark: SparkSession) -> None:
    source = spark.range(2000, 2003).withColumn("v", F.lit("new")).alias("s")
    done = table.merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert (done.num_updated_rows, done.num_inserted_rows) == (0, 3)
    assert ids(table)[-3:] == [2000, 2001, 2002]


def test_many_matches_are_not_broadcast(table: LanceTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_BROADCAST_BYTES", 0)
    done = table.merge(spark.range(100).alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "upper(t.v)"}).execute()
    assert done.num_updated_rows == 100
    assert table.toDF().where("v = 'OLD'").count() == 100


def test_two_rows_of_the_source_for_one_row_are_refused(table: LanceTable, spark: SparkSession) -> None:
    source = spark.range(3).union(spark.range(3)).alias("s")
    with pytest.raises(AmbiguousMergeError, match=r"id = [012]"):
        table.merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "'x'"}).execute()


TABLE = StructType().add("id", "long").add("k", "integer").add("name", "string").add("only", "string")
TABLE = TABLE.add("st", StructType().add("id", "long"))
SOURCE = StructType().add("id", "integer").add("k", "string").add("name", "string").add("key", "long").add("x", "string").add("X", "string")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t.id = s.id", [("id", "id")]),
        ("s.id = T.ID", [("id", "id")]),
        ("key = t.id AND s.name == only", [("id", "key"), ("only", "name")]),
        ("t.id = s.id AND (t.name = s.name OR t.k > 3)", [("id", "id")]),
        ("t.id = s.id OR t.name = s.name", None),
        ("NOT t.id = s.id", None),
        ("t.id <=> s.id", None),
        ("id = s.id", None),
        ("t.k = s.k", None),
        ("t.id = t.k", None),
        ("t.id = s.id + 1", None),
        ("t.st.id = s.id", None),
        ("st.id = s.id", None),
        ("t.name = s.x", None),
        ("t.name = 's.name'", None),
        ("t.id = = s.id", None),
    ],
)
def test_equal_columns_are_found_in_a_condition(condition: str, expected: list[tuple[str, str]] | None) -> None:
    wanted = None if expected is None else Keys(tuple(own for own, _ in expected), tuple(other for _, other in expected))
    assert equal_columns(condition, "t", TABLE, SOURCE) == wanted


def test_columns_are_used_if_their_names_occur() -> None:
    from lance_spark.schema.schema import from_arrow

    schema = from_arrow(pa.schema([("id", pa.int64()), ("a b", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("ns"))]))
    assert used_columns(schema, ["t.ID > 1", "names"]) == ("id", "a b")
    assert used_columns(schema, ["struct(t.*)"]) is None
    assert used_columns(schema, ["id * 2"]) == ("id", "a b")
    assert used_columns(schema, [F.lit(1)]) is None
    # Spark refuses nanoseconds, but only where it must read them.
    assert used_columns(schema, ["s.at"]) is None
