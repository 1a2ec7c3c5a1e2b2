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
        if not (file.parent.name.startswith(_FOLDER) and _is_own(file.parent) and _is_own(file)):
            raise InvalidOptionError(f"the function {name} is not run: its file {path} is not one that this user's driver has written")
        return cls(name, file.read_bytes())

    @property
    def __name__(self) -> str:
        """The name of the function, for messages."""
        return self.name

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """What the function returns for all rows."""
        return _loaded(self.pickled)(batch)


def _is_own(path: Path) -> bool:
    """Whether this user alone can have written a file or a folder, which exists and is no link."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    is_link = stat.S_ISLNK(found.st_mode)
    return found.st_uid == os.getuid() and not is_link and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@lru_cache(maxsize=16)
def _loaded(pickled: bytes) -> Callable[[pa.RecordBatch], Any]:
    serializer: Any = CloudPickleSerializer  # which has no types
    function, _ = serializer().loads(pickled)
    found: Callable[[pa.RecordBatch], Any] = function
    return found
