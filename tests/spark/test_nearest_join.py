"""A nearest join finds for each question the rows that a search of it alone finds, whatever the table is like."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError
from lance_spark.table.join import plan
from tests.spark_session import SPARK_ERRORS
from tests.table.search.vectors import CLOSE, DIMENSIONS, table, vectors

ROWS = 1200
NULL, NAN = 3, 5
"""Questions without a vector."""
QUESTIONS = np.asarray(vectors(rows=ROWS)[20:60] + 0.25, np.float32)


def asked(spark: SparkSession, parts: int = 3) -> DataFrame:
    rows: list[tuple[int, str, list[float] | None]] = [(i, f"question {i}", q) for i, q in enumerate(QUESTIONS.tolist())]
    rows[NULL] = (NULL, "null", None)
    rows[NAN] = (NAN, "nan", [float("nan")] * DIMENSIONS)
    return spark.createDataFrame(rows, "number INT, text STRING, q ARRAY<FLOAT>").repartition(parts)


def equals_single_searches(spark: SparkSession, path: Path, how: Literal["inner", "left"] = "inner", **given: Any) -> pa.Table:
    """Check that the rows of a join are those of single searches; returns them."""
    found = LanceTable.forPath(spark, str(path)).nearestJoin(asked(spark), ("q", "vec"), how=how, columns=["id"], **given)
    assert found.columns == ["number", "text", "q", "id", "_distance"]
    ours = found.toArrow().sort_by([("number", "ascending"), ("_distance", "ascending")])
    filter, fast = given.pop("filter", None), given.pop("fast_search", False)
    dataset = Dataset.open(str(path))
    for number, query in enumerate(QUESTIONS):
        own = ours.filter(pa.array(ours["number"].to_numpy() == number))
        if number in (NULL, NAN):
            assert own.select(["id", "_distance"]).to_pylist() == [{"id": None, "_distance": None}] * (how == "left")
            continue
        near = {**given, "column": "vec", "q": query}
        alone = dataset.scan(columns=["id"], nearest=near, filter=filter, prefilter=True, fast_search=fast).to_table()
        if not len(alone) and how == "left":
            assert own["id"].to_pylist() == [None]
            continue
        distances = alone["_distance"].to_numpy()
        np.testing.assert_allclose(own["_distance"].to_numpy(), distances, rtol=1e-4, atol=CLOSE)
        for i in np.flatnonzero(own["id"].to_numpy() != alone["id"].to_numpy()):
            assert np.isclose(distances, distances[i], rtol=1e-4, atol=CLOSE).sum() > 1  # rows at one distance are in any order
        assert {*own["id"].to_pylist()} == {*alone["id"].to_pylist()}
        assert own["text"].to_pylist() == [f"question {number}"] * len(own)
    return ours


@pytest.mark.parametrize(
    ("kind", "metric", "parameters"),
    [
        ("IVF_PQ", "l2", {"num_sub_vectors": 4}),
        ("IVF_PQ", "dot", {"num_sub_vectors": 2, "num_bits": 4}),  # many rows are at one distance
        ("IVF_HNSW_SQ", "cosine", {}),
    ],
)
def test_a_join_by_an_index(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, metric: str, parameters: dict[str, Any]
) -> None:
    if metric == "dot":
        monkeypatch.setattr(plan, "_GROUP_BYTES", 1)  # tasks search the parts of the table, as of a large one
    values = vectors(rows=ROWS)
    values[5, 2] = np.nan
    dataset = lance.write_dataset(table(values, null=7), tmp_path / "t", max_rows_per_file=400)
    dataset.create_index("vec", kind, metric=metric, num_partitions=6, **parameters)
    dataset.delete("id % 7 = 5")
    assert len(equals_single_searches(spark, tmp_path / "t", k=5, nprobes=2)) == 5 * 38
    # Less than k rows are in the first partitions, so that more are searched.
    equals_single_searches(spark, tmp_path / "t", "left", k=40, minimum_nprobes=1, filter="id % 20 = 0")
    # Another segment, and rows that none covers.
    lance.write_dataset(table(vectors(rows=300, seed=3), first=ROWS), tmp_path / "t", mode="append").optimize.optimize_indices(
        num_indices_to_merge=0
    )
    equals_single_searches(spark, tmp_path / "t", k=5, nprobes=3, refine_factor=2)
    lance.write_dataset(table(vectors(rows=50, seed=4), first=ROWS + 300), tmp_path / "t", mode="append")
    equals_single_searches(spark, tmp_path / "t", k=5, nprobes=3, distance_range=(0.1, 2.0), how="left")
    equals_single_searches(spark, tmp_path / "t", k=5, nprobes=3, fast_search=True)


def test_a_join_without_an_index(spark: SparkSession, tmp_path: Path) -> None:
    dataset = lance.write_dataset(table(vectors(rows=ROWS), null=7), tmp_path / "t", max_rows_per_file=400)
    dataset.delete("id % 7 = 5")
    for metric in ("l2", "cosine"):
        equals_single_searches(spark, tmp_path / "t", k=4, metric=metric, filter="id > 100")
    few = equals_single_searches(spark, tmp_path / "t", "left", k=2000)
    assert len(few) == 38 * (dataset.count_rows() - 1) + 2
    # The metric of the index is another one.
    dataset.create_index("vec", "IVF_FLAT", metric="dot", num_partitions=2)
    equals_single_searches(spark, tmp_path / "t", k=4, metric="l2")
    frame = LanceTable.forPath(spark, str(tmp_path / "t")).nearestJoin(asked(spark), ("q", "vec"), metric="l2")
    assert "no index is used" in frame._jdf.queryExecution().toString()


def test_empty_sides(spark: SparkSession, tmp_path: Path) -> None:
    dataset = lance.write_dataset(table(vectors()), tmp_path / "t")
    ours = LanceTable.forPath(spark, str(tmp_path / "t"))
    assert ours.nearestJoin(asked(spark).where("false"), ("q", "vec"), how="left").collect() == []
    dataset.delete("true")
    assert ours.nearestJoin(asked(spark), ("q", "vec")).collect() == []
    rows = ours.nearestJoin(asked(spark), ("q", "vec"), how="left").collect()
    assert [(row["number"], row["id"]) for row in sorted(rows)] == [(i, None) for i in range(len(QUESTIONS))]


def test_all_kinds_of_columns_pass_through(spark: SparkSession, tmp_path: Path) -> None:
    rows = table(vectors()).append_column("odd name", pa.array([{"x": i, "y": [None, str(i)]} for i in range(300)]))
    lance.write_dataset(rows, tmp_path / "t")
    questions = spark.sql(
        "SELECT array(1, 2, 3, 4, 5, 6, 7, n) q, n `a.b`, timestamp'2020-01-01' + make_dt_interval(n) at,"
        " named_struct('x', n, 'y', map('k', n)) s, cast(n AS decimal(9, 2)) d, cast(null AS string) nothing"
        " FROM (SELECT explode(array(1, 2)) n)"
    )
    joined = LanceTable.forPath(spark, str(tmp_path / "t")).nearestJoin(questions, ("q", "vec"), k=1)
    assert joined.columns == [*questions.columns, "id", "kind", "vec", "odd name", "_distance"]
    found = joined.orderBy("`a.b`").collect()
    assert [row[:6] for row in found] == questions.collect()
    dataset = Dataset.open(str(tmp_path / "t"))
    for row in found:
        (best,) = dataset.scan(nearest={"column": "vec", "q": row["q"], "k": 1}).to_table().to_pylist()
        assert [row["id"], row["kind"], row["vec"], row["odd name"].asDict()] == [best[name] for name in rows.column_names]
    assert joined.where("_distance < 0").count() == 0
    assert joined.select("id").distinct().count() <= 2


def test_what_cannot_be_joined_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lance.write_dataset(table(vectors()), tmp_path / "t")
    ours, questions = LanceTable.forPath(spark, str(tmp_path / "t")), asked(spark)
    wrong: list[tuple[DataFrame, Any, dict[str, Any], str]] = [
        (questions.withColumnRenamed("number", "ID"), ("q", "vec"), {}, "withColumnRenamed"),
        (questions.withColumnRenamed("number", "_distance"), ("q", "vec"), {}, "withColumnRenamed"),
        (questions, ("text", "vec"), {}, "must be an array of numbers"),
        (questions, ("q", "kind"), {}, "no vectors"),
        (questions, "q", {}, "on must be"),
        (questions, ("q", "vec"), {"how": "outer"}, "inner"),
        (questions, ("q", "vec"), {"probes": 3}, "no parameter 'probes'"),
        (questions, ("q", "vec"), {"k": 0}, "at least 1"),
        (questions, ("q", "vec"), {"metric": "hamming"}, "hamming"),
    ]
    for df, on, given, message in wrong:
        with pytest.raises(InvalidOptionError, match=message):
            ours.nearestJoin(df, on, **given)
    with pytest.raises(InvalidOptionError, match="foreachBatch"):
        ours.nearestJoin(spark.readStream.format("rate").load().selectExpr("array(value) q"), ("q", "vec"))
    with pytest.raises(SPARK_ERRORS, match="2 dimensions, but the vectors of column 'vec' have 8"):
        ours.nearestJoin(spark.sql("SELECT array(1.0, 2.0) q"), ("q", "vec")).collect()
    Dataset.write(str(tmp_path / "q"), pa.table({"q": pa.array([[1.0, 2.0, 3.0, 4.0]], pa.list_(pa.float32(), 4))}))
    with pytest.raises(InvalidOptionError, match="4 dimensions"):
        ours.nearestJoin(spark.read.format("lance").load(str(tmp_path / "q")), ("q", "vec"))


def test_a_column_of_lists_of_vectors_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    column = table(vectors())["vec"].combine_chunks()
    lists = pa.ListArray.from_arrays(pa.array(range(len(column) + 1), pa.int32()), column)
    Dataset.write(tmp_path / "t", pa.table({"vec": lists}))
    with pytest.raises(InvalidOptionError, match="column 'vec' has lists of vectors, which a nearest join does not compare"):
        LanceTable.forPath(spark, str(tmp_path / "t")).nearestJoin(asked(spark), ("q", "vec"))
