"""Stores: the same behaviour for local files, in memory and on a real S3 server, and the specifics of each."""

from __future__ import annotations

import contextlib
import errno
import http.server
import multiprocessing
import os
import pickle
import resource
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError, InvalidOptionError, StorageError, UnsupportedFeatureError
from lance_spark.storage.location import locate
from lance_spark.storage.options import arguments
from lance_spark.storage.store import Store

KEYS = {"access_key_id": "AKIA-test", "aws_secret_access_key": "very-secret", "region": "us-east-1", "allow_http": "true"}


@pytest.fixture(params=["file", "memory", "s3", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    name = uuid.uuid4().hex
    if request.param == "hdfs":
        return Store(f"{request.getfixturevalue('hadoop_cluster')}/{name}/t.lance/")
    if request.param == "s3":
        return Store(f"s3a://tables/{name}/t.lance", {**KEYS, "endpoint": request.getfixturevalue("s3_server")})
    return Store({"file": f"file:{tmp_path}/t.lance/", "memory": f"memory://{name}/t.lance"}[request.param])


def test_files_are_read_back_whole_in_ranges_and_from_the_end(store: Store) -> None:
    data = bytes(range(256)) * 10
    store.put("data/x.lance", data)
    assert store.read("data/x.lance") == data
    assert store.size("data/x.lance") == len(data)
    ranges = [ByteRange(2000, 2560), ByteRange(5, 5), ByteRange(0, 16), ByteRange(8, 20)]
    assert [bytes(b) for b in store.read_ranges("data/x.lance", ranges)] == [data[a:b] for a, b in ranges]
    tail, size = store.read_tail("data/x.lance", 40)
    assert (bytes(tail), size) == (data[-40:], len(data))
    tail, size = store.read_tail("data/x.lance", 10**6)
    assert (bytes(tail), size) == (data, len(data))


def test_the_ends_of_many_files_are_read_in_their_order(store: Store) -> None:
    for i in range(50):
        store.put(f"data/{i}", bytes([i]) * (i + 1))
    tails = store.read_tails([f"data/{i}" for i in range(50)], 10)
    assert [(bytes(tail), size) for tail, size in tails] == [(bytes([i]) * min(i + 1, 10), i + 1) for i in range(50)]
    with pytest.raises(FileNotFoundError, match="data/missing"):
        store.read_tails(["data/0", "data/missing"], 10)


def test_a_folder_is_listed_with_its_folders_and_deleted_with_all_that_is_in_it(store: Store) -> None:
    for path in ("a/x", "a/b/y", "a/b/c/z", "ab/x"):
        store.put(path, b"data")
    files, folders = store.contents("a")
    assert ([entry.name for entry in files], folders) == (["x"], ["b"])
    assert store.contents("")[1] == ["a", "ab"]
    store.delete_folder("a")
    assert (store.contents("a"), store.contents("")[1]) == (([], []), ["ab"])
    store.delete_folder("a")
    with pytest.raises(ValueError, match="root"):
        store.delete_folder("/")
    with pytest.raises(CorruptFileError):
        store.delete_folder("../other")


def test_close_ranges_are_one_request(store: Store) -> None:
    store.put("x", bytes(1000))
    before = store.counters.requests
    store.read_ranges("x", [ByteRange(i, i + 5) for i in range(0, 1000, 10)])
    assert store.counters.requests == before + 1


def test_a_range_beyond_the_end_is_a_corrupt_file(store: Store) -> None:
    store.put("x", bytes(10))
    with pytest.raises(CorruptFileError, match="x"):
        store.read_ranges("x", [ByteRange(5, 20)])


def test_put_replaces_and_put_if_absent_never_does(store: Store) -> None:
    store.put_if_absent("_versions/1.manifest", b"first")
    with pytest.raises(FileExistsError):
        store.put_if_absent("_versions/1.manifest", b"second")
    assert store.read("_versions/1.manifest") == b"first"
    store.put("_versions/1.manifest", b"third")
    assert store.read("_versions/1.manifest") == b"third"
    assert [e.name for e in store.list("_versions")] == list(store.names("_versions")) == ["1.manifest"]


def test_listings_are_fresh_and_hold_only_the_files_of_that_folder(store: Store) -> None:
    assert not store.list("_versions")
    assert not store.names("_versions")
    store.put("_versions/1.manifest", b"12345")
    assert [(e.name, e.size) for e in store.list("_versions")] == [("1.manifest", 5)]
    store.put("_versions/2.manifest", b"")
    store.put("_versions/deeper/3.manifest", b"")
    store.put("_versions_not", b"")
    entries = store.list("_versions")
    assert [e.name for e in entries] == ["1.manifest", "2.manifest"]
    assert all(e.modified is not None and e.modified.tzinfo is not None for e in entries)


def test_missing_files_are_file_not_found_and_deleting_them_is_fine(store: Store) -> None:
    for ask in (store.read, store.size, lambda p: store.read_tail(p, 8), lambda p: store.read_ranges(p, [ByteRange(0, 4)])):
        with pytest.raises(FileNotFoundError):
            ask("data/none")
    assert not store.exists("data/none")
    store.delete("data/none")
    store.put("data/some", b"x")
    assert store.exists("data/some")
    store.delete("data/some")
    assert not store.exists("data/some")


def test_a_streamed_file_exists_after_the_block_unless_it_fails(store: Store) -> None:
    with store.create("data/a") as out:
        for _ in range(3):
            out.write(bytes(7 << 20))
    assert store.size("data/a") == 21 << 20

    def fail_halfway() -> None:
        with store.create("data/b") as out:
            out.write(bytes(20 << 20))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert not store.exists("data/b")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "data/../../x"])
