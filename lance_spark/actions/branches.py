"""Branches that are merged and published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.actions.action import NOTED, REQUIRED, Action, Parameter, Said, absent, noted
from lance_spark.metadata.branch_merges import MAIN
from lance_spark.table.branches import merge, publish
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.versions.snapshot import Snapshot

_CHOSEN = "fail, ours or theirs"
_ON_CONFLICT = Parameter(
    "on_conflict",
    "string",
    f"what is done about rows that were changed in both branches: {_CHOSEN}",
    "fail",
)
_SOURCE = Parameter("branch", "string", "the branch whose changes are taken over", REQUIRED)
_INTO = Parameter("into", "string", "the branch that gets them", MAIN)
_COUNTS = {
    "version": "bigint",
    "num_inserted_rows": "bigint",
    "num_updated_rows": "bigint",
    "num_deleted_rows": "bigint",
}
_NOT_NOTED: Mapping[Any, Said] = {
    "Dataset": absent("methods of branches have no arguments that are stored"),
    "LanceTable": absent("methods of branches have no arguments that are stored"),
}
_STORED = tuple(Parameter(p.name, p.kind, p.help, p.default, p.least, _NOT_NOTED) for p in NOTED)


def _merge(snapshot: Snapshot, branch: str, into: str = MAIN, on_conflict: Any = "fail", **given: Any) -> RowChanges:
    return merge.merge_branch(snapshot, branch, into, on_conflict, noted(given))


def _rebase(snapshot: Snapshot, branch: str, onto: str = MAIN, on_conflict: Any = "fail", **given: Any) -> RowChanges:
    return merge.merge_branch(snapshot, onto, branch, on_conflict, noted(given))


def _cherry_pick(
    snapshot: Snapshot,
    version: int,
    branch: str,
    into: str = MAIN,
    on_conflict: Any = "fail",
    **given: Any,
) -> RowChanges:
    return merge.cherry_pick(snapshot, version, branch, into, on_conflict, noted(given))


def _fast_forward(snapshot: Snapshot, branch: str, to: str, copy: bool = False, **given: Any) -> publish.FastForward:
    return publish.fast_forward(snapshot, branch, to, copy, noted(given))


_SEE = "See [branches](branches-and-tags.md#merging)."
FAST_FORWARD = Action(
    "fast_forward",
    "give a branch the rows, columns and indexes of another one that contains it",
    {"branch_updated": "string", "previous_ref": "bigint", "updated_ref": "bigint"},
    _fast_forward,
    (
        Parameter("branch", "string", "the branch that changes, such as main", REQUIRED),
        Parameter("to", "string", "the branch that is published", REQUIRED),
        Parameter("copy", "boolean", "copy the files of that branch, so that it can be deleted", False),
        *_STORED,
    ),
    effect="columns",
    methods={"Dataset": ("branches.fast_forward",), "LanceTable": ("branches.fast_forward",)},
    see=_SEE,
)
MERGE_BRANCH = Action(
    "merge_branch",
    "commit what has changed in a branch to another one, as one version",
    _COUNTS,
    _merge,
    (_SOURCE, _INTO, _ON_CONFLICT, *_STORED),
    effect="columns",
    methods={"Dataset": ("branches.merge",), "LanceTable": ("branches.merge",)},
    see=_SEE,
)
REBASE_BRANCH = Action(
    "rebase_branch",
    "commit what has changed in another branch to a branch, which can then be published",
    _COUNTS,
    _rebase,
    (
        Parameter("branch", "string", "the branch that changes", REQUIRED),
        Parameter("onto", "string", "the branch whose changes it gets", MAIN),
        _ON_CONFLICT,
        *_STORED,
    ),
    effect="columns",
    methods={"Dataset": ("branches.rebase",), "LanceTable": ("branches.rebase",)},
    see=_SEE,
)
CHERRY_PICK = Action(
    "cherry_pick",
    "commit what one version of a branch has changed to another branch",
    _COUNTS,
    _cherry_pick,
    (Parameter("version", "bigint", "the version", REQUIRED, least=1), _SOURCE, _INTO, _ON_CONFLICT, *_STORED),
    effect="columns",
    methods={"Dataset": ("branches.cherry_pick",), "LanceTable": ("branches.cherry_pick",)},
    see=_SEE,
)
ACTIONS = (FAST_FORWARD, MERGE_BRANCH, REBASE_BRANCH, CHERRY_PICK)
