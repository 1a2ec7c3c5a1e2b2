"""A disk that is full, a disk that is read-only, too many open files: a change is made or refused by our error, and nothing is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import lance
import pytest

from lance_spark import Dataset
from lance_spark.errors import RefConflictError
from tests import programs
from tests.sample import FULL, by_turns, others_slow
from tests.table.crash import CHANGES, NEW
from tests.table.test_crash import OLD, goes_on, made, state, table_at

NAMESPACE = ("unshare", "--map-root-user", "--mount")
"""A program with mounts of its own, which also a user who is not root may make where the system allows it."""
CREATIONS = ("create", "shallow_clone", "deep_clone")
ELSEWHERE = ("create_vector_index", "create_vector_index_meanwhile", "put_into_log")
"""Changes of other tables than `template`, with tests of their own: test_vectors_killed.py and mem_wal/writing/test_interrupted.py."""
OF_TEMPLATE = [name for name in CHANGES if name not in ELSEWHERE]
SAMPLE = ("append", "merge", "compact_with_indexes", "create_index", "create")
can_mount = pytest.mark.skipif(
    not shutil.which("unshare") or bool(subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode),
    reason="this system does not let its users mount disks of their own",
)


@pytest.fixture
def template(name: str, tmp_path: Path) -> str:
    """Version 1: three rows; 2: six; 3: one of them deleted; for changes of indexes: 4: an index; 5: rows that it does not cover.

    For merges of branches: a table with the branch dev, which has changed rows.
    """
    uri = str(tmp_path / "template")
    if name in ("merge_branch", "fast_forward"):
        branch = Dataset.open(made(uri, stable=True)).create_branch("dev")
        branch.update({"s": "'dev'"}, "a = 1").delete("a = 2").insert(NEW)
        return uri
    lance.write_dataset(OLD, uri)
    lance.write_dataset(OLD, uri, mode="append")
    lance.dataset(uri).delete("a = 3 AND s = 'z' AND _rowid < 5")
    if "ind" in name:
        lance.dataset(uri).create_scalar_index("a", "BTREE")
        lance.write_dataset(OLD, uri, mode="append")
    return uri


def outcomes(need: str, name: str, template: str, folder: Path, first: int = 0) -> list[str]:
    """What a writer reports with every sixth amount, from `first` on; with more than the last one it succeeds."""
    mounts = () if need == "descriptors" else NAMESPACE
    told: list[str] = json.loads(programs.run("tests.table.starved", need, name, template, str(folder), str(first), under=mounts))
    assert [one for one in told if not one.startswith(("done", "StorageError: "))] == []
    return told


def check(name: str, template: str, folder: Path, told: list[str]) -> None:
    """A change that was refused has changed nothing, and can be repeated; one that was made is whole."""
    before = state(template)
    for number, one in enumerate(told):
        uri = str(folder / str(number))
        if name == "create" or name == "deep_clone":
            assert (table_at(f"{uri}/new") is not None) == (one == "done")
        if one != "done":
            assert state(uri) == before
            assert Dataset.open(uri).verify(decode=False).orphans == (), one
            try:
                CHANGES[name](uri)
            except RefConflictError:
                Dataset.open(uri).branches.delete("dev")
                CHANGES[name](uri)
        if name not in CREATIONS:
            goes_on(uri)


@can_mount
@pytest.mark.parametrize(("name", "turn"), by_turns([name for name in OF_TEMPLATE if FULL or name in SAMPLE]))
def test_a_full_disk_refuses_a_change_and_keeps_the_table(name: str, turn: int, template: str, tmp_path: Path) -> None:
    told = outcomes("disk", name, template, tmp_path, turn)
    assert told[-1] == "done"
    assert name in ("cleanup", "drop_index", "create_tag") or turn > 2 or len(told) > 1  # 2 pages are never enough
    assert [one for one in told[:-1] if "the disk is full" not in one] == []
    check(name, template, tmp_path, told)


@pytest.mark.parametrize(("name", "turn"), by_turns([name for name in OF_TEMPLATE if FULL or name in SAMPLE]))
def test_too_many_open_files_refuse_a_change_and_keep_the_table(name: str, turn: int, template: str, tmp_path: Path) -> None:
    told = outcomes("descriptors", name, template, tmp_path, turn)
    assert told[-1] == "done"
    assert turn > 2 or len(told) > 1  # 2 files are never enough
    assert [one for one in told[:-1] if "Too many open files" not in one] == []
    check(name, template, tmp_path, told)


@can_mount
@pytest.mark.parametrize("name", others_slow([name for name in OF_TEMPLATE if name != "cleanup"], SAMPLE))
def test_a_disk_that_cannot_be_written_refuses_every_change(name: str, template: str, tmp_path: Path) -> None:
    told = outcomes("read-only", name, template, tmp_path)
    assert len(told) == 1
    assert "Read-only file system" in told[0]
    assert state(str(tmp_path / "0")) == state(template)
