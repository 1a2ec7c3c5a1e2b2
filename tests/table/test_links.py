"""Untrusted tables with links instead of folders and files: no operation reads, changes or removes their targets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError

BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
ROWS = pa.table([pa.array(range(4), pa.int64()), [b"x" * 70_000] * 4], schema=pa.schema([pa.field("a", pa.int64()), BLOB]))
SMALL = pa.table([pa.array([9], pa.int64()), [b"small"]], schema=ROWS.schema)
IN_DATABASE = ["_versions", "tree", "tree/dev/_versions"]
"""Folders that hold what a database of manifests names."""


@dataclass(frozen=True)
class Place:
    """A table, its storage options, and the folder of the links' targets."""

    folder: Path
    options: dict[str, str]
    outside: Path

    @property
    def uri(self) -> str:
        return str(self.folder / "t")

    def open(self, **at: str | int) -> Dataset:
        return Dataset.open(self.uri, storage_options=self.options, **at)  # type: ignore[arg-type]

    def write(self, mode: str = "append") -> Dataset:
        return Dataset.write(self.uri, SMALL, mode, storage_options=self.options)  # type: ignore[arg-type]

    def sidecars(self) -> str:
        """The folder of the large blobs of the branch's source."""
        return next(str(p.relative_to(self.uri)) for p in Path(self.uri, "data").iterdir() if p.is_dir())

    def replace(self, folder: str) -> None:
        """Replace a folder by a link. The folder is moved away, and its files get old modification times."""
        folder = self.sidecars() if folder == "sidecars" else folder
        (self.outside / "_versions").mkdir(exist_ok=True)
        shutil.move(f"{self.uri}/{folder}", self.outside / "folder")
        Path(self.outside, "folder", "private").write_text("of the user")
        for path in [self.outside, *self.outside.rglob("*")]:
            os.utime(path, (time.time() - 30 * 86400,) * 2)
        Path(self.uri, folder).symlink_to(self.outside / "folder")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A table with blobs, a deletion, an index, a tag, clones (one recorded as older versions did), a branch, and automatic cleanup."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "place").mkdir()
    options = {} if request.param == "plain" else {"manifest_store": f"sqlite://{tmp_path}/place/manifests.db"}
    place = Place(tmp_path / "place", options, tmp_path / "outside")
    Dataset.write(place.uri, ROWS, storage_options=options)
    if not options:
        lance.dataset(place.uri).create_scalar_index("a", "BTREE")
    tagged = place.open().delete("a = 3")
    tagged.tags.create("tag")
    tagged.shallow_clone(str(place.folder / "clone"))
    recorded = Path(place.uri, "_refs", "clones", "x.json")
    recorded.parent.mkdir()
    recorded.write_text(json.dumps({"uri": str(place.folder / "clone"), "version": tagged.version, "branch": None}))
    branch = tagged.create_branch("dev")
    Dataset.write(branch.uri, SMALL, "append", storage_options=options)
    place.open().update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    return place


def cleanup(dataset: Dataset) -> object:
    return dataset.cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)


