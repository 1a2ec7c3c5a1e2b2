"""Writers with randomly failing connections, and one with a reliable connection: no row is lost or duplicated."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitStateUnknownError, LanceError, StorageError
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.write import begin_write, commit_write, discard, write_fragments
from tests.sample import others_slow
from tests.table.faults import FaultyFiles, FaultyStore

SEEDS = range(2000 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 200)
CHANCES = (0.03, 0.1, 0.25)
WRITERS = 3
CHANGES = 6
NOBODY = -1000


def table(ids: list[int]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@dataclass
class Writer:
    """Changes a table through an unreliable connection, and records which rows must exist, must not, or are unknown."""

    number: int
    uri: str
    store: FaultyStore
    random: random.Random
    told: dict[int, str] = field(default_factory=dict)
    newest: Snapshot | None = None
    outcomes: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        changes = self.random.choices([self.append, self.delete, self.configure, self.clean_up], [4, 2, 1, 1], k=CHANGES)
        for change in changes:
            change()

    def outcome(self, change: Callable[[], object]) -> str:
        try:
            change()
        except CommitStateUnknownError:
            told = "unknown"
        except LanceError:
            told = "failed"
        else:
            told = "done"
        self.outcomes[told] += 1
        return told

    def append(self) -> None:
        first = 1000 * self.number + len(self.told)
        ids = list(range(first, first + 3))
        told = self.outcome(lambda: self.write(ids))
        self.told.update(dict.fromkeys(ids, {"done": "there", "failed": "gone", "unknown": "either"}[told]))

    def write(self, ids: list[int]) -> None:
        """Like Dataset.write, but with a store."""
        target = replace(begin_write(self.uri, table(ids).schema, "append"), store=self.store)
        fragments = write_fragments(target, table(ids).to_batches())
        try:
            self.newest = commit_write(target, fragments)
        except CommitStateUnknownError:
            raise
        except LanceError:
            with contextlib.suppress(StorageError):
                discard(target, fragments)
            raise

    def open(self) -> Dataset:
        """The latest version that this writer knows of: a listing may be older than what it has written itself."""
        listed = open_snapshot(self.store)
        return Dataset(self.newest if self.newest is not None and self.newest.version > listed.version else listed)

    def delete(self) -> None:
        ids = [i for i, told in self.told.items() if told == "there"]
        ids = self.random.sample(ids, min(len(ids), 2))
        condition = f"id IN ({', '.join(map(str, [NOBODY, *ids]))})"
        told = self.outcome(lambda: self.open().delete(condition))
        if told != "failed":
            self.told.update(dict.fromkeys(ids, {"done": "gone", "unknown": "either"}[told]))

    def configure(self) -> None:
        self.outcome(lambda: self.open().update_config({f"writer{self.number}": "x"}))

    def clean_up(self) -> None:
        self.outcome(lambda: self.open().cleanup_old_versions(timedelta(0), 10))


def append_with_pylance(uri: str) -> None:
    for i in range(CHANGES):
        lance.write_dataset(table([-i - 1]), uri, mode="append")


def run(seed: int, uri: str) -> tuple[list[Writer], FaultyFiles]:
    """Run all writers concurrently, until all delayed writes are executed."""
    files = FaultyFiles(seed, CHANCES[seed % len(CHANCES)])
    writers = [Writer(i, uri, FaultyStore(uri, files), random.Random(f"{seed} {i}")) for i in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS + 1) as threads:
        for done in [threads.submit(append_with_pylance, uri), *(threads.submit(writer.run) for writer in writers)]:
            done.result()
    files.arrive()
    return writers, files


# Every fifth: of these, too, two in turns differ in their row ids, and three in the chance of a fault.
@pytest.mark.parametrize("seed", others_slow(SEEDS, SEEDS[::8]))
def test_reported_outcomes_are_true(seed: int, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, table([]), enable_stable_row_ids=seed % 2 == 1)
    writers, _ = run(seed, uri)
    told = {**dict.fromkeys(range(-CHANGES, 0), "there"), **{i: t for writer in writers for i, t in writer.told.items()}}
    theirs = lance.dataset(uri)
    ids = sorted(theirs.to_table()["id"].to_pylist())
    assert len(set(ids)) == len(ids)
    assert {i for i, t in told.items() if t == "there"} - set(ids) == set()
    assert set(ids) - {i for i, t in told.items() if t != "gone"} == set()
    assert sorted(Dataset.open(uri).scan().to_table()["id"].to_pylist()) == ids
    theirs.validate()
    report = Dataset.open(uri).verify()
    assert report.ok, report


def test_most_faults_are_survived_and_unknown_states_are_rare(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    faults = 0
    for seed in range(10):
        uri = str(tmp_path / str(seed))
        Dataset.write(uri, table([]))
        writers, files = run(3 * seed, uri)
        faults += files.faults
        for writer in writers:
            outcomes += writer.outcomes
    assert faults > 10
    assert outcomes["done"] > outcomes["failed"] > outcomes["unknown"], outcomes
