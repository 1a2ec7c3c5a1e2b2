"""Rows that our writer puts into a log: readers find them at once, pylance once they are flushed, and each side takes over."""

from __future__ import annotations

import itertools
import os
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import (
    InvalidOperationError,
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    WriterFencedError,
)
from tests.sample import others_slow
from tests.table.mem_wal import writer as others
from tests.table.mem_wal.test_killed_writers import counted, merged, of_pylance
from tests.table.mem_wal.writing import steps
from tests.table.mem_wal.writing.steps import SHARD, STEPS
from tests.write_ahead_logs import SCHEMA


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return steps.made(str(tmp_path / "t.lance"))


def test_each_step_is_seen_at_once_and_by_pylance_when_it_is_flushed(uri: str) -> None:
    with Dataset.open(uri).mem_wal_writer(SHARD, **steps.SMALL) as writer:
        for number, step in enumerate(STEPS, 1):
            steps.run(writer, step)
            assert steps.ours(uri) == steps.after(STEPS[:number])
    assert steps.of_sstables(uri) == steps.ours(uri) == steps.after(STEPS)
    assert writer.stats()["memtable_flush_count"] == 3
    assert Dataset.open(uri).verify().problems == ()
    Dataset.open(uri).merge_mem_wal()
    assert steps.shown(lance.dataset(uri).to_table()) == steps.after(STEPS)
    lance.dataset(uri).validate()


@pytest.mark.matrix
@pytest.mark.parametrize("turns", [*itertools.product(["ours", "pylance"], repeat=3)], ids="-".join)
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "left open"])
def test_writers_of_both_libraries_take_a_shard_over_from_each_other(turns: tuple[str, ...], closes: bool, uri: str) -> None:
    """What the one before has put is found by the next, and the one before can put no more."""
    known, before = steps.BEGIN, None
    for number, turn in enumerate(turns):
        dataset: Any = Dataset.open(uri) if turn == "ours" else lance.dataset(uri)
        writer = dataset.mem_wal_writer(SHARD)
        if before is not None:
            with pytest.raises((WriterFencedError, InvalidOperationError, OSError)):
                before.put(steps.values([100], "too late"))
        for step in STEPS[number * 2 : number * 2 + 3]:
            steps.run(writer, step)
        known = steps.after(STEPS[number * 2 : number * 2 + 3], known)
        assert steps.ours(uri) == known
        if closes:
            writer.close()
        before = writer
    assert steps.of_pylance(uri) == known == steps.ours(uri)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["int64", "string", "two"])
@pytest.mark.parametrize("seed", others_slow(range(12), range(2)))
def test_random_rows_of_each_kind_of_key(kind: str, seed: int, tmp_path: Path) -> None:
    """Puts and deletes by both libraries in turn, merges between them; nested values, nulls, and values that are replaced often."""
    uri, choice = str(tmp_path / "t.lance"), random.Random(seed)
    schema = others.schema(kind)
    keys = [name for name in schema.names if name in ("id", "part")]
    lance.write_dataset(others.rows(kind, [*range(0, 30, 2)], 0), uri, max_rows_per_file=6)
    Dataset.open(uri).create_scalar_index("w", "BTREE").initialize_mem_wal()
    known = {tuple(row[k] for k in keys): row for row in Dataset.open(uri).to_table().to_pylist()}
    shard, most = others.shard_name(0), choice.choice([7, 20, 100])
    for step in range(6):
        dataset: Any = Dataset.open(uri) if choice.random() < 0.7 else lance.dataset(uri)
        writer = dataset.mem_wal_writer(shard, max_memtable_rows=most)  # the same for all writers: pylance refuses to replay with less
        for part in range(choice.randint(1, 4)):
            ids = [choice.randrange(30) for _ in range(choice.randint(1, 6))]
            rows = others.rows(kind, ids, step * 10 + part + 1)
            if choice.random() < 0.3:
                writer.delete(rows.select(keys))
                for row in rows.to_pylist():
                    known.pop(tuple(row[k] for k in keys), None)
            else:
                writer.put(rows)
                known |= {tuple(row[k] for k in keys): row for row in rows.to_pylist()}
        if choice.random() < 0.7:
            writer.close()
        expected = counted(pa.Table.from_pylist([*known.values()], schema=schema))
        assert counted(Dataset.open(uri).to_table()) == expected
        if choice.random() < 0.4:
            Dataset.open(uri).merge_mem_wal()
            assert counted(Dataset.open(uri).to_table()) == expected
    Dataset.open(uri).mem_wal_writer(shard).close()
    version = lance.dataset(uri).version
    assert of_pylance(uri, version, merged(uri, version), {}) == expected
    Dataset.open(uri).merge_mem_wal()
    assert counted(lance.dataset(uri).to_table()) == expected


