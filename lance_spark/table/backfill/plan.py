"""The plan of a run of a backfill: the job, and the shares of the fragments that may lack results."""

from __future__ import annotations

import hashlib
import itertools
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lance_spark.errors import InvalidOptionError, SchemaMismatchError, check_at_least
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.predicate import parse
from lance_spark.table.backfill.function import ON_ERROR, LanceFunction, OnError
from lance_spark.table.backfill.state import Columns, pending
from lance_spark.table.backfill.verified import Verified, has_state
from lance_spark.table.backfill.work import Job, Share, paths_read
from lance_spark.table.changes.checkpoint import Checkpoint
from lance_spark.table.changes.column_files import column_target
from lance_spark.table.scan.parts import Part, all_live_rows
from lance_spark.table.scan.plan import ScanPlan, plan_parts
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.write import rewrite_target

FOLDER = "_backfill"
"""The folder in the table's own for results that are not committed. Other writers and cleanups leave it alone."""
_SHARES_PER_CORE = 8
_LEAST_ROWS, _MOST_ROWS = 64, 64 << 10


@dataclass(frozen=True)
class Request:
    """What a user asks for: the `where` of rows to compute, a folder for results (None: the table's), the number of tasks."""

    function: LanceFunction
    version: str
    where: str | None = None
    on_error: OnError = "fail"
    checkpoint: str | None = None
    num_tasks: int | None = None

    def __post_init__(self) -> None:
        if self.on_error not in ON_ERROR:
            raise InvalidOptionError(f"on_error must be one of {', '.join(ON_ERROR)}, not {self.on_error!r}")
        if self.num_tasks is not None:
            check_at_least("num_tasks", self.num_tasks, 1)


def make_job(snapshot: Snapshot, columns: Columns, request: Request, options: WriteOptions) -> tuple[Job, Verified]:
    """The job of a run, and what is known of the fragments."""
    if request.on_error != "fail" and not columns.value.nullable:
        raise SchemaMismatchError(
            f"the column {columns.value.name!r} is not nullable, so a failed row cannot have null; use on_error='fail'"
        )
    outside = [snapshot.store.uri] if request.checkpoint else []
    meaning = [*outside, sorted(columns.ids), [path[-1].id for path in columns.inputs]]
    folder = f"{request.checkpoint or f'{snapshot.store.uri}/{FOLDER}'}/{_key(meaning)}"
    store = snapshot.store.at(folder)
    notes = Checkpoint(snapshot.store.at(f"{folder}/{_key(request.version)}"), "fragment", whole=False)
    write = replace(rewrite_target(snapshot, options), schema=columns.written)
    target = column_target(snapshot, write)
    job = Job(uuid.uuid4().hex[:12], columns, request.function, request.version, request.on_error, target, notes)
    return job, Verified.read(store, columns)


def _key(meaning: object) -> str:
    return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()[:20]


def plan_shares(snapshot: Snapshot, job: Job, request: Request, verified: Verified, cores: int) -> list[Share]:
    """The shares of all fragments, but those that are known to lack nothing."""
    names = paths_read(job.columns, request.on_error)
    where = None if request.where is None else parse(request.where, with_row_columns(snapshot.manifest.schema))
    everything = ScanPlan(columns=names, predicate=where, use_scalar_index=False)
    lacking = replace(everything, predicate=pending(snapshot, job.columns, request.version, request.where))
    chosen: list[tuple[Fragment, int, ScanPlan]] = []
    for fragment, rows in zip(snapshot.manifest.fragments, all_live_rows(snapshot).tolist()):
        known = verified.of(fragment, snapshot.locations) if has_state(fragment, job.columns) else None
        if rows and known != request.version:
            chosen.append((fragment, rows, everything if known is None else lacking))
    total = sum(rows for _, rows, _ in chosen)
    most = max(-(-total // (request.num_tasks or cores * _SHARES_PER_CORE)), _LEAST_ROWS)
    size = most if request.num_tasks else min(most, _MOST_ROWS)
    return [share for fragment, rows, plan in chosen for share in _divided(snapshot, fragment, rows, plan, size)]


def _divided(snapshot: Snapshot, fragment: Fragment, rows: int, plan: ScanPlan, size: int) -> Iterator[Share]:
    """Shares of a fragment of about the same size."""
    count = -(-rows // size)
    cuts = [rows * i // count for i in range(count + 1)]
    for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
        yield Share(fragment, number, count, plan_parts(snapshot, plan, [Part(fragment, start, stop)]))
