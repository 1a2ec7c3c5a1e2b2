"""External manifest stores: interrupted commits are applied or not, and pylance can share a table with us."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, InvalidOptionError, RefConflictError, StorageError, UnsupportedFeatureError
from lance_spark.metadata.manifest import parse, serialise
from lance_spark.metadata.operations import Append
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit
from lance_spark.table.manifest_store.external import External, external
from lance_spark.table.versions.snapshot import manifest_path, open_snapshot

pytestmark = pytest.mark.spec("format-document.md", "External Manifest Store")

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


@dataclass(frozen=True)
class Place:
    uri: str
    options: Mapping[str, str]

    @property
    def store(self) -> Store:
        return Store(self.uri, self.options)

    @property
    def external(self) -> External:
        found = external(self.store)
        assert found is not None
        return found

    def write(self, mode: Any = "append") -> Dataset:
        return Dataset.write(self.uri, ROWS, mode, storage_options=self.options)

    def open(self) -> Dataset:
        return Dataset.open(self.uri, storage_options=self.options)


@pytest.fixture
def dynamodb(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    client = boto3.client("dynamodb", "us-east-1", endpoint_url=s3_server, aws_access_key_id="k", aws_secret_access_key="s")
    name = f"manifests-{uuid.uuid4().hex}"
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "base_uri", "KeyType": "HASH"}, {"AttributeName": "version", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": "base_uri", "AttributeType": "S"}, {"AttributeName": "version", "AttributeType": "N"}],
        BillingMode="PAY_PER_REQUEST",
    )
    options = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": s3_server, "allow_http": "true"}
    options["dynamodb_endpoint"] = s3_server
    return Place(f"s3+ddb://tables/{uuid.uuid4().hex}/t.lance?ddbTableName={name}", options)


@pytest.fixture(params=["dynamodb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(str(tmp_path / "t"), {"manifest_store": f"sqlite://{tmp_path}/manifests.db"})
    found: Place = request.getfixturevalue("dynamodb")
    return found


def manifests(place: Place) -> list[str]:
    """The names of all manifests, including staged ones."""
    return [entry.name for entry in place.store.list("_versions") if ".manifest" in entry.name]


def test_the_database_decides_commits_and_is_not_needed_for_reads(place: Place) -> None:
    for version in (1, 2, 3):
        assert place.write().version == version
        assert place.external.latest() == (version, manifest_path(version))
    assert place.open().count_rows() == 6
    assert [v.version for v in place.open().versions()] == [1, 2, 3]
    assert len(manifests(place)) == 3, "staged manifests are deleted"
    plain = {k: v for k, v in place.options.items() if k != "manifest_store"}
    assert Dataset.open(place.store.uri, storage_options=plain).count_rows() == 6


class Cut(External):
    """Ends a commit before step 3 or step 4, as a crash would."""

    before = 3

    def _in_place(self, version: int, path: str) -> str:
        if self.before == 4:
            self.store.put(manifest_path(version), self.store.read(path.removeprefix(f"{self._base}/")))
        raise StorageError("the process was killed")


class CutBefore4(Cut):
    before = 4


@pytest.mark.parametrize("cut", [Cut, CutBefore4])
def test_readers_complete_an_interrupted_commit(place: Place, cut: type[Cut]) -> None:
    place.write()
    second = open_snapshot(place.store).manifest
    data = place.store.read(manifest_path(1))
    cut(place.store, place.external.manifests).commit(2, manifest_path(2), _renumbered(data, 2))
    staged = [e.name for e in place.store.list("_versions") if ".manifest-" in e.name]
    assert len(staged) == 1
    assert place.open().version == 2
    assert place.external.path_of(2) == manifest_path(2)
    assert manifests(place) == [manifest_path(v).rpartition("/")[2] for v in (2, 1)]
    assert place.write().version == 3
    assert second.version == 1


def _renumbered(data: bytes, version: int) -> bytes:
    return serialise(replace(parse(data, "test"), version=version))


def test_one_version_is_opened_after_it_is_put_in_place(place: Place) -> None:
    place.write()
    Cut(place.store, place.external.manifests).commit(2, manifest_path(2), _renumbered(place.store.read(manifest_path(1)), 2))
    assert Dataset.open(place.uri, version=2, storage_options=place.options).version == 2


def test_a_commit_that_the_database_rejects_fails(place: Place) -> None:
    place.write()
    with pytest.raises(FileExistsError):
        place.external.commit(1, manifest_path(1), b"other")
    assert manifests(place) == [manifest_path(1).rpartition("/")[2]]
    place.store.put(f"{manifest_path(2)}-{uuid.uuid4()}", b"staged by one who was killed")
    assert place.open().version == 1
    assert place.write().version == 2


def test_a_commit_with_a_lost_response_is_not_applied_twice(place: Place) -> None:
    place.write()
    real = place.external.manifests

    class Lost:
        """Stores the path and then fails, like a lost connection."""

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def put_if_absent(self, *arguments: Any) -> None:
            real.put_if_absent(*arguments)
            raise FileExistsError

    External(place.store, Lost()).commit(2, manifest_path(2), _renumbered(place.store.read(manifest_path(1)), 2))
    assert place.open().version == 2


def test_concurrent_writers_all_succeed(place: Place) -> None:
    place.write()
    count = 4
    start = threading.Barrier(count)

    def writer(_: int) -> None:
        start.wait()
        for _ in range(3):
            place.write()

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(writer, range(count)))
    assert (place.open().version, place.open().count_rows()) == (13, 26)


def test_branches_and_cleanup_use_the_database(place: Place) -> None:
    place.write()
    branch = place.write().create_branch("dev", 1)
    assert external(branch.snapshot.store).latest() == (1, manifest_path(1))  # type: ignore[union-attr]
    place.write("overwrite").cleanup_old_versions(retain_versions=1)
    assert [v.version for v in place.open().versions()] == [1, 3]
    assert (branch.count_rows(), place.open().count_rows()) == (2, 2)


def test_the_database_forgets_a_branch_that_is_deleted(place: Place) -> None:
    place.write()
    for _ in range(2):
        branch = place.open().create_branch("dev")
        assert branch.delete("a = 1").version == 2
        place.open().branches.delete("dev")
    branch = place.open().create_branch("dev")
    place.store.delete("_refs/branches/dev.json")
    for entry in place.store.walk("tree"):
        place.store.delete(f"tree/{entry.name}")
    with pytest.raises(RefConflictError, match="removes them"):
        place.open().create_branch("dev")
    place.open().branches.delete("dev")
    assert place.open().create_branch("dev").count_rows() == branch.count_rows() == 2


def test_a_reader_that_is_overtaken_finds_the_manifest_in_place(place: Place) -> None:
    place.write()
    base = place.external.manifests.base(place.store)
    place.external.manifests.replace(base, 1, f"{base}/{manifest_path(1)}-{uuid.uuid4()}", 1)
    assert place.open().version == 1
    assert place.external.manifests.get(base, 1) == f"{base}/{manifest_path(1)}"


def test_pylance_and_we_commit_to_one_table_through_dynamodb(dynamodb: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    options = dict(dynamodb.options)
    lance.write_dataset(ROWS, dynamodb.uri, storage_options=options)
    assert dynamodb.write().version == 2
    lance.write_dataset(ROWS, dynamodb.uri, mode="append", storage_options=options)
    Cut(dynamodb.store, dynamodb.external.manifests).commit(4, manifest_path(4), _renumbered(dynamodb.store.read(manifest_path(3)), 4))
    assert lance.dataset(dynamodb.uri, storage_options=options).version == 4
    assert dynamodb.external.path_of(4) == manifest_path(4)
    assert commit(dynamodb.store, Transaction(4, Append(()))).version == 5
    assert lance.dataset(dynamodb.uri, storage_options=options).count_rows() == 6


@pytest.mark.parametrize("path", ["elsewhere/_versions/1.manifest", "{base}/data/x", "{base}/_versions/../../x.manifest"])
def test_paths_outside_the_table_are_refused(place: Place, path: str) -> None:
    place.write()
    base = place.external.manifests.base(place.store)
    place.external.manifests.put_if_absent(base, 2, path.format(base=base), 1)
    with pytest.raises(CorruptFileError, match="outside the table"):
        place.open()


def test_an_unknown_manifest_store_is_refused(dynamodb: Place, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="manifest_store"):
        Dataset.write(str(tmp_path / "t"), ROWS, storage_options={"manifest_store": "redis://x"})
    with pytest.raises(UnsupportedFeatureError, match="ddbTableName"):
        Store("s3+ddb://bucket/path")
    with pytest.raises(StorageError, match="the manifest store in DynamoDB"):
        Dataset.write("s3+ddb://tables/t?ddbTableName=none", ROWS, storage_options=dynamodb.options)
