"""A segment of zones whose bitmap names a fragment without zones, as pylance makes it, is used for its other fragments."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.table.build.index_coverage import fragments_of


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": ids, "b": [i % 37 if i % 5 else None for i in ids]})


@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
def test_a_fragment_that_pylance_moved_is_scanned_and_the_others_are_looked_up(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    lance.dataset(uri).create_scalar_index("b", kind)
    lance.dataset(uri).delete("id % 7 = 1")
    lance.dataset(uri).update({"b": "b + 1"}, where="id % 6 = 0")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=400, defer_index_remap=True)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    table = Dataset.open(uri)
    assert any((fragments_of(i) or BitMap()) == BitMap([4]) for i in table.snapshot.manifest.indexes), "pylance wrote the new fragment"
    for condition in ("b = 5", "b IN (3, 40)", "b IS NULL", "b > 30"):
        without = table.scan(["id"], filter=condition, use_scalar_index=False).to_table()
        assert table.scan(["id"], filter=condition).to_table() == without
    assert table.verify().ok
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
def test_only_the_fragment_without_zones_is_dropped(kind: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    lance.dataset(uri).create_scalar_index("b", kind)
    lance.write_dataset(rows(300, 100), uri, mode="append")
    table = Dataset.open(uri)
    (index,) = table.snapshot.manifest.indexes
    more = replace(index, fragment_bitmap=BitMap(range(4)).serialize())
    table = Dataset(replace(table.snapshot, manifest=replace(table.snapshot.manifest, indexes=(more,))))
    shown = table.scan(filter="b = 36").explain()
    assert "scanned: 100 rows in 1 fragments" in shown
    for condition in ("b = 5", "b IS NULL"):
        without = table.scan(["id"], filter=condition, use_scalar_index=False).to_table()
        assert table.scan(["id"], filter=condition).to_table() == without
