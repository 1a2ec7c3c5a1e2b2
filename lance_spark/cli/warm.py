"""`warm`: compiled kernels, for images."""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.cli.arguments import add_json
from lance_spark.cli.output import print_json
from lance_spark.dataset import Dataset

_ROWS = 5000
"""More than one chunk of values, so that the code for several chunks is compiled too."""
_VERSIONS = ("2.2", "2.1", "2.0")


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "precompile the kernels for common types, so that the first query does not wait for them"
    parser = commands.add_parser("warm", help=text, description=f"{text[0].upper()}{text[1:]}. Images call it after the installation.")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write and read tables that need the kernels."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for version in _VERSIONS:
            dataset = Dataset.write(f"{folder}/{version}.lance", _common_types(), data_storage_version=version)
            dataset.scan().to_table()
            dataset.take([5, 70, 4000])
    seconds = time.perf_counter() - start
    if arguments.json:
        print_json({"seconds": round(seconds, 3)})
    else:
        print(f"ready after {seconds:.1f} s")
    return 0


def _common_types() -> pa.Table:
    """Numbers, times, strings, lists, vectors and structs, with and without nulls."""
    rng = np.random.default_rng(0)
    rows, nulls = range(_ROWS), rng.random(_ROWS) < 0.1
    small, large = rng.integers(0, 1000, _ROWS), rng.integers(0, 10**15, _ROWS)
    words = [f"some text with the number {n} in it" for n in large]
    return pa.table(
        {
            "id": rows,
            "run": [i // 100 for i in rows],
            "tinyint": small.astype("int8"),
            "int": small.astype("int32"),
            "long": pa.array(large, mask=nulls),
            "double": pa.array(rng.standard_normal(_ROWS), mask=nulls),
            "float": rng.standard_normal(_ROWS).astype("float32"),
            "boolean": pa.array(small < 500, mask=nulls),
            "label": [f"label {n % 20}" for n in small],
            "kind": [f"kind {i % 3}" if i % 7 else None for i in rows],
            "text": pa.array(words, mask=nulls),
            "binary": pa.array(words).cast(pa.binary()),
            "date": pa.array(small.astype("int32"), mask=nulls).cast(pa.date32()),
            "timestamp": pa.array(large, pa.timestamp("us", "UTC")),
            "decimal": pa.array(large).cast(pa.decimal128(19, 0)),
            "list": pa.array([None if i % 9 == 0 else [i, None][: i % 3] for i in rows], pa.list_(pa.int64())),
            "tags": [[f"tag {n}" for n in range(i % 4)] for i in rows],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(_ROWS * 8).astype("float32")), 8),
            "struct": pa.StructArray.from_arrays([pa.array(small, mask=nulls), pa.array(words)], ["number", "text"]),
        }
    )
