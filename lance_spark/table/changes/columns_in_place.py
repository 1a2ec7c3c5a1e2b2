"""Updates in place: new column files replace some columns of a fragment, and its rows stay in place.

Implements "Update" with rewritten columns of the transaction specification. If few columns of many rows change, this writes much less
than moving the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.metadata.operations import REWRITE_COLUMNS, Update
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.build.data_replacement import with_replaced_file
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, column_target
from lance_spark.table.changes.row_changes import RowChanges, Written
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.scan.parts import Parts
from lance_spark.table.scan.plan import row_bytes
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.generated import generated_of
from lance_spark.table.write.target import WriteTarget


@dataclass(frozen=True)
class InPlacePlan:
    """An update in place of the top-level columns `names` (exact names); `files` writes their new files."""

    snapshot: Snapshot
    files: Callable[[ColumnTarget], list[ColumnFile]]
    names: tuple[str, ...]

    def write(self, target: WriteTarget) -> Written:
        """Write the files."""
        schema = columns_of(self.snapshot, self.names)
        snapshot, columns = self.snapshot, replace(target, schema=schema)
        files = self.files(column_target(snapshot, columns, keeps_old=True))
        return InPlace(snapshot, columns, files)


@dataclass(frozen=True)
class InPlace:
    """New files of columns that were written for rows of `snapshot`."""

    snapshot: Snapshot
    target: WriteTarget
    files: Sequence[ColumnFile]

    @property
    def changes(self) -> RowChanges:
        rows = sum(f.num_rows for f in self.files)
        size = sum(f.file.size or 0 for f in self.files)
        return RowChanges(self.snapshot.version, num_updated_rows=rows, num_files_added=len(self.files), num_bytes_added=size)

    def commit(self, noted: Mapping[str, str]) -> Snapshot:
        if not self.files:
            return self.snapshot
        snapshot, ids = self.snapshot, tuple(f.id for f in self.target.schema.walk())
        fragments = snapshot.manifest.lazy_fragments.of_ids([f.fragment_id for f in self.files])
        all_ids = {f.id for f in snapshot.manifest.schema.walk()}
        updated = [with_replaced_file(fragments[f.fragment_id], f.file, all_ids) for f in self.files]
        operation = Update(
            updated_fragments=tuple(updated),
            fields_modified=ids,
            update_mode=REWRITE_COLUMNS,
            updated_fragment_offsets={f.fragment_id: f.rows for f in self.files},
        )
        return commit(
            snapshot.store,
            Transaction(snapshot.version, operation, properties=noted),
            base=snapshot,
            files=NewFiles(since=self.target.since),
        )


def columns_of(snapshot: Snapshot, names: Sequence[str]) -> Schema:
    """The top-level fields with these names, in the table's order."""
    schema = snapshot.manifest.schema
    return replace(schema, fields=tuple(f for f in schema.fields if f.name in names))


def is_possible(snapshot: Snapshot, names: Sequence[str]) -> bool:
    """True if the columns can be replaced in place.

    This excludes blob columns, files of storage version 0.1, fragments that have only a part of the columns, and columns that others are
    computed from.
    """
    generated = generated_of(snapshot.manifest.schema, snapshot.root, has_rows=True)
    if any(computed.read.intersection(names) for computed in generated.computed):
        return False
    schema = columns_of(snapshot, names)
    leaves, everything = tuple(leaf.id for leaf in schema.leaves()), {f.id for f in schema.walk()}
    fragments = snapshot.manifest.lazy_fragments
    for first in fragments.layouts[1]:
        files = fragments[first].files
        covered = {i for file in files for i in file.fields}
        if any(f.is_legacy for f in files) or not (covered.isdisjoint(everything) or covered.issuperset(leaves)):
            return False
    return not any(f.is_blob for f in schema.walk())


def is_cheaper(snapshot: Snapshot, names: Sequence[str], matched: Mapping[int, int]) -> bool:
    """True if rewriting these columns takes fewer bytes than moving the rows. `matched` is the number of rows by fragment id."""
    fragments = snapshot.manifest.lazy_fragments
    chosen = fragments.chosen(np.flatnonzero(np.isin(fragments.ids, list(matched))))
    parts = Parts.whole(chosen, chosen.counts[:, 1])
    in_place = (parts.rows * row_bytes(parts, columns_of(snapshot, names))).sum()
    moved_rows = np.array([matched[i] for i in chosen.ids.tolist()])
    moving = (moved_rows * row_bytes(parts, snapshot.manifest.schema)).sum()
    return bool(in_place < moving)


def nullable(field: Field) -> Field:
    """The field as nullable. Nulls in non-nullable columns are detected in the values instead."""
    return replace(field, nullable=True)
