"""The program: exit codes, one line for an error, and commands that print text and JSON."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset, __version__
from lance_spark.cli.main import main
from tests.markup import HOSTILE, assert_harmless

TABLE_COMMANDS = ["inspect", "info", "schema", "head", "count", "history", "verify", "cleanup", "compact"]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of three versions."""
    uri = str(tmp_path / "t.lance")
    for message in ("first", "second", None):
        dataset = Dataset.write(uri, pa.table({"a": range(10), "s": ["x"] * 10}), "append", commit_message=message)
    dataset.tags.create("v2", 2)
    dataset.create_branch("dev")
    return uri


class Run:
    """The exit code, standard output and standard error of a command."""

    def __init__(self, capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> None:
        try:
            self.code: Any = main(words)
        except SystemExit as e:
            self.code = e.code
        self.out, self.err = capsys.readouterr()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def test_help_and_version_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert Run(capsys, ["--version"]).out == f"lance-spark {__version__}\n"
    help = Run(capsys, ["--help"])
    assert help.code == 0
    assert all(command in help.out for command in [*TABLE_COMMANDS, "jar", "warm"])
    for command in [*TABLE_COMMANDS, "jar", "warm"]:
        assert "--json" in Run(capsys, [command, "--help"]).out
    for command in TABLE_COMMANDS:
        assert "--storage-option KEY=VALUE" in Run(capsys, [command, "--help"]).out


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["info"],
        ["info", "t", "--version", "x"],
        ["info", "t", "--version", "1", "--tag", "v"],
        ["head", "t", "--rows", "0"],
        ["count"],
        ["tags", "t"],
        ["tags", "create", "t"],
        ["compact", "t", "--target-rows", "many"],
        ["info", "t", "--storage-option", "secret"],
        ["info", "t", "--storage-option", "=secret"],
        ["history", "t", "--limit", "0"],
        ["cleanup", "t", "--retain-versions", "-1"],
        ["cleanup", "t", "--older-than", "soon"],
        ["cleanup", "t", "--before-timestamp", "soon"],
        ["compact", "t", "--excluded-fragment-ids", "1,x"],
        ["compact", "t", "--materialize-deletions-threshold", "many"],
        ["indexes", "create", "t", "a", "IVF_PQ", "--ivf-centroids", "[["],
        ["indexes", "create", "t", "a"],
        ["tags", "create", "t", "v", "--version", "x"],
        ["inspect", "t", "--max-files", "no"],
        ["inspect", "t", "--json", "--html", "f"],
    ],
)
def test_invalid_usage_exits_with_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    run = Run(capsys, words)
    assert run.code == 2
    assert re.fullmatch(r"lance-spark.*: error: .*; see lance-spark.* --help\n", run.err)
    assert "secret" not in run.err
    assert run.out == ""


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(capsys, [])
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("usage: lance-spark")
    assert "compact" in run.err


@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_errors_are_one_line_on_stderr_and_exit_code_2(capsys: pytest.CaptureFixture[str], command: str, uri: str) -> None:
    for words in (
        [command, f"{uri}.not\nthere"],
        [command, "ftp://host/table"],
        [command, ""],
        [command, uri, "--storage-option", "no_such=x"],
        [command, uri, "--branch", "none"],
    ):
        run = Run(capsys, words)
        assert run.code == 2
        assert run.out == ""
        assert run.err.startswith("lance-spark: error: ")
        assert run.err.count("\n") == 1


