"""`merge_insert` without key columns goes by the primary key, and `when_matched_fail` refuses rows that are there, as in pylance."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import MatchedRowsError, UnsupportedFeatureError
from lance_spark.table.changes.alter import set_primary_key

KEY = {b"lance-schema:unenforced-primary-key": b"true"}


def schema(*keys: str) -> pa.Schema:
    types = {"id": pa.int64(), "k": pa.string(), "v": pa.int64()}
    return pa.schema([pa.field(name, t, name not in keys, KEY if name in keys else None) for name, t in types.items()])


def rows(ids: list[int], value: int, *keys: str) -> pa.Table:
    return pa.table([ids, [f"k{i}" for i in ids], [value * i for i in ids]], schema=schema(*keys))


def upsert(dataset: Any, source: pa.Table) -> None:
    dataset.merge_insert().when_matched_update_all().when_not_matched_insert_all().execute(source)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("keys", [("id",), ("id", "k")])
def test_a_merge_without_key_columns_goes_by_the_primary_key(tmp_path: Path, keys: tuple[str, ...], version: str, stable: bool) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance.write_dataset(rows([*range(20)], 1, *keys), ours, max_rows_per_file=8, data_storage_version=version, enable_stable_row_ids=stable)
    lance.dataset(ours).delete("v = 3")
    shutil.copytree(ours, theirs)
    upsert(Dataset.open(ours), rows([2, 3, 30], 100, *keys))
    upsert(lance.dataset(theirs), rows([2, 3, 30], 100, *keys))
    assert lance.dataset(ours).to_table().sort_by("v") == lance.dataset(theirs).to_table().sort_by("v")
    lance.dataset(ours).validate()
    upsert(lance.dataset(ours), rows([30, 31], 7, *keys))
    assert Dataset.open(ours).count_rows("v = 210 OR v = 217") == 2
    lance.dataset(ours).delete("v = 0")
    lance.dataset(ours).optimize.compact_files()
    assert lance.dataset(ours).count_rows() == Dataset.open(ours).count_rows() == 21


def test_a_primary_key_that_was_declared_later_counts(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path, rows([1, 2], 1, "id"))
    with pytest.raises(ValueError, match="primary key"):
        Dataset.write(tmp_path / "none", rows([1], 1)).merge_insert()
    plain = Dataset.write(tmp_path / "later", pa.table([[1, 2]], schema=pa.schema([pa.field("id", pa.int64(), False)])))
    later = Dataset(set_primary_key(plain.snapshot, ["id"]))
    upsert(later, pa.table({"id": [2, 3]}))
    assert lance.dataset(tmp_path / "later").count_rows() == 3
    table.merge_insert([]).when_not_matched_insert_all().execute(rows([2, 3], 5, "id"))
    assert sorted(lance.dataset(tmp_path).to_table()["v"].to_pylist()) == [1, 2, 15]


def test_a_primary_key_in_a_struct_is_refused_by_name(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("id", pa.int64(), False, KEY)])
    table = Dataset.write(tmp_path, pa.table([[{"id": 1}]], schema=pa.schema([pa.field("s", inner, False)])))
    with pytest.raises(UnsupportedFeatureError, match="'id' of the primary key is in a struct"):
        table.merge_insert()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_a_merge_that_must_not_match_fails_and_changes_nothing(tmp_path: Path, stable: bool) -> None:
    table = Dataset.write(tmp_path, rows([*range(10)], 1, "id"), max_rows_per_file=4, enable_stable_row_ids=stable)
    table = table.delete("v = 7")
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    for source in (rows([20, 6], 1, "id"), rows([6, 6], 1, "id")):
        with pytest.raises(MatchedRowsError, match="'id' = 6"):
            table.merge_insert().when_matched_fail().when_not_matched_insert_all().execute(source)
        with pytest.raises(OSError, match="= 6"):
            lance.dataset(tmp_path).merge_insert().when_matched_fail().when_not_matched_insert_all().execute(source)
    assert Dataset.open(tmp_path).version == table.version
    assert [p for p in before if "data" in p] == [p for p in sorted(str(p) for p in tmp_path.rglob("*")) if "data" in p]
    done = table.merge_insert().when_matched_fail().when_not_matched_insert_all().execute(rows([7, 20], 1, "id"))
    assert done.count_rows() == lance.dataset(tmp_path).count_rows() == 11
    gone = done.merge_insert().when_matched_fail().when_not_matched_by_source_delete("v > 8").execute(rows([77], 1, "id"))
    assert sorted(lance.dataset(tmp_path).to_table()["v"].to_pylist()) == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert gone.merge_insert().when_matched_fail().execute(rows([99], 1, "id")).count_rows() == 9


def test_nulls_match_nothing(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path, pa.table({"id": [1, None], "v": [1, 2]}))
    source = pa.table({"id": pa.array([None], pa.int64()), "v": [3]})
    assert table.merge_insert("id").when_matched_fail().when_not_matched_insert_all().execute(source).count_rows() == 3


def test_a_row_that_another_writer_inserts_meanwhile_is_a_match(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path, rows([1], 1, "id"))
    upsert(lance.dataset(tmp_path), rows([2], 1, "id"))
    with pytest.raises(MatchedRowsError, match="= 2"):
        table.merge_insert().when_matched_fail().when_not_matched_insert_all().execute(rows([2], 9, "id"))
    assert lance.dataset(tmp_path).to_table()["v"].to_pylist() == [1, 2]


def test_matched_rows_have_one_action(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path, rows([1], 1, "id"))
    with pytest.raises(ValueError, match="only one when_matched"):
        table.merge_insert().when_matched_fail().when_matched_delete().execute(rows([1], 1, "id"))


@pytest.mark.parametrize("name", ["a b", "source"])
def test_a_primary_key_with_an_odd_name_is_found(tmp_path: Path, name: str) -> None:
    """pylance cannot merge by the first one."""
    columns = pa.schema([pa.field(name, pa.int64(), False, KEY), pa.field("v", pa.int64())])
    table = Dataset.write(tmp_path, pa.table([[1, 2], [1, 2]], schema=columns))
    upsert(table, pa.table([[2, 3], [20, 30]], schema=columns))
    assert sorted(lance.dataset(tmp_path).to_table()["v"].to_pylist()) == [1, 20, 30]
