"""Each operation is the same at all doors: CALL, the command line, `Dataset` and `LanceTable` have its names, defaults and rows."""

from __future__ import annotations

import base64
import inspect
import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.actions import connector, delta, elsewhere, iceberg
from lance_spark.actions.action import Action, Door
from lance_spark.actions.all import ACTIONS, OWN
from lance_spark.cli import operations
from lance_spark.cli.main import main, program
from lance_spark.cli.operations import commands, words_of
from lance_spark.errors import RefConflictError
from lance_spark.operations import DatasetBasePath
from lance_spark.spark.catalog.source import CatalogSource
from lance_spark.spark.protocol import NUMBER, PROTOCOL
from lance_spark.table.versions.clones import is_hold
from lance_spark.table.versions.consumers import CONSUMER_TAG
from tests.pages import DOCS, PAGES, page

OWN_ACTIONS = [action for family in OWN for action in family.ACTIONS]
PYTHON_ONLY = {"self", "progress", "storage_options", "transaction_properties", "noted"}
"""Parameters of methods that no other door has: bars, and where a clone is made."""
NO_METHOD = {
    ("Dataset", "index_statistics"): "index_statistics(name) tells more, of one index",
    ("LanceTable", "index_statistics"): "indexStatistics(name) tells more, of one index",
    ("Dataset", "detail"): "str(dataset), and methods for each figure",
    ("LanceTable", "detail"): "detail() tells more",
    ("Dataset", "restore"): "checkout_version(version).restore()",
    ("Dataset", "set_primary_key"): "only Spark's writers look at the key",
    ("Dataset", "set_not_null"): "alter_columns({'path': .., 'nullable': False})",
    ("LanceTable", "set_not_null"): "alterColumn(column, nullable=False)",
    ("Dataset", "add_constraint"): "a statement of SQL",
    ("LanceTable", "add_constraint"): "a statement of SQL",
    ("Dataset", "drop_constraint"): "a statement of SQL",
    ("LanceTable", "drop_constraint"): "a statement of SQL",
}
"""Operations that a class has no method of its own for, and what it has instead."""
CLASSES: Mapping[Door, type] = {"Dataset": Dataset, "LanceTable": LanceTable}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with stable row ids, of two fragments, an index of the first one, a tag, and two branches, one with a deleted row."""
    path = tmp_path_factory.mktemp("actions") / "t.lance"
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("x", pa.int64())])
    made = Dataset.write(path, pa.table({"id": [1, 2, 3], "x": [3, 1, 2]}, schema), enable_stable_row_ids=True)
    made = made.create_scalar_index("id", "BTREE")
    made = made.insert(pa.table({"id": [4, 5], "x": [5, 4]}, schema))
    made.tags.create("first", 1)
    made.tags.create(f"{CONSUMER_TAG}stream", 2)
    made.create_branch("b")
    made.create_branch("changed").delete("id = 2")
    return path


@pytest.fixture
def copies(folder: Path, tmp_path: Path) -> Callable[[], Path]:
    """Makes copies of the table, each to be changed once."""
    numbers = itertools.count()

    def copied() -> Path:
        return shutil.copytree(folder, tmp_path / f"{next(numbers)}" / "t.lance")

    return copied


def call(path: Path, name: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of CALL, as LanceProcedure.java asks for them; tasks run in this process."""
    action = ACTIONS[name]
    request: dict[str, Any] = {"name": name, "place": {"id": [str(path)]}, "arguments": arguments, "results": []}
    while "version" in (answer := asked(request)):
        request["version"] = answer["version"]
        source = CatalogSource(requested("tasks", request))
        reader: Any = source.reader(source.schema())
        results = [batch for partition in reader.partitions() for batch in reader.read(partition)]
        request["results"].append([encoded(batch.column(0)[0].as_py()) for batch in results])
    return [dict(zip(action.columns, row)) for row in answer["rows"]]


def encoded(result: bytes) -> str:
    """A result as Java sends it."""
    return base64.b64encode(result).decode()


