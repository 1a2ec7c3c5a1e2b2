"""python -m bench.builds [--data NAME] [--kind KIND] [--rounds N]: vector indexes that are made, beside pylance.

Both make each index with the same parameters, in a process of its own that tells its processor time and its memory; pylance searches both.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from bench.growth import markdown
from bench.indexes import FOLDER
from bench.search import vectors
from lance_spark import Dataset

DOCS = Path(__file__).parent.parent / "docs"
FRAGMENTS, ROUNDS = 8, 2
QUERIES, K = 1000, 10
MANY = 1_000_000
"""Of so many rows, indexes without graphs are made: a graph takes minutes of both."""

KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")
WRITERS = ("ours", "pylance")
HEADS = (
    *("recall", "of pylance", "difference", "found by both", "size to pylance"),
    *("processor s", "of pylance", "ratio", "memory, MB", "of pylance"),
)


@dataclass(frozen=True)
class Data:
    """Vectors, by their number and a seed, and the indexes of them: how many partitions there are (one with a graph) and how many of
    them are searched, and the parts of a vector under PQ.
    """

    vectors: Callable[[int, int], np.ndarray]
    rows: int
    partitions: int
    probes: int
    parts: int
    what: str


def uniform(count: int, seed: int) -> np.ndarray:
    """Numbers from 0 to 1."""
    return np.random.default_rng(seed).random((count, 128), dtype=np.float32)


def digits(count: int, seed: int) -> np.ndarray:
    """The pictures of digits of scikit-learn, moved by up to a pixel, in a random order; those of other seeds are moved by more."""
    pictures = _pictures()
    steps = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)] if seed == 2 else [(-2, 0), (0, 2), (2, 0), (0, -2)]
    moved = np.concatenate([_moved(pictures, step) for step in steps]).reshape(-1, 64)
    return np.asarray(moved[np.random.default_rng(seed).permutation(len(moved))[:count]])


def _pictures() -> np.ndarray:
    datasets = importlib.import_module("sklearn.datasets")
    return np.asarray(datasets.load_digits().images, np.float32)


def _moved(pictures: np.ndarray, by: tuple[int, int]) -> np.ndarray:
    """Pictures that are moved; what leaves them on one side is lost."""
    wide = np.pad(pictures, ((0, 0), (2, 2), (2, 2)))
    x, y = 2 + by[0], 2 + by[1]
    return wide[:, x : x + pictures.shape[1], y : y + pictures.shape[2]]


def large_digits(count: int, seed: int) -> np.ndarray:
    """Such pictures of 28 by 28 pixels, as those of MNIST, moved by up to two, brighter or darker, with noise where they are not black."""
    rng, pictures = np.random.default_rng(seed), _pictures()
    # Each pixel is a mean of four: 20 of the 28 by 28 pixels are the digit, as in MNIST.
    at = np.linspace(0, 7, 20)
    low, part = np.minimum(at.astype(int), 6), (at - np.minimum(at.astype(int), 6)).astype(np.float32)
    rows = pictures[:, low] * (1 - part)[:, None] + pictures[:, low + 1] * part[:, None]
    drawn = rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part
    found = np.zeros((count, 28, 28), np.float32)
    for i, (which, x, y) in enumerate(np.column_stack([rng.integers(0, len(drawn), count), *rng.integers(2, 7, (2, count))]).tolist()):
        found[i, x : x + 20, y : y + 20] = drawn[which]
    found *= rng.uniform(10, 16, (count, 1, 1)).astype(np.float32)
    found += (found > 0) * rng.normal(scale=8, size=found.shape).astype(np.float32)
    return np.clip(found, 0, 255).reshape(count, -1)


DATA: Mapping[str, Data] = {
    "clustered": Data(vectors, 100_000, 256, 20, 16, "128 numbers around 1,000 centres"),
    "uniform": Data(uniform, 100_000, 256, 20, 16, "128 numbers, each from 0 to 1"),
    "digits": Data(digits, 16_173, 16, 4, 8, "pictures of digits (those of scikit-learn, moved by a pixel in all directions), 64 numbers"),
    "large digits": Data(large_digits, 30_000, 64, 8, 56, "the same, drawn and moved in 28 by 28 pixels as those of MNIST, 784 numbers"),
    "a million": Data(vectors, MANY, 512, 20, 16, "128 numbers around 1,000 centres"),
}


def measured(name: str, data: Data, only: str | None = None, rounds: int = ROUNDS) -> Iterator[list[str]]:
    """The rows of the table, one for each kind."""
    table, queries = FOLDER / f"builds-{name.replace(' ', '-')}-{data.rows}.lance", data.vectors(QUERIES, 3)
    if not table.exists():
        FOLDER.mkdir(exist_ok=True)
        rows = data.vectors(data.rows, 2)
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        lance.write_dataset(pa.table({"id": np.arange(len(rows)), "vec": column}), table, max_rows_per_file=-(-len(rows) // FRAGMENTS))
    near = {"column": "vec", "q": queries, "k": K}
    nearest = _ids(Dataset.open(str(table)).scan(["id"], nearest={**near, "use_index": False}).to_table())
    near["nprobes"] = data.probes
    for kind in KINDS if only is None else (only,):
        if only is None and "HNSW" in kind and data.rows >= MANY:
            continue
        costs: dict[str, list[list[float]]] = {writer: [] for writer in WRITERS}
        recalls: dict[str, list[float]] = {writer: [] for writer in WRITERS}
        sizes, both = dict[str, float](), list[float]()
        for _ in range(rounds):
            for writer in WRITERS:
                costs[writer].append(_made(writer, table, kind, data))
                copy = str(_copy(writer, table))
                found = _ids(lance.dataset(copy).to_table(["id"], nearest=near))
                recalls[writer].append(_common(found, nearest))
                sizes[writer] = Dataset.open(copy).index_statistics("vec_idx")["size_bytes"]
                if writer == "ours":
                    both.append(_common(found, _ids(Dataset.open(copy).scan(["id"], nearest=near).to_table())))
        worked, memory = ([min(cost[i] for cost in costs[writer]) for writer in WRITERS] for i in range(2))
        recall = [float(np.mean(recalls[writer])) for writer in WRITERS]
        yield [
            *(kind, f"{recall[0]:.3f}", f"{recall[1]:.3f}", f"{recall[0] - recall[1]:+.3f}", f"{min(both):.4f}"),
            *(f"{sizes['ours'] / sizes['pylance']:.2f}", f"{worked[0]:.1f}", f"{worked[1]:.1f}", f"{worked[0] / worked[1]:.2f}"),
            *(f"{memory[0]:.0f}", f"{memory[1]:.0f}"),
        ]


def _ids(found: pa.Table) -> list[set[int]]:
    """The ids that were found for each query."""
    of, ids = found["query_index"].to_numpy(), found["id"].to_numpy()
    return [set(ids[of == i].tolist()) for i in range(QUERIES)]


def _common(found: list[set[int]], expected: list[set[int]]) -> float:
    """How many of the expected rows were found."""
    return sum(len(a & b) for a, b in zip(found, expected)) / sum(map(len, expected))


def _copy(writer: str, table: Path) -> Path:
    return table.with_name(f"{table.stem}-{writer}.lance")


def _made(writer: str, table: Path, kind: str, data: Data) -> list[float]:
    """Make the index of a new copy of the table, in a process of its own."""
    copy = _copy(writer, table)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=os.link)
    given: dict[str, Any] = {"metric": "l2", "num_partitions": 1 if "HNSW" in kind else data.partitions}
    if kind.endswith("_PQ"):
        given["num_sub_vectors"] = data.parts
    command = [sys.executable, "-m", "bench.builds", "--make", writer, str(copy), kind, json.dumps(given)]
    return list(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]))


def make(writer: str, path: str, kind: str, given: str) -> None:
    """Make one index, and print the processor seconds and the most memory in MB."""
    table: Any = Dataset.open(path) if writer == "ours" else lance.dataset(path)
    before = _worked()
    table.create_index("vec", kind, **json.loads(given))
    worked = _worked() - before
    most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(json.dumps([worked, int(most.split()[1]) / 1024]))


def _worked() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def page(tables: Mapping[str, list[list[str]]]) -> str:
    """The documentation page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pylance", "pyarrow", "numpy", "numba"))
    parts = []
    for name, rows in tables.items():
        data = DATA[name]
        how = f"{data.partitions} partitions (one with a graph), of which {data.probes} are searched; {data.parts} parts of PQ."
        parts.append(f"## {name[0].upper()}{name[1:]}\n\n{data.rows:,} vectors: {data.what}. {how}\n\n{markdown(['kind', *HEADS], rows)}")
    tables_text = "\n\n".join(parts)
    return f"""# Making vector indexes

Made by `make bench-builds` on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}. Compare only the ratios of one run.
When it ended, {os.getloadavg()[2]:.1f} tasks had wanted to run at once on average of 15 minutes.

lance-spark and pylance make indexes with the same parameters, in turns, {ROUNDS} times each; each index is made in a process of its
own, without Spark. pylance searches both for the nearest {K} of {QUERIES:,} queries.

- *recall*: the part of the true nearest {K} that pylance finds in our index and in its own, on average. Centroids begin at random.
- *found by both*: the part of the rows that pylance finds in our index which we find, too; the least of {ROUNDS}.
- *size*: of the files of our index, to those of pylance's.
- *processor s* and *memory*: of the process that makes the index, the least of {ROUNDS}.

{tables_text}
"""


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.builds", description=__doc__)
    parser.add_argument("--data", choices=DATA, action="append", help="only these vectors; writes nothing")
    parser.add_argument("--kind", choices=KINDS, help="only this kind; writes nothing")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--make", nargs=4, metavar=("WRITER", "TABLE", "KIND", "PARAMETERS"), help="one index, in this process")
    asked = parser.parse_args()
    if asked.make:
        make(*asked.make)
        return
    tables: dict[str, list[list[str]]] = {}
    for name in asked.data or DATA:
        print(f"{name}: {', '.join(HEADS)}", flush=True)
        tables[name] = []
        for row in measured(name, DATA[name], asked.kind, asked.rounds):
            tables[name].append(row)
            print(" | ".join(row), flush=True)
    if not asked.data and not asked.kind:
        (DOCS / "bench-builds.md").write_text(page(tables))


if __name__ == "__main__":
    main()
