"""Keys and passwords of options and URIs do not appear in errors, representations or logs, in any encoding."""

from __future__ import annotations

import base64
import html
import http.server
import importlib.util
import json
import logging
import pickle
import re
import threading
import traceback
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, LanceError, StorageError
from lance_spark.storage.options import DYNAMODB_ENDPOINT, MANIFEST_STORE, TABLES
from lance_spark.storage.secrets import redacted, shown
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.external import external

ROWS = pa.table({"a": [1]})
PACKAGES = {"s3": "s3fs", "az": "adlfs"}
S3 = {"access_key_id": "AKIAtest", "secret_access_key": "test/secret", "region": "us-east-1", "client_max_retries": "0", "timeout": "1"}
WORD = "hush7Qw"
"""In every secret, and nowhere else."""
SECRETS = {
    "a word": f"{WORD}Secret",
    "signs": f"{WORD}/a+b=c%&d e:f@g",
    "percent": f"{WORD}%2Fa%2Bb",
    "a key": base64.b64encode(f"{WORD} in it".encode()).decode(),
    "a URL": f"http://{WORD}user:{WORD}pw@127.0.0.1:1/?sig={WORD}sig",
    "a connection string": f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey={WORD}key==;BlobEndpoint=http://127.0.0.1:1/a",
    "a signature": f"?sv=2024-01-01&sig={WORD}%2Bsig%3D&se=2030-01-01",
    "JSON": json.dumps({"type": "service_account", "private_key": f"-----BEGIN PRIVATE KEY-----\n{WORD}line\n-----END PRIVATE KEY-----\n"}),
    "a path": f"/nowhere/{WORD}/key.json",
    "lines": f"{WORD}\nline",
}
FORMS = re.compile("|".join({WORD, base64.b64encode(WORD.encode()).decode().rstrip("=")[:-1], WORD.encode().hex()}), re.IGNORECASE)


def hidden(e: BaseException, *more: object) -> None:
    """Check that no part of a secret is in any form of an error."""
    texts = [str(e), repr(e), *traceback.format_exception(e), *map(str, more), *map(repr, more)]
    texts.append(str(pickle.loads(pickle.dumps(e))))
    assert not [text for text in texts if FORMS.search(urllib.parse.unquote(text))]
    assert not [text for text in texts if any(s in text for s in Echo.signatures if len(s) > 20)]


def fails(use: Callable[[], object], *more: object) -> None:
    with pytest.raises(LanceError) as e:
        use()
    hidden(e.value, *more)


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that the logs of this package contain no secrets."""
    with caplog.at_level(logging.DEBUG, "lance_spark"):
        yield
    assert not FORMS.search("\n".join(r.getMessage() for r in caplog.records if r.name.startswith("lance_spark")))


class Echo(http.server.BaseHTTPRequestHandler):
    """A server that refuses every request and repeats it in the response; `signatures` are those that it received."""

    signatures: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(self.path.partition("?")[2])
        self.signatures.update(self.headers.get("Authorization", "").split("Signature=")[-1:], query.get("sig", []))
        said = html.escape(f"{self.command} {self.path} {urllib.parse.unquote(self.path)} {dict(self.headers)} {self.headers}")
        body = f"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>{said}</Message></Error>".encode()
        self.send_response(403, "Forbidden")
        self.send_header("Content-Type", "application/xml")
        self.send_header("x-ms-error-code", "AuthenticationFailed")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    do_HEAD = do_DELETE = do_GET
    do_POST = do_PUT

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """The address of a server whose errors repeat the request."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def reachable(kind: str, echo: str) -> tuple[str, dict[str, str]]:
    """The URI of a table on that server, and its options."""
    if kind == "s3":
        return "s3://tables/t", {**S3, "endpoint": f"http://{echo}"}
    endpoint = f"DefaultEndpointsProtocol=http;AccountName=test;AccountKey=dGVzdA==;BlobEndpoint=http://{echo}/test"
    return "az://tables/t", {"azure_storage_connection_string": endpoint}


