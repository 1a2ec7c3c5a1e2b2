"""Changes of columns and config, and restored versions: transactions and versions match pylance."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark.dataset import Dataset
from lance_spark.errors import CommitConflictError, LanceError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Append, Merge, Overwrite, Project, Restore, UpdateConfig, UpdateMap
from lance_spark.metadata.transaction import parse
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import open_snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.write import write
from tests.table.commit.test_every_conflict import normal

pytestmark = [
    pytest.mark.spec("format-document.md", "Dataset Update and Schema Evolution"),
    pytest.mark.spec("schema.md", "Schema Evolution"),
]

TABLE = pa.table(
    {
        "a": pa.array(range(6), pa.int32()),
        "b": pa.array([1, None, 3, 4, 5, 6], pa.int32()),
        "s": [{"x": i, "y": str(i)} for i in range(6)],
        "l": [[i] for i in range(6)],
    }
)


def make(uri: Path) -> Dataset:
    lance.write_dataset(TABLE, uri, max_rows_per_file=3)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    return Dataset.open(str(uri))


def plain(schema: Schema) -> Schema:
    """Without the deprecated `encoding` of fields, which pylance still writes."""

    def field(f: Field) -> Field:
        return replace(f, unknown=b"", children=tuple(map(field, f.children)))

    return replace(schema, fields=tuple(map(field, schema.fields)))


def manifests(folder: Path) -> list[Manifest]:
    found = [open_snapshot(Store(str(folder / side))).manifest for side in ("ours", "pylance")]
    return [replace(normal(m), schema=plain(m.schema)) for m in found]


CHANGES: dict[str, tuple[Callable[[Dataset], Dataset], Callable[[lance.LanceDataset], object]]] = {
    "add a column": (lambda ds: ds.add_columns(pa.field("n", pa.int64())), lambda ds: ds.add_columns(pa.field("n", pa.int64()))),
    "add columns": (
        lambda ds: ds.add_columns([pa.field("n", pa.list_(pa.string())), pa.field("t", pa.struct([("u", pa.int8())]))]),
        lambda ds: ds.add_columns([pa.field("n", pa.list_(pa.string())), pa.field("t", pa.struct([("u", pa.int8())]))]),
    ),
    "add a schema": (
        lambda ds: ds.add_columns(pa.schema([("n", pa.int64())])),
        lambda ds: ds.add_columns(pa.schema([("n", pa.int64())])),
    ),
    "drop a column": (lambda ds: ds.drop_columns(["b"]), lambda ds: ds.drop_columns(["b"])),
    "drop the indexed column": (lambda ds: ds.drop_columns(["a"]), lambda ds: ds.drop_columns(["a"])),
    "drop a part": (lambda ds: ds.drop_columns(["s.x", "l"]), lambda ds: ds.drop_columns(["s.x", "l"])),
    "drop all parts": (lambda ds: ds.drop_columns(["s.x", "s.y"]), lambda ds: ds.drop_columns(["s.x", "s.y"])),
    "rename": (lambda ds: ds.alter_columns({"path": "b", "name": "c"}), lambda ds: ds.alter_columns({"path": "b", "name": "c"})),
    "rename a part": (lambda ds: ds.alter_columns({"path": "s.x", "name": "z"}), lambda ds: ds.alter_columns({"path": "s.x", "name": "z"})),
    "forbid nulls": (
        lambda ds: ds.alter_columns({"path": "a", "nullable": False}),
        lambda ds: ds.alter_columns({"path": "a", "nullable": False}),
    ),
    "several changes": (
        lambda ds: ds.alter_columns({"path": "a", "name": "aa"}, {"path": "b", "nullable": True}),
        lambda ds: ds.alter_columns({"path": "a", "name": "aa"}, {"path": "b", "nullable": True}),
    ),
    "config": (lambda ds: ds.update_config({"k": "v", "l": None}), lambda ds: ds.update_config({"k": "v", "l": None})),
    "replace config": (lambda ds: ds.update_config({"k": "v"}, replace=True), lambda ds: ds.update_config({"k": "v"}, replace=True)),
    "restore": (lambda ds: ds.checkout_version(1).restore(), lambda ds: lance.dataset(ds.uri, version=1).restore()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_transaction_and_version_are_those_of_pylance(tmp_path: Path, name: str) -> None:
    ours, theirs = CHANGES[name]
    for side in ("ours", "pylance"):
        make(tmp_path / side)
        lance.dataset(tmp_path / side).update_config({"l": "1"})
    assert ours(Dataset.open(str(tmp_path / "ours"))).version == 4
    theirs(lance.dataset(tmp_path / "pylance"))
    a, b = manifests(tmp_path)
    assert a == b
    operations = []
    for side in ("ours", "pylance"):
        content = open_snapshot(Store(str(tmp_path / side))).manifest.transaction
        assert content is not None
        operation = parse(content, side).operation
        if isinstance(operation, Merge | Project):
            operation = replace(operation, schema=plain(operation.schema))
        if isinstance(operation, Merge):
            operation = replace(operation, fragments=tuple(a.fragments))
        operations.append(operation)
    assert operations[0] == operations[1]
    ds = lance.dataset(tmp_path / "ours")
    ds.validate()
    assert ds.to_table() == lance.dataset(tmp_path / "pylance").to_table()
    assert Dataset.open(str(tmp_path / "ours")).scan().to_table() == ds.to_table()


def test_ids_of_dropped_columns_are_not_reused(tmp_path: Path) -> None:
    for side in ("ours", "pylance"):
        make(tmp_path / side)
        lance.dataset(tmp_path / side).drop_columns(["l"])
    Dataset.open(str(tmp_path / "ours")).add_columns(pa.field("n", pa.int32()))
    lance.dataset(tmp_path / "pylance").add_columns(pa.field("n", pa.int32()))
    a, b = manifests(tmp_path)
    assert a.schema == b.schema
    assert Dataset.open(str(tmp_path / "ours")).scan(columns=["n"]).to_table()["n"].null_count == 6


def test_rows_can_be_counted_after_all_stored_columns_are_dropped(tmp_path: Path) -> None:
    """pylance removes the last file of a fragment, and then cannot read the table."""
    lance.write_dataset(TABLE.select(["a", "b"]), tmp_path, max_rows_per_file=3)
    dataset = Dataset.open(str(tmp_path)).add_columns(pa.field("new", pa.int64())).drop_columns(["a", "b"])
    assert dataset.count_rows() == lance.dataset(tmp_path).count_rows() == 6
    nothing = pa.table({"new": pa.nulls(6, pa.int64())})
    assert dataset.scan().to_table() == lance.dataset(tmp_path).to_table() == nothing
    lance.write_dataset(pa.table({"new": [7]}), tmp_path, mode="append")
    assert lance.dataset(tmp_path).to_table()["new"].to_pylist() == [None] * 6 + [7]


def test_invalid_changes_are_refused(tmp_path: Path) -> None:
    ds = make(tmp_path / "t")
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: ds.add_columns(pa.field("n", pa.int32(), nullable=False)), "must be nullable"),
        (lambda: ds.add_columns(pa.field("a", pa.int32())), "duplicate column names 'a'"),
        (lambda: ds.drop_columns(["nothing"]), "no column 'nothing'"),
        (lambda: ds.drop_columns(["a", "b", "s", "l"]), "at least one column"),
        (lambda: ds.alter_columns({"path": "a", "name": "b"}), "duplicate column names 'b'"),
        (lambda: ds.alter_columns({"path": "b", "nullable": False}), "has nulls.* row 1 of fragment 0 is null"),
        (lambda: ds.add_columns(pa.field("_rowid", pa.uint64())), "column names _rowid are reserved"),
        (lambda: ds.alter_columns({"path": "a", "name": "_rowaddr"}), "column names _rowaddr are reserved"),
    ]
    for change, message in refused:
        with pytest.raises(SchemaMismatchError, match=message):
            change()
    with pytest.raises(TypeError, match="sequence of names"):
        ds.drop_columns("ab")
    assert Dataset.open(str(tmp_path / "t")).version == ds.version
    with pytest.raises(UnsupportedFeatureError, match="cannot alter comment of a column; expected keys: path, name, nullable, data_type"):
        ds.alter_columns({"path": "a", "comment": "none"})  # type: ignore[typeddict-unknown-key]
    lance.write_dataset(TABLE.select(["a"]), tmp_path / "old", data_storage_version="legacy")
    with pytest.raises(UnsupportedFeatureError):
        Dataset.open(str(tmp_path / "old")).add_columns(pa.field("n", pa.int32()))


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.add_columns({"x.y": "a + 1"}),
        lambda ds: ds.add_columns(pa.field("x.y", pa.int64())),
        lambda ds: ds.alter_columns({"path": "a", "name": "x.y"}),
        lambda ds: write(ds.uri, pa.table({"x.y": [1]}), "append", WriteOptions(merge_schema=True)),
    ],
    ids=["add values", "add nulls", "rename", "mergeSchema"],
)
def test_a_new_name_with_a_dot_is_refused_as_by_pylance(tmp_path: Path, change: Callable[[Dataset], object]) -> None:
    ds = make(tmp_path)
    with pytest.raises(SchemaMismatchError, match=r"must not contain dots: 'x\.y'"):
        change(ds)
    assert Dataset.open(tmp_path).version == ds.version


def test_both_libraries_continue_after_each_other(tmp_path: Path) -> None:
    ds = make(tmp_path)
    ds.add_columns(pa.field("n", pa.int32()))
    lance.dataset(tmp_path).update({"n": "a * 2"}, where="a > 3")
    Dataset.open(str(tmp_path)).alter_columns({"path": "n", "name": "m"})
    lance.dataset(tmp_path).optimize.compact_files()
    Dataset.open(str(tmp_path)).drop_columns(["s", "l"])
    lance.write_dataset(pa.table({"a": pa.array([9], pa.int32()), "m": pa.array([1], pa.int32())}), tmp_path, mode="append")
    ds = Dataset.open(str(tmp_path)).delete("a = 0")
    lance.dataset(tmp_path).validate()
    expected = {"a": [1, 2, 3, 4, 5, 9], "b": [None, 3, 4, 5, 6, None], "m": [None, None, None, 8, 10, 1]}
    assert ds.scan().to_table().sort_by("a").to_pydict() == expected
    assert lance.dataset(tmp_path).to_table().sort_by("a").to_pydict() == expected


def test_operations_prepared_by_hand(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    source = make(tmp_path / "source").snapshot.manifest
    shutil.copytree(tmp_path / "source" / "data", tmp_path / "t" / "data")
    ds = Dataset.commit(uri, Overwrite(tuple(source.fragments), source.schema), commit_message="first", enable_stable_row_ids=True)
    assert (ds.version, ds.snapshot.manifest.has_stable_row_ids, ds.snapshot.manifest.data_format) == (1, True, "2.2")
    ds = Dataset.commit(uri, Append(tuple(source.fragments[:1])), read_version=1)
    ds = Dataset.commit(uri, UpdateConfig(UpdateMap({"k": "v"})), read_version=1)
    assert (ds.version, ds.count_rows()) == (3, 9)
    with pytest.raises(CommitConflictError):
        Dataset.commit(uri, UpdateConfig(UpdateMap({"k": "w"})), read_version=2)
    assert Dataset.commit(uri, Restore(1)).count_rows() == 6
    assert Dataset.commit(uri, Overwrite((), source.schema)).version == 5
    assert lance.dataset(uri).count_rows() == 0
    assert Dataset.open(uri).history()[-1].message == "first"
    with pytest.raises(ValueError, match="read_version"):
        Dataset.commit(uri, Append(()))
    with pytest.raises(TypeError, match="must be one of"):
        Dataset.commit(uri, lance.LanceOperation.Append([]), read_version=1)
    with pytest.raises(LanceError, match="no version 77"):
        Dataset.commit(uri, Restore(77))


def test_files_of_another_version_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "t")
    lance.write_dataset(TABLE, tmp_path / "other", data_storage_version="2.1")
    fragments = open_snapshot(Store(str(tmp_path / "other"))).manifest.fragments
    with pytest.raises(ValueError, match=r"storage version 2\.1; expected the table's version 2\.2"):
        Dataset.commit(str(tmp_path / "t"), Append(tuple(fragments)), read_version=2)
