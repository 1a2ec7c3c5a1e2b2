"""The folders with compiled code that this process may load, and may write: nobody else can have put code into them.

Whoever can write a file that a process loads as code runs code in that process. So a folder is used only if this user or root owns it and
no one else can write to it, and so is each file. Both are opened first and checked then, so nobody can exchange them in between. What the
wheel brings is part of the package, and trusted as its modules are.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pkgutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

SHIPPED = Path(__file__).with_name("ready")
"""The kernels that the wheel brings, for the usual versions and processors (see `scripts/kernels.py`). It may be in a zip file."""
PACKAGED = Path(__file__).with_name("compiled")
"""The package's own folder of compiled kernels. Whoever installs the package as root fills it for all users with `lance-spark warm`."""
_NAMED = "LANCE_SPARK_KERNELS"
_NUMBAS = "NUMBA_CACHE_DIR"
_TELLS_OWNERS = hasattr(os, "getuid")
"""Without it, as on Windows, nothing tells who can have written a file: kernels are compiled by each process."""
_READ_BY_ALL, _READ_BY_OWNER = 0o755, 0o700
_LOG = logging.getLogger("lance_spark")


def read_folders() -> list[Path]:
    """Where compiled kernels are looked up, in this order."""
    return [SHIPPED, *kernel_folders()]


def kernel_folders() -> list[Path]:
    """Where compiled kernels are kept: they are written to the first of these folders that is writable.

    NUMBA_CACHE_DIR takes the place of the package's folder and of the user's own, as it does for all functions that numba compiles.
    """
    named, numbas = os.environ.get(_NAMED), os.environ.get(_NUMBAS)
    chosen = [Path(named)] if named else []
    if numbas:
        return [Path(numbas, "lance-spark"), *chosen]
    return [PACKAGED, *chosen, *user_folders()]


def user_folders() -> list[Path]:
    """The user's cache folder, and one of the user's own in the temporary directory, for users without a home."""
    home = os.path.expanduser("~")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    # For a user without a name, "~" remains as it is.
    folders = [Path(cache, "lance-spark")] if os.path.isabs(cache) else []
    if not _TELLS_OWNERS:
        return folders
    with contextlib.suppress(FileNotFoundError):  # no directory for temporary files can be written to
        folders.append(Path(tempfile.gettempdir(), f"lance-spark-{os.getuid()}"))
    return folders


def writable(folders: list[Path]) -> Path | None:
    """The first of the folders that this user can write to, which is made if there is none."""
    own = user_folders()
    for folder in folders if _TELLS_OWNERS else ():
        mode = _READ_BY_OWNER if folder in own else _READ_BY_ALL
        with contextlib.suppress(OSError):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
            if is_trusted(folder) and os.access(folder, os.W_OK):
                return folder
    return None


def is_trusted(folder: Path) -> bool:
    """True if only this user or root can have written to this folder, as far as files say who owns them: not on Windows."""
    if not _TELLS_OWNERS:
        return False
    with _opened(folder) as opened:
        return opened is not None


def read(folder: Path, name: str) -> bytes | None:
    """A file of a folder; None if there is none, or if others may have written it."""
    if folder == SHIPPED:
        return _shipped(name)
    if not _TELLS_OWNERS:
        return None
    with _opened(folder) as opened:
        return None if opened is None else _content(opened, folder, name)


def _shipped(name: str) -> bytes | None:
    try:
        return pkgutil.get_data(__package__, f"{SHIPPED.name}/{name}")
    except OSError:
        return None


def write(folder: Path, name: str, content: bytes) -> None:
    """Make or replace a file of a folder, which processes see as a whole. Raises OSError."""
    temporary = folder / f".{name}.{uuid.uuid4().hex}.tmp"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "wb") as file:
            file.write(content)
        os.replace(temporary, folder / name)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """The descriptor of a folder; None if there is none, or if it is not trusted."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield opened if _is_kept_from_others(opened, folder) else None
    finally:
        os.close(opened)


def _is_kept_from_others(opened: int, folder: Path) -> bool:
    if not _is_own(os.fstat(opened)):
        _warn_once(f"the compiled code in {folder} is not used: another user owns it or can write to it")
        return False
    if _may_be_exchanged(folder):
        _warn_once(f"the compiled code in {folder} is not used: another user can exchange a folder above it")
        return False
    return True


def _content(opened: int, folder: Path, name: str) -> bytes | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    flags |= os.O_NONBLOCK  # a pipe would wait for its other end
    try:
        with open(os.open(name, flags, dir_fd=opened), "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and _is_own(found):
                return file.read()
            _warn_once(f"{folder / name} is not used: another user owns it or can write to it")
    except FileNotFoundError:
        return None
    except OSError as e:
        _warn_once(f"{folder / name} cannot be read: {e.strerror}")
    return None


def _is_own(found: os.stat_result) -> bool:
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid in (0, os.getuid()) and not others_write


@functools.cache
def _may_be_exchanged(folder: Path) -> bool:
    """True if everybody can rename what is in a folder above this one, or if this one is another user's link.

    The folders above are those of its path, and those of the folder to which its links lead.
    """
    if os.path.islink(folder) and os.lstat(folder).st_uid not in (0, os.getuid()):
        return True
    above = {*folder.absolute().parents, *Path(os.path.realpath(folder)).parents}
    modes = [path.stat().st_mode for path in above]
    return any(mode & stat.S_IWOTH and not mode & stat.S_ISVTX for mode in modes)


@functools.cache
def _warn_once(message: str) -> None:
    _LOG.warning(message)
