"""`lance_spark.torch`: training loops with workers, which stop and resume."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOperationError, SchemaMismatchError

torch = pytest.importorskip("torch", reason="make test-loaders installs it, in an environment of its own")

from torch.utils.data import DataLoader  # noqa: E402

from lance_spark.torch import LanceDataset, LanceMapDataset, to_tensors  # noqa: E402

pytestmark = [
    # pylance, which other tests of the same process import, warns of every fork. It reads nothing here.
    pytest.mark.filterwarnings("ignore:lance is not fork-safe"),
    # PyTorch does not wait for the thread of a spawned worker that sends tensors, so that one that is left may abort.
    pytest.mark.filterwarnings("ignore:Exception ignored in. .function _MultiProcessingDataLoaderIter.__del__"),
]
ROWS = 300


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(ROWS * 4, dtype=np.float32)), 4)
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "vector": vectors, "text": [f"t{i}" for i in range(ROWS)]})
    return Dataset.write(tmp_path_factory.mktemp("torch") / "t", rows, max_rows_per_file=100)


def samples(loader: Any) -> list[int]:
    return [sample for batch in loader for sample in batch["id"].tolist()]


@pytest.mark.parametrize("shuffle", [False, True])
def test_any_number_of_workers_gives_the_same_batches(table: Dataset, shuffle: bool) -> None:
    dataset = LanceDataset(table, ["id"], batch_size=32, shuffle=shuffle, block_rows=4, window_blocks=8)
    alone = [batch["id"].tolist() for batch in dataset]
    assert len(alone) == len(dataset) == 10
    assert sorted(chain(*alone)) == list(range(ROWS))
    dataset.set_epoch(0)
    loader = dataset.loader(num_workers=2)
    assert [batch["id"].tolist() for batch in loader] == alone
    dataset.set_epoch(0)
    plain = DataLoader(dataset, batch_size=None, num_workers=1)
    assert [batch["id"].tolist() for batch in plain] == alone


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_an_epoch_that_is_left_is_resumed_by_other_workers(table: Dataset, context: str) -> None:
    options: dict[str, Any] = {"batch_size": 16, "shuffle": True, "seed": 3, "block_rows": 4, "window_blocks": 8}
    first = LanceDataset(table, ["id"], **options)
    loader = first.loader(num_workers=2, prefetch_factor=4, multiprocessing_context=context)
    given_before = samples(islice(loader, 3))
    state = loader.state_dict()
    assert state["samples"] == 48  # workers have read more
    second = LanceDataset(table, ["id"], **options)
    second.load_state_dict(state)
    resumed = second.loader(num_workers=1, multiprocessing_context=context)
    assert sorted(given_before + samples(resumed)) == list(range(ROWS))
    assert resumed.state_dict()["epoch"] == 1


LOOP = """
import json, os, sys
from lance_spark.torch import LanceDataset

uri, place, workers, context, until = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] or None, int(sys.argv[5])
if __name__ == "__main__":
    dataset = LanceDataset(uri, ["id"], batch_size=16, shuffle=True, seed=3, block_rows=4, window_blocks=8)
    options = {"multiprocessing_context": context, "persistent_workers": True} if workers else {}
    loader = dataset.loader(num_workers=workers, **options)
    log = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if lines := open(place).read().splitlines():
        loader.load_state_dict(json.loads(lines[-1])["state"])
    for step, batch in enumerate(loader):
        line = json.dumps({"ids": batch["id"].tolist(), "state": loader.state_dict()})
        os.write(log, (line + "\\n").encode())  # the step and the checkpoint in one write
        if step + 1 == until:
            os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(
    "runs",
    [
        [(0, "", 3), (2, "fork", 4), (0, "", 0)],
        pytest.param([(2, "spawn", 2), (1, "spawn", 3), (3, "fork", 0)], marks=pytest.mark.slow),
    ],
    ids=["fork", "spawn"],
)
def test_a_loop_that_is_killed_gets_each_row_once_with_other_workers(
    table: Dataset, tmp_path: Path, runs: list[tuple[int, str, int]]
) -> None:
    copy = Dataset.write(tmp_path / "t", table.to_table(), max_rows_per_file=100)
    script, log = tmp_path / "loop.py", tmp_path / "log"
    script.write_text(LOOP)
    for workers, context, until in runs:
        command = [sys.executable, str(script), copy.uri, str(log), str(workers), context, str(until)]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == (-9 if until else 0), ended.stderr
        # Between the runs, others change the table.
        Dataset.open(copy.uri).delete("id < 200").insert(table.to_table()).optimize.compact_files()
    steps = [json.loads(line)["ids"] for line in log.read_text().splitlines()]
    assert sorted(chain(*steps)) == list(range(ROWS))


