"""Tables that are found by listing the root: folders `<name>.lance`.

Implements the V1 layout of the directory namespace specification. A non-empty folder is a table, even if it is only reserved, unless it
contains the file `.lance-deregistered`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from enum import Enum

from lance_spark.errors import CorruptFileError
from lance_spark.namespace.protocol import is_name
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import VERSIONS

SUFFIX = ".lance"
RESERVED = ".lance-reserved"
DEREGISTERED = ".lance-deregistered"
_CONNECTIONS = 32
"""Concurrent requests: each waits for the store most of the time."""


class State(Enum):
    """The kind of a folder."""

    ABSENT = "absent"
    DEREGISTERED = "deregistered"
    DECLARED = "declared"
    TABLE = "table"


def folder_of(name: str) -> str:
    """The folder of a table in the root."""
    return f"{name}{SUFFIX}"


def state_of(root: Store, folder: str) -> State:
    """The kind of a folder below the root. Raises CorruptFileError for a symbolic link."""
    files, folders = root.contents(folder)
    names = {entry.name for entry in files}
    if DEREGISTERED in names:
        return State.DEREGISTERED
    if RESERVED in names and VERSIONS not in folders:
        return State.DECLARED
    return State.TABLE if names or folders else State.ABSENT


def list_folders(root: Store) -> list[str]:
    """The names of the tables in the root. Symbolic links are ignored."""
    names = [name.removesuffix(SUFFIX) for name in root.contents("")[1] if name.endswith(SUFFIX)]
    names = [name for name in names if is_name(name)]
    if not root.is_remote:
        return [name for name in names if _is_table(root, name)]
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return [name for name, there in zip(names, pool.map(lambda name: _is_table(root, name), names)) if there]


def _is_table(root: Store, name: str) -> bool:
    try:
        return state_of(root, folder_of(name)) in (State.DECLARED, State.TABLE)
    except CorruptFileError:
        return False  # replaced by a link after the listing
