"""A partitioned namespace that is removed and made anew at its root while a client holds it: the new one stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark.errors import LanceError
from lance_spark.namespace.partitioned.commit import commit_partitions
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.namespace.partitioned.write import begin, write_partitions
from lance_spark.storage.store import Store
from tests.namespace.partitioned.made import plain

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("c", pa.string())])


def made(root: Path, versions: int, first: int) -> PartitionedNamespace:
    """A namespace with as many writes, each of two rows."""
    namespace = PartitionedNamespace.create(root, SCHEMA, ["c"])
    for i in range(first, first + versions):
        namespace = namespace.write(pa.table({"id": [i, i], "c": ["x", "y"]}, schema=SCHEMA))
    return namespace


@pytest.mark.parametrize("versions", [1, 3, 5], ids=["fewer", "same", "more"])
def test_writes_of_a_namespace_that_is_no_longer_there_leave_the_new_one(versions: int, tmp_path: Path) -> None:
    root = tmp_path / "n"
    for mode in ("append", "overwrite", "dynamic"):
        held = made(root, 3, 0)
        shutil.rmtree(root)
        expected = plain(made(root, versions, 100))
        with pytest.raises(LanceError, match="dropped and made anew"):
            held.write(pa.table({"id": [7], "c": ["x"]}, schema=SCHEMA), mode)
        there = PartitionedNamespace.open(root)
        assert plain(there) == expected
        assert plain(there.write(pa.table({"id": [8], "c": ["x"]}, schema=SCHEMA))) == sorted([*expected, (8, "x")], key=repr)
        shutil.rmtree(root)


@pytest.mark.parametrize("versions", [1, 3, 5], ids=["fewer", "same", "more"])
def test_reads_of_a_namespace_that_is_no_longer_there_have_no_rows_of_the_new_one(versions: int, tmp_path: Path) -> None:
    root = tmp_path / "n"
    held = made(root, 3, 0)
    shutil.rmtree(root)
    made(root, versions, 100)
    with pytest.raises(LanceError):
        held.scan().to_table()


@pytest.mark.parametrize("versions", [1, 3, 5], ids=["fewer", "same", "more"])
def test_rows_of_a_slow_source_are_not_added_to_a_namespace_that_was_made_meanwhile(versions: int, tmp_path: Path) -> None:
    root, rows = tmp_path / "n", pa.table({"id": [7, 7], "c": ["x", "z"]}, schema=SCHEMA)
    for mode in ("append", "overwrite", "dynamic"):
        made(root, 3, 0)
        target = begin(Store(root), SCHEMA, mode)
        written = write_partitions(target, rows.to_batches())
        shutil.rmtree(root)
        expected = plain(made(root, versions, 100))
        with pytest.raises(LanceError, match="dropped and made anew"):
            commit_partitions(target, written)
        assert plain(PartitionedNamespace.open(root)) == expected
        shutil.rmtree(root)