def test_workers_that_persist_know_the_epoch(table: Dataset) -> None:
    dataset = LanceDataset(table, ["id"], batch_size=64, shuffle=True)
    loader = dataset.loader(num_workers=2, persistent_workers=True)
    epochs = [samples(loader) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
    left = samples(islice(loader, 2))
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert sorted(left + samples(loader)) == list(range(ROWS))


def test_workers_that_persist_go_on_in_the_version_of_a_state(tmp_path: Path) -> None:
    """The rows of the later version are larger, so that its blocks are smaller."""
    Dataset.write(tmp_path / "t", pa.table({"id": range(ROWS), "data": [""] * ROWS}))
    loader = LanceDataset(tmp_path / "t", ["id"], batch_size=10, shuffle=True).loader()
    left = samples(islice(loader, 3))
    state = loader.state_dict()
    large = pa.table({"id": range(1000, 1000 + ROWS), "data": [str(i) * 10_000 for i in range(ROWS)]})
    Dataset.write(tmp_path / "t", large, mode="overwrite")
    loader = LanceDataset(tmp_path / "t", ["id"], batch_size=10, shuffle=True).loader(num_workers=2, persistent_workers=True)
    assert sorted(samples(loader)) == large["id"].to_pylist()
    loader.load_state_dict(state)
    assert sorted(left + samples(loader)) == list(range(ROWS))


def test_ranks_have_each_row_once(table: Dataset) -> None:
    ranks = [LanceDataset(table, ["id"], batch_size=16, shuffle=True, rank=rank, world_size=3) for rank in range(3)]
    assert sorted(chain(*map(samples, ranks))) == list(range(ROWS))


def test_workers_of_another_loader_do_not_tell_what_the_loop_was_given(table: Dataset) -> None:
    dataset = LanceDataset(table, ["id"], batch_size=64)
    samples(DataLoader(dataset, batch_size=None, num_workers=1))
    with pytest.raises(InvalidOperationError, match=r"dataset\.loader"):
        dataset.state_dict()
    dataset.set_epoch(1)
    assert dataset.state_dict()["epoch"] == 1


def first_letters(rows: pa.Table) -> list[str]:
    return [text[:1] for text in rows["text"].to_pylist()]


def test_workers_apply_a_function_of_the_user(table: Dataset) -> None:
    dataset = LanceDataset(table, ["text"], batch_size=100, transform=first_letters)
    assert list(dataset.loader(num_workers=2)) == [["t"] * 100] * 3


def test_vectors_become_tensors_without_a_copy(table: Dataset) -> None:
    rows = table.take(range(5), ["vector"]).combine_chunks()
    found = to_tensors(rows)["vector"]
    assert found.shape == (5, 4)
    assert found.dtype == torch.float32
    values = rows["vector"].chunk(0).flatten()
    assert found.data_ptr() == values.buffers()[1].address + values.offset * 4


TYPES: dict[str, tuple[pa.Array, Any]] = {
    "int8": (pa.array([1, 2], pa.int8()), torch.tensor([1, 2], dtype=torch.int8)),
    "float16": (pa.array([1, 2], pa.float16()), torch.tensor([1, 2], dtype=torch.float16)),
    "float with a null": (pa.array([1.5, None]), torch.tensor([1.5, float("nan")], dtype=torch.float64)),
    "bool": (pa.array([True, False]), torch.tensor([True, False])),
    "time": (pa.array([1, 2], pa.timestamp("us")), torch.tensor([1, 2])),
    "date": (pa.array([1, 2], pa.date32()), torch.tensor([1, 2], dtype=torch.int32)),
    "nothing": (pa.array([], pa.int64()), torch.tensor([], dtype=torch.int64)),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_columns(name: str) -> None:
    values, expected = TYPES[name]
    found = to_tensors(pa.table({"x": values}))["x"]
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected) or (name == "float with a null" and torch.allclose(found, expected, equal_nan=True))


def test_other_types_are_lists_and_integers_have_no_nulls() -> None:
    assert to_tensors(pa.table({"x": ["a", None]})) == {"x": ["a", None]}
    with pytest.raises(SchemaMismatchError, match=r"'x' \(int64\) has nulls"):
        to_tensors(pa.table({"x": [1, None]}))


def test_samples_by_number(table: Dataset) -> None:
    dataset = LanceMapDataset(table, ["id", "text"], "id >= 100")
    assert len(dataset) == 200
    assert dataset[3] == {"id": 103, "text": "t103"}
    with pytest.raises(IndexError):
        dataset[200]
    batches = list(DataLoader(dataset, batch_size=50, shuffle=True, num_workers=1))
    assert sorted(chain(*(batch["id"].tolist() for batch in batches))) == list(range(100, 300))
    assert batches[0]["text"][0] == f"t{batches[0]['id'][0]}"


def test_a_version_is_pinned_while_others_append(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(64), pa.int64())})
    written = Dataset.write(tmp_path / "t", rows)
    loader = LanceDataset(str(tmp_path / "t"), batch_size=16).loader(num_workers=1)
    epoch = iter(loader)
    found = next(epoch)["id"].tolist()
    written.insert(rows)
    assert sorted(found + samples(epoch)) == list(range(64))
    assert sorted(samples(loader)) == list(range(64))
