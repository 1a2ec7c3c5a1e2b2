"""What `Dataset.changes` returns for each kind of commit."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError, VersionNotFoundError

pytestmark = pytest.mark.spec("table.md", "Row Lineage")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the ids 1 to 4 and a text."""
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"id": [1, 2, 3, 4], "s": list("abcd")}), enable_stable_row_ids=True)
    return uri


def changed(table: Dataset, begin: int, **options: Any) -> list[tuple[Any, ...]]:
    """The changes as (id, text, kind, version)."""
    rows = table.changes(begin, **options).to_table().to_pylist()
    return [(row["id"], row.get("s"), row["_change_type"], row["_commit_version"]) for row in rows]


def test_each_commit_has_its_own_changes(uri: str) -> None:
    Dataset.open(uri).update({"s": "'x'"}, "id = 2").delete("id = 3")
    table = Dataset.write(uri, pa.table({"id": [5], "s": ["e"]}), mode="append")
    assert changed(table, 1) == [
        (2, "b", "update_preimage", 2),
        (2, "x", "update_postimage", 2),
        (3, "c", "delete", 3),
        (5, "e", "insert", 4),
    ]
    assert changed(table, 2, end=3) == [(3, "c", "delete", 3)]
    assert changed(table, 4) == []


def test_after_version_0_every_row_of_the_first_version_is_an_insert(uri: str) -> None:
    table = Dataset.open(uri).delete("id = 1")
    assert [change[2] for change in changed(table, 0)] == ["insert"] * 4 + ["delete"]
    assert {change[0] for change in changed(table, 0, net=True)} == {2, 3, 4}


def test_net_changes_are_one_for_each_row(uri: str) -> None:
    table = Dataset.write(uri, pa.table({"id": [5], "s": ["e"]}), mode="append")
    table = table.update({"s": "'x'"}, "id IN (1, 2, 5)").update({"s": "'y'"}, "id = 1").delete("id IN (2, 3)")
    assert sorted(changed(table, 1, net=True)) == [
        (1, "a", "update_preimage", 4),
        (1, "y", "update_postimage", 4),
        (2, "b", "delete", 5),
        (3, "c", "delete", 5),
        (5, "x", "insert", 3),
    ]


def test_rows_that_were_inserted_and_deleted_have_no_net_change(uri: str) -> None:
    table = Dataset.write(uri, pa.table({"id": [5], "s": ["e"]}), mode="append").delete("id = 5")
    assert changed(table, 1, net=True) == []


def test_a_restored_version_undoes_changes(uri: str) -> None:
    Dataset.open(uri).update({"s": "'x'"}, "id = 1").delete("id = 2")
    table = Dataset.open(uri, version=1).restore()
    assert sorted(changed(table, 3)) == [(1, "a", "update_postimage", 4), (1, "x", "update_preimage", 4), (2, "b", "insert", 4)]
    assert changed(table, 1, net=True) == []


def test_compaction_indexes_and_new_columns_are_no_changes(uri: str) -> None:
    Dataset.write(uri, pa.table({"id": [5], "s": ["e"]}), mode="append").optimize.compact_files()
    lance.dataset(uri).add_columns({"double": "id * 2"})  # pylance marks every row as updated
    table = Dataset.open(uri).create_scalar_index("id", "BTREE")
    table = table.add_columns({"t": "concat(s, s)"}).drop_columns(["double"])
    assert changed(table, 2) == []


def test_an_overwrite_deletes_all_rows_and_inserts_others(uri: str) -> None:
    table = Dataset.write(uri, pa.table({"id": [1], "s": ["z"]}), mode="overwrite")
    assert changed(table, 1) == [(i, s, "delete", 2) for i, s in zip((1, 2, 3, 4), "abcd")] + [(1, "z", "insert", 2)]


def test_columns_have_the_names_and_types_of_the_last_version(uri: str) -> None:
    Dataset.open(uri).update({"id": "20"}, "id = 2")
    table = Dataset.open(uri).alter_columns({"path": "s", "name": "text"}, {"path": "id", "data_type": pa.int32()})
    found = table.changes(1, columns=["text", "id"]).to_table()
    assert found.schema.field("id").type == pa.int32()
    assert found.select(["text", "id"]).to_pylist() == [{"text": "b", "id": 2}, {"text": "b", "id": 20}]


