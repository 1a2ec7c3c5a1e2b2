"""Push-down: queries read only what they need, and explain() shows it."""

from __future__ import annotations

import contextlib
import io
import pickle
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset
from lance_spark.spark.protocol import Headed, Task
from lance_spark.spark.source import LanceDataSource
from tests.spark.plans import physical, rows_read, scan_statistics, scans, settings
from tests.tables import rename_column

Load = Callable[..., DataFrame]
ROWS = 1000


def table(rows: int = ROWS) -> pa.Table:
    """Every relevant kind of column; `a` and `st` have nulls."""
    ids = range(rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "a": pa.array([i % 10 if i % 7 else None for i in ids], pa.int32()),
            "s": [f"name-{i % 100:03d}" for i in ids],
            "f": [i / 4 for i in ids],
            "st": [{"p": i, "q": {"r": f"r{i % 5}", "z": i / 3}} if i % 11 else None for i in ids],
            "ab": pa.array(ids, pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of four fragments."""
    uri = str(tmp_path_factory.mktemp("pushdown") / "t.lance")
    Dataset.write(uri, table(), max_rows_per_file=250)
    rename_column(uri, "ab", "a.b")
    return uri


@pytest.fixture
def df(load: Load, stored: str) -> DataFrame:
    return load(stored)


@pytest.fixture
def plainly(spark: SparkSession) -> Iterator[None]:
    """A session without adaptive execution, which would hide the numbers of rows."""
    with settings(spark, adaptive__enabled="false"):
        yield


def remove_data(uri: str) -> None:
    """Remove the data files, so that only operations without them work."""
    shutil.rmtree(Path(uri) / "data")


def test_explain_shows_what_is_pushed(df: DataFrame, stored: str) -> None:
    [scan] = scans(df.where("id > 990 AND st.q.r = 'r1'").select("s"))
    assert "PushedFilters: [" in scan
    assert "id > 990, st.q.r = 'r1']" in scan
    assert "ReadSchema: struct<s:string>" in scan
    assert stored in scan
    assert "Filter (" not in physical(df.where("id > 990 AND st.q.r = 'r1'").select("s"))
    assert "PushedLimit: LIMIT 3" in scans(df.limit(3))[0]
    assert "PushedTopN: [id DESC NULLS LAST] LIMIT 3" in scans(df.orderBy(F.desc("id")).limit(3))[0]
    assert "PushedAggregates: [COUNT(*), MAX(id)]" in scans(df.agg(F.count("*"), F.max("id")))[0]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        df.where("id = 3").explain("formatted")
    assert "PushedFilters: [id IS NOT NULL, id = 3]" in out.getvalue()


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("id = 3", 1),
        ("id IN (3, 5, 9999)", 2),
        ("id BETWEEN 3 AND 5 OR id >= 998", 5),
        ("NOT (id < 990)", 10),
        ("a IS NULL AND id < 70", 10),
        ("a <=> 3 AND id < 10", 1),
        ("s LIKE 'name-01%' AND id < 100", 10),
        ("s LIKE '%-010' AND id < 100", 1),
        ("s LIKE '%e-01%' AND id < 100", 10),
        ("st.q.r = 'r3' AND st.p < 10", 2),
        ("`a.b` = 7", 1),
        ("f = 0.25", 1),
        ("ID = 3", 1),
        ("upper(s) = 'NAME-003' AND id < 10", 10),
        ("st IS NULL AND id < 23", 3),
    ],
)
def test_conditions_reach_the_reader(df: DataFrame, condition: str, rows: int) -> None:
    assert rows_read(df.where(condition)) == rows


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize("condition", ["((a > 3) OR NULL) = (id > 900)", "(CAST(a AS tinyint) >= -128) = (id > 900)"])
def test_conditions_that_spark_cannot_push_do_not_fail(df: DataFrame, condition: str) -> None:
    """Spark's own push-down raises an error for them."""
    chosen = df.where(condition)
    [scan] = scans(chosen.select("s"))
    assert "PushedFilters: [], ReadSchema: struct<id:bigint,a:int,s:string>" in scan
    assert chosen.count() == sum(i > 900 for i in range(ROWS) if i % 7 and (i % 10 > 3 or "tinyint" in condition))
    assert df.orderBy(F.expr(condition), "id").limit(1).select("id").collect() == [(0,)]
    assert df.agg(F.expr(f"max({condition})")).collect() == [(True,)]


def test_limits_and_the_first_rows_of_an_order_reach_the_reader(df: DataFrame) -> None:
    assert rows_read(df.limit(7)) == 7
    assert rows_read(df.where("id > 500").limit(7)) == 7
    assert rows_read(df.orderBy("a", F.desc("id")).limit(7)) == 7
    assert rows_read(df.orderBy(F.desc("st.p")).limit(5).select("s")) == 5
    assert rows_read(df.orderBy("id").offset(3).limit(2)) == 5
    # Floating point numbers have another order in Arrow.
    assert rows_read(df.orderBy("f").limit(7)) == ROWS


@pytest.mark.usefixtures("plainly")
def test_aggregates_give_one_row_of_each_task(df: DataFrame) -> None:
    counted = df.agg(F.count("*"), F.count("a"), F.min("s"), F.max("st.p"), F.min("id"))
    assert rows_read(counted) == 1
    assert counted.collect() == [(1000, 857, "name-000", 999, 0)]
    filtered = df.where("id >= 990").agg(F.count("*").alias("n"), F.max("a").alias("a"))
    assert rows_read(filtered) == 1
    assert filtered.collect() == [Row(n=10, a=9)]
    assert df.where("id < 0").agg(F.count("*").alias("n"), F.max("a").alias("a")).collect() == [Row(n=0, a=None)]


@pytest.mark.usefixtures("plainly")
def test_groups_are_aggregated_by_the_reader(df: DataFrame) -> None:
    grouped = df.groupBy("a", "st.q.r").agg(F.count("*"), F.sum("id"), F.max("s"), F.count("f"))
    assert "PushedAggregates: [COUNT(*), SUM(id), MAX(s), COUNT(f)] BY [a, st.q.r]" in scans(grouped)[0]
    groups = {(i % 10 if i % 7 else None, f"r{i % 5}" if i % 11 else None) for i in range(ROWS)}
    assert rows_read(grouped) == len(groups) < 30
    assert sum(row[3] for row in grouped.collect()) == sum(range(ROWS))
    assert rows_read(df.where("id >= 100").groupBy("a").count()) == 11
    assert rows_read(df.select("a").distinct()) == 11


@pytest.mark.usefixtures("plainly")
def test_nearly_unique_keys_are_grouped_by_spark(spark: SparkSession, load: Load, uri: str) -> None:
    Dataset.write(uri, pa.table({"k": range(40_000), "n": [1] * 40_000}))
    grouped = load(uri).groupBy("k").agg(F.sum("n"), F.count("*"))
    assert "SUM(n), COUNT(*)] BY [k]" in scans(grouped)[0]
    assert grouped.agg(F.sum("sum(n)"), F.count("*")).collect() == [(40_000, 40_000)]


def test_groups_have_neither_deleted_rows_nor_those_without_the_condition(load: Load, uri: str) -> None:
    dataset = Dataset.write(uri, pa.table({"k": ["even", "odd"] * 500, "n": range(1000)}), max_rows_per_file=300)
    dataset.delete("n % 3 = 0")
    kept = [n for n in range(10, 1000) if n % 3]
    even, odd = [n for n in kept if n % 2 == 0], [n for n in kept if n % 2]
    found = load(uri, filter="n >= 10").groupBy("k").agg(F.sum("n"), F.count("*")).collect()
    assert sorted(found) == [("even", sum(even), len(even)), ("odd", sum(odd), len(odd))]


@pytest.mark.usefixtures("plainly")
def test_a_subquery_that_becomes_a_join_gets_its_conditions_and_aggregates(spark: SparkSession, df: DataFrame) -> None:
    """Spark makes scans of a correlated subquery before it has all conditions on them."""
    df.createOrReplaceTempView("correlated")
    newest = "SELECT id FROM correlated AS o WHERE id = (SELECT max(id) FROM correlated AS i WHERE i.{0} = o.{0})"
    by_text = spark.sql(newest.format("s"))
    assert "PushedFilters: [s IS NOT NULL], PushedAggregates: [MAX(id)] BY [s]" in " ".join(scans(by_text))
    assert {row.id for row in by_text.collect()} == set(range(900, 1000))
    by_field = spark.sql(newest.format("st.q.r"))
    assert {row.id for row in by_field.collect()} == {995, 996, 997, 998, 999}
    most = spark.sql(
        "SELECT count(*) AS n FROM correlated AS o WHERE EXISTS (SELECT 1 FROM correlated AS i WHERE i.a = o.a AND i.id > 996)"
    )
    assert most.collect() == [Row(n=sum(i % 10 in {7, 8, 9} and i % 7 != 0 for i in range(ROWS)))]


def test_sums_of_floats_are_pushed_only_if_the_session_allows_it(spark: SparkSession, df: DataFrame) -> None:
    """The order of the additions changes the last digit."""
    floats = [F.sum("f"), F.avg("f"), F.avg("a")]
    for function in floats:
        assert "PushedAggregates" not in scans(df.agg(function))[0]
    expected = df.agg(*floats).collect()
    spark.conf.set("spark.lance.pushFloatAggregates", "true")
    try:
        allowed = df.agg(*floats)
        assert "PushedAggregates: [SUM(f), COUNT(f), SUM(a), COUNT(a)]" in scans(allowed)[0]
        assert allowed.collect() == expected
        # A sum of longs can overflow, while Spark's average adds up doubles.
        assert "PushedAggregates" not in scans(df.agg(F.avg("id")))[0]
    finally:
        spark.conf.unset("spark.lance.pushFloatAggregates")


def test_arithmetic_on_decimals_is_exact_or_an_error(load: Load, uri: str) -> None:
    large, small = Decimal(9 * 10**37), Decimal("1.50")
    types = [("x", pa.decimal128(38, 0)), ("y", pa.decimal128(15, 2))]
    rows = [(large, small), (None, None), (Decimal(2), small), (Decimal(-2), Decimal("-0.25"))]
    Dataset.write(uri, pa.table([pa.array(c, t) for c, (_, t) in zip(zip(*rows), types)], [name for name, _ in types]))
    df = load(uri)
    products = df.where("x < 10").agg(F.expr("sum(x * y)"), F.expr("sum(y * (1 - y))"), F.expr("max(x + y)"), F.expr("avg(y)"))
    assert "SUM(x * y), SUM(y * (1 - y)), MAX(x + y)" in scans(products)[0]
    assert products.collect() == [(Decimal("3.50"), Decimal("-1.0625"), Decimal("3.50"), Decimal("0.625000"))]
    with pytest.raises(PySparkException, match="arithmetic overflow"):
        df.agg(F.expr("sum(x * y)")).collect()


def test_aggregates_without_functions_have_one_row(df: DataFrame) -> None:
    assert df.select("id").summary().count() == 8
    assert df.agg({"id": "max"}).select(F.explode(F.array(F.lit(1), F.lit(2)))).count() == 2
    assert df.where("id < 0").agg({"id": "max"}).count() == 1


def test_counting_rows_opens_no_data_file(load: Load, uri: str) -> None:
    dataset = Dataset.write(uri, table(50), max_rows_per_file=20)
    df = load(uri)
    remove_data(uri)
    assert df.count() == dataset.count_rows() == 50
    assert df.groupBy().count().collect() == [Row(count=50)]
    assert "PushedAggregates: [COUNT(*)]" in scans(df.groupBy().count())[0]
    assert "HashAggregate" not in physical(df.groupBy().count())


def test_rows_without_values_open_no_data_file(spark: SparkSession, load: Load, uri: str) -> None:
    Dataset.write(uri, table(50), max_rows_per_file=20)
    df = load(uri)
    remove_data(uri)
    assert [r.one for r in df.select(F.lit(1).alias("one")).collect()] == [1] * 50
    assert df.select("id").crossJoin(spark.range(2)).count() == 100
    assert df.select(F.rand().alias("r")).where("r < 2").count() == 50


def test_rows_without_values_of_columns_that_are_never_null(load: Load, uri: str) -> None:
    schema = pa.schema([pa.field("s", pa.string(), False), pa.field("t", pa.struct([pa.field("x", pa.int8(), False)]), False)])
    Dataset.write(uri, pa.table({"s": ["a", "b"], "t": [{"x": 1}, {"x": 2}]}, schema=schema))
    assert load(uri).select(F.lit(1)).count() == 2
    assert len(load(uri).selectExpr("1 AS one", "rand() AS r").where("r < 2").collect()) == 2


def test_a_limit_reads_only_the_files_that_it_needs(load: Load, uri: str) -> None:
    Dataset.write(uri, table(50), max_rows_per_file=10)
    df = load(uri)
    for fragment in Dataset.open(uri).snapshot.manifest.fragments[1:]:
        Path(uri, "data", fragment.files[0].path).unlink()
    assert len(df.limit(10).collect()) == 10


def test_an_empty_table_gives_the_one_row_of_its_aggregates(load: Load, uri: str) -> None:
    Dataset.write(uri, table(0))
    assert load(uri).agg(F.count("*").alias("n"), F.max("id").alias("m")).collect() == [Row(n=0, m=None)]
    assert load(uri).count() == 0
    assert load(uri).orderBy("id").limit(3).collect() == []
    assert load(uri).where("id = 3").limit(3).collect() == []


def test_options_come_before_what_spark_pushes(load: Load, stored: str) -> None:
    assert load(stored, filter="id < 5").where("id > 2").count() == 2
    limited = load(stored, limit=5)
    assert limited.where("id = 700").count() == 0
    assert limited.count() == 5
    assert limited.orderBy(F.desc("id")).limit(1).select("id").collect() == [Row(id=4)]
    assert limited.agg(F.max("id")).collect() == [(4,)]
    assert load(stored, limit=5, filter="id > 10").where("id > 12").select("s").count() == 3
    assert "ReadSchema: struct<s:string>" in scans(limited.select("s"))[0]
    assert load(stored, columns="st.q.r, id").where("st.q.r = 'r1' AND id < 10").select("st").collect() == [
        Row(st=Row(q=Row(r="r1"))),
        Row(st=Row(q=Row(r="r1"))),
    ]
    with_ids = load(stored, with_row_id=True, with_row_address=True)
    assert with_ids.where("_rowid = 3").select("id").collect() == [Row(id=3)]
    assert with_ids.where("_rowaddr >= 4294967296").count() == 750
    assert with_ids.agg(F.max("_rowid")).collect()[0][0] == (3 << 32) + 249


def test_deleted_rows_do_not_count(load: Load, uri: str) -> None:

    dataset = lance.write_dataset(table(100).drop_columns("ab"), uri, max_rows_per_file=40, data_storage_version="2.1")
    dataset.delete("id % 3 = 0")
    df = load(uri)
    assert df.count() == 66
    assert df.where("id < 10").count() == 6
    assert [r.id for r in df.orderBy(F.desc("id")).limit(2).collect()] == [98, 97]
    assert df.agg(F.min("id"), F.max("id")).collect() == [(1, 98)]


@pytest.mark.usefixtures("plainly")
def test_dynamic_pruning_reaches_the_reader(spark: SparkSession, df: DataFrame, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id * 100 AS k", "id AS v").write.parquet(f"{tmp_path}/few")
    few = spark.read.parquet(f"{tmp_path}/few").where("v = 1")
    joined = df.join(F.broadcast(few), df.id == few.k).select("s", "v")
    assert joined.collect() == [Row(s="name-000", v=1)]
    assert "RuntimeFilters: [id IN (100)]" in physical(joined)
    assert rows_read(joined) == 1


def test_equal_scans_are_read_once(spark: SparkSession, df: DataFrame) -> None:
    with settings(spark, autoBroadcastJoinThreshold="-1", adaptive__enabled="false"):
        one = df.where("id < 20").select("id", "a")
        joined = one.alias("l").join(one.alias("r"), F.col("l.a") == F.col("r.a"))
        assert "ReusedExchange" in physical(joined)
        assert joined.count() == sum(sum(1 for j in range(20) if j % 7 and i % 10 == j % 10) for i in range(20) if i % 7)
        other = df.where("id < 21").select("id", "a")
        assert "ReusedExchange" not in physical(one.alias("l").join(other.alias("r"), F.col("l.a") == F.col("r.a")))


def test_small_sides_are_broadcast_by_their_size(spark: SparkSession, load: Load, df: DataFrame, uri: str) -> None:
    Dataset.write(uri, table(10))
    small = load(uri).select("id", "s")
    plan = physical(df.join(small, "id"))
    assert "BroadcastHashJoin" in plan
    assert "BuildRight" in plan
    assert "SortMergeJoin" in physical(spark.range(10).hint("merge").join(df, "id"))
    assert scan_statistics(small)[0] == 10
    assert scan_statistics(small)[1] < scan_statistics(load(uri))[1]
    assert scan_statistics(df.limit(3))[0] == 3


def test_the_size_of_a_partition_is_its_own_and_survives_any_literal(stored: str, df: DataFrame) -> None:
    """Bytes of a literal that look like a header are behind it in the pickle."""
    hostile = Task(1, 1, 0, 0, 0, "").frame().decode()
    condition = ["<>", ["c", "s"], ["l", "string", hostile]]
    bound = LanceDataSource({"path": stored}).bound({"filter": [condition], "limit": 12})
    for partition in bound.reader(bound.schema()).partitions():
        assert isinstance(partition, Headed)
        frame, body = partition.__reduce__()[1]
        assert (Task.read(frame).rows, hostile.encode() in body) == (12, True)
    others = df.where(F.col("s") != hostile)
    assert scan_statistics(others)[0] == ROWS
    assert others.count() == ROWS


def test_a_literal_that_is_not_utf_8_stays_with_spark(load: Load, uri: str) -> None:
    Dataset.write(uri, pa.table({"s": ["\ufffd", "é", "\U0001f600"]}))
    assert load(uri).where("s = CAST(X'FF' AS STRING)").count() == 0
    assert load(uri).where("s IN ('é', '\U0001f600')").count() == 2


def test_long_chains_and_lists_are_pushed(df: DataFrame) -> None:
    ids = list(range(0, 3000, 3))
    assert df.where(F.col("id").isin(ids)).count() == 334
    long_or = F.col("id") == 0
    for i in ids[1:100]:
        long_or = long_or | (F.col("id") == i)
    assert df.where(long_or).count() == 100
    nested = F.col("id") == 0
    for i in range(1, 120):
        nested = (nested | (F.col("id") == i)) & (F.col("id") >= 0)
    assert df.where(nested).count() == 120


def test_a_reader_serves_partitions_of_another_plan(stored: str) -> None:
    source = LanceDataSource({"path": stored})
    first = pickle.loads(pickle.dumps(source)).bound({"filter": []}).reader(source.schema())
    second = pickle.loads(pickle.dumps(source)).bound({"filter": [["=", ["c", "id"], ["l", "long", 5]]]}).reader(source.schema())
    reader = pickle.loads(pickle.dumps(first))
    assert [b.column(0).to_pylist() for p in second.partitions() for b in reader.read(p)] == [[5]]
