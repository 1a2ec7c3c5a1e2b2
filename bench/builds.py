"""Making vector indexes, beside pylance; see `bench.search`. Each is made in a process of its own, which tells the time and the memory."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from bench.indexes import FOLDER
from lance_spark import Dataset

FRAGMENTS, ROUNDS = 8, 3
QUERIES, K, PROBES = 200, 10, 20
KINDS: Mapping[str, dict[str, Any]] = {
    "IVF_PQ": {"num_sub_vectors": 16},
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_RQ": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 16},
}
WRITERS = ("ours", "pylance")


def measured(vectors: Callable[[int, int], np.ndarray], count: int, partitions: int, only: str | None = None) -> Iterator[list[str]]:
    """The rows of the table: processor seconds, seconds, memory, recall and size of each kind."""
    table = FOLDER / f"builds-{count}.lance"
    rows = vectors(count, 2)
    if not table.exists():
        FOLDER.mkdir(exist_ok=True)
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        lance.write_dataset(pa.table({"id": np.arange(count), "vec": column}), table, max_rows_per_file=-(-count // FRAGMENTS))
    queries = vectors(QUERIES, 3)
    for kind in KINDS if only is None else (only,):
        found: dict[str, list[list[float]]] = {writer: [] for writer in WRITERS}
        for _ in range(ROUNDS):
            for writer in WRITERS:
                found[writer].append(_made(writer, table, kind, 1 if "HNSW" in kind else partitions))
        best = {writer: [min(column) for column in zip(*rounds)] for writer, rounds in found.items()}
        for i, what in enumerate(("processor seconds", "seconds", "most memory, MB")):
            own, other = (best[writer][i] for writer in WRITERS)
            yield [f"{kind}, {what}", f"{own:.1f}", f"{other:.1f}", f"{own / other:.2f}"]
        copies = [_copy(writer, table) for writer in WRITERS]
        recalls = [Dataset.open(str(copy)).recall("vec", queries, k=K, nprobes=PROBES) for copy in copies]
        yield [f"{kind}, recall@{K}", *(f"{recall:.3f}" for recall in recalls), f"{recalls[0] / recalls[1]:.2f}"]
        sizes = [Dataset.open(str(copy)).index_statistics("vec_idx")["size_bytes"] / 1e6 for copy in copies]
        yield [f"{kind}, MB", *(f"{size:.1f}" for size in sizes), f"{sizes[0] / sizes[1]:.2f}"]


def _copy(writer: str, table: Path) -> Path:
    return table.with_name(f"{table.stem}-{writer}.lance")


def _made(writer: str, table: Path, kind: str, partitions: int) -> list[float]:
    """Make the index of a new copy of the table, in a process of its own."""
    copy = _copy(writer, table)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=os.link)
    command = [sys.executable, "-m", "bench.builds", writer, str(copy), kind, str(partitions)]
    return list(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))


def main() -> None:
    """Make one index, and print the processor seconds, the seconds and the most memory in MB."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("writer", choices=WRITERS)
    parser.add_argument("table")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("partitions", type=int)
    asked = parser.parse_args()
    given = {"metric": "l2", "num_partitions": asked.partitions, **KINDS[asked.kind]}
    table = Dataset.open(asked.table) if asked.writer == "ours" else lance.dataset(asked.table)
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    table.create_index("vec", asked.kind, **given)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(json.dumps([worked, seconds, int(most.split()[1]) / 1024]))


if __name__ == "__main__":
    main()
