"""Lance tables in training loops of PyTorch, which must be installed: `pip install 'lance-spark[torch]'`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.types as types
import torch
import torch.distributed
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data import Dataset as MapDataset

from lance_spark.dataset import Dataset
from lance_spark.display.arguments import known_arguments
from lance_spark.errors import InvalidOperationError, SchemaMismatchError
from lance_spark.loaders import Batches
from lance_spark.predicate import Filter

_EPOCH, _START, _IS_COUNTED, _WAS_READ_UNCOUNTED, _VERSION, _BLOCK_ROWS, _WINDOW_BLOCKS = range(7)
"""The places in the memory that a dataset shares with its workers."""


def to_tensors(rows: pa.Table) -> dict[str, Any]:
    """The columns of a batch by name: tensors of numbers, and lists of Python values for all other types.

    Numbers, times (as integers) and vectors of numbers share the memory of the batch. A null is NaN among floats. Raises
    SchemaMismatchError for nulls among other numbers, which no tensor has.
    """
    return {name: _tensor(name, _in_one_piece(column)) for name, column in zip(rows.column_names, rows.columns)}


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column, which are copied only if they are in several pieces."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _tensor(name: str, values: pa.Array) -> Any:
    t = values.type
    if isinstance(t, pa.BaseExtensionType):
        return _tensor(name, values.storage)
    if types.is_fixed_size_list(t) and _is_number(t.value_type) and not values.null_count:
        return _tensor(name, values.flatten()).reshape(-1, t.list_size)
    if types.is_timestamp(t) or types.is_time64(t) or types.is_duration(t) or types.is_date64(t):
        return _tensor(name, values.view(pa.int64()))
    if types.is_date32(t) or types.is_time32(t):
        return _tensor(name, values.view(pa.int32()))
    if types.is_boolean(t) and not values.null_count:
        return torch.from_numpy(values.to_numpy(zero_copy_only=False).copy())
    if not _is_number(t):
        return values.to_pylist()
    if values.null_count and types.is_floating(t):
        return torch.from_numpy(values.to_numpy(zero_copy_only=False).copy())
    if values.null_count:
        raise SchemaMismatchError(f"the column {name!r} ({t}) has nulls, which no tensor has; filter them, or pass a transform")
    if not len(values):
        return torch.from_numpy(values.to_numpy(zero_copy_only=False).copy())
    return torch.from_dlpack(values)


def _is_number(t: pa.DataType) -> bool:
    return bool(types.is_integer(t) or types.is_floating(t))


@known_arguments
class LanceDataset(IterableDataset[Any]):  # type: ignore[misc]
    """The samples of a version in batches, for a training loop: an epoch is one iteration.

    `loader(num_workers=..)` is the DataLoader for it. Any other one needs `batch_size=None`, since the dataset makes the
    batches. The loop gets the same batches in the same order with any number of workers.
    """

    def __init__(
        self,
        table: str | PathLike[str] | Dataset,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        batch_size: int = 256,
        shuffle: bool = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        version: int | None = None,
        *,
        drop_last: bool = False,
        pad: bool = False,
        transform: Callable[[pa.Table], Any] = to_tensors,
        block_rows: int | None = None,
        window_blocks: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Pin a version; see `lance_spark.loaders.Batches` for the arguments.

        `rank` and `world_size` are by default those of `torch.distributed`, if it is initialized. `transform` makes of the
        rows of a batch what the loop gets, in the workers: it decodes images, for example.
        """
        super().__init__()
        is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if rank is None:
            rank = torch.distributed.get_rank() if is_distributed else 0
        if world_size is None:
            world_size = torch.distributed.get_world_size() if is_distributed else 1
        self.batches = Batches(
            table,
            columns,
            filter,
            batch_size,
            shuffle,
            seed,
            rank,
            world_size,
            version,
            drop_last=drop_last,
            pad=pad,
            block_rows=block_rows,
            window_blocks=window_blocks,
            storage_options=storage_options,
        )
        self._transform = transform
        # Workers that persist do not see attributes that change later.
        self._shared = torch.zeros(7, dtype=torch.int64).share_memory_()
        self._share_place(0, is_counted=False)

    def __repr__(self) -> str:
        return f"LanceDataset({self.batches!r})"

    def __len__(self) -> int:
        """The number of batches of this rank in a whole epoch."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is None:
            start = self.batches.begin()
            for rows in self.batches.read(self.batches.epoch, start):
                self.batches.count()
                yield self._transform(rows)
            self.batches.end()
            return
        if not self._shared[_IS_COUNTED]:
            self._shared[_WAS_READ_UNCOUNTED] = 1
        epoch, start, version, block_rows, window_blocks = self._shared[[_EPOCH, _START, _VERSION, _BLOCK_ROWS, _WINDOW_BLOCKS]].tolist()
        self.batches.follow(version, block_rows, window_blocks)
        for rows in self.batches.read(epoch, start, worker.id, worker.num_workers):
            yield self._transform(rows)

    def loader(self, **options: Any) -> LanceLoader:
        """A DataLoader for this dataset, with its options, such as `num_workers`, `persistent_workers` and `pin_memory`."""
        return LanceLoader(self, **options)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch, which has its own order. Iterations of `loader()` count epochs themselves."""
        self.batches.set_epoch(epoch)
        self._share_place(0, is_counted=False)

    def _share_place(self, start: int, is_counted: bool) -> None:
        state = self.batches.state_dict()
        self._shared[_EPOCH] = self.batches.epoch
        self._shared[_VERSION] = state["version"]
        self._shared[_BLOCK_ROWS] = state["block_rows"]
        self._shared[_WINDOW_BLOCKS] = state["window_blocks"]
        self._shared[_START] = start
        self._shared[_IS_COUNTED] = int(is_counted)
        self._shared[_WAS_READ_UNCOUNTED] = 0

    def state_dict(self) -> dict[str, Any]:
        """Which samples the loop has been given: not those that workers have read ahead. See `Batches.state_dict`.

        Raises InvalidOperationError if workers of another DataLoader than `loader()` have read it, which do not tell.
        """
        if self._shared[_WAS_READ_UNCOUNTED]:
            raise InvalidOperationError(
                "workers of a DataLoader have read the samples, and do not tell which of them the loop was given; "
                "iterate dataset.loader(num_workers=..) instead"
            )
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the samples of a state, also with another number of workers or ranks. See `Batches.load_state_dict`."""
        self.batches.load_state_dict(state)
        self._share_place(state["samples"], is_counted=False)


class LanceLoader(DataLoader[Any]):  # type: ignore[misc]
    """The DataLoader of a `LanceDataset`, which knows the samples that the loop has been given."""

    def __init__(self, dataset: LanceDataset, **options: Any) -> None:
        super().__init__(dataset, batch_size=None, **options)

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers:
            yield from super().__iter__()
            return
        batches = self.dataset.batches
        self.dataset._share_place(batches.begin(), is_counted=True)
        for batch in super().__iter__():
            batches.count()
            yield batch
        batches.end()

    def state_dict(self) -> dict[str, Any]:
        """See `LanceDataset.state_dict`."""
        found: dict[str, Any] = self.dataset.state_dict()
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `LanceDataset.load_state_dict`."""
        self.dataset.load_state_dict(state)


@known_arguments
class LanceMapDataset(MapDataset[Any]):  # type: ignore[misc]
    """The samples of a version by number, for samplers of PyTorch: `dataset[3]`, and `dataset[[3, 5]]` at once.

    A sample is a dictionary of Python values, or what `transform` makes of its row. A DataLoader reads the samples of a batch together.
    """

    def __init__(
        self,
        table: str | PathLike[str] | Dataset,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        version: int | None = None,
        *,
        transform: Callable[[dict[str, Any]], Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._batches = Batches(table, columns, filter, version=version, storage_options=storage_options)
        self._transform = transform

    def __len__(self) -> int:
        return self._batches.rows

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples with these numbers, in this order. Raises IndexError."""
        rows = self._batches.take(indices).to_pylist()
        return rows if self._transform is None else [self._transform(row) for row in rows]
