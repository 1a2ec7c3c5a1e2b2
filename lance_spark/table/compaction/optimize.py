"""Compaction from plan to commit: tasks rewrite groups of fragments, which are committed in independent steps.

What is rewritten of a clustered table is clustered, in one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from lance_spark.display.arguments import known_arguments
from lance_spark.display.figures import Figures
from lance_spark.errors import CommitConflictError, InvalidOptionError, by_name_from_now, on_refusal
from lance_spark.metadata.fragment import Fragment
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.compaction import cluster
from lance_spark.table.compaction.clustered import Clustered, Clustering
from lance_spark.table.compaction.compaction import (
    COMPACTION,
    Compacted,
    CompactionOptions,
    CompactionPlan,
    commit_compaction,
    plan_compaction,
)
from lance_spark.table.compaction.places import Places
from lance_spark.table.compaction.task import LINEAGE, CompactionTask, compact
from lance_spark.table.indexes.optimize import Optimization, optimize_indices
from lance_spark.table.maintenance.progress import tracker
from lance_spark.table.scan.plan import ScanPlan, plan_group
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.scan.stages import Results, Stage
from lance_spark.table.versions.snapshot import Snapshot, in_use, reopened
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard, rewrite_target

Result = TypeVar("Result")
_STEP_TASKS = 16
"""Tasks per core in a step. A conflict or a lost driver costs at most one step."""


@dataclass(frozen=True)
class CompactionMetrics(Figures):
    """The result of a compaction. The first names are those of pylance.

    `left_out` are the ids of fragments that were skipped because an index covers them. `conflicts` is the number of groups that were
    skipped because other writers changed them. `version` is the last version that it made, or the latest one if it made none.
    """

    version: int
    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0
    conflicts: int = 0
    left_out: tuple[int, ...] = ()


def optimize(
    runner: Runner,
    snapshot: Snapshot,
    fragments: Container[int] | None,
    options: CompactionOptions,
    write: WriteOptions,
    progress: bool | None = False,
) -> CompactionMetrics:
    """Compact the fragments with these ids (None: all). `progress` shows a progress bar. The first commit has the number of `write`."""
    if done_already := done_before(snapshot.store, write.noted):
        return CompactionMetrics(done_already.version)
    snapshot = with_own_ids(snapshot)
    if (how := _clustering(snapshot, fragments, options)) is not None:
        return _commit_clustered(runner, snapshot, how, cluster.run_clustering(runner, snapshot, how), write)
    plan = plan_compaction(snapshot, options, fragments)
    write = replace(write, max_bytes_per_file=options.max_bytes_per_file)
    result = CompactionMetrics(snapshot.version, left_out=plan.left_out)
    for tasks in tracker(progress)(list(_steps(snapshot, plan, options, write, runner.cores)), "compacting"):
        with in_use(snapshot):
            done = runner.run(tasks, compact)
        committed = _commit(runner, snapshot, done, write, options)
        write = write.after_commit(committed[0])
        result = _add(result, *committed)
    return result


def _clustering(snapshot: Snapshot, fragments: Container[int] | None, options: CompactionOptions) -> Clustering | None:
    """What a compaction does of a table whose rows have an order, or get one; None of others."""
    columns = tuple(options.sort_by) or Clustered.of(snapshot).columns
    if not columns:
        return None
    if options.defer_index_remap:
        raise InvalidOptionError(
            f"{snapshot}: rows are sorted by {', '.join(columns)}, and a fragment reuse index cannot record where such rows go; "
            "leave out defer_index_remap"
        )
    return Clustering(columns, False, fragments, options.target_rows_per_fragment, options)


@dataclass(frozen=True)
class Proposal(Figures):
    """What a compaction would do: of all `fragments`, rewrite some, and leave some out that an index covers."""

    fragments: int
    to_rewrite: int
    left_out: int


def proposal(snapshot: Snapshot, options: CompactionOptions = COMPACTION) -> Proposal:
    """What a compaction would do; reads no data file."""
    fragments = len(snapshot.manifest.fragments)
    how = _clustering(snapshot, None, options)
    if how is not None:
        return Proposal(fragments, len(cluster.chosen_fragments(snapshot, how)), 0)
    plan = plan_compaction(snapshot, options)
    return Proposal(fragments, sum(map(len, plan.groups)), len(plan.left_out))


def _commit_clustered(
    runner: Runner, snapshot: Snapshot, clustering: Clustering, results: Results, write: WriteOptions
) -> CompactionMetrics:
    """Commit what the stages of a clustering have written. As a group of a compaction, it is skipped if other writers changed it."""
    try:
        version, done = cluster.commit_rewritten(runner, snapshot, clustering, results, write)
    except CommitConflictError as e:
        if not e.retryable:
            raise
        return CompactionMetrics(snapshot.version, conflicts=1)
    return _add(CompactionMetrics(snapshot.version), version, [done], 0)


@dataclass(frozen=True)
class Compaction:
    """What a compaction is asked: of the fragments with these ids (None: all)."""

    fragments: Container[int] | None
    options: CompactionOptions
    write: WriteOptions


def _tasks(number: int, snapshot: Snapshot, asked: Compaction, cores: int, results: Results) -> Sequence[Any]:
    """The tasks of a stage. Without an order of rows, the first stage is all."""
    snapshot = with_own_ids(snapshot)
    how = _clustering(snapshot, asked.fragments, asked.options)
    if how is not None:
        return cluster.STAGES[number].tasks(snapshot, how, cores, results)
    return [] if number else _compaction_tasks(snapshot, asked.fragments, asked.options, asked.write)


def _run_task(task: Any) -> Any:
    if isinstance(task, CompactionTask):
        return compact(task)
    return cluster.sample(task) if isinstance(task, cluster.SampleTask) else cluster.write_sorted(task)


def _compaction_tasks(
    snapshot: Snapshot, fragments: Container[int] | None, options: CompactionOptions, write: WriteOptions
) -> list[CompactionTask]:
    """All tasks of a compaction in one step."""
    plan = plan_compaction(snapshot, options, fragments)
    write = replace(write, max_bytes_per_file=options.max_bytes_per_file)
    return [task for step in _steps(snapshot, plan, options, write, max(len(plan.groups), 1)) for task in step]


def commit_tasks(snapshot: Snapshot, asked: Compaction, results: Results) -> CompactionMetrics:
    """Commit the results of all `STAGES` for the same version. Indexes are remapped in this process."""
    snapshot, options, write = with_own_ids(snapshot), asked.options, asked.write
    how = _clustering(snapshot, asked.fragments, options)
    if how is not None:
        return _commit_clustered(Here(), snapshot, how, results, write)
    left_out = plan_compaction(snapshot, options, asked.fragments).left_out
    result = CompactionMetrics(snapshot.version, left_out=left_out)
    compacted = results[0]
    if not compacted:
        return result
    committed = _commit(Here(), snapshot, compacted, write, options)
    return _add(result, *committed)


STAGES: Sequence[Stage[Compaction]] = tuple(Stage(partial(_tasks, number), _run_task) for number in range(len(cluster.STAGES)))
"""The stages of a compaction for an engine that runs them itself, and then calls `commit_tasks`."""


def _steps(
    snapshot: Snapshot, plan: CompactionPlan, options: CompactionOptions, write: WriteOptions, cores: int
) -> Iterable[list[CompactionTask]]:
    size = cores * _STEP_TASKS
    for start in range(0, len(plan.groups), size):
        target, places = rewrite_target(snapshot, write), Places.of(snapshot, options.targets)
        groups = plan.groups[start : start + size]
        yield [_task(snapshot, group, options, places.for_fragments(target, group).from_folder(i)) for i, group in enumerate(groups)]


def _task(snapshot: Snapshot, group: tuple[Fragment, ...], options: CompactionOptions, target: WriteTarget) -> CompactionTask:
    rows = plan_group(snapshot, ScanPlan(), group)
    lineage = plan_group(snapshot, ScanPlan(columns=LINEAGE), group) if snapshot.manifest.has_stable_row_ids else None
    return CompactionTask(group, snapshot.locations, target, options.target_rows_per_fragment, rows, lineage)


def _commit(
    runner: Runner, snapshot: Snapshot, groups: Sequence[Compacted], write: WriteOptions, options: CompactionOptions
) -> tuple[int, Sequence[Compacted], int]:
    """Commit a step. After a conflict, commit its groups one by one, so that a changed fragment costs only its group."""

    def undo() -> None:
        target = Places.of(snapshot, options.targets).anywhere(rewrite_target(snapshot, write))
        discard(target, [fragment for compacted in groups for fragment in compacted.new])

    with on_refusal(undo):
        try:
            return commit_compaction(runner, snapshot, groups, write.noted, options.defer_index_remap).version, groups, 0
        except CommitConflictError as e:
            if not e.retryable:
                raise
    if len(groups) == 1:
        undo()
        return 0, (), 1
    results = []
    for one in groups:
        results.append(_commit(runner, snapshot, [one], write, options))
        write = write.after_commit(results[-1][0])
    return max(version for version, _, _ in results), [c for _, some, _ in results for c in some], sum(n for _, _, n in results)


def _add(result: CompactionMetrics, version: int, compacted: Sequence[Compacted], conflicts: int) -> CompactionMetrics:
    old, new = [f for c in compacted for f in c.old], [f for c in compacted for f in c.new]
    return replace(
        result,
        version=max(result.version, version),
        fragments_removed=result.fragments_removed + len(old),
        fragments_added=result.fragments_added + len(new),
        files_removed=result.files_removed + sum(len(f.files) + (f.deletion is not None) for f in old),
        files_added=result.files_added + sum(len(f.files) for f in new),
        conflicts=result.conflicts + conflicts,
    )


@known_arguments
@dataclass(frozen=True)
class Optimizer(Generic[Result]):
    """Maintenance operations in this process on the latest version, also if `snapshot` is older.

    `result` is called with the new version.
    """

    snapshot: Snapshot
    result: Callable[[int], Result]

    def __repr__(self) -> str:
        return f"Optimizer({self.snapshot.store.uri!r}, version={self.snapshot.version})"

    def _repr_html_(self) -> str:
        """What a compaction would do."""
        return proposal(self.snapshot)._repr_html_()

    @by_name_from_now(
        "materialize_deletions",
        "materialize_deletions_threshold",
        "defer_index_remap",
        "max_bytes_per_file",
        after=2,
    )
    def compact_files(
        self,
        target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
        *,
        materialize_deletions: bool = COMPACTION.materialize_deletions,
        materialize_deletions_threshold: float = COMPACTION.materialize_deletions_threshold,
        max_bytes_per_file: int = COMPACTION.max_bytes_per_file,
        drop_index_coverage: bool = COMPACTION.drop_index_coverage,
        defer_index_remap: bool = COMPACTION.defer_index_remap,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Sequence[int] = (),
        sort_by: Sequence[str] = (),
        target_bases: Sequence[str] = (),
        target_all_bases: bool | None = None,
    ) -> Result:
        """Join small fragments and rewrite those with many deleted rows; see `CompactionOptions` for the arguments.

        What is rewritten of a clustered table keeps its order; `sort_by` gives the order of these columns. Rows stay at their base path,
        or move to `target_bases`. Fragments that other writers change meanwhile are skipped. Raises CommitConflictError if nothing else is
        left.
        """
        options = CompactionOptions(
            target_rows_per_fragment,
            materialize_deletions,
            materialize_deletions_threshold,
            max_bytes_per_file=max_bytes_per_file,
            drop_index_coverage=drop_index_coverage,
            defer_index_remap=defer_index_remap,
            max_source_fragments=max_source_fragments,
            max_source_rows=max_source_rows,
            max_source_bytes=max_source_bytes,
            excluded_fragment_ids=excluded_fragment_ids,
            sort_by=sort_by,
            target_bases=target_bases,
            target_all_bases=target_all_bases,
        )
        done = optimize(Here(), reopened(self.snapshot), None, options, NO_OPTIONS)
        if done.conflicts and not done.fragments_removed:
            what = f"other writers changed all {done.conflicts} groups of fragments that were compacted; run the compaction again"
            raise CommitConflictError(f"{self.snapshot.store.uri}: {what}", retryable=True)
        return self.result(done.version)

    def cluster(
        self, *columns: str | Sequence[str], full: bool = False, target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment
    ) -> Result:
        """Write rows anew so that those with near values of the columns are near each other, and filters on any of them read few rows.

        See `Clustering` for the arguments: without columns, those of the last time. Indexes follow in the same commit, and a column
        without an index gets zone maps. Raises CommitConflictError if other writers have changed the fragments meanwhile.
        """
        how = Clustering(Clustering.names(columns), full, None, target_rows_per_fragment)
        return self.result(cluster.cluster(Here(), reopened(self.snapshot), how).version)

    def optimize_indices(
        self, *, num_indices_to_merge: int | None = None, index_names: Sequence[str] | None = None, retrain: bool = False
    ) -> Result:
        """Extend indexes to the fragments that they do not cover, all or some.

        The new rows and the newest `num_indices_to_merge` segments are joined to one segment (None: all segments; 0: the new rows get a
        segment of their own). `retrain` builds the indexes again. Segments with too many rows for memory are not joined.
        """
        how = Optimization(num_indices_to_merge, index_names, retrain)
        return self.result(optimize_indices(Here(), reopened(self.snapshot), how, {}).version)
