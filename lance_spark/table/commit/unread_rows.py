"""Refusal of commits after which nobody would find the rows that are only in the table's write-ahead log (MemWAL).

The log is found by an entry in the index section, and its rows belong to columns by field id. Therefore, while the log has rows that are
not in the table, these are refused:

- a version without the entry (Overwrite, Restore of a version before the log, dropping the entry);
- a column with a new field id under an old name (a change of type, or restored from before one): values in the log have the old id;
- a new column with values in existing fragments: rows in the log would have null instead.

Other changes lose nothing: dropped and renamed columns keep their ids or are dropped in the log as well, and deletions, updates, merges and
compactions change only the rows of the table, which those in the log replace later.
"""

from __future__ import annotations

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.manifest import Manifest
from lance_spark.schema.schema import quoted
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.write_ahead_log import has_log, unread_shards


def check_unread_rows(current: Snapshot, after: Manifest) -> None:
    """Raise UnsupportedFeatureError if `after`, as the next version, loses rows or values of the write-ahead log of `current`."""
    if has_log(current.manifest) and (loss := _loss(current.manifest, after)) and (found := unread_shards(current)):
        what = "merge them into the table first, as the log's writer does, or drop the whole table"
        raise UnsupportedFeatureError(f"{current}: {found}, but the new version would lose them: it {loss}; {what}")


def _loss(before: Manifest, after: Manifest) -> str | None:
    if not has_log(after):
        return "has no write-ahead log"
    if before.schema == after.schema:
        return None
    old = {tuple(f.name for f in path): path[-1].id for path in before.schema.paths()}
    new = {path[-1].id: tuple(f.name for f in path) for path in after.schema.paths() if path[-1].id not in old.values()}
    for path in new.values():
        if path in old:
            return f"has the column {quoted(path)} under a new field id"
    existing = {f.id for f in before.fragments}
    for fragment in after.fragments:
        for i in (i for file in fragment.files for i in file.fields if i in new and fragment.id in existing):
            return f"has values of the new column {quoted(new[i])} in rows of the table"
    return None
