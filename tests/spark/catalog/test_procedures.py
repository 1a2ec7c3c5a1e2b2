"""CALL lance.system.*: arguments by position and by name, tables by name and by path, and results as rows."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from lance_spark.spark.catalog.procedures import PROCEDURES
from tests.spark.catalog.lakes import Lake
from tests.spark_session import SPARK_ERRORS


def test_compaction_runs_as_a_spark_job_and_commits_one_version(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ REPARTITION(3) */ id, id % 2 AS p FROM range(60)")
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id, 7 AS p FROM range(60, 80)")
    own.sql("DELETE FROM lance.ns.t WHERE id % 5 = 0")
    tracker = own.spark.sparkContext.statusTracker()
    own.spark.sparkContext.setJobGroup("compaction", "")
    [row] = own.spark.sql("CALL lance.system.compact(table => 'ns.t', commit_message => 'nightly')").collect()
    own.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert tracker.getJobIdsForGroup("compaction")
    assert row.asDict() == {
        "version": 4, "fragments_removed": 4, "fragments_added": 1, "files_removed": 8, "files_added": 1, "conflicts": 0, "left_out": []
    }  # fmt: skip
    assert sorted(found["id"] for found in own.pylance("ns.t")) == [i for i in range(80) if i % 5]
    assert own.sql("CALL lance.system.compact('ns.t')")[0][:3] == (4, 0, 0)
    own.sql("INSERT INTO lance.ns.t VALUES (100, 100)")
    own.sql("INSERT INTO lance.ns.t VALUES (101, 101)")
    [chosen] = own.sql("CALL lance.system.compact(table => 'ns.t', where => 'p > 99', target_rows_per_fragment => 10)")
    assert chosen[1:3] == (2, 1)
    with pytest.raises(SPARK_ERRORS, match="target_rows_per_fragment"):
        own.sql("CALL lance.system.compact(table => 'ns.t', target_rows_per_fragment => 0)")


def test_a_compaction_is_limited_and_leaves_fragments_out(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ COALESCE(1) */ id FROM range(10)")
    for i in range(1, 8):
        own.sql(f"INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id + {10 * i} FROM range(10)")
    limits = "max_source_fragments => 4, max_source_rows => 1000, max_source_bytes => 1000000, excluded_fragment_ids => array(1, 99)"
    [done] = own.sql(f"CALL lance.system.compact(table => 'ns.t', target_rows_per_fragment => 20, {limits})")
    assert done[1:3] == (4, 2)
    assert [f.fragment_id for f in lance.dataset(own.location("ns.t")).get_fragments()][:4] == [0, 1, 6, 7]
    with pytest.raises(SPARK_ERRORS, match="max_source_rows must be at least 1"):
        own.sql("CALL lance.system.compact(table => 'ns.t', max_source_rows => 0)")
    with pytest.raises(SPARK_ERRORS, match="excluded_fragment_ids"):
        own.sql("CALL lance.system.compact(table => 'ns.t', excluded_fragment_ids => array(-1))")
    assert sorted(found["id"] for found in own.pylance("ns.t")) == [*range(80)]


def test_tags_and_branches_are_made_and_deleted_only_where_needed(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT 1 AS id")
    for ref in ("tag", "branch"):
        for version in (1, 1):
            made = f"(table => 'ns.t', name => 'x', version => '{version}', if_not_exists => true)"
            assert own.sql(f"CALL lance.system.create_{ref}{made}")[0][0] == "x"
        with pytest.raises(SPARK_ERRORS, match="exists"):
            own.sql(f"CALL lance.system.create_{ref}('ns.t', 'x')")
    [tag] = own.spark.sql("CALL lance.system.tags('ns.t')").collect()
    assert (tag.name, tag.version) == ("x", 1)
    assert tag.updated_at >= tag.created_at
    for ref in ("tag", "branch"):
        for _ in range(2):
            assert own.sql(f"CALL lance.system.delete_{ref}(table => 'ns.t', name => 'x', if_exists => true)") == [("x",)]
        with pytest.raises(SPARK_ERRORS, match="VersionNotFoundError"):
            own.sql(f"CALL lance.system.delete_{ref}('ns.t', 'x')")


def test_statistics_of_indexes_count_the_rows_that_they_do_not_cover(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ COALESCE(1) */ id, 'x' AS s FROM range(5)")
    own.sql("CALL lance.system.create_index('ns.t', 'id', 'BTREE', 'i')")
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id, 'y' AS s FROM range(3)")
    own.sql("CALL lance.system.create_index('ns.t', 's', 'BITMAP', 'b')")
    statistics = own.spark.sql("CALL lance.system.index_statistics('ns.t')")
    assert statistics.columns[3:] == ["num_indexed_fragments", "num_indexed_rows", "num_unindexed_fragments", "num_unindexed_rows"]
    assert [tuple(row) for row in statistics.collect()] == [("b", ["s"], "Bitmap", 2, 8, 0, 0), ("i", ["id"], "BTree", 1, 5, 1, 3)]
    own.sql("CALL lance.system.optimize_indices(table => 'ns.t', index_names => array('i'), num_indices_to_merge => 0)")
    assert own.sql("CALL lance.system.index_statistics('ns.t')")[1][3:] == (2, 8, 0, 0)


def test_history_restore_and_cleanup(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    own.spark.range(1).writeTo("lance.ns.t").option("commit_message", "one more").append()
    [(at,)] = own.sql("SELECT CAST(current_timestamp() AS STRING)")
    own.sql("DELETE FROM lance.ns.t WHERE id = 1")
    history = own.spark.sql("CALL lance.system.history('ns.t', 2)")
    assert history.columns == ["version", "timestamp", "operation", "message", "properties"]
    rows = history.collect()
    assert [(r.version, r.operation, r.message) for r in rows] == [(3, "Delete", None), (2, "Append", "one more")]
    assert rows[0].properties["command"] == "DELETE"
    assert rows[1].timestamp < rows[0].timestamp
    assert own.sql("CALL lance.system.restore('ns.t', 1)") == [(4,)]
    assert own.sql("SELECT count(*) FROM lance.ns.t") == [(3,)]
    assert own.sql(f"CALL lance.system.restore(table => 'ns.t', timestamp => TIMESTAMP'{at}', commit_message => 'back')") == [(5,)]
    assert own.sql("SELECT count(*) FROM lance.ns.t") == [(4,)]
    assert own.sql("CALL lance.system.history('ns.t', 1)")[0][3] == "back"
    with pytest.raises(SPARK_ERRORS, match="restore needs either version"):
        own.sql("CALL lance.system.restore('ns.t')")
    [dry] = own.sql("CALL lance.system.cleanup(table => 'ns.t', older_than => INTERVAL '0' SECOND, dry_run => true)")
    assert (dry[1], own.versions("ns.t")) == (4, [1, 2, 3, 4, 5])
    [done] = own.sql("CALL lance.system.cleanup(table => 'ns.t', retain_versions => 2)")
    assert (done[1], own.versions("ns.t")) == (3, [4, 5])
    [fine] = own.sql("CALL lance.system.verify('ns.t')")
    assert (fine[0], fine[2:]) == (5, (True, [], []))
    next((Path(own.location("ns.t")) / "data").iterdir()).unlink()
    [broken] = own.sql("CALL lance.system.verify(table => 'ns.t', decode => false)")
    assert (broken[2], len(broken[3])) == (False, 1)


def test_tags_branches_clones_and_keys(own: Lake, tmp_path: Path) -> None:
    own.sql("CREATE TABLE lance.ns.t (id BIGINT NOT NULL)")
    own.sql("INSERT INTO lance.ns.t VALUES (1)")
    assert own.sql("CALL lance.system.create_tag('ns.t', 'empty', 1)") == [("empty", 1)]
    assert own.sql("CALL lance.system.update_tag('ns.t', 'empty')") == [("empty", 2)]
    assert [row[:3] for row in own.sql("CALL lance.system.tags('ns.t')")] == [("empty", None, 2)]
    assert own.sql("CALL lance.system.create_branch(table => 'ns.t', name => 'b', version => 'empty')") == [("b", 2)]
    assert [row[:3] for row in own.sql("CALL lance.system.branches('ns.t')")] == [("b", None, 2)]
    own.sql("INSERT INTO lance.ns.t.branch_b VALUES (2)")
    assert own.sql("CALL lance.system.create_tag('ns.t.branch_b', 'on_b')") == [("on_b", 3)]
    assert own.sql("SELECT count(*) FROM lance.ns.t VERSION AS OF 'on_b'") == [(2,)]
    own.sql("CALL lance.system.delete_tag('ns.t', 'on_b')")
    own.sql("CALL lance.system.delete_branch('ns.t', 'b')")
    assert own.sql("CALL lance.system.branches('ns.t')") == []
    assert own.sql("CALL lance.system.set_primary_key('ns.t', array('id'))") == [(3,)]
    assert own.sql(f"CALL lance.system.shallow_clone('ns.t', '{tmp_path}/clone', 'empty')") == [(f"{tmp_path}/clone", 2)]
    assert own.sql(f"CALL lance.system.deep_clone('ns.t', '{tmp_path}/copy')")[0][0] == f"{tmp_path}/copy"
    assert lance.dataset(tmp_path / "copy").to_table() == pa.table({"id": [1]}, pa.schema([pa.field("id", pa.int64(), False)]))


def test_a_table_is_named_by_its_path_its_name_or_its_name_in_the_session_catalog(own: Lake, tmp_path: Path) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT 1 AS a")
    own.sql(f"CREATE TABLE spark_catalog.default.named USING lance LOCATION '{tmp_path}/named' AS SELECT 1 AS a")
    try:
        own.sql("USE lance.ns")
        for name in ("t", "ns.t", "lance.ns.t", "`lance`.`ns`.`t`", own.location("ns.t"), "spark_catalog.default.named"):
            assert own.sql(f"CALL lance.system.history('{name}')")[0][0] == 1, name
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            own.sql("CALL lance.system.history('nowhere')")
        with pytest.raises(
            PySparkException, match=r"ROUTINE_NOT_FOUND\].*system\.vacuum; there are create_index, .*cleanup.* in lance\.system"
        ):
            own.sql("CALL lance.system.vacuum('t')")
        with pytest.raises(AnalysisException, match="REQUIRED_PARAMETER_NOT_FOUND"):
            own.sql("CALL lance.system.create_tag('t')")
    finally:
        own.sql("USE spark_catalog.default")
        own.sql("DROP TABLE spark_catalog.default.named")
    assert {row[-1] for row in own.sql("SHOW PROCEDURES IN lance.system")} == set(PROCEDURES)


def test_a_model_is_built_incrementally_snapshotted_and_rebuilt(own: Lake) -> None:
    """The statements of dbt: a full build, increments by MERGE, a snapshot by time travel, and a full refresh."""
    own.sql("CREATE TABLE lance.ns.orders AS SELECT id, id * 10 AS amount, 1 AS day FROM range(4)")
    model = "SELECT id, amount, day FROM lance.ns.orders"
    own.sql(f"CREATE OR REPLACE TABLE lance.ns.model AS {model}")
    reader = own.spark.table("lance.ns.model")
    own.sql("UPDATE lance.ns.orders SET amount = 99, day = 2 WHERE id = 3")
    own.sql("INSERT INTO lance.ns.orders VALUES (4, 40, 2)")
    own.sql(f"CREATE OR REPLACE TEMPORARY VIEW model__dbt_tmp AS {model} WHERE day > (SELECT max(day) FROM lance.ns.model)")
    own.sql(
        "MERGE INTO lance.ns.model AS DBT_INTERNAL_DEST USING model__dbt_tmp AS DBT_INTERNAL_SOURCE "
        "ON DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert own.versions("ns.model") == [1, 2]
    assert own.sql("SELECT sum(amount) FROM lance.ns.model VERSION AS OF 1") == [(60,)]
    assert own.sql("SELECT sum(amount) FROM lance.ns.model") == [(169,)]
    changed = "SELECT * FROM lance.ns.model VERSION AS OF 2 EXCEPT SELECT * FROM lance.ns.model VERSION AS OF 1"
    assert own.spark.sql(changed).orderBy("id").select("id").collect() == [(3,), (4,)]
    own.sql(f"CREATE OR REPLACE TABLE lance.ns.model AS SELECT *, amount > 50 AS large FROM ({model})")
    assert reader.agg(F.sum("amount")).collect() == [(60,)]
    assert own.sql("SELECT id FROM lance.ns.model WHERE large") == [(3,)]
    assert [row["id"] for row in own.pylance("ns.model", version=3)] == [0, 1, 2, 3, 4]
    own.sql("ALTER TABLE lance.ns.model RENAME TO lance.ns.model__dbt_backup")
    own.sql("DROP TABLE IF EXISTS lance.ns.model__dbt_backup")
    own.sql("DROP VIEW model__dbt_tmp")
    assert own.sql("SHOW TABLES IN lance.ns LIKE '*'") == [("ns", "orders", False)]


def test_indexes_are_made_extended_listed_and_dropped(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, array(CAST(id % 3 AS STRING)) AS tags FROM range(50)")
    assert own.sql("CALL lance.system.create_index('ns.t', 'id', 'BTREE')") == [(2,)]
    assert own.sql(
        "CALL lance.system.create_index(table => 'ns.t', column => 'id', kind => 'zonemap', name => 'z', rows_per_zone => 9)"
    ) == [(3,)]
    own.sql("CALL lance.system.create_index('ns.t', 'tags', 'LABEL_LIST')")
    with pytest.raises(SPARK_ERRORS, match="already has an index"):
        own.sql("CALL lance.system.create_index('ns.t', 'id', 'BITMAP', 'id_idx')")
    own.sql("INSERT INTO lance.ns.t VALUES (50, array('0'))")
    assert own.sql("CALL lance.system.drop_index('ns.t', 'tags_idx')") == [(6,)]
    context = own.spark.sparkContext
    context.setJobGroup("optimizing", "optimize_indices")
    own.sql("CALL lance.system.optimize_indices(table => 'ns.t', index_names => array('id_idx'))")
    assert len(context.statusTracker().getJobIdsForGroup("optimizing")) >= 2  # a new segment; joining it with the others
    listed = own.sql("CALL lance.system.indexes('ns.t')")
    assert sorted((name, kind, len(fragments)) for name, kind, _, _, _, fragments in listed) == [
        ("id_idx", "BTree", 3),
        ("z", "ZoneMap", 2),
    ]
    assert own.sql("SELECT id FROM lance.ns.t WHERE id IN (3, 50) ORDER BY id") == [(3,), (50,)]
