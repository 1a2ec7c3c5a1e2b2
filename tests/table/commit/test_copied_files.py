"""COPY INTO loads each file once: whenever a load is killed, whoever loads at the same time, and whatever becomes of the history."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, MissingFileError
from lance_spark.table.commit.copied_files import copied, is_committed, prepared
from lance_spark.table.versions.copy_lists import FOLDER
from tests.sample import TURNS, by_turns
from tests.table.crash import FILES, NEW, loaded
from tests.table.test_crash import crashed

ROOT = Path(__file__).parents[3]
FIRST = {"file:/a": NEW}
LOADERS = 4


@pytest.fixture
def table(uri: str) -> str:
    """A table of one row, without files."""
    Dataset.write(uri, NEW.slice(0, 1))
    return uri


def count(uri: str) -> int:
    return int(lance.dataset(uri).count_rows())


@pytest.mark.parametrize("turn", by_turns([()]))
def test_a_killed_load_is_loaded_once_by_the_next_one(turn: int, table: str, tmp_path: Path) -> None:
    for uri in crashed("copy_into", table, tmp_path / "killed", TURNS, turn + 1):
        assert count(uri) in (1, 3)
        assert (count(uri) == 3) == (copied(Dataset.open(uri).snapshot) == set(FILES))
        loaded(uri, FILES)
        assert count(uri) == 3


LOADER = """
import sys
from tests.sample import TURNS, by_turns
from tests.table.crash import NEW, loaded
uri, own = sys.argv[1:]
for i in range(4):
    loaded(uri, {f"file:/{i}": NEW, f"file:/{own}-{i}": NEW})
"""


def test_loaders_in_several_processes_load_each_file_once(table: str) -> None:
    loaders = [subprocess.Popen([sys.executable, "-c", LOADER, table, str(own)], cwd=ROOT) for own in range(LOADERS)]
    assert [loader.wait() for loader in loaders] == [0] * LOADERS
    files = {f"file:/{i}" for i in range(4)} | {f"file:/{own}-{i}" for own in range(LOADERS) for i in range(4)}
    assert copied(Dataset.open(table).snapshot) == files
    assert count(table) == 1 + NEW.num_rows * len(files)


def test_what_is_loaded_is_known_without_history_and_forgotten_with_the_rows(table: str) -> None:
    loaded(table, FIRST)
    lance.write_dataset(NEW, table, mode="append")
    loaded(table, {**FIRST, "file:/b": NEW})
    Dataset.open(table).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert copied(Dataset.open(table).snapshot) == {"file:/a", "file:/b"}
    loaded(table, FIRST)
    assert count(table) == 7
    kept = Dataset.open(table).version
    loaded(table, {"file:/c": NEW})
    Dataset.open(table, version=kept).restore()
    assert copied(Dataset.open(table).snapshot) == {"file:/a", "file:/b"}
    loaded(table, {"file:/c": NEW})
    assert count(table) == 9


def test_a_load_that_is_not_committed_counts_for_nothing(table: str) -> None:
    loaded(table, FIRST)
    number = prepared(Dataset.open(table).snapshot, ["file:/b"])
    latest = Dataset.open(table).snapshot
    assert copied(latest) == {"file:/a"}
    assert not is_committed(latest, number)


def test_what_a_table_has_loaded_does_not_count_for_its_branch_and_its_clone(table: str) -> None:
    loaded(table, FIRST)
    Dataset.open(table).create_branch("b")
    assert copied(Dataset.open(table, branch="b").snapshot) == set()
    Dataset.open(table).deep_clone(f"{table}.clone")
    assert copied(Dataset.open(f"{table}.clone").snapshot) == set()


def test_a_list_that_is_lost_or_damaged_is_an_error(table: str) -> None:
    loaded(table, FIRST)
    [path] = Path(table, FOLDER).iterdir()
    content = path.read_bytes()
    for wrong in (b"", b"[]", content.replace(b'"before": "0"', b'"before": "9' + b"9" * 60 + b'"')):
        path.write_bytes(wrong)
        with pytest.raises(CorruptFileError, match=FOLDER):
            copied(Dataset.open(table).snapshot)
    path.unlink()
    with pytest.raises(MissingFileError, match="force"):
        copied(Dataset.open(table).snapshot)


def aged(table: str) -> set[str]:
    """The lists of a table, which are eight days old now."""
    for path in Path(table, FOLDER).iterdir():
        os.utime(path, (time.time() - 8 * 86400,) * 2)
    return {path.name for path in Path(table, FOLDER).iterdir()}


def cleaned(table: str, dry_run: bool = False, delete_unverified: bool = False) -> set[str]:
    """The lists that are left after a removal of all old versions."""
    opened = Dataset.open(table)
    opened.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False, dry_run=dry_run, delete_unverified=delete_unverified)
    return {path.name for path in Path(table, FOLDER).iterdir()}


def test_a_cleanup_keeps_each_list_to_which_a_kept_version_leads(table: str) -> None:
    loaded(table, FIRST)
    loaded(table, {"file:/b": NEW})
    needed = aged(table)
    Dataset.open(table).tags.create("kept")
    loaded(table, {"file:/c": NEW})
    of_tag = aged(table)
    Dataset.open(table, version=1).restore()
    prepared(Dataset.open(table).snapshot, ["file:/d"])
    everything = aged(table)
    assert len(needed) == 2 < len(of_tag) == 3 < len(everything) == 4
    assert cleaned(table, dry_run=True) == everything
    assert cleaned(table) == needed, "no version leads to the third, and the fourth was not committed"
    Dataset.open(table, tag="kept").restore()
    assert copied(Dataset.open(table).snapshot) == {"file:/a", "file:/b"}
    Dataset.open(table, version=5).restore()
    Dataset.open(table).tags.delete("kept")
    Dataset.open(table).cleanup_old_versions(timedelta(0))
    assert not Path(table, FOLDER).exists()


def test_a_cleanup_keeps_the_list_of_a_load_that_may_be_about_to_commit(table: str) -> None:
    loaded(table, FIRST)
    number = prepared(Dataset.open(table).snapshot, ["file:/b"])
    assert str(number) in cleaned(table)
    assert str(number) not in cleaned(table, delete_unverified=True)
    assert copied(Dataset.open(table).snapshot) == {"file:/a"}


def test_a_cleanup_removes_no_list_where_one_that_is_needed_is_damaged(table: str) -> None:
    loaded(table, FIRST)
    prepared(Dataset.open(table).snapshot, ["file:/b"])
    everything = aged(table)
    for path in Path(table, FOLDER).iterdir():
        path.write_bytes(b"")
    aged(table)
    assert cleaned(table) == everything
