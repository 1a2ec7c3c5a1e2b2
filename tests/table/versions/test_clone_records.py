"""Records of clones are untrusted: they cause no access to other stores, and invalid ones do no harm."""

from __future__ import annotations

import http.server
import json
import logging
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import RefConflictError
from lance_spark.storage.store import Store
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.clones import is_needed

ROWS = pa.table({"a": [1]})
NOW = timedelta(0)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three versions; the tests record a clone of the second one."""
    for _ in range(3):
        Dataset.write(tmp_path / "t", ROWS, "overwrite")
    return str(tmp_path / "t")


def note(uri: str, content: object, name: str = "x") -> Path:
    path = Path(uri, refs.CLONES, f"{name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def versions_after_cleanup(uri: str, allow_other_stores: bool = False, **options: str) -> list[int]:
    dataset = Dataset.open(uri, allow_other_stores=allow_other_stores, storage_options=options)
    assert dataset.verify().ok
    dataset.cleanup_old_versions(NOW)
    return [v.version for v in dataset.versions()]


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A foreign object store without tables, and the keys of the requests that it received."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            body = b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}", seen
        running.shutdown()
        thread.join()


def test_a_clone_in_another_store_is_only_checked_if_allowed(uri: str, server: tuple[str, list[str]]) -> None:
    endpoint, seen = server
    options = {"endpoint": endpoint, "access_key_id": "our-key", "secret_access_key": "s", "region": "us-east-1", "allow_http": "true"}
    note(uri, {"uri": "s3://bucket-of-another/t", "version": 2})
    assert versions_after_cleanup(uri, False, **options) == [2, 3]
    branch = Dataset.open(uri, storage_options=options).create_branch("b")
    note(uri, {"uri": "s3://bucket-of-another/t", "version": branch.version, "branch": "b"}, "y")
    with pytest.raises(RefConflictError, match=r"clone 's3://bucket-of-another/t' \(recorded in _refs/clones/y.json\)"):
        branch.branches.delete("b")
    assert seen == []
    assert versions_after_cleanup(uri, allow_other_stores=True, **options) == [3]
    assert seen
    assert all("our-key" in key for key in seen)


@pytest.mark.parametrize(
    "clone",
    [
        "",
        "relative/path",
        "gopher://host/x",
        "s3://a:b@bucket/x",
        "s3:///x",
        "file:///a/../b",
        "/\0",
        "/\ud800",
        "memory://x",
        None,
        7,
        ["/x"],
    ],
    ids=repr,
)
def test_a_clone_with_an_invalid_uri_keeps_its_version(uri: str, clone: object) -> None:
    note(uri, {"uri": clone, "version": 2})
    assert versions_after_cleanup(uri) == [2, 3]


NONSENSE = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b"\xff\xfe{}",
    "a list": b"[]",
    "deep": b"[" * 200_000,
    "a long number": b'{"uri": "/x", "version": ' + b"9" * 5000 + b"}",
    "no version": b'{"uri": "/x"}',
    "a version that is text": b'{"uri": "/x", "version": "2"}',
    "a version below 0": b'{"uri": "/x", "version": -2}',
    "a version that is true": b'{"uri": "/x", "version": true}',
    "a branch that is a number": b'{"uri": "/x", "version": 2, "branch": 5}',
}


@pytest.mark.parametrize("content", NONSENSE.values(), ids=NONSENSE)
def test_a_record_without_a_version_is_ignored(uri: str, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    note(uri, content)
    Dataset.open(uri).create_branch("b").branches.delete("b")
    with caplog.at_level(logging.WARNING):
        assert versions_after_cleanup(uri) == [3]
    assert "_refs/clones/x.json" in caplog.text


@pytest.mark.parametrize("name", ["a b", "..%2F..%2Fx", "%", "%zz", ".", "x" * 250, "ä", os.fsdecode(b"\xff\xfe")], ids=ascii)
def test_a_record_may_have_any_name(uri: str, name: str) -> None:
    note(uri, {"uri": "s3://elsewhere/t", "version": 2}, name)
    assert versions_after_cleanup(uri) == [2, 3]


def test_other_entries_than_files_are_no_records(uri: str, tmp_path: Path) -> None:
    elsewhere = note(str(tmp_path / "elsewhere"), {"uri": "s3://elsewhere/t", "version": 2})
    folder = note(uri, b"").parent
    (folder / "link.json").symlink_to(elsewhere)
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    assert versions_after_cleanup(uri) == [3]


def test_invalid_records_of_the_source_do_not_prevent_a_shallow_clone(uri: str, tmp_path: Path) -> None:
    clone = Dataset.open(uri, version=2).shallow_clone(str(tmp_path / "clone"))
    note(uri, b"nonsense", "nonsense")
    clone.shallow_clone(str(tmp_path / "second"))
    assert {c.uri for c in refs.clones(Store(uri))} == {clone.uri, str(tmp_path / "second")}


@pytest.mark.parametrize("made_at", [None, "", "yesterday", "2020-01-01T00:00:00"])
def test_what_a_publication_of_an_unknown_time_needs_is_kept(made_at: str | None, uri: str) -> None:
    root = Store(uri)
    assert is_needed(root, refs.CloneRecord("_refs/tags/t.json", root.uri, 1, "dev", made_at))
