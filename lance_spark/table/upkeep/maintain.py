"""Upkeep of a table: the steps of a plan, in the order of their gain, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from lance_spark.display.listing import SHOWN, Listing, left_out
from lance_spark.display.table import Table
from lance_spark.display.words import size
from lance_spark.errors import CommitConflictError, InvalidOptionError, LanceError, UnsupportedFeatureError, check_at_least, check_type
from lance_spark.table.compaction.compaction import COMPACTION, CompactionOptions
from lance_spark.table.maintenance.cleanup import DEFAULT_AGE, CleanupPolicy
from lance_spark.table.scan.runner import Runner
from lance_spark.table.upkeep.recommend import recommendations
from lance_spark.table.upkeep.step import Step
from lance_spark.table.upkeep.steps import CleanUp, ClusterBy, CreateIndex, cleanups, clusterings, compactions, indexes, logs
from lance_spark.table.upkeep.waste import waste_of
from lance_spark.table.versions.snapshot import Snapshot, reopened

NO_LIMIT = 1 << 62
RECOMMENDED = (CreateIndex, ClusterBy)
"""Steps that are done only if they are asked for."""


@dataclass(frozen=True)
class Upkeep:
    """How a table is looked after.

    Steps are done while they are within `budget_bytes`, which they rewrite, and `budget_seconds`; None: no limit. Versions older than
    `older_than` are removed (default: 14 days), except the latest `retain_versions`. Indexes and columns to cluster by are recommended of
    a `filter_log`, see `table.scan.filter_log`, and made with `apply_recommendations`. With `dry_run`, nothing is done.
    """

    budget_bytes: int | None = None
    budget_seconds: float | None = None
    older_than: timedelta | None = None
    retain_versions: int | None = None
    target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment
    filter_log: str | None = None
    apply_recommendations: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.budget_bytes is not None:
            check_at_least("budget_bytes", self.budget_bytes, 0)
        if self.budget_seconds is not None:
            check_type("budget_seconds", self.budget_seconds, (int, float), "a number of seconds")
            if not self.budget_seconds >= 0:  # neither is what is no number
                raise ValueError(f"budget_seconds must be at least 0, not {self.budget_seconds}")
        if self.apply_recommendations and self.filter_log is None:
            raise InvalidOptionError("apply_recommendations needs a filter_log, of which recommendations are made")
        check_at_least("target_rows_per_fragment", self.target_rows_per_fragment, 1)

    @property
    def cleanup(self) -> CleanupPolicy:
        """What is removed."""
        age = DEFAULT_AGE if self.older_than is None and self.retain_versions is None else self.older_than
        return CleanupPolicy(age, self.retain_versions, error_if_tagged_old_versions=False)


@dataclass(frozen=True)
class MaintenanceStep:
    """A step that was planned, and what became of it.

    `bytes_to_rewrite` and `expected_gain` are estimates of the plan; `bytes_rewritten` and `gain` were measured afterwards, in the bytes
    of `table.upkeep.waste.Waste`, or of storage for a cleanup. `outcome` is "planned" in a dry run, "done", "recommended", or begins
    with "left out".
    """

    action: str
    what: str
    why: str
    bytes_to_rewrite: int
    expected_gain: int
    outcome: str
    bytes_rewritten: int
    gain: int
    milliseconds: int
    version: int


class Maintenance(Listing[MaintenanceStep]):
    """The steps of a plan, in order, which prints as a table."""

    def table(self, shown: int = SHOWN) -> Table:
        """One row for each step."""
        headers = ("operation", "on", "why", "rewrites", "should gain", "gained", "outcome")
        rows = [
            (
                step.action,
                step.what,
                step.why,
                size(step.bytes_rewritten or step.bytes_to_rewrite),
                size(step.expected_gain),
                size(step.gain),
                step.outcome,
            )
            for step in self[:shown]
        ]
        return Table(headers, rows, frozenset(["rewrites", "should gain", "gained"]), left_out(self, shown=shown))


def plan(snapshot: Snapshot, upkeep: Upkeep) -> list[Step]:
    """The steps that are worth it, those that gain most for each byte first. Nothing is changed; no data file is read."""
    compaction = CompactionOptions(upkeep.target_rows_per_fragment)
    most_bytes = NO_LIMIT if upkeep.budget_bytes is None else upkeep.budget_bytes
    found: list[Step] = [
        *cleanups(snapshot, upkeep.cleanup),
        *logs(snapshot),
        *compactions(snapshot, compaction, most_bytes),
        *clusterings(snapshot, compaction),
        *indexes(snapshot),
    ]
    if upkeep.filter_log is not None:
        found += (step for step in recommendations(snapshot, upkeep.filter_log) if step.is_worth_it)
    return sorted(found, key=lambda step: -step.gain_per_byte)


def maintain(runner: Runner, snapshot: Snapshot, upkeep: Upkeep) -> Maintenance:
    """Do the steps of a plan for the latest version, while the budget lasts. Each step commits for itself.

    A step that is under way is not interrupted; one that would take longer than the seconds that are left, at the rate of those before,
    is left out. A step that other writers overtake, or that cannot be done, is left out, too, and the next one is done.
    """
    snapshot = reopened(snapshot)
    budget = Budget(upkeep)
    return Maintenance(_outcome_of(runner, snapshot, step, budget) for step in plan(snapshot, upkeep))


def maintain_all(runner: Runner, tables: Mapping[str, Callable[[], Snapshot | None]], upkeep: Upkeep) -> dict[str, Maintenance]:
    """Look after several tables with one budget: of all steps, those that gain most for each byte first.

    The tables are opened by their names; those that are not there yet need nothing. An error of a table is the outcome of its step, and
    the other tables are looked after.
    """
    found = {name: Maintenance() for name in tables}
    planned: list[tuple[str, Snapshot, Step]] = []
    for name, opened in tables.items():
        try:
            snapshot = opened()
            if snapshot is not None:
                planned += ((name, snapshot, step) for step in plan(snapshot, upkeep))
        except LanceError as e:
            found[name].append(MaintenanceStep("open", name, "", 0, 0, f"failed: {e}", 0, 0, 0, 0))
    budget = Budget(upkeep)
    for name, snapshot, step in sorted(planned, key=lambda one: -one[2].gain_per_byte):
        try:
            found[name].append(_outcome_of(runner, snapshot, step, budget))
        except LanceError as e:
            found[name].append(_outcome(step, f"failed: {e}", snapshot.version))
    return found


class Budget:
    """What is left of the budget of some upkeep."""

    def __init__(self, upkeep: Upkeep) -> None:
        self.upkeep = upkeep
        self.rewritten = 0
        self._begun = time.monotonic()

    def exceeded_by(self, step: Step) -> str | None:
        """Why a step is not within the budget; None if it is."""
        most_bytes, most_seconds = self.upkeep.budget_bytes, self.upkeep.budget_seconds
        if most_bytes is not None and self.rewritten + step.bytes_to_rewrite > most_bytes:
            return f"it would exceed the budget of {most_bytes} bytes"
        if most_seconds is None:
            return None
        used = time.monotonic() - self._begun
        expected = step.bytes_to_rewrite * used / self.rewritten if self.rewritten else 0
        if used + expected >= most_seconds:
            return f"it would exceed the budget of {most_seconds} seconds"
        return None


def _outcome_of(runner: Runner, planned: Snapshot, step: Step, budget: Budget) -> MaintenanceStep:
    """Do a step, unless it is only planned or recommended, or not within the budget."""
    if budget.upkeep.dry_run:
        return _outcome(step, "planned", planned.version)
    if isinstance(step, RECOMMENDED) and not budget.upkeep.apply_recommendations:
        return _outcome(step, "recommended", planned.version)
    if (reason := budget.exceeded_by(step)) is not None:
        return _outcome(step, f"left out: {reason}", planned.version)
    done = _do(runner, reopened(planned), step)
    budget.rewritten += done.bytes_rewritten
    return done


def _do(runner: Runner, before: Snapshot, step: Step) -> MaintenanceStep:
    start = time.monotonic()
    try:
        reason = step.do(runner, before)
    except CommitConflictError as e:
        if not e.retryable:
            raise
        reason = str(e)
    except (InvalidOptionError, UnsupportedFeatureError) as e:
        # An index was dropped after the plan was made, or is of a kind that cannot be extended.
        reason = str(e)
    after = reopened(before)
    gain = step.gain if isinstance(step, CleanUp) else waste_of(before).total - waste_of(after).total
    done = _outcome(step, "done", after.version)
    milliseconds = round(1000 * (time.monotonic() - start))
    if reason is not None:
        return replace(done, outcome=f"left out: {reason}", milliseconds=milliseconds)
    return replace(done, bytes_rewritten=new_bytes(before, after), gain=gain, milliseconds=milliseconds)


def new_bytes(before: Snapshot, after: Snapshot) -> int:
    """The bytes of data files and segments that only the later version has."""
    if after.version == before.version:
        return 0
    old_data, new_data = _data_files(before), _data_files(after)
    old_indexes = {index.uuid for index in before.manifest.indexes}
    added = [file.size for index in after.manifest.indexes if index.uuid not in old_indexes for file in index.files]
    return sum(size for path, size in new_data.items() if path not in old_data) + sum(added)


def _data_files(snapshot: Snapshot) -> dict[str, int]:
    """The bytes of each data file, by its path."""
    return {file.path: file.size or 0 for fragment in snapshot.manifest.fragments for file in fragment.files}


def _outcome(step: Step, outcome: str, version: int) -> MaintenanceStep:
    return MaintenanceStep(
        step.action,
        step.what,
        step.why,
        step.bytes_to_rewrite,
        step.gain,
        outcome,
        0,
        0,
        0,
        version,
    )
