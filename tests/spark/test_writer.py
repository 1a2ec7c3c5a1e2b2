"""Writing through Spark: all rows or none, the table's types, no files left behind, and tables that pylance reads."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, LanceError
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import INSTRUCTIONS, NUMBER, PROTOCOL
from lance_spark.spark.source import LanceDataSource
from lance_spark.spark.write.rows import rows_to
from lance_spark.spark.write.writer import LanceWriter
from lance_spark.storage.store import Store
from tests.spark.test_batches import VALUES
from tests.spark_session import SPARK_ERRORS

Load = Callable[..., DataFrame]


def save(df: DataFrame, uri: str, mode: str = "append", **options: Any) -> None:
    df.write.format("lance").mode(mode).options(**{k: str(v) for k, v in options.items()}).save(uri)


def files(uri: str) -> set[str]:
    """The existing data files."""
    return {file.name for file in Path(uri, "data").glob("*")}


def named_files(uri: str) -> set[str]:
    """The data files that versions refer to."""
    versions = [lance.dataset(uri, version=v["version"]) for v in lance.dataset(uri).versions()]
    return {f.path for d in versions for fragment in d.get_fragments() for f in fragment.data_files()}


def rows(uri: str) -> list[dict[str, Any]]:
    """All rows, as pylance reads them."""
    dataset = lance.dataset(uri)
    dataset.validate()
    rows: list[dict[str, Any]] = dataset.to_table().to_pylist()
    return rows


# Values by column name, three rows each. Spark has no string_view to write, and pylance no struct without fields.
EVERY_TYPE = {
    f"c{i}": pa.array((values + [None] * 4)[:4], t)
    for i, (t, values) in enumerate(VALUES)
    if not pa.types.is_string_view(t) and t != pa.struct([])
}


def test_every_type_goes_through_spark_into_a_new_table_and_back_into_its_own(load: Load, uri: str, tmp_path: Path) -> None:
    table = pa.table(
        {**EVERY_TYPE, "u64": pa.array([2**64 - 1, None, 0, 1], pa.uint64()), "f16": pa.array([1.5, None, 0, -2], pa.float16())}
    )
    lance.write_dataset(table, uri, data_storage_version="2.2")
    df = load(uri)
    copy = str(tmp_path / "copy.lance")
    save(df, copy)
    written = lance.dataset(copy).to_table()
    for name in table.column_names:
        want = table[name].to_pylist()
        got = [None if v is None else int(v) for v in written[name].to_pylist()] if name == "u64" else written[name].to_pylist()
        assert got == want, (name, table[name].type)
    save(df, uri)
    again = lance.dataset(uri).to_table()
    assert again.schema.types == table.schema.types
    assert again.slice(4).to_pylist() == table.to_pylist()


def test_what_a_new_table_gets_from_spark(spark: SparkSession, uri: str) -> None:
    df = spark.sql(
        "SELECT id, CAST(id AS byte) b, CAST(id AS decimal(10,2)) d, CAST(id AS string) s, array(CAST(id AS float), 1f) v, "
        "timestamp_micros(id) t, CAST(timestamp_micros(id) AS timestamp_ntz) n, INTERVAL '1' SECOND i, named_struct('x', id) st, "
        "map('k', id) m, CAST(NULL AS void) nothing, DATE'2024-02-29' day FROM range(3)"
    )
    save(df, uri, "append", **{"v.arrow.fixed-size-list.size": 2})
    schema = lance.dataset(uri).schema
    assert [str(f.type) for f in schema] == [
        *("int64", "int8", "decimal128(10, 2)", "string", "fixed_size_list<item: float>[2]", "timestamp[us, tz=UTC]"),
        *("timestamp[us]", "duration[us]", "struct<x: int64>", "map<string, int64>", "null", "date32[day]"),
    ]
    assert rows(uri)[2]["v"] == [2.0, 1.0]
    assert Dataset.open(uri).snapshot.manifest.data_format == "2.2"


def test_columns_of_a_new_table_are_nullable_and_have_the_metadata_of_the_dataframe(spark: SparkSession, load: Load, uri: str) -> None:
    schema = st.StructType(
        [
            st.StructField("id", st.LongType(), False, {"unit": "pieces"}),
            st.StructField("v", st.ArrayType(st.FloatType()), True, {"arrow.fixed-size-list.size": 2}),
        ]
    )
    save(spark.createDataFrame([(1, [1.0, 2.0]), (2, None)], schema), uri)
    arrow = lance.dataset(uri).schema
    assert arrow.field("id").nullable
    assert arrow.field("id").metadata == {b"unit": b"pieces"}
    assert arrow.field("v").type == pa.list_(pa.float32(), 2)
    shown = [st.StructField("id", st.LongType()), schema["v"]]
    assert load(uri).schema == st.StructType(shown), "other metadata stays in the table: Spark and other sources may act on it"
    assert load(uri).orderBy("id").collect() == [Row(id=1, v=[1.0, 2.0]), Row(id=2, v=None)]


def test_appends_match_columns_by_name_fill_with_null_and_cast(spark: SparkSession, uri: str) -> None:
    fields = {
        "Id": pa.int32(),
        "small": pa.uint8(),
        "half": pa.float16(),
        "big": pa.large_string(),
        "word": pa.dictionary(pa.int8(), pa.string()),
    }
    vector = pa.list_(pa.float32(), 2)
    lance.write_dataset(pa.schema([*fields.items(), ("v", vector)]).empty_table(), uri, data_storage_version="2.1")
    df = spark.sql("SELECT array(0.5d, id) v, 'w' WORD, id, 255 small, CAST(id / 2 AS float) half FROM range(2)")
    save(df, uri)
    assert rows(uri) == [{"Id": i, "small": 255, "half": i / 2, "big": None, "word": "w", "v": [0.5, i]} for i in range(2)]
    save(spark.sql("SELECT 9 id"), uri)
    assert rows(uri)[-1] == {"Id": 9, "small": None, "half": None, "big": None, "word": None, "v": None}


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("SELECT id, 'x' other FROM range(1)", ["'other' (string) is not in the table"]),
        ("SELECT 'one' id", ["'id' is string; expected int64"]),
        ("SELECT 'one' id, 1 a, 2 b", ["'id' is string", "'a' (int32)", "'b' (int32)"]),
        ("SELECT id, id ID FROM range(1)", ["'ID' (int64) is not in the table"]),
    ],
)
def test_data_that_does_not_fit_is_an_error_with_all_differences(spark: SparkSession, uri: str, query: str, parts: list[str]) -> None:
    lance.write_dataset(pa.table({"id": [1], "s": ["x"]}), uri, data_storage_version="2.1")
    with pytest.raises(AnalysisException) as e:
        save(spark.sql(query), uri)
    assert "SchemaMismatchError" in str(e.value)
    for part in parts:
        assert part in str(e.value)
    assert len(rows(uri)) == 1


@pytest.mark.parametrize(("query", "error"), [("SELECT 256 x", "'x'"), ("SELECT CAST(NULL AS int) x", "'x' is not nullable")])
def test_values_that_do_not_fit_fail_the_write_and_leave_nothing(spark: SparkSession, uri: str, query: str, error: str) -> None:
    schema = pa.schema([pa.field("x", pa.uint8(), nullable=False)])
    lance.write_dataset(pa.table([pa.array([1], pa.uint8())], schema), uri, data_storage_version="2.1")
    with pytest.raises(PySparkException, match=error):
        save(spark.sql("SELECT 1 x").repartition(1).union(spark.sql(query)), uri)
    assert rows(uri) == [{"x": 1}]
    assert files(uri) == named_files(uri)


def test_rows_without_columns_are_not_lost_silently(spark: SparkSession, uri: str) -> None:
    with pytest.raises(SPARK_ERRORS, match="data without columns"):
        spark.range(3).select().write.format("lance").mode("append").save(uri)


def test_a_failed_job_leaves_no_rows_and_no_files(spark: SparkSession, uri: str) -> None:
    save(spark.range(10), uri)
    broken = sf.udf(lambda i: 1 // (i - 19), "long")
    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        save(spark.range(0, 20, 1, 1).select(broken("id").alias("id")), uri, max_rows_per_file=1)
    assert len(rows(uri)) == 10
    assert files(uri) == named_files(uri)


def test_overwrite_creates_a_missing_table(spark: SparkSession, uri: str) -> None:
    save(spark.range(3), uri, "overwrite")
    assert sorted(r["id"] for r in rows(uri)) == [0, 1, 2]


def test_overwrite_takes_the_new_schema_and_keeps_the_old_versions(spark: SparkSession, load: Load, uri: str) -> None:
    save(spark.range(3), uri, data_storage_version="2.1")
    save(spark.sql("SELECT 'x' name"), uri, "overwrite")
    assert rows(uri) == [{"name": "x"}]
    assert Dataset.open(uri).snapshot.manifest.data_format == "2.1"
    assert load(uri, version=1).count() == 3


def test_nullable_columns_stay_nullable_after_an_overwrite_with_literals(spark: SparkSession, uri: str) -> None:
    nested = "struct('x' AS s, map('k', array(1)) AS m, array(named_struct('z', 0.5D)) AS l) st"
    save(spark.sql(f"SELECT if(id < 0, NULL, {nested.removesuffix(' st')}) st, id FROM range(1)"), uri)
    save(spark.sql("SELECT named_struct('s', string(NULL), 'M', map('k', array(int(NULL)))) st, 1 id"), uri + "2")
    save(spark.sql(f"SELECT {nested}, 2 ID, 'new' n"), uri + "2", "overwrite")
    schema = Dataset.open(uri + "2").schema
    assert schema.field("st").type.field("s").nullable
    assert schema.field("st").type.field("m").type.item_type.value_field.nullable
    assert [f.nullable for f in schema] == [True, True, True]
    save(spark.sql(f"SELECT {nested}, 2 id"), uri, "overwrite")
    assert [f.nullable for f in Dataset.open(uri).schema] == [True, True]


def test_a_table_can_be_read_and_overwritten_in_one_job(load: Load, spark: SparkSession, uri: str) -> None:
    save(spark.range(10), uri)
    save(load(uri).where("id >= 5").withColumn("id", sf.col("id") * 10), uri, "overwrite")
    assert sorted(r["id"] for r in rows(uri)) == [50, 60, 70, 80, 90]
    save(load(uri), uri)
    assert len(rows(uri)) == 10


def test_an_append_of_no_rows_commits_nothing(spark: SparkSession, uri: str) -> None:
    save(spark.range(3), uri)
    save(spark.range(3).where("id > 5"), uri)
    assert Dataset.open(uri).version == 1
    assert files(uri) == named_files(uri)


def test_an_append_of_no_rows_creates_a_missing_table(spark: SparkSession, load: Load, uri: str) -> None:
    save(spark.range(3).where("id > 5"), uri)
    assert load(uri).collect() == []
    assert load(uri).columns == ["id"]


def test_insert_into_a_view(spark: SparkSession, uri: str) -> None:
    save(spark.sql("SELECT CAST(id AS int) id, CAST(NULL AS string) name FROM range(2)"), uri)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{uri}', max_rows_per_file '1')")
    spark.sql("INSERT INTO v VALUES (7, 'seven'), (8, NULL)")
    assert rows(uri)[2:] == [{"id": 7, "name": "seven"}, {"id": 8, "name": None}]
    assert spark.table("v").count() == 2  # the view keeps the version that it was made with
    spark.sql("INSERT OVERWRITE v SELECT 1, 'one'")
    assert rows(uri) == [{"id": 1, "name": "one"}]
    spark.sql("INSERT INTO v VALUES (2, NULL)")  # that the rows before were literals does not forbid nulls
    assert rows(uri)[1] == {"id": 2, "name": None}
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{uri}', version '1')")
    with pytest.raises(AnalysisException, match="'version' applies only to reads"):
        spark.sql("INSERT INTO v VALUES (9, 'nine')")


def test_files_have_at_most_the_rows_asked_for(spark: SparkSession, uri: str) -> None:
    save(spark.range(0, 25, 1, 1), uri, max_row_per_file=10)
    assert sorted(f.count_rows() for f in lance.dataset(uri).get_fragments()) == [5, 10, 10]
    assert sorted(r["id"] for r in rows(uri)) == list(range(25))


def test_files_end_by_bytes(spark: SparkSession, uri: str) -> None:
    save(spark.range(0, 30_000, 1, 1).selectExpr("sha2(cast(id AS string), 512) h"), uri, max_bytes_per_file=1_000_000)
    assert len(lance.dataset(uri).get_fragments()) == 3
    assert len(rows(uri)) == 30_000


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_the_storage_version_of_a_new_table_can_be_chosen(spark: SparkSession, uri: str, version: str) -> None:
    save(spark.range(3), uri, file_format_version=version)
    assert lance.dataset(uri).data_storage_version == version
    save(spark.range(3), uri, data_storage_version="2.2")
    assert {str(f.data_files()[0].file_minor_version) for f in lance.dataset(uri).get_fragments()} == {version[-1]}


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_spark_refuses_the_modes_that_lance_spark_write_has(spark: SparkSession, uri: str, mode: str) -> None:
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        save(spark.range(3), uri, mode)


def test_unsupported_types_are_refused_with_an_alternative(spark: SparkSession, uri: str) -> None:
    with pytest.raises(AnalysisException, match=r"column 'v': .*"):
        save(spark.sql("SELECT st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') v"), uri)
    assert not os.path.exists(uri)


def a_writer(uri: str, overwrite: bool = False, **options: str) -> LanceWriter:
    schema = st.StructType([st.StructField("id", st.LongType())])
    writer = LanceDataSource({"path": uri, **options}).writer(schema, overwrite)
    copy: LanceWriter = pickle.loads(pickle.dumps(writer))
    return copy


def batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def test_only_the_chosen_message_of_a_repeated_task_counts(uri: str) -> None:
    writer = a_writer(uri)
    first, second = writer.write(iter([batch(1, 2)])), writer.write(iter([batch(1, 2)]))
    writer.commit([pickle.loads(pickle.dumps(second))])
    assert [r["id"] for r in rows(uri)] == [1, 2]
    assert {f.path for f in first.part[0].files} <= files(uri)  # the loser's file stays, as nobody tells the driver of it


def test_commit_refuses_a_missing_message_and_abort_cleans_up(uri: str) -> None:
    writer = a_writer(uri)
    message = writer.write(iter([batch(1, 2)]))
    with pytest.raises(LanceError, match="1 of 2 tasks"):
        writer.commit([message, None])
    stopped_before_its_message_arrived = writer.write(iter([batch(3)]))
    others = a_writer(uri).write(iter([batch(4)]))
    assert len(files(uri)) == 3
    writer.abort([message, None])
    assert files(uri) == {others.part[0].files[0].path}
    assert stopped_before_its_message_arrived


def test_abort_cleans_up_after_tasks_that_still_write_when_another_has_failed(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = a_writer(uri)
    written_late = []
    monkeypatch.setattr("time.sleep", lambda seconds: written_late.append(writer.write(iter([batch(1)]))))
    writer.abort([None, None])
    assert len(written_late) == 1
    assert files(uri) == set()


def test_abort_after_a_commit_leaves_the_files(uri: str) -> None:
    writer = a_writer(uri)
    message = writer.write(iter([batch(1, 2)]))
    writer.commit([message])
    writer.abort([message])
    writer.abort([message, None])
    assert [r["id"] for r in rows(uri)] == [1, 2]


def test_a_commit_that_conflicts_leaves_no_files(uri: str) -> None:
    a_writer(uri).commit([a_writer(uri).write(iter([batch(1)]))])
    writer = a_writer(uri)
    message = writer.write(iter([batch(2)]))
    overwriter = a_writer(uri, overwrite=True)
    overwriter.commit([overwriter.write(iter([batch(3)]))])
    with pytest.raises(LanceError, match="conflicts with the Overwrite"):
        writer.commit([message])
    assert [r["id"] for r in rows(uri)] == [3]
    assert files(uri) == named_files(uri)


def test_an_iterator_that_fails_leaves_no_files(uri: str) -> None:
    def batches() -> Any:
        yield batch(1)
        raise ZeroDivisionError

    writer = a_writer(uri, max_rows_per_file="1")
    with pytest.raises(ZeroDivisionError):
        writer.write(batches())
    assert not files(uri)


def test_create_and_overwrite_contradict_each_other(uri: str) -> None:
    schema = st.StructType([st.StructField("id", st.LongType())])
    with pytest.raises(InvalidOptionError, match="write_mode"):
        rows_to(Store(uri), schema, True, SparkWriteOptions(write_mode="create"))


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        (None, ["id", "v"]),
        ({"kind": "MERGE", "condition": "t.id = s.id", "assigned": ["v"]}, ["__row_operation", "_rowaddr", "id", "v"]),
        ({"kind": "UPDATE COLUMNS", "condition": "true"}, ["_rowaddr", "v"]),
        ({"kind": "ADD COLUMNS", "condition": "true"}, ["_rowaddr", "new"]),
        ({"kind": "TRUNCATE", "condition": "true"}, []),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else None,
)
def test_a_writer_does_not_grow_with_the_table(uri: str, command: dict[str, Any] | None, columns: list[str]) -> None:
    def size(rows: int) -> int:
        table = Dataset.write(f"{uri}{rows}", pa.table({"id": range(rows), "v": range(rows)}), max_rows_per_file=1)
        options = {"path": f"{uri}{rows}"}
        if command is not None:
            given = {**command, "statement": "s", "version": 1, "identity": table.snapshot.identity}
            options[INSTRUCTIONS] = json.dumps({NUMBER: PROTOCOL, "command": given})
        schema = st.StructType([st.StructField(name, st.LongType()) for name in columns])
        return len(pickle.dumps(LanceDataSource(options).writer(schema, False)))

    assert abs(size(3) - size(60)) < 20


def test_decimals_stay_exact(spark: SparkSession, load: Load, uri: str) -> None:
    save(spark.sql("SELECT CAST('-12345678901234567890123456789012345678' AS decimal(38,0)) d"), uri)
    assert load(uri).first() == Row(d=Decimal("-12345678901234567890123456789012345678"))


def test_a_committed_write_succeeds_even_if_the_cleanup_fails(spark: SparkSession, uri: str) -> None:
    save(spark.range(3), uri)
    Dataset.open(uri).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "1"})
    refs = Path(uri, "_refs/tags")
    refs.mkdir(parents=True)
    (refs / "..%2Fx.json").write_text("{}")
    save(spark.range(3, 5), uri)
    assert sorted(row["id"] for row in rows(uri)) == [0, 1, 2, 3, 4]
    assert named_files(uri) == files(uri)
