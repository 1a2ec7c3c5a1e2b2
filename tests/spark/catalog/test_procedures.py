"""CALL lance.system.*: arguments by position and by name, tables by name and by path, and results as rows."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.actions.all import ACTIONS
from lance_spark.inspection.metadata_tables import METADATA_TABLES
from tests.spark.catalog.lakes import Lake
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION


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


def test_a_table_is_clustered_by_jobs_and_a_filter_reads_few_of_its_rows(own: Lake) -> None:
    rows = "SELECT /*+ REPARTITION(4) */ id, id * 7919 % 1009 AS x, rand(1) AS y FROM range(20000)"
    own.sql(f"CREATE TABLE lance.ns.points CLUSTER BY (x, y) AS {rows}")
    own.sql("CALL lance.system.create_index(table => 'ns.points', column => 'x', kind => 'ZONEMAP', rows_per_zone => 256)")
    [done] = own.sql("CALL lance.system.cluster(table => 'ns.points', target_rows_per_fragment => 5000)")
    assert done[1:] == (4, 4, 20000)
    assert own.sql("SELECT count(*), count(DISTINCT id) FROM lance.ns.points") == [(20000, 20000)]
    table = LanceTable.forName(own.spark, "lance.ns.points")
    text = str(table._dataset().scan(filter="x < 20").explain())
    left = int(text.split("rows left by the indexes: ")[1].split(" of ")[0])
    assert own.sql("SELECT count(*) FROM lance.ns.points WHERE x < 20")[0][0] < left < 5000
    own.sql("INSERT INTO lance.ns.points SELECT id, 5 AS x, 0.5D AS y FROM range(20000, 20100)")
    again = table.optimize().where("id >= 20000").executeZOrderBy()
    assert (again.fragments_added, again.rows) == (1, 100), "only the new rows"
    assert own.sql("SELECT count(*) FROM lance.ns.points WHERE x = 5 AND y = 0.5D") == [(100,)]
    own.sql("ALTER TABLE lance.ns.points CLUSTER BY (id)")
    assert own.sql("CALL lance.system.cluster(table => 'ns.points', columns => array('id'))")[0][3] == 20100
    own.sql("ALTER TABLE lance.ns.points CLUSTER BY NONE")
    with pytest.raises(SPARK_ERRORS, match="name the columns"):
        own.sql("CALL lance.system.cluster('ns.points')")
    for wrong, message in (("(nothing)", "nothing"), ("(s)", "not supported")):
        with pytest.raises(SPARK_ERRORS, match=message):
            own.sql(f"CREATE TABLE lance.ns.wrong (id INT, s ARRAY<INT>) CLUSTER BY {wrong}")


def test_tables_about_a_table_are_queried_like_tables(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ REPARTITION(2) */ id, id % 3 AS p FROM range(60)")
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id, 7 AS p FROM range(60, 80)")
    own.sql("DELETE FROM lance.ns.t WHERE id = 70")
    own.sql("CALL lance.system.create_tag('ns.t', 'two', 2)")
    assert own.sql("SELECT sum(rows), sum(deleted_rows) FROM lance.ns.t.fragments") == [(79, 1)]
    assert own.sql("SELECT sum(rows), sum(deleted_rows) FROM lance.ns.t.fragments VERSION AS OF 1") == [(60, 0)]
    assert own.sql("SELECT operation FROM lance.ns.t.history WHERE version > 1 ORDER BY version") == [("Append",), ("Delete",)]
    assert own.sql("SELECT name, version FROM lance.ns.t.tags") == [("two", 2)]
    assert own.sql("SELECT name, type, version FROM lance.ns.t.refs") == [("main", "BRANCH", 3), ("two", "TAG", 2)]
    files = "SELECT f.id, count(*) FROM lance.ns.t.fragments f JOIN lance.ns.t.files d ON d.fragment = f.id GROUP BY f.id ORDER BY f.id"
    assert own.sql(files) == [(0, 1), (1, 1), (2, 1)]
    assert own.sql("SELECT encodings[0] IS NOT NULL FROM lance.ns.t.columns WHERE path = 'id'") == [(True,)]
    assert "BatchScan lance.ns.t.columns" in str(own.sql("EXPLAIN SELECT path FROM lance.ns.t.columns"))
    table = LanceTable.forName(own.spark, "lance.ns.t")
    for name in METADATA_TABLES:
        mine = table._dataset().metadata_table(name)
        assert own.spark.table(f"lance.ns.t.{name}").toArrow().to_pylist() == mine.to_pylist(), name
        assert table.metadataTable(name).count() == mine.num_rows
    own.sql("CREATE NAMESPACE lance.ns.u")
    own.sql("CREATE TABLE lance.ns.u.files AS SELECT 1 AS mine")
    assert own.sql("SELECT * FROM lance.ns.u.files") == [(1,)], "a table of this name comes first"
    for wrong in ("lance.ns.t.filez", "lance.ns.nothing.files"):
        with pytest.raises(SPARK_ERRORS, match="TABLE_OR_VIEW_NOT_FOUND"):
            own.sql(f"SELECT * FROM {wrong}")
    with pytest.raises(SPARK_ERRORS):
        own.sql("INSERT INTO lance.ns.t.tags VALUES ('a', 'b', 1, 'c', 'd')")


def test_tables_about_a_table_and_its_branches_are_there_for_paths_too(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ COALESCE(1) */ id FROM range(60)")
    own.sql("ALTER TABLE lance.ns.t CREATE BRANCH b")
    own.sql("DELETE FROM lance.ns.t WHERE id < 10")
    path = own.location("ns.t")
    assert own.sql(f"SELECT sum(rows), sum(deleted_rows) FROM lance.`{path}`.fragments") == [(50, 10)]
    assert own.sql(f"SELECT count(*) FROM lance.`{path}`.history VERSION AS OF 1") == [(1,)]
    assert own.sql(f"SELECT count(*) FROM lance.`{path}`.branch_b") == [(60,)]
    for wrong in ("filez", "branch_c"):
        with pytest.raises(SPARK_ERRORS, match=r"NOT_FOUND|no branch 'c'"):
            own.sql(f"SELECT * FROM lance.`{path}`.{wrong}")


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


def test_procedures_say_what_they_do_and_what_there_is_to_do(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT /*+ COALESCE(1) */ id FROM range(3)")
    own.sql("INSERT INTO lance.ns.t SELECT /*+ COALESCE(1) */ id FROM range(3)")
    [report] = own.spark.sql("CALL lance.system.maintenance_report(table => 'ns.t', retain_versions => 1)").collect()
    assert (report.version, report.fragments, report.fragments_to_compact, report.old_versions) == (2, 2, 2, 1)
    if SPARK_VERSION >= (4, 1):
        described = str(own.sql("DESCRIBE PROCEDURE lance.system.maintenance_report"))
        assert "tell what a compaction, an optimization of indexes and a cleanup would do" in described


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
    lost = Dataset.open(own.location("ns.t")).snapshot.manifest.fragments[0].files[0]
    Path(own.location("ns.t"), "data", lost.path).unlink()
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
            PySparkException, match=r"ROUTINE_NOT_FOUND\].*system\.vacuum; there are compact, cluster, cleanup.* in lance\.system"
        ):
            own.sql("CALL lance.system.vacuum('t')")
        with pytest.raises(AnalysisException, match="REQUIRED_PARAMETER_NOT_FOUND"):
            own.sql("CALL lance.system.create_tag('t')")
    finally:
        own.sql("USE spark_catalog.default")
        own.sql("DROP TABLE spark_catalog.default.named")
    assert {row[-1] for row in own.sql("SHOW PROCEDURES IN lance.system")} == set(ACTIONS)


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


def test_vector_indexes_are_trained_and_built_by_tasks(own: Lake, tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(900, 8)).astype(np.float32)
    rows = pa.table({"id": range(900), "vec": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)})
    path = f"{tmp_path}/vectors"
    lance.write_dataset(rows, path, max_rows_per_file=300)
    given = "column => 'vec', kind => 'IVF_PQ', metric => 'cosine', num_partitions => 3, num_sub_vectors => 4"
    assert own.sql(f"CALL lance.system.create_index(table => '{path}', {given})") == [(2, "vec_idx", 3)]
    table = LanceTable.forPath(own.spark, path)
    assert table.createIndex("vec", "IVF_FLAT", name="flat", num_partitions=2) == 3
    assert {i["name"]: (i["type"], i["fragment_ids"]) for i in table.listIndices()} == {
        "vec_idx": ("IVF_PQ", {0, 1, 2}),
        "flat": ("IVF_FLAT", {0, 1, 2}),
    }
    found = lance.dataset(path).to_table(columns=["id"], nearest={"column": "vec", "q": vectors[5], "k": 1})
    assert found["id"].to_pylist() == [5]
    own.sql(f"CALL lance.system.optimize_indices(table => '{path}', retrain => true)")
    assert own.sql(f"CALL lance.system.verify('{path}')")[0][2]


def test_given_centroids_and_codewords_are_nested_arrays(own: Lake, tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    path = f"{tmp_path}/vectors"
    lance.write_dataset(pa.table({"vec": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)}), path)

    def made(**given: object) -> None:
        texts = "".join(f", {name} => {array(values)}" for name, values in given.items())
        own.sql(f"CALL lance.system.create_index('{path}', 'vec', 'IVF_PQ', num_sub_vectors => 2, num_bits => 4{texts})")

    def array(values: object) -> str:
        return f"array({', '.join(map(array, values))})" if isinstance(values, list) else f"double('{values}')"

    centroids = vectors[:3].tolist()
    for message, wrong in {
        "finite numbers of float": [[float("nan")] * 8],
        "vectors of 8 dimensions": [[1.0] * 7],
        "must be a matrix of numbers": [[1.0] * 8, [1.0]],
    }.items():
        with pytest.raises(SPARK_ERRORS, match=message):
            made(ivf_centroids=wrong)
    made(ivf_centroids=centroids, pq_codebook=vectors[:16].reshape(2, 16, 4).tolist())
    (told,) = lance.dataset(path).stats.index_stats("vec_idx")["indices"]
    assert told["centroids"] == centroids
    assert own.sql(f"CALL lance.system.verify('{path}')")[0][2]


def test_indexes_are_made_extended_listed_and_dropped(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, array(CAST(id % 3 AS STRING)) AS tags FROM range(50)")
    assert own.sql("CALL lance.system.create_index('ns.t', 'id', 'BTREE')")[0][:2] == (2, "id_idx")
    zones = "CALL lance.system.create_index(table => 'ns.t', column => 'id', kind => 'zonemap', name => 'z', rows_per_zone => 9)"
    assert own.sql(zones)[0][:2] == (3, "z")
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


def test_full_text_indexes_are_made_by_sql_and_by_tables(own: Lake) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id, concat('running word', id) AS text FROM range(50)")
    own.sql(
        "CALL lance.system.create_index(table => 'ns.t', column => 'text', kind => 'INVERTED', with_position => true, "
        "max_token_length => 20, custom_stop_words => array('word7'))"
    )
    (index,) = lance.dataset(own.location("ns.t")).stats.index_stats("text_idx")["indices"]
    assert (index["num_docs"], index["params"]["with_position"], index["params"]["max_token_length"]) == (50, True, 20)
    assert [len(found(own, word)) for word in ("runs word3", "word7")] == [50, 0]
    table = LanceTable.forName(own.spark, "lance.ns.t")
    table.createIndex("text", "FTS", name="text_idx", replace=True, stem=False)
    assert found(own, "runs word3") == [3]
    own.sql("INSERT INTO lance.ns.t VALUES (50, 'running late')")
    table.optimizeIndices()
    assert table.indexStatistics("text_idx")["num_unindexed_rows"] == 0
    assert found(own, "late") == [50]


def found(own: Lake, words: str) -> list[int]:
    """The ids of the rows of ns.t that pylance finds."""
    ids: list[int] = lance.dataset(own.location("ns.t")).to_table(full_text_query=words)["id"].to_pylist()
    return ids
