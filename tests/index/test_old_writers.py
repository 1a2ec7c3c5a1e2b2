"""Indexes of old writers, from golden/: used where they are right, and left unused where they are not."""

from __future__ import annotations

import logging
from pathlib import Path

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
