"""What a request has committed is found by the ids of its transactions, among versions of others, and not committed a second time."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from lance_spark import Dataset
from lance_spark.metadata.transaction_ids import ids_of, replay
from lance_spark.table.commit.asked_again import landed, landed_before

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


def test_the_versions_of_a_request_are_found_among_those_of_others(tmp_path: Path) -> None:
    table = Dataset.write(str(tmp_path / "t"), ROWS)
    with ids_of("mine"):
        Dataset.write(table.uri, ROWS, "append")
        lance.write_dataset(ROWS, table.uri, mode="append")
        Dataset.open(table.uri).delete("a = 1")
    with ids_of("another"):
        Dataset.write(table.uri, ROWS, "append")
    latest = Dataset.open(table.uri)
    store = latest.snapshot.store
    assert [each.version for each in landed_before(store, "mine", latest.version)] == [2, 4]
    assert [each.version for each in landed(store, "mine", range(3, 6))] == [4]
    assert [each.version for each in landed_before(store, "another", latest.version)] == [5]
    assert landed_before(store, "nobody's", latest.version) == []


def test_a_request_that_is_asked_again_ends_with_the_version_that_it_has_made(tmp_path: Path) -> None:
    table = Dataset.write(str(tmp_path / "t"), ROWS)
    with ids_of("mine"):
        table.delete("a = 1")
    with ids_of("mine"):
        replay("mine", [each.uuid for each in landed_before(table.snapshot.store, "mine", 2)])
        assert table.delete("a = 1").version == 2
    assert Dataset.open(table.uri).version == 2
    assert lance.dataset(table.uri).count_rows() == 1
