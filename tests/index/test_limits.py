"""Indexes are used, and stay right, on both sides of every limit of memory. The limits are lowered here."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.buffers.cache import Cache
from lance_spark.index import bitmap, btree

ROWS = 3000
FILTERS = (
    "k = 17",
    "k IN (1, 500, 999, 5000)",
    "k BETWEEN 30 AND 60",
    "k < 8 OR k > 990",
    "k IS NULL",
    "k IS NULL OR k = 3",
    "k % 50 = 7",
    "f = 0",
    "isnan(f)",
    "f > 990",
    "s LIKE 's77%'",
    "s > 's98'",
    "s = ''",
)


@pytest.fixture(scope="module", params=["ours", "pylance"])
def many_keys(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with three BITMAP indexes of a thousand keys each."""
    path = tmp_path_factory.mktemp(request.param) / "t.lance"
    rng = random.Random(4)
    keys = [rng.choice([None, *range(1000)]) if i % 9 else None for i in range(ROWS)]
    floats = [rng.choice([float("nan"), -0.0, 0.0, *map(float, range(1000))]) for _ in range(ROWS)]
    texts = [rng.choice(["", *(f"s{i}" for i in range(1000))]) for _ in range(ROWS)]
    Dataset.write(path, pa.table({"k": keys, "f": floats, "s": texts}), max_rows_per_file=1000)
    for column in ("k", "f", "s"):
        if request.param == "ours":
            Dataset.open(path).create_scalar_index(column, "BITMAP")
        else:
            lance.dataset(path).create_scalar_index(column, "BITMAP")
    return path


def same_rows(table: Dataset) -> int:
    """Check all filters; returns for how many an index was used."""
    used = 0
    for text in FILTERS:
        plain = table.scan(filter=text, use_scalar_index=False).to_table()
        scan = table.scan(filter=text)
        assert str(scan.to_table().to_pylist()) == str(plain.to_pylist()), text
        assert table.count_rows(text) == plain.num_rows, text
        used += "indexes: none" not in scan.explain()
    return used


@pytest.mark.matrix
@pytest.mark.parametrize("page", [1, 7, 999, 4096])
def test_a_bitmap_of_more_keys_than_stay_in_memory_is_read_in_pages(many_keys: Path, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitmap, "_KEPT_KEYS", 100)
    monkeypatch.setattr(bitmap, "_PAGE_KEYS", page)
    monkeypatch.setattr(bitmap, "_FEW_KEYS", 3)
    monkeypatch.setattr("lance_spark.index.files._CACHE", Cache(1 << 20))
    assert same_rows(Dataset.open(many_keys)) == len(FILTERS)


@pytest.mark.parametrize("most", [1, 20])
def test_a_bitmap_that_would_find_too_many_rows_is_not_used(many_keys: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in {"_KEPT_KEYS": 100, "_FEW_KEYS": 3, "_FEW_ROWS": most, "_MOST_ROWS": most}.items():
        monkeypatch.setattr(bitmap, limit, value)
    assert same_rows(Dataset.open(many_keys)) < len(FILTERS)


def test_keys_in_pages_that_are_not_in_order_leave_the_index_unused(
    many_keys: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for limit, value in {"_KEPT_KEYS": 100, "_PAGE_KEYS": 5}.items():
        monkeypatch.setattr(bitmap, limit, value)
    monkeypatch.setattr("lance_spark.index.files._CACHE", Cache(1 << 20))
    monkeypatch.setattr(bitmap, "sort_order", lambda keys: range(len(keys))[::-1])
    assert same_rows(Dataset.open(many_keys)) == 0
    assert "the keys are not in ascending order" in caplog.text


@pytest.mark.parametrize(
    ("limit", "value"), [("_FEW_ROWS", 1), ("_QUICKLY_READ", 1), ("_KEPT_PAGES", 0), ("_MOST_ROWS", 10), ("_MOST_ROWS", 2000)]
)
def test_a_btree_is_right_on_both_sides_of_its_limits(tmp_path: Path, limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(btree, "PAGE_ROWS", 64)
    rng = random.Random(4)
    columns = {"k": [rng.choice([None, *range(1000)]) for _ in range(ROWS)], "f": [rng.random() * 1000 for _ in range(ROWS)]}
    made = Dataset.write(tmp_path, pa.table({**columns, "s": [f"s{i % 1000}" for i in range(ROWS)]}))
    for column in ("k", "f", "s"):
        made = made.create_scalar_index(column, "BTREE")
    for other in ("_FEW_ROWS", "_QUICKLY_READ"):
        monkeypatch.setattr(btree, other, 1)
    monkeypatch.setattr(btree, limit, value)
    assert same_rows(made) >= 1


def test_segments_are_joined_up_to_a_number_of_rows_the_smallest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.indexes.optimize.MAX_MERGED_ROWS", 100)
    made = Dataset.write(tmp_path, pa.table({"k": range(90)})).create_scalar_index("k", "BTREE")
    for start, count, expected in ((90, 30, [30, 90]), (120, 30, [60, 90]), (150, 41, [41, 60, 90]), (191, 200, [41, 60, 90, 200])):
        rows = pa.table({"k": range(start, start + count)})
        made = Dataset.write(tmp_path, rows, mode="append").optimize.optimize_indices()
        assert sorted(made.index_statistics("k_idx")["num_indexed_rows_per_delta"]) == expected
        assert made.count_rows("k >= 20") == lance.dataset(tmp_path).count_rows("k >= 20") == start + count - 20
    assert made.optimize.optimize_indices().version == made.version