def test_a_version_a_tag_or_a_branch_is_shown(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    assert "version 3, " in Run(capsys, ["info", uri]).out
    assert "version 1, " in Run(capsys, ["info", uri, "--version", "1"]).out
    assert "version 2, " in Run(capsys, ["info", uri, "--tag", "v2"]).out
    assert "version 3 of branch dev, " in Run(capsys, ["info", uri, "--branch", "dev"]).out
    missing = Run(capsys, ["info", uri, "--version", "9"])
    assert (missing.code, missing.err) == (2, f"lance-spark: error: {uri} has no version 9; existing versions: 1 to 3\n")


def test_info_prints_the_columns_tags_branches_and_configuration(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    Dataset.open(uri).update_config({"owner": "me"})
    lines = Run(capsys, ["info", uri]).out.splitlines()
    assert lines[1].startswith("30 rows, 3 fragments, storage version 2.")
    assert "a       int64" in lines
    assert lines[-3:] == ["tag v2: version 2", "branch dev: from version 3 of main", "config owner: me"]
    shown = Run(capsys, ["info", uri, "--json"]).json
    assert shown["overview"]["rows"] == 30
    assert [c["name"] for c in shown["overview"]["columns"]] == ["a", "s"]
    assert shown["tags"]["v2"]["version"] == 2
    assert shown["branches"]["dev"]["parent_version"] == 3
    assert shown["config"] == {"owner": "me"}


def test_head_prints_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    day, price = datetime.date(2020, 1, 1), decimal.Decimal("1.50")
    rows = pa.table({"id": [1, 2, 30], "name": ["a", None, "long " * 90], "day": [day] * 3, "price": [price] * 3, "raw": [b"\x01"] * 3})
    uri = Dataset.write(str(tmp_path / "t"), rows).uri
    lines = Run(capsys, ["head", uri, "--columns", "id, name", "-n", "2"]).out.splitlines()
    assert lines == ["id  name", " 1  a", " 2  null"]
    (long,) = Run(capsys, ["head", uri, "--columns", "name", "--filter", "id > 3"]).out.splitlines()[1:]
    assert len(long) == 201
    shown = Run(capsys, ["head", uri, "--filter", "id = 1", "--json"]).json
    assert shown == [{"id": 1, "name": "a", "day": "2020-01-01", "price": "1.50", "raw": "01"}]
    wrong = Run(capsys, ["head", uri, "--columns", "nmae"])
    assert (wrong.code, wrong.out) == (2, "")
    assert "no column 'nmae'; did you mean 'name'?" in wrong.err
    assert Run(capsys, ["head", uri, "--filter", "id >"]).code == 2


def test_count_and_schema_of_a_version(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    assert Run(capsys, ["count", uri]).out == "30\n"
    assert Run(capsys, ["count", uri, "--tag", "v2", "--filter", "a < 3"]).out == "6\n"
    assert Run(capsys, ["count", uri, "--version", "1", "--json"]).json == {"rows": 10}
    assert Run(capsys, ["schema", uri]).out.splitlines() == ["column  type", "a       int64", "s       string"]
    assert [column["type"] for column in Run(capsys, ["schema", uri, "--json"]).json] == ["int64", "string"]


def test_tags_are_listed_created_moved_and_deleted(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    assert Run(capsys, ["tags", "list", uri]).out.splitlines() == ["tag  version  branch", "v2         2  main"]
    assert Run(capsys, ["tags", "create", uri, "best", "--version", "1"]).out == "tag best: version 1\n"
    assert "exists" in Run(capsys, ["tags", "create", uri, "best"]).err
    assert Run(capsys, ["tags", "update", uri, "best", "--json"]).json == {"tag": "best", "version": 3}
    refused = Run(capsys, ["tags", "delete", uri, "best"])
    assert (refused.code, "Delete the tag best of version 3?" in refused.err) == (2, True)
    assert Run(capsys, ["tags", "delete", uri, "best", "--yes"]).out == "deleted the tag best of version 3\n"
    assert {*Run(capsys, ["tags", "list", uri, "--json"]).json} == {"v2"}
    assert Run(capsys, ["tags", "delete", uri, "best", "--yes"]).code == 2


def test_compact_joins_fragments(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    assert Run(capsys, ["compact", uri]).out == "version 4: 3 fragments became 1\n"
    assert Run(capsys, ["compact", uri]).out == "nothing to compact in 1 fragment of version 4\n"
    shown = Run(capsys, ["compact", uri, "--branch", "dev", "--target-rows", "20", "--json"]).json
    assert (shown["fragments_before"], shown["fragments"]) == (3, 2)
    assert lance.dataset(uri).count_rows() == 30


def test_operations_print_their_rows_and_take_values_of_each_kind(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    made = Run(capsys, ["indexes", "create", uri, "s", "INVERTED", "--no-lower-case", "--custom-stop-words", "of, the", "--json"])
    assert made.json == [{"version": 4, "index_name": "s_idx", "fragments_indexed": 3}]
    assert Run(capsys, ["indexes", "statistics", uri]).out.splitlines()[1].split()[:4] == ["s_idx", '["s"]', "Inverted", "3"]
    wrong = Run(capsys, ["compact", uri, "--materialize-deletions-threshold", "5"])
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "lance-spark: error: materialize_deletions_threshold must be from 0 to 1, not 5.0\n"
    assert Run(capsys, ["compact", uri, "--excluded-fragment-ids", "0,1,2"]).out == "nothing to compact in 3 fragments of version 4\n"
    assert Run(capsys, ["cleanup", uri, "--before-timestamp", "2001-01-01", "--yes"]).out.startswith("removed 0 versions")
    refused = Run(capsys, ["branches", "delete", uri, "dev"])
    assert (refused.code, "Delete the branch dev?" in refused.err) == (2, True)
    assert Run(capsys, ["branches", "delete", uri, "dev", "--yes"]).out == "deleted the branch dev\n"
    assert Run(capsys, ["constraints", "add", uri, "c", "a > 5"]).err.startswith("lance-spark: error: ")


def test_restore_asks_and_makes_a_version_the_latest(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    assert (
        Run(capsys, ["restore", uri, "--yes"]).err == "lance-spark: error: restore needs either version (a number or a tag) or timestamp\n"
    )
    refused = Run(capsys, ["restore", uri, "--version", "1"])
    assert (refused.code, "Restore version 1, which has 10 rows?" in refused.err) == (2, True)
    assert Run(capsys, ["restore", uri, "--version", "1", "--yes"]).out == "version 4 has the rows of version 1\n"
    assert Run(capsys, ["restore", uri, "--tag", "v2", "--yes", "--json"]).json == {"restored": 2, "version": 5}
    assert lance.dataset(uri).count_rows() == 20


@pytest.mark.slow
def test_sql_runs_with_spark(uri: str) -> None:
    def sql(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "lance_spark", "sql", *words], capture_output=True, text=True)

    done = sql(f"SELECT a, count(*) AS n FROM lance.`{uri}` WHERE a < 2 GROUP BY a ORDER BY a", "--json")
    assert json.loads(done.stdout) == [{"a": 0, "n": 3}, {"a": 1, "n": 3}]
    assert "starting Spark" in done.stderr
    assert sql(f"SELECT count(*) AS n FROM lance.{Path(uri).stem}", "--root", str(Path(uri).parent)).stdout == " n\n30\n"
    wrong = sql("SELEC 1")
    assert wrong.returncode == 2
    assert "error: [PARSE_SYNTAX_ERROR]" in wrong.stderr.splitlines()[-1]


def test_history_prints_the_newest_versions(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    lines = Run(capsys, ["history", uri, "--limit", "2"]).out.splitlines()
    assert [line.split()[0] for line in lines] == ["version", "3", "2"]
    entries = Run(capsys, ["history", uri, "--json"]).json
    assert [(e["version"], e["operation"], e["message"]) for e in entries][1:] == [(2, "Append", "second"), (1, "Overwrite", "first")]


def test_history_prints_as_many_versions_as_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({"a": [1]}))
    for i in range(105):
        dataset = dataset.update_config({"n": str(i)})
    assert len(Run(capsys, ["history", dataset.uri]).out.splitlines()) == 101
    assert len(Run(capsys, ["history", dataset.uri, "--limit", "105"]).out.splitlines()) == 106


def test_verify_exits_with_1_if_a_file_is_missing(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    fine = Run(capsys, ["verify", uri])
    assert (fine.code, fine.out) == (0, f"{uri}, version 3: 3 files, 0 problems, 0 orphans\n")
    gone = sorted(Path(uri, "data").iterdir())[0]
    os.unlink(gone)
    for command in (["verify", uri], ["verify", uri, "--no-decode"], ["inspect", uri]):
        wrong = Run(capsys, command)
        assert wrong.code == 1
        assert gone.name in wrong.out
    shown = Run(capsys, ["verify", uri, "--json"])
    assert shown.code == 1
    assert shown.json["ok"] is False
    assert shown.json["report"]["problems"][0]["kind"] == "missing"


def test_cleanup_reports_what_it_would_remove_and_removes_it(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    assert Run(capsys, ["cleanup", uri]).out == "removed 0 versions, 0 files, 0 bytes\n"
    dry = Run(capsys, ["cleanup", uri, "--dry-run", "--retain-versions", "1", "--json"]).json
    # Version 2 has a tag, and a branch began with version 3.
    assert (dry["dry_run"], dry["removed"]["old_versions"]) == (True, 1)
    assert [v.version for v in Dataset.open(uri).versions()] == [1, 2, 3]
    listed = Run(capsys, ["cleanup", uri, "--dry-run", "--older-than", "0s"]).out.splitlines()
    assert listed[0].startswith("would remove 1 version, 2 files, ")
    assert len(listed) == 3
    assert Run(capsys, ["cleanup", uri, "--older-than", "0s", "--yes"]).out.startswith("removed 1 version, 2 files, ")
    assert [v.version for v in Dataset.open(uri).versions()] == [2, 3]


class Terminal(io.StringIO):
    """Standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


def test_cleanup_asks_before_it_removes(capsys: pytest.CaptureFixture[str], uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remove, question = ["cleanup", uri, "--older-than", "0s"], "Remove 1 version, 2 files, "
    refused = Run(capsys, remove)
    assert refused.code == 2
    assert question in refused.err
    assert "add --yes" in refused.err
    for answer in ("\n", "n\n", ""):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        asked = Run(capsys, remove)
        assert (asked.code, asked.out) == (1, "")
        assert question in asked.err
    assert [v.version for v in Dataset.open(uri).versions()] == [1, 2, 3]
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert Run(capsys, remove).out.startswith("removed 1 version, 2 files, ")
    assert [v.version for v in Dataset.open(uri).versions()] == [2, 3]


def test_inspect_prints_text_json_or_a_page(capsys: pytest.CaptureFixture[str], uri: str, tmp_path: Path) -> None:
    assert "data files" in Run(capsys, ["inspect", uri]).out
    shown = Run(capsys, ["inspect", uri, "--max-files", "1", "--json"]).json
    assert shown["sample"]["files_read"] == 1
    assert {c["path"] for c in shown["columns"]} == {"a", "s"}
    page = tmp_path / "page.html"
    written = Run(capsys, ["inspect", uri, "--html", str(page)])
    assert (written.code, written.out) == (0, f"wrote {page}\n")
    assert "30 rows" in assert_harmless(page.read_text()).text
    refused = Run(capsys, ["inspect", uri, "--html", str(tmp_path / "no" / "folder.html")])
    assert refused.code == 2
    assert "No such file or directory): give --html a file in a folder that exists" in refused.err


@pytest.mark.parametrize("command", TABLE_COMMANDS)
def test_hostile_names_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str], command: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({HOSTILE: [1]}), commit_message=HOSTILE, transaction_properties={HOSTILE: HOSTILE})
    Path(uri, "data", "a\x1b[31mb.lance").touch()
    for words in ([command, uri], [command, uri, "--json"]):
        run = Run(capsys, words)
        assert run.code == 0
        assert "\x1b" not in run.out
        assert "\u202e" not in run.out


def test_a_storage_option_reaches_the_store(capsys: pytest.CaptureFixture[str], s3_server: str) -> None:
    options = {"endpoint": s3_server, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test", "allow_http": "true"}
    Dataset.write("s3://tables/cli.lance", pa.table({"a": [1]}), storage_options=options)
    words = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
    for command in TABLE_COMMANDS:
        assert Run(capsys, [command, "s3://tables/cli.lance", *words]).code == 0


def test_the_module_runs_as_a_program(uri: str) -> None:
    done = subprocess.run([sys.executable, "-m", "lance_spark", "info", f"{uri}x"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"python -m lance_spark: error: no Lance table found at {uri}x; did you mean 't.lance'?\n"


def test_a_closed_output_is_not_an_error(uri: str) -> None:
    command = subprocess.Popen([sys.executable, "-m", "lance_spark", "info", uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout is not None
    command.stdout.close()
    assert command.stderr is not None
    assert command.stderr.read() == b""
    command.stderr.close()
    assert command.wait() == 141


def test_characters_that_the_terminal_lacks_are_escaped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"größe": [1]}))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "lance_spark", "info", uri], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout


def test_an_interrupt_ends_the_command_with_exit_code_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        options = {"endpoint": f"http://127.0.0.1:{port}", "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
        words = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
        command = [sys.executable, "-m", "lance_spark", "info", "s3://bucket/t.lance", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            # The command asks for the versions, and waits for an answer that never comes.
            connection, _ = server.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=250)
    assert (process.returncode, out, err) == (130, "", "python -m lance_spark: interrupted\n")


def test_jar_says_why_spark_does_not_start(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "lance_spark", "jar", str(tmp_path / "out.jar")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: Spark, which compiles the planner, does not start" in done.stderr.splitlines()[-1]


def test_a_terminal_shows_progress_which_an_interrupt_removes(tmp_path: Path) -> None:
    pytest.importorskip("tqdm", reason="tqdm is optional")
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(3000)}), uri, max_rows_per_file=1)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen([sys.executable, "-m", "lance_spark", "verify", uri], stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        # tqdm does not remove a bar whose first drawing is interrupted.
        while shown.count(b"verify files") < 3:
            shown += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # that the other end is closed
            while read := os.read(ours, 1000):
                shown += read
    os.close(ours)
    assert process.returncode == 130
    assert shown.endswith(b"\rpython -m lance_spark: interrupted\r\n")
