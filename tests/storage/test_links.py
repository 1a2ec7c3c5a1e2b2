"""Local stores: links below the root are not followed, and pipes and sockets are errors."""

from __future__ import annotations

import os
import pickle
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError, LanceError, StorageError
from lance_spark.storage.store import Store


def create(store: Store, path: str) -> None:
    with store.create(path) as out:
        out.write(b"ours")


READS: dict[str, Callable[[Store, str], object]] = {
    "read": lambda store, path: store.read(path),
    "read_ranges": lambda store, path: store.read_ranges(path, [ByteRange(0, 4)]),
    "read_tail": lambda store, path: store.read_tail(path, 4),
    "size": lambda store, path: store.size(path),
    "exists": lambda store, path: store.exists(path),
}
WRITES: dict[str, Callable[[Store, str], object]] = {
    "put": lambda store, path: store.put(path, b"ours"),
    "put_if_absent": lambda store, path: store.put_if_absent(path, b"ours"),
    "create": create,
    "delete": lambda store, path: store.delete(path),
}
LISTINGS: dict[str, Callable[[Store, str], object]] = {
    "list": lambda store, path: store.list(path),
    "walk": lambda store, path: store.walk(path),
    "contents": lambda store, path: store.contents(path),
}
ON_FILES = READS | WRITES


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """A folder outside of all roots, which must not change."""
    folder = tmp_path / "secret"
    (folder / "inner").mkdir(parents=True)
    (folder / "file").write_text("private")
    (folder / "inner" / "file").write_text("private")
    yield folder
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) == ["file", "inner", "inner/file"]
    assert (folder / "file").read_text() == (folder / "inner" / "file").read_text() == "private"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "t" / "data").mkdir(parents=True)
    return Store(tmp_path / "t")


@pytest.mark.parametrize("name", [*ON_FILES, *LISTINGS])
@pytest.mark.parametrize("path", ["link", "link/inner", "data/link", "data/link/inner"])
def test_a_folder_that_is_a_link_is_not_followed(store: Store, secret: Path, name: str, path: str) -> None:
    Path(store.uri, path.removesuffix("/inner")).symlink_to(secret)
    with pytest.raises(CorruptFileError, match="symbolic link"):
        LISTINGS[name](store, path) if name in LISTINGS else ON_FILES[name](store, f"{path}/file")


@pytest.mark.parametrize("target", ["../../secret/file", "{secret}/file", "../data/real", "nowhere"])
def test_a_file_that_is_a_link_is_not_followed(store: Store, secret: Path, target: str) -> None:
    store.put("data/real", b"real")
    link = Path(store.uri, "data", "link")
    link.symlink_to(target.format(secret=secret))
    for read in READS.values():
        with pytest.raises(CorruptFileError, match="symbolic link"):
            read(store, "data/link")
    for write in (WRITES["put_if_absent"], create):
        with pytest.raises(FileExistsError):
            write(store, "data/link")
    assert link.is_symlink()
    assert [e.name for e in store.list("data")] == [e.name for e in store.walk("data")] == ["link", "real"]
    store.delete("data/link")
    assert not link.is_symlink()
    link.symlink_to(target.format(secret=secret))
    store.put("data/link", b"replaced")
    assert (store.read("data/link"), store.read("data/real")) == (b"replaced", b"real")
    assert not link.is_symlink()


def test_links_to_folders_are_listed_but_not_followed(store: Store, secret: Path) -> None:
    Path(store.uri, "data", "link").symlink_to(secret)
    Path(store.uri, "data", "loop").symlink_to(".")
    assert [e.name for e in store.walk("")] == ["data/link", "data/loop"]
    for entry in store.walk(""):
        store.delete(entry.name)
    assert store.walk("") == []


def test_the_root_and_the_folders_above_it_may_be_links(store: Store, tmp_path: Path) -> None:
    (tmp_path / "above").symlink_to(tmp_path)
    (tmp_path / "root").symlink_to(tmp_path / "above" / "t")
    for uri in (tmp_path / "above" / "t", tmp_path / "root"):
        there = Store(uri)
        there.put("data/x", b"x")
        assert there.read("data/x") == b"x"
        assert [e.name for e in there.walk("")] == [f"data/{e.name}" for e in there.list("data")] == ["data/x"]
        there.delete("data/x")
    assert store.walk("") == []


def test_a_store_inside_of_another_follows_no_links_on_the_way_to_it(store: Store, secret: Path) -> None:
    Path(store.uri, "tree").symlink_to(secret)
    inner = store.at(f"{store.uri}/tree/inner")
    for there in (inner, pickle.loads(pickle.dumps(inner)), inner.at(store.uri).at(inner.uri)):
        with pytest.raises(CorruptFileError, match="symbolic link"):
            there.read("file")
        with pytest.raises(CorruptFileError, match="symbolic link"):
            there.list("")
    assert Store(inner.uri).read("file") == b"private", "a root that the user names may be anywhere"
    assert store.at(str(secret)).read("file") == b"private"


def test_a_folder_that_is_exchanged_for_a_link_is_never_followed(store: Store, secret: Path) -> None:
    store.put("data/ours", b"ours")
    folder, aside, link = (Path(store.uri, name) for name in ("data", "aside", "link"))
    link.symlink_to(secret)
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            for before, after in ((folder, aside), (link, folder), (folder, link), (aside, folder)):
                os.rename(before, after)

    thread = threading.Thread(target=exchange)
    thread.start()
    seen = set()
    try:
        for _ in range(3000):
            for use in (lambda: store.walk("data"), lambda: store.delete("data/file"), lambda: store.read("data/file")):
                try:
                    seen.add(str(use()))
                except LanceError:
                    continue
    finally:
        done.set()
        thread.join()
    assert {line for line in seen if "private" in line or "file" in line} == set()
    assert any("ours" in line for line in seen)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("make", "words"), [(pipe, "a pipe"), (unix_socket, "a socket"), (device, "a device")])
def test_pipes_and_sockets_are_errors_and_do_not_block(store: Store, make: Callable[[Path], None], words: str) -> None:
    make(Path(store.uri, "data", "x"))
    for read in READS.values():
        with pytest.raises(CorruptFileError, match=f"{words}, expected a file"):
            read(store, "data/x")
    assert [e.name for e in store.list("data")] == ["x"]
    store.delete("data/x")
    assert store.list("data") == []


def test_a_folder_in_place_of_a_file_is_an_error(store: Store) -> None:
    Path(store.uri, "data", "x").mkdir()
    for read in READS.values():
        with pytest.raises(CorruptFileError, match="a folder, expected a file"):
            read(store, "data/x")
    for name, write in WRITES.items():
        with pytest.raises(FileExistsError if name in ("put_if_absent", "create") else StorageError):
            write(store, "data/x")
    assert (store.list("data"), store.walk("data")) == ([], [])


def test_a_folder_named_like_a_file_is_listed(store: Store) -> None:
    for name in ("x.json", "7.manifest", "inner", ".hidden"):
        Path(store.uri, "data", name).mkdir()
    assert [e.name for e in store.list("data")] == ["7.manifest", "x.json"]
    assert store.walk("data") == []


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a file system that keeps such times")
def test_times_after_the_year_9999_are_not_known() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        store = Store(folder)
        store.put("data/x", b"")
        os.utime(f"{folder}/data/x", (2**40, 2**40))
        assert [e.modified for e in store.list("data")] == [None]
