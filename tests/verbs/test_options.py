"""The matrix of verbs and builders of LanceTable against their options: each cell is honoured, or refused by the option's name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable, lance_udf
from lance_spark.errors import InvalidOptionError, TableAlreadyExistsError, UnsupportedFeatureError
from lance_spark.lance_table import TableBuilder
from lance_spark.operations import DatasetBasePath
from lance_spark.spark.options.known import KNOWN, main_name
from lance_spark.spark.options.others import UNBUILT
from lance_spark.table.compaction import optimize
from lance_spark.table.write.options import NOTED

ROWS = pa.table({"id": [1, 2, 3, 4], "v": [0.5, 1.5, 2.5, 3.5], "s": ["a", "b", "c", "d"]})


@pytest.fixture
def table(uri: str, spark: SparkSession) -> LanceTable:
    """Four fragments in version 2; version 3 has an index of `v`, and a column `id` without nulls."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.float64()), ("s", pa.string())])
    made = Dataset.write(uri, ROWS.cast(schema), max_rows_per_file=1).delete("id = 4")
    made.create_scalar_index("v", "BTREE")
    return LanceTable.forPath(spark, uri)


def changes(table: LanceTable) -> Any:
    """Rows that update row 1 and insert row 9, with a column that the table lacks."""
    return table._target.spark.createDataFrame([(1, 10.0, "x", 7), (9, 90.0, "y", 8)], "id long, v double, s string, extra int")


def merge(table: LanceTable, evolves: bool, **noted: Any) -> Any:
    source = changes(table) if evolves else changes(table).drop("extra")
    builder = table.alias("t").merge(source.alias("c"), "t.id = c.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    return (builder.withSchemaEvolution() if evolves else builder).execute(**noted)


def longer(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"longer": pa.array([f"{s}!" for s in batch["s"].to_pylist()], pa.string())})


NEW = pa.schema([("longer", pa.string())])


@lance_udf("double")
def twice(v: float) -> float:
    return 2 * v


VERBS: Mapping[str, Callable[..., Any]] = {
    "delete": lambda t, **n: t.delete("id = 2", **n),
    "update": lambda t, **n: t.update("id = 2", {"v": "v + 1"}, **n),
    "updateColumns": lambda t, **n: t.updateColumns(changes(t).select("id", "v"), "id", **n),
    "merge": lambda t, **n: merge(t, False, **n),
    "merge that evolves": lambda t, **n: merge(t, True, **n),
    "addColumns": lambda t, **n: t.addColumns({"w": "v * 2"}, **n),
    "addBases": lambda t, **n: t.addBases([DatasetBasePath(f"{t._target.uri}-more", "more")], **n),
    "addColumns of a DataFrame": lambda t, **n: t.addColumns(changes(t).select("id", "extra"), on="id", **n),
    "addColumns of a function": lambda t, **n: t.addColumns(longer, schema=NEW, columns=["s"], **n),
    "dropColumns": lambda t, **n: t.dropColumns(["s"], **n),
    "reorderColumns": lambda t, **n: t.reorderColumns(["s", "id", "v"], **n),
    "renameColumn": lambda t, **n: t.renameColumn("s", "z", **n),
    "alterColumn": lambda t, **n: t.alterColumn("id", type="int", **n),
    "alterColumn to nullable": lambda t, **n: t.alterColumn("id", nullable=True, **n),
    "setPrimaryKey": lambda t, **n: t.setPrimaryKey(["id"], **n),
    "restoreToVersion": lambda t, **n: t.restoreToVersion(1, **n),
    "restoreToTimestamp": lambda t, **n: t.restoreToTimestamp(datetime.now(UTC), **n),
    "executeCompaction": lambda t, **n: t.optimize().executeCompaction(**n),
    "executeZOrderBy": lambda t, **n: t.optimize().executeZOrderBy("id", full=True, **n),
    "createIndex": lambda t, **n: t.createIndex("s", "BITMAP", **n),
    "dropIndex": lambda t, **n: t.dropIndex("v_idx", **n),
    "optimizeIndices": lambda t, **n: t.optimizeIndices(**n),
    "initializeMemWal": lambda t, **n: t.initializeMemWal(**n),
}
WITHOUT_A_COMMIT = {"createBranch", "shallowClone", "deepClone", "vacuum"}
"""They change other tables, files or references, and no version."""
SEARCHES = {"nearestJoin", "nearDuplicateVectors", "nearDuplicates"}
"""They change nothing; their keywords are the parameters of a search, which is tested to refuse others."""
RESUMED = {"backfill"}
"""It commits several times and knows what is done, so it has no number."""
OF_OLD_TABLES = {"migrate"}
"""They change no table that is made today; tests/spark/test_migrate.py has them."""


