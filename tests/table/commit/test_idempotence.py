"""A numbered write is committed once, even if several jobs run it repeatedly. Messages and properties are in the history."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset, InvalidOptionError
from lance_spark.storage.store import Store
from lance_spark.table.write import write

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


def append(uri: str, app: str, number: int) -> Dataset:
    return Dataset.write(uri, ROWS, "append", txn_app_id=app, txn_version=number)


def test_a_write_with_a_used_number_is_skipped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, "job", 3)
    Dataset.write(uri, ROWS, "append")
    again = append(uri, "job", 3)
    assert (again.version, again.count_rows()) == (2, 4)
    assert append(uri, "job", 2).version == 2
    assert append(uri, "other", 1).version == 3
    assert append(uri, "job", 4).version == 4
    assert append(uri, "job", 4).count_rows() == 8
    assert len(Store(uri).list("data")) == 4, "files of writes that were left out are deleted"
    assert lance.dataset(uri).read_transaction(4).transaction_properties == {"txnAppId": "job", "txnVersion": "4"}


def test_an_overwrite_with_a_used_number_is_skipped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for _ in range(2):
        ds = Dataset.write(uri, ROWS, "overwrite", txn_app_id="job", txn_version=1)
    assert ds.version == 1


def test_concurrent_jobs_with_one_number_write_once(tmp_path: Path) -> None:
    uri, count = str(tmp_path / "t"), 6
    Dataset.write(uri, ROWS)
    start = threading.Barrier(count)

    def job(_: int) -> None:
        start.wait()
        append(uri, "job", 1)

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(job, range(count)))
    assert Dataset.open(uri).count_rows() == 4
    assert lance.dataset(uri).count_rows() == 4
    assert len(list((tmp_path / "t/_transactions").iterdir())) == len(list((tmp_path / "t/data").iterdir())) == 2


@pytest.mark.parametrize("theirs", [True, False])
def test_a_write_that_a_restore_undid_is_repeated(tmp_path: Path, theirs: bool) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    append(uri, "job", 1)
    append(uri, "job", 2)
    if theirs:
        lance.dataset(uri, version=2).restore()
    else:
        Dataset.open(uri, version=2).restore()
    assert append(uri, "job", 1).count_rows() == 4, "version 2, which stands again, is of this write"
    assert append(uri, "job", 2).count_rows() == 6
    assert append(uri, "job", 2).version == 5
    Dataset.open(uri, version=1).restore()
    Dataset.open(uri, version=4).restore()
    assert (append(uri, "job", 1).version, append(uri, "job", 2).version) == (7, 8), "version 4, which stands again, has but the first"
    Dataset.open(uri, version=3).restore()
    assert append(uri, "job", 2).version == 9, "version 3 has both"
    assert Dataset.open(uri).count_rows() == lance.dataset(uri).count_rows() == 6


def test_a_write_that_was_committed_and_undone_meanwhile_is_repeated(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    options = write.WriteOptions(txn_app_id="job", txn_version=1)
    target = write.begin_write(uri, ROWS.schema, "overwrite", options)
    fragments = write.write_fragments(target, ROWS.slice(1).to_batches())
    append(uri, "job", 1)
    Dataset.open(uri, version=1).restore()
    write.commit_write(target, fragments)
    assert Dataset.open(uri).count_rows() == 1


def test_a_cleanup_ends_the_guarantee(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, "job", 1)
    Dataset.write(uri, ROWS, "append").cleanup_old_versions(timedelta(0))
    assert append(uri, "job", 1).count_rows() == 6


def test_the_name_and_the_number_are_required_together(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="give both txnAppId and txnVersion"):
        Dataset.write(str(tmp_path / "t"), ROWS, txn_app_id="job")
    with pytest.raises(InvalidOptionError, match="txnVersion must be at least 0, not -1"):
        append(str(tmp_path / "t"), "job", -1)


def test_a_number_with_too_many_digits_is_ignored(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    theirs = Dataset.write(uri, ROWS, transaction_properties={"txnAppId": "job", "txnVersion": "9" * 5000})
    assert append(uri, "job", 1).version == theirs.version + 1


def test_messages_and_properties_are_in_the_history_of_both(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = Dataset.write(uri, ROWS, commit_message="first", transaction_properties={"by": "me"})
    assert [(h.message, h.properties) for h in ds.history()] == [("first", {"by": "me"})]
    assert lance.dataset(uri).read_transaction(1).transaction_properties == {"__lance_commit_message": "first", "by": "me"}
