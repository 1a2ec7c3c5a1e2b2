"""Verification reports every problem of a version's files, and none for an intact version."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.cli.main import main
from lance_spark.metadata.manifest import Manifest, serialise
from lance_spark.storage.store import Store
from lance_spark.table.maintenance.verify import Report
from lance_spark.table.versions.snapshot import open_snapshot

ROWS = pa.table({"a": pa.array(range(5000), pa.int64()), "s": [f"text {i}" for i in range(5000)]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Two fragments with a deletion each, an index and stable row ids."""
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri, max_rows_per_file=2500, enable_stable_row_ids=True)
    lance.dataset(uri).delete("a % 1000 = 7")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    return uri


def kinds(report: Report) -> list[str]:
    assert not report.ok
    return [problem.kind for problem in report.problems]


def first(uri: str, folder: str) -> str:
    return sorted(str(p) for p in Path(uri, folder).rglob("*") if p.is_file())[0]


def test_an_intact_table_has_no_problems(uri: str) -> None:
    report = Dataset.open(uri).verify()
    assert report.ok
    assert (report.problems, report.orphans, report.files, report.version) == ((), (), 6, 3)
    branch = lance.dataset(uri).create_branch("dev")
    lance.write_dataset(ROWS, branch, mode="append")
    for branch_name in (None, "dev"):
        report = Dataset.open(uri, branch=branch_name).verify()
        assert report.ok, report
        assert report.orphans == ()


@pytest.mark.parametrize(("folder", "kind"), [("data", "missing"), ("_deletions", "missing"), ("_indices", "missing")])
def test_a_removed_file_is_missing(uri: str, folder: str, kind: str) -> None:
    os.unlink(first(uri, folder))
    report = Dataset.open(uri).verify(decode=False)
    assert kinds(report) == [kind]
    assert kinds(Dataset.open(uri).verify()) == [kind]
    assert f"missing: {report.problems[0].path}" in str(report)


def _cut(content: bytes) -> bytes:
    return content[:-7]


def _spoilt(content: bytes) -> bytes:
    return content[:-2] + b"xx"


def _pages_spoilt(content: bytes) -> bytes:
    return b"\xff" * 6000 + content[6000:]


@pytest.mark.parametrize(
    ("folder", "spoil", "kind"),
    [
        ("data", _cut, "size"),
        ("data", _spoilt, "corrupt"),
        ("data", _pages_spoilt, "corrupt"),
        ("_deletions", _cut, "corrupt"),
        ("_indices", _cut, "size"),
    ],
)
def test_a_file_with_other_content_is_found(uri: str, folder: str, spoil: Callable[[bytes], bytes], kind: str) -> None:
    path = Path(first(uri, folder))
    path.write_bytes(spoil(path.read_bytes()))
    assert kinds(Dataset.open(uri).verify()) == [kind]


def rewritten(uri: str, change: Callable[[Manifest], Manifest]) -> None:
    snapshot = open_snapshot(Store(uri))
    Store(uri).put(snapshot.path, serialise(change(snapshot.manifest)))


def test_numbers_of_rows_and_row_ids_that_are_wrong_are_found(uri: str) -> None:
    def wrong(manifest: Manifest) -> Manifest:
        one, two = manifest.fragments
        return replace(manifest, fragments=(replace(one, physical_rows=2499), replace(two, row_ids=b"\x0a\x00")))

    rewritten(uri, wrong)
    assert set(kinds(Dataset.open(uri).verify())) == {"corrupt", "rows"}


def test_a_missing_transaction_is_reported(uri: str) -> None:
    rewritten(uri, lambda manifest: replace(manifest, transaction=None, transaction_file="gone.txn"))
    assert kinds(Dataset.open(uri).verify()) == ["missing"]


def test_unreferenced_files_are_orphans_but_not_problems(uri: str) -> None:
    written = lance.fragment.write_fragments(ROWS, uri, mode="append")
    lance.write_dataset(ROWS, uri, mode="overwrite")
    report = Dataset.open(uri, version=2).verify()
    assert report.ok
    assert report.orphans == (f"data/{written[0].files[0].path}",)


@pytest.mark.parametrize("path", ["_versions/18446744073709551614.manifest", "_refs/tags/t.json"])
def test_broken_versions_and_tags_are_reported_with_the_rest(uri: str, path: str) -> None:
    lance.dataset(uri).tags.create("t", 1)
    Path(uri, path).write_bytes(b"{")
    os.unlink(first(uri, "data"))
    report = Dataset.open(uri).verify()
    assert [problem.kind for problem in report.problems] == ["missing", "corrupt"]
    assert path in str(report)


def test_the_exit_code_reports_problems(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "lance_spark", "verify", uri], capture_output=True, text=True, check=True)
    assert done.stdout == f"{uri}, version 3: 6 files, 0 problems, 0 orphans\n"
    assert main(["verify", uri, "--version", "9"]) == 2
    assert "version 9" in capsys.readouterr().err
    os.unlink(first(uri, "data"))
    assert main(["verify", uri, "--no-decode", "--version", "1"]) == 1
    assert "missing: " in capsys.readouterr().out
    assert main(["verify", f"{uri}/nothing"]) == 2
