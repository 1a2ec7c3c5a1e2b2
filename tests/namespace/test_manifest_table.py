"""The table `__manifest`: others read what a change writes, nothing of theirs is lost, and of two changes at once both take place."""

from __future__ import annotations

import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.namespace import CreateNamespaceRequest, DirectoryNamespace

from lance_spark.errors import CorruptFileError, InvalidOperationError, UnsupportedFeatureError, VersionNotFoundError
from lance_spark.namespace.manifest_table import (
    GUARD,
    READER_FLAGS,
    SCHEMA,
    WRITER_FLAGS,
    ManifestTable,
    change,
    change_metadata,
    open_manifest,
)
from lance_spark.storage.store import Store


def add(root: Store, *ids: str) -> ManifestTable:
    """Add namespaces."""
    return change(root, lambda table: table.with_rows([{"object_id": id, "object_type": "namespace"} for id in ids])).table


def ids(table: ManifestTable) -> list[str]:
    """The ids of all rows."""
    return sorted(table.rows["object_id"].to_pylist())


def with_column(table: ManifestTable) -> pa.Table:
    """The rows with a column of another writer."""
    return table.rows.append_column(pa.field("read_version", pa.uint64()), pa.array(range(table.rows.num_rows), pa.uint64()))


def folder(root: Store) -> Path:
    """The folder of the table."""
    return Path(root.uri) / "__manifest"


@pytest.fixture
def root(tmp_path: Path) -> Store:
    """An empty folder."""
    return Store(tmp_path / "root")


def test_there_is_no_table_before_the_first_change(root: Store) -> None:
    assert (open_manifest(root).version, open_manifest(root).rows.num_rows) == (0, 0)
    assert not folder(root).exists()


def test_pylance_reads_the_columns_and_rows(root: Store) -> None:
    add(root, "a")
    other = lance.dataset(folder(root))
    assert other.schema.equals(SCHEMA, check_metadata=True)
    assert other.to_table()["object_id"].to_pylist() == ["a"]


def test_columns_field_ids_metadata_and_config_of_others_are_kept(root: Store) -> None:
    add(root, "a")
    change(root, with_column)
    change_metadata(root, lambda table: {"owner": "somebody"})
    lance.dataset(folder(root)).update_config({"k": "v"})
    last = add(root, "b")
    assert last.rows["read_version"].to_pylist() == [0, None]
    assert last.metadata == {"owner": "somebody"}
    assert last.snapshot is not None
    assert last.snapshot.manifest.config == {"k": "v"}
    assert {f.name: f.id for f in last.schema.fields} == {**{n: i for i, n in enumerate(SCHEMA.names)}, "read_version": 6}


def test_an_earlier_version_can_be_opened(root: Store) -> None:
    first = add(root, "a")
    add(root, "b")
    assert ids(open_manifest(root, version=first.version)) == ["a"]
    with pytest.raises(VersionNotFoundError):
        open_manifest(root, version=9)


def test_a_change_is_applied_again_to_what_another_writer_has_made_meanwhile(root: Store) -> None:
    add(root, "a")
    seen: list[int] = []

    def edit(table: ManifestTable) -> pa.Table:
        if not seen:
            add(root, "of another")
        seen.append(table.version)
        return table.with_rows([{"object_id": "mine", "object_type": "namespace"}])

    assert ids(change(root, edit).table) == ["a", "mine", "of another"]
    assert seen == [1, 2]
    assert len(list((folder(root) / "data").iterdir())) == 3, "the file of the try that was overtaken is removed"


