"""Batches of a pinned version for training loops: in an order that depends only on a seed, shared by ranks and workers.

`Batches` needs no framework: its batches are tables of pyarrow, for numpy and JAX. `lance_spark.torch` builds on it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.dataset import Dataset
from lance_spark.display.arguments import known_arguments
from lance_spark.errors import (
    InvalidOptionError,
    LanceError,
    MissingFileError,
    VersionNotFoundError,
    check_at_least,
)
from lance_spark.predicate import Filter
from lance_spark.table.mem_wal.version import with_log
from lance_spark.table.scan.plan import ScanPlan, names
from lance_spark.table.scan.read_ahead import prefetch
from lance_spark.table.scan.take import RowReader, row_numbers
from lance_spark.table.versions.snapshot import Snapshot, list_versions

BLOCK_ROWS = 64
BLOCK_BYTES = 512 << 10
WINDOW_BLOCKS = 64
WINDOW_BYTES = 16 << 20
"""The most rows and bytes of a block, which is read at once, and the most blocks and bytes of a window, by default."""

_MAX_BYTES = 16 << 20
_MAX_ROWS = 1 << 16
"""About the most bytes, and rows, that are read together."""

_KEEP = "Begin an epoch of the latest version; a tag on a version keeps it (dataset.tags.create)"


@dataclass(frozen=True)
class Order:
    """The order of the samples, which are numbered from 0, in each epoch.

    A shuffle puts blocks of `block_rows` rows in random order, and mixes the rows of each `window_blocks` of them. So rows
    next to each other are read together, and an epoch needs 8 bytes of memory for each block. With `block_rows` = 1, every
    order of the rows is equally likely, and each row is a read of its own.
    """

    rows: int
    shuffle: bool
    seed: int
    block_rows: int = BLOCK_ROWS
    window_blocks: int = WINDOW_BLOCKS

    def __post_init__(self) -> None:
        check_at_least("seed", self.seed, 0)
        check_at_least("block_rows", self.block_rows, 1)
        check_at_least("window_blocks", self.window_blocks, 1)

    def samples(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The numbers of the samples at these places of the epoch."""
        if not self.shuffle or start >= stop:
            return np.arange(start, stop, dtype=np.int64)
        ends = _window_ends(self, epoch)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
        mixed = np.concatenate([_window(self, epoch, number) for number in range(first, last + 1)])
        begin = int(ends[first - 1]) if first else 0
        return mixed[start - begin : stop - begin]


