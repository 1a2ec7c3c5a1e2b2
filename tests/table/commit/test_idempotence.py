"""A numbered write is committed once, even if several jobs run it repeatedly. Messages and properties are in the history."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.metadata import numbered_writes
from lance_spark.metadata.manifest import serialise
from lance_spark.metadata.numbered_writes import NumberedWrites
from lance_spark.metadata.operations import Append
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.commit.conflicts_since_read import judged
from lance_spark.table.commit.idempotence import done_before, is_done
from lance_spark.table.write import write
from lance_spark.table.write.options import WriteOptions

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
    options = WriteOptions(txn_app_id="job", txn_version=1)
    target = write.begin_write(uri, ROWS.schema, "overwrite", options)
    fragments = write.write_fragments(target, ROWS.slice(1).to_batches())
    append(uri, "job", 1)
    Dataset.open(uri, version=1).restore()
    write.commit_write(target, fragments)
    assert Dataset.open(uri).count_rows() == 1


def test_a_write_stays_recognised_after_a_cleanup(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, "job", 1)
    Dataset.write(uri, ROWS, "append").cleanup_old_versions(timedelta(0))
    assert append(uri, "job", 1).version == 2
    assert append(uri, "job", 2).version == 3


def test_a_write_of_a_job_whose_version_was_cleaned_up_meanwhile_is_skipped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    target = write.begin_write(uri, ROWS.schema, "append", WriteOptions(txn_app_id="job", txn_version=1))
    fragments = write.write_fragments(target, ROWS.to_batches())
    append(uri, "job", 1)
    Dataset.write(uri, ROWS, "append").cleanup_old_versions(timedelta(0))
    assert write.commit_write(target, fragments).version == 3
    assert Dataset.open(uri).count_rows() == 6


def test_a_write_of_a_job_whose_version_was_cleaned_up_during_the_commit_is_skipped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    append(uri, "job", 1)
    latest = Dataset.write(uri, ROWS, "append").snapshot
    Dataset.open(uri).cleanup_old_versions(timedelta(0))
    properties = {"txnAppId": "job", "txnVersion": "1"}
    assert judged(latest.store, Transaction(1, Append(()), properties=properties), 1, latest, None, None) == (latest, False)


def test_the_latest_version_with_a_number_is_found_before_a_change_is_planned(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, "job", 3)
    latest = Dataset.write(uri, ROWS, "append").snapshot
    for number, version in (("2", latest.version), ("3", latest.version), ("4", None)):
        done = done_before(latest.store, {"txnAppId": "job", "txnVersion": number})
        assert (None if done is None else done.version) == version
    assert done_before(latest.store, {}) is None


def test_the_history_of_our_writes_is_not_read(tmp_path: Path) -> None:
    requests = []
    for count in (2, 12):
        uri = str(tmp_path / str(count))
        for i in range(count):
            ds = append(uri, "other", 1) if i == 1 else Dataset.write(uri, ROWS, "append")
        counters = ds.snapshot.store.counters
        before = counters.requests
        for app in ("job", "other"):
            assert not is_done(ds.snapshot, {"txnAppId": app, "txnVersion": "2"})
        assert is_done(ds.snapshot, {"txnAppId": "other", "txnVersion": "1"})
        requests.append(counters.requests - before)
    assert requests == [0, 0]


def test_writes_of_versions_without_a_record_of_numbers_are_recognised(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, "job", 3)
    for _ in range(3):
        Dataset.write(uri, ROWS, "append")
    # As earlier releases wrote them. A record that a writer copied to its version, as it may copy unknown fields, counts as none.
    for version, numbered in ((1, None), (2, None), (3, NumberedWrites(1, 0)), (4, NumberedWrites(4, 4))):
        snapshot = Dataset.open(uri, version=version).snapshot
        snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, numbered=numbered)))
    assert append(uri, "job", 3).version == 4
    assert append(uri, "job", 4).version == 5
    assert append(uri, "new", 1).version == 6
    assert [append(uri, app, 1).version for app in ("job", "new")] == [6, 6]


def test_more_applications_than_a_manifest_names_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered_writes, "_MOST", 2)
    uri, apps = str(tmp_path / "t"), [f"job {i}" for i in range(5)]
    for app in apps:
        ds = append(uri, app, 1)
    assert ds.snapshot.manifest.numbered == NumberedWrites(5, 4, {"job 4": "1"})
    assert [append(uri, app, 1).version for app in apps] == [5] * 5
    assert append(uri, "job 0", 2).version == 6


def test_a_clone_and_a_branch_start_without_numbers(tmp_path: Path) -> None:
    uri, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    ds = append(uri, "job", 1)
    ds.shallow_clone(clone)
    assert append(clone, "job", 1).count_rows() == 4
    branch = ds.create_branch("b")
    assert branch.snapshot.manifest.numbered == NumberedWrites(1, 0)


@pytest.mark.parametrize("seed", range(3))
def test_exactly_the_writes_that_stand_are_recognised_in_any_history(tmp_path: Path, seed: int) -> None:
    chance, uri = random.Random(seed), str(tmp_path / "t")
    Dataset.write(uri, ROWS)
    states: list[dict[str, int]] = [{}, {}]  # by version: the last number of each application
    for _ in range(30):
        kind, app, latest = chance.choice("nnnpprt"), chance.choice("ab"), len(states) - 1
        number, version = chance.randrange(8), chance.randrange(1, latest + 1)
        if kind == "n":
            done = append(uri, app, number).version
            if states[-1].get(app, -1) < number:
                states.append({**states[-1], app: number})
            assert done == len(states) - 1, (seed, latest, app, number)
            continue
        if kind == "p":
            numbered = {} if chance.random() < 0.5 else {"txnAppId": app, "txnVersion": str(number)}
            lance.write_dataset(ROWS, uri, mode="append", transaction_properties=numbered)
            states.append({**states[-1], **({app: number} if numbered else {})})
        elif kind == "r":
            Dataset.open(uri, version=version).restore()
            states.append(states[version])
        else:
            lance.dataset(uri, version=version).restore()
            states.append(states[version])


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


def test_the_history_of_other_writers_is_read_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    properties = {"txnAppId": "theirs", "txnVersion": "5"}
    for i in range(6):
        lance.write_dataset(ROWS, uri, mode="append", transaction_properties=properties if i == 2 else {})
    ours = append(uri, "ours", 1).snapshot
    assert ours.manifest.numbered == NumberedWrites(7, 0, {"ours": "1", "theirs": "5"})
    before = ours.store.counters.requests
    assert is_done(ours, properties)
    assert not is_done(ours, {"txnAppId": "third", "txnVersion": "1"})
    assert ours.store.counters.requests == before
    assert append(uri, "theirs", 5).version == 7
    assert append(uri, "theirs", 6).version == 8