def test_changes_of_eight_writers_at_once_all_take_place(root: Store) -> None:
    threads = [threading.Thread(target=lambda n=n: [add(root, f"{n}-{i}") for i in range(4)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = open_manifest(root)
    assert ids(last) == [f"{n}-{i}" for n in range(8) for i in range(4)]
    assert last.version == 32
    assert len(list((folder(root) / "data").iterdir())) == 32


def test_a_numbered_change_is_made_once(root: Store) -> None:
    add(root, "a")

    def edit(table: ManifestTable) -> pa.Table:
        return table.with_rows([{"object_id": f"after {table.version}", "object_type": "namespace"}])

    job = {"txnAppId": "job", "txnVersion": "7"}
    assert [change(root, edit, job).applied for _ in range(2)] == [True, False]
    assert ids(open_manifest(root)) == ["a", "after 1"]


def test_nothing_is_committed_if_there_is_nothing_to_do(root: Store) -> None:
    add(root, "a")
    assert not change(root, lambda table: None).applied
    assert open_manifest(root).version == 1


def test_ids_cannot_be_duplicated_and_columns_cannot_be_lost(root: Store) -> None:
    add(root, "a")
    with pytest.raises(InvalidOperationError, match="'a' would be duplicated"):
        add(root, "a")
    with pytest.raises(InvalidOperationError, match="location are missing"):
        change(root, lambda table: table.rows.drop_columns(["location"]))
    assert len(list((folder(root) / "data").iterdir())) == 1


def test_unknown_features_are_refused_before_the_change_is_prepared(root: Store) -> None:
    def never(table: ManifestTable) -> pa.Table:
        raise AssertionError

    change_metadata(root, lambda table: {WRITER_FLAGS: str(GUARD | 2)})
    with pytest.raises(UnsupportedFeatureError, match="0x2"):
        change(root, never)
    assert open_manifest(root).rows.num_rows == 0, "reading goes on"
    lance.dataset(folder(root)).update_metadata({READER_FLAGS: "4", WRITER_FLAGS: None})
    with pytest.raises(UnsupportedFeatureError, match="0x4"):
        open_manifest(root)


@pytest.mark.parametrize("flags", ["-1", "x", "", "1" * 5000, str(1 << 64), "²"])
def test_flags_that_are_no_number_are_an_error(root: Store, flags: str) -> None:
    change_metadata(root, lambda table: {READER_FLAGS: flags})
    with pytest.raises(CorruptFileError, match="expected a number of 64 bits"):
        open_manifest(root)


def test_the_guard_keeps_pylance_from_changing_the_namespace_but_not_us(root: Store) -> None:
    add(root, "a")
    change_metadata(root, lambda table: {WRITER_FLAGS: str(GUARD)})
    namespace = DirectoryNamespace(root=root.uri)
    with pytest.raises(Exception, match="upgrade"):
        namespace.create_namespace(CreateNamespaceRequest(id=["b"]))
    assert ids(add(root, "b")) == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"object_id": ["a", "a"], "object_type": ["table", "table"]}, "'a' is duplicated"),
        ({"object_id": [1], "object_type": ["table"]}, "expected a column 'object_id' of strings"),
        ({"object_id": ["a"]}, "expected a column 'object_type' of strings"),
        ({"object_id": pa.array([None], pa.string()), "object_type": ["table"]}, "has nulls"),
    ],
)
def test_tables_of_others_that_are_no_manifests_are_an_error(root: Store, rows: dict[str, object], message: str) -> None:
    lance.write_dataset(pa.table(rows), folder(root))
    with pytest.raises(CorruptFileError, match=message):
        _ = open_manifest(root).rows


@pytest.mark.parametrize("version", ["2.0", "2.1", "legacy"])
def test_the_storage_version_of_others_is_kept_or_refused(root: Store, version: str) -> None:
    rows = pa.table({"object_id": ["a"], "object_type": ["namespace"], "location": pa.nulls(1, pa.string())})
    lance.write_dataset(rows, folder(root), data_storage_version=version)
    if version == "legacy":
        with pytest.raises(UnsupportedFeatureError, match=r"storage version 0\.1"):
            add(root, "b")
        return
    assert ids(add(root, "b")) == ["a", "b"]
    assert lance.dataset(folder(root)).data_storage_version == version
