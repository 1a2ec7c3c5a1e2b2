"""Searches from Spark find the same rows as `Dataset.scan`, through every door, and nothing that Spark asks for comes before the search."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError
from lance_spark.spark.options.registered import RegisteredFunction
from tests.spark_session import SPARK_ERRORS

Q = [0.5, 0.5, 0.5, 0.5]
NEAREST = {"column": "v", "q": Q, "k": 6}
TEXT = {"match": {"query": "sky", "column": "text"}}
HYBRID = {"routes": [{"nearest": NEAREST}, {"full_text_query": TEXT, "weight": 0.5}], "k": 5}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with vectors and texts in three fragments, and a deleted row, which is nearest to Q."""
    uri = str(tmp_path_factory.mktemp("search") / "t")
    vectors = np.random.default_rng(3).normal(size=(30, 4)).astype(np.float32)
    vectors[11] = Q
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    texts = [("sky " * (i % 4)) + "sea" for i in range(30)]
    rows = pa.table({"id": range(30), "v": column, "text": texts})
    for start in (0, 10, 20):
        Dataset.write(uri, rows.slice(start, 10), mode="append")
    Dataset.open(uri).delete("id = 11")
    return uri


@pytest.fixture(scope="module")
def names(spark: SparkSession, uri: str) -> Iterator[None]:
    """The table in the session catalog, `searched`, and as a view, `seen`."""
    spark.sql(f"CREATE TABLE searched USING lance LOCATION '{uri}'")
    spark.sql(f"CREATE TEMPORARY VIEW seen USING lance OPTIONS (path '{uri}')")
    yield
    spark.sql("DROP TABLE searched")
    spark.sql("DROP VIEW seen")


def expected(uri: str, *columns: str, version: int | None = None, **search: Any) -> list[tuple[Any, ...]]:
    """The rows of `Dataset.scan`."""
    rows = Dataset.open(uri, version=version).scan(columns=[name for name in columns if name[0] != "_"], **search).to_table()
    return [tuple(row[name] for name in columns) for row in rows.to_pylist()]


def rows(df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.select(*columns).collect()]


def searched(spark: SparkSession, uri: str, **options: Any) -> DataFrame:
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    return spark.read.format("lance").options(**given).load(uri)


def test_options_search_as_datasets_do(spark: SparkSession, uri: str) -> None:
    near = expected(uri, "id", "_distance", nearest=NEAREST)
    assert 11 not in [id for id, _ in near]
    assert rows(searched(spark, uri, nearest=NEAREST), "id", "_distance") == near
    best = expected(uri, "id", "_score", full_text_query=TEXT, limit=4)
    assert rows(searched(spark, uri, fullTextQuery=TEXT, limit=4), "id", "_score") == best
    columns = ("_relevance_score", "id", "_score", "_distance")
    assert rows(searched(spark, uri, hybrid=HYBRID), *columns) == expected(uri, *columns, hybrid=HYBRID)


def test_what_spark_asks_for_comes_after_the_search(spark: SparkSession, uri: str) -> None:
    near = [id for (id,) in expected(uri, "id", nearest=NEAREST)]
    df = searched(spark, uri, nearest=NEAREST)
    assert rows(df.where("id >= 15"), "id") == [(id,) for id in near if id >= 15]
    assert df.count() == 6
    assert df.where("id >= 15").count() == len([id for id in near if id >= 15])
    assert df.limit(2).count() == 2
    assert df.agg({"id": "max"}).collect()[0][0] == max(near)
    assert rows(df.orderBy("id").limit(2), "id") == [(id,) for id in sorted(near)[:2]]
    assert df.join(spark.range(15, 40), "id").count() == len([id for id in near if id >= 15])


def test_the_option_filter_comes_before_or_after(spark: SparkSession, uri: str) -> None:
    for prefilter in (False, True):
        found = searched(spark, uri, nearest=NEAREST, filter="id >= 15", prefilter=prefilter)
        assert rows(found, "id") == expected(uri, "id", nearest=NEAREST, filter="id >= 15", prefilter=prefilter)


