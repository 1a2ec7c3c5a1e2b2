"""A fragment with a new data file for some columns. Pure.

Implements DataReplacement of the transaction specification as pylance does: a file with the same columns replaces the old one; otherwise
the columns are marked as dropped in the old files and the new file is added.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lance_spark.errors import InvalidOperationError
from lance_spark.metadata.fragment import TOMBSTONE, DataFile, Fragment


def with_replaced_file(fragment: Fragment, new: DataFile, fields: Collection[int]) -> Fragment:
    """`fragment` with the columns of `new` only in that file; `fields` are the ids of the table's fields.

    Raises InvalidOperationError if this is not possible.
    """
    same = [f for f in fragment.files if (f.fields, f.version) == (new.fields, new.version)]
    covered = {i for f in fragment.files for i in f.fields}
    legacy = {i for f in fragment.files if f.is_legacy for i in f.fields}
    is_in_legacy_file = not legacy.isdisjoint(new.fields)
    if same:
        files = tuple(replace(new, unknown=f.unknown) if f in same else f for f in fragment.files)
    elif covered.isdisjoint(new.fields):
        files = (*fragment.files, new)
    elif covered.issuperset(new.fields) and not is_in_legacy_file:
        struck = (f if f.is_legacy else _without(f, new.fields) for f in fragment.files)
        files = (*(f for f in struck if not set(f.fields).isdisjoint(fields)), new)
    else:
        raise InvalidOperationError(
            f"fragment {fragment.id} has only some of the columns {list(new.fields)}, or has them in 0.1 files; they cannot be replaced"
        )
    return replace(fragment, files=files)


def _without(file: DataFile, fields: Collection[int]) -> DataFile:
    return replace(file, fields=tuple(TOMBSTONE if i in fields else i for i in file.fields))