def test_the_matrix_has_all_verbs() -> None:
    owners = {**dict(inspect.getmembers(LanceTable)), "merge": LanceTable.merge}
    take = {name for name, member in owners.items() if not name.startswith("_") and callable(member) and has_keywords(member)}
    tested = {name.partition(" ")[0] for name in VERBS} - {"merge", "executeCompaction", "executeZOrderBy"}
    assert take == tested | SEARCHES | RESUMED | OF_OLD_TABLES


def test_a_backfill_stores_a_message_with_its_results_and_refuses_a_number(table: LanceTable) -> None:
    for wrong, name in (({"txnAppId": "job", "txnVersion": 3}, "txnAppId"), ({"commit_mesage": "a typing error"}, "commit_mesage")):
        with pytest.raises((TypeError, InvalidOptionError), match=name):
            table.backfill("w", twice, **wrong)
    assert table.history(1)[0].version == 3
    table.backfill("w", twice, commit_message="why", properties={"ticket": "7"})
    assert (table.history(1)[0].message, table.history(1)[0].properties["ticket"]) == ("why", "7")


def has_keywords(member: Callable[..., Any]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(member).parameters.values())


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_stores_what_is_noted_and_is_done_once(table: LanceTable, verb: str) -> None:
    if verb == "optimizeIndices":
        Dataset.write(table._target.uri, table._dataset().scan().to_table(), "append")
    run, before = VERBS[verb], table.history(1)[0].version
    noted = {"commit_message": "why", "txnAppId": "job", "txnVersion": 3, "properties": {"ticket": "7"}}
    run(table, **noted)
    [entry, *_] = [e for e in table.history() if e.version > before and e.properties.get("txnAppId")]
    assert entry.message == "why"
    assert entry.properties.items() >= {"txnAppId": "job", "txnVersion": "3", "ticket": "7"}.items()
    done = table.history(1)[0].version
    run(table, **noted)
    assert table.history(1)[0].version == done
    lance.dataset(table._target.uri).validate()
    assert table.verify().ok


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_refuses_what_it_does_not_know(table: LanceTable, verb: str) -> None:
    before = table.history(1)[0].version
    with pytest.raises((TypeError, InvalidOptionError), match="commit_mesage"):
        VERBS[verb](table, commit_mesage="a typing error")
    with pytest.raises(InvalidOptionError, match="both txnAppId and txnVersion"):
        VERBS[verb](table, txnAppId="job")
    assert table.history(1)[0].version == before


def test_a_numbered_compaction_of_many_steps_commits_all_of_them(table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimize, "_STEP_TASKS", 1)
    uri = table._target.uri
    Dataset.write(uri, pa.concat_tables([ROWS] * 3).cast(table._dataset().schema), "append", max_rows_per_file=1)
    narrow = {"target_rows_per_fragment": 3}
    done = table.optimize().executeCompaction(**narrow, txnAppId="job", txnVersion=1)  # type: ignore[arg-type]
    assert len(table._dataset().snapshot.manifest.fragments) == 5
    assert (done.fragments_removed, done.fragments_added) == (15, 5)
    assert table.optimize().executeCompaction(txnAppId="job", txnVersion=1).fragments_removed == 0
    assert [e.properties.get("txnVersion") for e in table.history() if "txnVersion" in e.properties] == ["1"]


KINDS = {
    "create": LanceTable.create,
    "createIfNotExists": LanceTable.createIfNotExists,
    "replace": LanceTable.replace,
    "createOrReplace": LanceTable.createOrReplace,
}
VALUES = {
    **{"version": "1", "timestamp": "2026-01-31", "limit": "1", "max_partition_bytes": "9", "batch_size": "9", "fragments": "0"},
    **{"nanoseconds": "error", "blob_handling": "bytes", "max_rows_per_file": "9", "max_bytes_per_file": "9", "txnVersion": "3"},
    **{"data_storage_version": "2.1", "partitionOverwriteMode": "dynamic", "write_mode": "create", "branch": "dev", "columns": "id"},
}
SCHEMA = ("overwriteSchema", "mergeSchema")
FLAGS = ("with_row_id", "with_row_address", "use_scalar_index", "allow_other_stores", "verify_checksums", "stable_row_ids")
CASES = {name: VALUES.get(o.name, "true" if o.name in FLAGS or o.name in SCHEMA else "x") for o in KNOWN.values() for name in o.names}
CASES |= {"storage.region": "x", "namespace.root": "x", "v.arrow.fixed-size-list.size": "4", "id.lance.compression": "zstd"}
CASES |= dict.fromkeys(UNBUILT, "x") | {"verison": "1"}
HONOURED = {
    *("branch", "allow_other_stores", "verify_checksums", "storage.region", "v.arrow.fixed-size-list.size", "id.lance.compression"),
    *("data_storage_version", "file_format_version", "stable_row_ids", "enable_stable_row_ids"),
    *("commit_message", "userMetadata", "txnAppId", "txnVersion"),
}