def test_a_column_that_was_dropped_and_added_again_is_another_one(uri: str) -> None:
    table = Dataset.open(uri).delete("id = 2").drop_columns(["s"]).add_columns({"s": "cast(id as string)"}).delete("id = 3")
    assert changed(table, 1) == [(2, None, "delete", 2), (3, "3", "delete", 5)]


def test_a_filter_applies_to_each_row_before_and_after_an_update(uri: str) -> None:
    table = Dataset.open(uri).update({"id": "id + 10"}, "id >= 3")
    assert changed(table, 1, filter="id > 3") == [
        (4, "d", "update_preimage", 2),
        (13, "c", "update_postimage", 2),
        (14, "d", "update_postimage", 2),
    ]
    assert changed(table, 0, filter="_change_type = 'insert' AND s < 'c'", columns=["id"]) == [
        (1, None, "insert", 1),
        (2, None, "insert", 1),
    ]


def test_row_ids_tell_which_images_belong_together(uri: str) -> None:
    table = Dataset.open(uri).update({"s": "concat(s, '!')"}, "id > 2")
    rows = table.changes(1, columns=["_rowid", "s"]).to_table().to_pylist()
    before = {row["_rowid"]: row["s"] for row in rows if row["_change_type"] == "update_preimage"}
    after = {row["_rowid"]: row["s"] for row in rows if row["_change_type"] == "update_postimage"}
    assert {before[i]: after[i] for i in before} == {"c": "c!", "d": "d!"}


@pytest.mark.parametrize("stable", [True, False])
def test_the_first_values_of_a_column_without_files_are_updates(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "n.lance")
    rows = pa.table({"id": [1, 2, 3], "s": ["a" * 50] * 3})
    Dataset.write(uri, rows, enable_stable_row_ids=stable)
    table = Dataset.open(uri).add_columns(pa.field("n", pa.int32())).update({"n": "cast(7 as int)"}, "id >= 2")
    assert table.history(1)[0].operation == "Update"
    for net in (False, True) if stable else (False,):
        found = [(row["id"], row["n"], row["_change_type"]) for row in table.changes(2, net=net).to_table().to_pylist()]
        before, after = [(i, None, "update_preimage") for i in (2, 3)], [(i, 7, "update_postimage") for i in (2, 3)]
        assert found == before + after


def test_net_changes_are_from_the_version_begin_to_the_version_end(uri: str) -> None:
    """A row changes while one of its columns is dropped, and a restore brings the column back."""
    Dataset.open(uri).drop_columns(["s"]).update({"id": "id + 10"}, "id <= 2")
    table = Dataset.open(uri, version=1).restore().update({"id": "20"}, "id = 2")
    assert changed(table, 1, net=True) == [(2, "b", "update_preimage", 5), (20, "b", "update_postimage", 5)]
    table = Dataset.write(uri, pa.table({"id": [5], "s": ["e"]}), mode="append").add_columns({"t": "concat(s, '!')"})
    found = table.changes(5, net=True).to_table().to_pylist()
    assert [(row["id"], row["t"], row["_commit_version"]) for row in found] == [(5, "e!", 6)]


def test_values_stay_through_casts_restores_and_drops(uri: str) -> None:
    table = Dataset.open(uri).alter_columns({"path": "id", "data_type": pa.int32()}).update({"id": "id + 10"}, "id = 1")
    assert table.version == 3
    Dataset.open(uri, version=1).restore().drop_columns(["id"])
    table = Dataset.open(uri, version=1).restore()
    assert [(i, kind, version) for i, _, kind, version in changed(table, 1) if version < 5] == [
        (1, "update_preimage", 3),
        (11, "update_postimage", 3),
        (11, "update_preimage", 4),
        (1, "update_postimage", 4),
    ]


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("column", ["n", "p.b"])
def test_a_column_that_is_dropped_and_restored_loses_its_values_and_gets_them_back(tmp_path: Path, column: str, stable: bool) -> None:
    """Also the file of a field in a struct has its values all the time, unless the row is written anew."""
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"id": [1, 2], "n": [10, None], "p": pa.array([{"a": 1, "b": 10}, None])})
    Dataset.write(uri, rows, enable_stable_row_ids=stable).drop_columns([column])
    assert Dataset.open(uri).changes(1).to_table().num_rows == 0, "the result does not have the column"
    table = Dataset.open(uri, version=1).restore()
    first = {"id": 1, "n": 10, "p": {"a": 1, "b": 10}}
    without = {**first, "n": None} if column == "n" else {**first, "p": {"a": 1, "b": None}}
    lost = [{**first, "_change_type": "update_preimage"}, {**without, "_change_type": "update_postimage"}]
    restored = [{**without, "_change_type": "update_preimage"}, {**first, "_change_type": "update_postimage"}]

    def found(begin: int, **options: Any) -> list[dict[str, Any]]:
        changes = table.changes(begin, **options).to_table().drop_columns(["_commit_version", "_commit_timestamp"])
        rows: list[dict[str, Any]] = changes.to_pylist()
        return rows

    assert found(1) == [*lost, *restored]
    assert found(2) == restored
    assert found(1, columns=["id"]) == []
    if stable:
        assert found(1, net=True) == []
        assert found(2, net=True) == restored


