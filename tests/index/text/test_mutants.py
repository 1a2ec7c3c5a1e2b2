"""Changed values and flipped bits in the files of full-text indexes: a search finds the right rows, or raises an error of ours."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from lance.file import LanceFileReader, LanceFileWriter

from lance_spark import Dataset
from lance_spark.errors import LanceError

FULL = settings().max_examples > 100
COUNT = 1500
QUERIES: list[dict[str, Any]] = [
    {"match": {"query": "cat w3"}},
    {"match": {"query": "cat w1", "operator": "and"}},
    {"match": {"query": "w20", "fuzziness": 1}},
    {"phrase": {"query": "cat w1", "slop": 1}},
]
FILES = ("metadata.lance", "part_0_tokens.lance", "part_0_docs.lance", "part_0_invert.lance")


def texts() -> list[str]:
    draw = random.Random(3)
    words = ["cat", "dog", *(f"w{i}" for i in range(60))]
    return [" ".join(draw.choices(words, [30, 20, *[1] * 60], k=draw.randrange(1, 9))) for _ in range(COUNT)]


@pytest.fixture(scope="module", params=["theirs", "ours", "old"])
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an index of pylance, one of ours, and one of an old format."""
    path = tmp_path_factory.mktemp("mutants") / "t.lance"
    lance.write_dataset(pa.table({"id": range(COUNT), "text": texts()}), path, max_rows_per_file=COUNT // 2)
    if request.param == "ours":
        Dataset.open(path).create_scalar_index("text", "INVERTED", with_position=True)
    else:
        version = 1 if request.param == "old" else 2
        lance.dataset(path).create_scalar_index("text", "INVERTED", with_position=True, format_version=version)
    return path


def found(table: Dataset, query: dict[str, Any]) -> dict[int, float]:
    rows = table.scan(columns=["id", "_score"], full_text_query=query).to_table()
    return dict(zip(rows["id"].to_pylist(), rows["_score"].to_pylist()))


def mutant(path: Path, file: str, change: Callable[[Path], None]) -> list[str]:
    """Change a file under a new name of its folder, and ask all queries: what came of each; then undo it."""
    table = Dataset.open(path)
    (index,) = table.snapshot.manifest.indexes
    expected = [found(table, query) for query in QUERIES]
    folder = path / "_indices" / str(uuid.UUID(bytes=index.uuid))
    renamed = replace(index, uuid=uuid.uuid4().bytes, files=())
    other = folder.with_name(str(uuid.UUID(bytes=renamed.uuid)))
    original = (folder / file).read_bytes()
    folder.rename(other)
    outcomes = []
    try:
        change(other / file)
        changed = Dataset(replace(table.snapshot, manifest=replace(table.snapshot.manifest, indexes=(renamed,))))
        for query, right in zip(QUERIES, expected):
            try:
                outcomes.append("right" if found(changed, query).keys() == right.keys() else "wrong")
            except LanceError:
                outcomes.append("error")
    finally:
        (other / file).write_bytes(original)
        other.rename(folder)
    return outcomes


def flip(rng: random.Random) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice([1, 1, 8])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data if rng.random() < 0.9 else data[: rng.randrange(len(data))])

    return apply


def test_flipped_bits_in_our_files_are_noticed(indexed: Path, request: pytest.FixtureRequest) -> None:
    """Files of others have no checksums: a flipped bit may give other rows there, but nothing else."""
    rng = random.Random(11)
    for _ in range(400 if FULL else 10):
        outcomes = mutant(indexed, rng.choice(FILES), flip(rng))
        assert "ours" not in request.node.name or "wrong" not in outcomes[:2]


def rewritten(change: Callable[[pa.Table, random.Random], pa.Table], rng: random.Random) -> Callable[[Path], None]:
    """A change of the values of a file, which is whole otherwise."""

    def apply(path: Path) -> None:
        reader = LanceFileReader(str(path))
        table = reader.read_all().to_table()
        schema = table.schema.with_metadata(reader.metadata().schema.metadata)
        with LanceFileWriter(str(path), schema, version="2.2") as out:
            out.write_batch(change(table, rng).cast(schema))

    return apply


def changed_bytes(table: pa.Table, rng: random.Random) -> pa.Table:
    """Some bytes of some values are others, or are missing."""
    name = rng.choice([f.name for f in table.schema if not pa.types.is_floating(f.type)])
    values = table[name].to_pylist()

    def other(value: Any) -> Any:
        if isinstance(value, bytes) and value:
            data = bytearray(value)
            data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)
        if isinstance(value, list) and value:
            value = list(value)
            value[rng.randrange(len(value))] = other(value[rng.randrange(len(value))])
            return value[:-1] if rng.random() < 0.2 else value
        return rng.choice([0, 1, 2, 127, 128, 1 << 20, (1 << 32) - 1]) if isinstance(value, int) else value

    for _ in range(max(1, len(values) // 3)):
        at = rng.randrange(len(values))
        values[at] = other(values[at])
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), pa.array(values, table.schema.field(name).type))


@pytest.mark.matrix
@pytest.mark.parametrize("file", FILES)
def test_changed_values_raise_no_other_errors_and_take_no_more_memory(indexed: Path, file: str) -> None:
    rng = random.Random(file)
    for _ in range(100 if FULL else 3):
        assert len(mutant(indexed, file, rewritten(changed_bytes, rng))) == len(QUERIES)


@pytest.mark.matrix
@pytest.mark.parametrize("change", ["drop", "null", "type"])
def test_columns_that_are_not_what_they_should_be_are_errors_or_scanned(indexed: Path, change: str) -> None:
    def apply(path: Path) -> None:
        reader = LanceFileReader(str(path))
        table, metadata = reader.read_all().to_table(), reader.metadata().schema.metadata
        name = table.schema.names[0]
        if change == "drop":
            table = table.drop_columns([name]) if table.num_columns > 1 else table.append_column("more", pa.array([1] * table.num_rows))
        elif change == "null":
            table = table.set_column(0, pa.field(name, table.schema.field(0).type), pa.nulls(table.num_rows, table.schema.field(0).type))
        else:
            table = table.set_column(0, name, pa.array(np.arange(table.num_rows), pa.int64()))
        schema = table.schema.with_metadata(metadata)
        with LanceFileWriter(str(path), schema, version="2.2") as out:
            out.write_batch(table.cast(schema))

    for file in FILES[1:]:
        outcomes = mutant(indexed, file, apply)
        assert "wrong" not in outcomes[:1], (file, outcomes)
