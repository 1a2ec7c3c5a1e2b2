"""How many rows and bytes a commit has added and removed, as far as its transaction tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.display.words import number, size
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Append, Overwrite
from lance_spark.metadata.transaction import Transaction

NOTED = frozenset(["num_inserted_rows", "num_updated_rows", "num_deleted_rows", "num_files_added", "num_bytes_added"])
"""The properties of a transaction that changes rows."""


@dataclass(frozen=True)
class RowCounts:
    """The rows that a commit inserted, updated and deleted, and the bytes of its new files; None where its transaction does not tell."""

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    bytes_added: int | None = None

    def __str__(self) -> str:
        """The counts as text: "+150 -0 rows, 86.0 KiB", with updated rows "+1 ~20 -0 rows"; "" if nothing is known."""
        if self.inserted is None:
            return ""
        updated = f" ~{number(self.updated)}" if self.updated else ""
        stored = f", {size(self.bytes_added)}" if self.bytes_added else ""
        return f"+{number(self.inserted)}{updated} -{number(self.deleted or 0)} rows{stored}"


def row_counts(transaction: Transaction) -> RowCounts:
    """What the transaction says: the fragments that it adds, or the figures in its properties."""
    if isinstance(transaction.operation, Append | Overwrite):
        return _added(transaction.operation.fragments)
    found = [transaction.properties.get(f"num_{name}", "") for name in ("inserted_rows", "updated_rows", "deleted_rows", "bytes_added")]
    return RowCounts(*(int(text) if text.isdecimal() and len(text) < 20 else None for text in found))


def _added(fragments: Sequence[Fragment]) -> RowCounts:
    sizes = [file.size for fragment in fragments for file in fragment.files]
    known = [each for each in sizes if each is not None]
    return RowCounts(sum(f.physical_rows for f in fragments), 0, 0, sum(known) if len(known) == len(sizes) else None)