def test_a_field_that_was_cast_restored_and_renamed_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"id": [1, 2], "p": [{"a": 1, "b": 1}, {"a": 2, "b": 2}]})
    table = Dataset.write(uri, rows, enable_stable_row_ids=True).alter_columns({"path": "p.a", "data_type": pa.int32()})
    table.update({"id": "id + 10"}, "id = 1")
    table = Dataset.open(uri, version=1).restore().alter_columns({"path": "p.a", "name": "c"})
    with pytest.raises(UnsupportedFeatureError, match="the type of column 'p' was"):
        table.changes(1).to_table()


@pytest.mark.parametrize("list_type", [pa.list_, pa.large_list, lambda item: pa.map_(pa.string(), item)])
def test_a_field_of_items_that_is_dropped_and_restored_is_null_in_between(tmp_path: Path, list_type: Any) -> None:
    uri = str(tmp_path / "t.lance")
    lists = list_type(pa.struct({"a": pa.int64(), "b": pa.int64()}))
    first, without = {"a": 1, "b": 10}, {"a": 1, "b": None}
    is_map = pa.types.is_map(lists)
    values = pa.array([None, [("k", first)] if is_map else [first]], lists)
    Dataset.write(uri, pa.table({"l": values}), enable_stable_row_ids=True, data_storage_version="2.2")
    Dataset.open(uri).drop_columns(["l.entries.value.b" if is_map else "l.item.b"])
    table = Dataset.open(uri, version=1).restore()
    found = table.changes(2).to_table()["l"].to_pylist()
    assert found == ([[("k", without)], [("k", first)]] if is_map else [[without], [first]])


def test_a_column_that_is_cast_and_renamed_at_once_is_the_same(uri: str) -> None:
    table = Dataset.open(uri).update({"id": "20"}, "id = 2")
    table = table.alter_columns({"path": "id", "name": "key", "data_type": pa.int32()})
    assert table.changes(1).to_table()["key"].to_pylist() == [2, 20]


def test_values_are_cast_as_the_table_has_cast_them(tmp_path: Path) -> None:
    """A cast that rounds is not taken back by another one."""
    uri = str(tmp_path / "f.lance")
    Dataset.write(uri, pa.table({"id": [1], "f": [0.1]}), enable_stable_row_ids=True)
    table = Dataset.open(uri)
    for t in (pa.float32(), pa.float64()):
        table = table.alter_columns({"path": "f", "data_type": t})
    [value] = table.to_table()["f"].to_pylist()
    assert value != 0.1
    assert table.changes(0).to_table()["f"].to_pylist() == [value]


def test_a_column_that_must_not_be_null_since_was_null_before(tmp_path: Path) -> None:
    uri = str(tmp_path / "n.lance")
    Dataset.write(uri, pa.table({"id": [1, 2], "n": [None, 5], "p": [{"a": None}, {"a": 1}]}), enable_stable_row_ids=True)
    table = Dataset.open(uri).update({"n": "cast(7 as bigint)"}, "id = 1").delete("id = 1")
    table = table.alter_columns({"path": "n", "nullable": False}, {"path": "p.a", "nullable": False})
    found = table.changes(1)
    assert found.schema.field("n").nullable
    rows = [(row["_change_type"], row["n"], row["p"]) for row in found.to_table().to_pylist()]
    null = {"a": None}
    assert rows == [("update_preimage", None, null), ("update_postimage", 7, null), ("delete", 7, null)]
    assert table.changes(1, net=True).to_table()["n"].to_pylist() == [None]


