"""Conflict resolution between an operation to be committed and one that was committed since its read version.

Implements "Conflict Resolution" of the transaction specification, but follows pylance 14.0.2 where the two differ. The rules are stricter
where pylance loses a change of the schema or values of a column (`tests/table/commit/test_every_conflict.py` lists these). The rules are
data; docs/conflicts.md is generated from them. An operation that is not in the tables conflicts with everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lance_spark.metadata.operations import (
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
from lance_spark.table.commit import conflict_conditions as when


class Outcome(Enum):
    """What happens to the change that is committed second.

    COMPATIBLE: it is applied on top of the first. REBASE: likewise, after it has taken over the first change of the same fragments
    (see `table.commit.rebase`); if both changed the same rows, it becomes RETRYABLE.
    RETRYABLE: the operation must be run again on the new version. INCOMPATIBLE: the operation no longer applies to the table.
    """

    COMPATIBLE = "compatible"
    REBASE = "rebase"
    RETRYABLE = "retry"
    INCOMPATIBLE = "conflict"


Condition = Callable[[Any, Any], bool]
"""Called with our operation and theirs, in this order."""


@dataclass(frozen=True)
class Rule:
    """An outcome and its condition; None: always."""

    outcome: Outcome
    when: Condition | None = None


OK, REBASE, RETRY, CONFLICT = Outcome.COMPATIBLE, Outcome.REBASE, Outcome.RETRYABLE, Outcome.INCOMPATIBLE
_Row = dict[type, tuple[Rule, ...]]


def _each(outcome: Outcome, *theirs: type, when: Condition | None = None) -> _Row:
    return dict.fromkeys(theirs, (Rule(outcome, when),))


# Our operation -> theirs -> rules; the first rule whose condition is true decides; without one, they are compatible.
RULES: dict[type, _Row] = {
    Append: {
        **_each(OK, Append, Delete, Update, Rewrite, CreateIndex, ReserveFragments, DataReplacement, DataOverlay),
        **_each(OK, UpdateBases, Clone),
        **_each(RETRY, UpdateConfig, when=when.they_add_a_constraint),
        **dict.fromkeys((Merge, Project), (Rule(RETRY, when.they_may_forbid_nulls), Rule(RETRY, when.they_drop_written_fields))),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Delete: {
        **_each(RETRY, Project, when=when.they_drop_our_files),
        **_each(OK, Append, CreateIndex, ReserveFragments, DataOverlay, UpdateConfig, UpdateBases, Clone),
        **_each(REBASE, Delete, Update, when=when.same_fragments),
        **_each(RETRY, Rewrite, DataReplacement, when=when.same_fragments),
        **_each(RETRY, Merge),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Update: {
        **_each(OK, CreateIndex, ReserveFragments, UpdateBases, Clone),
        **_each(RETRY, UpdateConfig, when=when.they_add_a_constraint),
        **_each(RETRY, Append, when=when.we_insert_keys),
        **_each(REBASE, Delete, when=when.same_fragments),
        Update: (Rule(RETRY, when.same_keys), Rule(RETRY, when.same_shards), Rule(REBASE, when.same_fragments)),
        **_each(RETRY, Rewrite, DataReplacement, when=when.same_fragments),
        Project: (
            Rule(RETRY, when.they_may_forbid_nulls),
            Rule(RETRY, when.they_drop_modified_fields),
            Rule(RETRY, when.they_drop_our_files),
        ),
        **_each(RETRY, Merge, DataOverlay),
        **_each(CONFLICT, UpdateMemWalState, when=when.we_merge_a_write_ahead_log),
        **_each(CONFLICT, Overwrite, Restore),
    },
    Overwrite: {
        **_each(OK, Append, Delete, Update, Rewrite, CreateIndex, ReserveFragments, DataReplacement, DataOverlay),
        **_each(OK, UpdateBases, Clone),
        **_each(RETRY, Merge, Project, Restore, when=when.we_keep_the_columns),
        UpdateConfig: (
            Rule(CONFLICT, when.same_config_keys),
            Rule(RETRY, when.we_keep_changed_columns),
            Rule(RETRY, when.they_add_a_constraint),
        ),
        Overwrite: (Rule(CONFLICT, when.same_config_keys), Rule(RETRY)),
        **_each(CONFLICT, UpdateMemWalState),
    },
    CreateIndex: {
        **_each(OK, Append, Delete, ReserveFragments, DataOverlay, UpdateConfig, UpdateBases, Clone),
        **_each(REBASE, Update, when=when.they_change_indexed_fields),
        **_each(RETRY, Project, when=when.they_drop_indexed_fields),
        Merge: (Rule(RETRY, when.we_install_a_write_ahead_log), Rule(RETRY, when.they_drop_indexed_fields), Rule(REBASE)),
        **_each(RETRY, CreateIndex, when=when.same_index),
        **_each(RETRY, Rewrite, when=when.we_index_moved_rows),
        **_each(RETRY, DataReplacement, when=when.we_index_replaced_fields),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Rewrite: {
        **_each(OK, Append, Project, ReserveFragments, UpdateConfig, UpdateBases, UpdateMemWalState, Clone),
        **_each(RETRY, Delete, Update, Rewrite, DataReplacement, when=when.same_fragments),
        **_each(RETRY, CreateIndex, when=when.they_index_moved_rows),
        **_each(RETRY, Merge, DataOverlay),
        **_each(CONFLICT, Overwrite, Restore),
    },
    Merge: {
        **_each(OK, ReserveFragments, UpdateBases, Clone),
        CreateIndex: (Rule(RETRY, when.they_install_a_write_ahead_log), Rule(RETRY, when.they_index_dropped_fields)),
        UpdateConfig: (Rule(RETRY, when.they_change_schema_metadata), Rule(RETRY, when.they_add_a_constraint)),
        **_each(RETRY, Append, Delete, Update, Rewrite, Merge, DataReplacement, DataOverlay),
        **_each(CONFLICT, Overwrite, Restore, Project, UpdateMemWalState),
    },
    Project: {
        **_each(OK, Delete, Rewrite, CreateIndex, ReserveFragments, UpdateBases, Clone),
        UpdateConfig: (Rule(RETRY, when.they_change_schema_metadata), Rule(RETRY, when.they_add_a_constraint)),
        **_each(RETRY, Append, Update, DataReplacement, DataOverlay, when=when.we_may_forbid_nulls),
        **_each(RETRY, Merge, Project),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    Restore: {
        **_each(OK, Append, Delete, Update, Overwrite, Rewrite, Merge, Project, Restore, CreateIndex, ReserveFragments, DataReplacement),
        **_each(OK, DataOverlay, UpdateBases, Clone),
        **_each(CONFLICT, UpdateConfig, when=when.they_change_schema_metadata),
        **_each(CONFLICT, UpdateMemWalState),
    },
    ReserveFragments: {
        **_each(OK, Append, Delete, Update, Rewrite, Merge, Project, CreateIndex, ReserveFragments, DataReplacement, DataOverlay),
        **_each(OK, UpdateConfig, UpdateBases, UpdateMemWalState, Clone),
        **_each(CONFLICT, Overwrite, Restore),
    },
    UpdateConfig: {
        **_each(OK, Delete, Rewrite, CreateIndex, ReserveFragments),
        **_each(OK, UpdateBases, UpdateMemWalState, Clone),
        **_each(RETRY, Append, Update, DataReplacement, DataOverlay, when=when.we_add_a_constraint),
        Project: (Rule(CONFLICT, when.they_drop_our_fields), Rule(RETRY, when.we_add_a_constraint)),
        Merge: (Rule(RETRY, when.we_change_schema_metadata), Rule(RETRY, when.we_add_a_constraint)),
        UpdateConfig: (Rule(CONFLICT, when.same_config_keys), Rule(CONFLICT, when.same_metadata)),
        Overwrite: (
            Rule(CONFLICT, when.we_change_schema_metadata),
            Rule(CONFLICT, when.same_config_keys),
            Rule(RETRY, when.we_add_a_constraint),
        ),
        Restore: (Rule(CONFLICT, when.we_change_schema_metadata), Rule(RETRY, when.we_add_a_constraint)),
    },
    DataReplacement: {
        **_each(OK, Append, ReserveFragments, DataOverlay, UpdateBases, Clone),
        **_each(RETRY, UpdateConfig, when=when.they_add_a_constraint),
        Project: (Rule(RETRY, when.they_may_forbid_nulls), Rule(CONFLICT, when.they_drop_replaced_fields)),
        **_each(CONFLICT, Delete, when=when.they_remove_our_fragments),
        Update: (Rule(CONFLICT, when.they_remove_our_fragments), Rule(RETRY, when.they_move_our_rows)),
        **_each(RETRY, Rewrite, when=when.same_fragments),
        **_each(RETRY, DataReplacement, when=when.same_fragments_and_fields),
        **_each(RETRY, CreateIndex, when=when.they_index_replaced_fields),
        **_each(RETRY, Merge),
        **_each(CONFLICT, Overwrite, Restore, UpdateMemWalState),
    },
    UpdateBases: {
        **_each(OK, Append, Delete, Update, Overwrite, Rewrite, Merge, Project, Restore, CreateIndex, ReserveFragments, DataReplacement),
        **_each(OK, DataOverlay, UpdateConfig, UpdateMemWalState, Clone),
        **_each(CONFLICT, UpdateBases, when=when.same_bases),
    },
}


def judge(ours: Operation, theirs: Operation) -> Rule:
    """The outcome for `ours` if `theirs` was committed after the read version of `ours`, and the condition that decided it."""
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
    for ours, row in RULES.items():
        cells = " | ".join(cell(row.get(t, (Rule(CONFLICT),))) for t in theirs)
        lines.append(f"| **{ours.__name__}** | {cells} |")
    notes = [f"{i + 1}. if {c.__doc__}" for i, c in enumerate(conditions)]
    return _INTRODUCTION + "\n".join(lines) + "\n\n" + "\n".join(notes) + "\n"


_INTRODUCTION = """# Conflicts of concurrent changes

