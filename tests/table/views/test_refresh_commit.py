"""The commit of a refresh of a materialized view: rows and record together, once, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError, VersionNotFoundError
from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION, COPY_BITS, VIEWS
from lance_spark.metadata.view_records import VIEW, ViewInput, ViewRecord, record_of
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import ROW_OPERATION, Command
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.delta import Delta, changes_of
from lance_spark.storage.local import LocalFiles
from lance_spark.storage.store import Store
from lance_spark.table.changes.alter import update_config
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.write import begin_write, commit_write, write_fragments

OLD = pa.table({"id": [1, 2, 3], "x": [10, 20, 30]})
NEW = [{"id": 2, "x": 21}, {"id": 4, "x": 40}]
AFTER = [{"id": 1, "x": 10}, {"id": 3, "x": 30}, *NEW]


def record(input_version: int, number: int, based_on: int = 0) -> ViewRecord:
    read = ViewInput("lance.t", "/t.lance", input_version, "one", {"x": [1, "int64"]})
    return ViewRecord("SELECT id, x FROM lance.t", "lance", (), "{}", True, (read,), number << COPY_BITS | input_version, based_on)


def view(tmp_path: Path, rows: pa.Table = OLD) -> Snapshot:
    """A view that has read version 1 of its input."""
    options = WriteOptions(config={VIEW: record(1, 1).to_json()}, stable_row_ids=True)
    target = begin_write(Store(str(tmp_path / "v.lance")), rows.schema, "create", options)
    return commit_write(target, write_fragments(target, iter(rows.to_batches())))


def written(snapshot: Snapshot, input_version: int, is_empty: bool = False) -> Callable[[], None]:
    """The commit of a refresh that replaces the row 2 and inserts the row 4, whose files are written."""
    new = record(input_version, 2, snapshot.version)
    noted = {VIEW: new.to_json(), APP_ID: VIEWS, APP_VERSION: str(new.number)}
    command = Command("REFRESH", f"refresh {input_version}", "", snapshot.version, snapshot.identity, noted=noted)
    write: Delta = changes_of(snapshot, SparkWriteOptions(), command)
    schema = pa.schema([(ROW_OPERATION, pa.int32()), ("_rowaddr", pa.uint64()), *OLD.schema])
    gone: list[dict[str, Any]] = [{ROW_OPERATION: 1, "_rowaddr": 1}]
    rows = [] if is_empty else [*gone, *({ROW_OPERATION: 3, **row} for row in NEW)]
    part = write.write(iter(pa.Table.from_pylist(rows, schema).to_batches()), WriteClock(), 0).part
    return partial(write.commit, [part])


def read_version(snapshot: Snapshot) -> int:
    found = record_of(snapshot.manifest.config)
    assert found is not None
    return found.inputs[0].version


def rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lance.dataset(snapshot.store.uri).to_table().sort_by("id").to_pylist()
    return found


def test_rows_and_record_are_one_commit(tmp_path: Path) -> None:
    first = view(tmp_path)
    written(first, 5)()
    latest = open_snapshot(first.store)
    assert (latest.version, rows(latest), read_version(latest)) == (2, sorted(AFTER, key=lambda row: row["id"]), 5)
    assert read_version(open_snapshot(first.store, version=1)) == 1


def test_without_changed_rows_the_record_is_committed(tmp_path: Path) -> None:
    first = view(tmp_path)
    written(first, 5, is_empty=True)()
    latest = open_snapshot(first.store)
    assert (latest.version, rows(latest), read_version(latest)) == (2, OLD.to_pylist(), 5)


def test_of_two_refreshes_of_the_same_state_one_is_committed(tmp_path: Path) -> None:
    first = view(tmp_path)
    one, other = written(first, 5), written(first, 6)
    one()
    other()
    latest = open_snapshot(first.store)
    assert (latest.version, len(rows(latest)), read_version(latest)) == (2, 4, 5)


class KilledError(BaseException):
    """The process is dead."""


CHANGING = ("put", "put_if_absent", "create", "sync", "delete", "delete_folder", "remove_empty_folders")


def killed_at(call: int, monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> bool:
    """Run until a call that changes files, which is not executed, nor is any later one. False if there are fewer calls."""
    calls = 0

    def counted(name: str) -> Callable[..., Any]:
        own = getattr(LocalFiles, name)

        def method(*given: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > call:
                raise KilledError
            return own(*given, **options)

        return method

    with monkeypatch.context() as patch:
        for name in CHANGING:
            patch.setattr(LocalFiles, name, counted(name))
        try:
            run()
        except KilledError:
            return True
    return calls > call


def test_a_refresh_that_is_killed_at_any_call_leaves_the_view_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    for call in range(50):
        first = view(tmp_path / str(call))
        is_killed = killed_at(call, monkeypatch, lambda first=first: written(first, 5)())  # type: ignore[misc]
        latest = open_snapshot(first.store)
        states.append((latest.version, read_version(latest)))
        expected = OLD.to_pylist() if latest.version == 1 else sorted(AFTER, key=lambda row: row["id"])
        assert rows(latest) == expected
        if latest.version == 1:
            written(latest, 5)()
        assert rows(open_snapshot(first.store)) == sorted(AFTER, key=lambda row: row["id"])
        if not is_killed:
            break
    assert set(states) == {(1, 1), (2, 5)}
    assert len(states) > 4


def test_the_record_is_written_by_refreshes_alone(tmp_path: Path) -> None:
    first = view(tmp_path)
    for updates in ({VIEW: None}, {VIEW: record(9, 9).to_json()}):
        with pytest.raises(UnsupportedFeatureError, match=r"lance_spark\.view"):
            update_config(first, updates)
    assert update_config(first, {"owner": "me"}).version == 2
    plain = Dataset.write(str(tmp_path / "plain.lance"), OLD)
    with pytest.raises(UnsupportedFeatureError, match=r"lance_spark\.view"):
        plain.update_config({VIEW: record(9, 9).to_json()})


def test_a_view_has_no_write_ahead_log(tmp_path: Path) -> None:
    keyed = pa.schema([pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}), ("x", pa.int64())])
    first = view(tmp_path, OLD.cast(keyed))
    with pytest.raises(UnsupportedFeatureError, match="a materialized view has no write-ahead log"):
        Dataset.open(first.store.uri).initialize_mem_wal(unsharded=True)
    assert open_snapshot(first.store).version == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"inputs": [{}]}', '{"inputs": [], "more": 1}', '{"inputs": 1}'])
def test_a_damaged_record_is_an_error(text: str) -> None:
    with pytest.raises(CorruptFileError, match="materialized view"):
        ViewRecord.parse(text)


def test_a_view_that_was_made_anew_meanwhile_is_not_refreshed(tmp_path: Path) -> None:
    first = view(tmp_path)
    commit = written(first, 5)
    shutil.rmtree(tmp_path / "v.lance")
    anew = view(tmp_path)
    with pytest.raises(VersionNotFoundError, match="made anew"):
        commit()
    assert open_snapshot(anew.store).identity == anew.identity
