"""What a stream reads, batch by batch. `Reader` does what Spark does with a stream: it notes offsets, and reads what lies between two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError, VersionNotFoundError
from lance_spark.table.feed.changes import Changes, changes
from lance_spark.table.feed.offset import Offset
from lance_spark.table.feed.options import FeedOptions
from lance_spark.table.feed.stream import TableStream
from lance_spark.table.scan.plan import ScanPlan


class Reader:
    """A query with a checkpoint: the offsets in `noted`, as text."""

    def __init__(self, uri: str, columns: Sequence[str] | None = None, branch: str | None = None, **options: Any) -> None:
        self.uri, self.columns, self.branch, self.options = uri, columns, branch, FeedOptions(**options)
        self.noted: list[str] = []
        self.stream = self.started()

    def started(self) -> TableStream:
        """Start the query: load the table, and use its columns."""
        snapshot = Dataset.open(self.uri, branch=self.branch).snapshot
        plan = ScanPlan(None if self.columns is None else tuple(self.columns))
        shape = Changes(snapshot, snapshot.version, snapshot.version, plan)
        if self.options.changes:
            shape = changes(snapshot, snapshot.version, plan.columns, None, False, "bytes")
        self.stream = TableStream(shape, self.options, cores=2)
        return self.stream

    def offset(self, number: int) -> Offset:
        return Offset.from_json(json.loads(self.noted[number])) if number >= 0 else self.stream.initial()

    def plan(self, limited: bool = True) -> bool:
        """Note the end of the next batch; False if there is none."""
        at = self.offset(len(self.noted) - 1)
        end = self.stream.advance(at, limited)
        if end != at:
            self.noted.append(json.dumps(end.to_json()))
        return end != at

    def read(self, number: int) -> list[dict[str, Any]]:
        """The rows of a batch."""
        tasks = self.stream.tasks(self.offset(number - 1), self.offset(number))
        return [row for task in tasks for batch in task.read() for row in batch.to_pylist()]

    def ids(self, number: int) -> list[int]:
        return sorted(row["id"] for row in self.read(number))

    def batches(self) -> list[list[int]]:
        """Read all new batches: the ids of each."""
        first = len(self.noted)
        while self.plan():
            pass
        return [self.ids(number) for number in range(first, len(self.noted))]


def write(uri: str, *ids: int, **options: Any) -> Dataset:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{i}" for i in ids]})
    return Dataset.write(uri, rows, mode="append" if Path(uri).exists() else "create", **options)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the ids 1 and 2, in one fragment each: version 2."""
    uri = str(tmp_path / "t.lance")
    write(uri, 1, enable_stable_row_ids=True)
    write(uri, 2)
    return uri


def test_the_rows_that_are_there_come_first_and_appended_ones_follow(uri: str) -> None:
    reader = Reader(uri)
    assert reader.batches() == [[1, 2]]
    assert reader.batches() == []
    write(uri, 3)
    lance.write_dataset(pa.table({"id": [4], "s": ["s4"]}), uri, mode="append")
    assert reader.batches() == [[3, 4]]
    reader.started()
    write(uri, 5)
    assert reader.batches() == [[5]]


def test_a_repeated_batch_has_the_same_rows_whatever_happened_meanwhile(uri: str) -> None:
    reader = Reader(uri)
    write(uri, 3, 4)
    reader.plan()
    write(uri, 5)
    reader.plan()
    Dataset.open(uri).delete("id IN (1, 5)")
    write(uri, 6).optimize.compact_files()
    lance.dataset(uri).optimize.compact_files()
    reader.started()  # the first snapshot of this one would be another version
    assert [reader.ids(0), reader.ids(1)] == [[1, 2, 3, 4], [5]]


@pytest.mark.parametrize(
    ("start", "batches"),
    [
        ({"starting_version": 0}, [[1, 2, 3]]),
        ({"starting_version": 2}, [[2, 3]]),
        ({"starting_version": 3}, [[3]]),
        ({"starting_version": "latest"}, []),
        ({"starting_version": 9}, []),
    ],
)
def test_a_start_chooses_the_first_commit_and_a_checkpoint_overrules_it(uri: str, start: dict[str, Any], batches: list[list[int]]) -> None:
    write(uri, 3)
    reader = Reader(uri, **start)
    assert reader.batches() == batches
    if reader.noted:
        reader.options = FeedOptions(starting_version="latest")
        reader.started()
        assert reader.ids(0) == batches[0]
        write(uri, 4)
        assert reader.batches() == [[4]]


def test_a_time_chooses_the_first_version_at_it_or_later(uri: str) -> None:
    times = [entry.timestamp for entry in write(uri, 3).history()][::-1]
    assert Reader(uri, starting_timestamp=times[1]).batches() == [[2, 3]]
    assert Reader(uri, starting_timestamp=times[2].replace(year=2999)).batches() == []


