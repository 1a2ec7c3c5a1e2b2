"""`verify` compares indexes with the rows that they cover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.index.value_types import TAKES
from lance_spark.operations import CreateIndex
from tests.index.bad_columns import Change, with_bad_column
from tests.table.indexes.columns import table

ROWS = table(600)


@pytest.mark.parametrize("stable", [False, True])
def test_good_indexes_of_both_writers_have_no_problems(stable: bool, tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, ROWS, max_rows_per_file=250, enable_stable_row_ids=stable)
    for kind in TAKES.keys() - {"JSON", "RTREE"}:
        column = {"LABEL_LIST": "labels", "NGRAM": "text", "FM": "text", "INVERTED": "text", "MINHASHLSH": "text"}.get(kind, "double")
        made = made.create_scalar_index(column, kind, name=f"ours_{kind}")
        theirs = IndexConfig("fm", {}) if kind == "FM" else kind
        lance.dataset(tmp_path).create_scalar_index(column, theirs, name=f"theirs_{kind}")
        made = Dataset.open(tmp_path)
    report = made.delete("id % 3 = 1").verify()
    assert report.ok, report


@pytest.mark.parametrize("kind", sorted(TAKES.keys() - {"JSON", "RTREE"}))
def test_an_index_of_other_rows_is_found(kind: str, tmp_path: Path) -> None:
    column = {"LABEL_LIST": "labels", "NGRAM": "text", "FM": "text", "INVERTED": "text", "BLOOMFILTER": "text", "MINHASHLSH": "text"}.get(
        kind, "id"
    )
    made = Dataset.write(tmp_path, ROWS.slice(0, 550), max_rows_per_file=250)
    (whole,) = made.create_scalar_index(column, kind).snapshot.manifest.indexes
    other = Dataset.write(tmp_path, ROWS.slice(100, 250), mode="append")
    assert other.verify().ok
    # The index says that it covers the last fragment as well, whose rows it has never seen.
    (first, *_, last) = other.snapshot.manifest.fragments

    wrong = replace(whole, fragment_bitmap=BitMap([first.id, last.id]).serialize(), dataset_version=other.version)
    broken = Dataset.commit(str(tmp_path), CreateIndex((wrong,), (whole,)), other.version)
    assert not broken.verify().ok


def test_a_missing_file_of_an_index_is_found(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, ROWS).create_scalar_index("id", "BTREE")
    next(tmp_path.glob("_indices/*/page_data.lance")).unlink()
    assert [p.kind for p in made.verify().problems] == ["missing"]


@pytest.mark.parametrize("kind", sorted(TAKES.keys() - {"JSON", "RTREE"}))
def test_any_changed_byte_of_our_files_is_found(kind: str, tmp_path: Path) -> None:
    column = {"LABEL_LIST": "labels", "NGRAM": "text", "FM": "text", "INVERTED": "text", "MINHASHLSH": "text"}.get(kind, "id")
    made = Dataset.write(tmp_path, ROWS).create_scalar_index(column, kind)
    assert made.verify().ok
    for file in tmp_path.glob("_indices/*/*"):
        original = file.read_bytes()
        for at in range(0, len(original), max(len(original) // 5, 1)):
            file.write_bytes(original[:at] + bytes([original[at] ^ 16]) + original[at + 1 :])
            assert not made.verify().ok, (file.name, at)
        file.write_bytes(original)


SMALL = pa.table(
    {
        "k": [None if i % 17 == 0 else i % 50 for i in range(2000)],
        "t": [None if i % 31 == 0 else f"abc def{i % 70} word {i % 13}" for i in range(2000)],
        "l": [None if i % 19 == 0 else [f"x{i % 40}"] for i in range(2000)],
    }
)


def moved(values: pa.Array) -> pa.Array:
    """Each value in the place of the one before."""
    return pa.concat_arrays([values[1:], values[:1]])


def empty(values: pa.Array) -> pa.Array:
    """Bytes that are all 0."""
    return pa.array([bytes(len(v)) for v in values.to_pylist()], values.type)


def low(values: pa.Array) -> pa.Array:
    return pa.array([1] * len(values), values.type)


def high(values: pa.Array) -> pa.Array:
    return pa.array([49] * len(values), values.type)


@pytest.mark.parametrize(
    ("kind", "column", "change"),
    [
        ("BTREE", "ids", moved),
        ("BTREE", "values", moved),
        ("BTREE", "max", low),
        ("BTREE", "min", high),
        ("BITMAP", "bitmaps", moved),
        ("LABEL_LIST", "bitmaps", moved),
        ("NGRAM", "posting_list", moved),
        ("ZONEMAP", "max", low),
        ("ZONEMAP", "min", high),
        ("BLOOMFILTER", "bloom_filter_data", empty),
    ],
)
def test_wrong_contents_of_every_kind_are_found(kind: str, column: str, change: Change, tmp_path: Path) -> None:
    indexed = {"NGRAM": "t", "LABEL_LIST": "l"}.get(kind, "k")
    made = Dataset.write(tmp_path, SMALL, max_rows_per_file=700).create_scalar_index(indexed, kind)
    assert made.verify().ok
    (problem,) = with_bad_column(made, column, change).verify().problems
    assert f"index '{indexed}_idx'" in problem.message
    assert "unlike a scan" in problem.message or "outside of the bounds of their page" in problem.message
