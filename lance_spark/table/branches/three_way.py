"""What a merge of one branch into another does to each row: a comparison of their, our and the common version.

A row that only their branch has changed is changed in ours. A row that both have changed in the same way
needs nothing. A row that both have changed otherwise, that one has deleted and the other changed, or whose
key both have inserted with other values, is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from lance_spark.errors import BranchMergeConflictError, InvalidOptionError
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.branches.heads import Heads, name_of
from lance_spark.table.branches.rows import (
    ABSENT,
    Identity,
    Rows,
    differ,
    differ_in,
    new_columns,
    row_differences,
    shared_columns,
)
from lance_spark.table.scan.rows_at import rows_in_order
from lance_spark.table.versions.snapshot import Snapshot

Choice = Literal["ours", "theirs"]
OnConflict: TypeAlias = Literal["fail", "ours", "theirs"] | Callable[[pa.Table], Sequence[Choice]]
"""What is done about rows in conflict: an error, one of the two sides, or a function of the conflicts.

The function gets the table of conflicts, and returns "ours" or "theirs" for each row.
"""
WORDS = ("fail", "ours", "theirs")
SHOWN_CONFLICTS = 3
"""Conflicts that the message of an error shows."""


@dataclass(frozen=True)
class Proposal:
    """Rows of their branch that differ from the common version, and the same rows elsewhere.

    `theirs`, `base` and `ours` are addresses (int64) in the three versions, `ABSENT` where there is no such
    row. `changed` says for which rows a value of a column of the common version differs from theirs: others
    have only values in new columns.
    """

    theirs: np.ndarray
    base: np.ndarray
    ours: np.ndarray
    changed: np.ndarray

    def at(self, rows: np.ndarray) -> Proposal:
        """Some of the rows."""
        return Proposal(self.theirs[rows], self.base[rows], self.ours[rows], self.changed[rows])


@dataclass(frozen=True)
class Changes:
    """What a merge does to the rows of our branch: addresses in ours (`deleted`, `updated`) and in theirs.

    `completed` rows get only the values of new columns.
    """

    deleted: np.ndarray
    updated: np.ndarray
    updated_from: np.ndarray
    completed: np.ndarray
    completed_from: np.ndarray
    inserted_from: np.ndarray


def three_way(heads: Heads, identity: Identity, on_conflict: OnConflict) -> Changes:
    """Compare the branches, and settle conflicts. Raises BranchMergeConflictError if `on_conflict` is "fail"."""
    if not callable(on_conflict) and on_conflict not in WORDS:
        raise InvalidOptionError(f"on_conflict must be one of {', '.join(WORDS)} or a function, not {on_conflict!r}")
    proposal = _proposal(heads, identity)
    proposal = proposal.at(np.flatnonzero(~_is_done(heads, proposal)))
    in_conflict = _in_conflict(heads, proposal)
    takes_theirs = ~in_conflict
    conflicts = np.flatnonzero(in_conflict)
    if len(conflicts):
        takes_theirs[conflicts] = _settled(heads, proposal.at(conflicts), on_conflict)
    return _changes(proposal, takes_theirs)


def _proposal(heads: Heads, identity: Identity) -> Proposal:
    """The rows that their branch has changed since the common version."""
    base, theirs = heads.base, heads.theirs
    found = row_differences(base, theirs, identity)
    absent = [np.full(len(rows), ABSENT, np.int64) for rows in (found.deleted, found.inserted)]
    keys = pa.concat_tables(
        [
            identity.keys(base, found.deleted),
            identity.keys(theirs, found.updated_after),
            identity.keys(theirs, found.inserted),
        ]
    )
    at_theirs = np.concatenate([absent[0], *(rows.astype(np.int64) for rows in (found.updated_after, found.inserted))])
    at_base = np.concatenate([*(rows.astype(np.int64) for rows in (found.deleted, found.updated_before)), absent[1]])
    return Proposal(at_theirs, at_base, identity.find(heads.ours, keys), _changed(base, theirs, at_base, at_theirs))


def _changed(base: Snapshot, theirs: Snapshot, at_base: np.ndarray, at_theirs: np.ndarray) -> np.ndarray:
    """Which rows that differ do so not only in new columns."""
    found = np.ones(len(at_theirs), bool)
    if new_columns(base.manifest.schema, theirs.manifest.schema):
        both = np.flatnonzero((at_base != ABSENT) & (at_theirs != ABSENT))
        found[both] = _differs(base, at_base[both], theirs, at_theirs[both])
    return found


def _in_conflict(heads: Heads, proposal: Proposal) -> np.ndarray:
    """Which rows our branch has changed, too, and not in the same way."""
    base, theirs, ours = (rows != ABSENT for rows in (proposal.base, proposal.theirs, proposal.ours))
    gone = base & ~ours
    found: np.ndarray = gone & theirs & proposal.changed
    at = np.flatnonzero(ours & base & proposal.changed)
    found[at] = _differs(heads.base, proposal.base[at], heads.ours, proposal.ours[at])
    found |= ours & ~base
    return found


def _is_done(heads: Heads, proposal: Proposal) -> np.ndarray:
    """Which rows are in our branch as they are in theirs already."""
    found: np.ndarray = (proposal.theirs == ABSENT) & (proposal.ours == ABSENT)
    both = np.flatnonzero((proposal.theirs != ABSENT) & (proposal.ours != ABSENT))
    found[both] = ~differ(Rows(heads.ours, proposal.ours[both]), Rows(heads.theirs, proposal.theirs[both]))
    return found


def _differs(a: Snapshot, at_a: np.ndarray, b: Snapshot, at_b: np.ndarray) -> np.ndarray:
    names = [f.name for f in shared_columns(a.manifest.schema, b.manifest.schema)]
    return differ_in(names, Rows(a, at_a), Rows(b, at_b))


def _changes(proposal: Proposal, takes_theirs: np.ndarray) -> Changes:
    theirs, ours = (rows != ABSENT for rows in (proposal.theirs, proposal.ours))
    deleted = takes_theirs & ~theirs & ours
    updated = takes_theirs & theirs & ours & proposal.changed
    completed = takes_theirs & theirs & ours & ~proposal.changed
    # A row that ours has deleted, and that has only got values in new columns of theirs, stays deleted.
    inserted = takes_theirs & theirs & ~ours & proposal.changed
    return Changes(
        proposal.ours[deleted].astype(np.uint64),
        proposal.ours[updated].astype(np.uint64),
        proposal.theirs[updated].astype(np.uint64),
        proposal.ours[completed].astype(np.uint64),
        proposal.theirs[completed].astype(np.uint64),
        proposal.theirs[inserted].astype(np.uint64),
    )


def _settled(heads: Heads, conflicts: Proposal, on_conflict: OnConflict) -> np.ndarray:
    """Which of the rows in conflict become as they are in theirs."""
    if on_conflict in ("ours", "theirs"):
        return np.full(len(conflicts.theirs), on_conflict == "theirs")
    table = conflicts_table(heads, conflicts)
    if not callable(on_conflict):
        raise BranchMergeConflictError(_message(heads, table), table)
    chosen = list(on_conflict(table))
    if len(chosen) != table.num_rows or not set(chosen) <= {"ours", "theirs"}:
        raise InvalidOptionError(
            f"the function on_conflict must return 'ours' or 'theirs' for each of {table.num_rows} conflicts, not {chosen[:5]!r}"
        )
    return np.array([choice == "theirs" for choice in chosen])


def conflicts_table(heads: Heads, conflicts: Proposal) -> pa.Table:
    """The rows in conflict: `kind`, and the row as a struct in `base`, `ours` and `theirs`; null where it is not there."""
    sides = {
        "base": (heads.base, conflicts.base),
        "ours": (heads.ours, conflicts.ours),
        "theirs": (heads.theirs, conflicts.theirs),
    }
    columns = {"kind": pa.array(_kinds(conflicts))}
    for name, (snapshot, addresses) in sides.items():
        columns[name] = _structs(snapshot, addresses)
    return pa.table(columns)


def _kinds(conflicts: Proposal) -> list[str]:
    """What theirs and ours have done to each row."""
    kinds = np.where(conflicts.base == ABSENT, "inserted in both", "updated in both")
    kinds = np.where(conflicts.theirs == ABSENT, "deleted in theirs, updated in ours", kinds)
    kinds = np.where(conflicts.ours == ABSENT, "updated in theirs, deleted in ours", kinds)
    found: list[str] = kinds.tolist()
    return found


def _structs(snapshot: Snapshot, addresses: np.ndarray) -> pa.Array:
    schema = snapshot.manifest.schema
    columns = Schema(schema.fields).select([quoted([f.name]) for f in schema.fields])
    there = addresses != ABSENT
    rows = rows_in_order(snapshot, addresses[there].astype(np.uint64), columns)
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
    places = np.where(there, np.cumsum(there) - 1, 0)
    return structs.take(pa.array(places, mask=~there)) if len(structs) else pa.nulls(len(addresses), structs.type)


def _message(heads: Heads, table: pa.Table) -> str:
    shown = "; ".join(f"{row['kind']}: {row['theirs'] or row['ours']}" for row in table.slice(0, SHOWN_CONFLICTS).to_pylist())
    more = f" and {table.num_rows - SHOWN_CONFLICTS} more" if table.num_rows > SHOWN_CONFLICTS else ""
    return (
        f"{heads.ours.root.uri}: {table.num_rows} rows were changed both in {name_of(heads.theirs)!r} and in "
        f"{name_of(heads.ours)!r}: {shown}{more}; choose with on_conflict => 'ours' or 'theirs', or change them first"
    )
