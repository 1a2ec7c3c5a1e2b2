"""Refusal of commits after which rows or values of the table's write-ahead log (MemWAL) would be lost.

The log is found by an entry in the index section. While it has rows that are not in the table, a version without the entry is refused:
Overwrite, Restore of a version before the log, dropping the entry.

The log's rows belong to columns by field id, and to keys by the primary key. A writer of the log that is open puts rows with the columns
that it knows. Therefore, as in pylance, these changes are refused as long as there is a log, whether it has rows now or not:

- a column with a new field id under an old name (a change of type, or restored from before one): values in the log have the old id;
- a new column with values in existing fragments: rows in the log would have null instead;
- a column that becomes non-nullable: rows in the log may have nulls in it, and tombstones have;
- another primary key, also under other names: rows of the log would no longer replace those of the table.

Writers that are open when the log ends, or another one begins, can put nothing more: their rows would have the columns of another table.
A new log begins without rows: what an earlier log has left in the table's folder, SSTables that were merged, counts as merged in it, too.

Other changes lose nothing: dropped and renamed columns keep their ids or are dropped in the log as well, and deletions, updates, merges and
compactions change only the rows of the table, which those in the log replace later.
"""

from __future__ import annotations

from dataclasses import replace

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Operation, Overwrite, Restore
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import Schema, quoted
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import with_compacted
from lance_spark.table.versions.shard_appender import end_writers
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.write_ahead_log import flushed, has_log, unread_shards


def begins_log(before: Manifest | None, after: Manifest, operation: Operation) -> bool:
    """Whether the operation gives the version `after` a log of its own, also in place of that of the version `before`."""
    if not has_log(after) or isinstance(operation, Restore):
        return False
    return before is None or not has_log(before) or isinstance(operation, Overwrite)


def without_earlier_log(store: Store, after: Manifest) -> Manifest:
    """The version, which begins a log, without the SSTables of an earlier log. Raises CorruptFileError."""
    earlier = flushed(store)
    return replace(after, indexes=with_compacted(after.indexes, earlier, after.version)) if earlier else after


def end_log(current: Snapshot | None, after: Manifest, is_new_log: bool, store: Store) -> None:
    """End the work of writers of the log of `current`, unless `after`, as the next version, has the same one.

    Raises UnsupportedFeatureError if they have put rows meanwhile, which the next version would lose.
    """
    is_dropped = current is not None and has_log(current.manifest) and not has_log(after)
    if not is_new_log and not is_dropped:
        return
    end_writers(store)
    if current is not None:
        check_unread_rows(current, after, is_new_log)


def check_unread_rows(current: Snapshot, after: Manifest, is_new_log: bool = False) -> None:
    """Raise UnsupportedFeatureError if `after`, as the next version, loses rows or values of the write-ahead log of `current`."""
    before = current.manifest
    if not has_log(before):
        return
    if (is_new_log or not has_log(after)) and (found := unread_shards(current)):
        what = "merge them into the table first, as the log's writer does, or drop the whole table"
        lacks = "it begins a new write-ahead log" if is_new_log else "it has no write-ahead log"
        raise UnsupportedFeatureError(f"{current}: {found}, but the new version would lose them: {lacks}; {what}")
    if not has_log(after):
        return
    if before.schema != after.schema and (loss := _loss(before, after)):
        what = "merge the log and drop its entry in the index section first"
        raise UnsupportedFeatureError(
            f"{current}: the table has a write-ahead log, whose rows the new version would not fit: it {loss}; {what}"
        )


def _loss(before: Manifest, after: Manifest) -> str | None:
    """What does not fit the rows of the log; None if all do."""
    if _key(before.schema) != _key(after.schema):
        return "has another primary key, or other names of its columns"
    nullable = {path[-1].id: path[-1].nullable for path in before.schema.paths()}
    for path in after.schema.paths():
        if nullable.get(path[-1].id) and not path[-1].nullable:
            return f"does not allow nulls in the column {quoted([f.name for f in path])}"
    old = {tuple(f.name for f in path): path[-1].id for path in before.schema.paths()}
    added = [path for path in after.schema.paths() if path[-1].id not in old.values()]
    new = {path[-1].id: tuple(f.name for f in path) for path in added}
    for names in new.values():
        if names in old:
            return f"has the column {quoted(names)} under a new field id"
    existing = {f.id for f in before.fragments}
    for fragment in after.fragments:
        for i in (i for file in fragment.files for i in file.fields if i in new and fragment.id in existing):
            return f"has values of the new column {quoted(new[i])} in rows of the table"
    return None


def _key(schema: Schema) -> tuple[tuple[int, str], ...]:
    return tuple((f.id, f.name) for f in primary_key(schema))
