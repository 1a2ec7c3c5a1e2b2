"""Deep clones contain exactly what the manifest declares, even for untrusted tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, LanceError, MissingFileError, UnsupportedFeatureError
from lance_spark.metadata.fragment import BasePath, DataFile, ExternalFile, Fragment, IndexFile
from lance_spark.metadata.manifest import Manifest, serialise
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import open_snapshot

pytestmark = pytest.mark.spec("table.md", "Storage Layout")

Change = Callable[[Manifest], Manifest]
BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
ROWS = pa.table([pa.array(range(4), pa.int64()), [b"x" * 70_000] * 4], schema=pa.schema([pa.field("a", pa.int64()), BLOB]))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with large blobs, a deletion, an index and stable row ids, next to files that must not be copied."""
    uri = str(tmp_path / "t")
    Dataset.write(uri, ROWS, enable_stable_row_ids=True).delete("a = 3")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "passwd").write_text("root:secret" * 100)
    return uri


def changed(uri: str, change: Change) -> None:
    snapshot = open_snapshot(Store(uri))
    Store(uri).put(snapshot.path, serialise(change(snapshot.manifest)))


def fragments(change: Callable[[Fragment], Fragment]) -> Change:
    return lambda manifest: replace(manifest, fragments=tuple(change(f) for f in manifest.fragments))


def in_base(place: str, is_root: bool, **changes: object) -> Change:
    """The manifest with its data file below a base path."""

    def change(m: Manifest) -> Manifest:
        files = fragments(lambda f: replace(f, files=(replace(f.files[0], base_id=1, **changes),)))  # type: ignore[arg-type]
        return replace(files(m), base_paths=(BasePath(1, place, is_root),))

    return change


def files(uri: str) -> list[str]:
    return [entry.name for entry in Store(uri).walk("") if "hint" not in entry.name]


def refused(uri: str, error: type[LanceError], words: str, allow_other_stores: bool = False) -> None:
    """Check that a deep clone fails and leaves no file."""
    with pytest.raises(error, match=words):
        Dataset.open(uri, allow_other_stores=allow_other_stores).deep_clone(f"{uri}-deep")
    assert files(f"{uri}-deep") == []


def copied(uri: str, allow_other_stores: bool = False) -> list[str]:
    """The files of a deep clone, after checking that both libraries read the same rows."""
    source = Dataset.open(uri, allow_other_stores=allow_other_stores)
    clone = source.deep_clone(f"{uri}-deep")
    expected = source.scan().to_table()
    assert clone.verify().ok
    assert clone.scan().to_table() == expected
    assert lance.dataset(clone.uri).to_table(columns=["a"]) == expected.select(["a"])
    assert clone.snapshot.manifest.base_paths == ()
    return files(clone.uri)


def test_files_of_untrusted_base_paths_are_not_copied(uri: str, tmp_path: Path) -> None:
    changed(uri, in_base(str(tmp_path / "private"), False, path="passwd"))
    refused(uri, UnsupportedFeatureError, "outside of its folder.*allow_other_stores")
    refused(uri, CorruptFileError, "private/passwd has 1100 bytes, expected", allow_other_stores=True)
    changed(uri, in_base(str(tmp_path / "private"), False, path="passwd", size=1100))
    refused(uri, CorruptFileError, "private/passwd.*not a Lance file", allow_other_stores=True)


@pytest.mark.parametrize("is_root", [True, False])
def test_base_paths_are_copied_if_allowed(uri: str, tmp_path: Path, is_root: bool) -> None:
    other = Dataset.write(tmp_path / "other", ROWS)
    place = other.uri if is_root else f"{other.uri}/data"
    changed(uri, in_base(place, is_root, path=other.snapshot.manifest.fragments[0].files[0].path))
    refused(uri, UnsupportedFeatureError, "outside of its folder")
    assert copied(uri, allow_other_stores=True)


def test_deletion_files_and_indexes_of_untrusted_base_paths_are_not_copied(uri: str, tmp_path: Path) -> None:
    base = (BasePath(3, str(tmp_path / "private"), True),)
    original = open_snapshot(Store(uri)).manifest
    changed(uri, lambda m: replace(m, base_paths=base, indexes=tuple(replace(i, base_id=3) for i in m.indexes)))
    refused(uri, UnsupportedFeatureError, "outside of its folder")
    with_base = fragments(lambda f: replace(f, deletion=f.deletion and replace(f.deletion, base_id=3)))
    changed(uri, lambda _: replace(with_base(original), base_paths=base))
    refused(uri, UnsupportedFeatureError, "outside of its folder")
    changed(uri, lambda _: replace(original, base_paths=base))
    assert copied(uri), "a base path that nothing is in does no harm"


