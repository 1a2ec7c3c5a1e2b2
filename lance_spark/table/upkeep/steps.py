"""The kinds of steps: each plans its steps for a version, and does them with the operation of that name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lance_spark.display.words import counted, number, size
from lance_spark.table.changes.merge.log import merge_log
from lance_spark.table.compaction import cluster
from lance_spark.table.compaction.clustered import Clustered, Clustering
from lance_spark.table.compaction.compaction import CompactionOptions, plan_compaction
from lance_spark.table.compaction.optimize import optimize
from lance_spark.table.indexes.create import NewIndex, create_index
from lance_spark.table.indexes.describe import complaints
from lance_spark.table.indexes.optimize import Optimization, optimize_indices, uncovered
from lance_spark.table.maintenance.cleanup import CleanupPolicy, cleanup_old_versions
from lance_spark.table.mem_wal.tasks import open_sstable
from lance_spark.table.scan.runner import Runner
from lance_spark.table.upkeep.step import READS, Step
from lance_spark.table.upkeep.waste import OPENING, IndexSizes, Sizes, index_sizes, unordered
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.versions.write_ahead_log import has_log, shards_of
from lance_spark.table.write.options import NO_OPTIONS

_STEP_BYTES = 1 << 30
"""A compaction of more bytes is divided into steps, between which a budget can end: this many take about ten seconds of a core."""
_FASTER = "other writers changed the same fragments meanwhile"


@dataclass(frozen=True)
class Rewriting(Step):
    """Write fragments anew, as a compaction does."""

    fragments: frozenset[int]
    options: CompactionOptions

    def do(self, runner: Runner, snapshot: Snapshot) -> str | None:
        """Write them anew; see `table.compaction.optimize.optimize`, which also sorts the rows of a clustered table."""
        done = optimize(runner, snapshot, self.fragments, self.options, NO_OPTIONS)
        return _FASTER if done.conflicts and not done.fragments_removed else None


@dataclass(frozen=True)
class Compact(Rewriting):
    """Join small neighbors, and leave deleted rows out."""

    action: ClassVar[str] = "compact"

    @property
    def what(self) -> str:
        """The fragments, by their number."""
        return counted(len(self.fragments), "fragment")


def compactions(snapshot: Snapshot, options: CompactionOptions, most_bytes: int) -> Iterator[Compact]:
    """The runs of neighbors that are worth it, in steps of at most `most_bytes`, the best ones first.

    A compaction would also join each small fragment to a large neighbor, again and again. Here a fragment is written anew only if
    `READS` reads that need not open it, or need not read its deleted rows, repay the bytes.
    """
    if Clustered.of(snapshot).columns:
        return
    sizes = Sizes.of(snapshot)
    place = {fragment_id: i for i, fragment_id in enumerate(sizes.ids.tolist())}
    repaid = (OPENING + sizes.deleted_bytes) * READS >= sizes.live_bytes
    runs: list[Compact] = []
    for group in plan_compaction(snapshot, options).groups:
        places = np.array([place[fragment.id] for fragment in group])
        for run in _neighbors(places[repaid[places]], places):
            if (step := _compaction(sizes, run, options)) is not None:
                runs.append(step)
    yield from _in_steps(sorted(runs, key=lambda run: -run.gain_per_byte), min(most_bytes, _STEP_BYTES))


def _neighbors(chosen: np.ndarray, places: np.ndarray) -> Iterable[np.ndarray]:
    """Divide the chosen ones of places where one between them is left out."""
    if not len(chosen):
        return ()
    order = np.searchsorted(places, chosen)
    return np.split(chosen, np.flatnonzero(np.diff(order) > 1) + 1)


def _compaction(sizes: Sizes, run: np.ndarray, options: CompactionOptions) -> Compact | None:
    """What a run of places gains; None if it is a fragment alone whose deleted rows do not repay it."""
    live = int(sizes.live[run].sum())
    left = -(-live // options.target_rows_per_fragment)
    fewer = max(len(run) - left, 0)
    deleted = int(sizes.deleted_bytes[run].sum())
    deletions = int((sizes.rows - sizes.live)[run].sum())
    reasons = [
        f"{number(len(run))} small fragments can be {number(left)}" if fewer else "",
        f"{number(deletions)} of {number(int(sizes.rows[run].sum()))} rows are deleted" if deletions else "",
    ]
    cost, gain = int(sizes.live_bytes[run].sum()), OPENING * fewer + deleted
    step = Compact("; ".join(filter(None, reasons)), cost, gain, frozenset(sizes.ids[run].tolist()), options)
    return step if step.is_worth_it else None


def _in_steps(runs: Sequence[Compact], most_bytes: int) -> Iterator[Compact]:
    """Join runs to steps, so that few commits are made."""
    together: list[Compact] = []
    for run in runs:
        if together and sum(r.bytes_to_rewrite for r in together) + run.bytes_to_rewrite > most_bytes:
            yield _one_step(together)
            together = []
        together.append(run)
    if together:
        yield _one_step(together)


def _one_step(runs: Sequence[Compact]) -> Compact:
    if len(runs) == 1:
        return runs[0]
    why = f"{number(len(runs))} runs of small fragments or of fragments with deleted rows, such as: {runs[0].why}"
    fragments = frozenset[int]().union(*(run.fragments for run in runs))
    cost, gain = sum(run.bytes_to_rewrite for run in runs), sum(run.gain for run in runs)
    return Compact(why, cost, gain, fragments, runs[0].options)


@dataclass(frozen=True)
class Cluster(Rewriting):
    """Sort the rows of fragments along the columns by which the table is clustered."""

    columns: tuple[str, ...]

    action: ClassVar[str] = "cluster"

    @property
    def what(self) -> str:
        """The fragments, by their number, and the columns."""
        return f"{counted(len(self.fragments), 'fragment')} by {', '.join(self.columns)}"


def clusterings(snapshot: Snapshot, options: CompactionOptions) -> Iterator[Cluster]:
    """What a compaction of a clustered table would sort; nothing of other tables."""
    columns = Clustered.of(snapshot).columns
    if not columns:
        return
    how = Clustering(columns, False, None, options.target_rows_per_fragment, options)
    chosen = [fragment.id for fragment in cluster.chosen_fragments(snapshot, how)]
    if not chosen:
        return
    sizes = Sizes.of(snapshot)
    is_chosen = np.isin(sizes.ids, chosen)
    is_unordered = np.isin(sizes.ids, list(unordered(snapshot))) & is_chosen
    unsorted_bytes = int(sizes.live_bytes[is_unordered].sum())
    deleted_bytes = int(sizes.deleted_bytes[is_chosen].sum())
    left = -(-int(sizes.live[is_chosen].sum()) // options.target_rows_per_fragment)
    fewer = max(len(chosen) - left, 0)
    filters = f"filters on {', '.join(columns)} read {size(unsorted_bytes)} in {counted(int(is_unordered.sum()), 'fragment')}"
    reasons = [
        f"{filters} that no clustering has sorted" if unsorted_bytes else "",
        f"{number(len(chosen))} fragments can be {number(left)}" if fewer else "",
        f"{size(deleted_bytes)} are of deleted rows" if deleted_bytes else "",
    ]
    cost, gain = int(sizes.live_bytes[is_chosen].sum()), OPENING * fewer + deleted_bytes + unsorted_bytes
    step = Cluster("; ".join(filter(None, reasons)), cost, gain, frozenset(chosen), options, columns)
    if step.is_worth_it:
        yield step


@dataclass(frozen=True)
class Index(Step):
    """Give an index the rows that it lacks, join its segments, or train it again."""

    name: str
    how: Optimization

    action: ClassVar[str] = "optimize_indices"

    @property
    def what(self) -> str:
        """The name of the index."""
        return self.name

    def do(self, runner: Runner, snapshot: Snapshot) -> str | None:
        """Extend or train the index; see `table.indexes.optimize.optimize_indices`."""
        optimize_indices(runner, snapshot, self.how, {})
        return None


def indexes(snapshot: Snapshot) -> Iterator[Index]:
    """At most one step for each index: to train it again, or to extend it or join its segments in the way that gains most for a byte."""
    drifted, extendable = complaints(snapshot), uncovered(snapshot)
    for index in index_sizes(snapshot, Sizes.of(snapshot)):
        if (complaint := drifted.get(index.name)) is not None:
            steps = [_trained_again(index, complaint)]
        else:
            lacks = index.lacking_rows > 0 and index.name in extendable
            steps = [*([_extended(index)] if lacks else []), *([_joined_segments(index)] if lacks or index.segments > 1 else [])]
        worth = sorted((step for step in steps if step.is_worth_it), key=lambda step: -step.gain_per_byte)
        yield from worth[:1]


def _trained_again(index: IndexSizes, complaint: str) -> Index:
    """An index that has drifted finds less: as if a search had to read all that it covers."""
    how = Optimization(names=(index.name,), retrain=True)
    return Index(f"train it again: {complaint}", index.bytes + index.added_bytes, index.bytes + index.scanned_bytes, index.name, how)


def _extended(index: IndexSizes) -> Index:
    """The rows that it lacks get a segment of their own, which searches open, too."""
    how = Optimization(merge=0, names=(index.name,))
    return Index(_lacks(index), index.added_bytes, index.scanned_bytes - OPENING, index.name, how)


def _joined_segments(index: IndexSizes) -> Index:
    """All rows get one segment."""
    opened = counted(index.segments, "segment")
    why = f"{_lacks(index)}, and opens {opened}" if index.lacking_rows else f"a search opens {opened}"
    gain = index.scanned_bytes + OPENING * (index.segments - 1)
    return Index(why, index.bytes + index.added_bytes, gain, index.name, Optimization(names=(index.name,)))


def _lacks(index: IndexSizes) -> str:
    fragments = counted(len(index.lacks), "fragment")
    return f"a search reads {number(index.lacking_rows)} rows of {fragments} that it does not cover"


@dataclass(frozen=True)
class MergeLog(Step):
    """Merge what the write-ahead log has flushed."""

    generations: int

    action: ClassVar[str] = "merge_mem_wal"

    @property
    def what(self) -> str:
        """The generations, by their number."""
        return counted(self.generations, "generation")

    def do(self, runner: Runner, snapshot: Snapshot) -> str | None:
        """Merge each generation in one commit."""
        for _ in merge_log(snapshot, NO_OPTIONS, runner):
            pass
        return None


def logs(snapshot: Snapshot) -> Iterator[MergeLog]:
    """One step for all generations that the log has flushed; nothing for a table without a log."""
    if not has_log(snapshot.manifest):
        return
    tables = [open_sstable(snapshot, shard, path) for shard in shards_of(snapshot) for _, path in shard.sstables]
    if tables:
        written = sum(int(Sizes.of(table.snapshot).size.sum()) for table in tables)
        why = f"each read opens {counted(len(tables), 'generation')} of the log, and compares its rows with the table's"
        yield MergeLog(why, written, OPENING * len(tables) + written, len(tables))


@dataclass(frozen=True)
class CleanUp(Step):
    """Remove old versions, and files that no version needs. Its gain is storage, and nothing is rewritten."""

    versions: int
    files: int
    policy: CleanupPolicy

    action: ClassVar[str] = "cleanup"

    @property
    def what(self) -> str:
        """The versions and files, by their numbers."""
        return f"{counted(self.versions, 'version')}, {counted(self.files, 'file')}"

    def do(self, runner: Runner, snapshot: Snapshot) -> str | None:
        """Remove them; see `table.maintenance.cleanup.cleanup_old_versions`."""
        cleanup_old_versions(reopened(snapshot), self.policy)
        return None


def cleanups(snapshot: Snapshot, policy: CleanupPolicy) -> Iterator[CleanUp]:
    """One step, if there is something to remove. Versions that a tag, a branch, a clone or a stream needs are kept."""
    stats = cleanup_old_versions(snapshot, replace(policy, dry_run=True))
    if stats.files:
        why = f"{size(stats.bytes_removed)} belong to no version that is kept"
        yield CleanUp(why, 0, stats.bytes_removed, stats.old_versions, len(stats.files), policy)


@dataclass(frozen=True)
class CreateIndex(Step):
    """Build an index that filters of the log would use."""

    column: str

    action: ClassVar[str] = "create_index"

    @property
    def what(self) -> str:
        """The column."""
        return self.column

    def do(self, runner: Runner, snapshot: Snapshot) -> str | None:
        """Build it; see `table.indexes.create.create_index`."""
        create_index(runner, snapshot, NewIndex(self.column, "BTREE", None, False, True, {}), {})
        return None


@dataclass(frozen=True)
class ClusterBy(Step):
    """Cluster a table by columns of which filters of the log want ranges."""

    columns: tuple[str, ...]

    action: ClassVar[str] = "cluster"

    @property
    def what(self) -> str:
        """The columns."""
        return ", ".join(self.columns)

    def do(self, runner: Runner, snapshot: Snapshot) -> str | None:
        """Sort all rows; see `table.compaction.cluster.cluster`. Later compactions keep the order."""
        cluster.cluster(runner, snapshot, Clustering(self.columns))
        return None
