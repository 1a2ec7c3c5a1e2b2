"""The mark of the highest field id: ids of dropped columns are not used again. Pure.

The table's metadata has the mark, since other writers keep that. They do not move it, so it holds for the versions up to the one that it
names (see `table.versions.field_ids`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Merge, Operation, Overwrite

KEY = "lance_spark:field_ids"
"""The key in the table's metadata. Its value is two numbers: the highest id, and the version."""

_DIGITS = 19
"""Longer numbers are ignored: versions have at most as many digits."""


@dataclass(frozen=True)
class Mark:
    """No field of the versions up to `version` has an id above `highest`."""

    highest: int
    version: int


NO_MARK = Mark(-1, 0)


def mark_of(manifest: Manifest) -> Mark:
    """The mark in a manifest; `NO_MARK` if there is none, or an invalid one."""
    parts = manifest.table_metadata.get(KEY, "").split(" ")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) <= _DIGITS for p in parts):
        return NO_MARK
    highest, version = map(int, parts)
    # An id has 31 bits. A version to come cannot be known.
    return Mark(highest, version if version <= manifest.version else 0) if highest < 2**31 else NO_MARK


def with_mark(before: Manifest, operation: Operation, after: Manifest) -> Manifest:
    """`after`, which `operation` made from `before`, with the mark for it. Without a dropped or a new column nothing changes.

    An Overwrite numbers all fields anew: every change that was prepared before conflicts with it.
    """
    if isinstance(operation, Overwrite):
        return after
    marks = mark_of(before), mark_of(after)
    highest, version = max(m.highest for m in marks), max(m.version for m in marks)
    if before.schema is not after.schema:
        old, new = ({f.id for f in m.schema.walk()} for m in (before, after))
        if isinstance(operation, Merge) and new - old:
            # New ids are above those of all versions so far.
            version = after.version
        if old != new:
            highest = max(highest, *old, *new) if old or new else highest
    if highest <= after.schema.max_field_id and version == marks[0].version == marks[1].version:
        return after
    mark = f"{highest} {version}"
    return after if after.table_metadata.get(KEY) == mark else replace(after, table_metadata={**after.table_metadata, KEY: mark})