def test_what_every_change_stores_is_honoured_by_builders() -> None:
    assert {*NOTED} <= HONOURED


def built(spark: SparkSession, kind: str, uri: str, option: str) -> TableBuilder:
    made = KINDS[kind](spark).location(uri).addColumn("id", "BIGINT").addColumn("v", "ARRAY<FLOAT>").option(option, CASES[option])
    if option in ("txnAppId", "txnVersion"):
        made = made.option("txnAppId", "job").option("txnVersion", 3)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_builder_refuses_options_that_do_not_apply_by_name(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    there = kind in ("replace", "createOrReplace")
    for option in sorted(CASES.keys() - HONOURED):
        uri = f"{tmp_path}/{option}"
        if there:
            Dataset.write(uri, ROWS)
        with pytest.raises(
            (InvalidOptionError, UnsupportedFeatureError), match=rf"(?i)'({option}|{main_name(option)})'|namespace requires"
        ):
            built(spark, kind, uri, option).execute()
        assert Dataset.open(uri).version == 1 if there else not Path(uri).exists(), option


@pytest.mark.parametrize("kind", KINDS)
def test_a_builder_honours_all_others(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    for option in sorted(HONOURED - {"branch"}):
        uri, creates = f"{tmp_path}/{option}", kind.startswith("create")
        if not creates:
            Dataset.write(uri, ROWS, enable_stable_row_ids="row_ids" in option)
        table = built(spark, kind, uri, option).execute()
        found, entry = table._dataset(), table.history(1)[0]
        assert found.version == (1 if creates else 2)
        assert found.schema.names == ["id", "v"]
        lance.dataset(uri).validate()
        meta = found.schema.field("id").metadata or {}
        assert (found.snapshot.manifest.data_format == "2.1") is (option in ("data_storage_version", "file_format_version"))
        assert found.snapshot.manifest.has_stable_row_ids is ("row_ids" in option)
        assert pa.types.is_fixed_size_list(found.schema.field("v").type) is option.startswith("v.")
        assert (meta.get(b"lance-encoding:compression") == b"zstd") is option.startswith("id.")
        assert (entry.message == "x") is (option in ("commit_message", "userMetadata"))
        assert (entry.properties.items() >= {"txnAppId": "job", "txnVersion": "3"}.items()) is option.startswith("txn")
        assert found.snapshot.verify_checksums
        assert found.snapshot.allow_other_stores is (option == "allow_other_stores")
        if option.startswith("txn") and kind != "create":
            assert built(spark, kind, uri, option).execute()._dataset().version == found.version


def test_checksums_are_not_verified_if_the_builder_says_so(spark: SparkSession, uri: str) -> None:
    table = LanceTable.create(spark).location(uri).addColumn("id", "BIGINT").option("verify_checksums", False).execute()
    assert not table._target.latest().verify_checksums


@pytest.mark.parametrize("kind", KINDS)
def test_a_builder_acts_on_the_branch_and_not_on_main(spark: SparkSession, uri: str, kind: str) -> None:
    with pytest.raises(Exception, match=r"branch|no Lance table"):
        built(spark, kind, uri, "branch").execute()
    assert not Path(uri).exists()
    Dataset.write(uri, ROWS).create_branch("dev")
    if kind == "create":
        with pytest.raises(TableAlreadyExistsError):
            built(spark, kind, uri, "branch").execute()
    else:
        table = built(spark, kind, uri, "branch").execute()
        columns = ["id", "v", "s"] if kind == "createIfNotExists" else ["id", "v"]
        assert table.toDF().columns == Dataset.open(uri, branch="dev").schema.names == columns
    assert (Dataset.open(uri).version, Dataset.open(uri).schema.names) == (1, ["id", "v", "s"])
    assert lance.dataset(uri).count_rows() == 4


def test_a_name_of_another_location_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    builder = LanceTable.create(spark).tableName("made_elsewhere").addColumn("id", "BIGINT")
    try:
        builder.location(f"{tmp_path}/a").option("storage.region", "x").execute()
        assert LanceTable.forName(spark, "made_elsewhere")._target.options == {"storage.secret.region": "x"}
        with pytest.raises(InvalidOptionError, match=r"made_elsewhere of the session catalog is at .*/a, not at .*/b"):
            replace(builder.location(f"{tmp_path}/b")).execute()
        assert not (tmp_path / "b").exists()
    finally:
        spark.sql("DROP TABLE IF EXISTS made_elsewhere")
