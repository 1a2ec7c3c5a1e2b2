"""Indexes of columns that were dropped, changed or replaced while pylance made the index: unused, found by verify, and removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Two fragments with k in one file and x = 10 k in another."""
    uri = str(tmp_path / "t")
    for i in range(2):
        Dataset.write(uri, pa.table({"k": [2 * i + 1, 2 * i + 2]}), "append")
    Dataset.open(uri).add_columns({"x": "k * 10"})
    return uri


def replaced(uri: str, name: str) -> None:
    """Pylance drops x and adds a column with the same id."""
    ds = lance.dataset(uri)
    ds.drop_columns(["x"])
    ds.add_columns({name: "50 - k * 10"})
    assert [f.id() for f in ds.lance_schema.fields()] == [0, 1]


@pytest.mark.parametrize(("name", "compacted"), [("x", False), ("y", False), ("y", True)])
def test_an_index_of_an_earlier_column_with_the_same_id_is_not_used(uri: str, name: str, compacted: bool) -> None:
    stale = lance.dataset(uri)
    replaced(uri, name)
    stale.create_scalar_index("x", "BTREE", name="i")
    if compacted:
        lance.dataset(uri).optimize.compact_files()
    ds = Dataset.open(uri)
    for k in (1, 2, 3, 4):
        assert ds.scan(columns=["k"], filter=f"{name} = {50 - 10 * k}").to_table()["k"].to_pylist() == [k]
    assert any("drop the index and create it again" in p.message for p in ds.verify().problems)
    again = ds.create_scalar_index(name, "BTREE", name="i", replace=True)
    assert again.verify().ok
    assert again.scan(filter=f"{name} = 20").explain() != again.scan(filter=f"{name} = 20", use_scalar_index=False).explain()


@pytest.mark.parametrize("name", ["x", "y"])
def test_our_index_is_refused_when_its_column_was_replaced(uri: str, name: str) -> None:
    stale = Dataset.open(uri)
    replaced(uri, name)
    with pytest.raises(CommitConflictError, match="they drop a column that we index, or change its type") as e:
        stale.create_scalar_index("x", "BTREE")
    assert e.value.retryable
    assert Dataset.open(uri).verify().ok


@pytest.mark.parametrize("compacted", [False, True])
def test_an_index_of_a_renamed_column_stays_in_use(uri: str, compacted: bool) -> None:
    Dataset.open(uri).create_scalar_index("x", "BTREE", name="i")
    for old, new in ("xz", "zw", "wy"):
        Dataset.open(uri).alter_columns({"path": old, "name": new}).update_config({"a": new})
    if compacted:
        lance.dataset(uri).optimize.compact_files()
    ds = Dataset.open(uri)
    assert "i (BTREE)" in str(ds.scan(filter="y = 20").explain())
    assert ds.verify().ok


GONE: dict[str, Callable[[str], object]] = {
    "dropped": lambda uri: Dataset.open(uri).drop_columns(["x"]),
    "another type": lambda uri: Dataset.open(uri).alter_columns({"path": "x", "data_type": pa.int32()}),
}


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("decode", [True, False])
def test_verify_finds_an_index_without_its_column(uri: str, gone: str, decode: bool) -> None:
    stale = lance.dataset(uri)
    GONE[gone](uri)
    stale.create_scalar_index("x", "BTREE", name="i")
    with pytest.raises(Exception, match="did not exist in the schema"):
        lance.dataset(uri).to_table(filter="k = 1")
    ds = Dataset.open(uri)
    assert ds.count_rows("k = 1") == 1
    (problem,) = ds.verify(decode=decode).problems
    assert "'i' is of field 1, which the table does not have" in problem.message
    assert "drop the index" in problem.message
    assert ds.drop_index("i").verify().ok
    assert lance.dataset(uri).count_rows("k = 1") == 1


def test_any_commit_removes_an_index_without_its_column(uri: str) -> None:
    stale = lance.dataset(uri)
    Dataset.open(uri).drop_columns(["x"])
    stale.create_scalar_index("x", "BTREE", name="i")
    assert Dataset.write(uri, pa.table({"k": [5]}), "append").verify().ok
    assert lance.dataset(uri).count_rows("k = 5") == 1
