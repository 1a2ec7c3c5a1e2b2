"""The column `_rowoffset`: the number of a row among those that are not deleted, as pylance returns it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import SchemaMismatchError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three fragments; rows of the first two are deleted."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(10), "b": ["x"] * 10}), uri, max_rows_per_file=4)
    lance.dataset(uri).delete("a IN (1, 5)")
    return uri


@pytest.mark.parametrize("filter", [None, "a > 4", "a < 0"])
def test_scans_return_the_numbers_of_rows_that_pylance_returns(uri: str, filter: str | None) -> None:
    columns = ["_rowoffset", "a"]
    ours = Dataset.open(uri).scan(columns=columns, filter=filter).to_table()
    assert ours == lance.dataset(uri).to_table(columns=columns, filter=filter)


def test_rows_are_taken_without_any_column(uri: str) -> None:
    ours, theirs = Dataset.open(uri), lance.dataset(uri)
    assert ours.take([7, 1, 7], columns=[]).num_rows == theirs.take([7, 1, 7], columns=[]).num_rows == 3
    assert ours.take_rows([0, 0], columns=[]).num_rows == 2


def test_parts_of_a_table_keep_the_numbers_of_their_rows(uri: str) -> None:
    table = Dataset.open(uri)
    columns = ["a", "_rowoffset"]
    assert table.scan(columns=columns, offset=2, limit=4).to_table()["_rowoffset"].to_pylist() == [2, 3, 4, 5]
    assert table.scan(columns=["a"], filter="_rowoffset >= 6").to_table()["a"].to_pylist() == [8, 9]
    assert table.take([7, 1, 7], columns=columns).to_pydict() == {"a": [9, 2, 9], "_rowoffset": [7, 1, 7]}
    ids = table.scan(columns=["a"], filter="a IN (4, 8)", with_row_id=True).to_table()["_rowid"].to_pylist()
    assert table.take_rows(ids, columns=columns).to_pydict() == {"a": [4, 8], "_rowoffset": [3, 6]}
    assert table.delete("_rowoffset = 0").scan(columns=["a"]).to_table()["a"].to_pylist() == [2, 3, 4, 6, 7, 8, 9]


def test_columns_requested_twice_are_refused(uri: str) -> None:
    table = Dataset.open(uri)
    for read in (table.scan, lambda columns: table.take([0], columns)):
        with pytest.raises(SchemaMismatchError, match="the column 'a' is requested twice"):
            read(columns=["a", "b", "a"])
    assert table.scan(columns=["b", "a"]).to_table().column_names == ["b", "a"]
