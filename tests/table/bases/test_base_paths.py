"""Data of one table in several folders: base paths are registered and written to by both libraries, and every verb works on them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath as Theirs

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, InvalidOptionError, LanceError, UnsupportedFeatureError
from lance_spark.metadata.data_file_names import fresh_name, is_marked, job_of, mark_of
from lance_spark.metadata.fragment import Fragment
from lance_spark.operations import Append, BasePath, DatasetBasePath, UpdateBases

pytestmark = pytest.mark.spec("table.md", "Storage Layout")

ROWS = pa.table({"id": pa.array(range(12), pa.int64()), "v": [str(i % 5) for i in range(12)]})
MORE = pa.table({"id": pa.array(range(10, 16), pa.int64()), "v": ["new"] * 6})
PLAIN, ROOT = "plain", "root"
"""The names of a base path that is a folder of files, and of one that looks like the root of a table."""


def files_in(folder: Path) -> set[str]:
    """The data files in a folder, and in the folders below it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*.lance") if path.is_file()}


def base_ids(table: Dataset) -> list[int | None]:
    """The base path of each data file."""
    return [file.base_id for fragment in table.snapshot.manifest.fragments for file in fragment.files]


def rows_of(table: Any) -> pa.Table:
    """The rows of a table of either library in the order of their ids."""
    rows = table.to_table() if isinstance(table, lance.LanceDataset) else table.scan().to_table()
    return rows.sort_by("id")


@dataclass(frozen=True)
class Places:
    """The folders of a table and of its base paths."""

    folder: Path

    @property
    def uri(self) -> str:
        return str(self.folder / "t.lance")

    @property
    def plain(self) -> Path:
        return self.folder / PLAIN

    @property
    def root(self) -> Path:
        return self.folder / ROOT

    def ours(self, data: pa.Table = ROWS, mode: Any = "create", **options: Any) -> Dataset:
        """Our write; a new table gets both base paths."""
        if mode == "create":
            bases = [DatasetBasePath(str(self.plain), PLAIN), DatasetBasePath(str(self.root), ROOT, is_dataset_root=True)]
            options["initial_bases"] = bases
        return Dataset.write(self.uri, data, mode, **options)

    def theirs(self, data: pa.Table = ROWS, mode: str = "create", **options: Any) -> lance.LanceDataset:
        """The same write of pylance."""
        if mode == "create":
            options["initial_bases"] = [Theirs(str(self.plain), PLAIN), Theirs(str(self.root), ROOT, is_dataset_root=True)]
        return lance.write_dataset(data, self.uri, mode=mode, **options)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


TARGETS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "a name": {"target_bases": [PLAIN]},
    "two names": {"target_bases": [ROOT, PLAIN]},
    "all and the own folder": {"target_all_bases": True},
    "all without the own folder": {"target_all_bases": False},
}


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
@pytest.mark.parametrize("target", TARGETS)
def test_files_go_where_pylance_puts_them(tmp_path: Path, target: str, mode: str) -> None:
    ours, theirs = Places(tmp_path / "ours"), Places(tmp_path / "theirs")
    if mode != "create":
        ours.ours()
        theirs.theirs()
    table = ours.ours(ROWS, mode, max_rows_per_file=3, **TARGETS[target])
    theirs.theirs(ROWS, mode, max_rows_per_file=3, **TARGETS[target])
    there = Dataset.open(theirs.uri)
    assert base_ids(table) == base_ids(there)
    names = [(base.id, base.name, base.is_dataset_root) for base in table.snapshot.manifest.base_paths]
    assert sorted(names) == sorted((base.id, base.name, base.is_dataset_root) for base in there.snapshot.manifest.base_paths)
    assert (len(files_in(ours.plain)), len(files_in(ours.root / "data"))) == (len(files_in(theirs.plain)), len(files_in(theirs.root)))
    opened = lance.dataset(ours.uri)
    opened.validate()
    assert rows_of(opened) == rows_of(table)
    assert table.verify().ok


