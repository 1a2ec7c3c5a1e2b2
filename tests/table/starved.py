"""A writer that has too little of something: a program (`tests.programs`) with the arguments NEED CHANGE TEMPLATE FOLDER FIRST.

The table TEMPLATE is copied to FOLDER/i for the i-th amount n: FIRST and every sixth number (TURNS) after it. A process changes it that
has no more than that: NEED is "disk" (n pages of 4 KiB are free on the disk) or "descriptors" (n files may be opened beside those that are
open); until the change is made. With "read-only" there is one copy, on a disk that cannot be written. Prints one line of JSON: the outcome
for each amount, "done" or the name of the error's class and its text.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
import traceback
from pathlib import Path

from lance_spark.errors import LanceError
from tests.sample import TURNS
from tests.table import crash
from tests.table.crash import CHANGES

_PAGE = 4096


def outcome(name: str, uri: str, free: int | None = None) -> str:
    """Make the change in a process of its own, which may open `free` more files (None: as many as it likes)."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        if free is not None:
            _leave_descriptors(free)
        told = "foreign"
        try:
            CHANGES[name](uri)
            told = "done"
        except LanceError as e:
            told = f"{type(e).__name__}: {e}"
        finally:
            if told == "foreign":
                traceback.print_exc()
            os.write(write, told.encode()[:4000])
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    return told or f"ended with status {status}"


def _leave_descriptors(free: int) -> None:
    """Allow `free` more open files. The limit is on the numbers of files, so numbers below it that are unused are taken first."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    while os.dup(0) < highest:
        pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2 + free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def on_disk(name: str, template: str, folder: Path, free: int | None) -> str:
    """The outcome on a disk of its own with `free` free pages (None: one that is read-only). The table is then copied to `folder`."""
    with tempfile.TemporaryDirectory() as disk:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "none", disk], check=True)
        try:
            uri = f"{disk}/t"
            shutil.copytree(template, uri)
            used = os.statvfs(disk)
            pages = (used.f_blocks - used.f_bfree) * used.f_frsize // _PAGE
            options = "ro" if free is None else f"size={(pages + free) * _PAGE}"
            subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)
            told = outcome(name, uri)
            shutil.copytree(uri, folder)
        finally:
            subprocess.run(["umount", disk], check=True)
    return told


def warm() -> None:
    """Do what takes long the first time in a process once, for all that are forked."""
    crash.warm()


def main(need: str, name: str, template: str, folder: str, first: str) -> None:
    """See the module's docstring."""
    # What takes long the first time in a process, or opens files of modules, is done once, here, for all that are forked.
    shutil.copytree(template, f"{folder}/warm")
    CHANGES[name](f"{folder}/warm")
    told: list[str] = []
    while not told or (told[-1] != "done" and len(told) < 500):
        copy, amount = Path(folder) / str(len(told)), int(first) + TURNS * len(told)
        if need == "descriptors":
            shutil.copytree(template, copy)
            told.append(outcome(name, str(copy), amount))
        else:
            told.append(on_disk(name, template, copy, None if need == "read-only" else amount))
        if need == "read-only":
            break
    print(json.dumps(told))
