"""Changes that took so long that the versions in between were cleaned up: they are committed if they fit, or must be repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError
from lance_spark.metadata.deletion_file import write_deletions
from lance_spark.metadata.manifest import BasePath, Fragment, IndexMetadata
from lance_spark.metadata.operations import (
    CONSTRAINT,
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    InsertedKeys,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
)
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Schema, from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.changes import alter
from lance_spark.table.commit.commit import commit
from lance_spark.table.write import write

Change = Callable[[str], object]


def rows(first: int) -> pa.Table:
    numbers = range(first, first + 3)
    return pa.table({"a": pa.array(numbers, pa.int64()), "b": [str(n) for n in numbers]})


def make(uri: str) -> Dataset:
    Dataset.write(uri, rows(0))
    return Dataset.write(uri, rows(10), "append")


def forget_old_versions(uri: str, theirs: bool) -> None:
    """Clean up all versions except the latest, which is an UpdateConfig and conflicts with nothing."""
    lance.dataset(uri).update_config({"last": "one"})
    if theirs:
        lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=False)
    else:
        Dataset.open(uri).cleanup_old_versions(timedelta(0))
    assert len(lance.dataset(uri).versions()) == 1


def values(uri: str) -> list[int]:
    table = lance.dataset(uri)
    table.validate()
    found: list[int] = sorted(table.to_table()["a"].to_pylist())
    assert sorted(Dataset.open(uri).scan().to_table()["a"].to_pylist()) == found
    return found


FITTING: dict[str, Change] = {
    "appends": lambda uri: [Dataset.write(uri, rows(n), "append") for n in (20, 30)],
    "a delete": lambda uri: Dataset.open(uri).delete("a > 5"),
    "an update": lambda uri: lance.dataset(uri).update({"b": "'x'"}, where="a = 11"),
    "a compaction": lambda uri: lance.dataset(uri).optimize.compact_files(),
    "a new column": lambda uri: Dataset.open(uri).add_columns(pa.field("c", pa.int8())),
    "a column with values": lambda uri: lance.dataset(uri).add_columns({"c": "a + 1"}),
    "an index": lambda uri: lance.dataset(uri).create_scalar_index("a", "BTREE"),
    "a restore": lambda uri: Dataset.open(uri, version=1).restore(),
}


@pytest.mark.matrix
@pytest.mark.parametrize("theirs", [True, False])
@pytest.mark.parametrize("change", FITTING)
def test_a_long_append_is_committed_if_its_columns_still_fit(tmp_path: Path, change: str, theirs: bool) -> None:
    uri = str(tmp_path / "t")
    make(uri)
    target = write.begin_write(uri, rows(0).schema, "append")
    fragments = write.write_fragments(target, rows(90).to_batches())
    FITTING[change](uri)
    forget_old_versions(uri, theirs)
    before = values(uri)
    write.commit_write(target, fragments)
    assert values(uri) == [*before, 90, 91, 92]


OTHER_COLUMNS: dict[str, Change] = {
    "another type": lambda uri: Dataset.write(uri, pa.table({"a": [1], "b": [2]}), "overwrite"),
    "another name": lambda uri: Dataset.write(uri, pa.table({"a": [1], "c": ["x"]}), "overwrite"),
    "a column less": lambda uri: Dataset.write(uri, pa.table({"a": [1]}), "overwrite"),
    "another order": lambda uri: Dataset.write(uri, pa.table({"b": ["x"], "a": [1]}), "overwrite"),
    "a struct": lambda uri: Dataset.write(uri, pa.table({"a": [1], "b": [{"b": "x"}]}), "overwrite"),
    "a column that is never null": lambda uri: Dataset.write(
        uri, pa.table({"a": [1], "b": ["x"], "c": [1]}, schema=rows(0).schema.append(pa.field("c", pa.int64(), False))), "overwrite"
    ),
    "another storage version": lambda uri: Dataset.write(uri, rows(0), "overwrite", data_storage_version="2.0"),
    "a column that was dropped": lambda uri: Dataset.open(uri).drop_columns(["b"]),
    "a column that was renamed": lambda uri: Dataset.open(uri).alter_columns({"path": "b", "name": "c"}),
    "no nulls any more": lambda uri: Dataset.open(uri).alter_columns({"path": "b", "nullable": False}),
    "a constraint": lambda uri: alter.add_constraint(Dataset.open(uri).snapshot, "small", "a < 90"),
}


@pytest.mark.parametrize("change", OTHER_COLUMNS)
def test_a_long_append_of_dropped_columns_must_be_repeated(tmp_path: Path, change: str) -> None:
    uri = str(tmp_path / "t")
    make(uri)
    target = write.begin_write(uri, rows(0).schema, "append")
    fragments = write.write_fragments(target, rows(90).to_batches())
    OTHER_COLUMNS[change](uri)
    forget_old_versions(uri, theirs=True)
    before = values(uri)
    with pytest.raises(CommitConflictError, match="run the operation again") as e:
        write.commit_write(target, fragments)
    assert e.value.retryable
    assert values(uri) == before


def test_an_append_to_a_recreated_table_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    make(uri)
    target = write.begin_write(uri, rows(0).schema, "append")
    fragments = write.write_fragments(target, rows(90).to_batches())
    for name in ("_versions", "_transactions"):
        for file in Path(uri, name).iterdir():
            file.unlink()
    other = pa.table({"b": ["x"], "a": [1]})
    for mode in ("create", "append", "append"):
        Dataset.write(uri, other, mode)
    with pytest.raises(CommitConflictError, match="the table was dropped and made anew") as e:
        write.commit_write(target, fragments)
    assert not e.value.retryable
    assert values(uri) == [1, 1, 1]


def test_a_long_delete_is_committed_if_its_rows_are_unchanged(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    held = make(uri)
    Dataset.write(uri, rows(20), "append")
    Dataset.open(uri).delete("a = 10")
    forget_old_versions(uri, theirs=False)
    held.delete("a = 12 or a = 20")
    assert values(uri) == [0, 1, 2, 11, 20, 21, 22]
    held.delete("a = 11 or a = 12")
    assert values(uri) == [0, 1, 2, 20, 21, 22]


def written(ds: Dataset, first: int) -> tuple[Fragment, ...]:
    return write.write_fragments(write.begin_write(ds.uri, rows(0).schema, "append"), rows(first).to_batches())


def delete_of(ds: Dataset) -> Delete:
    """The row 10, the first one of the second fragment."""
    fragment = ds.snapshot.manifest.fragments[1]
    file = write_deletions(Store(ds.uri), fragment.id, ds.version, np.array([0], np.uint32))
    return Delete((replace(fragment, deletion=file),))


def index_of(ds: Dataset) -> IndexMetadata:
    return IndexMetadata(b"\1" * 16, "by_a", (0,), ds.version, BitMap([0, 1]).serialize())


def schema_of(ds: Dataset, *more: pa.Field) -> Schema:
    schema = ds.snapshot.manifest.schema
    return replace(schema, fields=(*schema.fields, *from_arrow(pa.schema(more), 7).fields))


OPERATIONS: dict[str, Callable[[Dataset], Operation]] = {
    "delete": delete_of,
    "update": lambda ds: Update((), delete_of(ds).updated_fragments, written(ds, 10)),
    "upsert": lambda ds: Update((), delete_of(ds).updated_fragments, written(ds, 10), inserted_keys=InsertedKeys((0,), (1,))),
    "rewrite": lambda ds: Rewrite((RewriteGroup((ds.snapshot.manifest.fragments[1],), written(ds, 10)),)),
    "replace": lambda ds: DataReplacement((DataReplacementGroup(1, written(ds, 10)[0].files[0]),)),
    "index": lambda ds: CreateIndex((index_of(ds),)),
    "merge": lambda ds: Merge(tuple(ds.snapshot.manifest.fragments), schema_of(ds, pa.field("z", pa.int8())), True),
    "project": lambda ds: Project(schema_of(ds), True),
    "forbid nulls": lambda ds: Project(schema_of(ds)),
    "overwrite": lambda ds: Overwrite(written(ds, 10), schema_of(ds), {"k": "mine"}),
    "config": lambda ds: UpdateConfig(UpdateMap({"k": "mine"})),
    "constraint": lambda ds: UpdateConfig(UpdateMap({CONSTRAINT + "mine": "a < 15"})),
    "all config": lambda ds: UpdateConfig(UpdateMap({"k": "mine"}, replace=True)),
    "metadata": lambda ds: UpdateConfig(table_metadata_updates=UpdateMap({"k": "mine"})),
    "field metadata": lambda ds: UpdateConfig(field_metadata_updates={0: UpdateMap({"k": "mine"})}),
    "reserve": lambda ds: ReserveFragments(3),
    "restore": lambda ds: Restore(ds.version),
    "base": lambda ds: UpdateBases((BasePath(0, "/elsewhere", False),)),
}

UNSEEN: dict[str, tuple[Change, set[str]]] = {
    "an append": (lambda uri: Dataset.write(uri, rows(20), "append"), {"upsert", "merge", "forbid nulls", "constraint"}),
    "other rows": (
        lambda uri: Dataset.open(uri).delete("a = 11"),
        {"upsert", "rewrite", "replace", "merge", "forbid nulls", "constraint"},
    ),
    "the same row": (
        lambda uri: Dataset.open(uri).delete("a = 10"),
        {"delete", "update", "upsert", "rewrite", "replace", "merge", "forbid nulls", "constraint"},
    ),
    "its fragment": (
        lambda uri: Dataset.open(uri).delete("a >= 10"),
        {"delete", "update", "upsert", "rewrite", "replace", "index", "merge", "forbid nulls", "constraint"},
    ),
    "a new column": (
        lambda uri: Dataset.open(uri).add_columns(pa.field("c", pa.int8())),
        OPERATIONS.keys() - {"overwrite", "config", "constraint", "all config", "metadata", "reserve", "restore", "base"},
    ),
    "an index": (
        lambda uri: lance.dataset(uri).create_scalar_index("b", "BTREE"),
        {"delete", "update", "upsert", "rewrite", "replace", "index", "merge", "project", "forbid nulls"},
    ),
    "the same key": (lambda uri: Dataset.open(uri).update_config({"k": "theirs"}), {"upsert", "overwrite", "config", "all config"}),
    "another key": (lambda uri: Dataset.open(uri).update_config({"l": "theirs"}), {"upsert", "all config"}),
    "a constraint": (
        lambda uri: alter.add_constraint(Dataset.open(uri).snapshot, "small", "a < 90"),
        {"update", "upsert", "replace", "merge", "project", "forbid nulls", "overwrite", "all config"},
    ),
    "an overwrite": (
        lambda uri: Dataset.write(uri, rows(0), "overwrite"),
        {"delete", "update", "upsert", "rewrite", "replace", "index", "merge", "forbid nulls", "overwrite", "constraint"},
    ),
}


@pytest.mark.parametrize("unseen", UNSEEN)
def test_an_old_change_is_committed_only_if_its_dependencies_are_unchanged(tmp_path: Path, unseen: str) -> None:
    change, refused = UNSEEN[unseen]
    for name, operation in OPERATIONS.items():
        uri = str(tmp_path / name / "t")
        base = make(uri)
        base.tags.create("base", base.version)
        prepared = operation(base)
        change(uri)
        Dataset.open(uri).update_config({"last": "one"} if name != "all config" else {})
        latest = Dataset.open(uri)
        latest.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
        assert [v.version for v in latest.versions()] == [base.version, latest.version]
        before = values(uri)
        if name in refused:
            with pytest.raises(CommitConflictError) as e:
                commit(Store(uri), Transaction(base.version, prepared))
            assert e.value.retryable, name
            assert values(uri) == before
        else:
            assert commit(Store(uri), Transaction(base.version, prepared)).version == latest.version + 1, name


def test_a_change_without_its_read_version_must_be_repeated(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    base = make(uri)
    prepared = delete_of(base)
    Dataset.write(uri, rows(20), "append")
    forget_old_versions(uri, theirs=False)
    with pytest.raises(CommitConflictError, match="versions 3 to 3 were cleaned up") as e:
        commit(Store(uri), Transaction(base.version, prepared))
    assert e.value.retryable
    assert commit(Store(uri), Transaction(base.version, prepared), base=base.snapshot).version == 5
    assert values(uri) == [0, 1, 2, 11, 12, 20, 21, 22]


def test_a_delete_without_its_old_deletion_file_must_be_repeated(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    make(uri).delete("a = 12")
    base = Dataset.open(uri)
    prepared = delete_of(base)
    Dataset.open(uri).delete("a = 11").cleanup_old_versions(timedelta(0))
    with pytest.raises(CommitConflictError, match="the deletion files that list them were removed") as e:
        commit(Store(uri), Transaction(base.version, prepared), base=base.snapshot)
    assert e.value.retryable
