"""`cluster`: sort rows so that filters read few of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance_spark.actions.action import NOTED, Action, Job, Parameter, noted
from lance_spark.actions.compact import TARGET_ROWS, WHERE, chosen
from lance_spark.table.compaction import cluster
from lance_spark.table.compaction.clustered import Clustering, ClusteringMetrics
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.scan.stages import Results, Stage
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions

_Asked = tuple[Clustering, WriteOptions]


def _asked(snapshot: Snapshot, columns: Sequence[str] = (), where: str | None = None, **given: Any) -> _Asked:
    write = noted(given)
    return Clustering(tuple(columns), fragments=chosen(snapshot, where), **given), write


def _stage(stage: Stage[Clustering]) -> Stage[_Asked]:
    def tasks(snapshot: Snapshot, asked: _Asked, cores: int, results: Results) -> Sequence[Any]:
        return stage.tasks(snapshot, asked[0], cores, results)

    return Stage(tasks, stage.run)


def _commit(snapshot: Snapshot, asked: _Asked, results: Results) -> ClusteringMetrics:
    return cluster.commit_clustered(Here(), snapshot, asked[0], results, asked[1])


def _run(runner: Runner, snapshot: Snapshot, asked: _Asked) -> ClusteringMetrics:
    return cluster.cluster(runner, snapshot, *asked)


CLUSTER = Action(
    "cluster",
    "write rows anew so that those with near values of the columns are near each other",
    {"version": "bigint", "fragments_removed": "bigint", "fragments_added": "bigint", "rows": "bigint"},
    Job(_asked, tuple(map(_stage, cluster.STAGES)), _commit, _run),
    (
        Parameter("columns", "array<string>", "at most four columns (default: those of the last time)", ()),
        WHERE,
        Parameter("full", "boolean", "write all fragments anew, also those that are clustered", False),
        TARGET_ROWS,
        *NOTED,
    ),
    effect="keeps",
    methods={"Dataset": ("optimize.cluster",), "LanceTable": ("optimize.executeZOrderBy",)},
    see="See [clustering](verbs/optimize.md#cluster-a-table).",
)
ACTIONS = (CLUSTER,)
