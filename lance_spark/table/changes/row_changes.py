"""Execution of a change of rows: write, commit, and start again from the new version after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Protocol

from lance_spark.display.figures import Figures
from lance_spark.errors import on_failure, on_refusal
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Append, Overwrite
from lance_spark.schema.schema import Field
from lance_spark.table.changes.delta import NO_INTENT, Delta, DeltaPart, DeltaTarget, Intent, commit_delta, united
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.commit.retry import retried
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import Snapshot, in_use
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard_job, rewrite_target


@dataclass(frozen=True)
class RowChanges(Figures):
    """The result of a change of rows. `version` is the new version, or the latest one if nothing changed."""

    version: int
    num_deleted_rows: int = 0
    num_updated_rows: int = 0
    num_inserted_rows: int = 0
    num_files_added: int = 0
    num_bytes_added: int = 0


def changes_by(fragments: Iterable[Fragment], version: int = 0, **rows: int) -> RowChanges:
    """The figures of a change of these numbers of rows that adds fragments."""
    files = [file for fragment in fragments for file in fragment.files]
    size = sum(file.size or 0 for file in files)
    return RowChanges(version, **rows, num_files_added=len(files), num_bytes_added=size)


def changes_of_write(snapshot: Snapshot) -> RowChanges:
    """The rows and files that the append or overwrite of a version has added."""
    operation = transaction_of(snapshot).operation
    fragments = operation.fragments if isinstance(operation, Append | Overwrite) else ()
    return changes_by(fragments, snapshot.version, num_inserted_rows=sum(fragment.physical_rows for fragment in fragments))


class Written(Protocol):
    """A change whose files have been written."""

    @property
    def changes(self) -> RowChanges:
        """The result; `version` is the version that it is based on."""

    def commit(self, properties: Mapping[str, str]) -> Snapshot:
        """Commit the change; the transaction gets these properties. If it has certainly failed, the caller deletes the data files."""


@dataclass(frozen=True)
class RowPlan:
    """A plan for changing rows of one version; `write` writes its files. `adds_rows` is False if it only deletes."""

    write: Callable[[WriteTarget], Written]
    adds_rows: bool = True


def noted(changes: RowChanges) -> dict[str, str]:
    """The figures of a change that its transaction notes."""
    return {name: str(value) for name, value in vars(changes).items() if name != "version"}


def changes_noted(version: int, properties: Mapping[str, str]) -> RowChanges:
    """The change that a transaction notes."""
    names = [f.name for f in fields(RowChanges) if f.name != "version"]
    return RowChanges(version, **{name: int(properties[name]) for name in names if name in properties})


def change_rows(snapshot: Snapshot, options: WriteOptions, plan: Callable[[Snapshot], RowPlan]) -> RowChanges:
    """Run the plan for the snapshot's version, or for a later one: see `retried`. Files of an uncommitted change are deleted."""

    def written_for(snapshot: Snapshot) -> Callable[[], RowChanges]:
        if done := done_before(snapshot.store, options.noted):
            return partial(RowChanges, done.version)
        with in_use(snapshot):
            planned = plan(snapshot)
        target = rewrite_target(snapshot, options, planned.adds_rows)
        with on_failure(partial(discard_job, target)), in_use(snapshot):
            written = planned.write(target)

        def commit() -> RowChanges:
            with on_refusal(partial(discard_job, target)):
                return replace(written.changes, version=written.commit({**options.noted, **noted(written.changes)}).version)

        return commit

    return retried(with_own_ids(snapshot), written_for)


@dataclass(frozen=True)
class DeltaPlan:
    """A change by delta rows: `parts` writes them and returns the result of each task.

    For `assigned`, `key` and `repeats`, see `DeltaTarget`.
    """

    snapshot: Snapshot
    parts: Callable[[DeltaTarget], Sequence[DeltaPart]]
    intent: Intent = NO_INTENT
    assigned: Sequence[str] = ()
    key: tuple[Field, ...] = ()
    repeats: bool = False

    def write(self, target: WriteTarget) -> Written:
        """Write the parts."""
        target = replace(target, schema=self.intent.schema or target.schema)
        delta = DeltaTarget.of(self.snapshot, target, self.assigned, self.key, self.repeats)
        parts = self.parts(delta)
        return WrittenDelta(self.snapshot, delta, self.intent, united(parts, self.repeats))


@dataclass(frozen=True)
class WrittenDelta:
    """A change of the rows of `snapshot`, whose tasks have returned the parts of `delta`."""

    snapshot: Snapshot
    target: DeltaTarget
    intent: Intent
    delta: Delta

    @property
    def changes(self) -> RowChanges:
        delta = self.delta
        return changes_by(
            delta.new_fragments,
            self.snapshot.version,
            num_deleted_rows=delta.num_deleted,
            num_updated_rows=delta.num_updated,
            num_inserted_rows=delta.num_inserted,
        )

    def commit(self, properties: Mapping[str, str]) -> Snapshot:
        ids = self.target.assigned_ids
        return commit_delta(self.snapshot, self.delta, self.intent, properties, ids)