def test_rows_without_a_primary_key_are_all_there(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"a": [1]})).initialize_mem_wal()
    for part in range(3):
        with Dataset.open(uri).mem_wal_writer(SHARD, max_memtable_rows=2) as writer:
            writer.put(pa.table({"a": [1, part]}))
            writer.put(pa.table({"a": [1]}))
    assert sorted(Dataset.open(uri).to_table()["a"].to_pylist()) == [0, *[1] * 8, 2]
    Dataset.open(uri).merge_mem_wal()
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [0, *[1] * 8, 2]


def test_put_passes_the_rules_of_the_table(tmp_path: Path) -> None:
    """So that no row of the log fails when it is merged. Nothing of what is refused is in the log."""
    uri = str(tmp_path / "t.lance")
    key = {"lance-schema:unenforced-primary-key": "true"}
    fields = [
        pa.field("id", pa.int32(), nullable=False, metadata=key),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("c", pa.string(), metadata={"lance-spark:declared-type": "char(3)"}),
        pa.field("d", pa.string(), metadata={"CURRENT_DEFAULT": "'new'"}),
    ]
    begin = pa.table({"id": [1], "n": [1], "c": ["abc"], "d": ["old"]}, schema=pa.schema(fields))
    Dataset.write(uri, begin)
    lance.dataset(uri).update_config({"lance_spark.constraint.positive": "n > 0"})
    table = Dataset.open(uri).initialize_mem_wal()
    good = {"id": [2], "n": [5], "c": ["x"], "d": ["given"]}
    refused: list[dict[str, Any]] = [
        {**good, "n": [None]},
        {**good, "id": [None]},
        {**good, "n": [0]},
        {**good, "c": ["much too long"]},
        {**good, "id": [1 << 40]},
        {**good, "n": ["text"]},
        {**good, "more": [1]},
        {name: good[name] for name in ("id", "c")},
        {"other": [1]},
    ]
    with table.mem_wal_writer(SHARD) as writer:
        for rows in refused:
            with pytest.raises(SchemaMismatchError):
                writer.put(pa.table(rows))
        with pytest.raises(SchemaMismatchError):
            writer.put([pa.record_batch(good), pa.record_batch({**good, "n": [0]})])
        assert writer.stats()["put_count"] == 0
        writer.put(pa.table({"N": pa.array([7], pa.int16()), "ID": [3], "c": ["é"]}))
        writer.put(pa.table(good))
        writer.delete(pa.table({"id": pa.array([1], pa.int64()), "ignored": ["x"]}))
        for keys in ({"other": [1]}, {"id": [None]}, {"id": ["text"]}, {"id": [1 << 40]}):
            with pytest.raises(SchemaMismatchError):
                writer.delete(pa.table(keys))
    expected = [(2, 5, "x  ", "given"), (3, 7, "é  ", "new")]
    assert sorted(tuple(row.values()) for row in table.to_table().to_pylist()) == expected
    table.merge_mem_wal()
    assert sorted(tuple(row.values()) for row in lance.dataset(uri).to_table().to_pylist()) == expected


def entries(uri: str) -> list[str]:
    """The files of entries of the log, in their order."""
    return sorted(str(path) for path in Path(uri, "_mem_wal").glob("*/wal/*"))