def test_a_target_is_named_by_its_path_or_is_the_own_folder(places: Places) -> None:
    table = places.ours(target_bases=[str(places.plain)])
    table = places.ours(MORE, "append", target_bases=[f"{places.root}/", ".", PLAIN], max_rows_per_file=2)
    assert base_ids(table) == [1, 2, None, 1]


Verb = Callable[[Dataset, Mapping[str, Any]], Dataset]


def merged(table: Dataset, target: Mapping[str, Any]) -> Dataset:
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return (builder.target_bases(target["target_bases"]) if target else builder).execute(MORE)


def grown(table: Dataset, mode: Any, target: Mapping[str, Any]) -> Dataset:
    return Dataset.write(table.uri, MORE, mode, max_rows_per_file=2, **target)


def indexed(table: Dataset, target: Mapping[str, Any]) -> Dataset:
    table = grown(table.create_scalar_index("id", "BTREE"), "append", target).optimize.optimize_indices()
    assert table.count_rows("id = 11") == 2
    return table


def looked_back(table: Dataset, target: Mapping[str, Any]) -> Dataset:
    version = table.version
    grown(table, "overwrite", target)
    return Dataset.open(table.uri, version=version).restore()


VERBS: Mapping[str, Verb] = {
    "append": lambda table, target: grown(table, "append", target),
    "overwrite": lambda table, target: grown(table, "overwrite", target),
    "delete": lambda table, target: table.delete("id % 3 = 1"),
    "delete whole files": lambda table, target: table.delete("id < 6"),
    "update": lambda table, target: table.update({"v": "upper(v)"}, "id % 4 = 0"),
    "update all": lambda table, target: table.update({"v": "'z'"}),
    "merge": merged,
    "add columns": lambda table, target: table.add_columns({"w": "id + 1"}),
    "drop columns": lambda table, target: table.drop_columns(["v"]),
    "change a type": lambda table, target: table.add_columns({"w": "id"}).alter_columns({"path": "w", "data_type": pa.int32()}),
    "compact": lambda table, target: table.delete("id = 5").optimize.compact_files(),
    "compact after a new column": lambda table, target: table.add_columns({"w": "id"}).optimize.compact_files(),
    "compact elsewhere": lambda table, target: table.optimize.compact_files(**target),
    "cluster": lambda table, target: table.optimize.cluster("v"),
    "index": indexed,
    "restore": looked_back,
    "cleanup": lambda table, target: cleaned(grown(table, "overwrite", target)),
    "add bases": lambda table, target: grown(added(table), "append", target),
}


def cleaned(table: Dataset) -> Dataset:
    table.cleanup_old_versions(timedelta(0))
    return table


def added(table: Dataset) -> Dataset:
    return table.add_bases([DatasetBasePath(f"{table.uri}-more", "more")])


