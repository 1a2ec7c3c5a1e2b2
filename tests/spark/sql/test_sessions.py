"""Row-level commands in all kinds of sessions: new ones, those that have run queries, those derived from them, and those with the jar."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from tests.spark.processes import START, run

CHANGES = """
def change(spark):
    spark.conf.set("spark.sql.planChangeValidation", "true")
    spark.read.format("lance").load(sys.argv[1]).createOrReplaceTempView("v")
    spark.sql("DELETE FROM v WHERE id = 0")
    spark.sql("UPDATE v SET s = upper(s) WHERE id = 1 AND _rowid >= 0")
    spark.sql("MERGE INTO v USING (SELECT 2L AS id UNION ALL SELECT 9L) x ON v.id = x.id "
              "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s) VALUES (x.id, 'new')")
    print("rows", sorted(tuple(row) for row in spark.table("v").collect()))
    print("scanned", spark.sql(f"SELECT * FROM lance_scan('{sys.argv[1]}', 'id = 9')").count())
    spark.sql("INSERT INTO v VALUES (0, 'a'), (2, 'c')")
    spark.read.format("lance").load(sys.argv[1]).createOrReplaceTempView("v")
    spark.sql("DELETE FROM v WHERE id = 9")
    spark.sql("UPDATE v SET s = lower(s)")
"""


@pytest.fixture
def stored(uri: str) -> str:
    """A table of three rows."""
    Dataset.write(uri, pa.table({"id": [0, 1, 2], "s": ["a", "b", "c"]}))
    return uri


@pytest.mark.slow
def test_a_session_that_has_run_queries_and_sessions_derived_from_it(stored: str, tmp_path: Path) -> None:
    script = """
spark = builder.master("local[1]").config("spark.sql.warehouse.dir", sys.argv[2]).getOrCreate()
spark.sql("SELECT 1").collect()
lance_spark.enable(spark)
change(spark)
change(spark.newSession())
"""
    out = run(START + CHANGES + script, stored, f"{tmp_path}/warehouse")
    assert out.count("rows [(1, 'B'), (9, 'new')]") == 2
    assert out.count("scanned 1") == 2


@pytest.mark.slow
def test_the_jar_does_without_enable(stored: str, tmp_path: Path) -> None:
    jar = f"{tmp_path}/planner.jar"
    run("import runpy; runpy.run_module('lance_spark', run_name='__main__')", "jar", jar)
    script = """
builder = builder.config("spark.jars", sys.argv[2]).config("spark.sql.extensions", "lancespark.LancePlanner$Extensions")
spark = builder.master("local[1]").config("spark.sql.warehouse.dir", sys.argv[3]).getOrCreate()
print("versions", spark.sql(f"DESCRIBE HISTORY lance.`{sys.argv[1]}`").count())
change(spark)
print("compacted", spark.sql("OPTIMIZE v").count())
"""
    out = run(START + CHANGES + script, stored, jar, f"{tmp_path}/warehouse")
    assert "versions 1" in out
    assert "rows [(1, 'B'), (9, 'new')]" in out
    assert "compacted 1" in out
    assert "scanned 1" in out
