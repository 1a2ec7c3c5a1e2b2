"""Changed values and flipped bits in the files of indexes: a filter finds the rows of a scan, or raises CorruptFileError."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import settings
from lance.file import LanceFileReader, LanceFileWriter

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError
from lance_spark.index.order import is_ascending

FULL = settings().max_examples > 100
COUNT = 20_000
VALUES = np.random.default_rng(5).integers(0, 3000, COUNT)
COLUMNS = {
    "i": pa.array(VALUES, mask=VALUES % 40 == 0),
    "f": pa.array(np.where(VALUES % 50 == 3, np.nan, VALUES / 4), mask=VALUES % 40 == 0),
    "s": pa.array([f"text {v:04}" for v in VALUES], mask=VALUES % 40 == 0),
}
FILTERS = {
    "i": ("i = 1500", "i > 2900", "i < 30", "i IN (77, 1234, 2999)", "i IS NULL", "i BETWEEN 700 AND 710"),
    "f": ("f = 375.0", "f > 740", "isnan(f)", "f IN (3.25, 100.25)", "f IS NULL"),
    "s": ("s = 'text 1500'", "s LIKE 'text 29%'", "s < 'text 0030'", "s IN ('text 0077', 'text 2999')", "s IS NULL"),
}
Change = Callable[[pa.Table, random.Random], pa.Table]


@pytest.fixture(scope="module", params=["theirs", "ours"])
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two fragments with BTREE indexes of either writer."""
    path = tmp_path_factory.mktemp("mutants") / "t.lance"
    lance.write_dataset(pa.table(COLUMNS), path, max_rows_per_file=COUNT // 2)
    for column in COLUMNS:
        if request.param == "theirs":
            lance.dataset(path).create_scalar_index(column, "BTREE")
        else:
            Dataset.open(path).create_scalar_index(column, "BTREE")
    return path


def check(path: Path, column: str, file: str, change: Callable[[Path], None]) -> None:
    """Change a file of a column's index under a new name of its folder, and compare all filters with scans; then undo it."""
    table = Dataset.open(path)
    index = next(i for i in table.snapshot.manifest.indexes if i.name == f"{column}_idx")
    folder = path / "_indices" / str(uuid.UUID(bytes=index.uuid))
    renamed = replace(index, uuid=uuid.uuid4().bytes, files=())
    other = folder.with_name(str(uuid.UUID(bytes=renamed.uuid)))
    original = (folder / file).read_bytes()
    folder.rename(other)
    try:
        change(other / file)
        mutant = Dataset(replace(table.snapshot, manifest=replace(table.snapshot.manifest, indexes=(renamed,))))
        for text in FILTERS[column]:
            try:
                found = mutant.count_rows(text)
            except CorruptFileError:
                continue
            assert found == expected(path, text), text
    finally:
        (other / file).write_bytes(original)
        other.rename(folder)


_EXPECTED: dict[tuple[Path, str], int] = {}


def expected(path: Path, text: str) -> int:
    if (path, text) not in _EXPECTED:
        _EXPECTED[path, text] = Dataset.open(path).scan(filter=text, use_scalar_index=False).to_table().num_rows
    return _EXPECTED[path, text]


def swapped(table: pa.Table, rng: random.Random) -> pa.Table:
    """Two rows of the bounds change places, without their numbers."""
    order = list(range(table.num_rows))
    a, b = rng.sample(order, 2)
    order[a], order[b] = b, a
    return table.take(order).set_column(3, table.schema.field(3), table.column(3))


def other_bound(table: pa.Table, rng: random.Random) -> pa.Table:
    """One bound is that of another page."""
    at, column = rng.randrange(table.num_rows), rng.randrange(2)
    values = table.column(column).to_pylist()
    values[at] = rng.choice([v for v in table.column(1 - column).to_pylist() if v is not None])
    return table.set_column(column, table.schema.field(column), pa.array(values, table.schema.field(column).type, from_pandas=False))


def rewrite(change: Change, rng: random.Random) -> Callable[[Path], None]:
    """A change of the values of a file, which is whole and has right checksums otherwise."""

    def apply(path: Path) -> None:
        reader = LanceFileReader(str(path))
        table = reader.read_all().to_table()
        schema = table.schema.with_metadata(reader.metadata().schema.metadata)
        with LanceFileWriter(str(path), schema, version="2.2") as out:
            out.write_batch(change(table, rng).cast(schema))

    return apply


def flip(rng: random.Random) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)

    return apply


@pytest.mark.matrix
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("change", [swapped, other_bound])
def test_wrong_bounds_of_pages_are_noticed(indexed: Path, column: str, change: Change) -> None:
    rng = random.Random(f"{column} {change.__name__}")
    for _ in range(40 if FULL else 3):
        check(indexed, column, "page_lookup.lance", rewrite(change, rng))


@pytest.mark.parametrize("indexed", ["ours"], indirect=True)
def test_flipped_bits_in_our_files_are_noticed(indexed: Path) -> None:
    rng = random.Random(11)
    for _ in range(300 if FULL else 12):
        check(indexed, rng.choice(list(COLUMNS)), rng.choice(["page_lookup.lance", "page_data.lance"]), flip(rng))


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        (pa.array([None, None, 1, 1, 2]), True),
        (pa.array([1, None]), False),
        (pa.array([2, 1]), False),
        (pa.array([], pa.string()), True),
        (pa.array(["a", "b", "b"]), True),
        (pa.array([b"b", b"a"]), False),
        (pa.array([0.0, -0.0, 1.0, float("inf"), float("nan")]), True),
        (pa.array([float("nan"), 1.0]), False),
        (pa.array([0, 1], pa.timestamp("ns", "UTC")), True),
        (pa.array([False, True, False]), False),
        (pc.cast(pa.array([2, 1]), pa.decimal256(40, 2)), False),
        (pa.array([b"aa", b"ab"], pa.binary(2)), True),
        (pa.array([1, 2], pa.duration("s")), True),
        (pa.array([np.float16(1), np.float16(-1)]), False),
    ],
)
def test_order_is_known_for_every_type(values: pa.Array, holds: bool) -> None:
    assert is_ascending(values) == holds
