"""Tables behave the same on every kind of store: local, memory, S3, Azure, Google, and with external manifest stores.

Azure's emulator comes with `make emulators`; Google's is used where STORAGE_EMULATOR_HOST names one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CommitConflictError, TableAlreadyExistsError, TableNotFoundError, VersionNotFoundError
from lance_spark.storage.store import Store

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "s": ["x", None, "z"]})
# The account and key that Azure's emulator is published with.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Place:
    """The location of a table. `theirs` are the options of pylance, None if it cannot open it."""

    uri: str
    options: Mapping[str, str]
    theirs: Mapping[str, str] | None

    @property
    def store(self) -> Store:
        return Store(self.uri, self.options)

    def write(self, mode: Any = "append", rows: pa.Table = ROWS) -> Dataset:
        return Dataset.write(self.uri, rows, mode, storage_options=self.options)

    def open(self, **at: Any) -> Dataset:
        return Dataset.open(self.uri, storage_options=self.options, **at)


@pytest.fixture(scope="session")
def azure_server() -> Iterator[str]:
    """The address of Azurite, with the container "tables"."""
    here = Path(sys.prefix) / "azurite/node_modules/.bin/azurite-blob"
    azurite = str(here) if here.exists() else shutil.which("azurite-blob")
    if azurite is None:
        pytest.skip("Azurite is not installed: make emulators")
    blobs = pytest.importorskip("azure.storage.blob", reason="adlfs is not installed: make emulators")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [azurite, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command.append("--disableTelemetry")
    # In a session of its own: what runs here may be a Python script that starts the server and does not pass signals on.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "successfully" in line:
            break
    log = threading.Thread(target=process.stdout.read)
    log.start()
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    try:
        with blobs.BlobServiceClient.from_connection_string(azure(endpoint)[0]["azure_storage_connection_string"]) as client:
            client.create_container("tables")
        yield endpoint
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        log.join()
        process.stdout.close()


@pytest.fixture(scope="session")
def google_server() -> str:
    """The address of an emulator of Google's store, with the bucket "tables"."""
    endpoint = os.environ.get("STORAGE_EMULATOR_HOST")
    if endpoint is None:
        pytest.skip("STORAGE_EMULATOR_HOST names no emulator")
    # The client would otherwise ask over gRPC what kind of bucket it is, which emulators do not answer.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    pytest.importorskip("gcsfs", reason="gcsfs is not installed: make emulators")
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"name": "tables"}).encode()
    request = urllib.request.Request(f"{endpoint}/storage/v1/b?project=test", body, headers, method="POST")
    urllib.request.urlopen(request).close()
    return endpoint


def azure(endpoint: str) -> tuple[dict[str, str], dict[str, str]]:
    text = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
    theirs = {"account_name": ACCOUNT, "account_key": KEY, "azure_endpoint": endpoint, "allow_http": "true"}
    return {"azure_storage_connection_string": text}, theirs


def s3(endpoint: str) -> dict[str, str]:
    return {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": endpoint, "allow_http": "true"}


KINDS = [
    "file",
    "memory",
    "s3",
    "s3 and sqlite",
    pytest.param("azure", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]),
    pytest.param("google", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]),
]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name = f"{uuid.uuid4().hex}/t.lance"
    match request.param:
        case "file":
            return Place(str(tmp_path / "t.lance"), {}, {})
        case "memory":
            return Place(f"memory://{name}", {}, None)
        case "s3":
            options = s3(request.getfixturevalue("s3_server"))
            return Place(f"s3://tables/{name}", options, options)
        case "s3 and sqlite":
            theirs = s3(request.getfixturevalue("s3_server"))
            return Place(f"s3://tables/{name}", {**theirs, "manifest_store": f"sqlite://{tmp_path}/manifests.db"}, theirs)
        case "azure":
            ours, theirs = azure(request.getfixturevalue("azure_server"))
            return Place(f"az://tables/{name}", ours, theirs)
        case _:
            # pylance's client takes no emulator of Google's.
            endpoint = request.getfixturevalue("google_server")
            return Place(f"gs://tables/{name}", {"google_base_url": endpoint, "google_skip_signature": "true"}, None)


