"""python -m bench.loader [--quick] [--sizes 1000 10000] [--rounds N]: shuffled samples for a training loop of PyTorch.

Each measurement is an epoch in a process of its own, which `bench.loader_epochs` runs. The contestants take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.growth import markdown
from bench.loader_epochs import CONTESTANTS, ROW_BYTES, write_shards
from bench.memory import Peak
from lance_spark import Dataset

FOLDER = Path(__file__).parent / "data"
SIZES = (1_000, 10_000, 100_000)
TOTAL_BYTES, QUICK_BYTES = 256 << 20, 32 << 20
FILES = 4
ROUNDS = 3
WORKERS = (0, 2)


@dataclass(frozen=True)
class Epoch:
    """What an epoch took: seconds until the first batch, samples a second from then on, and the most memory.

    Processors work `processor_s` seconds for it, from the import of the loader to the end of its workers, and
    `second_processor_s` for the epoch after it.
    """

    first_s: float
    samples_a_second: float
    processor_s: float
    second_processor_s: float
    peak_bytes: int


def make(size: int, total: int) -> Path:
    """The same samples of `size` bytes as a Lance table, as Parquet files and as shards of MosaicML; made once."""
    folder = FOLDER / f"loader-{size}-{total}"
    if (folder / "made").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    rows = total // size
    rng = np.random.default_rng(size)
    for number in range(FILES):
        ids = np.arange(rows * number // FILES, rows * (number + 1) // FILES)
        images = [rng.bytes(size) for _ in ids]
        part = pa.table({"id": ids, "image": pa.array(images, pa.binary())})
        Dataset.write(folder / "t.lance", part, mode="overwrite" if number == 0 else "append")
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=max(1, ROW_BYTES // size))
    write_shards(folder / "shards", Dataset.open(folder / "t.lance").to_batches())
    (folder / "made").touch()
    return folder


def measure(contestant: str, folder: Path, workers: int) -> Epoch:
    """Run an epoch in a process of its own."""
    command = [sys.executable, "-m", "bench.loader_epochs", contestant, str(folder), str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with Peak(process.pid) as peak:
        output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{contestant} ended with {process.returncode}")
    told = json.loads(output.splitlines()[-1])
    return Epoch(**told, peak_bytes=peak.bytes)


def row(contestant: str, epochs: Sequence[Epoch], ours: Sequence[Epoch]) -> list[str]:
    """The medians of a contestant's rounds, and our speed divided by its speed."""
    speed, own = (statistics.median(epoch.samples_a_second for epoch in each) for each in (epochs, ours))
    names = ("first_s", "processor_s", "second_processor_s")
    first, work, second = (statistics.median(getattr(epoch, name) for epoch in epochs) for name in names)
    peak = statistics.median(epoch.peak_bytes for epoch in epochs)
    return [contestant, f"{speed:,.0f}", f"{own / speed:.2f}", f"{first:.2f}", f"{work:.2f}", f"{second:.2f}", f"{peak / (1 << 20):,.0f}"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data, one round")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes of a sample")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="+", choices=tuple(CONTESTANTS), default=tuple(CONTESTANTS))
    asked = parser.parse_args()
    total, rounds = (QUICK_BYTES, 1) if asked.quick else (TOTAL_BYTES, asked.rounds)
    for size in asked.sizes:
        folder = make(size, total)
        for workers in WORKERS:
            epochs: dict[str, list[Epoch]] = {contestant: [] for contestant in asked.only}
            for _ in range(rounds):
                for contestant, found in epochs.items():
                    found.append(measure(contestant, folder, workers))
            times = ["first batch, s", "processor, s", "second epoch, s"]
            heads = [f"{size:,} bytes, {workers} workers", "samples/s", "ours / it", *times, "memory, MiB"]
            rows = [row(contestant, found, epochs[asked.only[0]]) for contestant, found in epochs.items()]
            print(markdown(heads, rows), flush=True)
    print("load:", *(f"{load:.1f}" for load in os.getloadavg()))


if __name__ == "__main__":
    main()
