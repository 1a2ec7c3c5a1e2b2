"""The primary key by the doors of Spark: which columns may be in it, and that statements cannot change it once it is set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark.catalog.lakes import Lake, lake
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION

pytestmark = pytest.mark.spec("table.md", "Unenforced Primary Key")

KEY = "lance-schema:unenforced-primary-key"


@pytest.fixture(scope="module")
def own(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path_factory.mktemp("keys")) as made:
        yield made


COLUMNS = "id BIGINT NOT NULL, n BIGINT, s STRUCT<x: INT NOT NULL> NOT NULL, l ARRAY<INT> NOT NULL"
RULES = {"s": "must be a leaf", "l": "must be a leaf", "n": "must not be nullable"}


@pytest.mark.parametrize("column", RULES)
def test_a_column_that_cannot_be_in_a_key_is_refused_by_name(own: Lake, column: str, tmp_path: Path) -> None:
    own.sql(f"CREATE TABLE IF NOT EXISTS lance.ns.plain ({COLUMNS})")
    with pytest.raises(SPARK_ERRORS, match=f"column '{column}'.*{RULES[column]}"):
        own.sql(f"ALTER TABLE lance.ns.plain SET UNENFORCED PRIMARY KEY ({column})")
    marked = own.spark.table("lance.ns.plain").select(f.col(column).alias(column, metadata={KEY: "true"}))
    with pytest.raises(SPARK_ERRORS, match=f"column '{column}'.*{RULES[column]}"):
        marked.write.format("lance").mode("append").save(str(tmp_path / "t"))
    if column != "n":  # a key that is declared is not nullable
        properties = f"""TBLPROPERTIES ('lance_spark.primary_key' = '["{column}"]')"""
        with pytest.raises(SPARK_ERRORS, match=f"column '{column}'.*{RULES[column]}"):
            own.sql(f"CREATE TABLE lance.ns.refused ({COLUMNS}) {properties}")
    if column != "n" and SPARK_VERSION >= (4, 2):
        with pytest.raises(SPARK_ERRORS, match=f"column '{column}'.*{RULES[column]}"):
            own.sql(f"CREATE TABLE lance.ns.refused ({COLUMNS}, CONSTRAINT k PRIMARY KEY ({column}))")
    assert [row[1] for row in own.sql("SHOW TABLES IN lance.ns")].count("refused") == 0


def test_statements_keep_a_key_that_is_set(own: Lake, tmp_path: Path) -> None:
    own.sql("CREATE TABLE lance.ns.t (id BIGINT NOT NULL, v STRING)")
    own.sql("INSERT INTO lance.ns.t VALUES (1, 'a')")
    own.sql("ALTER TABLE lance.ns.t SET UNENFORCED PRIMARY KEY (id)")
    version = own.versions("ns.t")[-1]
    for statement in (
        "ALTER TABLE lance.ns.t DROP COLUMN id",
        "ALTER TABLE lance.ns.t ALTER COLUMN id DROP NOT NULL",
        "ALTER TABLE lance.ns.t REPLACE COLUMNS (v STRING)",
        "CREATE OR REPLACE TABLE lance.ns.t (v STRING)",
        "CREATE OR REPLACE TABLE lance.ns.t AS SELECT 1L AS other",
    ):
        with pytest.raises(SPARK_ERRORS, match="column 'id' is in the primary key"):
            own.sql(statement)
    with pytest.raises(SPARK_ERRORS, match="column 'id' is in the primary key"):
        own.spark.range(1).write.format("lance").mode("overwrite").save(own.location("ns.t"))
    assert own.versions("ns.t")[-1] == version
    own.sql("INSERT OVERWRITE lance.ns.t VALUES (2, 'b')")
    own.spark.range(3, 4).selectExpr("id", "'c' AS v").write.format("lance").mode("overwrite").option("overwriteSchema", "false").save(
        own.location("ns.t")
    )
    kept = own.spark.table("lance.ns.t")
    kept.write.format("lance").mode("overwrite").save(own.location("ns.t"))
    assert own.pylance("ns.t") == [{"id": 3, "v": "c"}]
    assert lance.dataset(own.location("ns.t")).schema.field("id").metadata[KEY.encode()] == b"true"