def test_limits_end_batches_and_the_first_fragment_always_fits(uri: str) -> None:
    for i in range(3, 11):
        write(uri, i)
    assert Reader(uri, max_files=3).batches() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]
    assert Reader(uri, max_rows=4, starting_version=2).batches() == [[2, 3, 4, 5], [6, 7, 8, 9], [10]]
    assert Reader(uri, max_bytes=1, starting_version=9).batches() == [[9], [10]]
    Dataset.write(uri, pa.table({"id": range(11, 17), "s": list("abcdef")}), mode="append", max_rows_per_file=2)
    reader = Reader(uri, max_rows=3, starting_version=11)
    assert reader.batches() == [[11, 12], [13, 14], [15, 16]], "a commit is split between its fragments"
    reader.started()
    assert reader.ids(1) == [13, 14]
    unlimited = Reader(uri, max_files=3)
    unlimited.plan(limited=False)
    assert len(unlimited.ids(0)) == 16


def test_available_now_ends_with_the_version_that_was_the_latest(uri: str) -> None:
    reader = Reader(uri, max_files=1)
    reader.stream.end_now()
    write(uri, 3)
    assert reader.batches() == [[1], [2]]


def test_commits_without_new_rows_give_none(uri: str) -> None:
    reader = Reader(uri)
    assert reader.batches() == [[1, 2]]
    Dataset.open(uri).optimize.compact_files()
    Dataset.open(uri).create_scalar_index("id", "BTREE").add_columns({"t": "s"})
    lance.dataset(uri).update_config({"a": "b"})
    lance.dataset(uri).merge_insert("id").when_not_matched_insert_all().execute(pa.table({"id": [3], "s": ["s3"], "t": ["t"]}))
    assert [ids for ids in reader.batches() if ids] == [[3]], "a merge that only inserts is an append"


@pytest.mark.parametrize(
    ("change", "ignores_deletes"),
    [
        (lambda t: t.update({"s": "'x'"}, "id = 1"), False),
        (lambda t: t.delete("id = 1"), True),
        (lambda t: Dataset.write(t.uri, pa.table({"id": [9], "s": ["s"]}), mode="overwrite"), False),
        (lambda t: t.delete("id = 1") and Dataset.open(t.uri, version=2).restore(), False),
    ],
    ids=["update", "delete", "overwrite", "restore"],
)
def test_changed_rows_stop_a_stream_unless_it_leaves_them_out(uri: str, change: Any, ignores_deletes: bool) -> None:
    change(Dataset.open(uri))
    write(uri, 3)
    with pytest.raises(
        UnsupportedFeatureError, match=r"version 3: the commit .* skipChangeCommits=true.* ignoreDeletes=true.* readChangeFeed"
    ):
        Reader(uri, starting_version=3).batches()
    assert Reader(uri, starting_version=3, skip_change_commits=True).batches() == [[3]]
    if ignores_deletes:
        assert Reader(uri, starting_version=3, ignore_deletes=True).batches() == [[3]]
    else:
        with pytest.raises(UnsupportedFeatureError, match="changed or deleted rows"):
            Reader(uri, starting_version=3, ignore_deletes=True).batches()


def test_the_stream_of_changes_gives_table_after_table(uri: str) -> None:
    reader = Reader(uri, changes=True, max_rows=2)
    state: dict[int, str] = {}

    def follow() -> None:
        while reader.plan():
            for row in reader.read(len(reader.noted) - 1):
                if row["_change_type"] in ("delete", "update_preimage"):
                    assert state.pop(row["id"]) == row["s"]
                else:
                    state[row["id"]] = row["s"]
        assert state == {row["id"]: row["s"] for row in Dataset.open(uri).scan().to_table().to_pylist()}

    follow()
    Dataset.open(uri).update({"s": "'x'"}, "id = 1").delete("id = 2")
    write(uri, 3, 4, 5)
    follow()
    reader.started()
    Dataset.open(uri).optimize.compact_files()
    Dataset.open(uri, version=3).restore()
    write(uri, 6)
    follow()
    assert [row["_commit_version"] for row in reader.read(0)] == [2, 2], "rows that were there at the start are inserts of that version"


def test_removed_versions_stop_a_stream_unless_it_may_lose_rows(uri: str) -> None:
    reader = Reader(uri)
    reader.batches()
    for i in (3, 4, 5, 6):
        write(uri, i)
    for version in (3, 4):
        (Path(uri) / "_versions" / f"{2**64 - 1 - version:020}.manifest").unlink()
    for reads_changes in (False, True):
        reader.options = FeedOptions(changes=reads_changes)
        reader.started()
        with pytest.raises(
            VersionNotFoundError, match=r"needs version 3, which was removed; the next one is version 5\. .*failOnDataLoss=false"
        ):
            reader.batches()
    reader.options = FeedOptions(fail_on_data_loss=False)
    reader.started()
    assert reader.batches() == [[6]]
    assert Reader(uri, changes=True, starting_version=2, fail_on_data_loss=False).batches() == [[2, 6]]


