"""Writing tables: each library reads the other's tables, and failed writes leave nothing behind."""

from __future__ import annotations

import os
import pickle
import resource
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import (
    CommitConflictError,
    InvalidOptionError,
    SchemaMismatchError,
    StorageError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from lance_spark.metadata.row_columns import RESERVED
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.write import begin_write, commit_write, discard, write, write_fragments

TABLE = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "s": pa.array([None if i % 3 == 0 else f"value {i}" for i in range(10)]),
        "v": pa.array([[float(i), 0.5] for i in range(10)], pa.list_(pa.float32(), 2)),
        "n": pa.array([{"x": i, "l": list(range(i))} for i in range(10)], pa.struct([("x", pa.uint8()), ("l", pa.list_(pa.int16()))])),
    }
)


def data_files(uri: str) -> list[str]:
    return sorted(os.listdir(f"{uri}/data")) if os.path.isdir(f"{uri}/data") else []


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pylance_reads_and_works_on_what_we_write(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE, data_storage_version=version)
    Dataset.write(uri, TABLE, "append")
    ds = lance.dataset(uri)
    ds.validate()
    assert ds.data_storage_version == version
    assert ds.to_table() == pa.concat_tables([TABLE, TABLE])
    assert ds.to_table(filter="id > 3 and s is not null", columns=["id"])["id"].to_pylist() == [4, 5, 7, 8] * 2
    assert ds.take([3, 15]).to_pylist() == TABLE.take([3, 5]).to_pylist()
    lance.write_dataset(TABLE, uri, mode="append")
    lance.dataset(uri).delete("id < 2")
    lance.dataset(uri).update({"s": "'new'"}, where="id = 2")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).optimize.compact_files()
    ours = Dataset.write(uri, TABLE.slice(0, 3), "append")
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.count_rows() == ours.count_rows() == 27
    assert ours.scan().to_table().sort_by("id") == theirs.to_table().sort_by("id")
    assert theirs.count_rows("id = 2") == 4  # through the index, which does not cover what we appended
    assert [i.name for i in theirs.describe_indices()] == ["id_idx"]


def test_stable_row_ids_go_on_counting(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE, enable_stable_row_ids=True)
    lance.write_dataset(TABLE, uri, mode="append")
    Dataset.write(uri, TABLE, "append", max_rows_per_file=4)
    ids = lance.dataset(uri).to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    assert ids == list(range(30))
    columns = ["_row_created_at_version", "_row_last_updated_at_version"]
    versions = lance.dataset(uri).to_table(columns=columns)
    assert versions["_row_created_at_version"].to_pylist() == [1] * 10 + [2] * 10 + [3] * 10
    Dataset.write(str(tmp_path / "u"), TABLE)
    with pytest.raises(InvalidOptionError, match="stable row ids"):
        Dataset.write(str(tmp_path / "u"), TABLE, "overwrite", enable_stable_row_ids=True)


def test_modes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    assert Dataset.write(uri, TABLE, "append").version == 1
    with pytest.raises(TableAlreadyExistsError):
        Dataset.write(uri, TABLE)
    assert len(data_files(uri)) == 1
    other = pa.table({"z": ["a"]})
    assert Dataset.write(uri, other, "overwrite").scan().to_table() == other
    assert lance.dataset(uri).to_table() == other
    assert Dataset.open(uri, version=1).scan().to_table() == TABLE
    with pytest.raises(ValueError, match="mode must be"):
        Dataset.write(uri, TABLE, "upsert")  # type: ignore[arg-type]