This page has the rules. [A commit failed](commit-failed.md) says what to do about a conflict.

Two writers start from the same version, and the other one (columns) commits first. The table shows what happens to our commit (rows).
Its names are those of Lance's transactions: *Update* is made by `UPDATE` and `MERGE INTO`, *Merge* by new columns with values, *Project* by
dropped and altered columns, and *Rewrite* by compaction.

- An empty cell: ours is committed after theirs.
- *rebase*: ours is adapted and committed after theirs. Rows that both deleted from the same fragments are merged (if both deleted or
  changed the same row, the outcome is *retry*), and fragments whose values they changed are removed from our index.
- *retry*: `CommitConflictError` with `retryable=True`. Run the operation again on the new version.
- *conflict*: `CommitConflictError` with `retryable=False`.

The rules are those of pylance 14.0.2, but stricter where it would lose a change of the columns: an append does not go to columns that were
dropped or got another type, an index is not of such a column, and a change of the columns does not undo metadata of theirs, such as a
primary key. `Dataset.write` appends rows that are in memory to the new columns then. An overwrite *keeps the columns* with
`overwriteSchema=false`, and if `Dataset.commit` is given the schema of its read version; any other brings columns of its own.

The id of a dropped column is not used again: the table's metadata has the highest id so far (`lance_spark:field_ids`).

A number refers to a condition below the table. If the condition is false, the cell counts as empty.
An operation that is not in the table conflicts with every other.

These rules cannot be applied to a version that was cleaned up meanwhile. Our change is committed after it if everything that it depends on
is unchanged: for an append, its columns; for a change of rows or columns, the schema, the indexes and the fragments that it touches.
Otherwise the outcome is *retry*.

If another writer has committed the next version first, a commit is retried at least 20 times and for at least two minutes. After that, it
fails with a `CommitConflictError` with `retryable=True`.

This file is generated from `lance_spark/table/commit/conflicts.py`.

"""