def test_data_of_every_form_is_put(uri: str) -> None:
    rows = steps.values([7], "x")
    forms: list[Any] = [rows, rows.to_batches()[0], rows.to_reader(), rows.to_batches(), rows.to_pandas()]
    with Dataset.open(uri).mem_wal_writer(SHARD) as writer:
        for form in forms:
            writer.delete(pa.table({"id": [7]}))
            assert 7 not in steps.ours(uri)
            writer.put(form)
            assert steps.ours(uri)[7] == "x"
        writer.put(iter(rows.to_batches()), schema=rows.schema)
        before = entries(uri)
        writer.put(rows.slice(0, 0))
        writer.delete(pa.table({"id": pa.array([], pa.int64())}))
        assert entries(uri) == before, "no rows, no entry"


WRONG: dict[str, tuple[Callable[[Dataset], object], type[Exception], str]] = {
    "no UUID": (lambda table: table.mem_wal_writer("x"), InvalidOptionError, "UUID"),
    "no text": (lambda table: table.mem_wal_writer(5), TypeError, "UUID"),  # type: ignore[arg-type]
    "unknown setting": (lambda table: table.mem_wal_writer(SHARD, max_rows=1), TypeError, "max_memtable_rows"),
    "no number": (lambda table: table.mem_wal_writer(SHARD, max_memtable_rows="1"), TypeError, "max_memtable_rows"),
    "negative": (lambda table: table.mem_wal_writer(SHARD, max_memtable_rows=-1), InvalidOptionError, "at least 1"),
    "no log": (lambda table: Dataset.open(table.uri, version=1).mem_wal_writer(SHARD), InvalidOperationError, "initialize_mem_wal"),
    "second log": (lambda table: table.initialize_mem_wal(), InvalidOperationError, "already"),
    "unknown parameter": (
        lambda table: table.mem_wal_writer(SHARD, hnsw_params={"i": {"x": 1}}),
        InvalidOptionError,
        "num_edges",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case: str, uri: str) -> None:
    call, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        call(Dataset.open(uri))
    assert not Path(uri, "_mem_wal").exists(), "nothing was claimed"


def test_tables_whose_rows_cannot_be_in_a_log_are_refused(tmp_path: Path) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    nested = pa.field("s", pa.struct([pa.field("id", pa.int64(), nullable=False, metadata=key)]), nullable=False)
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    for number, field in enumerate((nested, blob)):
        table = Dataset.write(str(tmp_path / f"{number}"), pa.table({field.name: pa.array([], field.type)}, schema=pa.schema([field])))
        with pytest.raises(UnsupportedFeatureError, match=field.name if number else "id"):
            table.initialize_mem_wal().mem_wal_writer(SHARD)


def test_delete_needs_a_primary_key_and_no_other_values(tmp_path: Path) -> None:
    plain = Dataset.write(str(tmp_path / "plain"), pa.table({"id": [1]})).initialize_mem_wal()
    with plain.mem_wal_writer(SHARD) as writer, pytest.raises(InvalidOperationError, match="primary key"):
        writer.delete(pa.table({"id": [1]}))
    # As in pylance, other columns that are not nullable are no obstacle: tombstones have nulls in them.
    schema = pa.schema([SCHEMA.field("id"), pa.field("v", pa.string(), nullable=False)])
    for number, library in enumerate((Dataset, lance)):
        uri = str(tmp_path / f"{number}")
        Dataset.write(uri, pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=schema)).initialize_mem_wal()
        dataset: Any = Dataset.open(uri) if library is Dataset else lance.dataset(uri)
        writer = dataset.mem_wal_writer(SHARD)
        writer.delete(pa.table({"id": [1]}))
        assert Dataset.open(uri).to_table().to_pylist() == [{"id": 2, "v": "b"}]
        writer.close()
        assert steps.of_sstables(uri) == {2: "b"}
        Dataset.open(uri).merge_mem_wal()
        assert lance.dataset(uri).to_table().to_pylist() == [{"id": 2, "v": "b"}]


