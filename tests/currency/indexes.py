"""Kinds of indexes: those whose details pylance's library names and those of vectors, each made for the first column that it takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.indices import IndexConfig

from lance_spark import Dataset
from lance_spark.index.kinds import kind_of
from lance_spark.index.vector.make.recipe import KINDS as VECTOR_KINDS
from tests.currency.table import attempt, names_in_binary, new_uri

_ROWS = 512
_LETTERS = rb"[A-Z][A-Za-z]{1,40}?"


def rows(folder: Path) -> list[list[str]]:
    """Each kind that pylance makes: its name, the message of its details, the index_version, its files, and what ours does with it."""
    uri = new_uri(folder)
    lance.write_dataset(_columns(), uri)
    made = [*(_made(uri, kind) for kind in _scalar_kinds()), *(_made(uri, kind) for kind in _vector_kinds())]
    return sorted(row for row in made if row)


def _columns() -> pa.Table:
    random = np.random.default_rng(1)
    words = random.choice(["red", "green", "blue", "old", "new", "tree", "house"], (_ROWS, 6))
    point = pa.field("point", pa.struct([("x", pa.float64()), ("y", pa.float64())]), metadata={"ARROW:extension:name": "geoarrow.point"})
    columns = {
        pa.field("id", pa.int64()): pa.array(range(_ROWS)),
        pa.field("text", pa.string()): pa.array([" ".join(line) for line in words.tolist()]),
        pa.field("tags", pa.list_(pa.string())): pa.array(words.tolist()),
        point: pa.array([{"x": float(i), "y": 1.0} for i in range(_ROWS)], point.type),
        pa.field("vector", pa.list_(pa.float32(), 8)): pa.array(list(random.random((_ROWS, 8), np.float32)), pa.list_(pa.float32(), 8)),
        pa.field("json", pa.json_()): pa.array(['{"a": 1}'] * _ROWS, pa.json_()),
    }
    return pa.table(list(columns.values()), schema=pa.schema(list(columns)))


def _scalar_kinds() -> list[str]:
    """The names before "IndexDetails". Where other texts precede a name, no kind has the longer name."""
    found = {text.removesuffix("IndexDetails") for text in names_in_binary(_LETTERS + b"IndexDetails")}
    return sorted({name[i:].lower() for name in found for i, letter in enumerate(name) if letter.isupper()} - {""})


def _vector_kinds() -> list[str]:
    return sorted(names_in_binary(rb"IVF_(?:HNSW_)?[A-Z]{2,4}"))


def _made(uri: str, kind: str) -> list[str] | None:
    """The row of a kind, None if no index of it can be made."""
    is_vector = kind.startswith("IVF")
    for column in ("vector",) if is_vector else ("id", "text", "tags", "point", "json"):
        failed = attempt(lambda: _make(lance.dataset(uri), column, kind))  # noqa: B023
        if failed is None:
            table = Dataset.open(uri)
            index = next(i for i in table.snapshot.manifest.indexes if i.name == "i")
            name, *_ = [listed["type"] for listed in table.list_indices()]
            files = sorted({re.sub(r"[0-9a-f-]{32,}|\d+", "*", file.path.rpartition("/")[2]) for file in index.files})
            ours = name in VECTOR_KINDS if is_vector else kind_of(index.details_type, index.details)
            lance.dataset(uri).drop_index("i")
            does = "made and used" if ours else "listed, its coverage is kept"
            return [name, index.details_type.lstrip("/"), str(index.index_version or 0), ", ".join(files), does]
    return None


def _make(table: Any, column: str, kind: str) -> None:
    if kind.startswith("IVF"):
        table.create_index(column, kind, name="i", num_partitions=2, num_sub_vectors=2, sample_rate=2)
    else:
        parameters = {"target_index_type": "btree", "path": "a"} if kind == "json" else {}
        table.create_scalar_index(column, IndexConfig(index_type=kind, parameters=parameters), name="i")
