"""`cluster`: sort rows so that filters read few of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance_spark.actions.action import NOTED, Action, Asked, Job, Parameter, asked, noted
from lance_spark.actions.compact import TARGET_ROWS, WHERE, chosen
from lance_spark.table.compaction import cluster
from lance_spark.table.compaction.clustered import Clustering, ClusteringMetrics
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.scan.stages import Results
from lance_spark.table.versions.snapshot import Snapshot


def _clustering(snapshot: Snapshot, columns: Sequence[str] = (), where: str | None = None, **given: Any) -> Asked[Clustering]:
    write = noted(given)
    return Asked(Clustering(tuple(columns), fragments=chosen(snapshot, where), **given), write)


def _commit(snapshot: Snapshot, asked: Asked[Clustering], results: Results) -> ClusteringMetrics:
    return cluster.commit_clustered(Here(), snapshot, asked.how, results, asked.write)


def _run(runner: Runner, snapshot: Snapshot, asked: Asked[Clustering]) -> ClusteringMetrics:
    return cluster.cluster(runner, snapshot, asked.how, asked.write)


CLUSTER = Action(
    "cluster",
    "write rows anew so that those with near values of the columns are near each other",
    {"version": "bigint", "fragments_removed": "bigint", "fragments_added": "bigint", "rows": "bigint"},
    Job(_clustering, asked(cluster.STAGES), _commit, _run),
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
