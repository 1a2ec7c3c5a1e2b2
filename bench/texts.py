"""The best ten rows of full-text searches, beside pylance; see `bench.search`. Both read the same index, which pylance or we have made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.query import FullTextOperator, MatchQuery, PhraseQuery

from bench.indexes import FOLDER, rounds
from lance_spark import Dataset

WORDS, LENGTHS = 100_000, (5, 40)
K = 10
COLUMNS = ["id", "_score"]
_BATCH = 50_000
ASKED: dict[str, tuple[dict[str, Any], Any]] = {
    "a rare word": ({"match": {"query": "w70000", "column": "t"}}, MatchQuery("w70000", "t")),
    "a frequent word": ({"match": {"query": "w0", "column": "t"}}, MatchQuery("w0", "t")),
    "one of three words": ({"match": {"query": "w1 w50 w3000", "column": "t"}}, MatchQuery("w1 w50 w3000", "t")),
    "three words": (
        {"match": {"query": "w1 w5 w30", "column": "t", "operator": "and"}},
        MatchQuery("w1 w5 w30", "t", operator=FullTextOperator.AND),
    ),
    "a phrase": ({"phrase": {"query": "w0 w2", "column": "t"}}, PhraseQuery("w0 w2", "t")),
    "a fuzzy word": ({"match": {"query": "w1234", "column": "t", "fuzziness": 1}}, MatchQuery("w1234", "t", fuzziness=1)),
}
"""The queries: of the scan, and as pylance's. The word number i is as frequent as 1 / (i + 1)."""


def rows(count: int) -> pa.Table:
    """Texts of 5 to 39 words whose frequencies are those of a language (Zipf's law)."""
    rng = np.random.default_rng(5)
    bounds = np.cumsum(1 / np.arange(1, WORDS + 1))
    names = np.array([f"w{number}" for number in range(WORDS)], object)
    texts: list[str] = []
    for start in range(0, count, _BATCH):
        sizes = rng.integers(*LENGTHS, min(_BATCH, count - start))
        words = names[np.searchsorted(bounds, rng.random(int(sizes.sum())) * bounds[-1])]
        texts += [" ".join(part) for part in np.split(words, np.cumsum(sizes)[:-1])]
    return pa.table({"id": np.arange(count), "t": pa.array(texts)})


def make(count: int) -> Mapping[str, Path]:
    """Two tables with the same rows, whose indexes pylance and we have made; made once. Prints the seconds that it took."""
    paths = {name: FOLDER / f"texts-{name}-{count}.lance" for name in ("pylance", "ours")}
    for name, path in paths.items():
        if path.exists() and lance.dataset(path).list_indices():
            continue
        FOLDER.mkdir(exist_ok=True)
        lance.write_dataset(rows(count), path, mode="overwrite")
        start = time.perf_counter()
        if name == "ours":
            Dataset.open(path).create_scalar_index("t", "INVERTED", with_position=True)
        else:
            lance.dataset(path).create_scalar_index("t", "INVERTED", with_position=True)
        print(f"the index of {count} texts, made by {name}: {time.perf_counter() - start:.1f} s")
    return paths


def measured(count: int, number: int) -> list[list[str]]:
    """The rows of the table: each query in the index that pylance made, and in ours."""
    table = []
    paths = make(count)
    for name, (asked, theirs) in ASKED.items():
        figures: list[str] = []
        for path in paths.values():
            found = rounds(_contestants(path, asked, theirs), number)
            figures += [f"{found[who] * 1000:.1f}" for who in ("ours", "pylance")]
            figures.append(f"{found['ours'] / found['pylance']:.2f}")
        table.append([name, *figures])
    return table


def _contestants(path: Path, asked: dict[str, Any], theirs: Any) -> dict[str, Callable[[], int]]:
    ours, other = Dataset.open(path), lance.dataset(path)
    return {
        "ours": lambda: int(ours.scan(COLUMNS, full_text_query=asked, limit=K).to_table().num_rows),
        "pylance": lambda: int(other.to_table(COLUMNS, full_text_query=theirs, limit=K).num_rows),
    }
