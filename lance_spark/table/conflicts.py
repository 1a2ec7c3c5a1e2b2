"""Which changes can follow one another: for an operation that is to be committed and one that was committed since it was prepared.

Implements "Conflict Resolution" of the transaction specification, with what pylance 14.0.2 does where the two differ. The rules are data;
docs/conflicts.md is printed from them. An operation that is not in the tables conflicts with everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyroaring import BitMap

from lance_spark.table.operations import (
    Append,
    Clone,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
)

SINGLETON_INDEXES = frozenset({"__lance_frag_reuse", "__lance_mem_wal"})


class Outcome(Enum):
    """What becomes of the change that comes second.

    COMPATIBLE: it is built on top of the first. REBASE: likewise, once it has taken over what the first did to the same rows' fragments.
    RETRYABLE: the operation must be run again on the new version. INCOMPATIBLE: the table is no longer what the operation was meant for.
    """

    COMPATIBLE = "compatible"
    REBASE = "rebase"
    RETRYABLE = "retry"
    INCOMPATIBLE = "conflict"


Condition = Callable[[Any, Any], bool]
"""Asked with our operation and theirs, in this order."""


@dataclass(frozen=True)
class Rule:
    """An outcome and the condition under which it is the outcome; None: always."""

    outcome: Outcome
    when: Condition | None = None


def touched(op: Operation) -> frozenset[int]:
    """The ids of the existing fragments that an operation changes or removes."""
    match op:
        case Delete():
            return frozenset([*(f.id for f in op.updated_fragments), *op.deleted_fragment_ids])
        case Update():
            return frozenset([*(f.id for f in op.updated_fragments), *op.removed_fragment_ids])
        case Rewrite():
            return frozenset(f.id for group in op.groups for f in group.old_fragments)
        case DataReplacement():
            return frozenset(fragment_id for fragment_id, _ in op.replacements)
        case _:
            return frozenset()


def _removed(op: Delete | Update) -> Iterable[int]:
    return op.deleted_fragment_ids if isinstance(op, Delete) else op.removed_fragment_ids


def same_fragments(ours: Operation, theirs: Operation) -> bool:
    """both touch the same fragment"""
    return not touched(ours).isdisjoint(touched(theirs))


def they_remove_our_fragments(ours: Operation, theirs: Delete | Update) -> bool:
    """they remove a fragment that we touch"""
    return not touched(ours).isdisjoint(_removed(theirs))


def they_move_our_rows(ours: DataReplacement, theirs: Update) -> bool:
    """they touch the same fragment and move rows or write the same columns"""
    if theirs.update_mode == 0:
        return same_fragments(ours, theirs)
    return same_fragments(ours, theirs) and not _replaced_fields(ours).isdisjoint(theirs.fields_modified)


def they_may_forbid_nulls(ours: Operation, theirs: Merge | Project) -> bool:
    """they do not say that nullability stays as it is"""
    return not theirs.preserves_nullability


def we_may_forbid_nulls(ours: Merge | Project, theirs: Operation) -> bool:
    """we do not say that nullability stays as it is"""
    return not ours.preserves_nullability


def _replaced_fields(op: DataReplacement) -> frozenset[int]:
    return frozenset(i for _, file in op.replacements for i in file.fields)


def same_fragments_and_fields(ours: DataReplacement, theirs: DataReplacement) -> bool:
    """both replace the same column of the same fragment"""
    cells = {(fragment_id, i) for fragment_id, file in ours.replacements for i in file.fields}
    return any((fragment_id, i) in cells for fragment_id, file in theirs.replacements for i in file.fields)


def _indexed_fields(op: CreateIndex) -> frozenset[int]:
    return frozenset(i for index in op.new_indices for i in index.fields)


def we_index_replaced_fields(ours: CreateIndex, theirs: DataReplacement) -> bool:
    """we index a column that they replace"""
    return not _indexed_fields(ours).isdisjoint(_replaced_fields(theirs))


def they_index_replaced_fields(ours: DataReplacement, theirs: CreateIndex) -> bool:
    """they index a column that we replace"""
    return we_index_replaced_fields(theirs, ours)


def we_index_moved_rows(ours: CreateIndex, theirs: Rewrite) -> bool:
    """our index covers a fragment that they rewrite, or does not say what it covers"""
    moved = touched(theirs)
    return any(not i.fragment_bitmap or not moved.isdisjoint(BitMap.deserialize(i.fragment_bitmap)) for i in ours.new_indices)


def they_index_moved_rows(ours: Rewrite, theirs: CreateIndex) -> bool:
    """their index covers a fragment that we rewrite, or does not say what it covers"""
    return we_index_moved_rows(theirs, ours)


def same_singleton_index(ours: CreateIndex, theirs: CreateIndex) -> bool:
    """both write the fragment reuse index or the MemWAL index"""
    names = {i.name for i in ours.new_indices} & {i.name for i in theirs.new_indices}
    return bool(names & SINGLETON_INDEXES)


def _config_keys(op: Operation) -> frozenset[str]:
    if isinstance(op, Overwrite):
        return frozenset(op.config_upserts)
    return frozenset(op.config.entries) if isinstance(op, UpdateConfig) and op.config else frozenset()


def same_config_keys(ours: Operation, theirs: Operation) -> bool:
    """both change the same key of the config"""
    return not _config_keys(ours).isdisjoint(_config_keys(theirs))


def same_metadata(ours: UpdateConfig, theirs: UpdateConfig) -> bool:
    """both change the same key of the config, the schema's metadata, or the same field's metadata"""
    both_schemas = ours.schema_metadata is not None and theirs.schema_metadata is not None
    return same_config_keys(ours, theirs) or both_schemas or bool(ours.field_metadata.keys() & theirs.field_metadata.keys())


def _changes_schema(op: UpdateConfig) -> bool:
    return op.schema_metadata is not None or bool(op.field_metadata)


def we_change_schema_metadata(ours: UpdateConfig, theirs: Operation) -> bool:
    """we change metadata of the schema or of a field"""
    return _changes_schema(ours)


def they_change_schema_metadata(ours: Operation, theirs: UpdateConfig) -> bool:
    """they change metadata of the schema or of a field"""
    return _changes_schema(theirs)


def we_merge_a_write_ahead_log(ours: Update, theirs: Operation) -> bool:
    """we merge a write-ahead log"""
    return bool(ours.compacted_sstables)


def same_bases(ours: UpdateBases, theirs: UpdateBases) -> bool:
    """both add a base path with the same id, name or path"""
    pairs = ((a, b) for a in ours.new_bases for b in theirs.new_bases)
    return any((a.id and a.id == b.id) or (a.name is not None and a.name == b.name) or a.path == b.path for a, b in pairs)


OK, REBASE, RETRY, CONFLICT = Outcome.COMPATIBLE, Outcome.REBASE, Outcome.RETRYABLE, Outcome.INCOMPATIBLE
_Row = dict[type, tuple[Rule, ...]]


def _each(outcome: Outcome, *theirs: type, when: Condition | None = None) -> _Row:
    return dict.fromkeys(theirs, (Rule(outcome, when),))


# Our operation -> theirs -> rules; the first whose condition holds decides, and none means compatible.
RULES: dict[type, _Row] = {
    Append: {
        **_each(OK, Append, Delete, Update, Rewrite, CreateIndex, ReserveFragments, DataReplacement, DataOverlay),
        **_each(OK, UpdateConfig, UpdateBases, Clone),
        **_each(RETRY, Merge, Project, when=they_may_forbid_nulls),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Delete: {
        **_each(OK, Append, CreateIndex, Project, ReserveFragments, DataOverlay, UpdateConfig, UpdateBases, Clone),
        **_each(REBASE, Delete, Update, when=same_fragments),
        **_each(RETRY, Rewrite, DataReplacement, when=same_fragments),
        **_each(RETRY, Merge),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Update: {
        **_each(OK, Append, CreateIndex, ReserveFragments, UpdateConfig, UpdateBases, Clone),
        **_each(REBASE, Delete, Update, when=same_fragments),
        **_each(RETRY, Rewrite, DataReplacement, when=same_fragments),
        **_each(RETRY, Project, when=they_may_forbid_nulls),
        **_each(RETRY, Merge, DataOverlay),
        **_each(CONFLICT, UpdateMemWalState, when=we_merge_a_write_ahead_log),
        **_each(CONFLICT, Overwrite, Restore),
    },
    Overwrite: {
        **_each(OK, Append, Delete, Update, Rewrite, Merge, Project, Restore, CreateIndex, ReserveFragments, DataReplacement, DataOverlay),
        **_each(OK, UpdateBases, Clone),
        **_each(RETRY, UpdateConfig, when=same_config_keys),
        **_each(RETRY, Overwrite),
        **_each(CONFLICT, UpdateMemWalState),
    },
    CreateIndex: {
        **_each(OK, Append, Delete, Update, Merge, Project, ReserveFragments, DataOverlay, UpdateConfig, UpdateBases, Clone),
        **_each(RETRY, CreateIndex, when=same_singleton_index),
        **_each(RETRY, Rewrite, when=we_index_moved_rows),
        **_each(RETRY, DataReplacement, when=we_index_replaced_fields),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Rewrite: {
        **_each(OK, Append, Project, ReserveFragments, UpdateConfig, UpdateBases, UpdateMemWalState, Clone),
        **_each(RETRY, Delete, Update, Rewrite, DataReplacement, when=same_fragments),
        **_each(RETRY, CreateIndex, when=they_index_moved_rows),
        **_each(RETRY, Merge, DataOverlay),
        **_each(CONFLICT, Overwrite, Restore),
    },
    Merge: {
        **_each(OK, CreateIndex, ReserveFragments, UpdateBases, Clone),
        **_each(RETRY, UpdateConfig, when=they_change_schema_metadata),
        **_each(RETRY, Append, Delete, Update, Rewrite, Merge, DataReplacement, DataOverlay),
        **_each(CONFLICT, Overwrite, Restore, Project, UpdateMemWalState),
    },
    Project: {
        **_each(OK, Delete, Rewrite, CreateIndex, ReserveFragments, UpdateConfig, UpdateBases, Clone),
        **_each(RETRY, Append, Update, DataReplacement, DataOverlay, when=we_may_forbid_nulls),
        **_each(RETRY, Merge, Project),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Restore: {
        **_each(OK, Append, Delete, Update, Overwrite, Rewrite, Merge, Project, Restore, CreateIndex, ReserveFragments, DataReplacement),
        **_each(OK, DataOverlay, UpdateBases, Clone),
        **_each(CONFLICT, UpdateConfig, when=they_change_schema_metadata),
        **_each(CONFLICT, UpdateMemWalState),
    },
    ReserveFragments: {
        **_each(OK, Append, Delete, Update, Rewrite, Merge, Project, CreateIndex, ReserveFragments, DataReplacement, DataOverlay),
        **_each(OK, UpdateConfig, UpdateBases, UpdateMemWalState, Clone),
        **_each(CONFLICT, Overwrite, Restore),
    },
    UpdateConfig: {
        **_each(OK, Append, Delete, Update, Rewrite, Project, CreateIndex, ReserveFragments, DataReplacement, DataOverlay),
        **_each(OK, UpdateBases, UpdateMemWalState, Clone),
        **_each(RETRY, Merge, when=we_change_schema_metadata),
        **_each(CONFLICT, UpdateConfig, when=same_metadata),
        Overwrite: (Rule(CONFLICT, we_change_schema_metadata), Rule(CONFLICT, same_config_keys)),
        **_each(CONFLICT, Restore, when=we_change_schema_metadata),
    },
    DataReplacement: {
        **_each(OK, Append, Project, ReserveFragments, DataOverlay, UpdateConfig, UpdateBases, Clone),
        **_each(CONFLICT, Delete, when=they_remove_our_fragments),
        Update: (Rule(CONFLICT, they_remove_our_fragments), Rule(RETRY, they_move_our_rows)),
        **_each(RETRY, Rewrite, when=same_fragments),
        **_each(RETRY, DataReplacement, when=same_fragments_and_fields),
        **_each(RETRY, CreateIndex, when=they_index_replaced_fields),
        **_each(RETRY, Merge),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    UpdateBases: {
        **_each(OK, Append, Delete, Update, Overwrite, Rewrite, Merge, Project, Restore, CreateIndex, ReserveFragments, DataReplacement),
        **_each(OK, DataOverlay, UpdateConfig, UpdateMemWalState, Clone),
        **_each(CONFLICT, UpdateBases, when=same_bases),
    },
}


def judge(ours: Operation, theirs: Operation) -> Rule:
    """What becomes of `ours` when `theirs` was committed after `ours` was prepared, and the condition that decided it."""
    for rule in RULES.get(type(ours), {}).get(type(theirs), (Rule(CONFLICT),)):
        if rule.when is None or rule.when(ours, theirs):
            return rule
    return Rule(OK)


def markdown() -> str:
    """The rules as the text of docs/conflicts.md."""
    conditions: list[Condition] = []

    def cell(rules: tuple[Rule, ...]) -> str:
        shown = []
        for rule in rules:
            if rule.when is None:
                shown.append("" if rule.outcome is OK else rule.outcome.value)
                continue
            if rule.when not in conditions:
                conditions.append(rule.when)
            shown.append(f"{rule.outcome.value} ({conditions.index(rule.when) + 1})")
        return ", ".join(shown)

    theirs = sorted({t for row in RULES.values() for t in row}, key=lambda t: t.__name__)
    lines = [f"| ours \\ theirs | {' | '.join(t.__name__ for t in theirs)} |", "|---" * (len(theirs) + 1) + "|"]
    lines += [f"| **{ours.__name__}** | {' | '.join(cell(row.get(t, (Rule(CONFLICT),))) for t in theirs)} |" for ours, row in RULES.items()]
    notes = [f"{i + 1}. if {c.__doc__}" for i, c in enumerate(conditions)]
    return _INTRODUCTION + "\n".join(lines) + "\n\n" + "\n".join(notes) + "\n"


_INTRODUCTION = """# Which concurrent changes conflict

Two writers prepare a change for the same version; theirs (columns) is committed first. What becomes of ours (rows)?
An empty cell: ours is built on top of theirs. *rebase*: likewise, after merging what both did to the same fragment's deletions;
*retry*: `CommitConflictError` with `retryable=True`, the operation must be run again on the new version; *conflict*:
`CommitConflictError` with `retryable=False`. A number is the condition below the table; where it does not hold the cell counts as empty.
An operation that is not in the table conflicts with everything.

This file is printed from `lance_spark/table/conflicts.py`.

"""
