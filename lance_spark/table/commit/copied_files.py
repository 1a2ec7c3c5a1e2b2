"""The files that COPY INTO has loaded into a table, each once.

A load is a numbered write (see `metadata.numbered_writes`) of the application `COPIES`. Before it,
the paths of its files are written to `_copied/<number>`, with the number of the load before. So the
latest version names the last load, and this the others: what is remembered is committed with the
rows, needs no history, and goes back with RESTORE. Of loads that follow the same one, only the first
is committed. A list whose load was not committed is in no chain, and has no effect. A clone and a
branch begin without loads.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lance_spark.errors import CorruptFileError, MissingFileError
from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION, COPIES, COPY_BITS
from lance_spark.storage.store import Store
from lance_spark.table.commit.idempotence import last_number
from lance_spark.table.versions.snapshot import Snapshot

FOLDER = "_copied"
"""The folder in that of a table."""


@dataclass(frozen=True)
class Load:
    """The files of a load, and the number of the one before (0: none)."""

    files: tuple[str, ...]
    before: int


def load_of(number: int) -> Mapping[str, str]:
    """The options of the write that loads the files of a list."""
    return {APP_ID: COPIES, APP_VERSION: str(number)}


def prepared(latest: Snapshot, paths: Sequence[str]) -> int:
    """Write the list of files of a load that follows `latest`, and return the load's number."""
    before = last_number(latest, COPIES)
    number = ((before or 0) >> COPY_BITS) + 1 << COPY_BITS | secrets.randbits(COPY_BITS)
    content = json.dumps({"before": str(before or 0), "files": [*paths]})
    latest.root.put_if_absent(f"{FOLDER}/{number}", content.encode())
    return number


def forget(latest: Snapshot, number: int) -> None:
    """Remove the list of a load that was not committed."""
    latest.root.delete(f"{FOLDER}/{number}")


def copied(latest: Snapshot) -> set[str]:
    """The paths of all files that have been loaded."""
    return {path for _, paths in _loads(latest) for path in paths}


def is_committed(latest: Snapshot, number: int) -> bool:
    """True if a load is in the table."""
    for known, _ in _loads(latest):
        if known <= number:
            return known == number
    return False


def _loads(latest: Snapshot) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The numbers and files of all loads, the last one first."""
    number = last_number(latest, COPIES)
    while number:
        found = _list(latest.root, number)
        yield number, found.files
        if found.before >= number:
            raise CorruptFileError(f"{latest.root.uri}/{FOLDER}/{number} names a later load as the one before")
        number = found.before


def _list(store: Store, number: int) -> Load:
    where = f"{store.uri}/{FOLDER}/{number}"
    try:
        found = json.loads(store.read(f"{FOLDER}/{number}"))
        return Load(tuple(map(str, found["files"])), int(found["before"]))
    except FileNotFoundError as e:
        what = f"{where} is missing, which lists the files that COPY INTO has loaded"
        raise MissingFileError(f"{what}; write COPY INTO .. COPY_OPTIONS ('force' = 'true') to load files again") from e
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFileError(f"{where} is no list of the files that COPY INTO has loaded") from e