@pytest.mark.matrix
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("writer", ["ours", "theirs"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("alone")
def test_a_verb_on_a_table_with_base_paths(tmp_path: Path, verb: str, writer: str, stable: bool) -> None:
    places = Places(tmp_path / "based")
    write = places.ours if writer == "ours" else places.theirs
    write(max_rows_per_file=2, target_all_bases=True, enable_stable_row_ids=stable)
    twin = Dataset.write(tmp_path / "twin.lance", ROWS, max_rows_per_file=2, enable_stable_row_ids=stable)
    changed = VERBS[verb](Dataset.open(places.uri), {"target_bases": [ROOT, PLAIN]})
    expected = VERBS[verb](twin, {})
    assert rows_of(changed) == rows_of(expected)
    assert changed.verify().ok
    # pylance reads it, and goes on.
    theirs = lance.dataset(places.uri)
    theirs.validate()
    assert rows_of(theirs) == rows_of(changed)
    lance.write_dataset(theirs.to_table().slice(0, 2), places.uri, mode="append", target_bases=[ROOT])
    theirs = lance.dataset(places.uri)
    theirs.delete("id % 2 = 0")
    theirs.optimize.compact_files()
    again = Dataset.open(places.uri)
    assert rows_of(again) == rows_of(theirs)
    assert again.verify().ok


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_changes_over_files_at_base_paths(places: Places, writer: str) -> None:
    write = places.ours if writer == "ours" else places.theirs
    write(max_rows_per_file=3, target_all_bases=False, enable_stable_row_ids=True)
    table = Dataset.open(places.uri).update({"v": "'x'"}, "id = 1").delete("id = 4")
    table = places.ours(MORE, "append", target_bases=[PLAIN])
    found = table.changes(1).to_table().select(["id", "_change_type"]).to_pylist()
    kinds = sorted((row["_change_type"], row["id"]) for row in found)
    inserted = [("insert", i) for i in MORE["id"].to_pylist()]
    assert kinds == [("delete", 4), *inserted, ("update_postimage", 1), ("update_preimage", 1)]
    assert table.take([0, 10])["id"].to_pylist() == [0, 1]


def test_large_blobs_are_beside_their_data_file(places: Places) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([1, 2]), [b"x" * 3_000_000, b"y" * 70_000]], schema=pa.schema([pa.field("id", pa.int64()), blob]))
    table = places.ours(rows, target_bases=[PLAIN], data_storage_version="2.2")
    assert list(places.plain.rglob("*.blob"))
    assert not (places.folder / "t.lance" / "data").exists()
    assert [len(file.read()) for file in lance.dataset(places.uri).take_blobs("b", indices=[0, 1])] == [3_000_000, 70_000]
    assert table.scan(columns=["b"]).to_table()["b"].to_pylist() == rows["b"].to_pylist()
    moved = table.optimize.compact_files(target_bases=["."])
    assert base_ids(moved) == [None]
    assert moved.scan(columns=["b"]).to_table()["b"].to_pylist() == rows["b"].to_pylist()


# --- compaction


def test_a_compaction_keeps_the_base_path_of_the_rows(places: Places) -> None:
    places.ours(max_rows_per_file=2, target_all_bases=True)
    before = base_of_rows(Dataset.open(places.uri))
    table = Dataset.open(places.uri).optimize.compact_files()
    assert sorted(base_ids(table), key=str) == [1, 2, None]
    assert base_of_rows(table) == before


def base_of_rows(table: Dataset) -> dict[int, int | None]:
    """The base path of each row."""
    bases = {fragment.id: fragment.files[0].base_id for fragment in table.snapshot.manifest.fragments}
    return {row["id"]: bases[row["_fragid"]] for row in table.scan(columns=["id", "_fragid"]).to_table().to_pylist()}


@pytest.mark.parametrize("target", [["."], [PLAIN], [ROOT, "."]])
def test_a_compaction_moves_what_is_elsewhere(places: Places, target: list[str]) -> None:
    places.ours(max_rows_per_file=2, target_all_bases=True)
    table = Dataset.open(places.uri).optimize.compact_files(target_rows_per_fragment=6, target_bases=target)
    ids = {".": None, PLAIN: 1, ROOT: 2}
    assert set(base_ids(table)) <= {ids[name] for name in target}
    assert rows_of(table) == ROWS
    assert table.optimize.compact_files(target_rows_per_fragment=6, target_bases=target).version == table.version


def test_a_compaction_does_not_need_base_paths_that_have_no_files(places: Places) -> None:
    places.ours(max_rows_per_file=2, target_bases=[PLAIN])
    lance.dataset(places.uri).add_bases([Theirs("not/absolute", "relative"), Theirs("s3://elsewhere/x", "away", is_dataset_root=True)])
    table = Dataset.open(places.uri).optimize.compact_files()
    assert (base_ids(table), rows_of(table)) == ([1], ROWS)
    assert table.verify().ok


