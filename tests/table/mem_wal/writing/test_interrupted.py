"""Writers that are killed, paused or cut off from the store: no row that was acknowledged is lost, none is there twice."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    InvalidOperationError,
    LanceError,
    StorageError,
    WriterFencedError,
)
from lance_spark.storage.local import Files, LocalFiles
from lance_spark.storage.store import Store
from lance_spark.table.mem_wal_writing.writer import ShardWriter
from lance_spark.table.versions.snapshot import open_snapshot
from tests.sample import others_slow
from tests.table.faults import FaultyFiles, FaultyStore
from tests.table.interleaving import InterruptedFiles, InterruptedStore, interrupted_everywhere
from tests.table.mem_wal.writing import steps
from tests.table.mem_wal.writing.steps import SHARD, SMALL, STEPS
from tests.table.test_crash import crashed

PAUSED = """
import os, signal, sys
from tests.table.mem_wal.writing import steps
{library}
writer = table.mem_wal_writer(steps.SHARD)
steps.run(writer, steps.STEPS[0])
os.kill(os.getpid(), signal.SIGSTOP)
try:
    steps.run(writer, ("put", [100], "stale"))
except Exception as e:
    print(type(e).__name__, e)
    sys.exit(3)
"""
LIBRARIES = {
    "ours": "from lance_spark import Dataset; table = Dataset.open(sys.argv[1])",
    "pylance": "import lance; table = lance.dataset(sys.argv[1])",
}


def may_be(done: int) -> list[steps.Values]:
    """The rows after so many steps that were acknowledged: the next one may be there, too."""
    return [steps.after(STEPS[:number]) for number in (done, done + 1)]


def test_a_killed_writer_keeps_what_it_has_acknowledged(tmp_path: Path) -> None:
    check_killed(tmp_path, 45, 1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 7))
def test_a_writer_that_is_killed_at_any_call_keeps_what_it_has_acknowledged(first: int, tmp_path: Path) -> None:
    check_killed(tmp_path, 6, first)


def check_killed(folder: Path, step: int, first: int) -> None:
    template = steps.made(str(folder / "template"))
    places = crashed("put_into_log", template, folder, step, first)
    counts = []
    for place in places:
        acknowledged = Path(place).parent / f"done-{Path(place).name}"
        done = acknowledged.stat().st_size if acknowledged.exists() else 0
        counts.append(done)
        found = steps.ours(place)
        assert found in may_be(done), place
        report = Dataset.open(place).verify()
        assert report.problems == ()
        if len(counts) % 2:
            assert steps.of_pylance(place) == found, "pylance replays what is there"
        with Dataset.open(place).mem_wal_writer(SHARD, **SMALL) as writer:
            for late in STEPS[done:]:
                steps.run(writer, late)
        assert steps.ours(place) == steps.of_sstables(place) == steps.after(STEPS)
        Dataset.open(place).merge_mem_wal()
        assert steps.shown(lance.dataset(place).to_table()) == steps.after(STEPS)
    # A thread flushes meanwhile, so that more calls do not always mean more steps.
    assert counts[-1] == len(STEPS)
    assert min(counts) == 0


@pytest.mark.parametrize(("stale", "newer"), others_slow([*itertools.product(LIBRARIES, repeat=2)], [("ours", "pylance")]))
def test_a_paused_writer_that_wakes_up_after_another_took_over_writes_nothing(stale: str, newer: str, tmp_path: Path) -> None:
    uri = steps.made(str(tmp_path / "t.lance"))
    command = [sys.executable, "-c", PAUSED.format(library=LIBRARIES[stale]), uri]
    root = Path(__file__).parents[4]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        dataset: Any = Dataset.open(uri) if newer == "ours" else lance.dataset(uri)
        writer = dataset.mem_wal_writer(SHARD)
        steps.run(writer, STEPS[1])
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate()
    assert process.returncode == 3, said
    assert "WriterFencedError" in said if stale == "ours" else "fenced" in said
    steps.run(writer, STEPS[2])
    assert steps.ours(uri) == steps.after(STEPS[:3])
    writer.close()
    assert steps.ours(uri) == steps.of_sstables(uri) == steps.after(STEPS[:3])


@pytest.mark.parametrize("step", others_slow([4, 20], [20]))
@pytest.mark.parametrize(
    ("is_new_shard", "newer", "first"),
    [(True, "ours", 3), (True, "pylance", 4), (False, "ours", 2), (False, "pylance", 1)],
)
def test_a_writer_that_is_overtaken_between_any_two_calls_keeps_what_it_has_acknowledged(
    is_new_shard: bool, newer: str, first: int, step: int, tmp_path: Path
) -> None:
    """Another writer takes over before a call: the cases take turns, so that together they take all calls."""
    for at in itertools.count(first, step):
        if not overtaken(steps.made(str(tmp_path / f"{at}.lance")), at, is_new_shard, newer):
            break
    assert at > 100


def overtaken(uri: str, at: int, is_new_shard: bool, newer: str) -> bool:
    """Another writer takes over before a call of ours, puts a row, and closes. Returns False if there were not so many calls."""
    if not is_new_shard:
        Dataset.open(uri).mem_wal_writer(SHARD).leave()

    def take_over() -> None:
        dataset: Any = Dataset.open(uri) if newer == "ours" else lance.dataset(uri)
        with dataset.mem_wal_writer(SHARD) as other:
            other.put(steps.values([50], "other"))

    files = InterruptedFiles(at, take_over)
    snapshot = replace(open_snapshot(Store(uri)), store=InterruptedStore(uri, files))
    done = 0
    with contextlib.suppress(WriterFencedError, CommitConflictError), ShardWriter(snapshot, SHARD, SMALL) as writer:
        for step in STEPS:
            steps.run(writer, step)
            done += 1
    if not files.reached:
        return False
    expected = [{**rows, 50: "other"} for rows in may_be(done)]
    assert steps.ours(uri) in expected, at
    assert steps.of_pylance(uri) in expected, at
    return True


@pytest.mark.parametrize(
    ("chance", "seed"), others_slow([(c, s) for c in (0.03, 0.06, 0.1) for s in range(30)], [(0.03, 1), (0.06, 3), (0.1, 2)])
)
def test_rows_that_are_acknowledged_over_a_bad_connection_are_there(chance: float, seed: int, tmp_path: Path) -> None:
    """A writer whose outcome is unknown is given up, and one whose shard has no state yet; the next one does the step again."""
    uri = steps.made(str(tmp_path / "t.lance"))
    files = FaultyFiles(seed, chance)
    snapshot = replace(open_snapshot(Store(uri)), store=FaultyStore(uri, files))
    writer: ShardWriter | None = None
    done = 0
    while done < len(STEPS):
        try:
            writer = writer or ShardWriter(snapshot, SHARD, SMALL)
            steps.run(writer, STEPS[done])
        except (CommitStateUnknownError, WriterFencedError):
            with contextlib.suppress(LanceError), writer or contextlib.nullcontext():
                writer = None
        except LanceError:
            continue  # nothing of the step is there, or the shard was not claimed
        else:
            done += 1
            assert steps.ours(uri) == steps.after(STEPS[:done])
    files.arrive()
    assert steps.ours(uri) == steps.of_pylance(uri) == steps.after(STEPS)
    assert steps.of_sstables(uri) == steps.after(STEPS)


class OldListing(LocalFiles):
    """Local files whose listing of a log is as old as a few entries."""

    def __init__(self, missed: int) -> None:
        super().__init__()
        self._missed = missed

    def names(self, folder: str) -> Sequence[str]:
        found = super().names(folder)
        if not folder.endswith("/wal"):
            return found
        ascending = sorted(found, key=lambda name: name.split(".")[0][::-1])
        return ascending[: max(len(ascending) - self._missed, 0)]


class StoreWithOldListings(Store):
    """A table whose files are listed as they were before."""

    __slots__ = ("files",)

    def __init__(self, uri: str, files: OldListing) -> None:
        super().__init__(uri)
        self.files = files

    def _files(self) -> Files:
        return self.files


@pytest.mark.parametrize("missed", [1, 2, 5])
def test_a_writer_goes_on_with_entries_that_a_listing_misses(missed: int, tmp_path: Path) -> None:
    uri = steps.made(str(tmp_path / "t.lance"))
    before = Dataset.open(uri).mem_wal_writer(SHARD)
    for step in STEPS[:4]:
        steps.run(before, step)
    before.leave()
    snapshot = replace(open_snapshot(Store(uri)), store=StoreWithOldListings(uri, OldListing(missed)))
    with ShardWriter(snapshot, SHARD, SMALL) as writer:
        for step in STEPS[4:]:
            steps.run(writer, step)
    assert steps.ours(uri) == steps.of_pylance(uri) == steps.of_sstables(uri) == steps.after(STEPS)


@pytest.mark.parametrize("missed", [1, 2, 100])
def test_a_reader_finds_entries_that_a_listing_misses(missed: int, tmp_path: Path) -> None:
    uri = steps.made(str(tmp_path / "t.lance"))
    snapshot = replace(open_snapshot(Store(uri)), store=StoreWithOldListings(uri, OldListing(missed)))
    writer = Dataset.open(uri).mem_wal_writer(SHARD, **SMALL)
    for number, step in enumerate(STEPS, 1):
        steps.run(writer, step)
        assert steps.shown(Dataset(snapshot).to_table()) == steps.after(STEPS[:number])
    writer.close()


def test_a_writer_goes_on_after_entries_that_were_cleaned_up_also_by_a_listing_from_before_them(tmp_path: Path) -> None:
    """The places of these entries are free, but readers do not look there, and they fence no older writer."""
    uri = steps.made(str(tmp_path / "t.lance"))
    steps.write_steps(uri)
    older = Dataset.open(uri).mem_wal_writer(SHARD)
    steps.run(older, ("put", [60], "older"))
    Dataset.open(uri).merge_mem_wal()
    Dataset.open(uri).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    before = steps.ours(uri)
    snapshot = replace(open_snapshot(Store(uri)), store=StoreWithOldListings(uri, OldListing(100)))
    with ShardWriter(snapshot, SHARD, SMALL) as writer:
        steps.run(writer, ("put", [70], "new"))
        assert steps.ours(uri) == before | {70: "new"}
        with pytest.raises(WriterFencedError):
            steps.run(older, ("put", [71], "stale"))
    assert steps.ours(uri) == steps.of_pylance(uri) == before | {70: "new"}


@pytest.mark.parametrize("most_rows", [1, 2, 3])
def test_readers_find_all_rows_while_a_writer_with_smaller_generations_flushes_those_of_another(most_rows: int, tmp_path: Path) -> None:
    """A reader takes an entry for flushed if the generation that it notes is: the other writer must not divide that generation."""
    uri = steps.made(str(tmp_path / "t.lance"))
    for some in (STEPS[:3], STEPS[3:]):
        before = Dataset.open(uri).mem_wal_writer(SHARD)  # the second one goes on with the generation of the first one
        for step in some:
            steps.run(before, step)
        before.leave()
    template = shutil.copytree(uri, tmp_path / "template")
    snapshot = open_snapshot(Store(uri))

    def prepare() -> None:
        shutil.rmtree(uri)
        shutil.copytree(template, uri)

    def take_over(store_at: Callable[[str], Store]) -> None:
        ShardWriter(replace(snapshot, store=store_at(uri)), SHARD, {"max_memtable_rows": most_rows}).close()

    def read() -> None:
        assert steps.ours(uri) == steps.after(STEPS)

    for _ in interrupted_everywhere(take_over, prepare, read, 1, 2):
        read()
    assert steps.of_pylance(uri) == steps.of_sstables(uri) == steps.after(STEPS)


class FullDisk(LocalFiles):
    """Local files, which can be written only while the disk `has_room`."""

    has_room = True

    def _check_room(self) -> None:
        if not self.has_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def put(self, path: str, data: bytes, durable: bool = True) -> None:
        self._check_room()
        super().put(path, data, durable)

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        self._check_room()
        super().put_if_absent(path, data, sync_name)

    @contextlib.contextmanager
    def create(self, path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        with super().create(path, sync_name) as out:
            self._check_room()
            yield out


class StoreOnFullDisk(Store):
    """A store of such files."""

    __slots__ = ("files",)

    def __init__(self, uri: str, files: FullDisk) -> None:
        super().__init__(uri)
        self.files = files

    def at(self, uri: str, base_id: int | None = None) -> Store:
        return StoreOnFullDisk(uri, self.files)

    def _files(self) -> Files:
        return self.files


def test_a_full_disk_loses_nothing_and_the_writer_goes_on_when_there_is_room(tmp_path: Path) -> None:
    uri = steps.made(str(tmp_path / "t.lance"))
    files = FullDisk()
    writer = ShardWriter(replace(open_snapshot(Store(uri)), store=StoreOnFullDisk(uri, files)), SHARD, SMALL)
    steps.run(writer, STEPS[0])
    files.has_room = False
    with pytest.raises(StorageError, match="full"):
        steps.run(writer, STEPS[1])
    assert steps.ours(uri) == steps.after(STEPS[:1])
    with pytest.raises(StorageError, match="full"):
        writer.close()
    assert steps.ours(uri) == steps.after(STEPS[:1])
    files.has_room = True
    assert steps.of_pylance(uri) == steps.after(STEPS[:1]), "the next writer flushes what this one could not"
    with pytest.raises(InvalidOperationError, match="closed"):
        steps.run(writer, STEPS[1])


def test_a_flush_that_fails_is_tried_again_and_refuses_rows_until_then(tmp_path: Path) -> None:
    uri = steps.made(str(tmp_path / "t.lance"))
    files = FullDisk()
    writer = ShardWriter(replace(open_snapshot(Store(uri)), store=StoreOnFullDisk(uri, files)), SHARD, {"max_memtable_rows": 3})
    entered, created = threading.Event(), files.create

    @contextlib.contextmanager
    def full(path: str, sync_name: bool = True) -> Iterator[BinaryIO]:
        entered.set()
        with created(path, sync_name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield

    files.create = full  # type: ignore[method-assign]
    steps.run(writer, STEPS[0])  # which fills a generation
    assert entered.wait(60)
    put_again = itertools.repeat(("put", [1], "a"))  # which does not change what is there
    with pytest.raises(StorageError, match="full"):
        deque(map(functools.partial(steps.run, writer), put_again), 0)
    files.create = created  # type: ignore[method-assign]
    while writer.stats()["memtable_flush_count"] == 0:
        with contextlib.suppress(StorageError):
            steps.run(writer, ("put", [1], "a"))
    assert writer.stats()["memtable_flush_failures"] > 0
    writer.close()
    assert steps.ours(uri) == steps.of_sstables(uri) == steps.after(STEPS[:1])


def test_a_numbered_batch_that_could_not_be_put_is_put_by_the_next_call(tmp_path: Path) -> None:
    uri = steps.made(str(tmp_path / "t.lance"))
    files = FullDisk()
    writer = ShardWriter(replace(open_snapshot(Store(uri)), store=StoreOnFullDisk(uri, files)), SHARD, SMALL)
    rows = steps.values([3, 4, 5], "new")
    files.has_room = False
    with pytest.raises(StorageError, match="full"):
        writer.put_once(rows, None, "stream", 1)
    files.has_room = True
    steps.run(writer, ("put", [6], "other"))
    assert writer.put_once(rows, None, "stream", 1), "no entry says that it is there"
    assert not writer.put_once(rows, None, "stream", 1)
    writer.close()
    assert steps.ours(uri) == steps.BEGIN | dict.fromkeys([3, 4, 5], "new") | {6: "other"}


def test_a_put_whose_rows_are_in_the_log_does_not_raise_the_error_of_a_flush(tmp_path: Path) -> None:
    """Of that, the next put tells; else the rows, which have no key, would be put again, and would be there twice."""
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"a": pa.array([0], pa.int64())})).initialize_mem_wal()
    files = FullDisk()
    settings = {"max_memtable_rows": 1, "max_unflushed_memtable_bytes": 1}
    writer = ShardWriter(replace(open_snapshot(Store(uri)), store=StoreOnFullDisk(uri, files)), SHARD, settings)
    put_if_absent = files.put_if_absent

    def full_but_for_entries(path: str, data: bytes, sync_name: bool = True) -> None:
        files.has_room = "/wal/" in path
        put_if_absent(path, data, sync_name)
        files.has_room = False

    files.put_if_absent = full_but_for_entries  # type: ignore[method-assign]
    files.has_room = False
    writer.put(pa.table({"a": [1]}))
    with pytest.raises(StorageError, match="none now"):
        writer.put(pa.table({"a": [2]}))
    with contextlib.suppress(StorageError):
        writer.close()
    assert sorted(Dataset.open(uri).to_table()["a"].to_pylist()) == [0, 1]


def test_the_log_is_written_on_s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "us-east-1", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**keys, "ENDPOINT": s3_server, "ENDPOINT_URL": s3_server, "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    uri = f"s3://tables/{uuid.uuid4().hex}"
    Dataset.write(uri, steps.values([1, 2], "x")).initialize_mem_wal()
    first = Dataset.open(uri).mem_wal_writer(SHARD)
    first.put(steps.values([2, 3], "y"))
    writer = lance.dataset(uri).mem_wal_writer(SHARD)
    with pytest.raises(WriterFencedError):
        first.put(steps.values([2, 3], "z"))
    writer.put(steps.values([4], "theirs"))
    with Dataset.open(uri).mem_wal_writer(SHARD, **SMALL) as last:
        last.put(steps.values([5, 6, 7, 8], "w"))
        assert steps.ours(uri) == {1: "x", 2: "y", 3: "y", 4: "theirs"} | dict.fromkeys([5, 6, 7, 8], "w")
    Dataset.open(uri).merge_mem_wal()
    assert steps.shown(lance.dataset(uri).to_table()) == steps.ours(uri)
