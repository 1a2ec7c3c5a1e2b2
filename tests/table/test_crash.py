"""A writer may be killed at any moment: its change is applied or not, others can continue, and its files can be removed."""

from __future__ import annotations

import shutil
import uuid
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import RefConflictError, TableNotFoundError
from lance_spark.storage.store import Store
from tests import programs
from tests.sample import FULL, TURNS, by_turns, others_slow
from tests.table.crash import CHANGES, NEW

OLD = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "s": ["x", None, "z"]})
Rows = list[tuple[object, ...]]
ON_S3_TOO = ("overwrite", "delete", "restore", "compact", "create_index", "cleanup")
LEAST_CALLS = {"create_tag": 5, "update_config": 8}
"""Fewer calls than these would mean that they are not counted."""


def made(uri: str, stable: bool = False) -> str:
    """Version 1: three rows; 2: six; 3: one of them deleted."""
    lance.write_dataset(OLD, uri, enable_stable_row_ids=stable)
    lance.write_dataset(OLD, uri, mode="append")
    lance.dataset(uri).delete("a = 3 AND s = 'z' AND _rowid < 5")
    return uri


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose rows have only addresses."""
    return made(str(tmp_path_factory.mktemp("crash") / "template"))


@pytest.fixture(scope="module")
def with_stable_row_ids(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same table with stable row ids."""
    return made(str(tmp_path_factory.mktemp("crash") / "stable"), stable=True)


def rows(table: pa.Table) -> Rows:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def state(uri: str) -> Rows:
    """The rows of the latest version and the column names, equal in both libraries; the files are intact."""
    dataset = Dataset.open(uri)
    report = dataset.verify(decode=False)
    assert report.ok, report
    ours, theirs = dataset.scan().to_table(), lance.dataset(uri).to_table()
    assert rows(ours) == rows(theirs)
    assert ours.schema.names == theirs.schema.names
    for version in dataset.versions():
        assert rows(dataset.checkout_version(version.version).scan().to_table()) == rows(
            lance.dataset(uri, version=version.version).to_table()
        )
    return [tuple(ours.schema.names), *rows(ours)]


def goes_on(uri: str) -> None:
    """Check that a new writer succeeds, and that a cleanup removes all unreferenced files."""
    dataset = Dataset.open(uri)
    before = dataset.count_rows()
    new = NEW.select([name for name in NEW.schema.names if name in dataset.schema.names])
    assert Dataset.write(uri, new, "append").count_rows() == before + 2 == lance.dataset(uri).count_rows()
    Dataset.open(uri).cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
    assert Dataset.open(uri).verify().orphans == ()
    assert lance.dataset(uri).count_rows() == before + 2
    assert not [name for name in Store(uri).names("_versions") if name.endswith(".tmp")]


def crashed(name: str, template: str, folder: Path | str, step: int = 1, first: int = 1) -> list[str]:
    """The tables that killed writers left, and finally the table of the writer that survived."""
    killed = int(programs.run("tests.table.crash", name, template, str(folder), str(step), str(first)))
    assert first + step * killed > LEAST_CALLS.get(name, 10)
    return [f"{folder}/{first + step * number}" for number in range(killed + 1)]


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        *by_turns(["append", "delete", "restore", "cleanup", "create_tag"]),
        *others_slow([(name, turn) for name in ("overwrite", "update_config", "add_columns", "drop_columns") for turn in range(TURNS)], []),
    ],
)
def test_a_killed_change_is_applied_or_not(name: str, turn: int, template: str, tmp_path: Path) -> None:
    before, tables = state(template), crashed(name, template, tmp_path, TURNS, turn + 1)
    after = state(tables[-1])
    found = []
    for uri in tables:
        found.append(after if (now := state(uri)) == after else now)
        assert found[-1] in (before, after), uri
        goes_on(uri)
    # Once it is done it stays done, however little is left to do.
    assert found == sorted(found, key=lambda s: s == after)
    assert found[0] == before