# --- cleanup: a base path may be shared


@pytest.mark.usefixtures("alone")
def test_a_cleanup_removes_only_files_that_were_written_for_the_table(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    bases = [DatasetBasePath(str(shared), "shared")]
    ours, neighbour = (str(tmp_path / name) for name in ("ours.lance", "neighbour.lance"))
    Dataset.write(neighbour, ROWS, initial_bases=bases, target_bases=["shared"])
    (shared / "notes.lance").write_text("not a table's file")
    theirs = str(tmp_path / "theirs.lance")
    lance.write_dataset(ROWS, theirs, initial_bases=[Theirs(str(shared), "shared")], target_bases=["shared"])
    kept = files_in(shared)
    table = Dataset.write(ours, ROWS, initial_bases=bases, target_bases=["shared"])
    table = Dataset.write(ours, MORE, "overwrite")
    tried = table.cleanup_old_versions(timedelta(0), dry_run=True)
    assert len(files_in(shared)) == len(kept) + 1
    stats = table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert files_in(shared) == kept
    assert (stats.data_files_removed, stats.bytes_removed) == (tried.data_files_removed, tried.bytes_removed) == (1, tried.bytes_removed)
    assert all(Dataset.open(uri).verify().ok for uri in (ours, neighbour, theirs))


@pytest.mark.usefixtures("alone")
def test_a_cleanup_leaves_files_of_other_tables_that_a_table_refers_to(tmp_path: Path) -> None:
    places = Places(tmp_path)
    source = places.ours(target_bases=[PLAIN])
    file = source.snapshot.manifest.fragments[0].files[0]
    importer = Dataset.write(tmp_path / "importer.lance", ROWS.slice(0, 0), initial_bases=[DatasetBasePath(str(places.plain))])
    importer = Dataset.commit(importer.uri, Append((Fragment(0, (file,), 12),)), 1)
    assert rows_of(importer) == ROWS
    Dataset.write(importer.uri, MORE, "overwrite").cleanup_old_versions(timedelta(0))
    assert source.verify().ok


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kept", ["a branch", "the main branch", "a tag", "a clone"])
def test_a_cleanup_keeps_what_other_versions_name(places: Places, kept: str) -> None:
    table = places.ours(target_bases=[PLAIN])
    if kept == "a clone":
        other = table.shallow_clone(str(places.folder / "clone.lance"))
    elif kept == "a tag":
        table.tags.create("first", 1)
        other = table
    else:
        other = table.create_branch("b")
    if kept == "the main branch":
        # The branch drops the rows, and is cleaned up.
        changed = Dataset.write(other.uri, MORE, "overwrite")
        other = table
    else:
        changed = places.ours(MORE, "overwrite")
    changed.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert rows_of(other) == ROWS
    assert len(files_in(places.plain)) == 1


@pytest.mark.usefixtures("alone")
def test_a_clone_and_a_branch_write_to_base_paths_and_clean_up_their_own(places: Places) -> None:
    table = places.ours(target_bases=[PLAIN])
    clone = table.shallow_clone(str(places.folder / "clone.lance"))
    branch = table.create_branch("b")
    for other in (clone, branch):
        grown = Dataset.write(other.uri, MORE, "append", target_bases=[PLAIN])
        assert base_ids(grown)[-1] == 1
        assert rows_of(lance.dataset(other.uri) if other is clone else grown).num_rows == 18
        Dataset.write(other.uri, MORE, "overwrite").cleanup_old_versions(timedelta(0))
    assert len(files_in(places.plain)) == 1
    assert rows_of(table) == ROWS
    copied = Dataset.open(places.uri, allow_other_stores=True).deep_clone(str(places.folder / "copy.lance"))
    assert (rows_of(copied), copied.snapshot.manifest.base_paths) == (ROWS, ())


def test_a_deep_clone_does_not_copy_from_untrusted_base_paths(places: Places) -> None:
    table = places.ours(target_bases=[PLAIN])
    with pytest.raises(UnsupportedFeatureError, match="allow_other_stores"):
        table.deep_clone(str(places.folder / "copy.lance"))


def test_a_write_that_fails_leaves_nothing_at_base_paths(places: Places) -> None:
    places.ours()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        Dataset.write(places.uri, batches(), "append", target_bases=[PLAIN, ROOT], max_rows_per_file=5)
    assert not files_in(places.plain) | files_in(places.root)


def test_a_missing_file_is_said_to_be_at_its_base_path(places: Places) -> None:
    table = places.ours(target_bases=[PLAIN])
    [name] = files_in(places.plain)
    (places.plain / name).unlink()
    [problem] = table.verify().problems
    assert (problem.kind, str(places.plain) in problem.message) == ("missing", True)


# --- what is refused


@dataclass(frozen=True)
class Wrong:
    """A write to the table with base paths that is refused, and what the message says."""

    message: str
    options: Mapping[str, Any]
    mode: str = "append"


def base(path: str, name: str | None = None, base_id: int | None = None) -> DatasetBasePath:
    return DatasetBasePath(path, name, id=base_id)


WRONG = {
    "unknown target": Wrong("has no base path 'nope'; registered are: 'plain', 'root'", {"target_bases": ["nope"]}),
    "both": Wrong("not both", {"target_bases": [PLAIN], "target_all_bases": True}),
    "initial bases of a table": Wrong("register base paths of a table with add_bases", {"initial_bases": [base("/tmp/x", "x")]}),
    "overwrite with initial bases": Wrong("with add_bases", {"initial_bases": [base("/tmp/x", "x")]}, "overwrite"),
    "no name": Wrong("'.' is not a name of a base path", {"initial_bases": [{"path": "/tmp/x", "name": "."}]}),
    "no path": Wrong("of which path is required", {"initial_bases": [{"name": "x"}]}),
    "not a base path": Wrong("not str", {"initial_bases": ["/tmp/x"]}),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_targets_are_refused(places: Places, case: str) -> None:
    places.ours()
    with pytest.raises(InvalidOptionError, match=WRONG[case].message):
        Dataset.write(places.uri, MORE, WRONG[case].mode, **WRONG[case].options)  # type: ignore[arg-type]
    assert Dataset.open(places.uri).version == 1


WRONG_BASES: Mapping[str, Callable[[Places], Sequence[DatasetBasePath]]] = {
    "the same path": lambda p: [base(f"{p.plain}/", "other")],
    "the same name": lambda p: [base(str(p.folder / "other"), PLAIN)],
    "the same id": lambda p: [base(str(p.folder / "other"), "other", 1)],
    "twice": lambda p: [base(str(p.folder / "other"), "x"), base(str(p.folder / "other"), "y")],
    "the table itself": lambda p: [base(p.uri, "own")],
    "in the table": lambda p: [base(f"{p.uri}/data", "own")],
    "none": lambda p: [],
}


@pytest.mark.parametrize("case", WRONG_BASES)
def test_wrong_base_paths_are_not_registered(places: Places, case: str) -> None:
    table = places.ours()
    with pytest.raises(InvalidOptionError, match=r"conflicts with|folder of the table|at least one"):
        table.add_bases(WRONG_BASES[case](places))
    assert Dataset.open(places.uri).version == 1


def test_nothing_is_written_into_another_table(places: Places) -> None:
    other = Dataset.write(places.folder / "other.lance", ROWS)
    table = places.ours().add_bases([DatasetBasePath(other.uri, "other", is_dataset_root=True)])
    with pytest.raises(InvalidOptionError, match="the root of another table"):
        Dataset.write(table.uri, MORE, "append", target_bases=["other"])
    table = Dataset.write(table.uri, MORE, "append", target_all_bases=False, max_rows_per_file=1)
    assert set(base_ids(table)) == {None, 1, 2}


def test_two_writers_register_base_paths(places: Places) -> None:
    first = places.ours()
    added = first.add_bases([base(str(places.folder / "x"), "x")])
    assert [b.id for b in added.snapshot.manifest.base_paths] == [1, 2, 3]
    # A handle of an older version registers with the latest one, and an append that began before continues.
    later = first.add_bases([base(str(places.folder / "y"), "y")])
    assert [b.name for b in later.snapshot.manifest.base_paths] == [PLAIN, ROOT, "x", "y"]
    with pytest.raises((CommitConflictError, LanceError)):
        Dataset.commit(places.uri, UpdateBases((BasePath(3, str(places.folder / "z"), False, "z"),)), 1)
    lance.dataset(places.uri).add_bases([Theirs(str(places.folder / "w"), "w")])
    assert Dataset.open(places.uri).snapshot.manifest.base_paths[-1].name in (PLAIN, ROOT, "x", "y", "w")


def test_the_base_paths_of_an_existing_table_may_be_given_again(places: Places) -> None:
    places.ours()
    bases = [DatasetBasePath(str(places.plain), PLAIN)]
    table = Dataset.write(places.uri, MORE, "overwrite", initial_bases=bases, target_bases=[PLAIN])
    assert base_ids(table) == [1]


def test_marks_differ_between_tables() -> None:
    roots = [f"/tmp/{i}.lance" for i in range(100)]
    assert len({mark_of(root) for root in roots}) == len(roots)
    name = fresh_name("0123456789ab", mark_of(roots[0]))
    assert (job_of(name), is_marked(name, roots[0]), is_marked(name, roots[1])) == ("0123456789ab", True, False)
    assert not is_marked(fresh_name("0123456789ab"), roots[0])


# --- several buckets


def test_the_data_of_a_table_is_in_several_buckets(s3_server: str, tmp_path: Path) -> None:
    import boto3

    bucket = f"more-{uuid.uuid4().hex[:8]}"
    client = boto3.client("s3", "us-east-1", endpoint_url=s3_server, aws_access_key_id="a", aws_secret_access_key="b")
    client.create_bucket(Bucket=bucket)
    uri, away = f"s3://tables/{bucket}/t.lance", f"s3://{bucket}/files"
    shared = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1", "allow_http": "true"}
    # The base path has options of its own; without them, its server would be one that is not there.
    options = {**shared, "endpoint": s3_server, "base_1.endpoint": s3_server, "base_1.access_key_id": "other"}
    table = Dataset.write(
        uri,
        ROWS,
        storage_options=options,
        max_rows_per_file=4,
        initial_bases=[DatasetBasePath(away, "away")],
        target_bases=["away", "."],
        allow_other_stores=True,
    )
    assert base_ids(table) == [1, None, 1]
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 2
    assert rows_of(table) == ROWS
    theirs = lance.dataset(uri, storage_options=options)
    assert rows_of(theirs) == ROWS
    lance.write_dataset(MORE, uri, mode="append", target_bases=["away"], storage_options=options)
    with pytest.raises(UnsupportedFeatureError, match="allow_other_stores"):
        Dataset.open(uri, storage_options=options).scan().to_table()
    with pytest.raises(UnsupportedFeatureError, match="allow_other_stores"):
        Dataset.write(uri, MORE, "append", storage_options=options, target_bases=["away"])
    trusted = Dataset.open(uri, storage_options=options, allow_other_stores=True)
    assert trusted.count_rows() == 18
    compacted = trusted.optimize.compact_files(target_bases=["."])
    assert set(base_ids(compacted)) == {None}
    assert compacted.verify().ok
    unreachable = {**options, "base_1.endpoint": "http://127.0.0.1:1", "client_max_retries": "0", "base_1.connect_timeout": "1s"}
    with pytest.raises(LanceError):
        Dataset.open(uri, version=1, storage_options=unreachable, allow_other_stores=True).scan().to_table()
