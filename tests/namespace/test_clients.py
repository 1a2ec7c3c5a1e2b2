"""Namespaces behind a service: REST against pylance's adapter, and implementations of `lance_namespace`."""

from __future__ import annotations

import http.server
import json
import pickle
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pytest
from lance.namespace import RestAdapter

import lance_spark
from lance_spark.errors import (
    CommitConflictError,
    InvalidOptionError,
    LanceError,
    NamespaceAlreadyExistsError,
    NamespaceError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.protocol import Namespace
from lance_spark.storage.store import Store
from tests.namespace.sides import ROWS


@contextmanager
def rest(root: Path, **properties: str) -> Iterator[str]:
    """The URI of a REST service for the directory namespace at `root`."""
    with RestAdapter("dir", {"root": str(root), **properties}, port=0) as adapter:
        yield f"http://127.0.0.1:{adapter.port}"


@pytest.fixture(params=["rest", "library"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace of pylance behind each of the two transports."""
    root = tmp_path / "lake"
    if request.param == "library":
        yield lance_spark.namespace("lance.namespace.DirectoryNamespace", root=root)
        return
    with rest(root) as uri:
        yield lance_spark.namespace(uri)


def test_tables_are_written_opened_and_dropped(service: Namespace, tmp_path: Path) -> None:
    service.create_namespace(["shop"], {"owner": "us"})
    assert (service.list_namespaces(), service.describe_namespace(["shop"])) == (["shop"], {"owner": "us"})
    assert service.write(["shop", "orders"], ROWS).count_rows() == 2
    assert service.write(["shop", "orders"], ROWS, "append").count_rows() == 4
    assert service.open(["shop", "orders"], version=1).count_rows() == 2
    assert service.list_tables(["shop"]) == ["orders"]
    assert lance_spark.namespace(tmp_path / "lake").open(["shop", "orders"]).count_rows() == 4
    service.drop_table(["shop", "orders"])
    service.drop_namespace(["shop"])
    assert (service.list_namespaces(), [p.name for p in (tmp_path / "lake").iterdir()]) == ([], ["__manifest"])


def test_tables_are_declared_registered_and_deregistered(service: Namespace, tmp_path: Path) -> None:
    service.create_namespace(["n"])
    assert service.declare_table(["n", "t"]).location.endswith("_n$t")
    assert service.describe_table(["n", "t"]).is_only_declared
    lance.write_dataset(ROWS, tmp_path / "lake" / "other")
    service.register_table(["n", "other"], "other")
    assert service.open(["n", "other"]).count_rows() == 2
    service.deregister_table(["n", "other"])
    assert service.list_tables(["n"]) == ["t"]
    assert (tmp_path / "lake" / "other").exists()


def test_errors_are_told_by_their_codes(service: Namespace) -> None:
    service.create_namespace(["a"])
    service.declare_table(["a", "t"])
    for error, call in (
        (NamespaceNotFoundError, lambda: service.create_namespace(["x", "y"])),
        (NamespaceAlreadyExistsError, lambda: service.create_namespace(["a"])),
        (NamespaceNotEmptyError, lambda: service.drop_namespace(["a"])),
        (TableNotFoundError, lambda: service.drop_table(["a", "x"])),
        (TableAlreadyExistsError, lambda: service.declare_table(["a", "t"])),
        (InvalidOptionError, lambda: service.register_table(["a", "u"], "/etc")),
    ):
        with pytest.raises(error):
            call()
    assert not service.table_exists(["a", "x"])
    assert not service.namespace_exists(["x"])


def test_lists_of_many_pages_are_whole(tmp_path: Path) -> None:
    names = [f"n{i:03}" for i in range(7)]

    def answer(path: str) -> object:
        rest = [n for n in names if f"page_token={n}" < path[path.find("page_token=") :] or "page_token" not in path]
        _, _, after = path.partition("page_token=")
        rest = [n for n in names if n > after]
        return {"namespaces": rest[:3], "page_token": rest[2] if len(rest) > 3 else None}

    with answering(answer) as uri:
        assert lance_spark.namespace(uri).list_namespaces() == names


@contextmanager
def answering(answer: object, status: int = 200) -> Iterator[str]:
    """The URI of a server that gives one answer: a value as JSON, bytes as they are, or what a function makes of the path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            value = answer(self.path) if callable(answer) else answer
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            """Nothing is logged."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        None,
        1,
        {"namespaces": "abc", "tables": "abc"},
        {"namespaces": [1], "tables": [None]},
        {"namespaces": ["a"], "tables": ["a"], "page_token": "always the same"},
        {"namespaces": [], "tables": [], "page_token": {}},
        {"location": 1},
        {"location": "/tmp", "storage_options": []},
        {"location": "/tmp", "storage_options": {"expires_at_millis": "soon"}},
        {"location": "/tmp", "storage_options": {"expires_at_millis": "9" * 5000}},
        {"location": "/tmp", "properties": {"a": 1}},
    ],
)
def test_answers_that_make_no_sense_are_errors_of_ours(answer: object) -> None:
    with answering(answer) as uri:
        service, errors = lance_spark.namespace(uri), 0
        for call in (service.list_namespaces, service.list_tables, lambda: service.open(["t"]), lambda: service.declare_table(["t"])):
            try:
                call()
            except LanceError:
                errors += 1
        assert errors > 0


@pytest.mark.parametrize(
    ("status", "answer", "error", "code"),
    [
        (409, {"code": 14, "error": "again"}, CommitConflictError, 14),
        (404, {"code": 4, "error": "t"}, TableNotFoundError, 4),
        (403, b"", NamespaceError, 15),
        (401, b"no", NamespaceError, 16),
        (500, {"code": "x"}, NamespaceError, 18),
        (500, {"code": 10**30}, NamespaceError, 18),
        (406, {"code": 0, "error": "no"}, UnsupportedFeatureError, 0),
        (302, b"", NamespaceError, 18),
    ],
)
def test_the_code_or_else_the_status_tells_the_error(status: int, answer: object, error: type[LanceError], code: int) -> None:
    with answering(answer, status) as uri, pytest.raises(error) as raised:
        lance_spark.namespace(uri).drop_table(["t"])
    assert raised.value.code == code
    assert pickle.loads(pickle.dumps(raised.value)).code == code


HEADER: dict[str, Any] = {"header.Authorization": "Bearer secret-token"}


def test_a_service_that_is_not_there_is_unavailable_and_headers_are_not_shown() -> None:
    service = lance_spark.namespace("rest", uri="http://127.0.0.1:9", **HEADER)
    with pytest.raises(NamespaceError) as raised:
        service.list_tables()
    assert raised.value.code == 17
    assert "secret-token" not in str(raised.value) + repr(service)


def test_headers_are_sent(tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(path: str) -> object:
        seen.append(path)
        return {"tables": []}

    with answering(answer) as uri:
        lance_spark.namespace(uri, delimiter=".").list_tables(["a b", "é"])
    assert seen == ["/v1/namespace/a%20b.%C3%A9/table/list?delimiter=."]


@pytest.mark.parametrize(
    ("place", "properties", "message"),
    [
        ("rest", {}, "needs the property 'uri'"),
        ("rest", {"uri": "ftp://x"}, "expected http"),
        ("rest", {"uri": "http://user:secret@x"}, "credentials are headers"),
        ("http://x", {"delimter": "."}, "did you mean 'delimiter'"),
        ("no.such.Namespace", {}, "cannot be opened"),
    ],
)
def test_properties_that_make_no_sense_are_refused(place: str, properties: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as raised:
        lance_spark.namespace(place, **properties).list_tables()
    assert "secret" not in str(raised.value)


def vending(root: Path, millis: int) -> dict[str, str]:
    """Properties of a directory namespace that hands out its storage options for so long."""
    return {
        "vend_input_storage_options": "true",
        "vend_input_storage_options_refresh_interval_millis": str(millis),
        "storage.region": "of the namespace",
        "storage.not_an_option": "x",
    }


def options_of(store: Store) -> dict[str, object]:
    """The storage options that count now."""
    return store.client_options(["region"])


def test_vended_storage_options_win_over_those_of_the_user(tmp_path: Path) -> None:
    with rest(tmp_path, **vending(tmp_path, 600_000)) as uri:
        service = lance_spark.namespace(uri, storage_options={"region": "mine", "timeout": "5s"})
        service.write(["t"], ROWS)
        assert options_of(service.store(["t"])) == {"region": "of the namespace"}
        assert service.open(["t"]).count_rows() == 2
        assert "of the namespace" not in repr(service.describe_table(["t"]))


def test_tables_in_an_object_store_are_opened_with_the_credentials_that_are_vended(s3_server: str) -> None:
    root = f"s3://tables/{uuid.uuid4().hex}"
    keys = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "endpoint": s3_server, "allow_http": "true"}
    storage = {f"storage.{name}": value for name, value in keys.items()}
    with RestAdapter("dir", {"root": root, "vend_input_storage_options": "true", **storage}, port=0) as adapter:
        service = lance_spark.namespace(f"http://127.0.0.1:{adapter.port}")
        service.create_namespace(["n"])
        for id in (["t"], ["n", "t"]):
            assert service.write(id, ROWS).count_rows() == 2
            assert service.write(id, ROWS, "append").scan().to_table().num_rows == 4
        lake = lance_spark.namespace(root, storage_options=keys)
        assert (lake.list_tables(), lake.list_tables(["n"]), lake.open(["n", "t"]).count_rows()) == (["t"], ["t"], 4)
        lake.drop_table(["n", "t"])
        lake.write(["n", "u"], ROWS)
        assert service.list_tables(["n"]) == ["u"]
        assert service.open(["n", "u"]).count_rows() == 2


def test_storage_options_are_renewed_before_they_expire_and_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, now = [], time.time()
    monkeypatch.setattr(time, "time", lambda: now)  # the clock stands still, however long the machine takes

    def answer(path: str) -> object:
        asked.append(path)
        options = {"region": str(len(asked)), "expires_at_millis": str(int((now + 100) * 1000))}
        return {"location": str(tmp_path / "t.lance"), "storage_options": options}

    with answering(answer) as uri:
        table = lance_spark.namespace(uri).write(["t"], ROWS)
        first = len(asked)
        store = pickle.loads(pickle.dumps(table.snapshot.store))
        assert options_of(store) == {"region": str(first)}
        now += 74.0
        assert (options_of(store), len(asked)) == ({"region": str(first)}, first)
        now += 2.0
        assert [options_of(s) for s in (store, table.snapshot.store)] == [{"region": str(first + 1)}] * 2
        assert len(asked) == first + 1, "all stores of a process share what was vended"


def test_the_package_that_an_implementation_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance_namespace", None)
    with pytest.raises(UnsupportedFeatureError, match="pip install lance-namespace"):
        lance_spark.namespace("some_package.Namespace").list_tables()


def test_registered_names_are_implementations(tmp_path: Path) -> None:
    lance_namespace.register_namespace_impl("ours-for-a-test", "lance.namespace.DirectoryNamespace")
    lance_spark.namespace("ours-for-a-test", root=tmp_path).write(["t"], ROWS)
    assert lance_spark.namespace(tmp_path).list_tables() == ["t"]


def test_tables_whose_versions_the_namespace_keeps_are_refused(tmp_path: Path) -> None:
    with rest(tmp_path, table_version_tracking_enabled="true") as uri:
        service = lance_spark.namespace(uri)
        with pytest.raises(UnsupportedFeatureError, match="keeps the versions"):
            service.write(["t"], ROWS)
