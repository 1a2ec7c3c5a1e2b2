"""Several clients of one shard whose steps come in a random order, also in the middle of each other's calls.

Writers of ours, with settings of their own, and of pylance take the shard over from each other; merges, cleanups, restores and
new logs come in between, and requests are lost. What was acknowledged is there, and nothing else.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError, StorageError
from lance_spark.storage.store import Store
from lance_spark.table.mem_wal_writing.writer import ShardWriter
from lance_spark.table.versions.snapshot import open_snapshot
from tests.sample import others_slow
from tests.table.faults import FaultyFiles, FaultyStore
from tests.table.mem_wal.writing import steps
from tests.table.mem_wal.writing.steps import SHARD

KEYS = range(1, 13)
STEPS = 40
REFUSED = (LanceError, OSError)
"""The errors of ours, and of pylance."""


class Connection(FaultyFiles):
    """An unreliable connection, over which now and then another client does something right before a call."""

    def __init__(self, seed: int, chance: float, other_client: Callable[[], object]) -> None:
        super().__init__(seed, chance)
        self._choice = random.Random(seed)
        self._other_client = other_client

    @contextmanager
    def _connection(self) -> Iterator[None]:
        # Only calls of the test itself are interrupted: threads that flush go on meanwhile anyhow.
        if threading.current_thread() is threading.main_thread() and self._choice.random() < 0.02:
            self._other_client()
        with super()._connection():
            yield


@dataclass
class Client:
    """A writer that is open, and whether what it puts is in the log when `put` returns."""

    writer: Any
    is_ours: bool
    is_durable: bool
    most_rows: int


@dataclass
class History:
    """What clients have done with a table: the values that each key may have, None if it may be absent."""

    uri: str
    seed: int
    chance: float
    choice: random.Random = field(init=False)
    connection: Connection = field(init=False)
    may_be: dict[int, set[str | None]] = field(init=False)
    changed_at: dict[int, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    clients: list[Client] = field(default_factory=list)
    first_version: int = 0
    clock: int = 0
    number: int = 0
    is_nested: bool = False
    busy: Client | None = None
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.choice = random.Random(self.seed)
        self.connection = Connection(self.seed, self.chance, self.other_client)
        self.may_be = {key: {steps.BEGIN.get(key)} for key in KEYS}
        # A listing may be too old to have a new shard, which readers then do not look at.
        Dataset.open(self.uri).mem_wal_writer(SHARD).leave()
        self.first_version = Dataset.open(self.uri).version

    def run(self) -> None:
        """Take many steps, and compare what is there at the end, as each reader sees it."""
        for _ in range(STEPS):
            self.step()
            self.check()
        self.connection.arrive()
        self.is_nested = True  # no step comes into the middle of what follows, and no request is lost
        self.finish()

    def step(self) -> None:
        """Do something."""
        [do] = self.choice.choices([*self.shares()], [*self.shares().values()])
        self.clock += 1
        self.told.append(f"{'  ' * self.is_nested}{do.__name__}")
        do()

    def shares(self) -> dict[Callable[[], None], int]:
        """What may be done, and how often."""
        writing = {self.put: 16, self.put_numbered: 4, self.open_ours: 3, self.open_theirs: 1, self.end: 2}
        return {**writing, self.read: 3, self.merge: 2, self.clean_up: 2, self.restore: 1, self.begin_anew: 1}

    def other_client(self) -> None:
        """A step in the middle of another one."""
        if not self.is_nested:
            self.is_nested = True
            try:
                self.step()
            finally:
                self.is_nested = False

    def store(self) -> Store:
        """The table over a bad connection, or, in the middle of a step, over a good one."""
        if self.is_nested:
            return Store(self.uri)
        return FaultyStore(self.uri, self.connection)

    def open_ours(self) -> None:
        most_rows, is_durable = self.choice.randint(1, 8), self.choice.random() < 0.7
        interval = self.choice.choice([1, 60_000])
        given = {"max_memtable_rows": most_rows, "durable_write": is_durable, "max_wal_flush_interval_ms": interval}
        store = self.store()
        with suppress(*REFUSED):
            snapshot = replace(open_snapshot(Store(self.uri)), store=store)
            self.clients.append(Client(ShardWriter(snapshot, SHARD, given), True, is_durable, most_rows))

    def open_theirs(self) -> None:
        self.clients.append(Client(lance.dataset(self.uri).mem_wal_writer(SHARD), False, True, 1 << 30))

    def one_client(self) -> Client | None:
        """One of those that are open and do nothing now, most times the last one: others are fenced."""
        free = [client for client in self.clients if client is not self.busy]
        if not free:
            return None
        return free[-1] if self.choice.random() < 0.8 else self.choice.choice(free)

    def rows(self) -> tuple[list[int], str]:
        """Keys and a new value."""
        self.number += 1
        return self.choice.sample(KEYS, self.choice.randint(1, 4)), str(self.number)

    def put(self) -> None:
        client = self.one_client()
        if client is None:
            return
        keys, value = self.rows()
        kind = self.choice.choice(["put", "put", "put", "delete"])
        self.change(client, keys, None if kind == "delete" else value, lambda: steps.run(client.writer, (kind, keys, value)))

    def put_numbered(self) -> None:
        """A batch of a stream, which is put again by the next writer if it is unknown whether it is there."""
        client = self.one_client()
        if client is None or not client.is_ours:
            return
        keys, value = self.rows()
        rows, number = steps.values(keys, value), self.number
        self.change(client, keys, value, lambda: client.writer.put_once(rows, None, "stream", number), always_durable=True)

    def change(self, client: Client, keys: list[int], value: str | None, run: Callable[[], object], always_durable: bool = False) -> None:
        """Change these keys. What another client does in the middle of it comes after it, as it takes the shard over."""
        begun, before = self.clock, {key: set(self.may_be[key]) for key in keys}
        for key in keys:
            self.may_be[key].add(value)
        if not self.is_nested:
            self.busy = client
        try:
            run()
            self.told[-1] += f" {keys} {value} done"
            is_certain, found = client.is_durable or always_durable, {value}
        except REFUSED as e:
            self.told[-1] += f" {keys} {value} {type(e).__name__} {e}"
            nothing_is_there = isinstance(e, StorageError) and len(keys) <= client.most_rows and client.is_durable
            is_certain, found = nothing_is_there, set()
            if not isinstance(e, StorageError) and client in self.clients:
                self.clients.remove(client)
        if not self.is_nested:
            self.busy = None
        for key in keys:
            if is_certain and self.changed_at[key] <= begun:
                self.may_be[key] = found or before[key]
                self.changed_at[key] = self.clock

    def read(self) -> None:
        """A read over the bad connection fails, or finds what is there, before or after what another client does meanwhile."""
        before = {key: set(values) for key, values in self.may_be.items()}
        with suppress(*REFUSED):
            found = steps.shown(Dataset(open_snapshot(self.store())).to_table())
            self.compare(found, before)

    def merge(self) -> None:
        with suppress(*REFUSED):
            Dataset(open_snapshot(self.store())).merge_mem_wal()

    def clean_up(self) -> None:
        with suppress(*REFUSED):
            Dataset(open_snapshot(self.store())).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)

    def restore(self) -> None:
        """Go back to an older version of the table; what is not merged in it is read from the log then."""
        versions = [v.version for v in Dataset.open(self.uri).versions() if v.version >= self.first_version]
        if versions:
            with suppress(*REFUSED):
                Dataset(open_snapshot(self.store(), version=self.choice.choice(versions))).restore()

    def end(self) -> None:
        """Close a writer, or leave it as a process does that is killed."""
        client = self.one_client()
        if client is None:
            return
        self.clients.remove(client)  # so that no other step takes it
        if client.is_ours and self.choice.random() < 0.5:
            client.writer.leave()
            return
        with suppress(*REFUSED):
            client.writer.close()

    def begin_anew(self) -> None:
        """Drop the log, if it has no rows that are not merged, and begin another one. Writers that are open put no more."""
        with suppress(*REFUSED):
            Dataset.open(self.uri).mem_wal_writer(SHARD).close()
            Dataset.open(self.uri).merge_mem_wal()
            lance.dataset(self.uri).drop_index("__lance_mem_wal")
            self.first_version = Dataset.open(self.uri).initialize_mem_wal().version
            self.told[-1] += " done"

    def compare(self, found: steps.Values, before: Mapping[int, set[str | None]] | None = None) -> None:
        """Compare what is there, or was `before`."""
        allowed = {key: self.may_be[key] | (before or self.may_be)[key] for key in KEYS}
        wrong = {key: (found.get(key), allowed[key]) for key in KEYS if found.get(key) not in allowed[key]}
        assert not wrong, (wrong, self.seed)
        assert found.keys() <= set(KEYS)

    def check(self) -> None:
        """Read over a good connection."""
        self.compare(steps.ours(self.uri))

    def finish(self) -> None:
        with Dataset.open(self.uri).mem_wal_writer(SHARD):
            expected = steps.ours(self.uri)
            self.compare(expected)
        assert steps.of_sstables(self.uri) == expected
        assert steps.of_pylance(self.uri) == expected
        for client in self.clients:
            with pytest.raises(REFUSED):
                put_and_close(client.writer)
        Dataset.open(self.uri).merge_mem_wal()
        self.clean_up()
        assert steps.ours(self.uri) == steps.shown(lance.dataset(self.uri).to_table()) == expected


def put_and_close(writer: Any) -> None:
    """Put a row, which may wait until the writer is closed."""
    steps.run(writer, ("put", [100], "stale"))
    writer.close()


@pytest.fixture(autouse=True)
def cleanups_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for commits that are under way, which the clients of a history do not have while another one takes a step."""
    monkeypatch.setattr("lance_spark.table.maintenance.cleanup.PAUSE_S", 0)


@pytest.mark.parametrize(
    ("chance", "seed"),
    others_slow([(chance, seed) for chance in (0.0, 0.03) for seed in range(20)], [(0.0, 1), (0.03, 6)]),
)
def test_what_is_acknowledged_is_there_whatever_other_clients_do_meanwhile(chance: float, seed: int, tmp_path: Path) -> None:
    History(steps.made(str(tmp_path / "t.lance")), seed, chance).run()
