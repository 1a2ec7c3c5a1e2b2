"""Reading through Spark: tables of pylance, options, schemas and errors."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, Row, SparkSession

from lance_spark import LanceTable
from lance_spark.errors import TableNotFoundError, VersionNotFoundError
from lance_spark.spark.read.reader import LancePartition
from lance_spark.spark.source import LanceDataSource

Load = Callable[..., DataFrame]


def numbers(uri: str, start: int, stop: int, **options: Any) -> lance.LanceDataset:
    """Rows id = start..stop-1 with a name and a nested part, written by pylance."""
    ids = range(start, stop)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "Name": [f"n{i}" for i in ids],
            "place": [{"x": i, "at": {"lat": i / 2, "lon": -i / 2}} for i in ids],
        }
    )
    return lance.write_dataset(table, uri, **{"data_storage_version": "2.1", "mode": "append", **options})


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.select("id").collect())


@pytest.fixture
def three_versions(uri: str) -> str:
    """Version 1 has ids 0-9, 2 has 0-19, 3 has 100-104; version 2 is tagged "two"."""
    numbers(uri, 0, 10, mode="create", max_rows_per_file=4)
    numbers(uri, 10, 20).tags.create("two", 2)
    numbers(uri, 100, 105, mode="overwrite")
    return uri


def test_the_latest_version_is_read(load: Load, three_versions: str) -> None:
    df = load(three_versions)
    assert df.schema.simpleString() == "struct<id:bigint,Name:string,place:struct<x:bigint,at:struct<lat:double,lon:double>>>"
    assert df.orderBy("id").collect()[1] == Row(id=101, Name="n101", place=Row(x=101, at=Row(lat=50.5, lon=-50.5)))
    assert ids(df) == list(range(100, 105))


def test_versions_and_tags(load: Load, three_versions: str) -> None:
    assert ids(load(three_versions, version=1)) == list(range(10))
    assert ids(load(three_versions, versionAsOf=2)) == list(range(20))
    assert ids(load(three_versions, tag="two")) == list(range(20))


def test_a_timestamp_means_the_newest_version_that_is_not_later(load: Load, three_versions: str) -> None:
    made = [v["timestamp"].astimezone(dt.UTC) for v in lance.dataset(three_versions).versions()]
    apart = dt.timedelta(microseconds=2)  # pylance rounds times to the nearest microsecond, we round down
    assert ids(load(three_versions, timestamp=(made[1] + apart).isoformat())) == list(range(20))
    assert ids(load(three_versions, timestampAsOf=(made[2] - apart).replace(tzinfo=None).isoformat())) == list(range(20))
    with pytest.raises(AnalysisException, match=r"VersionNotFoundError: .* no version from"):
        load(three_versions, timestamp="2001-01-01")


def test_columns_filter_limit_and_row_ids(load: Load, three_versions: str) -> None:
    df = load(three_versions, version=2, columns="place.at.lat, ID", filter="id >= 3 AND name <> 'n5'", limit=4, with_row_id=True)
    assert df.columns == ["place", "id", "_rowid"]
    assert [(r.place.at.lat, r.id) for r in df.collect()] == [(1.5, 3), (2.0, 4), (3.0, 6), (3.5, 7)]
    assert [r._rowid for r in df.collect()][:2] == [3, 1 << 32]
    assert load(three_versions, with_row_address=True).schema["_rowaddr"].simpleString() == "_rowaddr:bigint"


@pytest.mark.parametrize("limit", [0, 1, 9, 10, 11])
def test_the_limit_is_of_the_whole_table(load: Load, three_versions: str, limit: int) -> None:
    assert load(three_versions, version=1, limit=limit).count() == min(limit, 10)
    assert load(three_versions, version=2, limit=limit, filter="id > 4").count() == min(limit, 15)


def test_batches_have_at_most_the_size_asked_for(spark: SparkSession, load: Load, three_versions: str) -> None:
    source = LanceDataSource({"path": three_versions, "batch_size": "3", "version": "2"})
    reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
    sizes = [batch.num_rows for task in reader.partitions() for batch in reader.read(task)]
    assert sum(sizes) == 20
    assert max(sizes) == 3
    assert load(three_versions, batch_size=3).count() == 5


def test_the_users_schema_chooses_columns_by_name(spark: SparkSession, three_versions: str) -> None:
    df = spark.read.format("lance").schema("NAME string, place struct<at struct<lon double>>").load(three_versions)
    assert df.orderBy("name").first() == Row(NAME="n100", place=Row(at=Row(lon=-50.0)))
    assert df.columns == ["NAME", "place"]


def test_columns_whose_names_differ_only_in_case_are_both_read(spark: SparkSession, load: Load, uri: str) -> None:
    lance.write_dataset(pa.table({"a": [1, 2], "A": [3, 4], "b": ["x", "y"]}), uri)
    assert load(uri).where("b = 'y'").collect() == [Row(a=2, A=4, b="y")]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert load(uri).where("A = 3").select("a", "b").collect() == [Row(a=1, b="x")]
        assert load(uri).where("a = 2").select("A").collect() == [Row(A=4)]
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


def test_a_schema_that_does_not_fit_is_an_error_with_all_differences(spark: SparkSession, three_versions: str) -> None:
    df = spark.read.format("lance").schema("id int, nam string, place struct<x: long, at: struct<z: int>>").load(three_versions)
    with pytest.raises(AnalysisException) as e:
        df.collect()
    for part in ("'id' is bigint in the table, not int", "no column 'nam'", "no column 'place.at.z'", "SchemaMismatchError"):
        assert part in str(e.value)


def test_a_dataframe_keeps_its_version_and_can_be_used_twice(load: Load, uri: str) -> None:
    numbers(uri, 0, 10, mode="create")
    df = load(uri)
    assert df.where("id = 3").count() == 1
    numbers(uri, 10, 20)
    assert df.count() == 10
    assert df.where("id > 5").count() == 4
    assert df.alias("a").join(df.alias("b"), "id").count() == 10
    assert load(uri).count() == 20


def test_a_view_keeps_its_version(spark: SparkSession, uri: str) -> None:
    numbers(uri, 0, 10, mode="create")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW numbers USING lance OPTIONS (path '{uri}', columns 'id', filter 'id > 2')")
    assert spark.sql("SELECT count(*), min(id) FROM numbers").first() == (7, 3)
    numbers(uri, 10, 20)
    assert spark.sql("SELECT count(*) FROM numbers").first() == (7,)


def test_empty_tables(load: Load, uri: str) -> None:
    lance.write_dataset(pa.schema([("id", pa.int32())]).empty_table(), uri)
    assert load(uri).collect() == []
    assert load(uri).count() == 0


def test_deleted_rows_and_added_columns(load: Load, uri: str) -> None:
    dataset = numbers(uri, 0, 10, mode="create", max_rows_per_file=5)
    dataset.delete("id in (2, 7)")
    dataset.add_columns({"twice": "id * 2"})
    rows = load(uri).select("id", "twice").orderBy("id").collect()
    assert [tuple(r) for r in rows] == [(i, 2 * i) for i in range(10) if i not in (2, 7)]


def test_a_wrong_path_names_the_table_beside_it(spark: SparkSession, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "people.lance")
    for path, hint in (("peeple.lance", "did you mean 'people.lance'"), ("", "the folder holds 1 table, such as 'people.lance'")):
        with pytest.raises(AnalysisException, match=hint):
            spark.read.format("lance").load(str(tmp_path / path))
        with pytest.raises(TableNotFoundError, match=hint):
            LanceTable.forPath(spark, str(tmp_path / path))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, r"TableNotFoundError: no Lance table found at .*table\.lance"),
        ({"colums": "x"}, r"InvalidOptionError: unknown option 'colums'; did you mean 'columns'\?"),
        ({"version": "2", "tag": "x"}, "InvalidOptionError: give only one of the options version, tag"),
        ({"update_columns": "a"}, "UnsupportedFeatureError: the option 'update_columns' is not implemented"),
    ],
)
def test_errors_describe_the_problem(load: Load, uri: str, options: dict[str, str], error: str) -> None:
    with pytest.raises(AnalysisException, match=error):
        load(uri, **options)


def test_more_errors_describe_the_problem(spark: SparkSession, load: Load, three_versions: str) -> None:
    with pytest.raises(AnalysisException, match=r"VersionNotFoundError: .* has no version 7; existing versions: 1 to 3"):
        load(three_versions, version=7)
    with pytest.raises(AnalysisException, match=r"SchemaMismatchError: no column 'nope'"):
        load(three_versions, columns="nope")
    with pytest.raises(AnalysisException, match=r"expected one path, found 2"):
        spark.read.format("lance").load([three_versions, three_versions])
    with pytest.raises(AnalysisException, match=r"memory:.*worker processes cannot access"):
        load("memory://x/y")
    with pytest.raises(AnalysisException, match=r"the path .*is missing.*CREATE TEMPORARY VIEW"):
        spark.read.format("lance").load()


def test_an_error_is_one_sentence_without_a_traceback(spark: SparkSession, load: Load, three_versions: str, uri: str) -> None:
    def message(action: Callable[[], object]) -> str:
        with pytest.raises(PySparkException) as e:
            action()
        return str(e.value)

    found = message(lambda: load(three_versions, version=7))
    assert found.startswith(
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: lance_spark.errors.VersionNotFoundError: "
    )
    assert found.count("\n") <= 1
    assert "SQLSTATE: 38000" in found
    wrong = message(lambda: spark.range(3).selectExpr("id AS other").write.format("lance").mode("append").save(three_versions))
    assert wrong.startswith("[PYTHON_DATA_SOURCE_ERROR] Failed to ")
    assert ": lance_spark.errors.SchemaMismatchError: the data does not fit the table:\n" in wrong.split("\n")[0] + "\n"
    assert "Traceback" not in wrong

    def failing(_: object) -> Iterator[pa.RecordBatch]:
        raise ValueError("of the user")
        yield

    # Errors of others keep their tracebacks.
    assert "in failing" in message(lambda: spark.range(1).mapInArrow(failing, "id long").collect())


def test_a_broken_file_is_named_by_the_executor(load: Load, three_versions: str) -> None:
    for file in Path(three_versions, "data").iterdir():
        file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(PythonException, match=r"CorruptFileError: .*table\.lance, version 3.*data/.*\.lance") as e:
        load(three_versions).collect()
    assert "fragment_reader.py" not in str(e.value)


def test_a_column_that_spark_cannot_hold_can_be_left_out(spark: SparkSession, load: Load, uri: str) -> None:
    lance.write_dataset(pa.table({"id": [1], "wide": pa.array([Decimal(1)], pa.decimal256(50, 0))}), uri, data_storage_version="2.1")
    with pytest.raises(AnalysisException, match=r"UnsupportedFeatureError: column 'wide': .*`columns` option"):
        load(uri)
    assert load(uri, columns="id").collect() == [Row(id=1)]
    assert spark.read.format("lance").schema("id long").load(uri).collect() == [Row(id=1)]


def test_nanoseconds_are_an_error_or_cut(load: Load, uri: str) -> None:
    table = pa.table({"t": pa.array([1_000_000_001, 2_000], pa.int64()).view(pa.timestamp("ns", "UTC"))})
    lance.write_dataset(table, uri, data_storage_version="2.1")
    with pytest.raises(PythonException, match=r"UnsupportedFeatureError: column 't' .*nanoseconds=truncate"):
        load(uri).collect()
    got = load(uri, nanoseconds="truncate").selectExpr("unix_micros(t) AS t").collect()
    assert [r.t for r in got] == [1_000_000, 2]


def test_tasks_are_small_and_know_all_they_need(uri: str) -> None:
    numbers(uri, 0, 2000, mode="create", max_rows_per_file=10)
    source = LanceDataSource({"path": uri, "filter": "id = 3"})
    source = pickle.loads(pickle.dumps(source))
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    assert all(isinstance(p, LancePartition) for p in partitions)
    assert len(pickle.dumps((reader, source))) < 5_000
    other = LanceDataSource({"path": uri})
    assert [cast(pa.RecordBatch, b).num_rows for p in partitions for b in other.reader(other.schema()).read(p)] == [1]


def test_the_next_query_of_a_version_does_not_read_its_manifest_again(uri: str) -> None:
    numbers(uri, 0, 2000, mode="create", max_rows_per_file=10)
    source = pickle.dumps(LanceDataSource({"path": uri}))
    first, second = (pickle.loads(source).opened().shape for _ in range(2))
    assert second.manifest is first.manifest
    shutil.rmtree(uri)
    with pytest.raises(VersionNotFoundError, match="the table was dropped"):
        pickle.loads(source).opened()


def test_the_source_defines_no_filter_push_down(three_versions: str) -> None:
    source = LanceDataSource({"path": three_versions})
    assert "pushFilters" not in type(source.reader(source.schema())).__dict__
