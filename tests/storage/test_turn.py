"""Writers of a local folder take turns, which saves work; nothing depends on it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.storage import local
from lance_spark.storage.store import Store

HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "_versions").mkdir()
    return tmp_path


@pytest.fixture
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the turn until it ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder / "_versions")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_one_writer_at_a_time_is_in_its_turn(folder: Path) -> None:
    store, inside, most = Store(str(folder)), 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with store.turn("_versions"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_commit_does_not_wait_for_ever_for_a_stopped_writer(
    folder: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_LONGEST_WAIT_S", 0.05)
    assert Dataset.write(str(folder), pa.table({"a": [1]})).version == 1


def test_the_turn_ends_with_the_process(folder: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_LONGEST_WAIT_S", 600.0)  # longer than a test may take
    holder.kill()
    with Store(str(folder)).turn("_versions"):
        pass


def test_a_turn_that_was_not_waited_for_is_given_back(folder: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_LONGEST_WAIT_S", 0.01)
    threads = threading.active_count()
    for _ in range(3 * local._MOST_GIVEN_UP):
        with Store(str(folder)).turn("_versions"):
            assert threading.active_count() <= threads + local._MOST_GIVEN_UP
    monkeypatch.setattr(local, "_LONGEST_WAIT_S", 60.0)
    holder.kill()
    deadline = time.monotonic() + 250
    while threading.active_count() > threads and time.monotonic() < deadline:
        with Store(str(folder)).turn("_versions"):
            time.sleep(0)
    assert threading.active_count() <= threads
    with Store(str(folder)).turn("_versions"):
        assert not local._GIVEN_UP


def test_a_folder_that_is_not_there_needs_no_turn(tmp_path: Path) -> None:
    with Store(str(tmp_path / "new")).turn("_versions"):
        assert not (tmp_path / "new").exists()


def test_errors_inside_a_turn_are_passed_on(folder: Path) -> None:
    with pytest.raises(BlockingIOError, match="mine"), Store(str(folder)).turn("_versions"):
        raise BlockingIOError("mine")
