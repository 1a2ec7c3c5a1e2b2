"""The lists of files that COPY INTO has loaded into a table: `_copied/<number>`, each of one load.

A list names the load before it, so that the last one, which a version names, leads to all others
(see `table.commit.copied_files`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from lance_spark.errors import CorruptFileError, MissingFileError
from lance_spark.storage.store import Store

FOLDER = "_copied"
"""The folder in that of a table."""


@dataclass(frozen=True)
class Load:
    """The files of a load, and the number of the one before (0: none)."""

    number: int
    files: tuple[str, ...]
    before: int


def path_of(number: int) -> str:
    """The path of the list of a load."""
    return f"{FOLDER}/{number}"


def put_list(store: Store, load: Load) -> None:
    """Write the list of a load."""
    content = json.dumps({"before": str(load.before), "files": [*load.files]})
    store.put_if_absent(path_of(load.number), content.encode())


def loads(store: Store, last: int | None) -> Iterator[Load]:
    """The load with a number and those before it, the last one first.

    Raises MissingFileError and CorruptFileError for a list that cannot be read.
    """
    number = last
    while number:
        found = _load(store, number)
        yield found
        if found.before >= number:
            raise CorruptFileError(f"{store.uri}/{path_of(number)} names a later load as the one before")
        number = found.before


def _load(store: Store, number: int) -> Load:
    where = f"{store.uri}/{path_of(number)}"
    try:
        found = json.loads(store.read(path_of(number)))
        return Load(number, tuple(map(str, found["files"])), int(found["before"]))
    except FileNotFoundError as e:
        what = f"{where} is missing, which lists the files that COPY INTO has loaded"
        raise MissingFileError(f"{what}; write COPY INTO .. COPY_OPTIONS ('force' = 'true') to load files again") from e
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFileError(f"{where} is no list of the files that COPY INTO has loaded") from e