# With a part that no index answers, conditions need the data files.
OPERATIONS: dict[str, Callable[[Place], object]] = {
    "scan": lambda place: place.open().scan().to_table(),
    "count": lambda place: place.open().count_rows("a > 1 OR _rowaddr < 0"),
    "take": lambda place: place.open().take([1]),
    "take_blobs": lambda place: place.open().take_blobs("b", indices=[0])[0].readall(),  # type: ignore[union-attr]
    "versions": lambda place: place.open().versions(),
    "history": lambda place: place.open().history(),
    "tag": lambda place: place.open(tag="tag").count_rows(),
    "list tags": lambda place: place.open().tags.list(),
    "make tag": lambda place: place.open().tags.create("new"),
    "move tag": lambda place: place.open().tags.update("tag"),
    "delete tag": lambda place: place.open().tags.delete("tag"),
    "branch": lambda place: place.open(branch="dev").scan().to_table(),
    "append to branch": lambda place: Dataset.write(place.open(branch="dev").uri, SMALL, "append", storage_options=place.options),
    "delete in branch": lambda place: place.open(branch="dev").delete("a = 9"),
    "clean up branch": lambda place: cleanup(place.open(branch="dev")),
    "list branches": lambda place: place.open().branches.list(),
    "make branch": lambda place: place.open().create_branch("new"),
    "make branch inside": lambda place: place.open().create_branch("dev/new"),
    "delete branch": lambda place: place.open().branches.delete("dev"),
    "append": lambda place: place.write(),
    "overwrite": lambda place: place.write("overwrite"),
    "delete": lambda place: place.open().delete("a = 1 OR _rowaddr < 0"),
    "config": lambda place: place.open().update_config({"k": "v"}),
    "restore": lambda place: place.open(tag="tag").restore(),
    "clean up": lambda place: cleanup(place.open()),
    "verify": lambda place: place.open().verify(),
    "shallow clone": lambda place: place.open().shallow_clone(f"{place.uri}-shallow"),
    "deep clone": lambda place: place.open().deep_clone(f"{place.uri}-deep"),
}
NEED_THE_FOLDER = {
    "data": ["scan", "count", "take", "take_blobs", "append", "overwrite", "delete", "clean up", "deep clone"],
    "_deletions": ["scan", "count", "take", "delete", "clean up", "deep clone"],
    "_indices": ["clean up"],
    "_refs": ["tag", "list tags", "make tag", "branch", "make branch", "clean up"],
    "_refs/tags": ["tag", "list tags", "make tag", "move tag", "delete tag", "delete branch", "clean up"],
    "_refs/branches": ["branch", "list branches", "make branch", "delete branch", "clean up"],
    "_refs/clones": ["clean up", "delete branch"],
    "_transactions": ["append", "overwrite", "config", "delete", "restore", "clean up"],
    "_versions": ["scan", "versions", "append", "overwrite", "clean up"],
    "tree": ["branch", "append to branch", "clean up branch", "make branch", "delete branch", "clean up"],
    "tree/dev": ["branch", "append to branch", "clean up branch", "make branch inside", "delete branch", "clean up"],
    "tree/dev/_versions": ["branch", "append to branch", "clean up branch", "delete branch", "clean up"],
    "tree/dev/data": ["branch", "append to branch", "clean up branch", "delete branch"],
    "sidecars": ["scan", "take_blobs"],
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


def said(place: Place, words: str, tmp_path: Path) -> set[str]:
    """The operations whose error contains `words`. After each one, everything is restored."""
    found, before, outside = set(), tmp_path / "before", contents(place.outside)
    os.rename(place.folder, before)
    for name, operation in OPERATIONS.items():
        subprocess.run(["cp", "-a", before, place.folder], check=True)
        try:
            operation(place)
        except LanceError as e:
            found |= {name} if words in str(e) else set()
        assert contents(place.outside) == outside
        shutil.rmtree(place.folder)
    return found


@pytest.mark.parametrize(
    ("place", "folder"), [("plain", f) for f in NEED_THE_FOLDER] + [("sqlite", f) for f in IN_DATABASE], indirect=["place"]
)
def test_no_operation_follows_a_folder_that_is_a_link(place: Place, tmp_path: Path, folder: str) -> None:
    place.replace(folder)
    assert set(NEED_THE_FOLDER[folder]) <= said(place, "symbolic link", tmp_path)


NEED_THE_FILE = {
    "data": ["scan", "count", "take", "take_blobs", "delete", "deep clone"],
    "sidecars": ["scan", "take_blobs", "deep clone"],
    "_deletions": ["scan", "count", "take", "take_blobs", "delete", "deep clone"],
    "_indices": ["deep clone"],
    "_refs/tags": ["tag", "list tags", "move tag", "delete tag", "clean up", "delete branch"],
    "_refs/branches": ["branch", "list branches", "delete branch", "make branch", "clean up"],
    "_refs/clones": [],
    "_transactions": [],
    "_versions": ["scan", "append", "overwrite", "versions", "clean up", "verify"],
    "tree/dev/_versions": ["branch", "append to branch", "clean up branch"],
    "tree/dev/data": ["branch"],
}


def link(path: Path, outside: Path) -> None:
    shutil.move(path, outside / "file")
    path.symlink_to(outside / "file")


def pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.timeout(60)
@pytest.mark.matrix
@pytest.mark.parametrize(("make", "words"), [(link, "symbolic link"), (pipe, "a pipe"), (folder, "a folder")])
@pytest.mark.parametrize("kind", NEED_THE_FILE)
@pytest.mark.parametrize("place", ["plain"], indirect=True)
def test_no_operation_follows_links_or_blocks_on_pipes(
    place: Place, tmp_path: Path, kind: str, make: Callable[[Path, Path], None], words: str
) -> None:
    parent = Path(place.uri, place.sidecars() if kind == "sidecars" else kind)
    for number, path in enumerate([p for p in parent.rglob("*") if p.is_file() and "hint" not in p.name]):
        (place.outside / str(number)).mkdir()
        make(path, place.outside / str(number))
    assert set(NEED_THE_FILE[kind]) <= said(place, words, tmp_path)
