"""Fragments that share a data file are read as if each had its own."""

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata.manifest import serialise

ROWS = pa.table({"id": pa.array(range(4), pa.int64()), "s": ["a", "b", None, "d"]})


def with_shared_file(uri: str, count: int) -> Dataset:
    """A table whose fragments all have the same data file, with ids that do not ascend."""
    snapshot = Dataset.write(uri, ROWS).snapshot
    (fragment,) = snapshot.manifest.fragments
    fragments = tuple(replace(fragment, id=i) for i in [*range(1, count), 0])
    snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, fragments=fragments, max_fragment_id=count - 1)))
    return Dataset.open(uri)


@pytest.mark.parametrize("filter", [None, "id > 1", "s IS NULL", "_rowaddr % 3 = 0", "id = 9"])
def test_every_fragment_has_its_own_rows_and_addresses(tmp_path: Path, filter: str | None) -> None:
    table = with_shared_file(str(tmp_path / "t"), 5)
    rows = table.scan(columns=["id", "s", "_rowaddr", "_rowid"], filter=filter).to_table()
    theirs = lance.dataset(str(tmp_path / "t"))
    expected = theirs.to_table(filter=None if filter and "_rowaddr" in filter else filter, with_row_address=True, with_row_id=True)
    wanted = expected.select(["id", "s", "_rowaddr", "_rowid"]).to_pylist()
    assert rows.to_pylist() == [r for r in wanted if filter != "_rowaddr % 3 = 0" or r["_rowaddr"] % 3 == 0]


def test_after_a_delete_in_one_of_them_the_others_keep_their_rows(tmp_path: Path) -> None:
    table = with_shared_file(str(tmp_path / "t"), 5).delete(f"_rowaddr = {3 << 32}")
    theirs = lance.dataset(str(tmp_path / "t")).to_table(with_row_address=True)
    assert table.scan(columns=["id", "_rowaddr"]).to_table().to_pylist() == theirs.select(["id", "_rowaddr"]).to_pylist()
    assert table.count_rows() == 19
