"""File sizes of whole tables, written by us and by pylance: TPC-H, text, embeddings, events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data import WORDS, tpch

FOLDER = Path(__file__).parent / "data"
LIMIT = 1.05
ROWS = 100_000
Write = Callable[[Path, pa.Table], None]


def tables() -> Iterator[tuple[str, pa.Table]]:
    """Pairs of a name and a table, created one by one."""
    rng = np.random.default_rng(11)
    for name in ("lineitem", "orders"):
        table = pq.read_table(tpch(FOLDER, name, 0.2).parquet)
        fields = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in table.schema]
        yield f"TPC-H {name}, SF 0.2", table.cast(pa.schema(fields))
    words = rng.zipf(1.3, (ROWS, 30)) % 5000
    text = [" ".join(f"{WORDS[w % len(WORDS)]}{w if w > 50 else ''}" for w in row) for row in words]
    yield "text", pa.table({"text": text})
    vectors = rng.standard_normal((ROWS // 4, 384), dtype=np.float32)
    ids = np.arange(len(vectors))
    yield "embeddings of 384 dimensions", pa.table({"id": ids, "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 384)})
    rows = 10 * ROWS
    kinds = pa.array(["click", "view", "purchase", "scroll", "sign-in", "sign-out"])
    countries = pa.array([f"country-{i}" for i in range(60)])
    events = {
        "at": pa.array(np.cumsum(rng.integers(0, 5_000_000, rows)) + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
        "kind": kinds.take(pa.array(rng.choice(6, rows, p=[0.4, 0.4, 0.05, 0.1, 0.03, 0.02]))),
        "country": countries.take(pa.array(rng.zipf(1.5, rows) % 60)),
        "user": pa.array(rng.integers(0, 50_000, rows)),
        "session": pa.array(np.sort(rng.integers(0, 10**6, rows))),
        "value": pa.array(np.round(rng.exponential(20, rows), 2)),
        "mobile": pa.array(rng.random(rows) < 0.6),
    }
    yield "events", pa.table(events)


def report(folder: Path, ours: Write, pylance: Write) -> str:
    """A Markdown table."""
    lines = ["| table | ours, bytes | pylance, bytes | ratio |", "|---|---|---|---|"]
    for name, table in tables():
        sizes = []
        for write in (ours, pylance):
            write(folder / "size.lance", table)
            sizes.append((folder / "size.lance").stat().st_size)
        ratio = sizes[0] / sizes[1]
        lines.append(f"| {name} | {sizes[0]} | {sizes[1]} | {ratio:.3f}{'' if ratio <= LIMIT else ' (too large)'} |")
    return "\n".join(lines)
