"""A `LanceTable` and its compaction are one line in a shell and an overview in a notebook."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from lance_spark import LanceTable
from tests.markup import assert_harmless


def test_a_table_and_its_compaction_show_what_they_are(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for _ in range(2):
        spark.range(5).coalesce(1).write.format("lance").mode("append").save(uri)
    table = LanceTable.forPath(spark, uri)
    assert repr(table) == f"LanceTable({uri!r})"
    assert repr(table.createBranch("dev").alias("t")) == f"LanceTable({uri!r}, branch='dev', alias='t')"
    assert str(table).splitlines()[1] == "10 rows, 2 fragments, storage version 2.2"
    assert "10 rows, 2 fragments" in assert_harmless(table._repr_html_()).text
    assert repr(table.optimize().where("id > 3")) == f"Optimizer({uri!r}, where='id > 3')"
    assert "to rewrite2" in assert_harmless(table.optimize()._repr_html_()).text
    assert "num deleted" not in (text := assert_harmless(table.delete("id = 0")._repr_html_()).text)
    assert "deleted rows2" in text