def test_new_fields_with_values_are_no_changes(tmp_path: Path) -> None:
    uri = str(tmp_path / "p.lance")
    for version in ("2.0", "2.1"):
        rows = pa.table({"id": [1, 2], "p": [{"a": 1}, {"a": 2}]})
        Dataset.write(uri, rows, "overwrite", enable_stable_row_ids=True, data_storage_version=version)
        table = Dataset.open(uri).add_columns({"p.b": "id * 2"})
        assert table.changes(table.version - 1).to_table().num_rows == 0
        table = table.alter_columns({"path": "p.a", "data_type": pa.int32()})
        assert table.changes(table.version - 1).to_table().num_rows == 0
        table = table.drop_columns(["p.b"]).alter_columns({"path": "p.a", "data_type": pa.int16()})
        assert table.changes(table.version - 1).to_table().num_rows == 0


def test_the_time_of_a_commit_is_that_of_its_version(uri: str) -> None:
    table = Dataset.open(uri).delete("id = 1")
    (found,) = table.changes(1).to_table()["_commit_timestamp"].to_pylist()
    assert abs(found - table.versions()[-1].timestamp) < timedelta(microseconds=2)


def test_values_that_were_replaced_in_their_fragment_are_updates(uri: str) -> None:
    """pylance's update of columns writes a new file for a fragment, without a record of the rows."""
    dataset = lance.dataset(uri)
    fragment, fields = dataset.get_fragments()[0].update_columns(pa.table({"id": [2, 3], "s": ["x", "c"]}), left_on="id", right_on="id")
    lance.LanceDataset.commit(uri, lance.LanceOperation.Update(updated_fragments=[fragment], fields_modified=fields), read_version=1)
    assert changed(Dataset.open(uri), 1) == [(2, "b", "update_preimage", 2), (2, "x", "update_postimage", 2)]


def test_inserted_updated_and_deleted_rows_are_those_of_pylance(uri: str) -> None:
    lance.dataset(uri).update({"s": "'u'"}, where="id = 1")
    lance.write_dataset(pa.table({"id": [7, 8], "s": ["g", "h"]}), uri, mode="append")
    lance.dataset(uri).delete("id = 4")
    delta = lance.dataset(uri).delta(begin_version=1, end_version=4)
    net = changed(Dataset.open(uri), 1, net=True)
    assert [c[0] for c in net if c[2] == "insert"] == pa.Table.from_batches(delta.get_inserted_rows())["id"].to_pylist()
    assert [c[0] for c in net if c[2] == "update_postimage"] == pa.Table.from_batches(delta.get_updated_rows())["id"].to_pylist()
    assert [c[0] for c in net if c[2] == "delete"] == [4]


def test_without_stable_row_ids_an_update_is_a_deletion_and_an_insertion(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t.lance", pa.table({"id": [1, 2], "s": ["a", "b"]})).update({"s": "'x'"}, "id = 2")
    assert changed(table, 1) == [(2, "b", "delete", 2), (2, "x", "insert", 2)]
    with pytest.raises(UnsupportedFeatureError, match="net changes need stable row ids; write the table with"):
        table.changes(1, net=True).to_table()


def test_without_stable_row_ids_a_restore_over_other_fragments_is_refused(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    Dataset.write(uri, pa.table({"id": [1]}))
    Dataset.write(uri, pa.table({"id": [2]}), mode="append").optimize.compact_files()
    table = Dataset.open(uri, version=2).restore()
    with pytest.raises(UnsupportedFeatureError, match=r"\(Restore\) replaced fragments, and without stable row ids nothing tells which"):
        table.changes(table.version - 1).to_table()


def test_versions_that_were_cleaned_up_are_named(uri: str) -> None:
    Dataset.open(uri).delete("id = 1").delete("id = 2").cleanup_old_versions(older_than=timedelta(0), retain_versions=2)
    table = Dataset.open(uri)
    assert changed(table, 2) == [(2, "b", "delete", 3)]
    with pytest.raises(VersionNotFoundError, match="after version 1 need version 1, which does not exist; ask for those after version 2"):
        table.changes(1).to_table()


def test_wrong_arguments_are_refused(uri: str) -> None:
    table = Dataset.open(uri)
    for begin in (-1, 2):
        with pytest.raises(InvalidOptionError, match=f"begin must be at least 0 and at most 1, not {begin}"):
            table.changes(begin)
    with pytest.raises(TypeError, match="begin must be the number of a version"):
        table.changes("1")  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatchError, match="nope"):
        table.changes(0, columns=["nope"])
    named = table.alter_columns({"path": "s", "name": "_change_type"})
    with pytest.raises(SchemaMismatchError, match="the column '_change_type' has the name of a column that the changes have; rename it"):
        named.changes(0)
