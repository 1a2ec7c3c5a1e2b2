"""Local files of systems without the calls of Linux: a table is written and read there, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.storage.local import LocalFiles
from lance_spark.storage.paths import PathFiles

WITHOUT_LINUX = """
import os, sys
for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "fork", "getuid", "pread", "preadv", "sched_getaffinity"):
    delattr(os, name)
os.supports_dir_fd, os.supports_fd = set(), set()
"""
A_TABLE = """
import json, sys
import pyarrow as pa
import lance_spark, lance_spark.cli.main, lance_spark.loaders, lance_spark.namespace
from lance_spark import Dataset

uri = sys.argv[1]
table = Dataset.write(uri, pa.table({"id": range(100), "text": [f"t{i}" for i in range(100)]}), max_rows_per_file=40)
table = table.insert(pa.table({"id": [100], "text": ["new"]})).delete("id < 50").update({"text": "upper(text)"}, "id = 60")
table = table.create_scalar_index("id", "BTREE")
table.optimize.compact_files()
table = Dataset.open(uri)
table.cleanup_old_versions(retain_versions=1)
batches = [batch["id"].to_pylist() for batch in lance_spark.loaders.Batches(uri, ["id"], batch_size=20, shuffle=True)]
found = table.to_table(filter="id IN (60, 100)").to_pydict()
print(json.dumps([table.count_rows(), found, sorted(sum(batches, [])), table.verify().problems]))
"""


@pytest.mark.parametrize("system", ["this one", "without fcntl and the calls of Linux"])
def test_a_table_is_written_and_read(tmp_path: Path, system: str) -> None:
    script = A_TABLE if system == "this one" else WITHOUT_LINUX + A_TABLE
    # Kernels that are kept would not be found, and all be compiled: it is the plain Python that is tested.
    ended = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "USERNAME": "somebody"},
    )
    assert ended.returncode == 0, ended.stderr
    rows, found, ids, problems = json.loads(ended.stdout.splitlines()[-1])
    assert (rows, ids, problems) == (51, list(range(50, 101)), [])
    assert found == {"id": [100, 60], "text": ["new", "T60"]} or found == {"id": [60, 100], "text": ["T60", "new"]}


def lines(value: Any) -> Any:
    """A result in a form that can be compared."""
    if isinstance(value, list | tuple):
        return [lines(each) for each in value]
    return bytes(value) if hasattr(value, "tobytes") or isinstance(value, bytes) else value


def created(files: LocalFiles, folder: str) -> object:
    with files.create(f"{folder}/new/a.bin") as f:
        f.write(b"abc")
    return files.read(f"{folder}/new/a.bin")


def failed(files: LocalFiles, folder: str) -> object:
    try:
        with files.create(f"{folder}/b.bin") as f:
            f.write(b"abc")
            raise RuntimeError("the writer fails")
    except RuntimeError:
        return files.names(folder)


WORKS: dict[str, Callable[[Any, str], object]] = {
    "read": lambda files, folder: files.read(f"{folder}/a.bin"),
    "read ranges": lambda files, folder: files.read_ranges(f"{folder}/a.bin", [ByteRange(1, 3), ByteRange(4, 100), ByteRange(50, 60)]),
    "read the tail": lambda files, folder: files.read_tail(f"{folder}/a.bin", 3),
    "read the end": lambda files, folder: files.read_end(f"{folder}/a.bin", 300),
    "read nothing": lambda files, folder: files.read(f"{folder}/no.bin"),
    "read a link": lambda files, folder: files.read(f"{folder}/link.bin"),
    "read in a linked folder": lambda files, folder: files.read(f"{folder}/linked/a.bin"),
    "read a folder": lambda files, folder: files.read(f"{folder}/inner"),
    "about": lambda files, folder: files.about(f"{folder}/a.bin").size,
    "names": lambda files, folder: sorted(files.names(folder)),
    "names of nothing": lambda files, folder: files.names(f"{folder}/no"),
    "contents": lambda files, folder: (sorted(file.name for file in files.contents(folder)[0]), sorted(files.contents(folder)[1])),
    "walk": lambda files, folder: sorted(entry.name for entry in files.walk(folder)),
    "put": lambda files, folder: [
        files.put(f"{folder}/x/y.bin", b"1"),
        files.put(f"{folder}/x/y.bin", b"2"),
        files.read(f"{folder}/x/y.bin"),
    ],
    "put what is absent": lambda files, folder: [files.put_if_absent(f"{folder}/y.bin", b"1"), files.read(f"{folder}/y.bin")],
    "put what is there": lambda files, folder: files.put_if_absent(f"{folder}/a.bin", b"1"),
    "put in a file": lambda files, folder: files.put(f"{folder}/a.bin/b.bin", b"1"),
    "put in a linked folder": lambda files, folder: files.put(f"{folder}/linked/b.bin", b"1"),
    "create": created,
    "create what is there": lambda files, folder: files.create(f"{folder}/a.bin").__enter__(),
    "create and fail": failed,
    "delete": lambda files, folder: [files.delete(f"{folder}/a.bin"), sorted(files.names(folder))],
    "delete nothing": lambda files, folder: files.delete(f"{folder}/no.bin"),
    "delete a folder": lambda files, folder: [files.delete_folder(f"{folder}/inner"), sorted(files.names(folder))],
    "remove empty folders": lambda files, folder: [files.remove_empty_folders(folder), sorted(files.names(folder))],
    "move a folder": lambda files, folder: [files.move_folder(f"{folder}/inner", f"{folder}/other"), files.names(f"{folder}/other")],
    "sync": lambda files, folder: files.sync(folder),
    "turn": lambda files, folder: files.turn(folder).__enter__(),
}


@pytest.mark.parametrize("name", WORKS)
def test_files_by_their_paths_are_those_of_open_folders(tmp_path: Path, name: str) -> None:
    found = []
    for number, kind in enumerate((LocalFiles, PathFiles)):
        root = tmp_path / str(number)
        (root / "t" / "inner").mkdir(parents=True)
        (root / "t" / "empty" / "deep").mkdir(parents=True)
        (root / "elsewhere").mkdir()
        (root / "t" / "a.bin").write_bytes(b"0123456789")
        (root / "t" / "inner" / "c.bin").write_bytes(b"c")
        (root / "t" / "link.bin").symlink_to("a.bin")
        (root / "t" / "linked").symlink_to("../elsewhere")
        try:
            result = lines(WORKS[name](kind(str(root)), f"{root}/t"))
        except Exception as e:  # noqa: BLE001
            result = (type(e).__name__, str(e).replace(str(root), "ROOT").split(";")[0] if "link" in name else "")
        found.append((result, sorted(str(path.relative_to(root)) for path in root.rglob("*"))))
    assert found[0] == found[1]