def test_a_table_that_was_made_anew_stops_the_stream(uri: str) -> None:
    reader = Reader(uri)
    reader.batches()
    for path in sorted(Path(uri).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    Path(uri).rmdir()
    for i in range(4):
        write(uri, i)
    with pytest.raises(VersionNotFoundError, match="made anew"):
        reader.batches()
    reader.started()
    with pytest.raises(VersionNotFoundError, match=r"which the stream has read, .*made anew; start it with a new checkpoint"):
        reader.batches()


def test_new_columns_are_left_out_until_the_stream_is_started_again(uri: str) -> None:
    reader = Reader(uri)
    reader.batches()
    write(uri, 3)
    Dataset.open(uri).add_columns({"t": "concat(s, '!')"})
    Dataset.write(uri, pa.table({"id": [4], "s": ["s4"], "t": ["t4"]}), mode="append")
    reader.plan()
    assert reader.read(-1 + len(reader.noted)) == [{"id": 3, "s": "s3"}, {"id": 4, "s": "s4"}]
    reader.started()
    assert [row["t"] for row in reader.read(len(reader.noted) - 1)] == [None, "t4"], "row 3 had no t when it was appended"


@pytest.mark.parametrize("changes", [False, True], ids=["rows", "changes"])
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.drop_columns(["s"]),
        lambda t: lance.dataset(t.uri).alter_columns({"path": "s", "name": "renamed"}),
        lambda t: t.alter_columns({"path": "id", "data_type": pa.int32()}),
    ],
    ids=["drop", "rename", "cast"],
)
def test_other_columns_stop_the_stream_which_goes_on_when_it_is_started_again(uri: str, change: Any, changes: bool) -> None:
    reader = Reader(uri, changes=changes)
    reader.batches()
    write(uri, 3)
    change(Dataset.open(uri))
    with pytest.raises(
        SchemaMismatchError, match=r"version 4: the columns are no longer those .* Load the table and start the stream again"
    ):
        reader.batches()
    reader.started()
    assert reader.batches() == [[3]]
    names = set(Dataset.open(uri).schema.names)
    assert set(reader.read(len(reader.noted) - 1)[0]) >= names


def test_a_branch_is_read_by_itself(uri: str) -> None:
    Dataset.open(uri).create_branch("side")
    reader = Reader(uri, branch="side")
    assert reader.batches() == [[1, 2]]
    write(uri, 3)
    side = lance.dataset(uri).checkout_version(("side", None))
    lance.write_dataset(pa.table({"id": [4], "s": ["s4"]}), side, mode="append")
    assert reader.batches() == [[4]]


def test_an_idle_stream_looks_for_the_next_version_only(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(uri)
    reader.batches()
    looks: list[str] = []

    def noting(name: str, real: Any) -> Any:
        def look(self: Any, *arguments: Any) -> Any:
            looks.append(name)
            return real(self, *arguments)

        return look

    store = type(reader.stream.latest().store)
    for name in ("read", "read_end", "read_tail", "names", "list", "exists"):
        monkeypatch.setattr(store, name, noting(name, getattr(store, name)))
    assert not reader.plan()
    assert looks == ["exists"]


def test_the_offsets_of_other_sources_are_refused() -> None:
    others: list[Any] = [{"version": 3}, [], {"version": "x", "fragments": 0, "snapshot": False, "start": {}, "identity": ""}]
    for other in others:
        with pytest.raises(InvalidOptionError, match="use a new checkpointLocation"):
            Offset.from_json(other)


@pytest.mark.parametrize("seed", range(3))
def test_every_appended_row_is_read_once_by_readers_that_are_killed(uri: str, seed: int) -> None:
    chance, reader, number = np.random.default_rng(seed), Reader(uri, max_files=2), 3
    done = 0
    seen: list[int] = []
    for _ in range(25):
        match chance.integers(6):
            case 0 | 1:
                ids = range(number, number + int(chance.integers(1, 5)))
                write(uri, *ids, max_rows_per_file=2)
                number = ids.stop
            case 2:
                (Dataset.open(uri) if chance.integers(2) else lance.dataset(uri)).optimize.compact_files()
            case 3:
                reader.plan()
                reader.started()
            case _:
                while done < len(reader.noted) or reader.plan():
                    seen += reader.ids(done)
                    done += 1
    while done < len(reader.noted) or reader.plan():
        seen += reader.ids(done)
        done += 1
    assert sorted(seen) == list(range(1, number))
