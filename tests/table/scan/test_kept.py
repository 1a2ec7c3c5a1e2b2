"""What a version keeps in memory for the next look-up is that version's alone, is bounded, and never changes what is found."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata import locations


@pytest.fixture
def table(tmp_path: Path) -> Dataset:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": range(3000), "v": [i * 10 for i in range(3000)]}), uri, max_rows_per_file=1000)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    return Dataset.open(uri)


def test_the_same_condition_finds_the_rows_of_each_version(table: Dataset) -> None:
    asked = "id IN (7, 1500)"
    assert table.to_table(filter=asked)["v"].to_pylist() == [70, 15_000]
    updated = table.update({"v": "-1"}, "id = 7")
    deleted = updated.delete("id = 1500")
    appended = deleted.insert(pa.table({"id": [7], "v": [1]}))
    for _ in range(2):
        assert table.to_table(filter=asked)["v"].to_pylist() == [70, 15_000]
        assert sorted(updated.to_table(filter=asked)["v"].to_pylist()) == [-1, 15_000]
        assert deleted.to_table(filter=asked)["v"].to_pylist() == [-1]
        assert sorted(appended.to_table(filter=asked)["v"].to_pylist()) == [-1, 1]


def test_the_same_condition_is_read_by_the_columns_of_each_version(table: Dataset) -> None:
    assert table.to_table(filter="id = 7 AND v = 70").num_rows == 1
    renamed = table.alter_columns({"path": "v", "name": "w"}).add_columns({"v": "id"})
    retyped = table.checkout_version(renamed.version).alter_columns({"path": "w", "data_type": pa.int32()})
    for _ in range(2):
        assert table.to_table(filter="id = 7 AND v = 70").to_pylist() == [{"id": 7, "v": 70}]
        assert renamed.to_table(filter="id = 7 AND v = 70").num_rows == 0
        assert renamed.to_table(filter="id = 7 AND v = 7").to_pylist() == [{"id": 7, "w": 70, "v": 7}]
        assert retyped.to_table(filter="id = 7 AND w = 70").to_pylist() == [{"id": 7, "w": 70, "v": 7}]


def test_rows_of_many_fragments_are_checked_together_in_their_order(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    texts = [f"name {i % 97}" for i in range(2000)]
    lance.write_dataset(pa.table({"id": range(2000), "text": texts}), uri, max_rows_per_file=100)
    lance.dataset(uri).create_scalar_index("text", "NGRAM")
    table = Dataset.open(uri).delete("id % 5 = 0")
    expected = [i for i, text in enumerate(texts) if "ame 96" in text and i % 5]
    assert "NGRAM" in table.scan(filter="contains(text, 'ame 96')").explain()
    assert table.to_table(["id"], "contains(text, 'ame 96')")["id"].to_pylist() == expected
    assert table.to_table(["id"], "contains(text, 'ame 96')", limit=3, offset=2)["id"].to_pylist() == expected[2:5]
    assert table.count_rows("contains(text, 'ame 96')") == len(expected)


def test_rows_that_an_index_has_shown_are_counted_without_being_read(table: Dataset) -> None:
    later = table.insert(pa.table({"id": [5, 6, 9000], "v": [0, 0, 0]})).delete("id = 1500")
    asked = "id < 2000 AND id > 4"
    assert "BTREE" in later.scan(filter=asked).explain()
    assert later.count_rows(asked) == later.to_table(filter=asked).num_rows == 1996
    for fragment in table.snapshot.manifest.fragments:
        (Path(table.uri) / "data" / fragment.files[0].path).unlink()
    assert Dataset.open(table.uri).count_rows(asked) == 1996


@pytest.mark.parametrize(
    "condition",
    ["at < now()", "at < current_timestamp", "at < Current_Timestamp()", "CAST(at AS DATE) < current_date", "CAST(at AS DATE) < CurDate()"],
)
def test_a_condition_on_the_time_is_read_anew(tmp_path: Path, condition: str) -> None:
    at = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    table = Dataset.write(str(tmp_path / "t"), pa.table({"at": at}))
    assert table.count_rows(condition) == 1
    first, second = (table.scan(filter=condition).plan.predicate for _ in range(2))
    assert first is not second
    first, second = (table.scan(filter="at IS NOT NULL").plan.predicate for _ in range(2))
    assert first is second


def test_conditions_take_bounded_memory(table: Dataset) -> None:
    long, kept = "x" * 50_000, table.snapshot.locations.kept
    for i in range(20):
        assert table.count_rows(f"id = {i} AND '{long}' <> 'y'") == 1
    assert kept._bytes <= locations.KEPT_BYTES
    assert 0 < sum(1 for key in kept._values if isinstance(key, tuple) and key[0] == "condition") < 20
