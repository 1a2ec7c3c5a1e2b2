"""The planner's compiled classes: in the jar that the wheel has, or in one that a session compiled and keeps for later ones.

The wheel's jar is compiled against the newest Spark that is supported. It has the digest of the sources that it was made of, and is used
only beside these sources. The name of a kept jar has a digest of the sources and of all that compiles them, so its content never changes;
processes that make the same one at the same time replace it by an equal one. Kept jars are in a folder of the user's own: `folder`.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import logging
import os
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from py4j.protocol import Py4JError

from lance_spark.kernels.code_folders import user_folders, writable

PACKAGED = Path(__file__).with_name("classes.jar")
"""The jar that `make build` makes and the wheel has. In a checkout there is none."""
DIGEST = "lancespark/sources.sha256"
"""The entry of the wheel's jar with the digest of its sources."""
_KEPT = 4
"""So many kept jars are left in their folder: one for each Spark that a user is likely to switch between. Older ones are removed."""
_UNREADABLE = (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What zipfile raises for a file that is no jar, or not a whole one. NotImplementedError is for a compression that it does not know."""
_LOG = logging.getLogger("lance_spark")


def digest_of(sources: Mapping[str, str]) -> str:
    """The digest of sources by path."""
    return _digest(part.encode() for entry in sorted(sources.items()) for part in entry)


def packaged(sources: Mapping[str, str]) -> Path | None:
    """The wheel's jar, if it was made of these sources. A copy of it, if the package is in a zip file."""
    found = PACKAGED if PACKAGED.exists() else _unpacked()
    if found is None:
        return None
    try:
        with zipfile.ZipFile(found) as jar:
            made_of = jar.read(DIGEST).decode("ascii", "replace")
            return found if made_of == digest_of(sources) and jar.testzip() is None else None
    except (KeyError, *_UNREADABLE):
        return None


def _unpacked() -> Path | None:
    """A copy of the jar that the zip file of --py-files has, which is kept as compiled classes are; None if there is none."""
    zipped = importlib.resources.files(__package__) / PACKAGED.name
    if not zipped.is_file():
        return None
    content = zipped.read_bytes()
    jar = jar_of([content], "packaged")
    if jar is not None and not is_whole(jar):
        keep(jar, lambda path: Path(path).write_bytes(content))
    return jar


def folder() -> Path | None:
    """Where compiled classes are kept: the user's cache folder, else one of the user's own in the temporary directory.

    Code is loaded from it, so it must belong to this user or to root, and no one else may be able to write to it; None if there is none.
    """
    return writable(user_folders())


def jar_of(parts: Iterable[bytes], kind: str = "planner") -> Path | None:
    """The jar of the classes that these parts determine, which need not exist; None if nothing can be kept."""
    place = folder()
    return None if place is None else place / f"{kind}-{_digest(parts)[:32]}.jar"


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def is_whole(jar: Path) -> bool:
    """True if the jar exists and all of it can be read. A class that is missing later would leave the session without the planner."""
    try:
        with zipfile.ZipFile(jar) as opened:
            return opened.testzip() is None
    except _UNREADABLE:
        return False


def keep(jar: Path, write: Callable[[str], object]) -> None:
    """Make the jar, which `write` writes to a path, and remove those of its kind that have not been made or used for longest."""
    temporary = jar.with_name(f".{jar.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            write(str(temporary))
            os.replace(temporary, jar)
        finally:
            temporary.unlink(missing_ok=True)
        by_age = sorted(jar.parent.glob(f"{jar.name.partition('-')[0]}-*.jar"), key=lambda kept: kept.stat().st_mtime, reverse=True)
        for old in by_age[_KEPT:]:
            old.unlink(missing_ok=True)
    except (OSError, Py4JError) as e:
        _LOG.debug("the planner's classes are not kept: %s", e)
