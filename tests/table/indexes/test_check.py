"""`verify` compares indexes with the rows that they cover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.index.value_types import TAKES
from lance_spark.operations import CreateIndex
from tests.table.indexes.columns import table

ROWS = table(600)


@pytest.mark.parametrize("stable", [False, True])
def test_good_indexes_of_both_writers_have_no_problems(stable: bool, tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, ROWS, max_rows_per_file=250, enable_stable_row_ids=stable)
    for kind in TAKES.keys() - {"JSON"}:
        column = {"LABEL_LIST": "labels", "NGRAM": "text"}.get(kind, "double")
        made = made.create_scalar_index(column, kind, name=f"ours_{kind}")
        lance.dataset(tmp_path).create_scalar_index(column, kind, name=f"theirs_{kind}")
        made = Dataset.open(tmp_path)
    report = made.delete("id % 3 = 1").verify()
    assert report.ok, report


@pytest.mark.parametrize("kind", sorted(TAKES.keys() - {"JSON"}))
def test_an_index_of_other_rows_is_found(kind: str, tmp_path: Path) -> None:
    column = {"LABEL_LIST": "labels", "NGRAM": "text", "BLOOMFILTER": "text"}.get(kind, "id")
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