def requested(operation: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The options of a request."""
    request = {NUMBER: PROTOCOL, "id": "", "operation": operation, "settings": {}, "arguments": arguments}
    return {"request": json.dumps(request)}


def asked(arguments: Mapping[str, Any]) -> Any:
    """The answer to a request of the operation `call`."""
    answer = CatalogSource(requested("call", arguments)).schema()[0].metadata["answer"]
    return json.loads(answer)["value"]


def command(capsys: pytest.CaptureFixture[str], path: Path, name: str, *words: str) -> Any:
    """What a command prints as JSON."""
    action = ACTIONS[name]
    assert action.command is not None
    capsys.readouterr()
    yes = [] if action.command.question is None else ["--yes"]
    assert main([*words_of(action, action.command), str(path), *words, *yes, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def method(of: type, path: str) -> Callable[..., Any]:
    """A method of a class by its path, such as `tags.create`."""
    *builders, name = path.split(".")
    for builder in builders:
        found = getattr(of, builder)
        of = returned(found.fget if isinstance(found, property) else found)
    last: Callable[..., Any] = getattr(of, name)
    return last


def returned(getter: Any) -> type:
    """The class that a method or property returns."""
    getter = inspect.unwrap(getter)
    found: type = getter.__globals__[getter.__annotations__["return"].partition("[")[0]]
    return found


DOORS: list[tuple[Door, Action]] = [(door, action) for action in OWN_ACTIONS for door in CLASSES if (door, action.name) not in NO_METHOD]


@pytest.mark.parametrize(("door", "action"), DOORS, ids=lambda value: getattr(value, "name", value))
def test_methods_have_the_names_defaults_and_help_of_the_operation(door: Door, action: Action) -> None:
    assert action.methods.get(door), f"write a method of {door}, or say in NO_METHOD what there is instead"
    said = {p.name: p for p in action.at(door)}
    missing = set(said)
    for path in action.methods[door]:
        found = method(CLASSES[door], path)
        text = " ".join((inspect.getdoc(found) or "").split())
        assert text.lower().startswith(action.help.split(",")[0].lower()), f"{path}: {text[:80]}"
        parameters = inspect.signature(found).parameters
        kinds = {p.kind for p in parameters.values()}
        if inspect.Parameter.VAR_KEYWORD in kinds:
            # The parameters of a kind of index, and what is stored in the transaction.
            missing -= {name for name in missing if name not in parameters}
        for name, parameter in parameters.items():
            if name in PYTHON_ONLY or parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            assert name in said, f"{path} has {name}, which the operation {action.name} lacks at {door}"
            missing.discard(name)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL or said[name].is_required:
                continue
            default = None if parameter.default is inspect.Parameter.empty else parameter.default
            assert default == said[name].default, f"{path}({name})"
    assert not missing, f"{door} lacks {sorted(missing)} of {action.name}"


def test_every_difference_has_a_reason() -> None:
    for action in ACTIONS.values():
        assert all(said.why for p in action.parameters for said in p.says.values())
        names = [p.name for p in action.parameters]
        assert len({*names}) == len(names)
        needed = [p.is_required for p in action.parameters]
        assert needed == sorted(needed, reverse=True), "parameters that are needed come first"
    assert not {name for _, name in NO_METHOD} - {*ACTIONS}


def test_no_two_operations_have_one_name() -> None:
    families = (*OWN, connector, delta, iceberg, elsewhere)
    names = [action.name for family in families for action in family.ACTIONS]
    assert sorted(names) == sorted(ACTIONS)


IN_ICEBERG = {
    "rewrite_data_files": "strategy sort_order options where",
    "expire_snapshots": "older_than retain_last max_concurrent_deletes stream_results snapshot_ids clean_expired_metadata",
    "remove_orphan_files": "older_than location dry_run max_concurrent_deletes file_list_view equal_schemes equal_authorities "
    "prefix_mismatch_mode prefix_listing stream_results",
    "rollback_to_snapshot": "snapshot_id",
    "rollback_to_timestamp": "timestamp",
    "set_current_snapshot": "snapshot_id ref",
    "cherrypick_snapshot": "snapshot_id",
    "fast_forward": "branch to",
    "publish_changes": "wap_id",
    "ancestors_of": "snapshot_id",
    "rewrite_manifests": "use_caching spec_id sort_by",
    "rewrite_position_delete_files": "options where",
    "rewrite_table_path": "source_prefix target_prefix start_version end_version staging_location create_file_list",
    "create_changelog_view": "changelog_view options compute_updates identifier_columns net_changes",
    "migrate": "properties drop_backup backup_table_name parallelism ignore_missing_files",
    "add_files": "source_table partition_filter check_duplicate_files parallelism",
    "register_table": "metadata_file",
    "snapshot": "source_table location properties parallelism ignore_missing_files",
    "compute_table_stats": "snapshot_id columns",
    "compute_partition_stats": "snapshot_id",
}
"""The arguments of Iceberg's procedures after the table, by position."""


@pytest.mark.parametrize("name", IN_ICEBERG)
def test_procedures_of_iceberg_take_its_arguments_in_its_order(name: str) -> None:
    given = IN_ICEBERG[name].split()
    found = ACTIONS[name].at("CALL")
    assert [p.name for p in found][: len(given)] == given
    assert all(p.type != "int" for p in found), "the JVM reads whole numbers as bigint"


def test_every_operation_is_compared_at_its_doors() -> None:
    assert {action.name for action in OWN_ACTIONS} == {case.name for case in CASES}


@pytest.mark.parametrize("action", [a for of in commands().values() for a, _ in of], ids=lambda a: a.name)
def test_commands_have_the_names_and_defaults_of_the_operation(action: Action) -> None:
    assert action.command is not None
    said = {p.name: p.at("command") for p in action.parameters}
    needed = ["1" for p in said.values() if p is not None and p.is_required]
    words = [*words_of(action, action.command), "t.lance", *needed]
    given = operations.given(action, program("lance-spark").parse_args(words))
    optional = {name: p.default for name, p in said.items() if p is not None and not p.is_required}
    assert {name: given.get(name) for name in optional} == optional


VOLATILE = {"uuid", "timestamp", "created_at", "updated_at", "lastModified", "location", "path", "milliseconds"}


@dataclass(frozen=True)
class Case:
    """An operation with arguments of CALL, and the same asked by a command, by methods and by a statement on the table `t`."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    dataset: Callable[[Dataset], Any] | None = None
    table: Callable[[LanceTable], Any] | None = None
    statement: str = ""


BASES = '[{"path": "/tmp/away", "name": "away"}]'
CASES = [
    Case("compact", {}, (), lambda d: d.optimize.compact_files(), lambda t: t.optimize().executeCompaction(), "OPTIMIZE t"),
    Case(
        "compact",
        {"target_rows_per_fragment": 2, "commit_message": "m"},
        ("--target-rows", "2", "--commit-message", "m"),
        lambda d: d.optimize.compact_files(2),
        lambda t: t.optimize().executeCompaction(2, commit_message="m"),
    ),
    Case(
        "cluster",
        {"columns": ["x"]},
        ("--columns", "x"),
        lambda d: d.optimize.cluster("x"),
        lambda t: t.optimize().executeZOrderBy("x"),
        "OPTIMIZE t ZORDER BY (x)",
    ),
    Case(
        "cleanup",
        {"retain_versions": 1, "dry_run": True, "error_if_tagged_old_versions": False},
        ("--retain-versions", "1", "--dry-run"),
        lambda d: d.cleanup_old_versions(None, 1, dry_run=True, error_if_tagged_old_versions=False),
        lambda t: t.vacuum(None, 1, True, error_if_tagged_old_versions=False),
        "VACUUM t DRY RUN WITH (retain_versions = 1)",
    ),
    Case(
        "cleanup",
        {"before_version": 3, "error_if_tagged_old_versions": False},
        ("--before-version", "3"),
        lambda d: d.cleanup_old_versions(before_version=3, error_if_tagged_old_versions=False),
        lambda t: t.vacuum(before_version=3, error_if_tagged_old_versions=False),
        "VACUUM t WITH (before_version = 3)",
    ),
    Case(
        "create_index",
        {"column": "x", "kind": "ZONEMAP"},
        ("x", "ZONEMAP"),
        lambda d: d.create_scalar_index("x", "ZONEMAP"),
        lambda t: t.createIndex("x", "ZONEMAP"),
        "ALTER TABLE t CREATE INDEX x_idx USING zonemap (x)",
    ),
    Case(
        "create_index",
        {"column": "x", "kind": "BTREE", "train": False},
        ("x", "BTREE", "--no-train"),
        lambda d: d.create_scalar_index("x", "BTREE", train=False),
        lambda t: t.createIndex("x", "BTREE", train=False),
    ),
    Case(
        "drop_index",
        {"name": "id_idx"},
        ("id_idx",),
        lambda d: d.drop_index("id_idx"),
        lambda t: t.dropIndex("id_idx"),
        "ALTER TABLE t DROP INDEX id_idx",
    ),
    Case("optimize_indices", {}, (), lambda d: d.optimize.optimize_indices(), lambda t: t.optimizeIndices()),
    Case("indexes"),
    Case("index_statistics"),
    Case("tags", {}, (), lambda d: d.tags.list(), lambda t: t.tags.list()),
    Case(
        "create_tag",
        {"name": "n", "version": "1"},
        ("n", "--version", "1"),
        lambda d: d.tags.create("n", 1),
        lambda t: t.tags.create("n", 1),
        "ALTER TABLE t CREATE TAG n AS OF VERSION 1",
    ),
    Case(
        "update_tag",
        {"name": "first"},
        ("first",),
        lambda d: d.tags.update("first"),
        lambda t: t.tags.update("first"),
        "ALTER TABLE t REPLACE TAG first",
    ),
    Case("delete_tag", {"name": "first"}, ("first",), lambda d: d.tags.delete("first"), lambda t: t.tags.delete("first")),
    Case("branches"),
    Case(
        "create_branch",
        {"name": "n", "version": "first"},
        ("n", "--tag", "first"),
        lambda d: d.create_branch("n", "first"),
        lambda t: t.createBranch("n", "first"),
    ),
    Case(
        "delete_branch",
        {"name": "b"},
        ("b",),
        lambda d: d.branches.delete("b"),
        lambda t: t.branches.delete("b"),
        "ALTER TABLE t DROP BRANCH b",
    ),
    Case(
        "fast_forward",
        {"branch": "main", "to": "changed"},
        ("main", "changed"),
        lambda d: d.branches.fast_forward("main", "changed"),
        lambda t: t.branches.fast_forward("main", "changed"),
    ),
    Case(
        "merge_branch",
        {"branch": "changed", "on_conflict": "theirs"},
        ("changed", "--on-conflict", "theirs"),
        lambda d: d.branches.merge("changed", on_conflict="theirs"),
        lambda t: t.branches.merge("changed", on_conflict="theirs"),
    ),
    Case(
        "rebase_branch",
        {"branch": "b", "onto": "changed"},
        ("b", "--onto", "changed"),
        lambda d: d.branches.rebase("b", "changed"),
        lambda t: t.branches.rebase("b", "changed"),
    ),
    Case(
        "cherry_pick",
        {"version": 4, "branch": "changed"},
        ("4", "changed"),
        lambda d: d.branches.cherry_pick(4, "changed"),
        lambda t: t.branches.cherry_pick(4, "changed"),
    ),
    Case(
        "add_bases",
        {"new_bases": BASES},
        (BASES,),
        lambda d: d.add_bases([DatasetBasePath("/tmp/away", "away")]),
        lambda t: t.addBases([DatasetBasePath("/tmp/away", "away")]),
    ),
    Case("migrate", {}, (), lambda d: d.migrate(), lambda t: t.migrate()),
    Case("consumers", {}, (), lambda d: d.consumers.list(), lambda t: t.consumers.list()),
    Case(
        "restore",
        {"version": "first"},
        ("--tag", "first"),
        lambda d: d.checkout_version("first").restore(),
        lambda t: t.restoreToVersion("first"),
        "RESTORE t TO VERSION AS OF 'first'",
    ),
    Case("history", {"limit": 2}, ("--limit", "2"), lambda d: d.history(2), lambda t: t.history(2), "DESCRIBE HISTORY t LIMIT 2"),
    Case("detail", statement="DESCRIBE DETAIL t"),
    Case("verify", {"decode": False}, ("--no-decode",), lambda d: d.verify(False), lambda t: t.verify(False)),
    Case(
        "set_not_null",
        {"columns": ["x"]},
        ("x",),
        lambda d: d.alter_columns({"path": "x", "nullable": False}),
        lambda t: t.alterColumn("x", nullable=False),
        "ALTER TABLE t ALTER COLUMN x SET NOT NULL",
    ),
    Case(
        "add_constraint",
        {"name": "c", "condition": "id > 0"},
        ("c", "id > 0"),
        statement="ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)",
    ),
    Case(
        "drop_constraint",
        {"name": "c", "if_exists": True},
        ("c", "--if-exists"),
        statement="ALTER TABLE t DROP CONSTRAINT IF EXISTS c",
    ),
    Case(
        "set_primary_key",
        {"columns": ["id"]},
        ("id",),
        None,
        lambda t: t.setPrimaryKey(["id"]),
        "ALTER TABLE t SET UNENFORCED PRIMARY KEY (id)",
    ),
    Case(
        "shallow_clone",
        {"path": "{t}.clone", "version": "1"},
        ("{t}.clone", "--version", "1"),
        lambda d: d.shallow_clone(f"{d.uri}.clone", 1),
        lambda t: t.shallowClone(f"{t._target.uri}.clone", 1),
    ),
    Case(
        "deep_clone",
        {"path": "{t}.clone"},
        ("{t}.clone",),
        lambda d: d.deep_clone(f"{d.uri}.clone"),
        lambda t: t.deepClone(f"{t._target.uri}.clone"),
    ),
    Case(
        "drop_consumer",
        {"id": "stream"},
        ("stream",),
        lambda d: d.consumers.drop("stream"),
        lambda t: t.consumers.drop("stream"),
    ),
    Case(
        "initialize_mem_wal",
        {"unsharded": True},
        ("--unsharded",),
        lambda d: d.initialize_mem_wal(unsharded=True),
        lambda t: t.initializeMemWal(unsharded=True),
    ),
    Case("merge_mem_wal", {}, (), lambda d: d.merge_mem_wal(), lambda t: t.mergeMemWal()),
    Case(
        "maintenance_report",
        {"retain_versions": 1},
        ("--retain-versions", "1"),
        lambda d: d.maintenance_report(retain_versions=1),
        lambda t: t.maintenanceReport(retain_versions=1),
    ),
    Case(
        "maintain",
        {"retain_versions": 1},
        ("--retain-versions", "1"),
        lambda d: d.maintain(retain_versions=1),
        lambda t: t.maintain(retain_versions=1),
        "OPTIMIZE t AUTO WITH (retain_versions = 1)",
    ),
]


def state(path: Path) -> dict[str, Any]:
    """What an operation may change, without times and names of files."""
    now = Dataset.open(path)
    manifest = now.snapshot.manifest
    return {
        "version": now.version,
        "rows": sorted(now.scan().to_table()["id"].to_pylist()),
        "fragments": [f.physical_rows for f in manifest.fragments],
        "indexes": sorted((i["name"], i["type"], sorted(i["fragment_ids"])) for i in now.list_indices()),
        "tags": {tag.name: tag.version for tag in now.tags.list().values() if not is_hold(tag.name)},
        "held": sorted((tag.branch or "main", tag.version) for tag in now.tags.list().values() if is_hold(tag.name)),
        "clones": [clone.name for clone in path.parent.glob("*.clone")],
        "branches": sorted(now.branches.list()),
        "consumers": [consumer.id for consumer in now.consumers.list()],
        "versions": [v.version for v in now.versions()],
        "schema": now.schema,
        "config": sorted(key for key in manifest.config),
    }


def plain(action: Action, value: Any) -> list[dict[str, Any]] | None:
    """The rows of what a method returns, without what differs each time; None for tables and for nothing."""
    if isinstance(value, int):
        rows: Any = [{"version": value}]
    elif isinstance(value, Dataset | LanceTable):
        return None
    elif is_dataclass(value) or isinstance(value, list):
        rows = [dict(zip(action.columns, row)) for row in action.rows(value)]
    else:
        return None
    return stable(json.loads(json.dumps(rows, default=str)))


def stable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what differs each time."""
    return [{name: v for name, v in row.items() if name not in VOLATILE} for row in rows]


def at(path: Path, value: Any) -> Any:
    """An argument with the path of the table in the place of {t}."""
    return value.replace("{t}", str(path)) if isinstance(value, str) else value


def assert_rows(found: list[dict[str, Any]] | None, rows: list[dict[str, Any]]) -> None:
    """The rows that a method returned, if it returns rows, are those of CALL."""
    if found is not None:
        assert [{name: row[name] for name in of} for row, of in zip(rows, found, strict=True)] == found


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.name} {' '.join(c.words)}".strip())
def test_an_operation_does_the_same_at_all_doors(
    case: Case, copies: Callable[[], Path], capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    action, path = ACTIONS[case.name], copies()
    given = {key: at(path, value) for key, value in case.arguments.items()}
    rows = stable(call(path, case.name, given))
    expected = state(path)
    if action.command is not None:
        path = copies()
        told = command(capsys, path, case.name, *(at(path, word) for word in case.words))
        assert state(path) == expected, "command"
        if action.command.plain is None:
            assert stable(told) == rows, "command"
    path = copies()
    if case.dataset is not None:
        assert_rows(plain(action, case.dataset(Dataset.open(path))), rows)
        assert state(path) == expected, "Dataset"
    path = copies()
    if case.table is not None:
        assert_rows(plain(action, case.table(LanceTable.forPath(spark, str(path)))), rows)
        assert state(path) == expected, "LanceTable"
    if case.statement:
        path = copies()
        found = [row.asDict() for row in spark.sql(case.statement.replace(" t", f" lance.`{path}`", 1)).collect()]
        assert state(path) == expected, "statement"
        shared = action.columns.keys() & {name for row in found for name in row} - VOLATILE
        if shared:
            assert [{k: row[k] for k in shared} for row in found] == [{k: row[k] for k in shared} for row in rows]


def test_an_old_version_with_a_tag_is_an_error_where_nothing_is_said(copies: Callable[[], Path], spark: SparkSession) -> None:
    path = copies()
    for strict in (
        lambda: call(path, "cleanup", {"retain_versions": 1}),
        lambda: LanceTable.forPath(spark, str(path)).vacuum(None, 1),
    ):
        with pytest.raises(RefConflictError, match="the next release does by itself"):
            strict()
    with pytest.raises(RefConflictError, match=r"set error_if_tagged_old_versions=False$"):
        Dataset.open(path).cleanup_old_versions(None, 1)


def test_options_of_a_compaction_by_position_are_told_to_be_named(copies: Callable[[], Path]) -> None:
    compact: Any = Dataset.open(copies()).optimize.compact_files
    with pytest.warns(FutureWarning, match="write materialize_deletions=.."):
        compact(2, False)
    with pytest.raises(TypeError, match="is given twice"), pytest.warns(FutureWarning):
        compact(2, False, materialize_deletions=True)


def test_the_report_is_what_maintenance_does(copies: Callable[[], Path]) -> None:
    table = Dataset.open(copies())
    report = table.maintenance_report(retain_versions=1)
    assert (report.indexes_behind, report.unindexed_rows) == (1, 2)
    assert (report.fragments, report.fragments_to_compact) == (2, 0), "an index covers one of them"
    removed = table.cleanup_old_versions(None, 1, error_if_tagged_old_versions=False)
    told = (report.old_versions, report.files_to_remove, report.bytes_to_remove)
    assert told == (removed.old_versions, len(removed.files), removed.bytes_removed)
    table = table.optimize.optimize_indices()
    report = table.maintenance_report()
    assert (report.fragments_to_compact, report.unindexed_rows) == (2, 0)
    assert table.optimize.compact_files().maintenance_report().fragments_to_compact == 0


def test_a_report_of_a_clustered_table_is_that_of_its_clustering(copies: Callable[[], Path]) -> None:
    table = Dataset.open(copies()).optimize.cluster("x")
    assert table.maintenance_report().fragments_to_compact == 0
    table = table.insert(pa.table({"id": [6], "x": [6]}))
    report, before = table.maintenance_report(), {f.id for f in table.snapshot.manifest.fragments}
    after = table.optimize.compact_files()
    assert report.fragments_to_compact == len(before - {f.id for f in after.snapshot.manifest.fragments})


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_the_tables_of_the_operations(name: str) -> None:
    assert (DOCS / name).read_text() == page(name), "run `make pages`"
