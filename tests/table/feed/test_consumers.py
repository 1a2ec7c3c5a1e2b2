"""Streams with a `consumerId` record their place with the table, and cleanups keep the versions that they still need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, VersionNotFoundError
from lance_spark.storage.store import Store
from lance_spark.table.feed.options import FeedOptions
from tests.table.feed.test_stream import Reader, write

NOW = timedelta(0)


class Consumer(Reader):
    """A query that tells the table where it is, before it reads a batch."""

    def batches(self) -> list[list[int]]:
        """Read all new batches, as Spark does: plan one, read it, plan the next one."""
        found = []
        while self.plan():
            number = len(self.noted) - 1
            self.stream.record(self.offset(number - 1))
            found.append(self.ids(number))
        return found


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the ids 1, 2 and 3, in one version each."""
    uri = str(tmp_path / "t.lance")
    for i in (1, 2, 3):
        write(uri, i)
    return uri


def versions(uri: str) -> list[int]:
    return [version.version for version in Dataset.open(uri).versions()]


def test_cleanups_keep_what_a_consumer_has_not_read(uri: str) -> None:
    reader = Consumer(uri, consumer="bills", starting_version=2, max_files=1)
    assert reader.batches() == [[2], [3]]
    for i in (4, 5, 6):
        write(uri, i)
    Dataset.open(uri).cleanup_old_versions(NOW)
    assert versions(uri) == [2, 3, 4, 5, 6], "the batch of version 3 may be repeated, and is compared with version 2"
    reader.started()
    assert reader.batches() == [[4], [5], [6]]
    Dataset.open(uri).cleanup_old_versions(NOW)
    assert versions(uri) == [5, 6]
    lance.dataset(uri).validate()


def test_a_snapshot_is_kept_while_it_is_read(uri: str) -> None:
    reader = Consumer(uri, consumer="bills", max_files=1)
    reader.plan()
    reader.stream.record(reader.offset(-1))
    Dataset.open(uri).optimize.compact_files()
    Dataset.open(uri).cleanup_old_versions(NOW)
    assert reader.ids(0) == [1]
    assert reader.batches() == [[2], [3]]


def test_consumers_are_listed_with_their_lag_and_dropped(uri: str) -> None:
    Consumer(uri, consumer="b", starting_version=2, consumer_expiration=timedelta(days=1)).batches()
    Consumer(uri, consumer="a").batches()
    write(uri, 4)
    first, second = Dataset.open(uri).consumers.list()
    assert [(c.id, c.version, c.branch, c.lag) for c in (first, second)] == [("a", 3, None, 1), ("b", 1, None, 3)]
    assert second.updated_at is not None
    assert second.expires_at is not None
    assert timedelta(minutes=-1) < second.updated_at - datetime.now(UTC) <= NOW
    assert second.expires_at - second.updated_at == pytest.approx(timedelta(days=1), abs=timedelta(seconds=1))
    table = Dataset.open(uri)
    table.consumers.drop("b")
    with pytest.raises(VersionNotFoundError, match="no consumer 'b'; consumers: a"):
        table.consumers.drop("b")
    table.cleanup_old_versions(NOW)
    assert versions(uri) == [3, 4]


def test_expired_places_are_dropped_by_the_cleanup_and_kept_by_a_dry_run(uri: str) -> None:
    Consumer(uri, consumer="gone", starting_version=2, consumer_expiration=timedelta(microseconds=1)).batches()
    table = Dataset.open(uri)
    assert table.cleanup_old_versions(NOW, dry_run=True).old_versions == 2
    assert [c.id for c in table.consumers.list()] == ["gone"]
    table.cleanup_old_versions(NOW)
    assert table.consumers.list() == []
    assert versions(uri) == [3]


def test_automatic_cleanups_and_those_of_pylance_keep_it_too(uri: str) -> None:
    Consumer(uri, consumer="bills", starting_version=2).batches()
    Dataset.open(uri).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "1"})
    write(uri, 4)
    assert versions(uri) == [1, 2, 3, 4, 5]
    with pytest.raises(OSError, match="tag"):
        lance.dataset(uri).cleanup_old_versions(older_than=NOW)
    assert versions(uri) == [1, 2, 3, 4, 5]
    assert lance.dataset(uri).tags.list()["lance_spark.consumer.bills"]["version"] == 1


def test_a_place_is_written_only_when_it_changes_or_is_about_to_expire(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Consumer(uri, consumer="bills")
    reader.batches()
    puts: list[str] = []
    put = Store.put

    def noting(self: Store, path: str, data: bytes) -> None:
        puts.append(path)
        put(self, path, data)

    monkeypatch.setattr(Store, "put", noting)
    reader.stream.record(reader.offset(-1))
    reader.stream.renew()
    assert puts == []
    reader.options = FeedOptions(consumer="bills", consumer_expiration=timedelta(microseconds=1))
    reader.started().record(reader.offset(-1))
    reader.stream.renew()
    assert puts == ["_refs/tags/lance_spark.consumer.bills.json"] * 2


def test_a_place_that_cannot_be_recorded_does_not_stop_the_stream(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = Path(uri, "_refs", "tags")
    folder.parent.mkdir()
    folder.write_text("")
    assert Consumer(uri, consumer="bills").batches() == [[1, 2, 3]]
    assert "the place of the consumer bills is not recorded" in caplog.text


def test_an_expiration_needs_a_consumer() -> None:
    with pytest.raises(InvalidOptionError, match="'consumerExpiration' needs consumerId"):
        FeedOptions(consumer_expiration=timedelta(days=1)).check_stream()
