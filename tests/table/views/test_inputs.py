"""What a refresh learns of an input: whatever its past is, changed rows are never taken for unchanged ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata.view_records import ViewInput
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.views.inputs import changes_since, now_read, pending_rows, read_input

SCHEMA = pa.schema([("id", pa.int32()), ("x", pa.int32()), ("s", pa.struct({"a": pa.int32(), "b": pa.int32()}))])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "x": ids, "s": [{"a": i, "b": -i} for i in ids]}, SCHEMA)


@dataclass(frozen=True)
class Past:
    """What happens to an input, and what a refresh must say of it: `none`, `added`, `changed`, or why the changes are unknown.

    `reads` is what the query names: the table, its branch `b`, or its tag `g`.
    """

    happens: Callable[[Path], object]
    expected: str
    reads: str = ""
    has_row_ids: bool = True


def table(path: Path) -> Dataset:
    return Dataset.open(path)


def append(path: Path, *ids: int) -> Dataset:
    return Dataset.write(path, rows(*ids), mode="append")


def made(path: Path, has_row_ids: bool = True) -> None:
    """A table of one version, with the branch `b` and the tag `g`."""
    created = Dataset.write(path, rows(1, 2, 3), enable_stable_row_ids=has_row_ids)
    created.create_branch("b")
    created.tags.create("g", 1)


def made_again(path: Path) -> Dataset:
    shutil.rmtree(path)
    made(path)
    return table(path)


def rename(path: Path, *pairs: tuple[str, str]) -> None:
    for old, new in pairs:
        lance.dataset(path).alter_columns({"path": old, "name": new})


def move_tag(path: Path, to: int | tuple[str, int]) -> int | tuple[str, int]:
    lance.dataset(path).tags.update("g", to)
    return to


def branch_again(path: Path) -> None:
    in_branch(path)
    table(path).branches.delete("b")
    table(path).create_branch("b")
    in_branch(path, "id = 2")


def in_branch(path: Path, condition: str = "id = 1") -> Dataset:
    return Dataset.open(path, branch="b").delete(condition)


def without_references(path: Path) -> Path:
    table(path).tags.delete("g")
    table(path).branches.delete("b")
    return path


def cleaned_up(path: Path) -> object:
    """Two more versions, of which only the last one stays, unless a tag keeps others."""
    append(path, 4)
    latest = append(path, 5)
    return latest.cleanup_old_versions(timedelta(0), retain_versions=1, error_if_tagged_old_versions=False)


CLEANED = "has no version 1 any more"
PASTS = {
    "nothing": Past(lambda path: None, "none"),
    "compacted": Past(lambda path: append(path, 9).delete("id = 9").optimize.compact_files(), "changed"),
    "indexed": Past(lambda path: table(path).create_scalar_index("x", "BTREE"), "none"),
    "appended": Past(lambda path: append(path, 4), "added"),
    "deleted": Past(lambda path: table(path).delete("id = 2"), "changed"),
    "updated": Past(lambda path: table(path).update({"x": "x + 1"}), "changed"),
    "overwritten": Past(lambda path: Dataset.write(path, rows(5), mode="overwrite"), "was overwritten in version 2"),
    "restored": Past(lambda path: (append(path, 4), table(path).checkout_version(1).restore()), "was restored in version 3"),
    "dropped and made again": Past(lambda path: (made_again(path), append(path, 4)), "was dropped and made again"),
    "dropped and made again, at the same version": Past(made_again, "was dropped and made again"),
    "cleaned up": Past(lambda path: cleaned_up(without_references(path)), CLEANED),
    "cleaned up after the tagged version": Past(lambda path: cleaned_up(path), "the version 2 of t was cleaned up"),
    "a column dropped and made again": Past(
        lambda path: table(path).drop_columns(["x"]).add_columns({"x": "id * 3"}), "has another column 'x'"
    ),
    "a column gets the name of another": Past(
        lambda path: rename(path, ("id", "old"), ("x", "id"), ("old", "x")), "has another column 'id'"
    ),
    "a type is widened": Past(
        lambda path: lance.dataset(path).alter_columns({"path": "x", "data_type": pa.int64()}),
        "has another column 'x'",
    ),
    "fields of a struct swap names": Past(lambda path: rename(path, ("s.a", "c"), ("s.b", "a"), ("s.c", "b")), "has another column 's'"),
    "a branch is merged": Past(lambda path: (in_branch(path), table(path).branches.merge("b")), "changed"),
    "a branch is published": Past(lambda path: (in_branch(path), table(path).branches.fast_forward("main", "b")), "changed"),
    "a branch is published, without row ids": Past(
        lambda path: (in_branch(path), table(path).branches.fast_forward("main", "b")),
        "was given the rows of another branch",
        has_row_ids=False,
    ),
    "branch: nothing": Past(lambda path: append(path, 4), "none", "b"),
    "branch: deleted rows": Past(in_branch, "changed", "b"),
    "branch: deleted and made again": Past(branch_again, "was dropped and made again", "b"),
    "tag: nothing": Past(lambda path: append(path, 4), "none", "g"),
    "tag: moved on": Past(lambda path: (append(path, 4), move_tag(path, 2)), "added", "g"),
    "tag: moved on past a restore": Past(
        lambda path: (append(path, 4), table(path).checkout_version(1).restore(), move_tag(path, 3)),
        "was restored in version 3",
        "g",
    ),
    "tag: moved to a branch": Past(lambda path: (in_branch(path), move_tag(path, ("b", 2))), "is another table than", "g"),
}


def read(path: Path, reads: str) -> tuple[Snapshot, ViewInput]:
    """The input as a query names it, and what a view remembers of it."""
    tag, branch = reads if reads == "g" else "", reads if reads == "b" else None
    snapshot = open_snapshot(Store(str(path)), tag=tag or None, branch=branch)
    return snapshot, read_input("t", snapshot, ("id", "x", "s"), tag, tag)


@pytest.mark.parametrize("case", PASTS)
def test_changed_rows_are_never_taken_for_unchanged_ones(case: str, tmp_path: Path) -> None:
    past, path = PASTS[case], tmp_path / "t.lance"
    made(path, past.has_row_ids)
    _, recorded = read(path, past.reads)
    past.happens(path)
    snapshot, now = read(path, past.reads)
    changes = changes_since(recorded, now, snapshot)
    told = "added" if changes.only_adds else "changed"
    assert past.expected in (changes.unknown or (told if changes.is_changed else "none"))
    # A listing shows no input as read whose rows have changed.
    latest = now_read(recorded, Store)
    pending = None if latest is None else pending_rows(recorded, latest)
    assert (pending == 0) == (past.expected == "none")
