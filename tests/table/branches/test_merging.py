"""What users do with branches: compare, merge, pick, rebase and publish them."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import Dataset
from lance_spark.errors import (
    AmbiguousMergeError,
    BranchMergeConflictError,
    InvalidOptionError,
    LanceError,
    RefConflictError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_spark.table.branches.three_way import Choice

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("v", pa.string())])


def rows(**values: str) -> pa.Table:
    """Rows by their ids: `rows(_1="a")`."""
    return pa.table([[int(name[1:]) for name in values], list(values.values())], schema=SCHEMA)


def content(table: Dataset) -> dict[int, object]:
    found = Dataset.open(table.snapshot.root.uri, branch=table.snapshot.manifest.branch).to_table().to_pylist()
    return {row.pop("id"): next(iter(row.values())) if len(row) == 1 else row for row in found}


@pytest.fixture
def main(tmp_path: Path) -> Dataset:
    """A table with five rows and the branch dev."""
    table = Dataset.write(str(tmp_path / "t.lance"), rows(_1="a", _2="b", _3="c", _4="d", _5="e"))
    table.create_branch("dev")
    return table


@pytest.fixture
def dev(main: Dataset) -> Dataset:
    return Dataset.open(main.uri, branch="dev")


def test_what_differs_is_a_feed_of_changes(main: Dataset, dev: Dataset) -> None:
    dev.update({"v": "'x'"}, "id = 2").delete("id = 3").insert(rows(_9="new"))
    found = main.branches.diff("main", "dev")
    assert sorted((row["id"], row["v"], row["_change_type"]) for row in found.to_table().to_pylist()) == [
        (2, "b", "update_preimage"),
        (2, "x", "update_postimage"),
        (3, "c", "delete"),
        (9, "new", "insert"),
    ]
    summary = found.summary()
    assert (summary.num_inserted_rows, summary.num_updated_rows, summary.num_deleted_rows) == (1, 1, 1)
    back = main.branches.diff("dev", "main")
    assert {row["id"]: row["_change_type"] for row in back.to_table().to_pylist()}[9] == "delete"


def test_what_a_compaction_moved_does_not_differ(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f")).optimize.compact_files()
    assert [row["id"] for row in main.branches.diff("main", "dev").to_table().to_pylist()] == [6]


def test_shared_fragments_are_not_read(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f"))
    for path in (Path(main.uri) / "data").iterdir():
        path.unlink()
    assert main.branches.diff("main", "dev").summary().num_inserted_rows == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        ("update({'v': \"'o'\"}, 'id = 1')", "update({'v': \"'t'\"}, 'id = 1')", "updated in both"),
        ("delete('id = 1')", "update({'v': \"'t'\"}, 'id = 1')", "updated in theirs, deleted in ours"),
        ("update({'v': \"'o'\"}, 'id = 1')", "delete('id = 1')", "deleted in theirs, updated in ours"),
        ("insert(rows(_7='o'))", "insert(rows(_7='t'))", "inserted in both"),
    ],
)
def test_rows_changed_on_both_sides_are_conflicts(main: Dataset, dev: Dataset, ours: str, theirs: str, kind: str) -> None:
    main = eval(f"main.{ours}")
    eval(f"dev.{theirs}")
    before = content(main)
    with pytest.raises(BranchMergeConflictError, match=kind) as e:
        main.branches.merge("dev")
    [conflict] = e.value.conflicts.to_pylist()
    assert conflict["kind"] == kind
    assert (conflict["base"] is None) == (kind == "inserted in both")
    assert content(main) == before
    main.branches.merge("dev", on_conflict="ours")
    assert content(main) == before
    # What was settled once is not asked again.
    main.branches.merge("dev")


@pytest.mark.parametrize("choice", ["ours", "theirs"])
def test_a_function_settles_conflicts(main: Dataset, dev: Dataset, choice: Choice) -> None:
    main = main.update({"v": "'o'"}, "id < 3")
    dev.update({"v": "'t'"}, "id < 3")

    def choose(found: pa.Table) -> list[Choice]:
        return [choice if row["ours"]["id"] == 1 else "ours" for row in found.to_pylist()]

    main.branches.merge("dev", on_conflict=choose)
    assert content(main) == {1: choice[0], 2: "o", 3: "c", 4: "d", 5: "e"}


def test_the_same_change_on_both_sides_is_no_conflict(main: Dataset, dev: Dataset) -> None:
    for table in (main, dev):
        table.update({"v": "'same'"}, "id = 1").delete("id = 2").insert(rows(_8="same"))
    done = main.branches.merge("dev")
    assert (done.num_inserted_rows, done.num_updated_rows, done.num_deleted_rows) == (0, 0, 0)


@pytest.mark.parametrize("answer", [["ours"], ["mine", "ours"], "nonsense"])
def test_other_answers_are_errors(main: Dataset, dev: Dataset, answer: Any) -> None:
    main = main.update({"v": "'o'"}, "id < 3")
    dev.update({"v": "'t'"}, "id < 3")
    on_conflict: Any = answer if isinstance(answer, str) else lambda found: answer
    with pytest.raises(InvalidOptionError, match="on_conflict"):
        main.branches.merge("dev", on_conflict=on_conflict)


def test_new_columns_come_with_their_values(main: Dataset, dev: Dataset) -> None:
    dev.add_columns({"n": "id * 10"}).update({"v": "'x'"}, "id = 2")
    main.update({"v": "'o'"}, "id = 1").insert(rows(_6="f"))
    main.branches.merge("dev")
    assert content(main) == {
        1: {"v": "o", "n": 10},
        2: {"v": "x", "n": 20},
        3: {"v": "c", "n": 30},
        4: {"v": "d", "n": 40},
        5: {"v": "e", "n": 50},
        6: {"v": "f", "n": None},
    }
    lance.dataset(main.uri).validate()
    assert main.branches.merge("dev").num_updated_rows == 0


def test_new_columns_of_ours_stay(main: Dataset, dev: Dataset) -> None:
    main.add_columns({"n": "id * 10"})
    dev.update({"v": "'x'"}, "id = 2").insert(rows(_6="f"))
    main.branches.merge("dev")
    found = content(main)
    assert (found[2], found[6]) == ({"v": "x", "n": 20}, {"v": "f", "n": None})


@pytest.mark.parametrize(
    "change",
    [
        "drop_columns(['v'])",
        "alter_columns({'path': 'v', 'name': 'w'})",
        "alter_columns({'path': 'v', 'data_type': pa.large_string()})",
    ],
)
def test_other_changes_of_columns_are_refused_until_ours_has_them(main: Dataset, dev: Dataset, change: str) -> None:
    eval(f"dev.{change}").insert(eval("pa.table({'id': [7]}, schema=dev.schema.remove(1))"))
    with pytest.raises(SchemaMismatchError, match="make the same change in 'main' first"):
        main.branches.merge("dev")
    eval(f"main.{change}")
    main.branches.merge("dev")
    assert 7 in {row["id"] for row in Dataset.open(main.uri).to_table().to_pylist()}


def test_one_version_is_picked(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f")).update({"v": "'x'"}, "id = 2").delete("id = 3")
    done = main.branches.cherry_pick(3, "dev")
    assert (done.num_inserted_rows, done.num_updated_rows, done.num_deleted_rows) == (0, 1, 0)
    assert content(main) == {1: "a", 2: "x", 3: "c", 4: "d", 5: "e"}
    main.branches.merge("dev")
    assert content(main) == {1: "a", 2: "x", 4: "d", 5: "e", 6: "f"}


def test_write_audit_publish(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f")).create_scalar_index("id", "BTREE")
    files = {path.name for path in (Path(main.uri) / "data").iterdir()}
    assert main.branches.fast_forward("main", "dev").updated_ref == 2
    assert {path.name for path in (Path(main.uri) / "data").iterdir()} == files
    published = Dataset.open(main.uri)
    assert content(published)[6] == "f"
    assert [index["name"] for index in published.list_indices()] == ["id_idx"]
    assert published.verify().ok
    assert published.to_table(filter="id = 6").num_rows == 1
    theirs = lance.dataset(main.uri)
    theirs.validate()
    assert theirs.to_table(filter="id = 6").to_pylist() == [{"id": 6, "v": "f"}]
    # Both are the same now, and either may go on.
    assert published.branches.fast_forward("main", "dev").updated_ref == 2
    assert published.branches.merge("dev").version == 2


def test_a_branch_that_main_reads_cannot_be_removed(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f"))
    main.branches.fast_forward("main", "dev")
    with pytest.raises(RefConflictError, match="dev is still used"):
        main.branches.delete("dev")
    with pytest.raises(OSError, match=r"(?i)branch"):
        lance.dataset(main.uri).branches.delete("dev")
    later = Dataset.open(main.uri, branch="dev").delete("id = 6")
    later.cleanup_old_versions(timedelta(0), delete_unverified=True)
    lance.dataset(later.uri).cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
    assert content(Dataset.open(main.uri))[6] == "f"


def test_a_branch_whose_files_are_copied_can_be_removed(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f")).delete("id IN (1, 6)").create_scalar_index("id", "BTREE")
    dev.insert(rows(_8="h"))
    main.branches.fast_forward("main", "dev", copy=True)
    main.branches.delete("dev")
    published = Dataset.open(main.uri)
    assert content(published) == {2: "b", 3: "c", 4: "d", 5: "e", 8: "h"}
    assert published.verify().ok
    assert published.snapshot.manifest.base_paths == ()
    theirs = lance.dataset(main.uri)
    theirs.validate()
    assert theirs.to_table(filter="id = 8").num_rows == 1


def test_a_branch_that_has_changed_is_not_published_over(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f"))
    main = main.insert(rows(_7="g"))
    with pytest.raises(RefConflictError, match="has changed since"):
        main.branches.fast_forward("main", "dev")
    main.branches.rebase("dev")
    main.branches.fast_forward("main", "dev")
    assert content(Dataset.open(main.uri)) == {1: "a", 2: "b", 3: "c", 4: "d", 5: "e", 6: "f", 7: "g"}


def test_a_merged_branch_can_be_removed_and_made_again(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f"))
    main.branches.merge("dev")
    main.branches.delete("dev")
    assert not [name for name in main.tags.list() if "dev" in name]
    again = Dataset.open(main.uri).create_branch("dev")
    again.delete("id = 1")
    assert main.branches.merge("dev").num_deleted_rows == 1


def test_what_the_next_merge_needs_survives_cleanups(main: Dataset, dev: Dataset) -> None:
    dev = dev.insert(rows(_6="f"))
    main.branches.merge("dev")
    dev = dev.update({"v": "'x'"}, "id = 6").update({"v": "'y'"}, "id = 6")
    dev.cleanup_old_versions(timedelta(0), delete_unverified=True)
    Dataset.open(main.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert main.branches.merge("dev").num_updated_rows == 1


def test_branches_of_branches_are_merged(main: Dataset, dev: Dataset) -> None:
    main.insert(rows(_8="later"))
    feature = dev.insert(rows(_6="f")).create_branch("feature").insert(rows(_7="g"))
    assert main.branches.merge("feature").num_inserted_rows == 2
    feature.update({"v": "'x'"}, "id = 7")
    assert main.branches.merge("feature").num_updated_rows == 1
    other = Dataset.open(main.uri).create_branch("other")
    assert main.branches.merge("dev", into="other").num_inserted_rows == 0
    assert content(other) == content(main)


def test_branches_without_anything_that_tells_rows_apart_are_refused(tmp_path: Path) -> None:
    table = Dataset.write(str(tmp_path / "t.lance"), pa.table({"id": [1, 2]}))
    table.create_branch("dev").update({"id": "3"}, "id = 1")
    with pytest.raises(UnsupportedFeatureError, match="primary key"):
        table.branches.merge("dev")
    with pytest.raises(UnsupportedFeatureError, match="primary key"):
        table.branches.diff("main", "dev").to_table()
    # A branch is published as it is.
    table.branches.fast_forward("main", "dev")
    assert Dataset.open(table.uri).to_table(filter="id = 3").num_rows == 1


def test_merges_of_branches_with_similar_names_keep_their_own_versions(main: Dataset) -> None:
    for number, name in enumerate(("a/b", "a-b")):
        main.create_branch(name).insert(rows(**{f"_{20 + number}": name}))
        main.branches.merge(name)
    held = {tag.branch: tag.version for tag in main.tags.list().values()}
    assert held == {"a/b": 2, "a-b": 2}


def test_a_refused_merge_leaves_the_tag_of_the_one_before(main: Dataset, dev: Dataset) -> None:
    dev = dev.insert(rows(_6="f"))
    main.branches.merge("dev")
    before = dict(main.tags.list())
    dev.update({"v": "'t'"}, "id = 1")
    Dataset.open(main.uri).update({"v": "'o'"}, "id = 1")
    with pytest.raises(BranchMergeConflictError):
        main.branches.merge("dev")
    assert dict(main.tags.list()) == before


def test_a_table_that_was_made_anew_is_not_merged_into(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f"))
    shutil.rmtree(main.uri)
    again = Dataset.write(main.uri, rows(_1="other"))
    again.create_branch("dev").delete("id = 1")
    with pytest.raises(VersionNotFoundError, match="made anew"):
        main.branches.merge("dev")
    with pytest.raises(VersionNotFoundError, match="made anew"):
        main.branches.fast_forward("main", "dev")
    assert Dataset.open(main.uri).count_rows() == 1


@pytest.mark.parametrize("is_published", [False, True])
def test_a_table_with_branches_is_not_moved(main: Dataset, dev: Dataset, is_published: bool) -> None:
    dev.insert(rows(_6="f"))
    if is_published:
        main.branches.fast_forward("main", "dev")
    folder = Path(main.uri).parent
    with pytest.raises(LanceError, match=r"has the branches dev.*cannot be moved"):
        lance_spark.namespace(str(folder)).rename_table(["t"], ["u"])
    assert Dataset.open(main.uri).count_rows() == 5 + is_published
    assert not (folder / "u.lance").exists()


def test_changes_are_fed_over_a_publication(tmp_path: Path) -> None:
    table = Dataset.write(str(tmp_path / "t.lance"), rows(_1="a", _2="b"), enable_stable_row_ids=True)
    table.create_branch("dev").update({"v": "'x'"}, "id = 1").update({"v": "'y'"}, "id = 1").delete("id = 2").insert(rows(_3="c"))
    table.branches.fast_forward("main", "dev")
    found = Dataset.open(table.uri).changes(1).to_table().to_pylist()
    assert sorted((row["id"], row["v"], row["_change_type"]) for row in found) == [
        (1, "a", "update_preimage"),
        (1, "y", "update_postimage"),
        (2, "b", "delete"),
        (3, "c", "insert"),
    ]


def test_names_that_do_not_exist_and_one_branch_twice_are_refused(main: Dataset) -> None:
    with pytest.raises(VersionNotFoundError, match="nothing"):
        main.branches.merge("nothing")
    with pytest.raises(UnsupportedFeatureError, match="name two"):
        main.branches.merge("main")
    with pytest.raises(UnsupportedFeatureError, match="name two"):
        main.branches.fast_forward("dev", "dev")


def test_a_key_that_two_rows_have_is_named(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f"))
    lance.write_dataset(rows(_6="g"), dev.uri, mode="append")
    with pytest.raises(AmbiguousMergeError, match="'id': 6"):
        main.branches.merge("dev")


def test_a_restored_version_is_merged_anew(main: Dataset, dev: Dataset) -> None:
    dev.insert(rows(_6="f"))
    main.branches.merge("dev")
    main.restore()
    assert 6 not in content(main)
    assert main.branches.merge("dev").num_inserted_rows == 1


def test_the_tag_of_a_publication_that_was_killed_does_not_keep_the_branch(
    main: Dataset, dev: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    dev.insert(rows(_6="f"))
    with monkeypatch.context() as patch:
        patch.setattr("lance_spark.table.branches.publish.commit_next", die)
        with pytest.raises(KeyboardInterrupt):
            main.branches.fast_forward("main", "dev")
    with pytest.raises(RefConflictError, match="dev is still used"):  # it may go on
        main.branches.delete("dev")
    monkeypatch.setattr("lance_spark.table.versions.clones._PUBLICATION", timedelta(0))
    main.branches.delete("dev")
    assert not main.branches.list()
    assert not main.tags.list()


def test_a_branch_can_be_removed_when_no_version_of_main_names_its_files(
    main: Dataset, dev: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_spark.table.versions.clones._PUBLICATION", timedelta(0))
    dev.insert(rows(_6="f"))
    main.branches.fast_forward("main", "dev")
    table = Dataset.open(main.uri)
    table.optimize.compact_files()
    with pytest.raises(RefConflictError, match="dev is still used"):
        table.branches.delete("dev")
    Dataset.open(main.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    table.branches.delete("dev")
    assert content(table)[6] == "f"
    assert Dataset.open(main.uri).verify().ok


IDENTITY = {"lance-spark:identity": '{"start": 1, "step": 1, "always": true}'}
COMPUTED = {"lance-spark:generated": "v * 2"}


@pytest.mark.parametrize("key", [True, False])
def test_numbers_and_computed_values_of_both_branches_stay(key: bool, tmp_path: Path) -> None:
    name = pa.field("name", pa.string(), nullable=False, metadata=KEY if key else None)
    schema = pa.schema(
        [
            name,
            pa.field("v", pa.int64()),
            pa.field("number", pa.int64(), nullable=False, metadata=IDENTITY),
            pa.field("twice", pa.int64(), metadata=COMPUTED),
        ]
    )
    given = pa.schema([name.remove_metadata(), schema.field("v")])
    table = Dataset.write(str(tmp_path / "t.lance"), schema.empty_table(), enable_stable_row_ids=True)
    table = table.insert(pa.table([["a", "b"], [1, 2]], schema=given))
    dev = table.create_branch("dev")
    dev.insert(pa.table([["c"], [3]], schema=given)).update({"v": "10"}, "name = 'a'")
    table.insert(pa.table([["d"], [4]], schema=given))
    table.branches.merge("dev")
    table.branches.rebase("dev")
    found = sorted(tuple(row.values()) for row in Dataset.open(table.uri).to_table().to_pylist())
    assert [row[:2] + row[3:] for row in found] == [("a", 10, 20), ("b", 2, 4), ("c", 3, 6), ("d", 4, 8)]
    assert sorted(row[2] for row in found) == [1, 2, 3, 4]
    assert sorted(tuple(row.values()) for row in Dataset.open(table.uri, branch="dev").to_table().to_pylist()) == found
