"""Cleanups of a table with a write-ahead log: SSTables and entries that no version needs are removed, and writers go on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import VersionNotFoundError, WriterFencedError
from tests.table.mem_wal.writing import steps
from tests.table.mem_wal.writing.steps import SHARD, SMALL, STEPS
from tests.table.test_crash import crashed

LIBRARIES = ["ours", "pylance"]


def parts(uri: str) -> tuple[list[int], int]:
    """The generations whose SSTables there are, and the number of entries."""
    shard = Path(uri, "_mem_wal", SHARD)
    generations = [int(folder.name.rpartition("_")[2]) for folder in shard.glob("*_gen_*")]
    return sorted(generations), len(list(shard.glob("wal/*.arrow")))


def cleaned(uri: str) -> tuple[list[int], int]:
    """The same after a cleanup that keeps the latest version only."""
    Dataset.open(uri).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    return parts(uri)


def opened(uri: str, library: str) -> Any:
    dataset: Any = Dataset.open(uri) if library == "ours" else lance.dataset(uri)
    return dataset.mem_wal_writer(SHARD, **SMALL)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return steps.made(str(tmp_path / "t.lance"))


def written(uri: str, library: str) -> None:
    """All steps, by a writer of which two generations are flushed, and another one."""
    with opened(uri, library) as writer:
        for step in STEPS[:4]:
            steps.run(writer, step)
    with opened(uri, library) as writer:
        for step in STEPS[4:]:
            steps.run(writer, step)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_merged_is_removed(library: str, uri: str) -> None:
    written(uri, library)
    generations, entries = parts(uri)
    assert cleaned(uri) == (generations, entries), "nothing is merged"
    Dataset.open(uri).merge_mem_wal()
    dry = Dataset.open(uri).cleanup_old_versions(timedelta(0), dry_run=True)
    assert parts(uri) == (generations, entries)
    of_log = {path for path in dry.files if path.startswith("_mem_wal/")}
    left, last = cleaned(uri)
    assert left == []
    assert last < entries
    assert of_log, "a dry run tells it"
    assert steps.ours(uri) == steps.of_pylance(uri) == steps.of_sstables(uri) == steps.after(STEPS)
    assert Dataset.open(uri).verify().problems == ()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("cleaner_waits", [False, True])
def test_an_open_writer_goes_on(cleaner_waits: bool, library: str, uri: str) -> None:
    written(uri, library)
    writer = opened(uri, library)
    steps.run(writer, ("put", [20], "before"))
    Dataset.open(uri).merge_mem_wal()
    if cleaner_waits:
        steps.run(writer, ("put", [21, 22, 23, 24], "flushed"))
    cleaned(uri)
    expected = steps.after(STEPS) | {20: "before"} | (dict.fromkeys([21, 22, 23, 24], "flushed") if cleaner_waits else {})
    assert steps.ours(uri) == expected
    for i in range(30, 40):
        steps.run(writer, ("put", [i], "later"))
    writer.close()
    expected |= dict.fromkeys(range(30, 40), "later")
    assert steps.ours(uri) == steps.of_sstables(uri) == expected
    Dataset.open(uri).merge_mem_wal()
    assert cleaned(uri)[0] == []
    assert steps.shown(lance.dataset(uri).to_table()) == steps.ours(uri) == expected


@pytest.mark.parametrize("newer", LIBRARIES)
@pytest.mark.parametrize("stale", LIBRARIES)
def test_an_older_writer_stays_fenced(stale: str, newer: str, uri: str) -> None:
    """Its next place in the log is taken, also after what was there is merged and removed."""
    writer = opened(uri, stale)
    steps.run(writer, STEPS[0])
    written(uri, newer)
    Dataset.open(uri).merge_mem_wal()
    assert cleaned(uri)[0] == []
    with pytest.raises(WriterFencedError if stale == "ours" else OSError, match=r"fenced|epoch"):
        steps.run(writer, ("put", [99], "stale"))
    assert steps.ours(uri) == steps.of_pylance(uri) == steps.after([STEPS[0], *STEPS])


def test_what_a_kept_version_needs_stays(uri: str) -> None:
    written(uri, "ours")
    table = Dataset.open(uri)
    table.tags.create("before", table.version)
    before = steps.shown(Dataset.open(uri, tag="before").to_table())
    generations, _ = parts(uri)
    table.merge_mem_wal()
    Dataset.open(uri).update({"v": "'changed'"}, "id = 1")
    assert cleaned(uri)[0] == generations
    assert steps.shown(Dataset.open(uri, tag="before").to_table()) == before
    Dataset.open(uri).tags.delete("before")
    assert cleaned(uri)[0] == []
    assert steps.ours(uri) == steps.after(STEPS) | {1: "changed"}


def test_what_an_index_lacks_stays_until_it_is_optimized(uri: str) -> None:
    """Until then, pylance's searches by the index look into SSTables."""
    Dataset.open(uri).create_scalar_index("w", "BTREE")
    written(uri, "ours")
    generations, _ = parts(uri)
    Dataset.open(uri).merge_mem_wal()
    assert cleaned(uri)[0] == generations
    Dataset.open(uri).optimize.optimize_indices()
    Dataset.open(uri).update_config({"a": "b"})
    assert cleaned(uri)[0] == []


def test_numbers_of_batches_stay_known(uri: str) -> None:
    rows = steps.values([1, 2, 3, 4], "first")
    with Dataset.open(uri).mem_wal_writer(SHARD, **SMALL) as writer:
        assert writer.put_once(rows, None, "stream", 7)
        writer.put(steps.values([5, 6], "other"))
    Dataset.open(uri).merge_mem_wal()
    for _ in range(2):
        cleaned(uri)
        with Dataset.open(uri).mem_wal_writer(SHARD, **SMALL) as writer:
            assert not writer.put_once(rows, None, "stream", 7)
            writer.put(pa.table({"id": [8], "v": ["later"], "w": [8]}, schema=rows.schema))
        Dataset.open(uri).merge_mem_wal()
    assert steps.ours(uri)[8] == "later"


def test_a_version_that_was_removed_is_not_read_without_the_rows_that_were_merged_since_then(uri: str) -> None:
    before = Dataset.open(uri)
    written(uri, "ours")
    assert steps.shown(before.to_table()) == steps.after(STEPS)
    Dataset.open(uri).merge_mem_wal()
    cleaned(uri)
    with pytest.raises(VersionNotFoundError, match="removed while it was read"):
        before.to_table()


def test_a_killed_cleanup_loses_nothing_and_the_next_one_ends_it(tmp_path: Path) -> None:
    template = steps.made(str(tmp_path / "template"))
    written(template, "ours")
    Dataset.open(template).merge_mem_wal()
    before = parts(template)
    left = []
    for place in crashed("cleanup", template, tmp_path, 11):
        left.append(parts(place))
        assert steps.ours(place) == steps.after(STEPS)
        writer = opened(place, "ours" if len(left) % 2 else "pylance")
        steps.run(writer, ("put", [50], "later"))
        writer.close()
        assert steps.ours(place) == steps.of_sstables(place) == steps.after(STEPS) | {50: "later"}
        assert cleaned(place)[0] == [before[0][-1] + 1], "only what is not merged"
    assert before == left[0]
    assert left[-1][0] == []
