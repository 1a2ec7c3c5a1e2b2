"""What a write syncs on a local disk, and when: contents as files end, names before the version that refers to them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset

ROWS = pa.table({"a": pa.array(range(5), pa.int64())})
TRANSACTION = ["_transactions/*", "_transactions"]


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
    assert events == [*["data/*"] * 5, *TRANSACTION, "data", "_versions/*", "link", "_versions"]
    events.clear()
    Dataset.open(uri).delete("a = 1")
    assert events == [*TRANSACTION, "data", "_versions/*", "link", "_versions"]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are read from /proc")
def test_deletion_files_are_synced_before_the_version(tmp_path: Path, events: list[str]) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    events.clear()
    Dataset.open(uri).delete("a = 1")
    assert events == ["_deletions/*", "_deletions", *TRANSACTION, "data", "_versions/*", "link", "_versions"]
