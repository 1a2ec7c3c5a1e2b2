"""Python functions that users have registered in a session of Spark, as arguments of table functions."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer

from lance_spark.errors import InvalidOptionError

_FOLDER = "lance-spark-functions-"
"""The start of the name of the folder that RegisteredFunctions.java writes to."""


@dataclass(frozen=True)
class RegisteredFunction:
    """A function of `spark.udf.register`, which is loaded where it is called: it crosses to tasks."""

    name: str
    pickled: bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, path: str) -> RegisteredFunction:
        """The function of this name, whose pickle the driver has written (RegisteredFunctions.java).

        Raises InvalidOptionError for a file that others may have written.
        """
        file = Path(path)
        if not (file.parent.name.startswith(_FOLDER) and _is_private(file.parent) and _is_own_file(file)):
            raise InvalidOptionError(f"the function {name} is not run: its file {path} is not one that this user's driver has written")
        return cls(name, file.read_bytes())

    @property
    def __name__(self) -> str:
        """The name of the function, for messages."""
        return self.name

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """What the function returns for all rows."""
        return _loaded(self.pickled)(batch)


def _is_private(folder: Path) -> bool:
    """Whether this user alone can use a folder. So the permissions of its files, which depend on the umask, do not matter."""
    found = _own(folder)
    return found is not None and stat.S_ISDIR(found.st_mode) and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _is_own_file(path: Path) -> bool:
    """Whether a file is this user's, and no link."""
    found = _own(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def _own(path: Path) -> os.stat_result | None:
    """What is there, if it is this user's."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if found.st_uid == os.getuid() else None


@lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> Callable[[pa.RecordBatch], Any]:
    serializer: Any = CloudPickleSerializer  # which has no types
    function, _ = serializer().loads(pickled)
    found: Callable[[pa.RecordBatch], Any] = function
    return found