def test_lance_table_searches_the_version_that_is_asked_for(spark: SparkSession, uri: str) -> None:
    search = LanceTable.forPath(spark, uri).search("v").nearest(np.array(Q, np.float32), k=3)
    assert rows(search.toDF(), "id", "_distance") == expected(uri, "id", "_distance", nearest={**NEAREST, "k": 3})
    twelve = expected(uri, "id", nearest={"column": "v", "q": Q, "k": 12})
    assert rows(LanceTable.forPath(spark, uri).search("v").nearest(Q).limit(12).toDF(), "id") == twelve
    assert rows(searched(spark, uri, nearest={"column": "v", "q": Q}, limit=7, offset=5), "id") == twelve[5:]
    (first, *_) = LanceTable.forPath(spark, uri).search(version=3).nearest(Q, k=3).where("id > 10", prefilter=True).select("id").collect()
    assert first.id == 11
    text = LanceTable.forPath(spark, uri).search().fullText("sky", columns=["text"]).limit(2, offset=1)
    assert rows(text.toDF(), "id") == expected(uri, "id", full_text_query=TEXT, limit=2, offset=1)
    hybrid = LanceTable.forPath(spark, uri).search("v").hybrid(HYBRID["routes"], k=5)  # type: ignore[arg-type]
    assert rows(hybrid.toDF(), "id") == expected(uri, "id", hybrid=HYBRID)
    two = LanceTable.forPath(spark, uri).search().nearest([1, 2])
    with pytest.raises(InvalidOptionError, match="q has 2 dimensions"):
        two.toDF()
    with pytest.raises(InvalidOptionError, match="nothing is searched for"):
        LanceTable.forPath(spark, uri).search().where("id > 3").toDF()


QUERY = "array(0.5, 0.5, 0.5, 0.5)"


@pytest.mark.usefixtures("names")
def test_functions_search_paths_tables_and_views(spark: SparkSession, uri: str) -> None:
    near = expected(uri, "id", "_distance", nearest={**NEAREST, "k": 3})
    for table in (uri, "searched", "default.searched", "seen"):
        found = spark.sql(f"SELECT id, _distance FROM lance_vector_search('{table}', 'v', {QUERY}, 3)")
        assert [tuple(row) for row in found.collect()] == near, table
    named = f"VECTOR_SEARCH(table => 'seen', query_vector => {QUERY}, num_results => 2, offset => 1, distance_type => 'l2')"
    assert [tuple(row) for row in spark.sql(f"SELECT id, _distance FROM {named} WHERE id >= 0").collect()] == near[1:]
    df = spark.read.option("nearest", json.dumps(NEAREST)).table("searched").where("id >= 15")
    assert df.count() == len([id for (id,) in expected(uri, "id", nearest=NEAREST) if id >= 15])
    target = f"lance_vector_search('seen', 'v', {QUERY}, 3, recall_target => 0.99)"
    assert [tuple(row) for row in spark.sql(f"SELECT id, _distance FROM {target}").collect()] == near
    before = f"lance_vector_search('seen', 'v', {QUERY}, k => 1, version => 3)"
    assert spark.sql(f"SELECT id FROM {before}").collect()[0].id == 11
    best = expected(uri, "id", "_score", full_text_query=TEXT, limit=4)
    for call in (
        "lance_fts('searched', 'text', 'sky', 4)",
        "SEARCH(table => 'seen', query => 'sky', search_columns => array('text'), k => 4)",
    ):
        assert [tuple(row) for row in spark.sql(f"SELECT id, _score FROM {call}").collect()] == best
    hybrid = {"routes": [{"nearest": {**NEAREST, "k": 4}}, {"full_text_query": TEXT, "k": 4}], "k": 4}
    both = expected(uri, "id", "_relevance_score", hybrid=hybrid)
    for call in (
        f"lance_hybrid_search('seen', 'v', {QUERY}, 'text', 'sky', 4)",
        f"HYBRID_SEARCH('searched', {QUERY}, 'sky', search_columns => array('text'), k => 4, rrf_k => 60.0)",
    ):
        assert [tuple(row) for row in spark.sql(f"SELECT id, _relevance_score FROM {call}").collect()] == both


def last(batch: pa.RecordBatch) -> pa.Array:
    """A function of a user: the highest id is best."""
    return batch["id"]


def near(batch: pa.RecordBatch) -> np.ndarray:
    """A function of a user: the nearest is best."""
    return np.asarray(-batch["_distance"].fill_null(100).to_numpy())


def broken(batch: pa.RecordBatch) -> list[float]:
    """A function of a user that gives too few numbers."""
    return [1.0]


def hybrid_call(uri: str, fuse: str, *more: str) -> str:
    """A query that orders rows by a function of the session."""
    given = ", ".join(["k => 5", "candidates => 8", f"fuse => '{fuse}'", *more])
    return f"SELECT id FROM lance_hybrid_search('{uri}', 'v', {QUERY}, 'text', 'sky', {given})"


