"""Compaction, cleanup and verification of all tables of a namespace."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import VersionNotFoundError
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("c", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "c": [f"c{i % 2}" for i in ids]})


@pytest.fixture
def namespace(tmp_path: Path) -> PartitionedNamespace:
    """Two tables with four fragments each, and five versions of rows."""
    made = lance_spark.create_partitioned_namespace(tmp_path / "n", SCHEMA, ["c"])
    for i in range(4):
        made = made.write(rows(2 * i, 2 * i + 1))
    return made


def ids(namespace: PartitionedNamespace) -> list[int]:
    return sorted(namespace.scan(columns=["id"]).to_table()["id"].to_pylist())


def fragments(namespace: PartitionedNamespace) -> list[int]:
    partitions = namespace.partitions().to_pylist()
    return [len(lance.dataset(f"{namespace.uri}/{row['location']}", version=row["read_version"]).get_fragments()) for row in partitions]


def test_compaction_joins_the_fragments_of_all_tables_in_one_version(namespace: PartitionedNamespace) -> None:
    assert fragments(namespace) == [4, 4]
    done = namespace.compact()
    later = PartitionedNamespace.open(namespace.uri)
    assert (done.tables, done.conflicts, done.version) == (2, 0, namespace.version + 1)
    assert fragments(later) == [1, 1]
    assert ids(later) == ids(namespace) == list(range(8))
    assert later.compact().version == later.version, "nothing is left to do"


def test_compaction_publishes_nothing_that_others_have_not(namespace: PartitionedNamespace) -> None:
    for row in namespace.partitions().to_pylist():
        more = rows(98, 100) if row["partition_field_c"] == "c0" else rows(99)
        lance.write_dataset(more, f"{namespace.uri}/{row['location']}", mode="append")
    namespace.compact()
    assert ids(PartitionedNamespace.open(namespace.uri)) == list(range(8))


def test_cleanup_keeps_what_the_versions_that_stay_can_read(namespace: PartitionedNamespace) -> None:
    namespace.compact()
    latest = PartitionedNamespace.open(namespace.uri)
    before = PartitionedNamespace.open(namespace.uri, version=latest.version - 1)
    stats = latest.cleanup_old_versions(retain_versions=2, delete_unverified=True)
    assert stats.manifest.old_versions >= 4
    assert stats.tables.old_versions >= 4
    assert ids(latest) == ids(before) == list(range(8))
    with pytest.raises(VersionNotFoundError):
        PartitionedNamespace.open(namespace.uri, version=latest.version - 2)
    latest.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert ids(PartitionedNamespace.open(namespace.uri)) == list(range(8))
    assert [len(lance.dataset(f"{latest.uri}/{p}").tags.list()) for p in latest.partitions()["location"].to_pylist()] == [1, 1]
    assert PartitionedNamespace.open(namespace.uri).verify().ok


def test_cleanup_removes_tables_that_no_version_names(namespace: PartitionedNamespace) -> None:
    later = namespace.write(rows(0), "overwrite")
    assert later.cleanup_old_versions(retain_versions=1).folders == (), "their files are young"
    stats = later.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert set(stats.folders) == set(namespace.partitions()["location"].to_pylist())
    assert ids(later) == [0]
    assert later.verify().orphans == ()


def test_a_dry_run_removes_nothing(namespace: PartitionedNamespace) -> None:
    files = sorted(str(p) for p in Path(namespace.uri).rglob("*"))
    stats = namespace.cleanup_old_versions(timedelta(0), dry_run=True, delete_unverified=True)
    assert stats.manifest.old_versions
    assert sorted(str(p) for p in Path(namespace.uri).rglob("*")) == files


def test_verify_finds_orphans_and_tables_that_are_ahead(namespace: PartitionedNamespace) -> None:
    report = namespace.verify()
    assert report.ok
    assert (report.ahead, report.orphans, len(report.tables)) == ((), (), 2)
    location = namespace.partitions()["location"][0].as_py()
    lance.write_dataset(rows(98), f"{namespace.uri}/{location}", mode="append")
    lance.write_dataset(rows(98), f"{namespace.uri}/00000000_v1$abc$dataset")
    report = namespace.verify()
    assert report.ok
    assert report.ahead == (f"{location}: version 5, the namespace names 4",)
    assert report.orphans == ("00000000_v1$abc$dataset",)
    assert "1 ahead, 1 orphan" in str(report)


def test_verify_finds_damage(namespace: PartitionedNamespace) -> None:
    location = namespace.partitions()["location"][1].as_py()
    next(Path(namespace.uri, location, "data").iterdir()).unlink()
    report = namespace.verify()
    assert not report.ok
    assert "missing" in str(report)
