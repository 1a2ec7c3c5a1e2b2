"""Encodings of data files: which layouts and encodings pylance writes for a list of columns, and which of them ours writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.file.data_file import open_data_file
from tests.currency.table import attempt, new_uri

_VERSIONS = ("2.0", "2.1", "2.2", "2.3")
_ROWS = 1100
_NAMES = re.compile(r"[a-z0-9][a-z0-9 -]*")


def rows(folder: Path) -> list[list[str]]:
    """Each layout and encoding: the storage versions in which pylance and ours write it; "unknown encoding" is what ours cannot read."""
    theirs: dict[str, set[str]] = {}
    ours: dict[str, set[str]] = {}
    for version in _VERSIONS:
        for column in (*_columns(), *(_columns_with_settings() if version >= "2.1" else ())):
            table = pa.table([column[1]], schema=pa.schema([column[0]]))
            for found, by_pylance in ((theirs, True), (ours, False)):
                for name in _encodings(folder, table, version, by_pylance):
                    found.setdefault(name, set()).add(version)
    return [[name, ", ".join(sorted(theirs.get(name, ()))), ", ".join(sorted(ours.get(name, ())))] for name in sorted({*theirs, *ours})]


def _encodings(folder: Path, table: pa.Table, version: str, by_pylance: bool) -> Iterable[str]:
    uri = new_uri(folder)
    if by_pylance:
        failed = attempt(lambda: lance.write_dataset(table, uri, data_storage_version=version))
    else:
        failed = attempt(lambda: Dataset.write(uri, table, data_storage_version=version))
    if failed is not None:
        return ()
    snapshot = Dataset.open(uri).snapshot
    ((file,),) = (fragment.files for fragment in snapshot.manifest.fragments)
    try:
        contents = open_data_file(snapshot.store, f"data/{file.path}").contents()
    except LanceError as e:
        return (f"unknown encoding: {e}",)
    return (name.strip() for pages in contents.pages.values() for page in pages for name in _NAMES.findall(page.encoding))


def _columns() -> Iterator[tuple[pa.Field, pa.Array]]:
    """Columns of every kind of values."""
    random = np.random.default_rng(1)
    numbers = np.arange(_ROWS)
    runs, wide = numbers // 100, random.random((_ROWS, 64)).astype(np.float32)
    texts = [f"the text number {i % 300}" for i in range(_ROWS)]
    struct = pa.struct([("a", pa.int32()), ("b", pa.int64())])
    for array in (
        pa.array(numbers),
        pa.array(random.integers(0, 100, _ROWS).astype(np.int16)),
        pa.array(random.integers(0, 2**62, _ROWS)),
        pa.array(random.random(_ROWS)),
        pa.array(random.integers(0, 2, _ROWS).astype(bool)),
        pa.array(np.full(_ROWS, 7)),
        pa.array(runs.astype(np.int32)),
        pa.array(numbers, mask=numbers % 3 == 0),
        pa.array(numbers, mask=numbers % 300 != 0),
        pa.nulls(_ROWS, pa.int32()),
        pa.array(texts),
        pa.array([text * 20 for text in texts]),
        pa.array([str(i) * 3000 for i in range(_ROWS)]),
        pa.array(texts).dictionary_encode(),
        pa.array([b"%08d" % i for i in range(_ROWS)], pa.binary(8)),
        pa.array([b"%08d" % i for i in range(_ROWS)]),
        pa.array(list(wide), pa.list_(pa.float32(), 64)),
        pa.array([[i] * (i % 4) for i in range(_ROWS)]),
        pa.array([{"a": i, "b": i} for i in range(_ROWS)], struct),
        pa.array([[("k", i)] for i in range(_ROWS)], pa.map_(pa.string(), pa.int32())),
    ):
        yield pa.field("x", array.type), array


def _columns_with_settings() -> Iterator[tuple[pa.Field, pa.Array]]:
    """Columns with each setting that the metadata of a field may have."""
    random = np.random.default_rng(1)
    texts = [f"the text number {i % 300}" for i in range(_ROWS)]
    struct = pa.struct([("a", pa.int32()), ("b", pa.int64())])
    mixed = pa.struct([("a", pa.int32()), ("b", pa.string())])
    settings = [{"compression": kind} for kind in ("zstd", "lz4", "fsst", "none", "bitpacking", "rle")]
    settings += [{"structural-encoding": kind} for kind in ("miniblock", "fullzip", "sparse")]
    settings += [{"rle-threshold": "0.9"}, {"bss": "on"}, {"dict-values-compression": "zstd"}, {"packed": "true"}, {"blob": "true"}]
    arrays = [pa.array(np.arange(_ROWS) // 100), pa.array(random.random(_ROWS)), pa.array(texts), pa.array(texts, pa.large_binary())]
    arrays += [pa.array([{"a": i, "b": i} for i in range(_ROWS)], struct), pa.array([{"a": i, "b": str(i)} for i in range(_ROWS)], mixed)]
    for setting in settings:
        metadata = {f"lance-encoding:{key}": value for key, value in setting.items()}
        yield from ((pa.field("x", array.type, metadata=metadata), array) for array in arrays)
