"""The files that COPY INTO has loaded into a table, each once.

A load is a numbered write (see `metadata.numbered_writes`) of the application `COPIES`. Before it,
the paths of its files are written to a list (see `table.versions.copy_lists`), with the number of
the load before. So the latest version names the last load, and this the others: what is remembered
is committed with the rows, needs no history, and goes back with RESTORE. Of loads that follow the
same one, only the first is committed. A list whose load was not committed is in no chain, and has
no effect; a cleanup removes it. A clone and a branch begin without loads.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION, COPIES, COPY_BITS
from lance_spark.table.commit.idempotence import last_number
from lance_spark.table.versions.copy_lists import Load, loads, path_of, put_list
from lance_spark.table.versions.snapshot import Snapshot


def load_of(number: int) -> Mapping[str, str]:
    """The options of the write that loads the files of a list."""
    return {APP_ID: COPIES, APP_VERSION: str(number)}


def prepared(latest: Snapshot, paths: Sequence[str]) -> int:
    """Write the list of files of a load that follows `latest`, and return the load's number."""
    before = last_number(latest, COPIES) or 0
    number = (before >> COPY_BITS) + 1 << COPY_BITS | secrets.randbits(COPY_BITS)
    put_list(latest.root, Load(number, tuple(paths), before))
    return number


def forget(latest: Snapshot, number: int) -> None:
    """Remove the list of a load that was not committed."""
    latest.root.delete(path_of(number))


def copied(latest: Snapshot) -> set[str]:
    """The paths of all files that have been loaded."""
    return {path for load in loads(latest.root, last_number(latest, COPIES)) for path in load.files}


def is_committed(latest: Snapshot, number: int) -> bool:
    """True if a load is in the table."""
    for load in loads(latest.root, last_number(latest, COPIES)):
        if load.number <= number:
            return load.number == number
    return False
