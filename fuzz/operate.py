"""One operation on one hostile table, and what must hold afterwards.

The operation does its work or raises a LanceError. If it raises, everything that was there is there still, as it was. If it has done its
work on a table that we could read, we can read it afterwards, rows and all; and so can pylance if it could before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from fuzz.operations import NEW_ROWS, OPERATIONS, Operation
from fuzz.oracle import Oracle
from fuzz.place import table
from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.table.versions.ref_files import CLONE_TAG

ORACLE = Oracle()
_MAY_REMOVE = ("cleanup", "tags", "branch")
"""Operations that are made of steps, some of which remove files, before one that may fail."""


class BrokenPromiseError(Exception):
    """The table is not as it must be after an operation."""


def operate(source: str, changes: Mapping[str, bytes | None], name: str, seed: int) -> str:
    """Carry out an operation on a copy of a table with changed files: "done" or "refused". Whatever is raised is a finding."""
    operation = OPERATIONS[name]
    with table(source, changes) as folder:
        before = _files(folder)
        try:
            operation.run(str(folder), random.Random(seed))
        except LanceError as e:
            _check_unharmed(source, changes, folder, before, name, e)
            return "refused"
        if not operation.changes:
            _check_same_files(folder, before, "reading")
        else:
            _check_readable(source, changes, folder, operation)
    return "done"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _check_same_files(folder: Path, before: Mapping[str, bytes], what: str) -> None:
    """Nothing that was there has changed, and there is no new version or ref, but the tag of a clone that was made before it was read."""
    after = {path: data for path, data in _files(folder).items() if not path.startswith(f"_refs/tags/{CLONE_TAG}")}
    gone = [path for path, data in before.items() if after.get(path) != data and not path.endswith("latest_version_hint.json")]
    new = [p for p in after.keys() - before.keys() if p.startswith(("_versions/", "_refs/tags", "_refs/branches"))]
    if gone or new:
        raise BrokenPromiseError(f"{what} has changed or removed {gone} and added {new}")


def _check_unharmed(
    source: str, changes: Mapping[str, bytes | None], folder: Path, before: Mapping[str, bytes], name: str, e: LanceError
) -> None:
    if name in _MAY_REMOVE:
        _check_readable(source, changes, folder, OPERATIONS[name])
    else:
        _check_same_files(folder, before, f"{name}, which failed with {type(e).__name__}: {e},")


def _rows(uri: str) -> int | None:
    """How many rows we read; None if we refuse."""
    try:
        return int(Dataset.open(uri).scan().to_table().num_rows)
    except LanceError:
        return None


def _check_readable(source: str, changes: Mapping[str, bytes | None], folder: Path, operation: Operation) -> None:
    with table(source, changes) as untouched:
        ours, theirs = _rows(str(untouched)), ORACLE.look(str(untouched))
    ours_now, theirs_now = _rows(str(folder)), ORACLE.look(str(folder))
    more = {"same": 0, "more": NEW_ROWS}.get(operation.rows)
    agreed = ours == theirs.rows  # where not, the table means something else to each from the start
    if ours is not None and (ours_now is None or (more is not None and ours_now != ours + more)):
        raise BrokenPromiseError(f"{ours} rows were read before, {ours_now} afterwards")
    if not theirs.error and (theirs_now.error or (agreed and more is not None and theirs_now.rows != theirs.rows + more)):
        raise BrokenPromiseError(f"pylance read {theirs} before, {theirs_now} afterwards")
