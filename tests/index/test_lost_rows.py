"""A BTREE whose rows pylance lost, when it compacted rows that a fragment reuse index had moved, is not used for these rows."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset

CONDITIONS = ("b = 5", "b IN (3, 40)", "b IS NULL", "b > 30")


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": ids, "b": [i % 37 if i % 5 else None for i in ids]})


def moved_twice(uri: str, writer: str) -> None:
    """A table whose rows were moved by a deferred compaction of one `writer` and a second one of pylance."""
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    lance.dataset(uri).create_scalar_index("b", "BTREE")
    table = lance.dataset(uri) if writer == "pylance" else Dataset.open(uri)
    table.optimize.compact_files(target_rows_per_fragment=400, defer_index_remap=True)
    lance.dataset(uri).update({"b": "b + 1"}, where="id % 4 = 0")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=400)


def finds_what_a_scan_finds(table: Dataset) -> bool:
    scans = (table.scan(["id"], filter=c, use_scalar_index=False).to_table() for c in CONDITIONS)
    return all(table.scan(["id"], filter=c).to_table() == found for c, found in zip(CONDITIONS, scans))


@pytest.mark.parametrize("writer", ["pylance", "lance-spark"])
def test_rows_that_pylance_lost_are_scanned_and_optimizing_finds_them_again(writer: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    moved_twice(uri, writer)
    table = Dataset.open(uri)
    assert finds_what_a_scan_finds(table)
    assert "does not find row" in table.verify().problems[0].message, "this pylance finds the rows: the mend is no longer needed"

    lance.write_dataset(rows(300, 50), uri, mode="append")
    assert finds_what_a_scan_finds(Dataset.open(uri))
    Dataset.open(uri).optimize.compact_files(target_rows_per_fragment=400)
    assert finds_what_a_scan_finds(Dataset.open(uri))

    Dataset.open(uri).optimize.optimize_indices()
    after = Dataset.open(uri)
    assert after.verify().ok
    assert finds_what_a_scan_finds(after)
    assert "scanned: 0 rows" in after.scan(["id"], filter="b = 5").explain()
    # Deletions leave fewer rows than the entries of the index.
    deleted = after.delete("id > 80")
    assert finds_what_a_scan_finds(deleted)


def test_a_table_that_pylance_has_optimized_after_the_loss_has_all_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    moved_twice(uri, "pylance")
    lance.write_dataset(rows(300, 300), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    # As many rows are left as the index has entries.
    lance.dataset(uri).delete("id > 300")
    assert finds_what_a_scan_finds(Dataset.open(uri))


def test_compactions_of_lance_spark_alone_lose_no_rows(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t.lance", rows(0, 300), max_rows_per_file=100).create_scalar_index("b", "BTREE")
    table.optimize.compact_files(target_rows_per_fragment=400, defer_index_remap=True)
    table = Dataset.write(tmp_path / "t.lance", rows(300, 100), mode="append")
    table.optimize.optimize_indices()
    Dataset.open(tmp_path / "t.lance").optimize.compact_files(target_rows_per_fragment=800)
    table = Dataset.open(tmp_path / "t.lance")
    assert finds_what_a_scan_finds(table)
    assert "scanned: 0 rows" in table.scan(["id"], filter="b = 5").explain()