def test_an_overwrite_may_change_the_file_format(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(TABLE, uri, data_storage_version="legacy")
    with pytest.raises(UnsupportedFeatureError, match=r"0\.1.*overwriting"):
        Dataset.write(uri, TABLE, "append")
    Dataset.write(uri, TABLE, "overwrite", data_storage_version="2.1")
    assert lance.dataset(uri).data_storage_version == "2.1"
    Dataset.write(uri, TABLE, "overwrite")
    assert lance.dataset(uri).data_storage_version == "2.1"
    Dataset.write(uri, TABLE, "overwrite", data_storage_version="stable")
    assert lance.dataset(uri).data_storage_version == "2.2"


def test_columns_are_matched_by_name_and_missing_ones_are_null(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(TABLE, uri)
    added = pa.table({"S": pa.array(["a"], pa.large_string()), "ID": pa.array([7], pa.int32())})
    expected = [{"id": 7, "s": "a", "v": None, "n": None}]
    assert Dataset.write(uri, added, "append").scan().to_table().to_pylist()[10:] == expected
    assert lance.dataset(uri).to_table().to_pylist()[10:] == expected
    lance.dataset(uri).optimize.compact_files()
    assert lance.dataset(uri).to_table().to_pylist()[10:] == expected


def test_missing_columns_may_have_parts_that_are_required(tmp_path: Path) -> None:
    """A map has keys that may not be null, and a struct may have such fields; the columns themselves may be null."""
    uri = str(tmp_path / "t")
    of_struct = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    columns = {"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "s": pa.array([{"x": 1}], of_struct)}
    columns["l"] = pa.array([[1]], pa.list_(pa.field("item", pa.int64(), nullable=False)))
    lance.write_dataset(pa.table({"id": [1], **columns}), uri, data_storage_version="2.2")
    Dataset.write(uri, pa.table({"id": [2]}), "append")
    found = Dataset.write(uri, pa.table({"id": [3], "s": columns["s"]}), "append").to_table().to_pylist()
    assert found == [
        {"id": 1, "m": [("a", 1)], "s": {"x": 1}, "l": [1]},
        {"id": 2, "m": None, "s": None, "l": None},
        {"id": 3, "m": None, "s": {"x": 1}, "l": None},
    ]
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table().to_pylist() == found
    required = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    Dataset.write(tmp_path / "r", pa.table({"id": [1], "v": [1]}, required))
    with pytest.raises(SchemaMismatchError, match="'id'"):
        Dataset.write(tmp_path / "r", pa.table({"v": [2]}), "append")


def test_data_that_does_not_fit_writes_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE)
    with pytest.raises(SchemaMismatchError, match="'other'"):
        Dataset.write(uri, pa.table({"id": [1], "other": [2]}), "append")
    too_late = [pa.record_batch({"n": pa.array([{"x": x}])}) for x in (1, 300)]
    with pytest.raises(SchemaMismatchError, match=r"n\.x"):
        Dataset.write(uri, too_late, "append", max_rows_per_file=1)
    assert (len(data_files(uri)), lance.dataset(uri).version) == (1, 1)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_names_that_pylance_reserves_are_refused(tmp_path: Path, name: str) -> None:
    data = pa.table({name: pa.array([1], pa.uint64())})
    with pytest.raises(OSError, match="reserved name"):
        lance.write_dataset(data, tmp_path / "theirs")
    with pytest.raises(SchemaMismatchError, match="reserved"):
        Dataset.write(tmp_path / "ours", data)
    assert not (tmp_path / "ours").exists()


def test_appending_nothing_makes_no_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    assert Dataset.write(uri, TABLE.slice(0, 0)).count_rows() == 0
    assert lance.dataset(uri).schema == TABLE.schema
    assert Dataset.write(uri, TABLE.slice(0, 0), "append").version == 1
    assert Dataset.write(uri, TABLE, "append").version == 2
    assert Dataset.write(uri, TABLE.slice(0, 0), "overwrite").count_rows() == 0
    assert data_files(uri) == data_files(uri)[:1]


def test_files_end_at_their_limits(tmp_path: Path) -> None:
    ds = Dataset.write(str(tmp_path / "t"), pa.concat_tables([TABLE] * 5), max_rows_per_file=20)
    assert [f.physical_rows for f in ds.snapshot.manifest.fragments] == [20, 20, 10]
    wide = pa.table({"b": [os.urandom(1 << 20) for _ in range(40)]}).to_batches(max_chunksize=4)
    ds = Dataset.write(str(tmp_path / "u"), wide, max_bytes_per_file=10 << 20)
    assert len(ds.snapshot.manifest.fragments) > 2
    assert lance.dataset(ds.uri).count_rows() == 40


@pytest.mark.parametrize("limit", ["max_rows_per_file", "max_bytes_per_file"])
def test_endless_empty_batches_write_no_files(limit: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{limit} must be at least 1, not 0"):
        replace(WriteOptions(), **dict[str, Any]({limit: 0}))


def test_every_source_of_arrow_data_can_be_written(tmp_path: Path) -> None:
    batch = TABLE.to_batches()[0]
    for i, data in enumerate([TABLE, batch, [batch], iter([batch]), TABLE.to_reader()]):
        assert Dataset.write(str(tmp_path / str(i)), data).scan().to_table() == TABLE
    for wrong in ([], [1], "text"):
        with pytest.raises(TypeError, match=r"data must be|pass schema="):
            Dataset.write(str(tmp_path / "t"), wrong)


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    target = begin_write(uri, TABLE.schema, "create", WriteOptions(max_rows_per_file=4))

    def failing() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_fragments(target, failing())
    assert data_files(uri) == []


def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(StorageError, match="exceeds a limit"):
            Dataset.write(uri, pa.table({"b": [os.urandom(1 << 21)]}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert data_files(uri) == []


def test_a_disk_that_is_full_at_the_commit_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = Dataset.write(uri, pa.table({f"column {i}": range(10) for i in range(20)}))
    there = set(tmp_path.rglob("*.*"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(StorageError, match=r"_versions/.*exceeds a limit"):
            table.delete("`column 1` = 1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert set(tmp_path.rglob("*.*")) == there
    assert Dataset.open(uri).count_rows() == 10


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("")
    with pytest.raises(StorageError, match="expected a folder, found a file"):
        Dataset.write(str(tmp_path / "t"), TABLE)


def test_a_target_has_a_small_pickle_and_its_fragments_are_committed_together(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    target = begin_write(uri, TABLE.schema, "overwrite")
    assert len(pickle.dumps(target)) < 3000
    there = pickle.loads(pickle.dumps(target))
    assert there == target
    parts = [pickle.loads(pickle.dumps(write_fragments(there, TABLE.slice(i * 5, 5).to_batches()))) for i in range(2)]
    assert not os.path.exists(f"{uri}/_versions")
    snapshot = commit_write(target, [f for part in parts for f in part])
    assert (snapshot.version, len(snapshot.manifest.fragments)) == (1, 2)
    assert lance.dataset(uri).to_table() == TABLE


def test_only_unreferenced_files_are_discarded(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    target = begin_write(uri, TABLE.schema, "append")
    kept, lost = (write_fragments(target, TABLE.to_batches()) for _ in range(2))
    commit_write(target, kept)
    discard(target, kept + lost)
    discard(target, lost)
    assert data_files(uri) == [kept[0].files[0].path]
    assert lance.dataset(uri).to_table() == TABLE


def test_a_conflicting_commit_deletes_its_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        lance.write_dataset(TABLE, uri, mode="overwrite")

    with pytest.raises(CommitConflictError, match=r"Append.*Overwrite"):
        Dataset.write(uri, pa.RecordBatchReader.from_batches(TABLE.schema, overtaken()), "append")
    assert len(data_files(uri)) == 2
    assert lance.dataset(uri).to_table() == TABLE


def test_two_concurrent_first_appends_both_succeed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    first, second = (begin_write(uri, TABLE.schema, "append") for _ in range(2))
    commit_write(first, write_fragments(first, TABLE.to_batches()))
    assert commit_write(second, write_fragments(second, TABLE.to_batches())).version == 2
    assert lance.dataset(uri).to_table() == pa.concat_tables([TABLE, TABLE])
    third = replace(second, schema=replace(second.schema, fields=second.schema.fields[:1]))
    with pytest.raises(CommitConflictError, match="other columns"):
        commit_write(third, write_fragments(third, TABLE.select(["id"]).to_batches()))


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_object_stores(kind: str, request: pytest.FixtureRequest) -> None:
    options: dict[str, str] = {}
    uri = f"memory://{uuid.uuid4().hex}/t"
    if kind == "s3":
        endpoint = request.getfixturevalue("s3_server")
        options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": endpoint, "allow_http": "true"}
        uri = f"s3://tables/{uuid.uuid4().hex}/t"
    Dataset.write(uri, TABLE, storage_options=options)
    if kind == "s3":
        assert lance.dataset(uri, storage_options=options).to_table() == TABLE
        lance.write_dataset(TABLE, uri, mode="append", storage_options=options)
    else:
        Dataset.write(uri, TABLE, "append")
    both = Dataset.write(uri, TABLE, "append", storage_options=options)
    assert (both.version, both.scan().to_table()) == (3, pa.concat_tables([TABLE] * 3))


def test_an_overwrite_that_merges_schemas_keeps_the_columns_and_adds_new_ones(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"id": [1, 2], "a": ["x", "y"]}))
    before = Dataset.open(uri).schema
    write(uri, pa.table({"id": [3], "b": [0.5]}), "overwrite", WriteOptions(merge_schema=True))
    assert lance.dataset(uri).to_table().to_pylist() == [{"id": 3, "a": None, "b": 0.5}] == Dataset.open(uri).scan().to_table().to_pylist()
    assert [f.id() for f in lance.dataset(uri).lance_schema.fields()] == [0, 1, 2]
    assert Dataset.open(uri).schema.field("a") == before.field("a")
    with pytest.raises(SchemaMismatchError, match="'a' is int64"):
        write(uri, pa.table({"a": [1]}), "overwrite", WriteOptions(merge_schema=True))
