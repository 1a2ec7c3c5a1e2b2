"""Replacement of the rows that satisfy a condition, in one version."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lance_spark.errors import CommitConflictError
from lance_spark.metadata.fragment import Fragment
from lance_spark.predicate import Predicate
from lance_spark.table.changes.delta import DeltaPart, DeltaTarget, Intent, united
from lance_spark.table.changes.row_changes import WrittenDelta
from lance_spark.table.changes.row_tasks import plan_rows, run_row_task
from lance_spark.table.commit.cleaned_up_versions import fits_by_name
from lance_spark.table.commit.retry import retried
from lance_spark.table.commit.same_table import check_continues
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.target import WriteTarget


def replace_where(target: WriteTarget, predicate: Predicate, fragments: Sequence[Fragment]) -> Snapshot:
    """Replace all rows that satisfy the predicate in the latest version by `fragments`.

    Raises the errors of `table.commit.commit.commit`. The caller must handle the files of `fragments`.
    """

    def plan(snapshot: Snapshot) -> Callable[[], Snapshot]:
        check_continues(snapshot, target.read_version, target.read_identity)
        target.rules.constraints.check_complete(snapshot.manifest.config, str(snapshot))
        if not fits_by_name(target.schema, snapshot.manifest.schema):
            what = f"the columns of version {snapshot.version} differ from those of version {target.read_version}"
            raise CommitConflictError(f"{target.store.uri}: {what}, for which the rows were written; run the write again", retryable=True)
        delta_target = DeltaTarget.of(snapshot, target)
        tasks = plan_rows(snapshot, delta_target, predicate, cores=os.cpu_count() or 1)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            parts = list(pool.map(run_row_task, tasks))
        added = DeltaPart({}, (), tuple(fragments), 0, 0, sum(f.physical_rows for f in fragments))
        delta = united([*parts, added])
        written = WrittenDelta(snapshot, delta_target, Intent(predicate.text), delta)
        return partial(written.commit, target.options.noted)

    return retried(open_snapshot(target.store), plan)
