"""OPTIMIZE: tasks on the executors compact or cluster fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lance_spark.display.arguments import known_arguments
from lance_spark.errors import by_name_from_now
from lance_spark.table.changes.update import rows_by_fragment
from lance_spark.table.compaction.cluster import cluster
from lance_spark.table.compaction.clustered import Clustering, ClusteringMetrics
from lance_spark.table.compaction.compaction import COMPACTION, CompactionOptions
from lance_spark.table.compaction.optimize import CompactionMetrics, optimize, proposal
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.condition import Condition, as_column, check_deterministic, own_predicate
from lance_spark.verbs.job import OnExecutors
from lance_spark.verbs.target import Target, given

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion


def compact(
    target: Target, condition: Condition | None, options: CompactionOptions, write: WriteOptions, progress: bool | None
) -> CompactionMetrics:
    """Compact the fragments with a row for which `condition` is true, or all fragments."""
    snapshot = target.current()
    if not isinstance(snapshot, Snapshot):
        return compact_partitioned(target, snapshot, condition, options, write, progress)
    chosen = None if condition is None else _chosen(target, condition, snapshot)
    return optimize(OnExecutors(target.spark, target.cores()), snapshot, chosen, options, write, progress)


def compact_partitioned(
    target: Target,
    version: PartitionedVersion,
    condition: Condition | None,
    options: CompactionOptions,
    write: WriteOptions,
    progress: bool | None,
) -> CompactionMetrics:
    """Compact the tables of a partitioned namespace with a row for which `condition` is true, or all tables."""
    from lance_spark.namespace.partitioned.addresses import Addresses
    from lance_spark.namespace.partitioned.maintenance import compact

    chosen = None
    if condition is not None:
        rows = target.rows(version)
        check_deterministic(rows, [condition])
        number = f"shiftright({target.address}, {Addresses.of(version).shift})"
        chosen = {row[0] for row in rows.where(as_column(condition)).selectExpr(number).distinct().collect()}
    return compact(version, options, chosen, write.noted, progress).metrics


def _chosen(target: Target, condition: Condition, snapshot: Snapshot) -> frozenset[int]:
    predicate = own_predicate(target.spark, condition, snapshot, target.alias)
    if predicate is not None:
        return frozenset(rows_by_fragment(OnExecutors(target.spark, target.cores()), snapshot, predicate))
    check_deterministic(target.rows(snapshot), [condition])
    rows = target.rows(snapshot).where(as_column(condition))
    return frozenset(row[0] for row in rows.selectExpr(f"shiftright({target.address}, 32)").distinct().collect())


@known_arguments
@dataclass(frozen=True)
class Optimizer:
    """A builder of a compaction or a clustering."""

    _target: Target
    _condition: Condition | None = None

    def __repr__(self) -> str:
        return f"Optimizer({self._target.uri!r}" + (")" if self._condition is None else f", where={str(self._condition)!r})")

    def _repr_html_(self) -> str:
        """What a compaction of the whole latest version would do."""
        return proposal(self._target.latest())._repr_html_()

    def where(self, condition: Condition) -> Optimizer:
        """Rewrite only fragments with a row for which `condition` is true."""
        return replace(self, _condition=condition)

    @by_name_from_now(
        "materialize_deletions",
        "materialize_deletions_threshold",
        "max_bytes_per_file",
        "drop_index_coverage",
        "defer_index_remap",
        "progress",
        after=2,
    )
    def executeCompaction(
        self,
        target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
        *,
        materialize_deletions: bool = COMPACTION.materialize_deletions,
        materialize_deletions_threshold: float = COMPACTION.materialize_deletions_threshold,
        max_bytes_per_file: int = COMPACTION.max_bytes_per_file,
        drop_index_coverage: bool = COMPACTION.drop_index_coverage,
        defer_index_remap: bool = COMPACTION.defer_index_remap,
        progress: bool | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Sequence[int] = (),
        sort_by: Sequence[str] = (),
        target_bases: Sequence[str] = (),
        target_all_bases: bool | None = None,
        **noted: Any,
    ) -> CompactionMetrics:
        """Join small fragments and rewrite those with many deleted rows. docs/verbs/optimize.md has the arguments.

        What is rewritten of a clustered table keeps its order; `sort_by` gives the order of these columns.
        Rows stay at their base path, or move to `target_bases`.
        Other writers can continue: groups of fragments that they change meanwhile are skipped. `progress` shows a bar (None: in
        a terminal where tqdm is installed).
        """
        options = CompactionOptions(
            target_rows_per_fragment,
            materialize_deletions,
            materialize_deletions_threshold,
            max_bytes_per_file,
            drop_index_coverage,
            defer_index_remap,
            max_source_fragments,
            max_source_rows,
            max_source_bytes,
            excluded_fragment_ids,
            sort_by,
            target_bases,
            target_all_bases,
        )
        return compact(self._target, self._condition, options, given(noted), progress)

    def executeZOrderBy(
        self,
        *columns: str | Sequence[str],
        full: bool = False,
        target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
        **noted: Any,
    ) -> ClusteringMetrics:
        """Write rows anew so that those with near values of the columns are near each other, and filters on any of them read few rows.

        There are at most four columns (none: those of the last time). Rows follow one another along a Hilbert curve, which reads fewer
        than a Z-order. Only fragments that are not clustered yet are written anew, or all with `full`. Indexes follow in the same commit,
        and columns without an index get zone maps. Raises CommitConflictError if other writers have changed the fragments meanwhile;
        nothing is changed then.

        Examples:
            >>> import random
            >>> rows = [(random.random(), random.random()) for _ in range(1000)]
            >>> spark.createDataFrame(rows, "x double, y double").write.format("lance").mode("append").save("/tmp/points.lance")
            >>> LanceTable.forPath(spark, "/tmp/points.lance").optimize().executeZOrderBy("x", "y").rows
            1000
        """
        snapshot = self._target.latest()
        chosen = None if self._condition is None else _chosen(self._target, self._condition, snapshot)
        how = Clustering(Clustering.names(columns), full, chosen, target_rows_per_fragment)
        return cluster(OnExecutors(self._target.spark, self._target.cores()), snapshot, how, given(noted))
