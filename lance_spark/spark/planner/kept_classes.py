"""The planner's compiled classes in a jar, which is kept where Python keeps its own compiled files: only one session compiles them.

The name of the jar has a digest of the sources and of all that compiles them, so its content never changes. Processes that make the same
one at the same time replace it by an equal one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from py4j.protocol import Py4JError

_LOG = logging.getLogger("lance_spark")


def jar_of(parts: Iterable[bytes]) -> Path:
    """The jar of the classes that these parts determine, which need not exist."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return Path(importlib.util.cache_from_source(__file__)).with_name(f"planner-{digest.hexdigest()[:32]}.jar")


def is_whole(jar: Path) -> bool:
    """True if the jar exists and all of it can be read. A class that is missing later would leave the session without the planner."""
    try:
        with zipfile.ZipFile(jar) as opened:
            return opened.testzip() is None
    except (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return False


def keep(jar: Path, write: Callable[[str], object]) -> None:
    """Make the jar, which `write` writes to a path. Without a place for it, or if Python keeps no compiled files, there is none."""
    if sys.dont_write_bytecode:
        return
    temporary = jar.with_name(f".{jar.name}.{uuid.uuid4().hex}.tmp")
    try:
        jar.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(str(temporary))
            os.replace(temporary, jar)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, Py4JError) as e:
        _LOG.debug("the planner's classes are not kept: %s", e)
