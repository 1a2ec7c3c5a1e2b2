"""Folders of compiled code: only what this user or root has written is read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from lance_spark.kernels import code_folders
from lance_spark.kernels.code_folders import PACKAGED, is_trusted, kernel_folders, read, writable, write

ANOTHER = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file, in a folder of its own."""
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True, mode=0o755)
    write(folder, "code", b"code")
    code_folders._may_be_exchanged.cache_clear()
    code_folders._warn_once.cache_clear()
    return folder


def test_a_folder_of_the_user_is_used_and_so_is_a_link_of_the_user_to_it(folder: Path, tmp_path: Path) -> None:
    assert read(folder, "code") == b"code"
    assert read(folder, "other") is None
    (tmp_path / "link").symlink_to(folder)
    assert read(tmp_path / "link", "code") == b"code"
    assert read(tmp_path / "none", "code") is None


@pytest.mark.parametrize("place", ["folder", "file"])
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_what_others_can_write_to_is_not_used(folder: Path, place: str, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    (folder if place == "folder" else folder / "code").chmod(mode)
    assert read(folder, "code") is None
    assert read(folder, "code") is None
    assert "another user owns it or can write to it" in caplog.text
    assert len(caplog.records) == 1


@needs_root
@pytest.mark.parametrize("place", ["folder", "file", "link"])
def test_what_another_user_owns_is_not_used(folder: Path, place: str, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    os.lchown({"folder": folder, "file": folder / "code", "link": link}[place], ANOTHER, ANOTHER)
    assert read(link, "code") is None


@pytest.mark.parametrize(("mode", "used"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_folder_that_others_can_exchange_is_not_used(folder: Path, mode: int, used: bool, tmp_path: Path) -> None:
    folder.parent.chmod(mode)
    (tmp_path / "link").symlink_to(folder)
    for path in (folder, tmp_path / "link"):
        assert (read(path, "code") == b"code") == used
        assert is_trusted(path) == used
        assert (writable([path]) == path) == used


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_plain_files_are_read(folder: Path, kind: str) -> None:
    (folder / "elsewhere").write_bytes(b"code")
    made = folder / "other"
    match kind:
        case "link":
            made.symlink_to(folder / "elsewhere")
        case "pipe":
            os.mkfifo(made, 0o600)
        case "folder":
            made.mkdir()
    assert read(folder, "other") is None


def test_where_kernels_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LANCE_SPARK_KERNELS", str(tmp_path / "named"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    users = [tmp_path / "cache" / "lance-spark", tmp_path / "temporary" / f"lance-spark-{os.getuid()}"]
    assert kernel_folders() == [PACKAGED, tmp_path / "named", *users]
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert kernel_folders() == [tmp_path / "numba" / "lance-spark", tmp_path / "named"]


def test_the_first_writable_folder_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert writable([tmp_path / "file" / "in archive", tmp_path / "second", tmp_path / "third"]) == tmp_path / "second"
    assert (tmp_path / "second").stat().st_mode & 0o777 == 0o755
    assert writable([tmp_path / "file" / "in archive"]) is None


def test_a_user_without_name_and_home_has_only_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert code_folders.user_folders() == [tmp_path / f"lance-spark-{os.getuid()}"]