@pytest.mark.parametrize("fuse", ["rrf", "mrr", "weighted_score", last, near])
def test_a_function_of_the_session_orders_rows_as_in_python(spark: SparkSession, uri: str, fuse: Any) -> None:
    hybrid: dict[str, Any] = {"routes": [{"nearest": {**NEAREST, "k": 8}}, {"full_text_query": TEXT, "k": 8}], "k": 5, "fuse": fuse}
    more: list[str] = []
    name = str(fuse)
    if callable(fuse):
        name = f"a_function_{fuse.__name__}"
        spark.udf.register(name, fuse)
        hybrid["columns"] = ["id"]
        more = ["fuse_columns => array('id')"]
    found = [tuple(row) for row in spark.sql(hybrid_call(uri, name, *more)).collect()]
    assert found == expected(uri, "id", hybrid=hybrid)


@pytest.mark.parametrize(
    ("fuse", "told"),
    [
        ("no_function", "not 'no_function'; register it with spark.udf.register"),
        ("concat", "not 'concat'; register it"),
        ("a_broken_function", "the function a_broken_function must return a number for each of"),
    ],
)
def test_what_cannot_order_rows_is_named(spark: SparkSession, uri: str, fuse: str, told: str) -> None:
    spark.udf.register("a_broken_function", broken)
    with pytest.raises(SPARK_ERRORS, match=told):
        spark.sql(hybrid_call(uri, fuse)).collect()


def test_a_function_that_others_may_have_written_is_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "lance-spark-functions-1"
    folder.mkdir(mode=0o700)
    (folder / "0").write_bytes(b"a pickle")
    (folder / "0").chmod(0o664)  # as with the umask 002
    assert RegisteredFunction.of("mine", str(folder / "0")).pickled == b"a pickle"
    (folder / "link").symlink_to(folder / "0")
    (tmp_path / "other").write_bytes(b"a pickle")
    shared = shutil.copytree(folder, tmp_path / "lance-spark-functions-2")
    shared.chmod(0o770)
    for path in (shared / "0", folder / "link", folder / "missing", tmp_path / "other"):
        with pytest.raises(InvalidOptionError, match="the function mine is not run"):
            RegisteredFunction.of("mine", str(path))


def test_functions_search_tables_of_a_catalog_and_their_branches(spark: SparkSession, tmp_path: Path) -> None:
    lance_spark.catalog(spark, "searches", root=str(tmp_path))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS searches.ns")
    spark.sql("CREATE TABLE searches.ns.t AS SELECT id, concat('sky ', id) AS text FROM range(3)")
    LanceTable.forName(spark, "searches.ns.t").createBranch("side").delete("id = 1")
    for name, ids in (("searches.ns.t", [0, 1, 2]), ("searches.ns.t.branch_side", [0, 2])):
        found = spark.sql(f"SELECT id FROM lance_fts('{name}', 'text', 'sky') WHERE _score > 0 ORDER BY id").collect()
        assert [row.id for row in found] == ids
    branch = LanceTable.forName(spark, "searches.ns.t.branch_side").search().fullText("sky", columns=["text"])
    assert sorted(rows(branch.toDF(), "id")) == [(0,), (2,)]


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"lance_vector_search('seen', 'v', {QUERY}, nprobe => 3)", "has no argument 'nprobe'; did you mean 'nprobes'"),
        ("lance_vector_search('seen', 'v')", "lance_vector_search needs the argument 'query'"),
        (f"lance_vector_search('seen', 'v', {QUERY}, 0)", "k must be an integer of at least 1"),
        ("lance_vector_search('seen', 'v', array(0.5, 0.5), 3)", "q has 2 dimensions, but the vectors of column 'v' have 4"),
        ("lance_vector_search('seen', 'v', array(double('NaN'), 1, 1, 1))", "q has NaN"),
        (f"lance_vector_search('seen', 'w', {QUERY})", "'w'"),
        ("lance_fts('seen', 'nope', 'sky')", "no column 'nope'"),
        ("lance_fts('seen', 'text', '{\"match\": ')", "a query as JSON names its columns"),
        ("SEARCH('seen', '{\"match\": ')", "starts with a brace, but is not JSON"),
        ("SEARCH('seen', concat(id, 'x'))", "id"),
    ],
)
def test_wrong_arguments_are_named(spark: SparkSession, call: str, message: str) -> None:
    with pytest.raises(SPARK_ERRORS, match=message):
        spark.sql(f"SELECT * FROM {call}").collect()


