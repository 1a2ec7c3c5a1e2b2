"""The reader of a stream, called as the processes of Spark call it: 4.2 and later with the start of a batch and a limit, before without."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from lance_spark import Dataset
from lance_spark.spark.read.stream_reader import LanceStreamReader
from lance_spark.spark.source import LanceDataSource


def write(uri: str, *ids: int) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{i}" for i in ids]})
    Dataset.write(uri, rows, mode="append" if Path(uri).exists() else "create", enable_stable_row_ids=True)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the ids 1 and 2, in one fragment each: version 2."""
    uri = str(tmp_path / "t.lance")
    write(uri, 1)
    write(uri, 2)
    return uri


def started(uri: str, schema: StructType | None = None, **options: Any) -> LanceStreamReader:
    """A reader in its process, which gets the source pickled."""
    source = pickle.loads(pickle.dumps(LanceDataSource({"path": uri, **{name.lower(): str(o) for name, o in options.items()}})))
    reader = source.streamReader(source.schema() if schema is None else schema)
    assert isinstance(reader, LanceStreamReader)
    return reader


def noted(offset: Any) -> Any:
    """The offset after it was written to the checkpoint."""
    return json.loads(json.dumps(offset))


def rows(reader: LanceStreamReader, start: Any, end: Any) -> list[tuple[Any, ...]]:
    """What the tasks of a batch return, each with a reader of its own."""
    found = []
    for task in reader.partitions(noted(start), noted(end)):
        apart, task = pickle.loads(pickle.dumps((reader, task)))
        found += [tuple(row.values()) for batch in apart.read(task) for row in batch.to_pylist()]
    return sorted(found, key=str)


def test_spark_4_2_gives_the_start_of_a_batch_and_a_limit(uri: str) -> None:
    reads = pytest.importorskip("pyspark.sql.streaming.datasource")
    reader = started(uri, maxFilesPerTrigger=1, maxRowsPerTrigger=5)
    assert reader.getDefaultReadLimit() == reads.ReadMaxFiles(1)
    reader.prepareForTriggerAvailableNow()
    write(uri, 3)
    start, found = reader.initialOffset(), []
    while (end := reader.latestOffset(noted(start), reads.ReadMaxFiles(1))) != start:
        found.append(rows(reader, start, end))
        start = end
    assert found == [[(1, "s1")], [(2, "s2")]]
    assert reader.reportLatestOffset() == start
    again = started(uri, maxFilesPerTrigger=1)
    every = again.latestOffset(noted(start), reads.ReadAllAvailable())
    assert rows(again, start, every) == [(3, "s3")]
    assert started(uri).getDefaultReadLimit() == reads.ReadAllAvailable()


def test_spark_4_0_gives_neither_so_the_reader_goes_on_by_itself(uri: str) -> None:
    reader = started(uri, maxFilesPerTrigger=1)
    first = reader.latestOffset()
    assert rows(reader, reader.initialOffset(), first) == [(1, "s1")]
    second = reader.latestOffset()
    assert rows(reader, first, second) == [(2, "s2")]
    write(uri, 3)
    restarted = started(uri, maxFilesPerTrigger=1)
    assert restarted.partitions(noted(second), noted(second)) == []
    assert rows(restarted, second, restarted.latestOffset()) == [(3, "s3")]


def test_the_first_batch_is_the_same_when_it_is_repeated_from_a_new_start(uri: str) -> None:
    reader = started(uri)
    end = reader.latestOffset()
    write(uri, 3)
    again = started(uri)
    # Spark keeps no offset of the start, and asks for it again.
    assert rows(again, again.initialOffset(), end) == [(1, "s1"), (2, "s2")]


def test_changes_columns_and_filters(uri: str) -> None:
    Dataset.open(uri).update({"s": "'x'"}, "id = 2")
    reader = started(uri, readChangeFeed="true", startingVersion=2, columns="s", filter="_change_type <> 'update_preimage'")
    found = rows(reader, reader.initialOffset(), reader.latestOffset())
    assert [row[:3] for row in found] == [("s2", "insert", 2), ("x", "update_postimage", 3)]
    reader = started(uri, StructType().add("ID", "long"), startingVersion=1, skipChangeCommits="true", filter="s = 's1'")
    assert rows(reader, reader.initialOffset(), reader.latestOffset()) == [(1,)]
    Dataset.open(uri).add_columns({"t": "s"})
    snapshot = started(uri, readChangeFeed="true")
    found = rows(snapshot, snapshot.initialOffset(), snapshot.latestOffset())
    assert [row[:5] for row in found] == [(1, "s1", "s1", "insert", 4), (2, "x", "x", "insert", 4)]
