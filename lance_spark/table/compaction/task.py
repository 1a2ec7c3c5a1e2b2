"""Rewriting of one group of fragments: encoded pages are copied if they stay the same, other rows are decoded and encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.errors import on_failure
from lance_spark.file.data_file import new_data_file, open_data_file
from lance_spark.file.supported_types import WRITABLE
from lance_spark.metadata.data_file_names import fresh_name
from lance_spark.metadata.fragment import DataFile, Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.row_ids import serialise_row_ids, serialise_versions
from lance_spark.table.compaction.compaction import Compacted
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.write.fragment_writer import FragmentWriter
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard

LINEAGE = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")
WHOLE_PAGES_ROWS = 1 << 16
"""Pages of fragments with at least this many rows are copied; smaller pages are better joined."""


@dataclass(frozen=True)
class CompactionTask:
    """A group of fragments: `rows` scans their columns, and with stable row ids `lineage` scans the columns `LINEAGE`."""

    group: tuple[Fragment, ...]
    locations: Locations
    target: WriteTarget
    rows_per_fragment: int
    rows: ScanTask
    lineage: ScanTask | None


def compact(task: CompactionTask) -> Compacted:
    """Write the rows of the group to new fragments. If this fails, the files are deleted."""
    new = _with_copied_pages(task) or _written_anew(task)
    with on_failure(lambda: discard(task.target, new)):
        return Compacted(task.group, new if task.lineage is None else with_lineage(new, read_lineage(task.lineage)))


def _written_anew(task: CompactionTask) -> tuple[Fragment, ...]:
    target = task.target
    writer = FragmentWriter(target, task.rows_per_fragment)
    with on_failure(lambda: discard(target, writer.abort())):
        for batch in task.rows.read():
            writer.write_stored(batch)
        return writer.finish()


def _with_copied_pages(task: CompactionTask) -> tuple[Fragment, ...]:
    """One fragment with the encoded pages of the whole group; none if pages cannot be copied."""
    target = task.target
    if not _can_copy(task.group, target, task.rows_per_fragment):
        return ()
    # Such pages mean other rows to other readers, so they are encoded again.
    readers = [open_data_file(*task.locations.data_file(f.files[0]), f.files[0].size) for f in task.group]
    if any(reader.columns_with_values_in_nulls() for reader in readers):
        return ()
    folder = target.folders[0]
    name = fresh_name(target.job, folder.mark)
    with folder.store.create(folder.place(name), sync_name=folder.base_id is not None) as out:
        writer = new_data_file(out, target.schema, WRITABLE[target.data_format])
        for fragment, reader in zip(task.group, readers, strict=True):
            for column in range(len(fragment.files[0].fields)):
                writer.copy_pages(column, reader.encoded_pages(column))
            writer.count_copied(fragment.physical_rows)
        written = writer.finish()
    file = DataFile(name, written.field_ids, written.column_indices, written.version, written.size_bytes, folder.base_id)
    return (Fragment(0, (file,), written.num_rows),)


def _can_copy(group: Sequence[Fragment], target: WriteTarget, rows_per_fragment: int) -> bool:
    """True if each fragment is one file in this writer's layout, without deleted rows and with large pages."""
    version = WRITABLE[target.data_format]
    leaves = tuple(leaf.id for leaf in target.schema.leaves())
    if version < (2, 1) or any(field.is_blob for field in target.schema.walk()):
        return False
    # A result of twice the target is to be split, which copying cannot do.
    if sum(fragment.physical_rows for fragment in group) >= 2 * rows_per_fragment:
        return False
    least_rows = min(WHOLE_PAGES_ROWS, rows_per_fragment)
    return all(_is_one_file(f, version, leaves) and f.physical_rows >= least_rows for f in group)


def _is_one_file(fragment: Fragment, version: tuple[int, int], leaves: tuple[int, ...]) -> bool:
    """True if all columns are in one file, in the order of the schema, and no row is deleted."""
    if len(fragment.files) != 1 or fragment.deletion is not None:
        return False
    (file,) = fragment.files
    return (file.version, file.fields, file.column_indices) == (version, leaves, tuple(range(len(leaves))))


def with_lineage(new: Sequence[Fragment], columns: Sequence[np.ndarray]) -> tuple[Fragment, ...]:
    """The fragments with the row ids and row versions from before: `columns` has those of `LINEAGE`, in the order of the new rows."""
    done, start = [], 0
    for fragment in new:
        rows = slice(start, start + fragment.physical_rows)
        ids, created, updated = (column[rows] for column in columns)
        done.append(
            replace(
                fragment, row_ids=serialise_row_ids(ids), created_at=serialise_versions(created), updated_at=serialise_versions(updated)
            )
        )
        start = rows.stop
    return tuple(done)


def read_lineage(task: ScanTask) -> list[np.ndarray]:
    """The columns of `LINEAGE` of all rows that the task reads."""
    batches = [[batch.column(name).to_numpy() for name in LINEAGE] for batch in task.read()]
    return [np.concatenate(parts) for parts in zip(*batches)] or [np.empty(0, np.uint64)] * len(LINEAGE)
