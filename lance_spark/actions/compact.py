"""`compact`: join small fragments."""

from __future__ import annotations

from typing import Any

from lance_spark.actions.action import NOTED, Action, Command, Job, Outcome, Parameter, Said, absent, noted
from lance_spark.display.words import counted
from lance_spark.predicate import parse
from lance_spark.table.changes.update import rows_by_fragment
from lance_spark.table.compaction.compaction import COMPACTION, CompactionOptions
from lance_spark.table.compaction.optimize import (
    STAGES,
    Compaction,
    CompactionMetrics,
    commit_tasks,
    optimize,
)
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.versions.snapshot import Snapshot

WHERE = Parameter(
    "where",
    "string",
    "only fragments with a row for which this condition of Spark's SQL is true",
    says={
        "Dataset": absent("an Optimizer of a Dataset takes the fragments as a whole, as in pylance"),
        "LanceTable": absent("the builder has a method: optimize().where(condition)"),
    },
)
TARGET_ROWS = Parameter(
    "target_rows_per_fragment",
    "bigint",
    "the rows of a fragment",
    COMPACTION.target_rows_per_fragment,
    least=1,
    says={"command": Said("it is typed", "target_rows")},
)
_OPTIONS = (
    TARGET_ROWS,
    Parameter(
        "materialize_deletions",
        "boolean",
        "rewrite fragments with many deleted rows",
        COMPACTION.materialize_deletions,
    ),
    Parameter(
        "materialize_deletions_threshold",
        "double",
        "the fraction of deleted rows that is many",
        COMPACTION.materialize_deletions_threshold,
    ),
    Parameter("max_bytes_per_file", "bigint", "about the most bytes of a file", COMPACTION.max_bytes_per_file, least=1),
    Parameter(
        "drop_index_coverage",
        "boolean",
        "also rewrite fragments whose index cannot follow, and then lacks their rows",
        COMPACTION.drop_index_coverage,
    ),
    Parameter(
        "defer_index_remap",
        "boolean",
        "leave indexes as they are, and record where rows went",
        COMPACTION.defer_index_remap,
    ),
    Parameter("max_source_fragments", "bigint", "the most fragments that are rewritten", least=1),
    Parameter("max_source_rows", "bigint", "the most rows that are rewritten", least=1),
    Parameter("max_source_bytes", "bigint", "the most bytes that are rewritten", least=1),
    Parameter("excluded_fragment_ids", "array<bigint>", "fragments that stay as they are", ()),
    Parameter("sort_by", "array<string>", "the columns by which the rows of what is rewritten are sorted", ()),
    Parameter("target_bases", "array<string>", "the base paths to which rows move (default: they stay at theirs)", ()),
    Parameter("target_all_bases", "boolean", "rows move to all base paths, and with true to the table's own folder, too"),
)


def chosen(snapshot: Snapshot, where: str | None) -> frozenset[int] | None:
    """The fragments with a row for which a condition is true; None for all."""
    if where is None:
        return None
    return frozenset(rows_by_fragment(Here(), snapshot, parse(where, snapshot.manifest.schema)))


def compaction(snapshot: Snapshot, where: str | None = None, **given: Any) -> Compaction:
    """What the arguments ask."""
    write = noted(given)
    return Compaction(chosen(snapshot, where), CompactionOptions(**given), write)


def _run(runner: Runner, snapshot: Snapshot, how: Compaction) -> CompactionMetrics:
    return optimize(runner, snapshot, how.fragments, how.options, how.write)


def commit(snapshot: Snapshot, how: Compaction, results: Any) -> CompactionMetrics:
    """Commit what the stages have written."""
    return commit_tasks(snapshot, how, results)


def _fragments(outcome: Outcome) -> tuple[int, int]:
    """The numbers of fragments before and after."""
    before, metrics = len(outcome.snapshot.manifest.fragments), outcome.value
    return before, before - metrics.fragments_removed + metrics.fragments_added


def _told(outcome: Outcome) -> str:
    before, after = _fragments(outcome)
    version, metrics = outcome.snapshot.version, outcome.value
    if metrics.version == version:
        return f"nothing to compact in {counted(before, 'fragment')} of version {version}"
    return f"version {metrics.version}: {counted(before, 'fragment')} became {after}"


def _plain(outcome: Outcome) -> dict[str, int]:
    before, after = _fragments(outcome)
    return {"version": outcome.value.version, "fragments_before": before, "fragments": after}


COMPACT = Action(
    "compact",
    "join small fragments and rewrite those with many deleted rows",
    {
        "version": "bigint",
        "fragments_removed": "bigint",
        "fragments_added": "bigint",
        "files_removed": "bigint",
        "files_added": "bigint",
        "conflicts": "bigint",
        "left_out": "array<bigint>",
    },
    Job(compaction, STAGES, commit, _run),
    (WHERE, *_OPTIONS, *NOTED),
    effect="keeps",
    methods={"Dataset": ("optimize.compact_files",), "LanceTable": ("optimize.executeCompaction",)},
    command=Command(
        about="`cleanup` removes the old files later. This runs in one process; LanceTable.optimize does "
        "the same with all executors of Spark.",
        told=_told,
        plain=_plain,
    ),
    see="See [compaction](verbs/optimize.md).",
)
ACTIONS = (COMPACT,)
