"""Polaris, and Iceberg's REST catalogs, by answers as their published interfaces have them: no such server starts on a plain machine.

A server holds what each path answers; what it has no answer for is 404. Each test says which requests must have come.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import NamespaceError, TableNotFoundError, UnsupportedFeatureError
from lance_spark.namespace.catalogs.metastore import MetastoreNamespace


@dataclass
class Replayed:
    """The address of the server, its answers by method and path, and the requests that came, with their bodies."""

    endpoint: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def server() -> Iterator[Replayed]:
    replayed = Replayed()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            is_json = self.headers.get("Content-Type") == "application/json"
            request = f"{self.command} {self.path}"
            replayed.asked.append((request, json.loads(text) if is_json and text else text))
            replayed.headers = dict(self.headers)
            found = replayed.answers.get(request)
            status, fields = (404, {"error": {"message": "not here", "code": 404}}) if found is None else found
            content = json.dumps(fields).encode() if fields is not None else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever, args=(0.01,))
    thread.start()
    replayed.endpoint = f"http://127.0.0.1:{served.server_port}"
    yield replayed
    served.shutdown()
    thread.join()
    served.server_close()


def test_a_polaris_catalog_has_generic_tables(server: Replayed, tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    base, tables = "/api/catalog/v1/lake", "/api/catalog/polaris/v1/lake/namespaces/a%1Fb/generic-tables"
    server.answers = {
        "GET /api/catalog/v1/config?warehouse=lake": (200, {"defaults": {}, "overrides": {"prefix": "lake"}}),
        f"GET {base}/namespaces?parent=a": (200, {"namespaces": [["a", "b"]]}),
        f"GET {base}/namespaces/a%1Fb": (200, {"namespace": ["a", "b"], "properties": {"team": "x"}}),
        f"POST {tables}": (200, {}),
        f"GET {tables}": (200, {"identifiers": [{"namespace": ["a", "b"], "name": n} for n in ("t", "delta")]}),
        f"GET {tables}/t": (200, {"table": {"name": "t", "format": "lance", "base-location": location, "properties": {}}}),
        f"GET {tables}/delta": (200, {"table": {"name": "delta", "format": "delta", "base-location": "s3://b/d"}}),
        f"DELETE {tables}/t": (204, None),
    }
    properties: dict[str, Any] = {"polaris.endpoint": server.endpoint, "polaris.auth_token": "secret"}
    polaris = lance_spark.namespace("polaris", **properties)
    assert polaris.list_namespaces(["lake", "a"]) == ["b"]
    assert polaris.describe_namespace(["lake", "a", "b"]) == {"team": "x"}
    polaris.declare_table(["lake", "a", "b", "t"], location)
    expected = {"name": "t", "format": "lance", "base-location": location, "properties": {}}
    assert (f"POST {tables}", expected) in server.asked
    assert polaris.write(["lake", "a", "b", "t"], pa.table({"id": [1]})).count_rows() == 1
    assert polaris.list_tables(["lake", "a", "b"]) == ["t"], "tables of other formats are left out"
    with pytest.raises(UnsupportedFeatureError, match="is not a Lance table"):
        polaris.open(["lake", "a", "b", "delta"])
    with pytest.raises(TableNotFoundError):
        polaris.open(["lake", "a", "b", "none"])
    polaris.drop_table(["lake", "a", "b", "t"])
    assert not Path(location).exists()
    assert server.headers["Authorization"] == "Bearer secret"
    assert "secret" not in repr(polaris)


def test_an_iceberg_catalog_marks_tables_by_a_property(server: Replayed, tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    tables = "/v1/p/namespaces/a/tables"
    metadata = {"location": location, "properties": {"table_type": "lance"}}
    server.answers = {
        "GET /v1/config?warehouse=w": (200, {"defaults": {"prefix": "p"}, "overrides": {}}),
        "GET /v1/p/namespaces": (200, {"namespaces": [["a"], ["b.c"]], "next-page-token": "2"}),
        "GET /v1/p/namespaces?pageToken=2": (200, {"namespaces": [["d"]]}),
        f"POST {tables}": (200, {}),
        f"GET {tables}/t": (200, {"metadata": metadata}),
        f"GET {tables}/ice": (200, {"metadata": {"location": "s3://b/i", "properties": {}}}),
        f"GET {tables}": (200, {"identifiers": [{"namespace": ["a"], "name": n} for n in ("ice", "t")]}),
        "POST /v1/p/tables/rename": (204, None),
    }
    iceberg = lance_spark.namespace("iceberg", endpoint=f"{server.endpoint}/v1", root=str(tmp_path))
    assert iceberg.list_namespaces(["w"]) == ["a", "b.c", "d"], "names may have dots"
    with pytest.raises(UnsupportedFeatureError, match="set the property parent"):
        iceberg.list_namespaces()
    iceberg.declare_table(["w", "a", "t"], location)
    assert iceberg.list_tables(["w", "a"]) == ["t"]
    iceberg.rename_table(["w", "a", "t"], ["w", "a", "u"])
    ends = {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": "u"}}
    assert server.asked[-1] == ("POST /v1/p/tables/rename", ends)
    short = lance_spark.namespace("iceberg", endpoint=server.endpoint, parent="w.a")
    assert short.list_tables() == ["t"]


def test_a_server_that_chooses_other_locations_is_refused(server: Replayed, tmp_path: Path) -> None:
    tables = "/v1/namespaces/a/tables"
    server.answers = {
        "GET /v1/config?warehouse=w": (200, {"defaults": {}, "overrides": {}}),
        "GET /v1/namespaces": (200, {"namespaces": [["a"]]}),
        f"POST {tables}": (200, {}),
        f"GET {tables}/t": (200, {"metadata": {"location": "s3://its-own/t", "properties": {"table_type": "lance"}}}),
        f"DELETE {tables}/t?purgeRequested=false": (204, None),
    }
    iceberg = lance_spark.namespace("iceberg", endpoint=server.endpoint, root=str(tmp_path))
    with pytest.raises(NamespaceError, match="does not let its clients choose"):
        iceberg.declare_table(["w", "a", "t"])
    assert server.asked[-1][0].startswith("DELETE"), "the entry is taken back"


def test_credentials_that_a_catalog_hands_out_are_used(server: Replayed) -> None:
    config = {"s3.access-key-id": "k", "s3.secret-access-key": "v", "s3.session-token": "t", "s3.session-token-expires-at-ms": "99"}
    metadata = {"location": "s3://b/t", "properties": {"table_type": "LANCE"}}
    server.answers = {
        "GET /v1/config?warehouse=w": (200, {}),
        "GET /v1/namespaces": (200, {"namespaces": [["a"]]}),
        "GET /v1/namespaces/a/tables/t": (200, {"metadata": metadata, "config": {**config, "client.region": "eu-west-1"}}),
    }
    iceberg = lance_spark.namespace("iceberg", endpoint=server.endpoint)
    assert isinstance(iceberg, MetastoreNamespace)
    entry = iceberg.metastore.describe_table(("w", "a", "t"))
    assert entry.storage_options == {
        "aws_access_key_id": "k", "aws_secret_access_key": "v", "aws_session_token": "t", "aws_region": "eu-west-1",
    }  # fmt: skip
    assert entry.expires_at_millis == 99
    assert server.headers["X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert "'k'" not in repr(entry)


def test_a_client_with_an_id_and_a_secret_logs_in_once(server: Replayed) -> None:
    server.answers = {
        "POST /v1/oauth/tokens": (200, {"access_token": "given", "expires_in": 3600}),
        "GET /v1/config?warehouse=w": (200, {}),
        "GET /v1/namespaces": (200, {"namespaces": [["a"]]}),
    }
    iceberg = lance_spark.namespace("iceberg", endpoint=server.endpoint, credential="me:pass word")
    assert iceberg.list_namespaces(["w"]) == ["a"]
    assert iceberg.list_namespaces(["w"]) == ["a"]
    logins = [body for request, body in server.asked if request == "POST /v1/oauth/tokens"]
    assert logins == ["grant_type=client_credentials&client_id=me&client_secret=pass+word&scope=catalog"]
    assert server.headers["Authorization"] == "Bearer given"


def test_a_warehouse_may_be_a_part_of_the_paths_unsaid(server: Replayed) -> None:
    server.answers = {
        "GET /v1/config?warehouse=w": (200, {"defaults": {}, "overrides": {}}),
        "GET /v1/w/namespaces": (200, {"namespaces": [["a"], ["a", "b"]]}),
    }
    assert lance_spark.namespace("iceberg", endpoint=server.endpoint).list_namespaces(["w"]) == ["a"]


@pytest.mark.parametrize(("status", "code"), [(401, 16), (403, 15), (500, NamespaceError.code)])
def test_a_refusal_is_one_line_with_its_code(server: Replayed, status: int, code: int) -> None:
    server.answers = {"GET /v1/config?warehouse=w": (status, {"error": {"message": "not you", "code": status}})}
    iceberg = lance_spark.namespace("iceberg", endpoint=server.endpoint, auth_token="wrong", max_retries=0)
    with pytest.raises(NamespaceError, match="not you") as raised:
        iceberg.table_exists(["w", "a", "t"])
    assert raised.value.code == code
    assert "wrong" not in str(raised.value)
