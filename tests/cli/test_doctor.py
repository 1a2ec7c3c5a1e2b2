"""`doctor`: its findings on every kind of installation and table, without a secret, and the exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset, __version__
from lance_spark.cli.requirements import fits, requirements
from lance_spark.storage.remote import RemoteFiles
from tests.cli.test_main import Run

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
HOME_OF_JAVA = os.environ.get("JAVA_HOME")
KEYS = [
    "--storage-option",
    f"secret_access_key={SECRET}",
    "--storage-option",
    "access_key_id=AKIAIOSFODNN7EXAMPLE",
]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """An intact table of two fragments."""
    uri = str(tmp_path / "t.lance")
    for _ in range(2):
        Dataset.write(uri, pa.table({"a": range(10)}), "append")
    return uri


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What the Java of JAVA_HOME says of itself: at first, that it is 17."""

    def say(text: str) -> None:
        program = tmp_path / "java" / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
        program.chmod(0o755)

    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    say('openjdk version "17.0.9" 2023-10-17')
    return say


def lines_of(run: Run, state: str) -> list[str]:
    return [line for line in run.out.splitlines() if line.startswith(state)]


def test_all_is_well(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    run = Run(capsys, ["doctor", uri])
    assert (run.code, run.err) == (0, "")
    assert f"lance-spark {__version__}, Python {sys.version.split()[0]}, Linux" in run.out
    assert re.search(r"packages .* pyarrow [\d.]+, numpy [\d.]+, .* pyspark 4\.", run.out)
    assert "Java 17.0.9 of JAVA_HOME" in run.out
    assert "20 rows, 2 fragments, storage version 2." in run.out
    assert "0 problems, 0 orphans" in run.out
    assert lines_of(run, "wrong") == []


def test_json_has_the_same_findings(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    lines = Run(capsys, ["doctor", uri]).out.splitlines()
    run = Run(capsys, ["doctor", uri, "--json"])
    assert (run.code, run.json["ok"]) == (0, True)
    shown = [f"{one['state']:5}  {one['topic']:11}  {one['text']}" for one in run.json["findings"]]
    assert shown == lines


def _no_table(uri: str) -> list[str]:
    return [f"{uri}-none"]


def _damaged_manifest(uri: str) -> list[str]:
    for manifest in Path(uri, "_versions").glob("*.manifest"):
        manifest.write_bytes(manifest.read_bytes()[:-9])
    return [uri]


def _lost_file(uri: str) -> list[str]:
    next(Path(uri, "data").glob("*.lance")).unlink()
    return [uri]


def _cut_files(uri: str) -> list[str]:
    for file in Path(uri, "data").glob("*.lance"):
        file.write_bytes(file.read_bytes()[:50])
    return [uri]


TABLES: dict[str, tuple[Callable[[str], list[str]], str]] = {
    "none given": (lambda uri: [], ""),
    "intact": (lambda uri: [uri], ""),
    "none there": (_no_table, "no Lance table found"),
    "a file": (lambda uri: [__file__], "test_doctor.py"),
    "damaged manifest": (_damaged_manifest, "manifest"),
    "lost file": (_lost_file, "missing: data/"),
    "cut files": (_cut_files, "size: data/"),
    "unknown scheme": (lambda uri: ["ftp://host/t"], "ftp:// locations are not supported"),
    "unknown option": (lambda uri: [uri, "--storage-option", f"no_such={SECRET}"], "no_such"),
    "secret in the URI": (lambda uri: [f"s3://key:{SECRET}@bucket/t"], "must not contain a user"),
    "empty": (lambda uri: [""], "the path of the table is empty"),
}
"""What a table is like, and what is found wrong with it; "" for nothing."""


def _without_spark(monkeypatch: pytest.MonkeyPatch, say: Callable[[str], None]) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


def _connect_client(monkeypatch: pytest.MonkeyPatch, say: Callable[[str], None]) -> None:
    monkeypatch.setitem(sys.modules, "py4j", None)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


def _without_java(monkeypatch: pytest.MonkeyPatch, say: Callable[[str], None]) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")


def _old_java(monkeypatch: pytest.MonkeyPatch, say: Callable[[str], None]) -> None:
    say('java version "1.8.0_392"')


def _no_version(monkeypatch: pytest.MonkeyPatch, say: Callable[[str], None]) -> None:
    say("java: cannot execute")


INSTALLATIONS: dict[str, tuple[Callable[[pytest.MonkeyPatch, Callable[[str], None]], None], str]] = {
    "whole": (lambda monkeypatch, say: None, ""),
    "no Spark, no Java": (_without_spark, ""),
    "Connect client": (_connect_client, ""),
    "no Java": (_without_java, "there is no java on the path"),
    "Java 8": (_old_java, "Spark needs 17 or newer"),
    "no version of Java": (_no_version, "does not tell its version"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("installation", INSTALLATIONS)
@pytest.mark.parametrize("table", TABLES)
def test_what_is_wrong_is_found_whatever_else_is(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    java: Callable[[str], None],
    uri: str,
    table: str,
    installation: str,
) -> None:
    words_of, wrong_table = TABLES[table]
    change, wrong_installation = INSTALLATIONS[installation]
    words = words_of(uri)
    change(monkeypatch, java)
    run = Run(capsys, ["doctor", *words])
    assert run.err == ""
    assert run.code == (1 if wrong_table or wrong_installation else 0)
    wrong = lines_of(run, "wrong")
    assert bool(wrong) == bool(wrong_table or wrong_installation)
    assert any(wrong_table in line for line in wrong) or not wrong_table
    assert any(wrong_installation in line for line in wrong) or not wrong_installation
    assert SECRET not in run.out


def test_a_process_without_spark_and_java_reports(uri: str) -> None:
    without = "import sys; sys.modules |= {'pyspark': None, 'py4j': None}"
    code = f"{without}; from lance_spark.__main__ import main; sys.exit(main(['doctor', {uri!r}]))"
    environment = {**os.environ, "PATH": "", "JAVA_HOME": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install 'lance-spark[spark]'" in done.stdout


CREDENTIALS = {
    "s3://bucket/t": ("AWS_SECRET_ACCESS_KEY", "variable AWS_SECRET_ACCESS_KEY"),
    "gs://bucket/t": ("GOOGLE_APPLICATION_CREDENTIALS", "variable GOOGLE_APPLICATION_CREDENTIALS"),
    "az://container/t": ("AZURE_STORAGE_CONNECTION_STRING", "variable AZURE_STORAGE_CONNECTION_STRING"),
}


@pytest.fixture
def closed_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options with which each request to an object store fails at once, and an environment without credentials."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return ["--storage-option", "endpoint=http://127.0.0.1:9", "--storage-option", "client_max_retries=0"]


def test_credentials_are_named_and_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed_store: list[str]
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(f"[default]\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    run = Run(capsys, ["doctor", "s3://bucket/t", *closed_store, *KEYS])
    assert "option access_key_id, option client_max_retries, option endpoint, option secret_access_key" in run.out
    assert "variable AWS_SESSION_TOKEN, file ~/.aws/credentials" in run.out
    assert run.code == 1  # the store is not there
    as_json = Run(capsys, ["doctor", "s3://bucket/t", *closed_store, *KEYS, "--json"])
    for text in (run.out, as_json.out):
        assert SECRET not in text
        assert "AKIAIOSFODNN7EXAMPLE" not in text


@pytest.mark.parametrize("place", CREDENTIALS)
def test_the_variables_of_each_kind_of_store_are_found(monkeypatch: pytest.MonkeyPatch, closed_store: list[str], place: str) -> None:
    from lance_spark.storage.credentials import credential_sources
    from lance_spark.storage.location import locate

    kind = locate(place).kind
    variable, source = CREDENTIALS[place]
    assert credential_sources(kind, {}) == []
    monkeypatch.setenv(variable, SECRET)
    assert credential_sources(kind, {}) == [source]


def test_the_conditional_put_is_tried_and_nothing_is_left(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    before = sorted(os.listdir(uri))
    assert "refused the second time" in Run(capsys, ["doctor", uri, "--try-put"]).out
    assert sorted(os.listdir(uri)) == before
    assert "refused the second time" not in Run(capsys, ["doctor", uri]).out
    none = Run(capsys, ["doctor", f"{uri}-none", "--try-put"])
    assert (none.code, os.path.exists(f"{uri}-none")) == (1, False)
    assert Run(capsys, ["doctor", "--try-put"]).code == 2


def test_a_store_that_ignores_the_condition_is_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    place = "memory://doctor/t.lance"
    Dataset.write(place, pa.table({"a": [1]}), "overwrite")
    assert Run(capsys, ["doctor", place, "--try-put"]).code == 0
    monkeypatch.setattr(RemoteFiles, "put_if_absent", RemoteFiles.put)
    run = Run(capsys, ["doctor", place, "--try-put"])
    assert run.code == 1
    assert "ignores the condition of conditional puts" in lines_of(run, "wrong")[0]


KERNELS: dict[str, tuple[dict[str, str], str, str]] = {
    "cold": ({}, "note ", "there is no list of `lance-spark warm`"),
    "cold and forbidden": ({"LANCE_SPARK_COMPILE": "never"}, "wrong", "forbids to compile them"),
    "not compiled": ({"NUMBA_DISABLE_JIT": "1"}, "note ", "NUMBA_DISABLE_JIT is set"),
}


@pytest.mark.parametrize("case", KERNELS)
def test_kernels(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str) -> None:
    settings, state, text = KERNELS[case]
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    run = Run(capsys, ["doctor"])
    assert run.code == (1 if state == "wrong" else 0)
    assert any(text in line for line in lines_of(run, state))


def test_a_folder_of_kernels_that_others_can_write_to_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "lance-spark"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    run = Run(capsys, ["doctor"])
    assert any("another user owns it or can write to it" in line for line in lines_of(run, "note"))
    assert "no folder can be written to" in run.out


FITS = {
    ("4.0.0", ">=4.0,<4.4"): True,
    ("4.4.0", ">=4.0,<4.4"): False,
    ("4.4.0.dev1", ">=4.0,<4.4"): False,
    ("3.5.6", ">=4.0,<4.4"): False,
    ("26.0", ">=18"): True,
    ("17.0.1", ">=18"): False,
    ("14.0.2", "==14.0.2"): True,
    ("1.0", ""): True,
    ("4.0", ">=4.0.0"): True,
}


@pytest.mark.parametrize(("version", "limits"), FITS)
def test_versions_are_compared_by_their_numbers(version: str, limits: str) -> None:
    assert fits(version, limits) == FITS[version, limits]


def test_a_package_that_is_too_old_or_missing_is_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"pyarrow", "pyspark", "s3fs"} <= {needed.name for needed in requirements()}
    from importlib import metadata

    real = metadata.version

    def version(name: str) -> str:
        if name == "sqlglot":
            raise metadata.PackageNotFoundError(name)
        return "3.5.6" if name == "pyspark" else real(name)

    monkeypatch.setattr(metadata, "version", version)
    run = Run(capsys, ["doctor"])
    assert run.code == 1
    wrong = "\n".join(lines_of(run, "wrong"))
    assert "sqlglot is missing" in wrong
    assert re.search(r"pyspark 3\.5\.6 does not fit: lance-spark\[spark\] needs [<>=4.,0]+", wrong)


@pytest.mark.slow
def test_the_planner_is_installed_into_a_session_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "lance_spark", "doctor", "--start-spark", "--json"]
    monkeypatch.delenv("JAVA_HOME")
    if HOME_OF_JAVA:
        monkeypatch.setenv("JAVA_HOME", HOME_OF_JAVA)
    done = subprocess.run(command, capture_output=True, text=True)
    planner = [one for one in json.loads(done.stdout)["findings"] if one["topic"] == "planner"]
    assert planner[-1] == {"topic": "planner", "state": "ok", "text": "it was installed into a session"}


@pytest.mark.slow
def test_spark_that_does_not_start_is_told(java: Callable[[str], None]) -> None:
    command = [sys.executable, "-m", "lance_spark", "doctor", "--start-spark"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(r"wrong  planner .* does not start", done.stdout)
    assert "Traceback" not in done.stderr
