"""The ranges of numbers that writers have claimed for the identity columns of a table.

A range is a file `_identity/<field id>/<begin>`, which only one writer can create; its content is
the range's end. No range is claimed twice, whatever becomes of the table: the claims of all branches
are in the table's folder, and neither RESTORE nor an overwrite undoes them. A clone begins with the
last claim of its table. A column that a write has declared has the file `begun`: where there is
none, nothing is known of its numbers.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator

from lance_spark.errors import CorruptFileError, MissingFileError
from lance_spark.schema.declared_types import IDENTITY
from lance_spark.schema.schema import Schema
from lance_spark.storage.local import Entry
from lance_spark.storage.store import Store

CLAIMS = "_identity"
"""The folder in that of a table."""
_BEGUN = "begun"


def folder_of(field_id: int) -> str:
    """The folder with the claims of a column."""
    return f"{CLAIMS}/{field_id}"


def claimed_end(store: Store, field_id: int) -> int | None:
    """The end of the last range that is claimed, 0 if no range is; None if nothing is known of the column's numbers."""
    folder = folder_of(field_id)
    names = store.names(folder)
    ranges = [name for name in names if name.isdecimal()]
    if not ranges:
        return 0 if _BEGUN in names else None
    path = f"{folder}/{max(ranges)}"
    try:
        text = store.read(path)
    except MissingFileError:
        # A cleanup has removed it, as another writer has claimed a later range since the listing.
        return claimed_end(store, field_id)
    if not text.isdigit():
        raise CorruptFileError(f"{store.uri}/{path} has {text[:40]!r}, expected the end of a range of numbers")
    return int(text)


def put_claim(store: Store, field_id: int, begin: int, end: int) -> None:
    """Claim a range, which is not empty: its end is the begin of the next one.

    Raises FileExistsError if another writer has claimed one that begins there.
    """
    store.put_if_absent(f"{folder_of(field_id)}/{begin:019d}", str(end).encode())


def begin_claims(store: Store, field_id: int) -> None:
    """Note that no number is claimed, unless one is."""
    if claimed_end(store, field_id) is None:
        with contextlib.suppress(FileExistsError):
            store.put_if_absent(f"{folder_of(field_id)}/{_BEGUN}", b"")


def superseded_claims(store: Store) -> Iterator[tuple[str, Entry]]:
    """The paths of claims that a later one follows, of all columns: only the last one is read.

    A writer that has read an earlier one as the last may be about to claim this name, so it may be
    removed only after as long as no write takes.
    """
    found = defaultdict[str, dict[str, Entry]](dict)
    for entry in store.walk(CLAIMS):
        column, _, begin = entry.name.partition("/")
        if begin.isdecimal():
            found[column][begin] = entry
    for column, claims in found.items():
        last = max(claims)
        for begin, entry in claims.items():
            if begin != last:
                yield f"{CLAIMS}/{column}/{begin}", entry


def copy_claims(source: Store, target: Store, schema: Schema) -> None:
    """Let a clone begin with the last claims of its table."""
    for column in schema.fields:
        if IDENTITY not in column.metadata:
            continue
        end = claimed_end(source, column.id)
        if end == 0:
            begin_claims(target, column.id)
        elif end is not None:
            with contextlib.suppress(FileExistsError):  # of an earlier try
                put_claim(target, column.id, end - 1, end)
