"""What a statement declares about a table or a column: kept and obeyed through every door, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import LanceError
from tests.sample import by_turns
from tests.spark.catalog.lakes import Lake
from tests.spark.test_field_metadata import STRANGE
from tests.spark_session import SPARK_ERRORS

CONFIG = {
    "max_rows_per_file": "nonsense",
    "option.path": "/etc",
    "collation": "nonsense",
    "owner": "me",
    "provider": "parquet",
    "location": "/",
}


def test_metadata_of_strangers_changes_no_rows_through_any_door(own: Lake) -> None:
    uri = str(own.root / "theirs.lance")
    fields = [pa.field("c", pa.string(), metadata={**STRANGE, "comment": "a\x1bb"}), pa.field("k", pa.int64())]
    lance.write_dataset(pa.table([["a", "b"], [1, 2]], schema=pa.schema(fields)), uri)
    Dataset.open(uri).update_config(CONFIG)
    own.sql(f"CREATE OR REPLACE TEMPORARY VIEW theirs USING lance OPTIONS (path '{uri}')")
    own.sql(f"CREATE TABLE spark_catalog.default.theirs USING lance LOCATION '{uri}'")
    try:
        for door in ("theirs", "spark_catalog.default.theirs", "lance.theirs", f"lance.`{uri}`"):
            assert own.sql(f"SELECT * FROM {door}") == [("a", 1), ("b", 2)], door
        for df in (own.spark.read.format("lance").load(uri), LanceTable.forPath(own.spark, uri).toDF()):
            assert [tuple(row) for row in df.collect()] == [("a", 1), ("b", 2)]
        assert own.sql("DESCRIBE lance.theirs") == [("c", "string", "a\\u001bb"), ("k", "bigint", None)]
        [(statement,)] = own.sql("SHOW CREATE TABLE lance.theirs")
        assert "option.path" not in statement
        assert "parquet" not in statement
        own.sql("INSERT INTO lance.theirs VALUES (DEFAULT, 3)")
        own.sql("ALTER TABLE lance.theirs ADD COLUMN n STRING")
        assert lance.dataset(uri).to_table().to_pylist()[2] == {"c": None, "k": 3, "n": None}
        metadata = {k.decode(): v.decode() for k, v in lance.dataset(uri).schema.field("c").metadata.items()}
        assert metadata.items() >= STRANGE.items(), "the table keeps them"
    finally:
        own.sql("DROP TABLE spark_catalog.default.theirs")


def doors_of(own: Lake) -> dict[str, Callable[[str], object]]:
    """Ways to add one row with a text in the column c to lance.ns.t (id, c, v, s)."""
    uri = own.location("ns.t")

    def rows(text: str) -> Any:
        return own.spark.sql(f"SELECT 2 AS id, '{text}' AS c")

    return {
        "SQL catalog": lambda text: own.sql(f"INSERT INTO lance.ns.t (id, c) VALUES (2, '{text}')"),
        "table named by its path": lambda text: own.sql(f"INSERT INTO lance.`{uri}` (id, c) VALUES (2, '{text}')"),
        "path": lambda text: rows(text).write.format("lance").mode("append").save(uri),
        "Dataset": lambda text: Dataset.write(uri, pa.table({"id": pa.array([2], pa.int32()), "c": [text]}), mode="append"),
    }


def test_char_varchar_and_collations_are_obeyed_through_every_door(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (id INT, c CHAR(3), v VARCHAR(3), s STRING COLLATE UTF8_LCASE, a ARRAY<STRING COLLATE UTF8_LCASE>)")
    own.sql("INSERT INTO lance.ns.t VALUES (1, 'a', 'b', 'A', array('X'))")
    uri = own.location("ns.t")
    own.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{uri}')")
    condition = "c = 'a' AND s = 'a' AND a[0] = 'x'"
    for table in ("lance.ns.t", f"lance.`{uri}`", "v"):
        assert own.sql(f"SELECT c, v, s FROM {table} WHERE {condition}") == [("a  ", "b", "A")], table
    assert own.spark.read.format("lance").load(uri).where(condition).count() == 1
    assert own.pylance("ns.t")[0]["c"] == "a  "
    added = []
    for name, add in doors_of(own).items():
        with pytest.raises((*SPARK_ERRORS, LanceError), match=r"EXCEED_LIMIT_LENGTH|more than the 3 characters of CHAR\(3\)"):
            add("abcd")
        add("q")
        added.append("q  ")
        assert [row["c"] for row in own.pylance("ns.t") if row["id"] == 2] == added, name
    with pytest.raises(SPARK_ERRORS, match="EXCEED_LIMIT_LENGTH"):
        own.sql("UPDATE lance.ns.t SET v = 'long' WHERE id = 1")
    with pytest.raises(LanceError, match=r"column 'v': a value has more than the 3 characters of VARCHAR\(3\)"):
        LanceTable.forName(own.spark, "lance.ns.t").update("id = 1", {"v": "'long'"})
    assert LanceTable.forName(own.spark, "lance.ns.t").delete("s = 'a' AND c = 'a'").num_deleted_rows == 1
    own.sql("ALTER TABLE lance.ns.t ALTER COLUMN v TYPE VARCHAR(4)")
    own.sql("INSERT OVERWRITE lance.ns.t VALUES (1, 'a', 'long', 'A', NULL)")
    with pytest.raises(SPARK_ERRORS, match="EXCEED_LIMIT_LENGTH"):
        own.sql("INSERT INTO lance.ns.t VALUES (1, 'a', 'longer', 'A', NULL)")
    assert own.sql("SELECT c, v FROM lance.ns.t WHERE s = 'a'") == [("a  ", "long")]
    [(statement,)] = own.sql("SHOW CREATE TABLE lance.ns.t")
    assert all(text in statement for text in ("c CHAR(3)", "v VARCHAR(4)", "s STRING COLLATE UTF8_LCASE"))


SESSION, OWN = "spark_catalog.default.declared", "lance.ns.declared"
REFUSED = {
    "(a INT) ; PARTITIONED BY (a)": "no partitions",
    "(a INT) ; CLUSTERED BY (a) INTO 2 BUCKETS": "no partitions",
    "(a INT, b DOUBLE DEFAULT rand()) ;": "NON_DETERMINISTIC",
    "(a INT) ; OPTIONS (no_such_option 'x')": "no_such_option",
}
"""Clauses that both catalogs refuse. Spark 4.0 does not parse constraints."""
REFUSED_IN_SESSION = {
    "(a INT, b INT GENERATED ALWAYS AS (a + 1)) ;": "no GENERATED columns",
    "(a BIGINT GENERATED ALWAYS AS IDENTITY) ;": "no GENERATED columns",
}
"""Clauses that a table of the session catalog could not keep."""
REFUSED_HERE = {
    "(a INTERVAL YEAR) ;": "'a'.*number of months",
    "(a ARRAY<CHAR(3)>) ;": "'a'.*not possible here",
    "(a CHAR(3) COLLATE UTF8_LCASE) ;": "'a'.*cannot have a collation|PARSE_SYNTAX_ERROR",
    "(a STRING COLLATE de) ;": "'a' has the collation de",
    "(a DATE DEFAULT current_date() + 1) ;": "'a': the DEFAULT",
    "(a STRUCT<x: INT> DEFAULT named_struct('x', 1)) ;": "'a': the DEFAULT",
    "(a INT) ; OPTIONS (limit '1')": "'limit' applies only to reads",
}
"""Clauses that a table of the SQL catalog could not keep."""


def test_clauses_without_effect_are_refused_by_name(own: Lake) -> None:
    own.sql(f"DROP TABLE IF EXISTS {SESSION}")
    for table, clauses in ((OWN, REFUSED | REFUSED_HERE), (SESSION, REFUSED | REFUSED_IN_SESSION)):
        for clause, reason in clauses.items():
            with pytest.raises(SPARK_ERRORS, match=f"(?s){reason}"):
                own.sql(f"CREATE TABLE {table} {clause.replace(';', 'USING lance')}")
            assert not own.spark.catalog.tableExists(table), clause


def test_a_replaced_condition_replaces_its_rows_only(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t COMMENT 'kept' AS SELECT id, 'old' AS s FROM range(4)")
    new = own.spark.sql("SELECT 3L AS id, 'new' AS s")
    new.write.format("lance").mode("overwrite").option("replaceWhere", "id >= 2").saveAsTable("lance.ns.t")
    assert own.sql("SELECT * FROM lance.ns.t ORDER BY id") == [(0, "old"), (1, "old"), (3, "new")]
    new.writeTo("lance.ns.t").using("lance").option("replaceWhere", "id > 0").createOrReplace()
    assert own.sql("SELECT * FROM lance.ns.t ORDER BY id") == [(0, "old"), (3, "new")]
    with pytest.raises(SPARK_ERRORS, match="does not satisfy the condition of replaceWhere"):
        new.writeTo("lance.ns.t").option("replaceWhere", "id = 0").replace()
    with pytest.raises(SPARK_ERRORS, match=r"so its properties \(x\) cannot be set"):
        new.writeTo("lance.ns.t").tableProperty("x", "y").option("replaceWhere", "id = 3").replace()
    assert (own.versions("ns.t"), len(own.pylance("ns.t"))) == ([1, 2, 3], 2)
    assert ("Comment", "kept", "") in own.sql("DESCRIBE EXTENDED lance.ns.t")


def test_several_new_columns_are_one_version_or_none(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, named_struct('a', id) AS st FROM range(2)")
    own.sql("ALTER TABLE lance.ns.t ADD COLUMNS (x INT, y CHAR(3) DEFAULT 'q' COMMENT 'why', st.b INT, st.c STRING, z INT DEFAULT NULL)")
    assert own.versions("ns.t") == [1, 2]
    assert own.spark.table("lance.ns.t").columns == ["id", "st", "x", "y", "z"]
    assert own.pylance("ns.t")[1] == {"id": 1, "st": {"a": 1, "b": None, "c": None}, "x": None, "y": "q  ", "z": None}
    for columns in (
        "p INT, q INT NOT NULL",
        "p INT, q INTERVAL YEAR",
        "p INT DEFAULT 1, st.a INT",
        "p INT DEFAULT 1, q DATE DEFAULT now()",
    ):
        with pytest.raises(SPARK_ERRORS):
            own.sql(f"ALTER TABLE lance.ns.t ADD COLUMNS ({columns})")
    assert own.versions("ns.t") == [1, 2]
    own.sql("INSERT INTO lance.ns.t VALUES (5, NULL, 1, DEFAULT, DEFAULT)")
    assert own.pylance("ns.t")[2]["y"] == "q  "


def test_insert_overwrite_keeps_what_is_declared(own: Lake) -> None:
    columns = "id INT NOT NULL COMMENT 'key', n INT DEFAULT 1 + 2, v ARRAY<FLOAT>"
    own.sql(f"CREATE TABLE lance.ns.t ({columns}) TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')")
    own.sql("CALL lance.system.set_primary_key('ns.t', array('id'))")
    before = lance.dataset(own.location("ns.t")).schema
    own.sql("INSERT OVERWRITE lance.ns.t VALUES (1, DEFAULT, array(1, 2))")
    own.spark.sql("SELECT 2 AS id, 5 AS n, array(1.5F, 2F) AS v").write.mode("overwrite").insertInto("lance.ns.t")
    assert lance.dataset(own.location("ns.t")).schema.equals(before, check_metadata=True)
    own.sql("INSERT INTO lance.ns.t VALUES (3, DEFAULT, NULL)")
    assert own.pylance("ns.t") == [{"id": 2, "n": 5, "v": [1.5, 2.0]}, {"id": 3, "n": 3, "v": None}]


def test_defaults_that_are_no_constants_cannot_be_set(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t (a INT, at TIMESTAMP DEFAULT current_timestamp())")
    with pytest.raises(SPARK_ERRORS, match=r"SET DEFAULT 5 \+ 1: expected a literal"):
        own.sql("ALTER TABLE lance.ns.t ALTER COLUMN a SET DEFAULT 5 + 1")
    own.sql("INSERT INTO lance.ns.t VALUES (1, DEFAULT)")
    assert own.sql("SELECT at > TIMESTAMP '2026-01-01' FROM lance.ns.t") == [(True,)]


def test_tables_of_every_catalog_have_a_name(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    own.sql("CALL lance.system.create_branch('ns.t', 'side')")
    assert LanceTable.forName(own.spark, "lance.ns.t").delete("id = 1").num_deleted_rows == 1
    assert LanceTable.forName(own.spark, "lance.ns.t.branch_side").toDF().count() == 3
    own.sql("USE lance.ns")
    assert LanceTable.forName(own.spark, "t").toDF().count() == 2
    for name in ("lance.ns.nothing", "spark_catalog.default.nothing", "lance.nowhere.t"):
        with pytest.raises(Exception, match=r"no (lance )?table|nothing|nowhere"):
            LanceTable.forName(own.spark, name)


READS: dict[str, tuple[str, list[tuple[Any, ...]] | None]] = {
    "version": ("1", [(0, "a")]),
    "columns": ("s", [("a",), ("b",), ("c",)]),
    "filter": ("id = 1", [(1, "b")]),
    "limit": ("0", []),
    "fragments": ("0", [(0, "a")]),
    "batch_size": ("1", None),
    "max_partition_bytes": ("1", None),
    "use_scalar_index": ("false", None),
    "nanoseconds": ("truncate", None),
    "verify_checksums": ("false", None),
    "allow_other_stores": ("true", None),
    "blob_handling": ("none", None),
    "tag": ("first", [(0, "a")]),
    "no_such_option": ("1", []),
}
"""Options of reads, with the rows that they leave; None: all."""


@pytest.mark.parametrize("turn", by_turns([()], 3))
def test_an_option_of_reads_means_the_same_through_every_door_or_is_refused_by_name(own: Lake, turn: int) -> None:
    """A turn takes one or two of the four doors for each option."""
    own.sql("CREATE TABLE lance.ns.t AS SELECT 0L AS id, 'a' AS s")
    own.sql("CALL lance.system.create_tag('ns.t', 'first')")
    own.sql("INSERT INTO lance.ns.t VALUES (1, 'b'), (2, 'c')")
    uri = own.location("ns.t")
    own.sql(f"DROP TABLE IF EXISTS {SESSION}")
    own.sql(f"CREATE TABLE {SESSION} USING lance LOCATION '{uri}'")
    found: dict[tuple[str, str], Any] = {}
    doors = doors_of_reads(own.spark, uri)
    for option, door in [(option, door) for option in READS for door in doors][turn::3]:
        try:
            found[option, door] = sorted(tuple(row) for row in doors[door](option, READS[option][0]).collect())
        except SPARK_ERRORS as e:
            found[option, door] = "refused by name" if option in str(e) else str(e)
    own.sql(f"DROP TABLE {SESSION}")
    for (option, door), rows in found.items():
        expected = READS[option][1] if READS[option][1] is not None else [(0, "a"), (1, "b"), (2, "c")]
        may_be_refused = option == "no_such_option" or (option == "columns" and "catalog" in door)
        assert rows == ("refused by name" if may_be_refused else expected), (option, door)


def doors_of_reads(spark: SparkSession, uri: str) -> dict[str, Callable[[str, str], DataFrame]]:
    """Ways to read lance.ns.t at `uri` with an option."""

    def view(option: str, value: str) -> DataFrame:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW optioned USING lance OPTIONS (path '{uri}', `{option}` '{value}')")
        return spark.table("optioned")

    return {
        "path": lambda option, value: spark.read.format("lance").option(option, value).load(uri),
        "view": view,
        "session catalog": lambda option, value: spark.read.option(option, value).table(SESSION),
        "SQL catalog": lambda option, value: spark.read.option(option, value).table("lance.ns.t"),
    }