def test_a_path_that_leaves_the_root_is_refused(store: Store, path: str) -> None:
    with pytest.raises(CorruptFileError, match="leaves"):
        store.read(path)


# pylance, imported by other tests, warns of every fork; it is not what is forked here.
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_store_pickles_small_and_works_after_a_fork(store: Store) -> None:
    store.put("x", b"here")
    assert len(pickle.dumps(store)) < 500
    assert pickle.loads(pickle.dumps(store)) == store
    if store.location.kind == "memory":
        return
    receive, send = multiprocessing.get_context("fork").Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        send.send(store.read("x"))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert receive.recv() == b"here"


def _race(uri: str, options: dict[str, str], start: multiprocessing.synchronize.Barrier, wins: multiprocessing.queues.Queue) -> None:  # type: ignore[type-arg]
    store, mine = Store(uri, options), 0
    start.wait(timeout=250)
    for i in range(20):
        try:
            store.put_if_absent(f"v/{i}", str(os.getpid()).encode() * 1000)
            mine += 1
        except FileExistsError:
            pass
    wins.put(mine)


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_exactly_one_of_many_processes_puts_a_file(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    uri, options = str(tmp_path), {}
    if kind == "s3":
        uri, options = f"s3://tables/{uuid.uuid4().hex}", {**KEYS, "endpoint": request.getfixturevalue("s3_server")}
    spawn = multiprocessing.get_context("spawn")
    start, wins = spawn.Barrier(3), spawn.Queue()
    processes = [spawn.Process(target=_race, args=(uri, options, start, wins)) for _ in range(3)]
    for p in processes:
        p.start()
    assert sum(wins.get(timeout=250) for _ in processes) == 20
    for p in processes:
        p.join()
    store = Store(uri, options)
    assert [e.name for e in store.list("v")] == sorted(str(i) for i in range(20))
    assert all(len(set(store.read(f"v/{i}").decode().split())) == 1 for i in range(20))


def test_local_leaves_no_temporary_file_behind(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put_if_absent("v/1", b"x")
    with pytest.raises(FileExistsError):
        store.put_if_absent("v/1", b"y")
    assert os.listdir(tmp_path / "v") == ["1"]


def test_files_that_vanish_during_a_listing_do_not_hide_others(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put("v/0", b"stays")
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            for i in range(20):
                Path(tmp_path, "v", f".{i}.tmp").write_bytes(b"")
            for i in range(20):
                Path(tmp_path, "v", f".{i}.tmp").unlink()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        listings = [store.list("v") for _ in range(3000)]
    finally:
        done.set()
        thread.join()
    assert all("0" in [e.name for e in found] for found in listings)


def test_a_file_in_place_of_a_folder_is_reported_and_is_no_conflict(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("not a folder")
    store = Store(f"{tmp_path}/t")
    for write in (lambda: store.put_if_absent("_versions/1", b""), lambda: store.put("_versions/1", b""), lambda: store.list("_versions")):
        with pytest.raises(StorageError, match="expected a folder, found a file") as e:
            write()
        assert not isinstance(e.value, FileExistsError)


def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(StorageError, match=r"v/1.*exceeds a limit"):
            store.put_if_absent("v/1", bytes(10000))
        with pytest.raises(StorageError, match="exceeds a limit"), store.create("v/2") as out:
            out.write(bytes(100000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path / "v") == []


def test_a_missing_permission_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir(mode=0o500)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match="check the permissions"):
            Store(f"{tmp_path}/t").put("x", b"")
    finally:
        os.seteuid(me)


def test_errors_and_representations_never_show_options(s3_server: str) -> None:
    store = Store("s3://no-such-bucket/t", {**KEYS, "endpoint": s3_server})
    with pytest.raises(StorageError, match="bucket or container does not exist") as e:
        store.put("x", b"")
    unreachable = Store("s3://tables/t", {**KEYS, "endpoint": "http://127.0.0.1:1", "client_max_retries": "0"})
    with pytest.raises(StorageError, match="s3://tables/t/x") as f:
        unreachable.read("x")
    for text in (str(e.value), str(f.value), repr(store), repr(e), repr(f)):
        assert "very-secret" not in text
        assert "AKIA" not in text


def test_a_store_that_ignores_the_condition_is_refused(s3_server: str) -> None:
    store = Store("s3://tables/careless", {**KEYS, "endpoint": s3_server})
    store.put("x", b"1")
    store.require_put_if_absent("x")
    with careless_s3(s3_server) as endpoint:
        careless = Store("s3://tables/careless", {**KEYS, "endpoint": endpoint})
        careless.put_if_absent("x", b"1")
        with pytest.raises(UnsupportedFeatureError, match="could be lost"):
            careless.require_put_if_absent("x")


@contextlib.contextmanager
def careless_s3(real: str) -> Iterator[str]:
    """A server that forwards everything to `real`, except the condition of a put."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = {k: v for k, v in self.headers.items() if k.lower() not in ("if-none-match", "host", "expect")}
            kept.setdefault("Content-Type", "application/octet-stream")
            with urllib.request.urlopen(urllib.request.Request(real + self.path, body or None, kept, method=self.command)) as answer:
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in ("connection", "date", "server"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_HEAD = do_PUT

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("/a/b/", "/a/b"),
        ("file:///a/b c", "/a/b c"),
        ("file:/a/b%20c", "/a/b c"),
        ("file://localhost/a", "/a"),
        ("/a/b%20c", "/a/b%20c"),
        ("s3a://bucket/x/", "s3://bucket/x"),
        ("s3://bucket", "s3://bucket"),
        ("gcs://bucket/x", "gs://bucket/x"),
        ("az://container/x", "az://container/x"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("memory://x/y", "memory://x/y"),
        ("hdfs://host:8020/x//", "hdfs://host:8020/x"),
        ("HDFS:///x", "hdfs:///x"),
        ("data:x", os.path.abspath("data:x")),
    ],
)
def test_a_uri_has_one_normal_form(uri: str, normal: str) -> None:
    assert Store(uri).uri == normal
    assert locate(locate(uri).uri) == locate(uri)


def test_an_azure_uri_gives_container_and_account() -> None:
    place = locate("abfss://container@account.dfs.core.windows.net/x/y")
    assert (place.kind, place.bucket, place.account, place.path) == ("az", "container", "account", "x/y")


@pytest.mark.parametrize("uri", ["viewfs://host/x", "s3+ddb://bucket/x", "http://host/x", "s3:///x", "dbfs:/x", "s3:/bucket/x"])
def test_an_unknown_scheme_is_refused_by_name(uri: str) -> None:
    with pytest.raises(UnsupportedFeatureError):
        Store(uri)


@pytest.mark.parametrize(
    ("uri", "instead"),
    [
        ("dbfs:/mnt/x", "write /dbfs/mnt/x,"),
        ("dbfs:///mnt/x", "write /dbfs/mnt/x,"),
        ("dbfs:/Volumes/main/shop/x", "write /Volumes/main/shop/x,"),
        ("dbfs://a:b@host/x", "use a local path or one of s3://"),
        ("viewfs://cluster/x", "write the same files as hdfs://"),
        ("webhdfs://host:9870/x", "write the same files as hdfs://"),
        ("https://host/x", "use a local path or one of s3://"),
    ],
)
def test_the_error_for_a_scheme_without_a_store_says_what_to_write(uri: str, instead: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=instead):
        locate(uri)


@pytest.mark.parametrize("uri", ["", " "])
def test_an_empty_path_is_not_the_working_directory(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="empty"):
        Store(uri)


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidOptionError, match=r"'acces_key_id'; did you mean '(aws_)?access_key_id'") as e:
        Store("s3://bucket/x", {"acces_key_id": "very-secret"})
    assert "very-secret" not in str(e.value)


def test_options_of_another_store_are_ignored(tmp_path: Path) -> None:
    Store(str(tmp_path), KEYS).put("x", b"1")
    assert Store(str(tmp_path), {"azure_storage_account_name": "a"}).read("x") == b"1"


def test_options_mean_what_object_store_says_they_mean() -> None:
    options = {"AWS_ACCESS_KEY_ID": "k", "aws_endpoint": "http://e", "region": "r", "timeout": "500ms", "client_max_retries": "3"}
    assert arguments("s3", options) == {
        "key": "k",
        "endpoint_url": "http://e",
        "client_kwargs": {"region_name": "r"},
        "config_kwargs": {"read_timeout": 0.5, "retries": {"max_attempts": 3}, "s3": {"addressing_style": "path"}},
    }
    assert arguments("s3", {"virtual_hosted_style_request": "true"}) == {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}
    assert arguments("gs", {"google_service_account_key": '{"a": 1}'}) == {"token": {"a": 1}}
    assert arguments("az", {"account_name": "a", "azure_storage_sas_key": "s"}) == {"account_name": "a", "sas_token": "s"}


def test_an_invalid_value_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidOptionError, match="allow_invalid_certificates") as e:
        arguments("s3", {"allow_invalid_certificates": "perhaps"})
    assert "perhaps" not in str(e.value)


def test_a_refusal_has_an_errno(s3_server: str) -> None:
    store = Store("s3://no-such-bucket/t", {**KEYS, "endpoint": s3_server})
    with pytest.raises(StorageError) as e:
        store.put_if_absent("x", b"")
    assert e.value.errno == errno.ENOENT
