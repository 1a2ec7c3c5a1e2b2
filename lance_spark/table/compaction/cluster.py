"""Clustering: the rows of fragments are written anew along a curve through some columns, so that filters on any of them read few rows.

Tasks sample the columns first. What one task cannot hold is sorted in two passes: tasks write sorted runs, and then each of others joins
one range of all runs. The commit is a Rewrite, whose rows have other places than those of a compaction: segments of indexes are built of
the new fragments first, so that the same commit has them. The table's config records the columns and the fragments that are clustered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.errors import InvalidOperationError, UnsupportedFeatureError, logged, on_failure, on_refusal
from lance_spark.index.kinds import kind_of
from lance_spark.index.value_types import TAKES
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Rewrite, RewriteGroup
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.changes.alter import update_config
from lance_spark.table.commit.commit import commit, with_own_ids
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.compaction.clustered import Clustered, Clustering, ClusteringMetrics, job_of_fragment
from lance_spark.table.compaction.compaction import (
    Compacted,
    Group,
    has_many_deletions,
    with_reserved_ids,
    within_limits,
)
from lance_spark.table.compaction.curve import (
    Sample,
    check_columns,
    comparable,
    joined_samples,
    places,
)
from lance_spark.table.compaction.places import Places
from lance_spark.table.compaction.task import LINEAGE, read_lineage, with_lineage
from lance_spark.table.indexes.create import NewIndex, create_index
from lance_spark.table.indexes.optimize import Optimization, optimize_indices
from lance_spark.table.indexes.remap import rebuild
from lance_spark.table.indexes.segment import discard as discard_segments
from lance_spark.table.scan.parts import Part, Parts, whole_parts
from lance_spark.table.scan.plan import BATCH_ROWS, ScanPlan, pack, plan_parts, plan_tasks, row_bytes
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results, Stage, run_stages
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.bases import Targets
from lance_spark.table.write.fragment_writer import FragmentWriter
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.order import column_at
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard, discard_job, rewrite_target

_SAMPLED_ROWS = 1 << 14
"""Every task gets the sample, 0.5 MB for a column of texts. Places divide by it as finely as by 16,384 values of each column."""
_RANGE_BYTES = 128 << 20
"""A task sorts about so many bytes of data files in memory, as many as a task of a scan reads at most."""
_MOST_SHUFFLED_IDS = 1 << 24
"""Stable row ids out of order take 4 bytes a row or more in every later manifest."""
_MOST_LINEAGE_BYTES = 64 << 20
"""The bytes of so many ids. Where rows of several versions are mixed, their versions take 30 bytes a row more."""
_NO_LIMIT = 1 << 62
_NO_SPLITS = np.empty(0, np.uint64)


@dataclass(frozen=True)
class SampleTask:
    """Takes every so many rows of the scan of some columns."""

    scan: ScanTask
    columns: tuple[tuple[Field, ...], ...]
    every: int


def sample(task: SampleTask) -> list[tuple[np.ndarray, np.ndarray]]:
    """The values of each column and a mask of nulls, see `comparable`."""
    done, batches = 0, []
    for batch in task.scan.read():
        batches.append(batch.take(pa.array(np.arange(-done % task.every, batch.num_rows, task.every))))
        done += batch.num_rows
    if not batches:
        return []
    found = []
    for path in task.columns:
        values, nulls = zip(*(comparable(column_at(batch, path)) for batch in batches), strict=True)
        found.append((np.concatenate(values), np.concatenate(nulls)))
    return found


@dataclass(frozen=True)
class SortTask:
    """Writes the rows of a scan in the order of the curve. `splits` are the places where ranges begin, without the first.

    Rows of one place (not `sorts`) need no order, and are never all in memory.
    """

    rows: ScanTask
    lineage: ScanTask | None
    target: WriteTarget
    columns: tuple[tuple[Field, ...], ...]
    samples: tuple[Sample, ...]
    splits: np.ndarray
    max_rows: int
    sorts: bool = True


@dataclass(frozen=True)
class Run:
    """Fragments with rows in order. If ranges were asked for, it is one, and `ends` are the numbers of rows before the end of each."""

    fragments: tuple[Fragment, ...]
    ends: tuple[int, ...] = field(default=())


def write_sorted(task: SortTask) -> list[Run]:
    """Write new fragments, which no version refers to yet. If this fails, the files are deleted."""
    runs: list[Run] = []
    lineage = None if task.lineage is None else read_lineage(task.lineage)
    start = 0
    with on_failure(lambda: discard(task.target, [f for run in runs for f in run.fragments])):
        for batch in _together(task.rows) if task.sorts else task.rows.read():
            own = None if lineage is None else [column[start : start + batch.num_rows] for column in lineage]
            start += batch.num_rows
            runs.append(_sorted_run(task, batch, own))
        return runs


def _together(rows: ScanTask) -> list[pa.RecordBatch]:
    """All rows in one batch, unless text would be too large for one array."""
    batches = list(rows.read())
    if not batches or not any(pa.types.is_dictionary(t) for t in batches[0].schema.types):
        return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
    return [pa.RecordBatch.from_arrays([joined(arrays) for arrays in zip(*batches)], schema=batches[0].schema)]


def _sorted_run(task: SortTask, batch: pa.RecordBatch, lineage: Sequence[np.ndarray] | None) -> Run:
    target, ends = task.target, ()
    order = np.arange(batch.num_rows)
    if task.sorts:
        at = places(task.samples, [comparable(column_at(batch, path)) for path in task.columns])
        order = np.argsort(at, kind="stable")
        ends = (*np.searchsorted(at[order], task.splits).tolist(), batch.num_rows)
    writer = FragmentWriter(target, task.max_rows)
    with on_failure(lambda: discard(target, writer.abort())):
        for first in range(0, len(order), BATCH_ROWS):
            writer.write_stored(batch.take(pa.array(order[first : first + BATCH_ROWS])))
        fragments = writer.finish()
    with on_failure(lambda: discard(target, fragments)):
        return Run(fragments if lineage is None else with_lineage(fragments, [column[order] for column in lineage]), ends)


@dataclass(frozen=True)
class _Plan:
    """What is clustered: the rows of `parts`, whole fragments, by the fields at `paths`. `how` is complete."""

    snapshot: Snapshot
    how: Clustering
    paths: tuple[tuple[Field, ...], ...]
    parts: Parts
    target: WriteTarget

    def sort_task(self, samples: tuple[Sample, ...], parts: Sequence[Part]) -> SortTask:
        """The task that writes the new fragments for rows of these parts."""
        stable = self.snapshot.manifest.has_stable_row_ids
        lineage = plan_parts(self.snapshot, ScanPlan(columns=LINEAGE), parts) if stable else None
        scan = plan_parts(self.snapshot, ScanPlan(), parts)
        rows = sum(part.num_rows for part in parts)
        fragments = -(-rows // self.how.target_rows_per_fragment)
        target = self.target.from_folder(parts[0].fragment.id)
        return SortTask(scan, lineage, target, self.paths, samples, _NO_SPLITS, max_rows=-(-rows // fragments))

    def final_task(self, samples: tuple[Sample, ...], parts: Sequence[Part]) -> SortTask:
        """A task like `sort_task`, with the size of files of a compaction. A sorted run is one file."""
        task, options = self.sort_task(samples, parts), self.how.compaction
        if options is None:
            return task
        return replace(task, target=replace(task.target, options=replace(NO_OPTIONS, max_bytes_per_file=options.max_bytes_per_file)))


def _plan(snapshot: Snapshot, clustering: Clustering) -> _Plan:
    """Raises an error if the table cannot be clustered in this way."""
    before = Clustered.of(snapshot)
    columns = clustering.columns or before.columns
    if not columns:
        raise InvalidOperationError(f"{snapshot}: the table was not clustered before; name the columns")
    check_columns(snapshot.manifest.schema, columns)
    clustering = replace(clustering, columns=columns)
    parts = Parts.of(_chosen(snapshot, clustering, _jobs(before, clustering)))
    if snapshot.manifest.has_stable_row_ids and (rows := parts.num_rows) > _MOST_SHUFFLED_IDS:
        raise UnsupportedFeatureError(
            f"{snapshot}: clustering {rows} rows of a table with stable row ids would make its manifest larger by 4 bytes a row; "
            f"cluster at most {_MOST_SHUFFLED_IDS} rows at once, or use a table without stable row ids"
        )
    paths = tuple(snapshot.manifest.schema.resolve(name) for name in columns)
    fragments = [part.fragment for part in parts]
    target = _places(snapshot, clustering).for_fragments(rewrite_target(snapshot, NO_OPTIONS), fragments)
    return _Plan(snapshot, clustering, paths, parts, target)


def _places(snapshot: Snapshot, clustering: Clustering) -> Places:
    return Places.of(snapshot, Targets() if clustering.compaction is None else clustering.compaction.targets)


def chosen_fragments(snapshot: Snapshot, clustering: Clustering) -> list[Fragment]:
    """The fragments that a clustering would write anew, for one that names its columns."""
    jobs = _jobs(Clustered.of(snapshot), clustering)
    return [part.fragment for part in _chosen(snapshot, clustering, jobs)]


def _jobs(before: Clustered, clustering: Clustering) -> frozenset[str]:
    """The jobs that have written fragments which are clustered as asked."""
    return before.jobs if clustering.columns == before.columns and not clustering.full else frozenset()


def _chosen(snapshot: Snapshot, clustering: Clustering, jobs: frozenset[str]) -> Sequence[Part]:
    """All rows of the fragments that are written anew. Those that these jobs wrote are clustered."""
    options, target = clustering.compaction, clustering.target_rows_per_fragment
    out = frozenset() if options is None else frozenset(options.excluded_fragment_ids)
    wanted = (p for p in whole_parts(snapshot) if clustering.fragments is None or p.fragment.id in clustering.fragments)
    asked = Parts.of([p for p in wanted if p.fragment.id not in out])
    sizes = (asked.rows * row_bytes(asked, snapshot.manifest.schema)).tolist()
    folders = _places(snapshot, clustering)
    anew = [
        job_of_fragment(p.fragment) not in jobs
        or folders.must_move(p.fragment)
        or (options is not None and has_many_deletions(p.fragment, p.num_rows, options))
        for p in asked
    ]
    # Small ones are sorted again: otherwise each small append would leave a small fragment for ever. Few rows may be many bytes.
    small = [p.num_rows < target // 2 and size < _RANGE_BYTES // 4 for p, size in zip(asked, sizes)]
    if not any(anew):
        rows = sum(p.num_rows for p, is_small in zip(asked, small) if is_small)
        size = sum(size for size, is_small in zip(sizes, small) if is_small)
        fewest = max(-(-rows // target), -(-size // _RANGE_BYTES))
        if options is None or sum(small) <= fewest:
            return ()
    chosen = [p for p, *wanted in zip(asked, anew, small) if any(wanted)]
    if options is None:
        return chosen
    groups: list[Group] = [[(p.fragment, p.num_rows)] for p in chosen]
    return chosen[: len(within_limits(snapshot, groups, options))]


def _sample_tasks(snapshot: Snapshot, clustering: Clustering, cores: int, results: Results) -> list[SampleTask]:
    plan = _plan(snapshot, clustering)
    if not plan.parts:
        return []
    every = max(plan.parts.num_rows // _SAMPLED_ROWS, 1)
    scan = ScanPlan(columns=plan.how.columns, fragments=frozenset(part.fragment.id for part in plan.parts))
    return [SampleTask(task, plan.paths, every) for task in plan_tasks(snapshot, scan, cores)]


def _run_tasks(snapshot: Snapshot, clustering: Clustering, cores: int, results: Results) -> list[SortTask]:
    """Sorted runs, if the rows are more than a task can sort."""
    plan = _plan(snapshot, clustering)
    samples, splits = _splits(plan, results)
    if not len(splits):
        return []
    groups = pack(plan.parts, snapshot.manifest.schema, cores, _RANGE_BYTES)
    return [replace(plan.sort_task(samples, group), splits=splits, max_rows=_NO_LIMIT) for group in groups]


def _range_tasks(snapshot: Snapshot, clustering: Clustering, cores: int, results: Results) -> list[SortTask]:
    """The new fragments: of one range of all runs each, or of all rows if there are no runs."""
    plan = _plan(snapshot, clustering)
    samples, splits = _splits(plan, results)
    if not len(splits):
        return [plan.final_task(samples, plan.parts)] if plan.parts else []
    runs = [run for task in results[1] for run in task]
    tasks = []
    for i in range(len(splits) + 1):
        parts = []
        for run in runs:
            start = run.ends[i - 1] if i else 0
            parts += [Part(fragment, start, run.ends[i]) for fragment in run.fragments]
        one_place = 0 < i < len(splits) and splits[i] == splits[i - 1] + np.uint64(1)
        if parts := [part for part in parts if part.num_rows]:
            tasks.append(replace(plan.final_task(samples, parts), sorts=not one_place))
    return tasks


def _splits(plan: _Plan, results: Results) -> tuple[tuple[Sample, ...], np.ndarray]:
    """The samples, and the places on the curve where ranges begin, without the first, so that a task can sort the rows of a range.

    A place with the rows of more than one range is a range by itself.
    """
    samples = joined_samples(results[0])
    size = float((plan.parts.rows * row_bytes(plan.parts, plan.snapshot.manifest.schema)).sum())
    count = int(-(-size // _RANGE_BYTES))
    if count < 2:
        return samples, _NO_SPLITS
    at = np.sort(np.concatenate([places(samples, columns) for columns in results[0]]))
    cuts, times = np.unique(at[np.arange(1, count) * len(at) // count], return_counts=True)
    return samples, np.unique(np.concatenate([cuts, cuts[times > 1] + np.uint64(1)]))


STAGES: Sequence[Stage[Clustering]] = (
    Stage(_sample_tasks, sample),
    Stage(_run_tasks, write_sorted),
    Stage(_range_tasks, write_sorted),
)


def cluster(runner: Runner, snapshot: Snapshot, clustering: Clustering, write: WriteOptions = NO_OPTIONS) -> ClusteringMetrics:
    """Cluster fragments of the latest version in one commit, which also has the segments of indexes for the new ones.

    Raises CommitConflictError if other writers have changed the fragments meanwhile: nothing is changed then.
    """
    if done_already := done_before(snapshot.store, write.noted):
        return ClusteringMetrics(done_already.version)
    snapshot = with_own_ids(snapshot)
    return commit_clustered(runner, snapshot, clustering, run_clustering(runner, snapshot, clustering), write)


def run_clustering(runner: Runner, snapshot: Snapshot, clustering: Clustering) -> Results:
    """The results of all stages. If one fails, the files of all are deleted."""

    def discard(begun: Sequence[Sequence[Any]], results: Results) -> None:
        # Of a stage of which a task failed, the files of the others are known by their names only.
        failed = begun[-1] if len(begun) > len(results) else ()
        if failed and isinstance(failed[0], SortTask):
            discard_job(failed[0].target)
        _discard(snapshot, clustering, results[1:])

    return run_stages(runner, snapshot, STAGES, clustering, discard)


def commit_clustered(
    runner: Runner, snapshot: Snapshot, clustering: Clustering, results: Results, write: WriteOptions
) -> ClusteringMetrics:
    """Commit the results of all stages for the same version."""
    version, done = commit_rewritten(runner, snapshot, clustering, results, write)
    return ClusteringMetrics(version, len(done.old), len(done.new), sum(f.physical_rows for f in done.new))


def commit_rewritten(
    runner: Runner, snapshot: Snapshot, clustering: Clustering, results: Results, write: WriteOptions
) -> tuple[int, Compacted]:
    """Commit as `commit_clustered` does. Returns the last version that it made, and the fragments before and after."""
    plan = _plan(snapshot, clustering)
    if not plan.parts:
        return snapshot.version, Compacted((), ())
    old = tuple(part.fragment for part in plan.parts)
    new = tuple(fragment for task in results[2] for run in task for fragment in run.fragments)
    with on_failure(lambda: _discard(snapshot, clustering, results[1:])):
        rewrite = _rewrite(runner, snapshot, RewriteGroup(old, new))

    def undo() -> None:
        _discard(snapshot, clustering, results[1:])
        discard_segments(snapshot.store, *(segment.new_id for segment in rewrite.rewritten_indices))

    with on_refusal(undo):
        done = commit(snapshot.store, Transaction(snapshot.version, rewrite, properties=write.noted), base=snapshot)
    with logged(f"{snapshot.store.uri}: what follows the clustering of version {done.version}"):
        _discard(snapshot, clustering, results[1:2])
        done = _with_indexes(runner, _recorded(done, plan.how.columns, new), plan.paths)
    return done.version, Compacted(old, new)


def _rewrite(runner: Runner, snapshot: Snapshot, group: RewriteGroup) -> Rewrite:
    """The operation, with the segments of indexes that it needs. Raises UnsupportedFeatureError if the manifest would become too large."""
    new = group.new_fragments
    sequences = (s for f in new for s in (f.row_ids, f.created_at, f.updated_at))
    lineage = sum(len(s) for s in sequences if isinstance(s, bytes))
    if lineage > _MOST_LINEAGE_BYTES:
        raise UnsupportedFeatureError(
            f"{snapshot}: the row ids and row versions of {sum(f.physical_rows for f in new)} rows would make the manifest larger by "
            f"{lineage} bytes; cluster fewer rows at once, such as with a condition, or use a table without stable row ids"
        )
    if all(index.name in SYSTEM_INDEXES for index in snapshot.manifest.indexes):
        return Rewrite((group,))
    (group,) = with_reserved_ids(snapshot, [group])
    return Rewrite((group,), rebuild(runner, snapshot, group.old_fragments, group.new_fragments))


def _recorded(snapshot: Snapshot, columns: tuple[str, ...], new: Sequence[Fragment]) -> Snapshot:
    """Record that the new fragments are clustered."""
    before = Clustered.of(snapshot)
    kept = before.jobs if before.columns == columns else frozenset()
    return update_config(snapshot, Clustered(columns, kept | {job_of_fragment(fragment) for fragment in new}).config)


def _with_indexes(runner: Runner, snapshot: Snapshot, paths: Sequence[tuple[Field, ...]]) -> Snapshot:
    """Extend the indexes that could not follow, and summarise the zones of columns without one: these let filters skip rows."""
    snapshot = optimize_indices(runner, snapshot, Optimization(), {})
    for path in paths:
        indexes = [i for i in snapshot.manifest.indexes if i.fields == (path[-1].id,)]
        indexed = any(kind_of(i.details_type, i.details) is not None for i in indexes)
        if not indexed and TAKES["ZONEMAP"](path[-1].to_arrow().type):
            new = NewIndex(quoted(f.name for f in path), "ZONEMAP", None, replace=False, train=True, parameters={})
            snapshot = create_index(runner, snapshot, new, {})
    return snapshot


def _discard(snapshot: Snapshot, clustering: Clustering, runs: Results) -> None:
    """Delete the files of runs and new fragments that no version refers to."""
    fragments = [fragment for stage in runs for task in stage for run in task for fragment in run.fragments]
    discard(_places(snapshot, clustering).anywhere(rewrite_target(snapshot, NO_OPTIONS)), fragments)
