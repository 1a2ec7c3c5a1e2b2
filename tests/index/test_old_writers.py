"""Indexes of old writers, from golden/: used where they are right, and left unused where they are not."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset

GOLDEN = Path(__file__).parent / "golden"
FILTERS = ("i = 3", "i IN (1, 2, -7)", "i > 40", "i IS NULL", "i <> 3", "i BETWEEN -3 AND 3", "NOT (i < 10)")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bitmap_0_20_0", "old writers mixed up the rows"),
        ("btree_0_20_0", "loses the nulls of an index"),
        ("btree_0_33_0", ""),
        ("zone_map_0_37_0", ""),
    ],
)
def test_an_index_is_used_if_it_can_be_right(name: str, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    table = Dataset.open(GOLDEN / f"{name}.lance")
    with caplog.at_level(logging.WARNING):
        used = ["indexes: i_idx" in table.scan(filter=text).explain() for text in FILTERS]
    assert used == [not reason] * len(FILTERS)
    assert (reason in caplog.text) if reason else not caplog.records
    for text in FILTERS:
        plain = table.scan(["id"], filter=text, use_scalar_index=False).to_table()
        assert table.scan(["id"], filter=text).to_table() == plain, text
        assert table.count_rows(text) == plain.num_rows, text


@pytest.mark.parametrize("version", [-1, -(2**31), 2**31 - 1])
def test_a_version_that_no_index_has_is_not_used_and_said_once(version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = Dataset.write(tmp_path, pa.table({"i": range(100)})).create_scalar_index("i", "BTREE")
    manifest = table.snapshot.manifest
    odd = replace(manifest, indexes=tuple(replace(index, index_version=version) for index in manifest.indexes))
    with caplog.at_level(logging.WARNING):
        for number in range(2, 5):
            read = Dataset(replace(table.snapshot, manifest=replace(odd, version=number)))
            assert "i_idx" not in read.scan(filter="i = 3").explain()
            assert read.scan(filter="i = 3").to_table()["i"].to_pylist() == [3]
    assert [r.getMessage() for r in caplog.records] == [
        f"{tmp_path}: a segment of index 'i_idx' is not used: its version is {version}, but only versions from 0 to 1 are known"
    ]
