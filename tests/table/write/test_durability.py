"""What a write syncs on a local disk, and when: contents as files end, names before the version that refers to them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset

ROWS = pa.table({"a": pa.array(range(5), pa.int64())})
COMMIT = ["_versions/*", "link", "_versions"]


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that are synced from now on, relative to the table, and "link" when a manifest gets its name."""
    found: list[str] = []
    fsync, link = os.fsync, os.link

    def synced(fd: int) -> None:
        path = os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path / "t")
        found.append(os.path.dirname(path) + "/*" if "." in os.path.basename(path) else path)
        fsync(fd)

    def linked(*arguments: object, **options: object) -> None:
        found.append("link")
        link(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
def test_names_of_data_files_are_synced_once_before_the_version(tmp_path: Path, events: list[str]) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS, max_rows_per_file=1)
    assert events == [*["data/*"] * 5, "data", *COMMIT]
    events.clear()
    Dataset.open(uri).delete("a = 1")
    assert events == COMMIT


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
@pytest.mark.parametrize("change", [lambda table: table.delete("a > 2"), lambda table: table.update({"a": "7"}, "a > 2")])
def test_deletion_files_are_synced_before_the_version_and_their_names_once(
    tmp_path: Path, events: list[str], change: Callable[[Dataset], Dataset]
) -> None:
    table = Dataset.write(str(tmp_path / "t"), pa.table({"a": list(range(6)) * 2}), max_rows_per_file=6)
    events.clear()
    change(table)
    deletions = events.index("_deletions")
    assert events[deletions - 2 : deletions] == ["_deletions/*"] * 2
    assert events.count("_deletions") == 1
    assert deletions < events.index("link")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update({"b": "'x'"}, "a < 3"),
        lambda table: table.add_columns({"c": "a + 1"}),
        lambda table: table.optimize.compact_files(),
    ],
    ids=["update", "add columns", "compact"],
)
def test_changes_sync_the_names_of_their_data_files_once(tmp_path: Path, events: list[str], change: Callable[[Dataset], Dataset]) -> None:
    table = Dataset.write(str(tmp_path / "t"), pa.table({"a": range(5), "b": ["b"] * 5}), max_rows_per_file=2)
    events.clear()
    assert change(table).version == 2
    assert "data/*" in events
    assert events.count("data") == 1
    assert max(i for i, event in enumerate(events) if event == "data/*") < events.index("data") < events.index("link")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
def test_copied_pages_are_synced_like_other_data_files(tmp_path: Path, events: list[str]) -> None:
    rows = pa.table({"a": range(1 << 17)})
    table = Dataset.write(str(tmp_path / "t"), rows, max_rows_per_file=1 << 16)
    events.clear()
    table.optimize.compact_files()
    assert events == ["data/*", "data", *COMMIT]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
def test_the_folder_of_a_blob_file_is_synced_before_the_version(tmp_path: Path, events: list[str]) -> None:
    rows = pa.table({"b": pa.array([b"x" * (5 << 20)], pa.large_binary())})
    Dataset.write(str(tmp_path / "t"), rows, data_storage_version="2.2", column_options={"b.lance.encoding": "blob"})
    blob, folder, *others = events
    assert (blob, os.path.dirname(folder)) == (f"{folder}/*", "data")
    assert others == ["data/*", "data", *COMMIT]
