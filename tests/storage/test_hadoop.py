"""Tables in HDFS: a name is taken by a rename that fails if it exists. The cluster is tests/storage/hadoop_cluster.py, not a real one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import hdfs_native
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import Dataset
from lance_spark.errors import StorageError
from lance_spark.storage import hadoop
from lance_spark.storage.store import Store
from tests.storage.hadoop_cluster import Cluster, Writer

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", None, "c"]})


def test_concurrent_writers_lose_no_commit(hadoop_cluster: str) -> None:
    uri = f"{hadoop_cluster}/lake/t.lance"
    Dataset.write(uri, ROWS)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: Dataset.write(uri, pa.table({"id": [i], "s": ["x"]}), mode="append"), range(100, 124)))
    found = Dataset.open(uri)
    assert sorted(found.to_table()["id"].to_pylist()) == [1, 2, 3, *range(100, 124)]
    assert found.version == 25
    assert found.verify().ok


def test_a_manifest_is_whole_when_it_has_its_name(hadoop_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer dies in the middle of the manifest: there is a file with another name, and no new version."""
    uri = f"{hadoop_cluster}/t.lance"
    Dataset.write(uri, ROWS)
    create = Cluster.create

    class Dying:
        def __init__(self, file: Writer) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            self.file.write(data[: len(data) // 2])
            self.file.close()
            raise KeyboardInterrupt

    def dies(self: Cluster, path: str, write_options: Any) -> Any:
        file = create(self, path, write_options)
        return Dying(file) if "/_versions/" in path else file

    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "create", dies)
        patched.setattr(Cluster, "delete", lambda self, path, recursive=False: False)
        with pytest.raises(KeyboardInterrupt):
            Dataset.write(uri, ROWS, mode="append")
    left = [path.name for path in (tmp_path / "hadoop" / "t.lance" / "_versions").iterdir()]
    assert any(name.startswith(".") and name.endswith(".tmp") for name in left)
    assert Dataset.open(uri).version == 1
    assert Dataset.write(uri, ROWS, mode="append").count_rows() == 6


def test_tables_of_a_namespace_are_made_changed_renamed_and_removed(hadoop_cluster: str) -> None:
    lake = lance_spark.namespace(f"{hadoop_cluster}/lake")
    lake.create_namespace(["shop"])
    orders = lake.write(["shop", "orders"], ROWS)
    orders.delete("id = 2")
    orders.create_index("id", "BTREE")
    orders.tags.create("first", 1)
    assert lake.open(["shop", "orders"]).to_table(filter="id > 1")["s"].to_pylist() == ["c"]
    assert Dataset.open(orders.uri, tag="first").count_rows() == 3
    lake.write(["top"], ROWS)
    lake.rename_table(["top"], ["renamed"])
    assert (lake.list_tables([]), lake.open(["renamed"]).count_rows()) == (["renamed"], 3)
    orders.optimize.compact_files()
    orders.cleanup_old_versions(older_than=timedelta(), error_if_tagged_old_versions=False)
    assert orders.verify().ok
    lake.drop_table(["shop", "orders"])
    assert lake.list_tables(["shop"]) == []


def test_what_the_cluster_refuses_names_the_file(hadoop_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> object:
        raise RuntimeError('RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=dr.who")')

    monkeypatch.setattr(Cluster, "read", refused)
    with pytest.raises(StorageError, match=r"hdfs://cluster:8020/x/y: .*user=dr\.who.*check the permissions"):
        Store(f"{hadoop_cluster}/x").read("y")


def test_a_folder_that_is_removed_meanwhile_hides_no_other_files(hadoop_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"{hadoop_cluster}/x")
    for path in ("a/1", "b/c/2", "3"):
        store.put(path, b"")
    listed = Cluster.list_status

    def removed(self: Cluster, path: str, recursive: bool = False) -> Any:
        if path.endswith("/a"):
            raise FileNotFoundError(path)
        return listed(self, path, recursive)

    assert [entry.name for entry in store.walk("")] == ["3", "a/1", "b/c/2"]
    monkeypatch.setattr(Cluster, "list_status", removed)
    assert [entry.name for entry in store.walk("")] == ["3", "b/c/2"]


def test_a_cluster_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the real client."""
    monkeypatch.setattr(hadoop, "_WITHOUT_SETTINGS", {"dfs.client.failover.max.attempts": "1"})
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(StorageError, match=r"hdfs://127\.0\.0\.1:1/t\.lance/.*Connection refused"):
        Dataset.open("hdfs://127.0.0.1:1/t.lance")


@pytest.mark.parametrize("name", [name for name in vars(Cluster) if not name.startswith("_")])
def test_the_cluster_of_these_tests_is_called_as_the_client_is(name: str) -> None:
    ours, theirs = signature(getattr(Cluster, name)), signature(getattr(hdfs_native.Client, name))
    assert [*ours.parameters] == [*theirs.parameters][: len(ours.parameters)]
