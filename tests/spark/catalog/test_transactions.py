"""Transactions over several tables of a catalog, in SQL and in Python."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import LanceTable
from lance_spark.errors import CommitConflictError, InvalidOptionError, UnsupportedFeatureError
from lance_spark.namespace.protocol import TRANSACTION
from lance_spark.spark.again import Asked
from lance_spark.spark.catalog import copy_into, transactions
from lance_spark.spark.catalog_settings import Catalog
from tests.spark.catalog.lakes import Lake

OLD = [(i, 100) for i in range(4)]


@pytest.fixture
def bank(own: Lake) -> Lake:
    """A catalog with two tables."""
    for name in ("debit", "ns.credit"):
        own.sql(f"CREATE TABLE lance.{name} AS SELECT id, CAST(100 AS BIGINT) AS amount FROM range(4)")
    return own


def rows(bank: Lake, name: str) -> list[tuple[int, int]]:
    return sorted(bank.sql(f"SELECT id, amount FROM lance.{name}"))


def outside(bank: Lake, name: str) -> list[tuple[int, int]]:
    """The rows that readers without the session see."""
    assert bank.pylance(name) is not None
    return sorted((r["id"], r["amount"]) for r in bank.namespace.open(name.split(".")).to_table().to_pylist())


def test_all_ways_to_change_rows_are_seen_inside_and_outside_after_the_commit(bank: Lake) -> None:
    with lance_spark.transaction(bank.spark, "lance"):
        bank.sql("UPDATE lance.debit SET amount = amount - 30 WHERE id = 1")
        bank.sql("INSERT INTO lance.ns.credit VALUES (7, 1)")
        bank.sql("DELETE FROM lance.ns.credit WHERE id = 0")
        bank.sql(
            "MERGE INTO lance.debit t USING (SELECT explode(array(2, 8)) AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET amount = 2 WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, 8)"
        )
        bank.spark.createDataFrame([(9, 9)], "id bigint, amount bigint").writeTo("lance.ns.credit").append()
        LanceTable.forName(bank.spark, "lance.debit").delete("id = 3")
        bank.sql("INSERT INTO lance.debit SELECT id + 100, amount FROM lance.ns.credit WHERE id = 9")
        inside = rows(bank, "debit"), rows(bank, "ns.credit")
        assert inside == ([(0, 100), (1, 70), (2, 2), (8, 8), (109, 9)], [(1, 100), (2, 100), (3, 100), (7, 1), (9, 9)])
        assert outside(bank, "debit") == outside(bank, "ns.credit") == OLD
        lance.write_dataset(pa.table({"id": [50], "amount": [5]}), bank.location("debit"), mode="append")
    assert rows(bank, "debit") == outside(bank, "debit") == sorted([*inside[0], (50, 5)])
    assert rows(bank, "ns.credit") == outside(bank, "ns.credit") == inside[1]
    assert bank.versions("debit") == [1, 2, 3]
    assert bank.versions("ns.credit") == [1, 2]


def test_an_error_in_the_block_rolls_back_and_a_conflict_fails_by_name(bank: Lake) -> None:
    def fail() -> None:
        with lance_spark.transaction(bank.spark):
            bank.sql("DELETE FROM lance.debit")
            raise KeyError

    def conflict() -> None:
        with lance_spark.transaction(bank.spark):
            bank.sql("UPDATE lance.ns.credit SET amount = 1 WHERE id = 2")
            bank.sql("DELETE FROM lance.debit WHERE id = 0")
            lance.dataset(bank.location("debit")).delete("id = 0")

    with pytest.raises(KeyError):
        fail()
    assert rows(bank, "debit") == OLD
    with pytest.raises(CommitConflictError, match="debit"):
        conflict()
    assert rows(bank, "debit") == OLD[1:]
    assert rows(bank, "ns.credit") == OLD


def test_statements_begin_and_end_a_transaction(bank: Lake) -> None:
    bank.sql("BEGIN TRANSACTION IN lance")
    bank.sql("DELETE FROM lance.debit WHERE id > 0")
    assert outside(bank, "debit") == OLD
    bank.sql("COMMIT IN lance;")
    assert rows(bank, "debit") == outside(bank, "debit") == OLD[:1]
    bank.sql("USE lance")
    bank.sql("begin transaction")
    bank.sql("DELETE FROM debit")
    assert rows(bank, "debit") == []
    assert bank.sql("SELECT count(*) FROM debit VERSION AS OF 1") == [(4,)]
    bank.sql("ROLLBACK")
    assert rows(bank, "debit") == OLD[:1]
    with pytest.raises(PySparkException, match="the catalog has no open transaction"):
        bank.sql("COMMIT")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE lance.new (id INT)", "a transaction creates no tables"),
        ("CREATE TABLE lance.new AS SELECT 1 AS id", "a transaction creates no tables"),
        ("DROP TABLE lance.debit", "a transaction drops no tables"),
        ("ALTER TABLE lance.debit RENAME TO lance.new", "a transaction renames no tables"),
        ("CREATE NAMESPACE lance.other", "a transaction creates no namespaces"),
        ("BEGIN TRANSACTION IN lance", "is open: commit it before another one begins"),
        ("SELECT * FROM lance.debit.branch_dev", "is a branch, which a transaction does not contain"),
    ],
)
def test_what_a_transaction_cannot_do_is_refused_and_it_goes_on(statement: str, message: str, bank: Lake) -> None:
    with lance_spark.transaction(bank.spark):
        bank.sql("DELETE FROM lance.debit WHERE id = 0")
        with pytest.raises(PySparkException, match=message):
            bank.sql(statement)
    assert rows(bank, "debit") == OLD[1:]


def test_other_catalogs_are_refused_by_name(spark: SparkSession, bank: Lake) -> None:
    with (
        pytest.raises(UnsupportedFeatureError, match="'spark_catalog' has no transactions"),
        lance_spark.transaction(spark, "spark_catalog"),
    ):
        pass
    with pytest.raises(InvalidOptionError, match="no catalog 'unknown'"), lance_spark.transaction(spark, "unknown"):
        pass
    for statement in ("BEGIN TRANSACTION", "COMMIT IN spark_catalog"):
        with pytest.raises(PySparkException, match="the catalog spark_catalog has no transactions"):
            bank.sql(statement)


def test_columns_that_are_added_come_with_the_commit(bank: Lake) -> None:
    with lance_spark.transaction(bank.spark):
        bank.sql("ALTER TABLE lance.debit ADD COLUMNS (note STRING)")
        bank.sql("UPDATE lance.debit SET note = 'seen' WHERE id = 1")
        bank.sql("INSERT INTO lance.debit VALUES (9, 9, 'new')")
        assert "note" not in bank.namespace.open(["debit"]).schema.names
    assert sorted(bank.sql("SELECT id, note FROM lance.debit")) == [(0, None), (1, "seen"), (2, None), (3, None), (9, "new")]
    assert bank.versions("debit") == [1, 2]


def test_rows_that_spark_has_cached_are_those_of_the_transaction_and_then_of_the_table(bank: Lake) -> None:
    bank.sql("CACHE TABLE lance.debit")
    try:
        bank.sql("BEGIN TRANSACTION IN lance")
        bank.sql("DELETE FROM lance.debit WHERE id = 0")
        assert rows(bank, "debit") == OLD[1:]
        bank.sql("ROLLBACK IN lance")
        assert rows(bank, "debit") == OLD
        with lance_spark.transaction(bank.spark):
            bank.sql("DELETE FROM lance.debit WHERE id = 1")
        assert rows(bank, "debit") == [OLD[0], *OLD[2:]]
    finally:
        bank.sql("UNCACHE TABLE lance.debit")


def test_a_batch_of_a_stream_is_one_transaction(spark: SparkSession, bank: Lake, tmp_path: object) -> None:
    def both(batch: object, number: int) -> None:
        own = batch.sparkSession  # type: ignore[attr-defined]
        with lance_spark.transaction(own, "lance"):
            batch.writeTo("lance.debit").append()  # type: ignore[attr-defined]
            batch.writeTo("lance.ns.credit").append()  # type: ignore[attr-defined]

    spark.range(10, 12).selectExpr("id", "id AS amount").write.parquet(f"{tmp_path}/source")
    stream = spark.readStream.schema("id bigint, amount bigint").parquet(f"{tmp_path}/source")
    query = stream.writeStream.foreachBatch(both).option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start()
    query.awaitTermination()
    assert rows(bank, "debit") == rows(bank, "ns.credit") == [*OLD, (10, 10), (11, 11)]
    assert bank.versions("debit") == [1, 2]


def test_copy_into_is_refused_before_it_loads_anything() -> None:
    catalog = Catalog({"root": "/tmp/lake", TRANSACTION: "0"})
    with pytest.raises(UnsupportedFeatureError, match="contains no COPY INTO"):
        copy_into.begin(catalog, {"id": ["debit"]}, {"force": False}, ["file:/a"])


@pytest.mark.parametrize("conflict", [False, True])
def test_a_commit_that_is_asked_again_tells_a_conflict_that_the_first_answer_would_have_told(conflict: bool, tmp_path: Path) -> None:
    lake = lance_spark.namespace(str(tmp_path))
    lake.write(["debit"], pa.table({"id": [1, 2]}))
    both = lake.begin_transaction()
    both.open(["debit"]).delete("id = 1")
    lake.open(["debit"]).delete("id = 1" if conflict else "id = 2")
    first = Catalog({"root": str(tmp_path), TRANSACTION: both.id}, Asked("request"))
    again = replace(first, asked=Asked("request", is_again=True))
    for asked in (first, again, again):
        with pytest.raises(CommitConflictError) if conflict else contextlib.nullcontext():
            transactions.commit(asked)
    assert lake.open(["debit"]).count_rows() == (1 if conflict else 0)