@lru_cache(maxsize=4)
def _blocks(order: Order, epoch: int) -> np.ndarray:
    """The blocks in the order of the epoch."""
    return np.random.default_rng([order.seed, epoch]).permutation(-(-order.rows // order.block_rows))


@lru_cache(maxsize=4)
def _window_ends(order: Order, epoch: int) -> np.ndarray:
    """The place after each window."""
    blocks = _blocks(order, epoch)
    sizes = np.minimum((blocks + 1) * order.block_rows, order.rows) - blocks * order.block_rows
    return np.cumsum(np.add.reduceat(sizes, np.arange(0, len(blocks), order.window_blocks)))


@lru_cache(maxsize=4)
def _window(order: Order, epoch: int, number: int) -> np.ndarray:
    """The samples of a window, mixed."""
    blocks = _blocks(order, epoch)[number * order.window_blocks : (number + 1) * order.window_blocks]
    samples = (blocks[:, None] * order.block_rows + np.arange(order.block_rows)).reshape(-1)
    samples = samples[samples < order.rows]
    return np.random.default_rng([order.seed, epoch, number]).permutation(samples)


@dataclass(frozen=True)
class Share:
    """The batches of one rank. In each step, every rank has one batch; its samples follow those of the rank before.

    Each sample is in one batch, so that the last step may be short, and may have no batch for the last ranks. With
    `drop_last`, a short last step is left out. With `pad`, it is filled with the first samples of the epoch.
    """

    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    pad: bool = False

    def __post_init__(self) -> None:
        check_at_least("batch_size", self.batch_size, 1)
        check_at_least("world_size", self.world_size, 1)
        check_at_least("rank", self.rank, 0)
        if self.rank >= self.world_size:
            raise ValueError(f"rank must be below world_size, {self.world_size}, not {self.rank}")
        if self.drop_last and self.pad:
            raise ValueError("a short last step is either left out (drop_last) or filled (pad), not both")

    @property
    def step_rows(self) -> int:
        """The samples of all ranks in one step."""
        return self.batch_size * self.world_size

    def steps(self, rows: int, start: int) -> int:
        """The number of batches of this rank, from the place `start` of an epoch of `rows` samples on."""
        left = max(rows - start, 0)
        if self.drop_last:
            return left // self.step_rows
        if self.pad:
            return -(-left // self.step_rows)
        return -(-max(left - self.rank * self.batch_size, 0) // self.step_rows)

    def samples(self, order: Order, epoch: int, start: int, step: int) -> np.ndarray:
        """The samples of this rank's batch in a step."""
        first = start + step * self.step_rows + self.rank * self.batch_size
        stop = first + self.batch_size
        found = order.samples(epoch, min(first, order.rows), min(stop, order.rows))
        if self.pad and len(found) < self.batch_size:
            again = np.arange(max(first, order.rows), stop) % order.rows
            found = np.concatenate([found, *(order.samples(epoch, place, place + 1) for place in again.tolist())])
        return found


@known_arguments
class Batches:
    """The samples of a version in batches, epoch by epoch: what a training loop of numpy or JAX iterates.

    Each iteration is one epoch. `state_dict()` tells which samples the loop has been given, over all ranks, and
    `load_state_dict` goes on after them: also with another batch size, and with other numbers of ranks and workers.

    Examples:
        >>> import pyarrow as pa
        >>> from lance_spark import Dataset
        >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": range(10)}))
        >>> batches = Batches("/tmp/t.lance", batch_size=4)
        >>> [batch["id"].to_pylist() for batch in batches]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        table: str | PathLike[str] | Dataset,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        batch_size: int = 256,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        version: int | None = None,
        *,
        drop_last: bool = False,
        pad: bool = False,
        block_rows: int | None = None,
        window_blocks: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Pin a version, and find the rows that satisfy the filter, whose numbers stay in memory.

        `table` is a URI, or a Dataset, whose version is pinned. See `Order` for `shuffle`, `seed`, `block_rows` and
        `window_blocks`, and `Share` for the others. By default, a block has 64 rows and a window 64 blocks, and fewer if
        the rows of the version are large: half a megabyte and 16 megabytes of files.
        """
        if isinstance(table, Dataset):
            self._dataset = table if version is None else table.checkout_version(version)
        else:
            self._dataset = Dataset.open(table, version=version, storage_options=storage_options)
        self._columns = columns
        self._filter = filter
        self._are_blocks_given = block_rows is not None, window_blocks is not None
        usual_rows, usual_blocks = _usual_blocks(self._dataset.snapshot, block_rows)
        self._order = Order(
            0,
            shuffle,
            seed,
            usual_rows if block_rows is None else block_rows,
            usual_blocks if window_blocks is None else window_blocks,
        )
        self.share = Share(batch_size, rank, world_size, drop_last, pad)
        self.epoch = 0
        self._consumed = 0
        self._resumed = False
        self._find_rows()
        self._dataset.scan(columns)  # raises for columns that do not exist

    def _find_rows(self) -> None:
        """Find the rows of the version that are samples; None: all."""
        self._row_numbers: np.ndarray | None = None
        rows = self._dataset.count_rows()
        if self._filter is not None:
            numbers = self._dataset.scan(["_rowoffset"], self._filter).to_table().column(0)
            self._row_numbers = numbers.to_numpy().astype(np.int64)
            rows = len(self._row_numbers)
        self._order = replace(self._order, rows=rows)

    @property
    def dataset(self) -> Dataset:
        """The version that is read."""
        return self._dataset

    @property
    def rows(self) -> int:
        """The number of samples of an epoch, over all ranks."""
        return self._order.rows

    def __repr__(self) -> str:
        order = f"seed={self._order.seed}" if self._order.shuffle else "shuffle=False"
        return f"Batches({self._dataset!r}, rows={self.rows}, batch_size={self.share.batch_size}, {order}, epoch={self.epoch})"

    def __len__(self) -> int:
        """The number of batches of this rank in a whole epoch."""
        return self.share.steps(self.rows, 0)

    def __iter__(self) -> Iterator[pa.Table]:
        start = self.begin()
        for batch in self.read(self.epoch, start):
            self.count()
            yield batch
        self.end()

    def begin(self) -> int:
        """Begin an epoch, or go on with the one of a state that was loaded. Returns the place of the first sample."""
        if not self._resumed:
            self._consumed = 0
        self._resumed = False
        return self._consumed

    def count(self) -> None:
        """Note that the loop is given a batch."""
        self._consumed = min(self._consumed + self.share.step_rows, self.rows)

    def end(self) -> None:
        """Note that the loop has been given all batches: the next epoch follows."""
        self.set_epoch(self.epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch, from its beginning."""
        check_at_least("epoch", epoch, 0)
        self.epoch = epoch
        self._consumed = 0
        self._resumed = False

    def read(self, epoch: int, start: int, worker: int = 0, workers: int = 1) -> Iterator[pa.Table]:
        """Those of this rank's batches, from a place of an epoch on, that one of several workers reads: every `workers`-th."""
        steps = range(worker, self.share.steps(self.rows, start), workers)
        groups = self._groups(epoch, start, steps)
        # Several workers read while the loop and each other work; a thread in each would only take their processors.
        for group in prefetch(groups, _MAX_BYTES) if workers == 1 else groups:
            yield from _divided(group.rows, group.sizes)

    def _groups(self, epoch: int, start: int, steps: range) -> Generator[_Group, None, None]:
        """The batches of these steps. Those of some windows, or of a part of one, are read together: their rows are near each other."""
        reader = self._reader()
        together = 1
        while steps:
            batches = [self.share.samples(self._order, epoch, start, step) for step in steps[:together]]
            try:
                rows = reader.take(self._numbers(np.concatenate(batches)))
            except LanceError as e:
                if (removed := self._cleaned_up(e)) is not None:
                    raise removed from e
                raise
            yield _Group(rows, [len(batch) for batch in batches])
            steps = steps[together:]
            together = self._together(start + steps.start * self.share.step_rows, steps.step, rows.nbytes / max(len(rows), 1))

    def _cleaned_up(self, error: LanceError) -> VersionNotFoundError | None:
        """The error that says that the version was removed while it was read; None if it is still there."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, MissingFileError):
            cause = cause.__cause__
        if cause is None:
            return None
        snapshot = self._dataset.snapshot
        if snapshot.version in list_versions(snapshot.store):
            return None
        return VersionNotFoundError(f"a cleanup has removed version {snapshot.version} while it was read: {error}. {_KEEP}")

    def _together(self, place: int, workers: int, row_bytes: float) -> int:
        """How many batches to read together from this place of the epoch on: up to the end of a window, if memory allows."""
        fitting = max(1, int(min(_MAX_BYTES / max(row_bytes, 1), _MAX_ROWS) / self.share.batch_size))
        stride = self.share.step_rows * workers
        window = self._order.block_rows * self._order.window_blocks
        ends = (place + fitting * stride) // window * window
        return (ends - place) // stride or fitting if ends > place else fitting

    def _reader(self) -> RowReader:
        snapshot = with_log(self._dataset.snapshot)
        return RowReader(snapshot, ScanPlan(names(self._columns)).checked(snapshot))

    def take(self, samples: Sequence[int] | np.ndarray) -> pa.Table:
        """The samples with these numbers, in this order. Raises IndexError."""
        return self._reader().take(self._numbers(row_numbers("samples", samples)))

    def _numbers(self, samples: np.ndarray) -> np.ndarray:
        """The numbers of the rows of these samples."""
        if self._row_numbers is None:
            return samples
        if len(samples) and not 0 <= samples.min() <= samples.max() < self.rows:
            raise IndexError(f"there are {self.rows} samples; {samples.min()} to {samples.max()} are asked for")
        numbers: np.ndarray = self._row_numbers[samples]
        return numbers

    def state_dict(self) -> dict[str, Any]:
        """Which samples the loop has been given, and in which order: numbers and texts, as JSON has them."""
        return {
            "epoch": self.epoch,
            "samples": self._consumed,
            "version": self._dataset.version,
            "rows": self.rows,
            "shuffle": self._order.shuffle,
            "seed": self._order.seed,
            "block_rows": self._order.block_rows,
            "window_blocks": self._order.window_blocks,
        }

    def follow(self, version: int, block_rows: int, window_blocks: int) -> None:
        """Read this version in this order from now on: in a worker that persists, what the process of the loop reads by now."""
        self._check_out(version)
        self._order = replace(self._order, block_rows=block_rows, window_blocks=window_blocks)

    def _check_out(self, version: int) -> None:
        if version == self._dataset.version:
            return
        try:
            self._dataset = self._dataset.checkout_version(version)
        except VersionNotFoundError as e:
            raise VersionNotFoundError(f"the state is of a version that a cleanup has removed: {e}. {_KEEP}") from e
        self._find_rows()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the samples of a state, in the version that it was taken of.

        Blocks and windows that were not given are those of the state. Raises InvalidOptionError for a state of other
        samples or of another order.
        """
        own = self.state_dict()
        if missing := [name for name in own if name not in state]:
            raise InvalidOptionError(f"the state lacks {missing[0]!r}; pass what state_dict() has returned")
        given = [name for name, is_given in zip(("block_rows", "window_blocks"), self._are_blocks_given) if is_given]
        for name in ("shuffle", "seed", *given):
            if state[name] != own[name]:
                raise InvalidOptionError(f"the state was taken with {name}={state[name]!r}, not {own[name]!r}")
        self._check_out(state["version"])
        if state["rows"] != self.rows:
            raise InvalidOptionError(
                f"the state was taken of {state['rows']} samples, but there are {self.rows}; pass the same filter and table"
            )
        self._order = replace(self._order, block_rows=state["block_rows"], window_blocks=state["window_blocks"])
        self.set_epoch(state["epoch"])
        self._consumed = state["samples"]
        self._resumed = True


def _usual_blocks(snapshot: Snapshot, block_rows: int | None) -> tuple[int, int]:
    """The rows of a block, unless they are given, and the blocks of a window, if rows are as large as those of the version."""
    if block_rows is not None:
        check_at_least("block_rows", block_rows, 1)
    fragments = snapshot.manifest.fragments
    rows = sum(fragment.physical_rows or 0 for fragment in fragments)
    row_bytes = sum(file.size or 0 for fragment in fragments for file in fragment.files) / max(rows, 1) or 1.0
    if block_rows is None:
        block_rows = int(min(max(BLOCK_BYTES / row_bytes, 1), BLOCK_ROWS))
    blocks = WINDOW_BYTES / (row_bytes * block_rows)
    return block_rows, int(min(max(blocks, 1), WINDOW_BLOCKS))


@dataclass(frozen=True)
class _Group:
    """The rows of batches that were read together, and how many each batch has."""

    rows: pa.Table
    sizes: Sequence[int]

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        return int(self.rows.nbytes)


def _divided(rows: pa.Table, sizes: Sequence[int]) -> Iterator[pa.Table]:
    """The rows of each batch, of those of all of them."""
    begin = 0
    for size in sizes:
        yield rows.slice(begin, size)
        begin += size