def test_what_is_written_is_read_by_us_and_by_pylance(place: Place) -> None:
    with pytest.raises(TableNotFoundError):
        place.open()
    place.write("create")
    with pytest.raises(TableAlreadyExistsError):
        place.write("create")
    assert place.write().scan().to_table() == pa.concat_tables([ROWS, ROWS])
    assert place.open(version=1).scan(filter="a > 2").to_table()["s"].to_pylist() == ["z"]
    with pytest.raises(VersionNotFoundError):
        place.open(version=9)
    if place.theirs is not None:
        assert lance.dataset(place.uri, storage_options=dict(place.theirs)).to_table() == pa.concat_tables([ROWS, ROWS])
    assert place.write("overwrite", ROWS.select(["a"])).schema.names == ["a"]
    report = place.open().verify()
    assert report.ok, report
    assert report.orphans == ()


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
    assert (place.open().version, place.open().count_rows()) == (13, 39)


def test_one_of_concurrent_creators_wins(place: Place) -> None:
    count = 4
    start = threading.Barrier(count)

    def make(_: int) -> bool:
        start.wait()
        try:
            place.write("create")
        except (TableAlreadyExistsError, CommitConflictError):
            return False
        return True

    with ThreadPoolExecutor(count) as threads:
        assert sum(threads.map(make, range(count))) == 1
    assert (place.open().version, place.open().count_rows()) == (1, 3)


def test_tags_branches_clones_and_cleaning_up(place: Place) -> None:
    place.write()
    place.write()
    ds = place.write("overwrite")
    ds.tags.create("first", 1)
    branch = ds.create_branch("dev/x", 2)
    Dataset.write(branch.uri, ROWS, "append", storage_options=place.options)
    clone = ds.shallow_clone(f"{place.uri}-clone", "first")
    deep = ds.deep_clone(f"{place.uri}-deep", ("dev/x", None))
    place.write("overwrite")
    done = place.open().cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert done.old_versions == 1
    assert [v.version for v in place.open().versions()] == [1, 2, 4]
    assert [place.open(tag="first").count_rows(), place.open(branch="dev/x").count_rows()] == [3, 9]
    assert [clone.scan().to_table().num_rows, deep.scan().to_table().num_rows] == [3, 9]
    assert place.open(version=2).scan().to_table().num_rows == 6
    ds.tags.delete("first")
    ds.branches.delete("dev/x")
    [held] = ds.tags.list()
    assert held.startswith("lance_spark.clone."), "the shallow clone keeps its version"
    assert ds.branches.list() == {}


def test_files_are_written_once_listed_at_all_depths_and_deleted(place: Place) -> None:
    store = place.store
    before = datetime.now(UTC) - timedelta(minutes=1)
    for path in ("x/1", "x/y/2", "x/y/z/3", "xy/4"):
        store.put(path, path.encode())
    assert [(e.name, e.size) for e in store.walk("x")] == [("1", 3), ("y/2", 5), ("y/z/3", 7)]
    assert [e.name for e in store.list("x")] == ["1"]
    assert store.walk("nothing") == store.list("nothing") == []
    modified = store.list("x")[0].modified
    assert modified is not None
    assert modified > before
    with pytest.raises(FileExistsError):
        store.put_if_absent("x/1", b"other")
    assert store.read("x/1") == b"x/1"
    with store.create("big") as out:
        for _ in range(3):
            out.write(bytes(6 << 20))
        out.write(b"end")
    assert bytes(store.read_ranges("big", [ByteRange(18 << 20, (18 << 20) + 3)])[0]) == b"end"
    with pytest.raises(ZeroDivisionError), store.create("broken") as out:
        out.write(bytes(1 // 0))
    assert not store.exists("broken")
    store.delete("x/1")
    store.delete("x/1")
    with pytest.raises(FileNotFoundError):
        store.read("x/1")