@pytest.fixture
def s3_folder(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder on S3. The environment tells all processes and both libraries how to reach it."""
    keys = {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "us-east-1", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**keys, "ENDPOINT": s3_server, "ENDPOINT_URL": s3_server, "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return f"s3://tables/{uuid.uuid4().hex}"


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        *others_slow([("append", turn) for turn in range(TURNS if FULL else 1)], []),
        *others_slow([(name, turn) for name in ("merge", *(ON_S3_TOO if FULL else ())) for turn in range(TURNS)], []),
    ],
)
def test_a_change_that_is_killed_between_two_requests_to_s3_is_applied_or_not(name: str, turn: int, template: str, s3_folder: str) -> None:
    tables = crashed(name, template, s3_folder, TURNS, turn + 1)
    before, after = state(template), state(tables[-1])
    found = [state(uri) for uri in tables]
    assert [one for one in found if one not in (before, after)] == []
    assert found == sorted(found, key=lambda s: s == after)
    assert found[0] == before
    for uri in tables if FULL else tables[::2]:
        goes_on(uri)


VERBS = (
    "update",
    "update_in_place",
    "merge",
    "merge_delete",
    "replace_all",
    "add_calculated_columns",
    "compact",
    "replace_where",
    "rename_column",
    "change_type",
    "require_values",
)


@pytest.mark.parametrize(
    ("name", "stable"),
    others_slow(
        [(name, stable) for i, name in enumerate(VERBS) for stable in (False, True) if FULL or stable == i % 2],
        [("merge", False), ("add_calculated_columns", True), ("replace_where", True)],
    ),
)
def test_a_killed_verb_is_applied_or_not_and_can_be_repeated(
    name: str, stable: bool, template: str, with_stable_row_ids: str, tmp_path: Path
) -> None:
    template = with_stable_row_ids if stable else template
    tables = crashed(name, template, tmp_path, 1 if FULL else 6)
    before, after = described(template), described(tables[-1])
    assert before != after
    found = [described(uri) for uri in tables]
    assert [one for one in found if one not in (before, after)] == []
    assert found == sorted(found, key=lambda one: one == after)
    assert found[0] == before
    for uri, one in zip(tables, found, strict=True):
        if one == before:
            CHANGES[name](uri)
            assert described(uri) == after
        goes_on(uri)


@pytest.fixture(scope="module")
def indexed(template: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table of `template` with two indexes, and two rows that they do not cover."""
    uri = str(tmp_path_factory.mktemp("crash") / "indexed")
    shutil.copytree(template, uri)
    Dataset.open(uri).create_scalar_index("a", "BTREE").create_scalar_index("s", "ZONEMAP")
    lance.write_dataset(OLD.slice(0, 2), uri, mode="append")
    return uri


def indexes_of(uri: str) -> list[object]:
    """The rows, and the indexes with what they find, in both libraries."""
    table = Dataset.open(uri)
    for condition in ("a = 2", "a IS NULL", "s = 'x'", "s IS NULL"):
        found = table.scan(filter=condition).to_table()
        assert rows(found) == rows(lance.dataset(uri).to_table(filter=condition))
        assert rows(found) == rows(table.scan(filter=condition, use_scalar_index=False).to_table())
    covered = sorted((i["name"], i["type"], len(i["fragment_ids"])) for i in table.list_indices())
    return [*state(uri), *covered, len(table.snapshot.manifest.fragments)]


CHANGES_OF_INDEXES = ["create_index", "compact_with_indexes", *(["drop_index", "optimize_indices"] if FULL else [])]


@pytest.mark.parametrize("name", others_slow(CHANGES_OF_INDEXES, ["create_index"]))
def test_a_killed_change_of_indexes_leaves_no_half_made_index_and_can_be_repeated(name: str, indexed: str, tmp_path: Path) -> None:
    tables = crashed(name, indexed, tmp_path, 1 if FULL else 9)
    before, after = indexes_of(indexed), indexes_of(tables[-1])
    assert before != after
    for uri in tables:
        if indexes_of(uri) != after:
            CHANGES[name](uri)
            assert indexes_of(uri) == after
        goes_on(uri)


def described(uri: str) -> list[object]:
    """The state of a table and what its rows do not show: how many each fragment has, and which columns may be null."""
    latest = lance.dataset(uri)
    latest.validate()
    fragments = [(fragment.count_rows(), fragment.physical_rows) for fragment in latest.get_fragments()]
    ids = Dataset.open(uri).scan(columns=[], with_row_id=True).to_table()["_rowid"].to_pylist()
    assert ids == latest.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    assert len(set(ids)) == len(ids)
    return [*state(uri), fragments, ids, [field.nullable for field in latest.schema]]


def table_at(uri: str) -> Rows | None:
    """The state of a table; None if it exists for neither library."""
    try:
        Dataset.open(uri)
    except TableNotFoundError:
        with pytest.raises(ValueError, match="not found"):
            lance.dataset(uri)
        return None
    return state(uri)


@pytest.mark.parametrize("name", others_slow(["create", "shallow_clone", "deep_clone"], ["create"]))
def test_a_killed_creation_leaves_no_table_and_can_be_repeated(name: str, template: str, tmp_path: Path) -> None:
    before, tables = state(template), crashed(name, template, tmp_path)
    made = table_at(f"{tables[-1]}/new")
    for uri in tables:
        assert state(uri) == before
        new = f"{uri}/new"
        if (now := table_at(new)) is None:
            CHANGES[name](uri)
            now = table_at(new)
        assert now == made
        goes_on(new)
        assert state(uri) == before


@pytest.mark.slow
def test_a_killed_creation_leaves_no_branch_and_can_be_repeated(template: str, tmp_path: Path) -> None:
    before = state(template)
    for uri in crashed("create_branch", template, tmp_path):
        dataset = Dataset.open(uri)
        assert sorted(dataset.branches.list()) == sorted(lance.dataset(uri).branches.list())
        if not dataset.branches.list():
            try:
                dataset.create_branch("dev", 2)
            except RefConflictError:
                dataset.branches.delete("dev")
                dataset.create_branch("dev", 2)
        branch = Dataset.open(uri, branch="dev")
        assert branch.count_rows() == lance.dataset(uri).checkout_version(("dev", None)).count_rows() == 6
        assert Dataset.write(branch.uri, NEW, "append").count_rows() == 8
        assert state(uri) == before
        goes_on(uri)


@pytest.mark.parametrize(
    ("name", "turn"),
    [*by_turns(["merge_branch"]), *others_slow([("fast_forward", turn) for turn in range(TURNS)], [])],
)
def test_a_killed_merge_of_a_branch_is_applied_or_not_and_can_be_repeated(name: str, turn: int, tmp_path: Path) -> None:
    template = made(str(tmp_path / "template"), stable=True)
    branch = Dataset.open(template).create_branch("dev")
    branch.update({"s": "'dev'"}, "a = 1").delete("a = 2").insert(NEW)
    before, tables = state(template), crashed(name, template, tmp_path, TURNS, turn + 1)
    after = state(tables[-1])
    for uri in tables:
        assert state(uri) in (before, after), uri
        CHANGES[name](uri)
        assert state(uri) == after
        CHANGES[name](uri)
        assert state(uri) == after
        goes_on(uri)