def test_branches_and_recorded_clones_are_copied(uri: str, tmp_path: Path) -> None:
    table = Dataset.open(uri)
    ours, theirs = table.create_branch("ours"), lance.dataset(uri).create_branch("theirs")
    lance.write_dataset(ROWS, theirs, mode="append")
    inner = Dataset.open(uri, branch="theirs").create_branch("inner")
    clone = table.shallow_clone(str(tmp_path / "clone"))
    second = clone.shallow_clone(str(tmp_path / "second"))
    of_branch = ours.shallow_clone(str(tmp_path / "of-branch"))
    for source in (ours, inner, clone, second, of_branch):
        deep = source.deep_clone(f"{tmp_path}/deep/{uuid.uuid4().hex}")
        assert deep.scan().to_table() == source.scan().to_table()
        assert deep.verify().ok
    stranger = lance.dataset(uri).shallow_clone(str(tmp_path / "stranger"), 2)
    refused(stranger.uri, UnsupportedFeatureError, "has not recorded it as a clone")
    assert copied(stranger.uri, allow_other_stores=True)


@pytest.mark.parametrize("kind", ["data", "_deletions", "_indices"])
def test_other_files_are_not_copied(uri: str, tmp_path: Path, kind: str) -> None:
    path = next(p for p in sorted(Path(uri, kind).rglob("*")) if p.is_file() and p.suffix != ".blob")
    content = path.read_bytes()
    path.write_bytes(content[:-4] + b"none")
    if kind == "_indices":
        changed(uri, lambda m: replace(m, indexes=tuple(replace(i, files=()) for i in m.indexes)))
    refused(uri, CorruptFileError, "not a Lance file|CRC-32C")
    path.unlink()
    if kind != "_indices":
        refused(uri, MissingFileError, path.name)


@pytest.mark.parametrize("kind", ["data", "_indices"])
def test_files_of_another_size_are_not_copied(uri: str, kind: str) -> None:
    path = next(p for p in sorted(Path(uri, kind).rglob("*")) if p.is_file() and p.suffix == ".lance")
    path.write_bytes(b"private" + path.read_bytes())
    refused(uri, CorruptFileError, "bytes, expected")


@pytest.mark.parametrize("listed", [True, False])
def test_unreferenced_files_are_not_copied(uri: str, listed: bool) -> None:
    sidecars = next(p for p in Path(uri, "data").iterdir() if p.is_dir())
    (sidecars / "notes.txt").write_text("private")
    (sidecars / "inner").mkdir()
    (sidecars / "inner" / f"{'0' * 32}.blob").write_text("private")
    Path(uri, "data", "notes.txt").write_text("private")
    if listed:
        next(Path(uri, "_indices").iterdir()).joinpath("notes.txt").write_text("private")
    else:
        changed(uri, lambda m: replace(m, indexes=tuple(replace(i, files=()) for i in m.indexes)))
    kinds = sorted(path.partition("/")[0] for path in copied(uri))
    assert kinds == ["_deletions", "_indices", "_indices", "_transactions", "_versions", "data", "data"]
    assert lance.dataset(f"{uri}-deep").to_table(filter="a = 2").num_rows == 1


@pytest.mark.parametrize("path", ["../../private/passwd", "/etc/passwd", "", "x/../../y"])
def test_files_of_an_index_stay_in_its_folder(uri: str, path: str) -> None:
    changed(uri, lambda m: replace(m, indexes=tuple(replace(i, files=(IndexFile(path, 0),)) for i in m.indexes)))
    refused(uri, CorruptFileError, "outside of the table")


def external(uri: str, path: str) -> None:
    """Move the row ids to a file, after other bytes."""

    def change(f: Fragment) -> Fragment:
        assert isinstance(f.row_ids, bytes)
        Store(uri).put(path, b"private" + f.row_ids)
        return replace(f, row_ids=ExternalFile(path, 7, len(f.row_ids)))

    changed(uri, fragments(change))


@pytest.mark.parametrize("path", ["data/ids", "_versions/ids"])
def test_external_row_ids_become_inline(uri: str, path: str) -> None:
    expected = Dataset.open(uri).scan(["a", "_rowid"]).to_table()
    external(uri, path)
    assert path not in copied(uri)
    assert Dataset.open(f"{uri}-deep").scan(["a", "_rowid"]).to_table() == expected


def test_invalid_row_ids_are_not_copied(uri: str) -> None:
    Store(uri).put("data/notes", b"private" * 10)
    changed(uri, fragments(lambda f: replace(f, row_ids=ExternalFile("data/notes", 0, 70))))
    refused(uri, CorruptFileError, "row ids")


def test_two_files_with_one_name_are_refused(uri: str, tmp_path: Path) -> None:
    other = Dataset.write(tmp_path / "t" / "other", ROWS)
    name = other.snapshot.manifest.fragments[0].files[0].path

    def both(m: Manifest) -> Manifest:
        mine: Sequence[DataFile] = m.fragments[0].files
        Path(uri, "data", name).write_bytes(Path(uri, "data", mine[0].path).read_bytes())
        first = replace(m.fragments[0], files=(replace(mine[0], path=name),))
        second = Fragment(1, (replace(mine[0], path=name, base_id=1),), 4, row_ids=m.fragments[0].row_ids)
        return replace(m, fragments=(first, second), base_paths=(BasePath(1, other.uri, True),))

    changed(uri, both)
    refused(uri, UnsupportedFeatureError, "two files")
