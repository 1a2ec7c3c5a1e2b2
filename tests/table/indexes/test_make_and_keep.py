"""Indexes that are made and kept by this package give the rows of a scan, here and in pylance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.index.value_types import TAKES
from tests.table.indexes.columns import conditions, table

ROWS = table(2000)


KINDS = [
    ("BTREE", False),
    ("BTREE", True),
    ("BITMAP", False),
    ("LABEL_LIST", True),
    ("NGRAM", True),
    ("FM", True),
    ("ZONEMAP", True),
    ("BLOOMFILTER", False),
]
"""Kinds, and whether the table has stable row ids."""


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def check(path: Path, columns: list[str]) -> set[str]:
    """Compare all conditions with and without indexes, here and in pylance; return the indexes that `explain` names."""
    ours, theirs = Dataset.open(path), lance.dataset(path)
    used: set[str] = set()
    for column in columns:
        for condition in conditions(column):
            rows, scanned = (ids(ours.scan(columns=["id"], filter=condition, use_scalar_index=use).to_table()) for use in (True, False))
            assert rows == scanned, condition
            explained = ours.scan(columns=["id"], filter=condition).explain()
            used |= {name for name in (f"{column}_idx",) if name in explained}
            check_pylance(theirs, condition)
    return used


def check_pylance(theirs: lance.LanceDataset, condition: str) -> None:
    if "isnan" in condition or " X'" in condition or "price" in condition:
        return  # not in its dialect
    text = condition.replace("arrays_overlap", "array_has_any").replace("array(", "make_array(")
    rows, scanned = (ids(theirs.scanner(columns=["id"], filter=text, use_scalar_index=use).to_table()) for use in (True, False))
    assert rows == scanned, condition


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "stable"), KINDS)
def test_every_kind_answers_as_a_scan_does_for_every_type(kind: str, stable: bool, tmp_path: Path) -> None:
    columns = [f.name for f in ROWS.schema if TAKES[kind](f.type) and f.name != "id"]
    Dataset.write(tmp_path, ROWS, max_rows_per_file=700, enable_stable_row_ids=stable)
    lance.dataset(tmp_path).delete("id % 7 = 3")
    made = Dataset.open(tmp_path)
    for column in columns:
        made = made.create_scalar_index(column, kind)
    used = check(tmp_path, columns)
    assert len(used) >= 0.7 * len(columns) or kind in ("NGRAM", "FM")
    probe = {"NGRAM": "contains(text, 'def')", "FM": "contains(text, 'def')", "LABEL_LIST": "array_has(labels, 't3')"}.get(
        kind, "small = 5"
    )
    assert "ScalarIndexQuery" in lance.dataset(tmp_path).scanner(filter=probe).explain_plan()
    lance.write_dataset(ROWS.slice(0, 100), tmp_path, mode="append")
    delta = Dataset.open(tmp_path).optimize.optimize_indices(num_indices_to_merge=0)
    assert len(delta.list_indices()) == 2 * len(columns)
    check(tmp_path, columns[:3])
    merged = delta.optimize.optimize_indices()
    assert len(merged.list_indices()) == len(columns)
    assert all(merged.index_statistics(f"{c}_idx")["num_unindexed_rows"] == 0 for c in columns)
    check(tmp_path, columns[:3])
    lance.write_dataset(ROWS.slice(0, 100), tmp_path, mode="append")
    lance.dataset(tmp_path).optimize.optimize_indices()
    assert len(Dataset.open(tmp_path).list_indices()) == len(columns)
    check(tmp_path, columns[:3])


def test_merging_leaves_out_the_old_values_of_updated_rows_with_stable_row_ids(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, pa.table({"id": range(100), "v": [1] * 100}), enable_stable_row_ids=True)
    made = made.create_scalar_index("v", "BITMAP").update({"v": "2"}, "id < 10").optimize.optimize_indices()
    assert len(made.list_indices()) == 1
    assert (made.count_rows("v = 1"), made.count_rows("v = 2")) == (90, 10)
    assert lance.dataset(tmp_path).count_rows("v = 1") == 90


@pytest.mark.parametrize("kind", sorted(TAKES.keys() - {"JSON", "INVERTED", "RTREE"}))
def test_an_index_of_no_rows_is_extended_later(kind: str, tmp_path: Path) -> None:
    column = {"LABEL_LIST": "labels", "NGRAM": "text", "FM": "text", "MINHASHLSH": "text"}.get(kind, "small")
    empty = Dataset.write(tmp_path, ROWS.slice(0, 0)).create_scalar_index(column, kind)
    assert lance.dataset(tmp_path).describe_indices()[0].name == f"{column}_idx"
    assert empty.count_rows(f"{column} IS NULL") == 0
    filled = Dataset.write(tmp_path, ROWS, mode="append").create_scalar_index(column, kind, name="untrained", train=False)
    assert filled.index_statistics("untrained")["num_indexed_rows"] == 0
    check(tmp_path, [column])
    done = filled.optimize.optimize_indices()
    assert done.index_statistics("untrained")["num_unindexed_rows"] == 0
    check(tmp_path, [column])


def test_an_index_is_replaced_dropped_and_listed(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, pa.table({"s": [{"x": i} for i in range(10)]})).create_scalar_index("s.x", "BTREE")
    (first,) = made.list_indices()
    assert (first["name"], first["fields"], first["fragment_ids"]) == ("s.x_idx", ["s.x"], {0})
    with pytest.raises(InvalidOptionError, match="already has an index"):
        made.create_scalar_index("s.x", "BITMAP", "s.x_idx", replace=False)
    replaced = made.create_scalar_index("s.x", "BITMAP", "s.x_idx")
    assert [i["type"] for i in replaced.list_indices()] == ["Bitmap"]
    assert replaced.count_rows("s.x = 3") == lance.dataset(tmp_path).count_rows("s.x = 3") == 1
    dropped = replaced.drop_index("s.x_idx")
    assert dropped.list_indices() == lance.dataset(tmp_path).describe_indices() == []
    with pytest.raises(InvalidOptionError, match=r"no index 's\.x_idx'"):
        dropped.drop_index("s.x_idx")


def test_a_default_name_never_replaces_an_index_of_another_kind_or_column(tmp_path: Path) -> None:
    rows = pa.table({"id": range(10), "other": range(10), "note": ["some text"] * 10})
    theirs = lance.write_dataset(rows, tmp_path)
    theirs.create_scalar_index("note", "INVERTED")
    theirs.create_scalar_index("other", "BTREE", name="id_idx")
    table = Dataset.open(tmp_path)
    for column, kind in (("note", "NGRAM"), ("note", "BITMAP"), ("id", "BTREE"), ("id", "BITMAP"), ("note", "NGRAM"), ("id", "BTREE")):
        table = table.create_scalar_index(column, kind)
        theirs.checkout_latest()
    expected = {
        "note_idx": ("note", "Inverted"), "note_idx_2": ("note", "NGram"), "note_idx_3": ("note", "Bitmap"),
        "id_idx": ("other", "BTree"), "id_idx_2": ("id", "BTree"), "id_idx_3": ("id", "Bitmap"),
    }  # fmt: skip
    assert {i["name"]: (i["fields"][0], i["type"]) for i in table.list_indices()} == expected
    assert {i.name for i in theirs.describe_indices()} == expected.keys()
    assert theirs.to_table(full_text_query="text").num_rows == 10
    with pytest.raises(InvalidOptionError, match="already has an index 'id_idx' of another column"):
        table.create_scalar_index("id", "BTREE", "id_idx")


def test_what_cannot_be_indexed_is_refused(tmp_path: Path) -> None:
    plain = Dataset.write(tmp_path, ROWS.slice(0, 10))
    for column, kind in (("flag", "BLOOMFILTER"), ("small", "NGRAM"), ("text", "LABEL_LIST"), ("labels", "BTREE"), ("half", "BLOOMFILTER")):
        with pytest.raises(InvalidOptionError, match=f"of the kind {kind} cannot be built for column '{column}'"):
            plain.create_scalar_index(column, kind)
    with pytest.raises(InvalidOptionError, match="unknown kind of index 'HASH'"):
        plain.create_scalar_index("small", "HASH")
    with pytest.raises(InvalidOptionError, match="RTREE cannot be built for column 'text': its extension is not one of GeoArrow"):
        plain.create_scalar_index("text", "RTREE")
    with pytest.raises(InvalidOptionError, match="no parameter 'commit_message'; its parameters are: none"):
        plain.create_scalar_index("small", "BTREE", commit_message="an index")
    with pytest.raises(InvalidOptionError, match="rows_per_zone"):
        plain.create_scalar_index("small", "ZONEMAP", rows_per_zone=0)
    assert not list(tmp_path.glob("_indices/*"))


def test_missing_vectors_are_found_by_their_zones(tmp_path: Path) -> None:
    vectors = pa.array([None if i % 10 == 3 else [i, 0.5] for i in range(1000)], pa.list_(pa.float32(), 2))
    rows = pa.table({"id": range(1000), "v": vectors})
    Dataset.write(tmp_path, rows.slice(0, 600), max_rows_per_file=200).create_scalar_index("v", "ZONEMAP", rows_per_zone=5)
    table = Dataset.write(tmp_path, rows.slice(600), mode="append").optimize.optimize_indices().delete("id = 13")
    for condition in ("v IS NULL", "v IS NOT NULL", "v IS NULL AND id > 500"):
        expected = lance.dataset(tmp_path).scanner(filter=condition, use_scalar_index=False).to_table()
        assert table.scan(filter=condition).to_table() == lance.dataset(tmp_path).to_table(filter=condition) == expected
    assert "rows left by the indexes: 100 of 999, in 4 of 4 fragments; 0 of them" in table.scan(filter="v IS NULL").explain()
    assert "ScalarIndexQuery" in lance.dataset(tmp_path).scanner(filter="v IS NULL").explain_plan()


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_nan_with_and_without_a_sign_is_found_here_and_in_pylance(kind: str, tmp_path: Path) -> None:
    """Divisions of zero by zero give NaNs with a sign on most machines."""
    numbers = pa.array([1.0, -math.nan, math.inf, -math.inf, 2.0, math.nan] * 1000, pa.float64())
    rows = pa.table({"id": range(6000), "x": numbers})
    Dataset.write(tmp_path / "ours", rows).create_scalar_index("x", kind)
    lance.write_dataset(rows, tmp_path / "theirs").create_scalar_index("x", kind)
    for name in ("ours", "theirs"):
        for condition in ("x > 0", "x < 5", "x >= 2", "x = 1", "x <> 1", "x > 7", "x IN (2, 7)", "isnan(x)"):
            check_pylance(lance.dataset(tmp_path / name), condition)
            table = Dataset.open(tmp_path / name)
            found, scanned = (ids(table.scan(filter=condition, use_scalar_index=use).to_table()) for use in (True, False))
            assert found == scanned, condition


def test_zones_and_filters_have_the_given_size(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, ROWS).create_scalar_index("id", "ZONEMAP", rows_per_zone=100)
    assert lance.dataset(tmp_path).stats.index_stats("id_idx")["indices"] == [{"num_zones": 20, "rows_per_zone": 100}]
    made.create_scalar_index("id", "BLOOMFILTER", name="bloom", number_of_items=500, probability=0.1)
    Dataset.write(tmp_path, ROWS.slice(0, 300), mode="append").optimize.optimize_indices()
    assert lance.dataset(tmp_path).stats.index_stats("id_idx")["indices"] == [{"num_zones": 23, "rows_per_zone": 100}]
    check(tmp_path, ["id"])


@pytest.mark.parametrize("stable", [False, True])
def test_indexes_follow_the_rows_that_compaction_moves(stable: bool, tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, ROWS, max_rows_per_file=350, enable_stable_row_ids=stable)
    for kind, column in FOLLOWED.items():
        made = made.create_scalar_index(column, kind, name=kind)
    lance.dataset(tmp_path).delete("id % 5 = 2 OR id BETWEEN 400 AND 700")
    compacted = Dataset.open(tmp_path).optimize.compact_files(target_rows_per_fragment=600)
    assert len(compacted.snapshot.manifest.fragments) == 3
    assert {kind: compacted.index_statistics(kind)["num_unindexed_rows"] for kind in FOLLOWED} == dict.fromkeys(FOLLOWED, 0)
    check(tmp_path, list(FOLLOWED.values()))
    for kind, column in FOLLOWED.items():
        explained = [compacted.scan(filter=condition).explain() for condition in conditions(column)]
        assert any(kind in text for text in explained), kind
    assert compacted.verify().ok


def test_a_deferred_compaction_records_where_the_rows_went(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, ROWS, max_rows_per_file=350)
    for kind, column in FOLLOWED.items():
        made = made.create_scalar_index(column, kind, name=kind)
    before = {i["uuid"] for i in made.list_indices() if i["type"] not in ("ZoneMap", "BloomFilter")}
    deleted = made.delete("id % 5 = 2")
    moved = deleted.optimize.compact_files(target_rows_per_fragment=600, defer_index_remap=True)
    # One commit reserves the ids of the new fragments; the next one has both the fragments and the record.
    assert [e.operation for e in moved.history(2)] == ["Rewrite", "ReserveFragments"]
    assert moved.version == deleted.version + 2
    assert before <= {i["uuid"] for i in moved.list_indices()}
    theirs = {i["name"]: i["fragment_ids"] for i in listed_by_pylance(tmp_path) if i["uuid"] in before}
    assert {i["name"]: i["fragment_ids"] for i in moved.list_indices() if i["uuid"] in before} == theirs
    assert "ScalarIndexQuery" in lance.dataset(tmp_path).scanner(filter="small = 5").explain_plan()
    check(tmp_path, list(FOLLOWED.values()))
    theirs = lance.dataset(tmp_path).stats.index_stats("__lance_frag_reuse")
    assert theirs["num_versions"] == 1
    again = moved.delete("id % 7 = 1").optimize.compact_files(target_rows_per_fragment=5000)
    # Readers do not look for the rows of an FM index where they have moved, so that it covers them no more.
    kept = [kind for kind in FOLLOWED if kind != "FM"]
    assert {kind: again.index_statistics(kind)["num_unindexed_rows"] for kind in kept} == dict.fromkeys(kept, 0)
    check(tmp_path, list(FOLLOWED.values()))


def listed_by_pylance(path: Path) -> list[dict[str, Any]]:
    with pytest.warns(DeprecationWarning, match="describe_indices"):
        return list(lance.dataset(path).list_indices())


FOLLOWED = {
    "BTREE": "small",
    "BITMAP": "text",
    "LABEL_LIST": "labels",
    "NGRAM": "long",
    "FM": "long",
    "ZONEMAP": "day",
    "BLOOMFILTER": "big",
}
"""A column for each kind."""
