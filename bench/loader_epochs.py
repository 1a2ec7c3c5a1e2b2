"""python -m bench.loader_epochs CONTESTANT FOLDER WORKERS: shuffled epochs, as `bench.loader` measures them.

A batch is the tensor of its images, of equal size. Every contestant makes it of the bytes of the samples by the same
function. pylance's workers are spawned, since it is not to be forked; all others are forked.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch.utils.data import DataLoader

BATCH, SEED = 128, 5
BUFFER = 4096
"""Samples that are mixed, where a loader has a buffer for them: as many as in a window of ours by default."""
ROW_BYTES = 4 << 20
"""Bytes of a row group of Parquet."""

Batches = Iterable[torch.Tensor]


def stacked(images: Sequence[bytes]) -> torch.Tensor:
    """The images of a batch as one tensor."""
    together = torch.frombuffer(bytearray(b"".join(images)), dtype=torch.uint8)
    return together.reshape(len(images), -1)


def of_rows(rows: pa.Table | pa.RecordBatch) -> torch.Tensor:
    """The images of rows of Arrow."""
    return stacked(rows.column("image").to_pylist())


def of_samples(samples: Sequence[Mapping[str, Any]]) -> torch.Tensor:
    """The images of samples that are dictionaries."""
    return stacked([sample["image"] for sample in samples])


def ours(folder: Path, workers: int, **order: int) -> Batches:
    """Blocks of rows in random order, mixed in windows."""
    module = importlib.import_module("lance_spark.torch")
    dataset = module.LanceDataset(folder / "t.lance", ["image"], batch_size=BATCH, shuffle=True, seed=SEED, transform=of_rows, **order)
    loader: Batches = dataset.loader(num_workers=workers)
    return loader


def ours_each_row(folder: Path, workers: int) -> Batches:
    """Every order of the rows is equally likely."""
    return ours(folder, workers, block_rows=1, window_blocks=BUFFER)


def pylance_batches(folder: Path, workers: int) -> Batches:
    """Batches in random order; the rows of a batch stay together."""
    data, sampler = importlib.import_module("lance.torch.data"), importlib.import_module("lance.sampler")
    dataset = data.LanceDataset(
        str(folder / "t.lance"),
        BATCH,
        columns=["image"],
        to_tensor_fn=_of_rows_of_pylance,
        sampler=sampler.ShardedBatchSampler(0, 1, randomize=True, seed=SEED),
    )
    return _spawning(dataset, workers, batch_size=None)


def _of_rows_of_pylance(rows: pa.RecordBatch, **_: Any) -> torch.Tensor:
    return of_rows(rows)


def pylance_rows(folder: Path, workers: int) -> Batches:
    """Every order of the rows is equally likely."""
    data = importlib.import_module("lance.torch.data")
    return _spawning(data.SafeLanceDataset(str(folder / "t.lance")), workers, BATCH, shuffle=True, collate_fn=of_samples)


def _spawning(dataset: Any, workers: int, batch_size: int | None, **options: Any) -> Batches:
    if workers:
        options["multiprocessing_context"] = "spawn"
    batches: Batches = DataLoader(dataset, batch_size, num_workers=workers, **options)
    return batches


def parquet(folder: Path, workers: int) -> Batches:
    """Files in random order, and a buffer of samples that are mixed."""
    datasets = importlib.import_module("datasets")
    files = sorted(map(str, folder.glob("*.parquet")))
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, columns=["image"])
    mixed = stream.shuffle(seed=SEED, buffer_size=BUFFER)
    batches: Batches = DataLoader(mixed, BATCH, num_workers=workers, collate_fn=of_samples)
    return batches


def mosaic(folder: Path, workers: int) -> Batches:
    """Shards in random order, and their samples mixed as MosaicML does by default."""
    dataset = _streaming().StreamingDataset(
        local=str(folder / "shards"), shuffle=True, shuffle_seed=SEED, batch_size=BATCH, num_canonical_nodes=1
    )
    batches: Batches = DataLoader(dataset, BATCH, num_workers=workers, collate_fn=of_samples)
    return batches


CONTESTANTS: dict[str, Callable[[Path, int], Batches]] = {
    "ours": ours,
    "pylance, batches": pylance_batches,
    "Parquet, datasets": parquet,
    "MosaicML": mosaic,
    "ours, each row": ours_each_row,
    "pylance, each row": pylance_rows,
}


def write_shards(folder: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """The samples as shards of MosaicML."""
    with _streaming().MDSWriter(out=str(folder), columns={"id": "int", "image": "bytes"}, exist_ok=True) as writer:
        for batch in batches:
            for sample in batch.to_pylist():
                writer.write(sample)


class _NoContent(types.ModuleType):
    """A module whose names are all empty classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Unneeded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """MosaicML imports gigabytes of libraries of models and images, of which its shards need nothing."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        is_unneeded = name.split(".")[0] in ("transformers", "torchvision")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_unneeded else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _NoContent(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def _streaming() -> Any:
    sys.meta_path.append(_Unneeded())
    return importlib.import_module("streaming")


def _worked() -> float:
    """How long processors have worked for this process and for those of its workers that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    """Run two epochs and print what they took."""
    contestant, folder, workers = sys.argv[1:]
    begun, worked = time.perf_counter(), _worked()
    loader = CONTESTANTS[contestant](Path(folder), int(workers))
    batches = iter(loader)
    next(batches)
    first = time.perf_counter()
    later = sum(len(batch) for batch in batches)
    seconds = time.perf_counter() - first
    del batches  # ends the workers
    told = {"first_s": first - begun, "samples_a_second": later / seconds, "processor_s": _worked() - worked}
    worked = _worked()
    for _ in loader:
        pass
    told["second_processor_s"] = _worked() - worked
    print(json.dumps(told))


if __name__ == "__main__":
    main()
