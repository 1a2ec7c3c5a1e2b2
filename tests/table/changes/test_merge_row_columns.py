"""Conditions of `merge_insert` on row columns: id, address, fragment and so on of the table's row."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError

COLUMNS = [
    "_rowid",
    "_rowaddr",
    "_fragid",
    "_row_created_at_version",
    "_row_last_updated_at_version",
    "_metadata.row_index",
    "_metadata.file_name",
]
SOURCE = pa.table({"id": [1, 3, 4, 6, 9], "v": [9] * 5})


@pytest.fixture(params=[False, True], ids=["", "stable row ids"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """Rows in several fragments, some of them deleted or moved, so that all row columns have several values."""
    rows = pa.table({"id": range(8), "v": [0] * 8})
    made = Dataset.write(str(tmp_path / "t"), rows, max_rows_per_file=3, enable_stable_row_ids=request.param)
    made.delete("id = 0")
    made = Dataset.open(made.uri)
    made.update({"v": "1"}, "id IN (4, 5)")
    return Dataset.open(made.uri)


def value_of_row(table: Dataset, column: str, id: int) -> str:
    value = table.scan(columns=[column], filter=f"id = {id}").to_table().to_pylist()[0]
    while isinstance(value, dict):
        value = next(iter(value.values()))
    return repr(value)


def ids(table: Dataset, condition: str) -> set[int]:
    return set(table.scan(columns=["id"], filter=condition).to_table()["id"].to_pylist())


@pytest.mark.matrix
@pytest.mark.parametrize("side", ["", "target."])
@pytest.mark.parametrize("column", COLUMNS)
def test_matched_rows_that_satisfy_a_condition_are_updated(table: Dataset, column: str, side: str) -> None:
    value = value_of_row(table, column, 4)
    expected = ids(table, f"{column} = {value}") & set(SOURCE["id"].to_pylist())
    merge = table.merge_insert("id").when_matched_update_all(f"source.v = 9 AND {side}{column} = {value}")
    merged = merge.execute(SOURCE)
    assert 4 in ids(merged, "v = 9") == expected
    assert merged.count_rows() == 7


@pytest.mark.parametrize("column", COLUMNS)
def test_rows_without_a_match_that_satisfy_a_condition_are_deleted(table: Dataset, column: str) -> None:
    value = value_of_row(table, column, 5)
    deleted = ids(table, f"{column} = {value}") - set(SOURCE["id"].to_pylist())
    merged = table.merge_insert("id").when_not_matched_by_source_delete(f"{column} = {value}").execute(SOURCE)
    assert 5 in deleted
    assert ids(merged, "true") == set(range(1, 8)) - deleted


@pytest.mark.parametrize("condition", ["_rowid = 1", "target._rowid = 4294967296", "target._rowaddr > 4294967296"])
def test_conditions_that_pylance_takes_mean_the_same(tmp_path: Path, condition: str) -> None:
    rows = pa.table({"id": range(4), "v": [0] * 4})
    ours = Dataset.write(str(tmp_path / "ours"), rows, max_rows_per_file=2)
    theirs = lance.write_dataset(rows, str(tmp_path / "theirs"), max_rows_per_file=2)
    source = pa.table({"id": [1, 2, 3], "v": [9] * 3})
    ours = ours.merge_insert("id").when_matched_update_all(condition).execute(source)
    theirs.merge_insert("id").when_matched_update_all(condition).execute(source)
    assert ours.to_table().sort_by("id") == theirs.to_table().sort_by("id")


def test_a_source_has_no_row_columns(table: Dataset) -> None:
    merge = table.merge_insert("id").when_matched_update_all("source._rowid = 1")
    with pytest.raises(SchemaMismatchError, match=r"no column 'source\._rowid'"):
        merge.execute(SOURCE)


def test_the_number_of_a_row_is_known_to_scans_only(table: Dataset) -> None:
    merge = table.merge_insert("id")
    update = merge.when_matched_update_all("target._rowoffset = 100")
    delete = merge.when_not_matched_by_source_delete("_rowoffset = 100")
    for changed in (update, delete):
        with pytest.raises(UnsupportedFeatureError, match=r"_rowoffset, .* use _rowaddr"):
            changed.execute(SOURCE)
