"""A log that begins again after an earlier one: what that has left in the table's folder does not come back."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from lance_spark import Dataset
from lance_spark.errors import (
    InvalidOperationError,
    LanceError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    WriterFencedError,
)
from lance_spark.metadata.operations import Overwrite
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.build.declared_log import PROPERTY
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.write_ahead_log import has_log
from tests import write_ahead_logs as logs

SHARD = "00000000-0000-0000-0000-000000000001"


def ids(uri: str) -> list[int]:
    return sorted(Dataset.open(uri).to_table()["id"].to_pylist())


def put(uri: str, *wanted: int) -> None:
    with Dataset.open(uri).mem_wal_writer(SHARD) as writer:
        writer.put(logs.rows(*wanted))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """The rows 1, 2, 5 and 6, of which the log had the last two, which are merged."""
    uri = logs.make(str(tmp_path / "t.lance"))
    put(uri, 5, 6)
    Dataset.open(uri).merge_mem_wal()
    return uri


def overwritten(uri: str) -> None:
    """Begin a table with the rows of this one, and a log, in one commit."""
    snapshot = Dataset.open(uri).snapshot
    manifest = snapshot.manifest
    operation = Overwrite(tuple(manifest.fragments[:1]), manifest.schema, {PROPERTY: "true"})
    commit(snapshot.store, Transaction(snapshot.version, operation), base=snapshot)


ENDS: dict[str, Callable[[str], object]] = {
    "dropped": lambda uri: lance.dataset(uri).drop_index("__lance_mem_wal"),
    "overwritten": lambda uri: Dataset.write(uri, logs.rows(1, 2), mode="overwrite"),
}
BEGINS: dict[str, Callable[[str], object]] = {
    "by the method": lambda uri: Dataset.open(uri).initialize_mem_wal(),
    "by the property": lambda uri: Dataset.open(uri).update_config({PROPERTY: "true"}),
}


@pytest.mark.parametrize("begins", BEGINS)
@pytest.mark.parametrize("ends", ENDS)
def test_rows_of_an_earlier_log_do_not_come_back(ends: str, begins: str, uri: str) -> None:
    ENDS[ends](uri)
    Dataset.open(uri).delete("id > 2")
    BEGINS[begins](uri)
    assert ids(uri) == [1, 2]
    put(uri, 2, 8)
    assert ids(uri) == [1, 2, 8]
    Dataset.open(uri).merge_mem_wal()
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [1, 2, 8]


@pytest.mark.parametrize("begins", BEGINS)
@pytest.mark.parametrize("ends", ENDS)
def test_a_writer_of_an_earlier_log_puts_nothing_into_the_new_one(ends: str, begins: str, uri: str) -> None:
    with Dataset.open(uri).mem_wal_writer(SHARD) as writer:
        ENDS[ends](uri)
        Dataset.open(uri).delete("id > 2")
        BEGINS[begins](uri)
        with pytest.raises(WriterFencedError, match="a newer writer"):
            writer.put(logs.rows(9))
        writer.leave()
    put(uri, 8)
    assert ids(uri) == [1, 2, 8]


def test_a_writer_puts_nothing_into_a_table_that_was_replaced_with_a_log(uri: str) -> None:
    with Dataset.open(uri).mem_wal_writer(SHARD) as writer:
        overwritten(uri)
        with pytest.raises(WriterFencedError, match="a newer writer"):
            writer.put(logs.rows(9))
        writer.leave()
    assert ids(uri) == [1, 2]


def test_a_refused_overwrite_ends_no_writer(uri: str) -> None:
    with Dataset.open(uri).mem_wal_writer(SHARD) as writer:
        writer.put(logs.rows(8))
        with pytest.raises(UnsupportedFeatureError, match="write-ahead log has rows"):
            overwritten(uri)
        writer.put(logs.rows(9))
    assert ids(uri) == [1, 2, 5, 6, 8, 9]


def test_a_table_that_is_replaced_with_a_log_has_none_of_the_old_rows(uri: str) -> None:
    overwritten(uri)
    assert has_log(Dataset.open(uri).snapshot.manifest)
    assert ids(uri) == [1, 2]
    put(uri, 8)
    assert ids(uri) == [1, 2, 8]
    with pytest.raises(UnsupportedFeatureError, match="write-ahead log has rows"):
        overwritten(uri)


def test_a_table_without_a_log_has_no_property(uri: str) -> None:
    Dataset.write(uri, logs.rows(1), mode="overwrite")
    Dataset.open(uri).update_config({PROPERTY: "bucket(id, 4)"})
    assert has_log(Dataset.open(uri).snapshot.manifest)
    table = Dataset.write(uri, logs.rows(7), mode="overwrite")
    assert (has_log(table.snapshot.manifest), PROPERTY in table.snapshot.manifest.config) == (False, False)


def made_anew(uri: str) -> None:
    """Drop the table, and make one in its place whose log has a row in the same shard."""
    shutil.rmtree(uri)
    logs.make(uri)
    with Dataset.open(uri).mem_wal_writer(SHARD) as writer:
        writer.put(logs.rows(7))


@pytest.mark.parametrize("entries", [0, 1, 2])
@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_writer_of_a_dropped_table_puts_nothing_into_the_one_that_is_made_in_its_place(
    is_made_anew: bool, entries: int, tmp_path: Path
) -> None:
    uri = logs.make(str(tmp_path / "t.lance"))
    stale = Dataset.open(uri).mem_wal_writer(SHARD)
    for number in range(entries):
        stale.put(logs.rows(10 + number))
    made_anew(uri) if is_made_anew else shutil.rmtree(uri)
    with pytest.raises(WriterFencedError, match="its table was dropped"):
        stale.put(logs.rows(20))
    with contextlib.suppress(LanceError):
        stale.close()
    if is_made_anew:
        assert ids(uri) == [1, 2, 7]
    else:
        assert not Path(uri).exists()


def test_a_writer_of_an_old_version_is_refused_where_the_log_or_the_table_is_gone(uri: str) -> None:
    old = Dataset.open(uri)
    ENDS["dropped"](uri)
    with pytest.raises(InvalidOperationError, match="its write-ahead log was dropped after version"):
        old.mem_wal_writer(SHARD)
    shutil.rmtree(uri)
    with pytest.raises(TableNotFoundError):
        old.mem_wal_writer(SHARD)
    assert not Path(uri).exists()
    logs.make(uri)
    with pytest.raises(VersionNotFoundError):
        old.mem_wal_writer(SHARD)
    assert ids(uri) == [1, 2]
