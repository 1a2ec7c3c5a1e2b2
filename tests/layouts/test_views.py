"""Large values are copied once, from where they were read to their place: every selection has the rows that were written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.arrow import views
from lance_spark.errors import CorruptFileError
from lance_spark.loaders import Batches

ROWS = 60
_RANDOM = random.Random(7)


def _noise(size: int) -> bytes:
    return _RANDOM.randbytes(size)


def _bytes(make: Callable[[int], bytes | None], t: pa.DataType) -> pa.Array:
    return pa.array([make(i) for i in range(ROWS)], t)


def _lists(t: pa.DataType, size: int, nulls: bool = False) -> pa.Array:
    data = np.random.default_rng(size).integers(0, 255, ROWS * size).astype(t.to_pandas_dtype())
    mask = pa.array([nulls and i % 7 == 3 for i in range(ROWS)])
    return pa.FixedSizeListArray.from_arrays(pa.array(data), size, mask=mask)


COLUMNS: dict[str, Callable[[], pa.Array]] = {
    "stored": lambda: _bytes(lambda i: _noise(40_000), pa.binary()),
    "stored, large type": lambda: _bytes(lambda i: _noise(40_000 + i), pa.large_binary()),
    "compressed": lambda: _bytes(lambda i: bytes([i]) * 90_000, pa.binary()),
    "several blocks": lambda: _bytes(lambda i: _noise(140_000), pa.binary()),
    "some of each": lambda: _bytes(
        lambda i: [None, b"", b"short", b"x" * 12, b"x" * 13, _noise(70_000), bytes(70_000)][i % 7],
        pa.binary(),
    ),
    "nulls only": lambda: _bytes(lambda i: None, pa.binary()),
    "below the limit of compression": lambda: _bytes(lambda i: _noise(9_000), pa.binary()),
    "small": lambda: _bytes(lambda i: _noise(300), pa.binary()),
    "numbers": lambda: _lists(pa.float32(), 5_000),
    "pixels": lambda: _lists(pa.uint8(), 30_000),
    "numbers and nulls": lambda: _lists(pa.float64(), 3_000, nulls=True),
}
SELECTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "all": lambda rng, rows: np.arange(rows),
    "all, mixed": lambda rng, rows: rng.permutation(rows),
    "runs": lambda rng, rows: np.concatenate([np.arange(at, at + 3) for at in (rows - 3, 0, 21)]),
    "single rows, some twice": lambda rng, rows: np.array([rows - 1, 0, 7, 7, 30, 2]),
    "most of a range": lambda rng, rows: np.array([9, 4, 6, 10, 5, 8]),
    "none": lambda rng, rows: np.array([], np.int64),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("views")


def _taken_as_written(folder: Path, name: str, version: str, deletes: bool = False, by_pylance: bool = False) -> None:
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "value": COLUMNS[name]()})
    uri = folder / f"{name}-{version}-{deletes}-{by_pylance}"
    if by_pylance:
        lance.write_dataset(rows, str(uri), data_storage_version=version, max_rows_per_file=25)
    else:
        Dataset.write(uri, rows, data_storage_version=version, max_rows_per_file=25)
    table, ids = Dataset.open(uri), np.arange(ROWS)
    if deletes:
        table = table.delete("id % 4 = 1")
        ids = ids[ids % 4 != 1]
        rows = rows.take(pa.array(ids))
    for selection, choose in SELECTIONS.items():
        numbers = choose(np.random.default_rng(1), len(rows))
        found = table.take(numbers)
        found.validate(full=True)
        assert found.equals(rows.take(pa.array(numbers))), selection
    assert table.to_table().equals(rows)
    few = pa.array(np.flatnonzero((ids >= 50) | (ids == 3)))
    assert table.scan(filter="id >= 50 OR id = 3").to_table().equals(rows.take(few))
    epoch = pa.concat_tables(Batches(table, batch_size=7, shuffle=True, block_rows=3))
    assert epoch.sort_by("id").equals(rows)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_selection_has_the_rows_that_were_written(folder: Path, name: str) -> None:
    _taken_as_written(folder, name, "2.2", deletes=name in ("some of each", "pixels"))


@pytest.mark.slow
@pytest.mark.parametrize("deletes", [False, True], ids=["", "deletes"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.3"])
@pytest.mark.parametrize("name", COLUMNS)
def test_every_version_has_the_rows_that_were_written(folder: Path, name: str, version: str, deletes: bool) -> None:
    _taken_as_written(folder, name, version, deletes)


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_tables_of_pylance_have_the_rows_that_were_written(folder: Path, name: str) -> None:
    _taken_as_written(folder, name, "2.2", by_pylance=True)


@pytest.mark.parametrize("sizes", [(30_000, 100_000), (0, 100_000)], ids=["large", "some without bytes"])
def test_blobs_are_in_batches_as_they_were_written(folder: Path, sizes: tuple[int, int]) -> None:
    values = [None if i % 5 == 2 else _noise(sizes[i % 2]) for i in range(12)]
    blob = pa.field("value", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array(range(12), pa.int64()), pa.array(values, pa.large_binary())], pa.schema([("id", pa.int64()), blob]))
    table = Dataset.write(folder / f"blobs-{sizes[0]}", rows, max_rows_per_file=5, data_storage_version="2.1")
    epoch = pa.concat_tables(Batches(table, batch_size=5, shuffle=True, block_rows=1)).sort_by("id")
    assert epoch["value"].to_pylist() == values


def test_a_damaged_value_is_an_error(folder: Path) -> None:
    table = Dataset.write(folder / "damaged", pa.table({"value": _bytes(lambda i: bytes([i]) * 90_000, pa.binary())}))
    [file] = (folder / "damaged" / "data").iterdir()
    data = bytearray(file.read_bytes())
    at = data.index((0xFD2FB528).to_bytes(4, "little"))
    data[at + 8 : at + 20] = bytes(12)
    file.write_bytes(data)
    with pytest.raises(CorruptFileError, match=r"column 'value'.*zstd buffer 0"):
        Dataset.open(table.uri, verify_checksums=False).take([0, 1])


def test_more_bytes_than_an_array_can_have_become_several_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    values = pa.array([_noise(size) for size in (50, 100, 30, 70, 20, 90)])
    monkeypatch.setattr(views, "_MOST_BYTES", 120)
    pieces = list(views.copied_in_pieces(values.cast(pa.binary_view()), pa.binary()))
    assert [len(piece) for piece in pieces] == [1, 1, 3, 1]
    assert pa.concat_arrays(pieces).equals(values)
