"""Commits of finished fragments: each is an Update in place. A fragment that others have changed meanwhile is left out, not the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from lance_spark.errors import CommitConflictError, logged
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import REWRITE_COLUMNS, Update
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.backfill.verified import Verified, has_state
from lance_spark.table.backfill.work import Job
from lance_spark.table.changes.column_files import ColumnFile
from lance_spark.table.changes.rule_checks import check_rewritten
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.commit.retry import retried
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.write.nested_fields import with_file
from lance_spark.table.write.options import WriteOptions

PATIENCE_S = 60.0
"""Finished fragments wait no longer than this for others, so that a commit has several."""


@dataclass
class Commits:
    """Collects the notes of finished fragments of `snapshot`, and commits `size` fragments at a time.

    `committed` are the fragments with results, by id: their inputs are those of `snapshot`, whatever others have changed since. `lost` are
    the ids of those whose results did not fit any more.
    """

    snapshot: Snapshot
    job: Job
    options: WriteOptions
    verified: Verified
    size: int
    count: int = 0
    rows: int = 0
    lost: set[int] = field(default_factory=set)
    committed: dict[int, Fragment] = field(default_factory=dict)
    _waiting: dict[int, tuple[Fragment, ColumnFile, float]] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)

    def collect(self, final: bool = False) -> None:
        """Look for new notes, and commit if there are enough, or if this is the last time."""
        seen = {*self._waiting, *self.committed, *self.lost}
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting |= self.job.notes.found(self.snapshot, seen)
        is_due = len(self._waiting) >= self.size or (self._waiting and time.monotonic() - self._since >= PATIENCE_S)
        if self._waiting and (final or is_due):
            self._commit(final)

    def _commit(self, final: bool) -> None:
        try:
            done, files = retried(reopened(self.snapshot), self._plan)
        except CommitConflictError as e:
            # Others commit all the time; there is another opportunity with the next fragments.
            if final or not e.retryable:
                raise
            return
        # Their files stay until a cleanup: another backfill of the column may have committed them.
        self.lost |= self._waiting.keys() - files.keys()
        self.rows += sum(file.num_rows for file in files.values())
        if files:
            self.count += 1
            self._note(files)
        there = done.manifest.lazy_fragments.of_ids(self._waiting)
        for i in self._waiting:
            if i in files or i not in there:  # if its inputs were changed in place, most results still serve
                self.job.results(i).forget()
        self.job.notes.forget(self._waiting)
        self._waiting = {}

    def forget_removed(self, now: Collection[int]) -> None:
        """Delete results of fragments that are not among `now`, since they were compacted or deleted. Best effort."""
        with logged(f"{self.job.notes.store.uri}: deleting results of fragments that were removed"):
            _, folders = self.job.notes.store.contents("")
            for name in folders:
                if name.isdecimal() and int(name) not in now:
                    self.job.results(int(name)).forget()

    def _plan(self, latest: Snapshot) -> Callable[[], tuple[Snapshot, dict[int, ColumnFile]]]:
        """The commit of those fragments that `latest` still has with the same files: their rows and inputs are the same.

        Raises SchemaMismatchError for values that fail a rule of `latest`.
        """
        schema = latest.manifest.schema
        ids = {f.id for f in schema.walk()}
        now = latest.manifest.lazy_fragments.of_ids(self._waiting) if self.job.columns.are_in(schema) else {}
        good = {}
        for i, (fragment, file, _) in self._waiting.items():
            if i in now and now[i].sources == fragment.sources:
                good[i] = file
        if not good:
            return lambda: (latest, {})
        updated = tuple(with_file(now[i], file.file, ids) for i, file in good.items())
        # A rule may have been declared after the values were computed, also by a run that was stopped.
        check_rewritten(latest, updated, self.job.columns.ids)
        operation = Update(
            updated_fragments=updated,
            fields_modified=tuple(sorted(self.job.columns.ids)),
            update_mode=REWRITE_COLUMNS,
            updated_fragment_offsets={i: file.rows for i, file in good.items()},
        )
        transaction = Transaction(latest.version, operation, properties=self.options.noted)
        since = min(since for _, _, since in self._waiting.values())
        return lambda: (commit(latest.store, transaction, base=latest, files=NewFiles(since=since)), good)

    def _note(self, files: Mapping[int, ColumnFile]) -> None:
        """Note that the inputs of these fragments need not be read again, unless there may be rows that were not compared."""
        before = {i: fragment for i, (fragment, _, _) in self._waiting.items() if i in files}
        known = {f.id for f in self.snapshot.manifest.schema.walk()}
        now = {i: with_file(fragment, files[i].file, known) for i, fragment in before.items()}
        self.committed |= now
        locations = self.snapshot.locations
        trusted = []
        for i, fragment in before.items():
            if not has_state(fragment, self.job.columns) or self.verified.of(fragment, locations) is not None:
                trusted.append(i)
        self.verified.note([(now[i], "") for i in trusted], locations)
