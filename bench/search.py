"""python -m bench.search [--rows N] [--many N] [--only texts]: the nearest vectors, and the best texts.

The contestants take turns; each figure is the median, warm. The indexes of the table are made by pylance, those of faiss
have the same parameters. faiss answers with numbers of rows, the others with the column `id` of the rows.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from bench import texts
from bench.growth import markdown
from bench.indexes import FOLDER, rounds
from lance_spark import Dataset

ROWS, DIMENSIONS, MANY, K = 1_000_000, 128, 1000, 10
COMPARED = 100
"""Of many queries, so many are compared with every vector: pylance does it one after another, for minutes."""
PARTS = 16
ROUNDS, MANY_ROUNDS = 21, 3
INDEXES: dict[str, dict[str, Any]] = {"IVF_PQ": {"num_sub_vectors": PARTS}, "IVF_HNSW_SQ": {}, "IVF_RQ": {}}
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "IVF_PQ, nprobes 1": ("IVF_PQ", {"nprobes": 1}),
    "IVF_PQ, nprobes 20": ("IVF_PQ", {"nprobes": 20}),
    "IVF_PQ, nprobes 20, refine_factor 10": ("IVF_PQ", {"nprobes": 20, "refine_factor": 10}),
    "IVF_HNSW_SQ, nprobes 1": ("IVF_HNSW_SQ", {"nprobes": 1}),
    "IVF_RQ, nprobes 20": ("IVF_RQ", {"nprobes": 20}),
    "brute force": ("IVF_PQ", {"use_index": False}),
}


def vectors(count: int, seed: int) -> np.ndarray:
    """Vectors around a thousand centres."""
    centres = np.random.default_rng(1).normal(size=(1000, DIMENSIONS)).astype(np.float32)
    rng = np.random.default_rng(seed)
    noise = rng.normal(scale=0.5, size=(count, DIMENSIONS)).astype(np.float32)
    return np.asarray(centres[rng.integers(0, len(centres), count)] + noise)


def make(count: int) -> Mapping[str, Path]:
    """A table for each kind of index; made once."""
    found = {}
    for kind, parameters in INDEXES.items():
        path = FOLDER / f"search-{kind}-{count}.lance"
        if not path.exists() or not lance.dataset(path).list_indices():
            FOLDER.mkdir(exist_ok=True)
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors(count, 2).ravel()), DIMENSIONS)
            lance.write_dataset(pa.table({"id": np.arange(count), "vec": column}), path, mode="overwrite")
            partitions = 1 if "HNSW" in kind else partitions_of(count)
            lance.dataset(path).create_index("vec", kind, metric="l2", num_partitions=partitions, **parameters)
        found[kind] = path
    return found


def partitions_of(count: int) -> int:
    """About the square root of the number of rows."""
    return 1 << (int(count**0.5).bit_length() - 1)


def faiss_searches(count: int) -> dict[str, Callable[[np.ndarray], Any]]:
    """The same searches in faiss, of those that it has."""
    faiss = importlib.import_module("faiss")
    rows = vectors(count, 2)
    flat, lists = faiss.IndexFlatL2(DIMENSIONS), partitions_of(count)
    flat.add(rows)
    coded = faiss.IndexIVFPQ(faiss.IndexFlatL2(DIMENSIONS), DIMENSIONS, lists, PARTS, 8)
    graph = faiss.IndexHNSWSQ(DIMENSIONS, faiss.ScalarQuantizer.QT_8bit, 20)
    for index in (coded, graph):
        index.train(rows)
        index.add(rows)
    refined = faiss.IndexRefineFlat(coded, faiss.swig_ptr(rows))

    def probes(number: int, index: Any, query: np.ndarray) -> Any:
        coded.nprobe, refined.k_factor = number, 10
        return index.search(query, K)[1]

    def walked(query: np.ndarray) -> Any:
        graph.hnsw.efSearch = K * 3 // 2
        return graph.search(query, K)[1]

    return {
        "IVF_PQ, nprobes 1": partial(probes, 1, coded),
        "IVF_PQ, nprobes 20": partial(probes, 20, coded),
        "IVF_PQ, nprobes 20, refine_factor 10": partial(probes, 20, refined),
        "IVF_HNSW_SQ, nprobes 1": walked,
        "brute force": lambda query: flat.search(query, K)[1],
    }


def measured(count: int, queries: np.ndarray, number: int) -> list[list[str]]:
    """The rows of the table for these queries, one or many."""
    paths, others = make(count), faiss_searches(count)
    table = []
    for name, (kind, parameters) in SEARCHES.items():
        asked = queries[:COMPARED] if "use_index" in parameters else queries
        near = {"column": "vec", "q": asked if len(asked) > 1 else asked[0], "k": K, **parameters}
        ours, theirs = Dataset.open(paths[kind]), lance.dataset(paths[kind])

        def run_ours(ours: Dataset = ours, near: dict[str, Any] = near) -> int:
            return int(ours.scan(["id", "_distance"], nearest=near).to_table().num_rows)

        def run_theirs(theirs: Any = theirs, near: dict[str, Any] = near) -> int:
            return int(theirs.to_table(["id", "_distance"], nearest=near).num_rows)

        runs: dict[str, Callable[[], int]] = {"ours": run_ours, "pylance": run_theirs}
        if (other := others.get(name)) is not None:
            runs["faiss"] = lambda other=other, asked=asked: int(other(asked).size)  # type: ignore[misc]
        found = rounds(runs, number)
        own = found["ours"]
        figures = [f"{found[who] * 1000:.1f}" if who in found else "" for who in ("ours", "pylance", "faiss")]
        ratios = [f"{own / found[who]:.2f}" if who in found else "" for who in ("pylance", "faiss")]
        table.append([name if len(asked) == len(queries) else f"{name}, {len(asked)} at once", *figures, *ratios])
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--many", type=int, default=MANY, help="queries at once")
    parser.add_argument("--only", choices=("vectors", "texts"))
    asked = parser.parse_args()
    if asked.only in (None, "texts"):
        columns = [f"{who}, index of {maker}" for maker in ("pylance", "ours") for who in ("ours", "pylance", "ratio")]
        print(markdown([f"ms, best {texts.K} of {asked.rows} texts", *columns], texts.measured(asked.rows, ROUNDS)))
    if asked.only not in (None, "vectors"):
        return
    for queries, number in ((1, ROUNDS), (asked.many, MANY_ROUNDS)):
        print(
            markdown(
                [f"ms, {queries} at once", "ours", "pylance", "faiss", "to pylance", "to faiss"],
                measured(asked.rows, vectors(queries, 3), number),
            )
        )


if __name__ == "__main__":
    main()
