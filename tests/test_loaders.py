"""`lance_spark.loaders.Batches`: each sample once an epoch, whatever stops, resumes, and shares the work."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import timedelta
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark import Dataset, loaders
from lance_spark.errors import CorruptFileError, InvalidOptionError, SchemaMismatchError, VersionNotFoundError
from lance_spark.loaders import Batches, Order

ROWS = 200


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    rows = pa.table({"id": pa.array(range(ROWS + 10), pa.int64()), "x": np.arange(ROWS + 10) / 2})
    written = Dataset.write(tmp_path_factory.mktemp("loaders") / "t", rows, max_rows_per_file=60)
    return written.delete(f"id >= {ROWS}")


def ids(batch: pa.Table) -> list[int]:
    return list(batch["id"].to_pylist())


@st.composite
def sharing(draw: st.DrawFn) -> dict[str, Any]:
    return {"batch_size": draw(st.integers(1, 40)), "world_size": draw(st.integers(1, 4)), "workers": draw(st.integers(1, 4))}


ORDERS = st.fixed_dictionaries(
    {
        "shuffle": st.booleans(),
        "seed": st.integers(0, 3),
        "block_rows": st.integers(1, 9),
        "window_blocks": st.integers(1, 9),
    }
)


def run(
    table: Dataset, filter: str, order: dict[str, Any], shares: dict[str, Any], state: dict[str, Any] | None, most_steps: int | None
) -> tuple[list[int], dict[str, Any]]:
    """The samples that the loops of all ranks get in some steps of an epoch, and the state after that."""
    workers = shares["workers"]
    sharing = {name: value for name, value in shares.items() if name != "workers"}
    loops, states = [], []
    for rank in range(shares["world_size"]):
        batches = Batches(table, ["id"], filter, rank=rank, **sharing, **order)
        if state is not None:
            batches.load_state_dict(json.loads(json.dumps(state)))
        start = batches.begin()
        # A DataLoader takes the batches of its workers in turn.
        read = [batches.read(batches.epoch, start, worker, workers) for worker in range(workers)]
        in_turn = (batch for turn in zip_longest(*read) for batch in turn if batch is not None)
        steps = list(islice(in_turn, most_steps))
        for _ in range(len(steps) if most_steps is None else most_steps):
            batches.count()
        loops.append(steps)
        states.append(batches.state_dict())
    assert all(each == states[0] for each in states) or most_steps is None
    return [sample for steps in loops for batch in steps for sample in ids(batch)], states[0]


@given(rows=st.integers(0, ROWS), order=ORDERS, first=sharing(), second=sharing(), third=sharing(), steps=st.integers(0, 5))
def test_each_sample_is_given_once_an_epoch_over_stops_and_resumes(
    table: Dataset, rows: int, order: dict[str, Any], first: dict[str, Any], second: dict[str, Any], third: dict[str, Any], steps: int
) -> None:
    given_before, state = run(table, f"id < {rows}", order, first, None, steps)
    given_then, state = run(table, f"id < {rows}", order, second, state, steps)
    given_after, _ = run(table, f"id < {rows}", order, third, state, None)
    assert sorted(given_before + given_then + given_after) == list(range(rows))


@given(rows=st.integers(0, ROWS), order=ORDERS, shares=sharing(), steps=st.integers(0, 4))
def test_the_sequence_of_samples_depends_on_the_seed_alone(
    table: Dataset, rows: int, order: dict[str, Any], shares: dict[str, Any], steps: int
) -> None:
    one = {"batch_size": shares["batch_size"], "world_size": 1, "workers": 1}
    whole, _ = run(table, f"id < {rows}", order, one, None, None)
    with_workers, _ = run(table, f"id < {rows}", order, {**one, "workers": shares["workers"]}, None, None)
    assert with_workers == whole
    begun, state = run(table, f"id < {rows}", order, one, None, steps)
    rest, _ = run(table, f"id < {rows}", order, {**one, "batch_size": 7, "workers": shares["workers"]}, state, None)
    assert begun + rest == whole


@given(order=ORDERS, shares=sharing(), rows=st.integers(1, ROWS))
def test_ranks_have_as_many_batches_if_the_last_ones_are_left_out_or_filled(
    table: Dataset, order: dict[str, Any], shares: dict[str, Any], rows: int
) -> None:
    size, world = shares["batch_size"], shares["world_size"]
    for mode in ("drop_last", "pad"):
        found = []
        for rank in range(world):
            ends: dict[str, Any] = {"drop_last": mode == "drop_last", "pad": mode == "pad"}
            batches = Batches(table, ["id"], f"id < {rows}", size, rank=rank, world_size=world, **ends, **order)
            found.append([ids(batch) for batch in batches])
            assert len(found[-1]) == len(batches)
        sizes = {len(batch) for rank in found for batch in rank}
        assert {len(rank) for rank in found} == {rows // (size * world) if mode == "drop_last" else -(-rows // (size * world))}
        assert sizes <= {size}
        given_ids = [sample for rank in found for batch in rank for sample in batch]
        if mode == "drop_last":
            assert len(given_ids) == len(set(given_ids))
        else:
            assert set(given_ids) == set(range(rows))


def test_epochs_have_different_orders_which_a_seed_repeats(table: Dataset) -> None:
    first, second = (Batches(table, ["id"], batch_size=50, shuffle=True, seed=7) for _ in range(2))
    epochs = [[sample for batch in first for sample in ids(batch)] for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
    second.set_epoch(2)
    assert [sample for batch in second for sample in ids(batch)] == epochs[2]


def test_a_shuffle_mixes_all_rows_and_reads_blocks() -> None:
    order = Order(10_000, True, 1, block_rows=10, window_blocks=20)
    samples = order.samples(0, 0, 10_000)
    assert sorted(samples.tolist()) == list(range(10_000))
    assert abs(np.corrcoef(samples, np.arange(10_000))[0, 1]) < 0.1
    window = order.samples(0, 200, 400)
    assert len(set((window // 10).tolist())) == 20
    assert (order.samples(0, 150, 450) == samples[150:450]).all()


def test_a_loop_that_is_left_is_resumed_and_a_new_iteration_begins_anew(table: Dataset) -> None:
    batches = Batches(table, ["id"], batch_size=30, shuffle=True)
    given_before = [ids(batch) for batch in islice(batches, 2)]
    state = batches.state_dict()
    assert state["samples"] == 60
    again = [ids(batch) for batch in batches]
    assert again[:2] == given_before
    resumed = Batches(table, ["id"], batch_size=30, shuffle=True)
    resumed.load_state_dict(state)
    assert [ids(batch) for batch in resumed] == again[2:]
    assert resumed.state_dict()["epoch"] == 1


def test_rows_that_are_appended_meanwhile_are_in_no_epoch(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(50), pa.int64())})
    written = Dataset.write(tmp_path / "t", rows)
    batches = Batches(tmp_path / "t", batch_size=20, shuffle=True)
    before = [ids(batch) for batch in islice(batches, 1)]
    state = batches.state_dict()
    written.insert(rows)
    late = Batches(tmp_path / "t", batch_size=20, shuffle=True)
    assert late.rows == 100
    late.load_state_dict(state)
    assert sorted(chain(*before, *map(ids, late))) == list(range(50))


@pytest.mark.parametrize("first", [0, 1], ids=["before the first batch", "after the first batch"])
def test_an_epoch_whose_version_is_cleaned_up_ends_with_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(loaders, "_MAX_BYTES", 10_000)  # so that not all is read ahead
    rows = pa.table({"id": range(4000), "data": [random.Random(i).randbytes(300) for i in range(4000)]})
    Dataset.write(tmp_path / "t", rows, max_rows_per_file=1000)
    batches = Batches(tmp_path / "t", ["data"], batch_size=10, shuffle=True, block_rows=1, window_blocks=20)
    epoch, state = iter(batches), batches.state_dict()
    found = list(islice(epoch, first))
    written = Dataset.write(tmp_path / "t", rows, mode="overwrite")
    written.cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(VersionNotFoundError, match=r"removed version 1 while it was read.*dataset\.tags\.create"):
        found.extend(epoch)
    assert all(batch.num_rows == 10 for batch in found)
    with pytest.raises(VersionNotFoundError, match=r"removed.*has no version 1; existing versions: 2.*dataset\.tags\.create"):
        Batches(tmp_path / "t", ["data"], shuffle=True).load_state_dict(state)


def test_an_error_of_a_file_that_is_gone_names_the_file(tmp_path: Path) -> None:
    """The version is still there, so that it is the error of the file, which is not its own cause."""
    Dataset.write(tmp_path / "t", pa.table({"id": range(100)}))
    epoch = iter(Batches(tmp_path / "t", batch_size=10))
    [file] = (tmp_path / "t" / "data").iterdir()
    file.unlink()
    with pytest.raises(CorruptFileError, match=file.name) as raised:
        next(epoch)
    assert raised.value.__cause__ is not raised.value


def test_a_script_may_end_in_the_middle_of_an_epoch(table: Dataset) -> None:
    script = (
        "import sys; from lance_spark.loaders import Batches; epoch = iter(Batches(sys.argv[1], batch_size=7)); print(len(next(epoch)))"
    )
    ended = subprocess.run([sys.executable, "-c", script, table.uri], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("7\n", "")


def test_a_tag_keeps_the_version_of_an_epoch(tmp_path: Path) -> None:
    rows = pa.table({"id": range(100)})
    Dataset.write(tmp_path / "t", rows).tags.create("epoch", 1)
    batches = Batches(tmp_path / "t", batch_size=10, shuffle=True)
    epoch = iter(batches)
    found = ids(next(epoch))
    written = Dataset.write(tmp_path / "t", rows, mode="overwrite").delete("id < 50")
    written.optimize.compact_files()
    Dataset.open(tmp_path / "t").cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert sorted(found + list(chain(*map(ids, epoch)))) == list(range(100))


def test_blocks_are_smaller_where_rows_are_large_and_a_state_brings_its_own(tmp_path: Path) -> None:
    small, large = pa.table({"data": [bytes(8)] * 10}), pa.table({"data": [random.Random(i).randbytes(100_000) for i in range(12)]})
    Dataset.write(tmp_path / "t", small)
    batches = Batches(tmp_path / "t", shuffle=True, batch_size=2)
    state = batches.state_dict()
    assert (state["block_rows"], state["window_blocks"]) == (64, 64)
    assert (Batches(tmp_path / "t", block_rows=3).state_dict()["block_rows"]) == 3
    Dataset.write(tmp_path / "t", large, mode="overwrite")
    later = Batches(tmp_path / "t", shuffle=True, batch_size=2)
    other = later.state_dict()
    assert (other["block_rows"], other["window_blocks"]) == (5, 33)
    later.load_state_dict(state)
    assert later.state_dict() == state
    with pytest.raises(InvalidOptionError, match="block_rows=64, not 3"):
        Batches(tmp_path / "t", shuffle=True, block_rows=3).load_state_dict(state)


def test_columns_and_rows_are_chosen(table: Dataset) -> None:
    (batch,) = Batches(table, ["x"], "id % 50 = 1")
    assert batch.to_pydict() == {"x": [0.5, 25.5, 50.5, 75.5]}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"columns": ["nothing"]}, SchemaMismatchError, "nothing"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank must be below world_size"),
        ({"drop_last": True, "pad": True}, ValueError, "not both"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"block_rows": 0}, ValueError, "block_rows must be at least 1"),
        ({"block_rows": "64"}, TypeError, "block_rows must be an integer, not '64'"),
        ({"window_blocks": "64"}, TypeError, "window_blocks must be an integer, not '64'"),
    ],
)
def test_wrong_arguments(table: Dataset, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Batches(table, **arguments)


@pytest.mark.parametrize(
    ("changed", "message"), [({"seed": 5}, "seed=5, not 0"), ({"rows": 3}, "3 samples"), ({"epoch": None}, "lacks 'epoch'")]
)
def test_a_state_of_other_samples_is_refused(table: Dataset, changed: dict[str, Any], message: str) -> None:
    state = {**Batches(table).state_dict(), **changed}
    state = {name: value for name, value in state.items() if value is not None}
    with pytest.raises(InvalidOptionError, match=message):
        Batches(table).load_state_dict(state)