@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_closed_writer_and_one_of_another_process_are_refused(uri: str) -> None:
    writer = Dataset.open(uri).mem_wal_writer(SHARD)
    writer.put(steps.values([7], "x"))
    child = os.fork()
    if child == 0:
        try:
            writer.put(steps.values([8], "y"))
        except InvalidOperationError as e:
            os._exit(0 if "fork" in str(e) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.close()
    writer.close()
    for step in (("put", [8], "y"), ("delete", [1], "")):
        with pytest.raises(InvalidOperationError, match="closed"):
            steps.run(writer, step)
    assert steps.ours(uri) == {**steps.BEGIN, 7: "x"}


@pytest.fixture
def sealed(uri: str) -> str:
    from lance_spark._proto import table_pb2 as pb

    Dataset.open(uri).mem_wal_writer(SHARD).close()
    [state] = Path(uri, "_mem_wal", SHARD, "manifest").glob("*.binpb")
    message = pb.ShardManifest.FromString(state.read_bytes())
    message.status = pb.SEALED
    state.write_bytes(message.SerializeToString())
    return uri


def test_a_shard_that_is_being_dropped_is_refused(sealed: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="sealed"):
        Dataset.open(sealed).mem_wal_writer(SHARD)
    with pytest.raises(OSError, match="sealed"):
        lance.dataset(sealed).mem_wal_writer(SHARD)


LIMITS = {"rows": {"max_memtable_rows": 4}, "batches": {"max_memtable_batches": 2}, "bytes": {"max_memtable_size": 60}}


@pytest.mark.parametrize("limit", LIMITS)
def test_generations_are_flushed_while_rows_are_put(limit: str, uri: str) -> None:
    """Rows stay visible meanwhile, and no more than `max_unflushed_memtable_bytes` are in memory."""
    with Dataset.open(uri).mem_wal_writer(SHARD, **LIMITS[limit], max_unflushed_memtable_bytes=200) as writer:
        for part in range(8):
            writer.put(steps.values([10 + part, 20 + part], str(part)))
            stats = writer.memtable_stats()
            assert stats["estimated_size_bytes"] + stats["frozen_bytes"] <= 280
            assert len(steps.ours(uri)) == 2 * part + 4
        assert writer.stats()["memtable_flush_count"] >= 2
    assert writer.stats()["memtable_flush_count"] >= 4
    assert steps.of_sstables(uri) == steps.ours(uri)


def test_large_puts_are_several_entries(uri: str) -> None:
    rows = pa.table({"id": [*range(1000)], "v": ["x" * 100] * 1000, "w": [*range(1000)]}, schema=SCHEMA)
    with Dataset.open(uri).mem_wal_writer(SHARD, max_wal_buffer_size=20_000) as writer:
        writer.put(rows)
        assert 6 <= writer.stats()["wal_flush_count"] <= 12
        assert len(steps.ours(uri)) == 1000
    assert len(steps.of_sstables(uri)) == 1000


def test_rows_that_need_not_be_durable_are_there_after_a_while_or_when_there_are_enough(uri: str) -> None:
    with Dataset.open(uri).mem_wal_writer(
        SHARD, durable_write=False, max_wal_flush_interval_ms=3_600_000, max_wal_buffer_size=300
    ) as writer:
        for part in range(5):
            writer.put(steps.values([10 + part], "x"))
        assert writer.stats()["wal_flush_count"] == 0
        while not writer.stats()["wal_flush_count"]:
            writer.put(steps.values([20], "y"))
        assert steps.ours(uri)[14] == "x"
        writer.put(steps.values([30], "z"))
    assert steps.ours(uri)[30] == "z"
    with Dataset.open(uri).mem_wal_writer(SHARD, durable_write=False, max_wal_flush_interval_ms=1) as writer:
        writer.put(steps.values([40], "soon"))
        while 40 not in steps.ours(uri):
            pass
        assert writer.stats()["wal_flush_count"] == 1


def test_settings_of_the_table_are_those_of_its_writers(tmp_path: Path) -> None:
    """Of both libraries, whichever has initialized the log."""
    given: dict[str, Any] = {
        "max_memtable_rows": 2,
        "durable_write": False,
        "max_wal_flush_interval_ms": 1,
        "hnsw_params": {"i": {"num_edges": 3}},
    }
    found = []
    for number, library in enumerate(("ours", "pylance")):
        uri = str(tmp_path / f"{number}")
        lance.write_dataset(steps.values([1], "1"), uri)
        dataset: Any = Dataset.open(uri) if library == "ours" else lance.dataset(uri)
        dataset.initialize_mem_wal(**given)
        found.append(lance.dataset(uri).mem_wal_index_details())
        assert Dataset.open(uri).mem_wal_index_details() == found[-1]
        with Dataset.open(uri).mem_wal_writer(SHARD) as writer:
            writer.put(steps.values([2, 3, 4], "x"))
        assert writer.stats()["memtable_flush_count"] == 2
        with Dataset.open(uri).mem_wal_writer(SHARD, max_memtable_rows=None, durable_write=True) as writer:
            writer.put(steps.values([2, 3, 4], "x"))
        assert writer.stats()["memtable_flush_count"] == 2
        with lance.dataset(uri).mem_wal_writer(SHARD) as other:
            other.put(steps.values([3, 4], "y"))
    assert found[0] == found[1]


def test_indexes_of_the_table_are_those_of_sstables(tmp_path: Path) -> None:
    rows = pa.table({"id": [*range(300)], "v": [f"word{i % 7}" for i in range(300)], "w": [*range(300)]}, schema=SCHEMA)
    uri = str(tmp_path / "t.lance")
    table = Dataset.write(uri, rows).create_scalar_index("w", "BTREE").create_scalar_index("v", "FTS").create_scalar_index("w", "ZONEMAP")
    with pytest.raises(InvalidOptionError, match="no index 'x'"):
        table.initialize_mem_wal(maintained_indexes=["x"])
    names = [index["name"] for index in table.list_indices()]
    for maintained, expected in ((None, ["v_idx", "w_idx"]), (["w_idx"], ["w_idx"]), ([], [])):
        copy = str(tmp_path / f"{maintained}")
        Dataset.open(uri).deep_clone(copy)
        own = Dataset.open(copy).initialize_mem_wal(maintained_indexes=maintained)
        with own.mem_wal_writer(SHARD) as writer:
            writer.put(steps.values([1000, 1001], "word3"))
        [folder] = Path(copy, "_mem_wal", SHARD).glob("*_gen_1")
        assert sorted(index["name"] for index in Dataset.open(folder).list_indices()) == expected
        assert lance.dataset(folder).to_table(filter="w = 1001")["id"].to_pylist() == [1001]
    assert set(names) > {"v_idx", "w_idx"}
    zone = next(name for name in names if name not in ("v_idx", "w_idx"))
    with pytest.raises(UnsupportedFeatureError, match=zone):
        Dataset.open(uri).initialize_mem_wal(maintained_indexes=[zone]).mem_wal_writer(str(uuid.uuid4()))


def test_a_stream_of_updates_is_the_last_value_of_each_key(tmp_path: Path) -> None:
    uri, choice = steps.made(str(tmp_path / "t.lance")), random.Random(0)
    known = dict(steps.BEGIN)
    with Dataset.open(uri).mem_wal_writer(SHARD, max_memtable_rows=7000) as writer:
        for part in range(1000):
            ids = [choice.randrange(1000) for _ in range(100)]
            writer.put(steps.values(ids, str(part)))
            known |= dict.fromkeys(ids, str(part))
            if part % 250 == 100:
                Dataset.open(uri).merge_mem_wal()
                assert steps.ours(uri) == known
    assert steps.ours(uri) == known
    Dataset.open(uri).merge_mem_wal()
    assert steps.shown(lance.dataset(uri).to_table()) == known


def test_conditions_find_the_same_rows_with_and_without_indexes(tmp_path: Path) -> None:
    """Among newer rows, deleted ones, and nulls."""
    uri, shard = str(tmp_path / "t.lance"), str(uuid.uuid4())
    table = Dataset.write(uri, others.rows("int64", [*range(0, 60, 2)], 0)).create_scalar_index("w", "BTREE").initialize_mem_wal()
    for tag in (1, 2, 3):
        with table.mem_wal_writer(shard) as writer:
            writer.put(others.rows("int64", [*range(tag, 60, 3)], tag))
            writer.delete(pa.table({"id": [tag * 4, tag * 7]}))
    for condition in ("w = 20", "w > 15", "w IS NULL", "w IN (3, 16, 33)", "NOT (w < 40)", "w = 16 OR v IS NULL", "w > 10 AND id < 30"):
        found = [counted(table.scan(filter=condition, use_scalar_index=use).to_table()) for use in (True, False)]
        assert found[0] == found[1], condition
        assert found[0].total() == table.count_rows(condition)