def test_wrong_options_are_named(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    for options, message in (
        ({"nearest": "[1, 2]"}, "the option 'nearest' takes a JSON object"),
        ({"nearest": {**NEAREST, "nprobe": 1}}, "nearest has no parameter 'nprobe'"),
        ({"nearest": NEAREST, "fullTextQuery": "sky"}, "give only one of the options fullTextQuery, nearest"),
        ({"prefilter": "true"}, "the option prefilter is for a search"),
        ({"nearest": NEAREST, "fragments": "0"}, "fragments and nearest cannot be combined"),
    ):
        with pytest.raises(SPARK_ERRORS, match=message):
            searched(spark, uri, **options).collect()
    with pytest.raises(SPARK_ERRORS, match="the option 'nearest' applies only to reads"):
        spark.range(3).write.format("lance").option("nearest", json.dumps(NEAREST)).mode("append").save(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_an_empty_table_and_several_vectors(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    several = {**NEAREST, "q": [Q, [0.0] * 4], "k": 2}
    assert rows(searched(spark, uri, nearest=several), "query_index", "id") == expected(uri, "query_index", "id", nearest=several)
    Dataset.write(str(tmp_path / "e"), Dataset.open(uri).scan(limit=1).to_table(), mode="create").delete("true")
    assert searched(spark, str(tmp_path / "e"), nearest=NEAREST).collect() == []
    assert searched(spark, str(tmp_path / "e"), fullTextQuery=TEXT).count() == 0


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with an index of two segments, a fragment without one, and deleted rows; its columns have many types."""
    uri = str(tmp_path_factory.mktemp("indexed") / "t")
    vectors = np.random.default_rng(5).normal(size=(900, 8)).astype(np.float32)
    when = np.datetime64("2024-01-01T10:20:30.123456", "us") + np.arange(900)
    rows = pa.table(
        {
            "id": range(900),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
            "local": pa.array(when),
            "instant": pa.array(when, pa.timestamp("us", "UTC")),
            "unsigned": pa.array(range(900), pa.uint32()),
            "half": pa.array(np.arange(900, dtype=np.float16)),
            "large": pa.array([f"t{i}" if i % 3 else None for i in range(900)], pa.large_string()),
            "nested": [{"a": i, "b": [i, None]} for i in range(900)],
            "price": pa.array(range(900), pa.decimal128(12, 2)),
            "bytes": [bytes([i % 256]) for i in range(900)],
        }
    )
    for start in (0, 300):
        Dataset.write(uri, rows.slice(start, 300), mode="append")
    Dataset.open(uri).create_index("v", "IVF_PQ", metric="l2", num_partitions=4, num_sub_vectors=2)
    Dataset.write(uri, rows.slice(600, 150), mode="append")
    Dataset.open(uri).optimize.optimize_indices(num_indices_to_merge=0)
    Dataset.write(uri, rows.slice(750, 150), mode="append")
    Dataset.open(uri).delete("id % 5 = 2")
    return uri


def jobs(spark: SparkSession, run: Callable[[], Any]) -> tuple[Any, int]:
    """What `run` returns, and the number of jobs that Spark ran for it."""
    context = spark.sparkContext
    context.setJobGroup("searched", "")
    before = len(context.statusTracker().getJobIdsForGroup("searched"))
    found = run()
    return found, len(context.statusTracker().getJobIdsForGroup("searched")) - before


@pytest.mark.parametrize("by_tasks", [False, True])
def test_a_search_runs_in_the_driver_or_by_tasks(
    spark: SparkSession, indexed: str, by_tasks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_tasks:
        monkeypatch.setattr("lance_spark.table.search.task._COMPARED_HERE_BYTES", -1)
    table, q = LanceTable.forPath(spark, indexed), [0.5] * 8
    near = {"column": "v", "q": q, "k": 20, "nprobes": 3}
    columns = ("id", "_distance")
    search = table.search("v").nearest(q, k=20, nprobes=3)
    found, number = jobs(spark, lambda: rows(search.toDF(), *columns))
    assert found == expected(indexed, *columns, nearest=near)
    assert (number > 0) == by_tasks
    before = search.where("id > 300", prefilter=True).select(*columns)
    assert rows(before, *columns) == expected(indexed, *columns, nearest=near, filter="id > 300", prefilter=True)
    after = search.where("_distance < 6 AND id > 300").limit(3, offset=1).toDF()
    condition = "_distance < 6 AND id > 300"
    assert rows(after, *columns) == expected(indexed, *columns, nearest=near, filter=condition, limit=3, offset=1)
    several = table.search("v").nearest([q, [0.0] * 8], k=4, use_index=False).toDF()
    both = {"column": "v", "q": [q, [0.0] * 8], "k": 4, "use_index": False}
    assert rows(several, "query_index", *columns) == expected(indexed, "query_index", *columns, nearest=both)
    assert table.search("v").nearest(q, k=3).where("false", prefilter=True).toDF().collect() == []


def test_the_rows_of_a_search_have_the_types_of_a_read(spark: SparkSession, indexed: str) -> None:
    near = {"column": "v", "q": [0.5] * 8, "k": 7}
    here = LanceTable.forPath(spark, indexed).search("v").nearest(near["q"], k=7)
    read = searched(spark, indexed, nearest=near)
    assert here.toDF().schema == read.schema
    assert here.toDF().collect() == read.collect()
    assert here.select("nested.a", "_distance").collect() == read.select("nested.a", "_distance").collect()
    assert here.select("price", "local").columns == ["price", "local"]
    assert here.toDF().where("_distance < 5").count() == read.where("_distance < 5").count() > 0
    ids = [row.id for row in read.collect()]
    scanned = spark.read.format("lance").load(indexed).where(f"id IN ({', '.join(map(str, ids))})").collect()
    assert sorted(read.drop("_distance").collect()) == sorted(scanned)


def test_a_search_that_may_find_many_rows_runs_with_the_data_frame(spark: SparkSession, indexed: str) -> None:
    near = {"column": "v", "q": [0.5] * 8, "k": 10_000_000}
    wanted = expected(indexed, "id", nearest=near)
    here = LanceTable.forPath(spark, indexed).search("v").nearest(near["q"], k=10_000_000).toDF()
    for df in (here, searched(spark, indexed, nearest=near)):
        assert jobs(spark, partial(rows, df, "id")) == (wanted, 1)


def test_options_and_functions_need_no_job_for_their_rows(spark: SparkSession, indexed: str) -> None:
    near = {"column": "v", "q": [0.5] * 8, "k": 5, "nprobes": 3}
    call = f"lance_vector_search('{indexed}', 'v', array_repeat(0.5, 8), 5, nprobes => 3, filter => 'id > 300', prefilter => true)"
    wanted = expected(indexed, "id", "_distance", nearest=near, filter="id > 300", prefilter=True)
    for df in (searched(spark, indexed, nearest=near, filter="id > 300", prefilter="true"), spark.sql(f"SELECT * FROM {call}")):
        found, number = jobs(spark, partial(rows, df, "id", "_distance"))
        assert (found, number) == (wanted, 0)
        assert df.join(df.select("id"), "id").count() == 5


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with an index of four partitions, and two fragments without one."""
    uri = str(tmp_path_factory.mktemp("compared") / "t")
    vectors = np.random.default_rng(6).normal(size=(9000, 8)).astype(np.float32)
    rows = pa.table({"id": range(9000), "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)})
    Dataset.write(uri, rows.slice(0, 3000)).create_index("v", "IVF_PQ", metric="l2", num_partitions=4, num_sub_vectors=4)
    for start in (3000, 6000):
        Dataset.write(uri, rows.slice(start, 3000), mode="append")
    return uri


@pytest.mark.parametrize("more", [{"use_index": False}, {"nprobes": 2}, {"nprobes": 2, "refine_factor": 3}])
def test_a_search_that_compares_much_runs_by_tasks(spark: SparkSession, compared: str, more: dict[str, Any]) -> None:
    queries = np.random.default_rng(7).normal(size=(1500, 8)).astype(np.float32)  # 256 MB are compared without an index, or beside it
    near = {"column": "v", "q": queries.tolist(), "k": 2, **more}
    df = spark.read.format("lance").options(nearest=json.dumps(near), filter="id % 3 = 1", prefilter="true").load(compared)
    columns = ("query_index", "id", "_distance")
    found, number = jobs(spark, lambda: rows(df, *columns))
    assert found == expected(compared, *columns, nearest=near, filter="id % 3 = 1", prefilter=True)
    assert number == (1 if "use_index" in more else 2)  # for the index, and for the fragments without one
