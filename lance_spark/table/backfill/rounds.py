"""Rounds of a backfill: each computes what the latest version lacks, and commits what is finished meanwhile.

Others may change the table at any time. What they change is computed by another round, or by the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lance_spark.metadata.fragment import Fragment
from lance_spark.table.backfill.commit import Commits
from lance_spark.table.backfill.plan import Request, make_job, plan_shares
from lance_spark.table.backfill.state import with_columns
from lance_spark.table.backfill.work import Job, Share, ShareDone
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions


@dataclass(frozen=True)
class Backfilled:
    """The result of a backfill. `version` is the table's latest version.

    `num_rows` have got a result in `num_commits` commits: the function has computed `num_computed_rows` now, of which `num_failed_rows`
    failed, and earlier runs that were stopped the others. `function_version` is the version that is recorded with them.
    """

    version: int
    num_rows: int = 0
    num_computed_rows: int = 0
    num_failed_rows: int = 0
    num_commits: int = 0
    function_version: str = ""


Run = Callable[[Sequence[Share], Job, Commits], list[ShareDone]]
"""Runs shares, and looks for finished fragments meanwhile (`Commits.collect`)."""


@dataclass
class Rounds:
    """The rounds of one call, with the sums so far. `latest` opens the latest version; `fragments` are committed at a time."""

    latest: Callable[[], Snapshot]
    column: str
    request: Request
    options: WriteOptions
    fragments: int
    cores: int
    run: Run
    done: Backfilled = field(default_factory=lambda: Backfilled(0))

    def round(self) -> bool:
        """Compute what the latest version lacks. True if rows of it still lack a result, mostly because others have changed fragments."""
        snapshot, job, commits = self._begin()
        commits.collect(final=True)  # what an earlier run has finished but not committed
        if commits.count:
            self._add(commits)
            snapshot, job, commits = self._begin()
        shares = plan_shares(snapshot, job, self.request, commits.verified, self.cores)
        try:
            shares_done = self.run(shares, job, commits) if shares else []
        finally:
            commits.collect(final=True)
            self._add(commits)
        self._note_complete(shares_done, shares, commits)
        computed = sum(done.computed for done in shares_done)
        failed = sum(done.failed for done in shares_done)
        self.done = replace(
            self.done,
            num_computed_rows=self.done.num_computed_rows + computed,
            num_failed_rows=self.done.num_failed_rows + failed,
        )
        # A share that was to write a fragment's file may have been lost with its worker.
        unwritten = {done.fragment for done in shares_done if done.pending} - commits.committed.keys()
        return bool(commits.lost | unwritten)

    def _begin(self) -> tuple[Snapshot, Job, Commits]:
        inputs = self.request.function.inputs
        assert inputs is not None
        snapshot, columns = with_columns(with_own_ids(self.latest()), self.column, None, inputs)
        job, verified = make_job(snapshot, columns, self.request, self.options)
        return snapshot, job, Commits(snapshot, job, self.options, verified, self.fragments)

    def _add(self, commits: Commits) -> None:
        rows, count = self.done.num_rows + commits.rows, self.done.num_commits + commits.count
        self.done = replace(self.done, num_rows=rows, num_commits=count)

    def _note_complete(self, shares_done: Sequence[ShareDone], shares: Sequence[Share], commits: Commits) -> None:
        """Note the fragments whose rows have all been compared, and those of which all rows have a result.

        They are noted as they were then: others may have changed them since.
        """
        latest = self.latest().manifest.lazy_fragments
        commits.forget_removed(set(latest.ids.tolist()))
        if self.request.where is not None or not shares_done:
            return
        failed = {one.fragment for one in shares_done if one.failed}
        pending = {one.fragment for one in shares_done if one.pending}
        compared: list[tuple[Fragment, str]] = []
        for i, fragment in {share.fragment.id: share.fragment for share in shares}.items():
            with_results = commits.committed.get(i, None if i in pending else fragment)
            if with_results is not None:
                compared.append((with_results, "" if i in failed else self.request.version))
        commits.verified.note(compared, commits.snapshot.locations)
        commits.verified.tidy(latest)
