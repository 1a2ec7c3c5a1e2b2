"""Benchmark data: TPC-H from its public generator, and tables with vectors, with many columns and with many fragments."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

WORDS = np.array(["the", "of", "a", "table", "keeps", "vectors", "next", "to", "words", "that", "people", "wrote", "about", "pictures"])


@dataclass(frozen=True)
class Table:
    """One table in the formats of all contestants: `lance` (written by pylance), `parquet`, and one batch of it for the floor."""

    name: str
    folder: Path
    rows: int

    @property
    def lance(self) -> str:
        return str(self.folder / f"{self.name}.lance")

    @property
    def parquet(self) -> str:
        return str(self.folder / f"{self.name}.parquet")

    def batch(self, columns: list[str] | None = None) -> str:
        """Write an Arrow file with the first batch of these columns."""
        path = self.folder / f"{self.name}.{'-'.join(columns or ['all'])}.arrow"
        if not path.exists():
            batch = next(lance.dataset(self.lance).to_batches(columns=columns, batch_size=8192))
            batch = batch.cast(to_arrow_schema(from_arrow_schema(batch.schema), timezone="UTC"))
            with ipc.new_file(path, batch.schema) as out:
                out.write(batch)
        return str(path)


def tpch(folder: Path, name: str, scale: float) -> Table:
    """A TPC-H table at this scale factor, generated once."""
    folder = folder / f"sf{scale:g}"
    source = folder / "tpch" / f"{name}.parquet"
    if not source.exists():
        tool = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([tool, "parquet", "-s", f"{scale:g}", f"--tables={name}", f"--output-dir={source.parent}"], check=True)
    return _table(folder, name, lambda: pq.read_table(source))


def vectors(folder: Path, rows: int) -> Table:
    """384-dimensional unit vectors with an id and a sentence; the numbers are random, similar to embeddings."""

    def make() -> pa.Table:
        rng = np.random.default_rng(7)
        values = rng.standard_normal((rows, 384), dtype=np.float32)
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        text = [" ".join(WORDS[i]) for i in rng.integers(0, len(WORDS), (rows, 12))]
        vector = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 384)
        return pa.table({"id": np.arange(rows), "text": text, "vector": vector})

    return _table(folder, f"vectors{rows}", make)


def wide(folder: Path, rows: int) -> Table:
    """200 columns, as in feature tables: a key, numbers, codes with few values, and words."""

    def make() -> pa.Table:
        rng = np.random.default_rng(11)
        columns: dict[str, pa.Array] = {"key": pa.array(rng.permutation(rows))}
        for i in range(199):
            kind = i % 4
            if kind == 0:
                columns[f"amount{i}"] = pa.array(rng.exponential(100, rows).round(2))
            elif kind == 1:
                columns[f"count{i}"] = pa.array(rng.poisson(30, rows))
            elif kind == 2:
                columns[f"code{i}"] = pa.array([f"code {n}" for n in range(40)]).take(pa.array(rng.integers(0, 40, rows)))
            else:
                columns[f"flag{i}"] = pa.array(rng.random(rows) < 0.1)
        return pa.table(columns)

    return _table(folder, f"wide{rows}", make)


def labels(folder: Path, rows: int) -> Table:
    """Unique keys in no order, labels of which there are few, and numbers."""

    def make() -> pa.Table:
        rng = np.random.default_rng(13)
        names = pa.array([f"label {n}" for n in range(200)]).take(pa.array(rng.integers(0, 200, rows)))
        return pa.table({"key": rng.permutation(rows), "label": names, "n": rng.integers(0, 1_000_000, rows)})

    return _table(folder, f"labels{rows}", make)


def fragments(folder: Path, count: int) -> Table:
    """A table with `count` fragments of ten rows."""
    table = pa.table({"id": np.arange(10 * count), "x": np.arange(10 * count) / 7})
    return _table(folder, f"fragments{count}", lambda: table, rows_per_file=10)


def _table(folder: Path, name: str, make: object, rows_per_file: int = 1 << 20) -> Table:
    result = Table(name, folder, 0)
    folder.mkdir(parents=True, exist_ok=True)
    if not Path(result.parquet).exists():
        assert callable(make)
        rows = make()
        lance.write_dataset(rows, result.lance, mode="overwrite", data_storage_version="2.2", max_rows_per_file=rows_per_file)
        pq.write_table(rows, result.parquet)
    return Table(name, folder, lance.dataset(result.lance).count_rows())
