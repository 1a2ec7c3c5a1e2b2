"""Stable row ids and row versions of rows that both libraries created, changed and moved."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_spark.dataset import Dataset
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.fragment import ExternalFile, Fragment
from lance_spark.metadata.operations import Append
from lance_spark.metadata.row_ids import all_values, parse_row_ids, parse_versions, serialise_row_ids, serialise_versions
from lance_spark.table.build.row_ids_and_versions import changed, made, moved, with_row_ids

pytestmark = [pytest.mark.spec("format-document.md", "Move-Stable Row IDs"), pytest.mark.spec("format-document.md", "Assigning row ids")]

COLUMNS = ["a", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(*numbers: int) -> pa.Table:
    return pa.table({"a": pa.array(numbers, pa.int64()), "b": pa.array(numbers, pa.int64())})


def test_rows_keep_their_ids_and_versions_whoever_changes_them(tmp_path: Path) -> None:
    uri = str(tmp_path)
    Dataset.write(uri, rows(0, 1, 2, 3), enable_stable_row_ids=True)
    lance.write_dataset(rows(4, 5), uri, mode="append")
    Dataset.write(uri, rows(6, 7), mode="append")
    lance.dataset(uri).update({"b": "b + 100"}, where="a in (1, 6)")
    Dataset.open(uri).delete("a = 4")
    lance.dataset(uri).optimize.compact_files()
    Dataset.write(uri, rows(8), mode="append")
    lance.dataset(uri).update({"b": "b + 1"}, where="a = 6")
    lance.dataset(uri).validate()
    ours = Dataset.open(uri).scan(columns=COLUMNS).to_table().sort_by("a")
    assert ours.equals(lance.dataset(uri).to_table(columns=COLUMNS).sort_by("a"))
    assert ours["a"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert ours["_rowid"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert ours["_row_created_at_version"].to_pylist() == [1, 1, 1, 1, 2, 3, 3, 8]
    assert ours["_row_last_updated_at_version"].to_pylist() == [1, 4, 1, 1, 2, 9, 3, 8]


def test_two_appends_from_one_version_get_different_ids(tmp_path: Path) -> None:
    uri = str(tmp_path)
    base = Dataset.write(uri, rows(0), enable_stable_row_ids=True)
    for number in (1, 2):
        other = str(tmp_path.parent / f"{tmp_path.name}-{number}")
        fragments = Dataset.write(other, rows(number)).snapshot.manifest.fragments
        os.link(Path(other) / "data" / fragments[0].files[0].path, tmp_path / "data" / fragments[0].files[0].path)
        Dataset.commit(uri, Append(tuple(fragments)), read_version=base.version)
    table = Dataset.open(uri).scan(columns=COLUMNS).to_table()
    assert table["_rowid"].to_pylist() == [0, 1, 2]
    assert table["_row_created_at_version"].to_pylist() == [1, 2, 3]
    assert Dataset.open(uri).snapshot.manifest.next_row_id == 3


def fragment(ids: list[int], created: list[int] | None = None, number: int = 0) -> Fragment:
    versions = None if created is None else serialise_versions(np.array(created, np.uint64))
    return Fragment(number, (), len(ids), None, serialise_row_ids(np.array(ids, np.uint64)), versions, versions)


def test_rows_without_ids_come_after_those_that_have_them() -> None:
    partly = Fragment(0, (), 4, None, serialise_row_ids(np.array([7, 3], np.uint64)))
    done, free = with_row_ids([partly, fragment([1, 2]), Fragment(0, (), 2), Fragment(0, (), 0)], 100)
    assert free == 104
    assert [all_values(parse_row_ids(f.row_ids, f.physical_rows)).tolist() for f in done if isinstance(f.row_ids, bytes)] == [
        [7, 3, 100, 101],
        [1, 2],
        [102, 103],
        [],
    ]
    with pytest.raises(ValueError, match="2 row ids"):
        with_row_ids([Fragment(0, (), 1, None, partly.row_ids)], 0)


def versions(f: Fragment) -> tuple[list[int], list[int]]:
    assert isinstance(f.created_at, bytes)
    assert isinstance(f.updated_at, bytes)
    return tuple(all_values(parse_versions(s, f.physical_rows)).tolist() for s in (f.created_at, f.updated_at))


def test_moved_rows_keep_the_version_that_created_them() -> None:
    sources = [fragment([5, 6], [4, 5], 2), fragment([5, 1], [2, 3], 1), fragment([9], None, 3), fragment([1000], [6], 4)]
    done = moved([fragment([6, 50, 5]), fragment([9, 1])], sources, 8)
    assert [versions(f) for f in done] == [([5, 8, 2], [8, 8, 8]), ([1, 3], [8, 8])]
    assert moved([], sources, 8) == ()


def test_changed_rows() -> None:
    f = fragment([1, 2, 3], [4, 4, 5])
    assert versions(made([f], 9)[0]) == ([9, 9, 9], [9, 9, 9])
    assert versions(changed(f, 9)) == ([4, 4, 5], [9, 9, 9])
    assert versions(changed(f, 9, BitMap([1]))) == ([4, 4, 5], [4, 9, 5])
    assert changed(fragment([1, 2]), 9, BitMap([1]), 8).updated_at == serialise_versions(np.array([8, 9], np.uint64))
    with pytest.raises(ValueError, match="row 3"):
        changed(f, 9, BitMap([3]))
    with pytest.raises(UnsupportedFeatureError, match="in a separate file"):
        with_row_ids([Fragment(0, (), 1, None, ExternalFile("x", 0, 1))], 0)


@given(st.lists(st.lists(st.integers(0, 60), unique=True, max_size=15), max_size=4), st.lists(st.integers(0, 60), unique=True, max_size=20))
def test_moved_rows_have_the_version_of_their_first_source(sources: list[list[int]], ids: list[int]) -> None:
    expected: dict[int, int] = {}
    fragments = []
    for number, own in enumerate(sources):
        fragments.append(fragment(own, [number + 2 + i % 3 for i in range(len(own))], number))
        for i, row in enumerate(own):
            expected.setdefault(row, number + 2 + i % 3)
    (done,) = moved([fragment(ids)], fragments, 99)
    assert versions(done)[0] == [expected.get(i, 99) for i in ids]


@pytest.mark.parametrize("stable", [False, True])
def test_rows_are_taken_by_their_ids(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    lance.write_dataset(rows(*range(20)), uri, max_rows_per_file=6, enable_stable_row_ids=stable)
    lance.dataset(uri).update({"b": "b + 100"}, where="a in (7, 8, 15)")
    lance.dataset(uri).delete("a in (2, 19)")
    ds = Dataset.open(uri)
    known = ds.scan(columns=["a", "b", "_rowid"]).to_table()
    ids = dict(zip(known["a"].to_pylist(), known["_rowid"].to_pylist()))
    wanted = [15, 3, 3, 0, 7, 11, 18]
    taken = ds.take_rows([ids[a] for a in wanted], columns=["b", "a", "_rowid"])
    assert taken["a"].to_pylist() == wanted
    assert taken["b"].to_pylist() == [115, 3, 3, 0, 107, 11, 18]
    assert taken["_rowid"].to_pylist() == [ids[a] for a in wanted]
    theirs = lance.dataset(uri)._take_rows([ids[a] for a in wanted])
    assert taken["a"].to_pylist() == theirs["a"].to_pylist()
    everything = ds.take_rows(known["_rowid"].to_pylist()[::-1])
    assert everything["a"].to_pylist() == known["a"].to_pylist()[::-1]
    assert ds.take_rows([]).num_rows == 0
    with pytest.raises(IndexError, match=r"^2 of the rows do not exist in .*, such as the one with the id 1099511627777$"):
        ds.take_rows([2**63, ids[4], 2**40 + 1])
