"""backfill: a function computes a column for the rows that lack a result of it, and for no others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType

from lance_spark import Dataset, LanceTable, lance_udf
from lance_spark.errors import FunctionFailedError, InvalidOptionError, LanceError, SchemaMismatchError
from tests.sample import others_slow

ROWS = pa.table({"id": pa.array(range(120), pa.int64()), "text": [f"t{i}" for i in range(120)]})


@pytest.fixture(params=others_slow([False, True], [False]))
def table(request: pytest.FixtureRequest, uri: str, spark: SparkSession) -> LanceTable:
    lance.write_dataset(ROWS, uri, max_rows_per_file=50, enable_stable_row_ids=request.param)
    lance.dataset(uri).delete("id IN (5, 60)")
    return LanceTable.forPath(spark, uri)


@pytest.fixture
def small(uri: str, spark: SparkSession) -> LanceTable:
    lance.write_dataset(ROWS.slice(0, 10), uri)
    return LanceTable.forPath(spark, uri)


def sized(folder: Path, version: str | None = "1", bad: Sequence[str] = ()) -> Callable[..., Any]:
    """A function that notes the values that it is called with."""

    @lance_udf("int", version=version)
    def size(text: str) -> int:
        with (folder / "calls").open("a") as calls:
            calls.write(f"{text}\n")
        if text in bad:
            raise ValueError(f"{text} is bad")
        return len(text)

    return size


def calls(folder: Path) -> list[str]:
    """The values since the last look, sorted."""
    found = sorted((folder / "calls").read_text().split()) if (folder / "calls").exists() else []
    (folder / "calls").unlink(missing_ok=True)
    return found


def read(uri: str) -> list[dict[str, Any]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    rows: list[dict[str, Any]] = dataset.to_table().sort_by("id").to_pylist()
    return rows


def check(uri: str) -> None:
    """Every row has the value that belongs to its inputs now."""
    assert all(row["n"] == len(row["text"]) for row in read(uri))


def test_every_row_is_computed_once_and_not_again(table: LanceTable, uri: str, tmp_path: Path) -> None:
    done = table.backfill("n", sized(tmp_path))
    assert (done.num_rows, done.num_computed_rows, done.num_failed_rows, done.num_commits) == (118, 118, 0, 1)
    assert calls(tmp_path) == sorted(row["text"] for row in read(uri))
    assert lance.dataset(uri).schema.field("n").type == pa.int32()
    check(uri)
    again = table.backfill("n", sized(tmp_path))
    assert (again.num_rows, again.num_commits, again.version) == (0, 0, done.version)
    assert calls(tmp_path) == []


def test_rows_that_are_new_or_changed_are_computed_and_no_others(table: LanceTable, uri: str, tmp_path: Path) -> None:
    table.backfill("n", sized(tmp_path))
    calls(tmp_path)
    lance.dataset(uri).insert(pa.table({"id": pa.array([200, 201]), "text": ["new", "newer"]}))
    lance.dataset(uri).update({"text": "'moved'"}, "id < 3")
    lance.dataset(uri).delete("id = 10")
    table.update("id >= 50 AND id < 100", {"text": "concat(text, '!')"})
    assert table.backfill("n", sized(tmp_path)).num_rows == 2 + 3 + 49
    assert calls(tmp_path) == sorted(["new", "newer", "moved", "moved", "moved", *(f"t{i}!" for i in range(50, 100) if i != 60)])
    check(uri)


def test_compactions_move_results_with_their_rows(table: LanceTable, uri: str, tmp_path: Path) -> None:
    table.backfill("n", sized(tmp_path))
    calls(tmp_path)
    lance.dataset(uri).optimize.compact_files()
    table.backfill("n", sized(tmp_path))
    lance.dataset(uri).insert(ROWS.slice(0, 4))
    table.optimize().executeCompaction()
    table.backfill("n", sized(tmp_path))
    assert calls(tmp_path) == ["t0", "t1", "t2", "t3"]
    check(uri)


def test_nulls_are_results(small: LanceTable, uri: str, tmp_path: Path) -> None:
    @lance_udf("string")
    def odd(id: int) -> str | None:
        return None if id % 2 else "even"

    assert small.backfill("odd", odd).num_rows == 10
    assert [row["odd"] for row in read(uri)] == ["even", None] * 5
    assert small.backfill("odd", odd).num_rows == 0


def test_another_version_computes_all_rows_again(small: LanceTable, uri: str, tmp_path: Path) -> None:
    small.backfill("n", sized(tmp_path))
    assert small.backfill("n", sized(tmp_path, "2")).num_rows == 10
    assert small.backfill("n", sized(tmp_path), version="2").num_rows == 0
    assert len(calls(tmp_path)) == 20


def test_without_a_version_the_code_is_the_version(small: LanceTable, uri: str) -> None:
    def times(factor: int) -> Callable[..., Any]:
        return lance_udf("bigint")(lambda id: id * factor)

    assert small.backfill("n", times(2)).num_rows == 10
    assert small.backfill("n", times(2)).num_rows == 0
    assert small.backfill("n", times(3)).num_rows == 10
    assert [row["n"] for row in read(uri)] == [3 * i for i in range(10)]


def test_failed_rows_are_known_and_tried_again(table: LanceTable, uri: str, tmp_path: Path) -> None:
    done = table.backfill("n", sized(tmp_path, bad=["t7", "t70"]), on_error="null")
    assert (done.num_rows, done.num_failed_rows) == (118, 2)
    failures = table.backfillFailures("n").collect()
    assert [(row.version, row.message) for row in sorted(failures, key=lambda row: row.message)] == [
        ("1", "ValueError: t7 is bad"),
        ("1", "ValueError: t70 is bad"),
    ]
    ids = lance.dataset(uri).to_table(columns=["text"], with_row_id=True, filter="text IN ('t7', 't70')").column("_rowid").to_pylist()
    assert sorted(row["_rowid"] for row in failures) == sorted(ids)
    assert [row["n"] for row in read(uri) if row["text"] in ("t7", "t70")] == [None, None]
    calls(tmp_path)
    assert table.backfill("n", sized(tmp_path), on_error="null").num_rows == 2
    assert calls(tmp_path) == ["t7", "t70"]
    assert table.backfillFailures("n").count() == 0
    check(uri)


def test_a_skipped_row_keeps_its_value(small: LanceTable, uri: str, tmp_path: Path) -> None:
    small.backfill("n", sized(tmp_path))
    small.update("id IN (3, 4)", {"text": "'changed'"})
    small.backfill("n", sized(tmp_path, bad=["changed"]), on_error="skip")
    assert [row["n"] for row in read(uri)] == [2] * 10
    assert small.backfillFailures("n").count() == 2


def test_an_error_ends_the_backfill_and_says_which_row(small: LanceTable, uri: str, tmp_path: Path) -> None:
    with pytest.raises(FunctionFailedError, match=r"function .*size failed: ValueError: t7 is bad; .* from the row address"):
        small.backfill("n", sized(tmp_path, bad=["t7"]))
    assert [row["n"] for row in read(uri)] == [None] * 10
    small.backfill("n", sized(tmp_path))
    check(uri)


def test_a_condition_chooses_rows(table: LanceTable, uri: str, tmp_path: Path) -> None:
    assert table.backfill("n", sized(tmp_path), where="id < 20 OR id = 110").num_rows == 20
    assert len(calls(tmp_path)) == 20
    assert table.backfill("n", sized(tmp_path), where="id < 30").num_rows == 10
    table.update("id = 110", {"text": "'changed'"})
    assert table.backfill("n", sized(tmp_path)).num_rows == 118 - 30 + 1
    check(uri)


def test_an_existing_column_is_computed(small: LanceTable, uri: str, spark: SparkSession, tmp_path: Path) -> None:
    def upper(text: str) -> str:
        return text.upper()

    lance.dataset(uri).add_columns({"loud": "'?'"})
    assert small.backfill("loud", upper).num_rows == 10
    assert [row["loud"] for row in read(uri)] == [f"T{i}" for i in range(10)]
    # Values that others write are theirs, not the function's.
    lance.dataset(uri).insert(pa.table({"id": pa.array([10]), "text": ["t10"], "loud": ["?"]}))
    assert small.backfill("loud", upper).num_rows == 1
    assert read(uri)[-1]["loud"] == "T10"


def test_a_new_column_of_the_same_name_is_computed_anew(small: LanceTable, uri: str, tmp_path: Path) -> None:
    small.backfill("n", sized(tmp_path))
    small.dropColumns(["n"])
    assert small.backfill("n", sized(tmp_path)).num_rows == 10
    small.renameColumn("n", "m")
    assert small.backfill("m", sized(tmp_path)).num_rows == 0
    assert [row["m"] for row in read(uri)] == [2] * 10


def arrow(id: pa.Array, text: pa.Array) -> pa.Array:
    return pc.add(pc.cast(pc.binary_length(text), pa.int64()), id)


def pandas(id: pd.Series, text: pd.Series) -> pd.Series:
    return id + text.str.len()


def frame(rows: pd.DataFrame) -> pd.Series:
    return rows["id"] + rows["text"].str.len()


def whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": arrow(batch.column("id"), batch.column("text"))})


def rows(id: int, text: str) -> int:
    return id + len(text)


class Model:
    """A model that is loaded once."""

    def __init__(self, folder: str, plus: int) -> None:
        with (Path(folder) / "loads").open("a") as loads:
            loads.write(f"{os.getpid()}\n")
        self.plus = plus

    def __call__(self, id: pa.Array, text: pa.Array) -> pa.Array:
        return pc.add(arrow(id, text), self.plus)


@pytest.mark.parametrize("function", [arrow, pandas, frame, whole, rows], ids=lambda function: str(function.__name__))
def test_annotations_say_what_a_function_receives(small: LanceTable, uri: str, function: Callable[..., Any]) -> None:
    described = lance_udf(pa.int64(), inputs=["id", "text"], batch_size=4)(function)
    assert small.backfill("n", described).num_rows == 10
    assert [row["n"] for row in read(uri)] == [i + 2 for i in range(10)]


def test_a_class_is_built_once_in_each_worker(table: LanceTable, uri: str, tmp_path: Path) -> None:
    model = lance_udf(IntegerType(), version="1")(Model)
    table.backfill("n", model(str(tmp_path), plus=0), num_tasks=10)
    workers = (tmp_path / "loads").read_text().split()
    assert len(workers) == len(set(workers)) < 10
    assert [row["n"] for row in read(uri)] == [row["id"] + len(row["text"]) for row in read(uri)]


VECTOR = pa.list_(pa.float32(), 2)
BLOB = pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
TYPES: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "vectors": (VECTOR, lambda id: [id, id + 0.5]),
    "structs": ("struct<a: int, b: array<string>>", lambda id: {"a": id, "b": ["x"] * (id % 3)}),
    "lists of structs": (pa.list_(pa.struct({"a": pa.int32()})), lambda id: [{"a": id}]),
    "instants": ("timestamp", lambda id: pd.Timestamp(id, unit="s", tz="UTC").to_pydatetime()),
}


@pytest.mark.parametrize("name", others_slow(TYPES, ["structs", "vectors"]))
def test_results_may_be_of_any_type(small: LanceTable, uri: str, name: str) -> None:
    type, function = TYPES[name]
    small.backfill("c", lance_udf(type)(function))
    assert [row["c"] for row in read(uri)] == [function(i) for i in range(10)]
    lance.dataset(uri).insert(ROWS.slice(10, 5))
    lance.dataset(uri).optimize.compact_files()
    assert small.backfill("c", lance_udf(type)(function)).num_rows == 5
    assert [row["c"] for row in read(uri)] == [function(i) for i in range(15)]


def test_results_and_inputs_may_be_blobs(small: LanceTable, uri: str) -> None:
    @lance_udf(BLOB)
    def picture(id: int) -> bytes | None:
        return None if id == 3 else bytes([id]) * 1000

    @lance_udf("int")
    def first(c: bytes | None) -> int | None:
        return None if c is None else c[0]

    small.backfill("c", picture)
    lance.dataset(uri).insert(ROWS.slice(10, 2))
    lance.dataset(uri).optimize.compact_files()
    assert small.backfill("c", picture).num_rows == 2
    assert small.backfill("first", first).num_rows == 12
    assert [row["first"] for row in read(uri)] == [0, 1, 2, None, *range(4, 12)]


def test_inputs_may_be_fields_of_structs(uri: str, spark: SparkSession) -> None:
    lance.write_dataset(pa.table({"id": [0, 1], "s": pa.array([{"x": 1, "y": "a"}, None])}), uri)
    table = LanceTable.forPath(spark, uri)

    @lance_udf("bigint", inputs=["s.x"])
    def twice(x: int | None) -> int | None:
        return None if x is None else 2 * x

    assert table.backfill("n", twice).num_rows == 2
    assert [row["n"] for row in read(uri)] == [2, None]
    lance.dataset(uri).update({"id": "id + 10"}, "id = 0")
    assert table.backfill("n", twice).num_rows == 0


def test_commits_have_as_many_fragments_as_asked_for(table: LanceTable, uri: str, tmp_path: Path) -> None:
    done = table.backfill("n", sized(tmp_path), fragments_per_commit=1, commit_message="sizes")
    assert 1 <= done.num_commits <= 3
    assert table.history()[0].message == "sizes"
    check(uri)


WRONG: dict[str, tuple[Callable[[], dict[str, Any]], type[Exception], str]] = {
    "no function": (lambda: {"function": 3}, TypeError, "must be a function or a class"),
    "no type": (lambda: {"function": rows}, SchemaMismatchError, "give the function a data_type"),
    "no inputs": (lambda: {"function": lance_udf("int")(lambda: 1)}, SchemaMismatchError, "has no inputs"),
    "unknown input": (lambda: {"function": lance_udf("int")(lambda nope: 1)}, SchemaMismatchError, "nope"),
    "whole batches": (lambda: {"function": lance_udf("int")(whole)}, InvalidOptionError, "name the columns"),
    "bad on_error": (lambda: {"function": lance_udf("int")(rows), "on_error": "ignore"}, InvalidOptionError, "on_error"),
    "bad where": (lambda: {"function": lance_udf("int")(rows), "where": "nope > 1"}, SchemaMismatchError, "nope"),
    "numbered": (lambda: {"function": lance_udf("int")(rows), "txnAppId": "a", "txnVersion": 1}, InvalidOptionError, "several times"),
    "itself": (lambda: {"column": "id", "function": lance_udf("int")(lambda id: 1)}, SchemaMismatchError, "from itself"),
    "other type": (lambda: {"function": lance_udf("int")(lambda id: "x")}, FunctionFailedError, "failed"),
    "other count": (lambda: {"function": lance_udf("int", inputs=["id"])(short)}, FunctionFailedError, "10 values"),
    "other column": (lambda: {"function": lance_udf("int", inputs=["id"])(misnamed)}, FunctionFailedError, "the column 'n', not 'm'"),
    "no method": (lambda: {"function": lance_udf("int", inputs=["id"])(Empty)}, InvalidOptionError, "no method __call__"),
    "broken class": (lambda: {"function": lance_udf("int", inputs=["id"])(Broken)}, FunctionFailedError, "no model"),
}


class Empty:
    """No function."""


class Broken:
    """A model that cannot be loaded."""

    def __init__(self) -> None:
        raise OSError("no model")

    def __call__(self, id: int) -> int:
        return id


def short(id: pa.Array) -> pa.Array:
    return id[:3]


def misnamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"m": batch.column("id")})


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_refused(
    small: LanceTable, uri: str, arguments: Callable[[], dict[str, Any]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        small.backfill(**{"column": "n", **arguments()})
    assert all(row.get("n") is None for row in read(uri))


def test_only_columns_of_functions_have_failures(small: LanceTable) -> None:
    with pytest.raises(LanceError, match="no function has computed"):
        small.backfillFailures("text")