@pytest.mark.matrix
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("kind", PACKAGES)
def test_no_option_is_in_an_error(kind: str, secret: str, echo: str) -> None:
    """Neither errors of the client nor responses of the server show it."""
    if importlib.util.find_spec(PACKAGES[kind]) is None:
        pytest.skip(f"{PACKAGES[kind]} is not installed")
    uri, options = reachable(kind, echo)
    secret = secret.replace("127.0.0.1:1", echo)  # clients try for minutes to reach what is not there
    for name in {place: name for name, place in TABLES[kind].items()}.values():
        fails(lambda given={**options, name: secret}: Dataset.open(uri, storage_options=given))  # type: ignore[misc]
    keys = {"access_key_id": f"AKIA{WORD}", "secret_access_key": WORD, "session_token": f"{WORD}/+token"}
    store = Store(uri, {**options, **keys})
    uses: list[Callable[[], object]] = [lambda: store.read("x"), lambda: store.put("x", b""), lambda: store.put_if_absent("x", b"")]
    uses += [lambda: store.list("x"), lambda: store.walk("x"), lambda: store.delete("x"), lambda: store.read_tail("x", 5)]
    for use in (*uses, lambda: Dataset.write(uri, ROWS, storage_options={**options, **keys})):
        fails(use, store)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_errors_do_not_show_the_manifest_store(tmp_path: Path, secret: str, echo: str) -> None:
    uri, options = reachable("s3", echo)
    local, secret = str(tmp_path / "t"), secret.replace("127.0.0.1:1", echo)
    for place in (f"sqlite:///nowhere/{secret}/m.db", f"postgres://{secret}", secret, f"dynamodb://{secret}", f"sqlite:{secret}"):
        fails(lambda place=place: Dataset.write(local, ROWS, storage_options={MANIFEST_STORE: place}))  # type: ignore[misc]
        given = {**options, DYNAMODB_ENDPOINT: f"http://{echo}", MANIFEST_STORE: place}
        fails(lambda given=given: Dataset.open(uri, storage_options=given))  # type: ignore[misc]
        fails(lambda given=given: external(Store(uri, given)).latest())  # type: ignore[misc, union-attr]
    for name in (DYNAMODB_ENDPOINT, "access_key_id", "secret_access_key", "session_token", "region"):
        given = {**options, DYNAMODB_ENDPOINT: f"http://{echo}", MANIFEST_STORE: "dynamodb://table", name: secret}
        fails(lambda given=given: external(Store(uri, given)).latest())  # type: ignore[misc, union-attr]


def test_errors_of_a_manifest_store_name_the_problem(tmp_path: Path, echo: str) -> None:
    with pytest.raises(StorageError, match="the manifest store in SQLite: unable to open database file"):
        Dataset.write(str(tmp_path / "t"), ROWS, storage_options={MANIFEST_STORE: "sqlite:///nowhere/m.db"})
    with pytest.raises(InvalidOptionError, match="'manifest_store' takes dynamodb://TABLE or sqlite:///PATH"):
        external(Store(tmp_path, {MANIFEST_STORE: "redis://x"}))
    with pytest.raises(StorageError, match=r"the manifest store in DynamoDB: .* when calling the DescribeTable operation"):
        external(Store("s3+ddb://b/t?ddbTableName=x", {**S3, DYNAMODB_ENDPOINT: f"http://{echo}"}))


URIS = [
    f"s3://{WORD}:{WORD}@bucket/t",
    f"s3a://{WORD}@bucket/t",
    f"gs://a:{WORD}@bucket/t",
    f"az://a:{WORD}@container/t",
    f"abfss://container:{WORD}@account.dfs.core.windows.net/t",
    f"abfss://{WORD}@container@account.dfs.core.windows.net/t",
    f"s3://a:{WORD}@bucket/t\0",
    f"s3://:{WORD}@/t",
    f"hdfs://a:{WORD}@host/t",
    f"dbfs://a:{WORD}@host/t",
    f"http://a:{WORD}@host/t?sig={WORD}",
    f"s3+ddb://a:{WORD}@bucket/t?ddbTableName=x",
    f"s3+ddb://a:{WORD}@bucket/t",
    f"az://container/t?sv=2024-01-01&sig={WORD}",
    f"s3://bucket/t?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={WORD}",
    f"gs://bucket/t?X-Goog-Signature={WORD}",
]


@pytest.mark.parametrize("uri", URIS)
def test_uris_with_credentials_are_refused_and_not_shown(uri: str) -> None:
    fails(lambda: Dataset.open(uri))
    fails(lambda: Dataset.write(uri, ROWS))
    assert WORD not in shown(uri.replace("\0", ""))


def test_uris_are_shown_without_secrets() -> None:
    given = {
        "s3://bucket/a b": "s3://bucket/a b",
        "s3://u:p@bucket/a": "s3://***@bucket/a",
        "s3://u@bucket": "s3://***@bucket",
        "abfss://c@a.dfs.core.windows.net/x?sig=y": "abfss://c@a.dfs.core.windows.net/x?***",
        "abfss://u:p@host/x": "abfss://***@host/x",
        "/local/a?b@c": "/local/a?b@c",
        "http://h/?a=1?b": "http://h/?***",
    }
    assert {uri: shown(uri) for uri in given} == given


REDACTED: list[tuple[str, Mapping[str, str], str]] = [
    ("bucket is not there", {"region": "eu-1"}, "bucket is not there"),
    ("the key secret-1 is wrong", {"access_key_id": "secret-1"}, "the key *** is wrong"),
    ("a%2Fb%2B1 and a/b+1", {"secret_access_key": "a/b+1"}, "*** and ***"),
    ("key is 'abcdef'", {"connection_string": "Name=x;AccountKey=abcdef"}, "key is '***'"),
    ("line two-two", {"service_account_key": '{"private_key": "one-one\\ntwo-two"}'}, "line ***"),
    ("connect to http://me:pw@host:1/x", {}, "connect to http://***@host:1/x"),
    ("signature 'Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4'", {}, "signature '***'"),
    ("the code is 12", {"timeout": "12"}, "the code is 12"),
    ("is it true", {"allow_http": "true"}, "is it true"),
]


@pytest.mark.parametrize(("text", "options", "expected"), REDACTED)
def test_messages_of_clients_are_kept_without_secrets(text: str, options: Mapping[str, str], expected: str) -> None:
    assert redacted(text, options) == expected
