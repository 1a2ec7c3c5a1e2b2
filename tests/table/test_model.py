"""Several writers, ours and pylance, which keep old versions and change one table in any order, compared with an in-memory model."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, RefConflictError, VersionNotFoundError
from lance_spark.table.write.write import begin_write, commit_write, discard, write_fragments

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
NAMES = ("ours", "ours too", "pylance")
WRITERS = st.sampled_from(NAMES)
SIDES = st.sampled_from(["ours", "pylance"])
COUNTS = st.integers(1, 4)
LABELS = st.sampled_from(["x", "y"])
CONFLICTS = ("conflict", "Conflict", "Incompatible transaction", "Not found", "does not exist", "already exists")
"""pylance's messages for a conflict, or for a version that was cleaned up."""

pytestmark = pytest.mark.timeout(1200)
Rows = Mapping[int, int]
"""The column `v` by `id`."""


def table(rows: Rows) -> pa.Table:
    return pa.table({"id": pa.array(rows.keys(), pa.int64()), "v": pa.array(rows.values(), pa.int64())})


class Writers(RuleBasedStateMachine):
    """Writers change the version that they hold. The model has the rows of the latest version, by id."""

    @initialize(stable=st.booleans())
    def make(self, stable: bool) -> None:
        self.folder = tempfile.mkdtemp()
        self.uri = str(Path(self.folder) / "t")
        self.stable = stable
        self.ids = itertools.count()
        self.rows = self.fresh(3)
        Dataset.write(self.uri, table(self.rows), enable_stable_row_ids=stable, max_rows_per_file=2)
        self.versions = {1: self.rows}
        self.tags: dict[str, int] = {}
        self.branches: dict[str, tuple[int, Rows]] = {}
        self.prepared: list[tuple[Rows, Callable[[], object]]] = []
        self.held: dict[str, Any] = {}
        self.held_rows: dict[str, Rows] = {}
        for writer in NAMES:
            self.refresh(writer)

    def teardown(self) -> None:
        for version, rows in self.versions.items():
            self.check(rows, version=version)
        for tag, version in self.tags.items():
            self.check(self.versions[version], version=tag)
        for branch, (_, rows) in self.branches.items():
            self.check(rows, version=(branch, None))
        lance.dataset(self.uri).validate()
        shutil.rmtree(self.folder)

    @invariant()
    def both_read_the_latest_version_as_the_model_has_it(self) -> None:
        self.check(self.rows)

    def check(self, rows: Rows, version: Any = None) -> None:
        ours, theirs = Dataset.open(self.uri), lance.dataset(self.uri)
        if version is not None:
            ours, theirs = ours.checkout_version(version), theirs.checkout_version(version)
        lineage = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"] if self.stable else ["_rowid"]
        read = ours.scan(columns=["id", "v", *lineage]).to_table()
        assert read.to_pylist() == theirs.to_table(columns=["id", "v", *lineage]).to_pylist()
        assert sorted(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == sorted(rows.items())
        assert len(set(read["_rowid"].to_pylist())) == len(rows)
        report = ours.verify()
        assert report.ok, report

    def fresh(self, count: int) -> Rows:
        return dict.fromkeys(itertools.islice(self.ids, count), 0)

    def latest(self, side: str) -> Any:
        return lance.dataset(self.uri) if side == "pylance" else Dataset.open(self.uri)

    def made(self, change: Callable[[], object]) -> bool:
        """True if the change succeeded; only a conflict may prevent it."""
        try:
            change()
        except (CommitConflictError, RefConflictError, VersionNotFoundError):
            return False
        except (OSError, ValueError, RuntimeError) as e:
            if not any(word in str(e) for word in CONFLICTS):
                raise
            return False
        return True

    def changed(self, change: Callable[[], object], rows: Rows) -> bool:
        """True if the change succeeded; then the latest version must have `rows`."""
        before, done = max(self.versions), self.made(change)
        latest = Dataset.open(self.uri).version
        assert latest in ((before, before + 1) if done else (before,))
        if latest > before:
            self.rows = self.versions[latest] = rows
        return done

    def some_held(self, writer: str, data: st.DataObject) -> list[int]:
        """Some ids of the version that a writer holds."""
        there = sorted(self.held_rows[writer])
        return sorted(data.draw(st.sets(st.sampled_from(there), min_size=1, max_size=3))) if there else [-1]

    @rule(writer=WRITERS)
    def refresh(self, writer: str) -> None:
        self.held[writer], self.held_rows[writer] = self.latest(writer), self.rows

    @rule(side=SIDES, count=COUNTS)
    def append(self, side: str, count: int) -> None:
        new = self.fresh(count)
        assert self.changed(lambda: write(side, self.uri, new, "append"), {**self.rows, **new})

    @rule(side=SIDES, count=COUNTS)
    def overwrite(self, side: str, count: int) -> None:
        new = self.fresh(count)
        assert self.changed(lambda: write(side, self.uri, new, "overwrite"), new)

    @rule(count=COUNTS)
    def prepare_append(self, count: int) -> None:
        new = self.fresh(count)
        target = begin_write(self.uri, table(new).schema, "append")
        fragments = write_fragments(target, table(new).to_batches())

        def change() -> None:
            try:
                commit_write(target, fragments)
            except CommitConflictError:
                discard(target, fragments)
                raise

        self.prepared.append((new, change))

    @precondition(lambda self: self.prepared)
    @rule(data=st.data())
    def commit_append(self, data: st.DataObject) -> None:
        new, change = self.prepared.pop(data.draw(st.integers(0, len(self.prepared) - 1)))
        self.changed(change, {**self.rows, **new})

    @rule(writer=WRITERS, data=st.data())
    def delete(self, writer: str, data: st.DataObject) -> None:
        gone = self.some_held(writer, data)
        held = self.held[writer]
        self.changed(lambda: held.delete(f"id IN ({listed(gone)})"), {i: v for i, v in self.rows.items() if i not in gone})
        self.refresh(writer)

    @rule(writer=WRITERS, data=st.data(), value=st.integers(1, 9))
    def update(self, writer: str, data: st.DataObject, value: int) -> None:
        ids = self.some_held(writer, data)
        held = self.held[writer]
        rows = {i: value if i in ids else v for i, v in self.rows.items()}
        self.changed(lambda: held.update({"v": str(value)}, where=f"id IN ({listed(ids)})"), rows)
        self.refresh(writer)

    @rule(writer=WRITERS, data=st.data(), value=st.integers(1, 9), count=COUNTS)
    def upsert(self, writer: str, data: st.DataObject, value: int, count: int) -> None:
        there = [i for i in self.some_held(writer, data) if i in self.rows]
        given = {**dict.fromkeys(there, value), **self.fresh(count)}
        merge = self.held[writer].merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        self.changed(lambda: merge.execute(table(given)), {**self.rows, **given})
        self.refresh(writer)

    @rule(side=SIDES, data=st.data())
    def restore(self, side: str, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        old = self.latest(side).checkout_version(version)
        assert self.changed(old.restore, self.versions[version])

    @rule(writer=WRITERS, value=st.integers(0, 3))
    def configure(self, writer: str, value: int) -> None:
        self.changed(lambda: self.held[writer].update_config({f"key{value}": str(value)}), self.rows)

    @rule(writer=WRITERS, fresh=st.booleans())
    def compact(self, writer: str, fresh: bool) -> None:
        """pylance first reserves ids in a separate version, which remains if the compaction conflicts."""
        if fresh:
            self.refresh(writer)
        done = self.made(self.held[writer].optimize.compact_files)
        assert done or not fresh
        for version in range(max(self.versions) + 1, Dataset.open(self.uri).version + 1):
            self.versions[version] = self.rows

    @rule(side=SIDES, label=LABELS, data=st.data())
    def tag(self, side: str, label: str, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        made = self.made(lambda: self.latest(side).tags.create(label, version))
        assert made == (label not in self.tags)
        self.tags.setdefault(label, version)

    @precondition(lambda self: self.tags)
    @rule(side=SIDES, data=st.data())
    def untag(self, side: str, data: st.DataObject) -> None:
        label = data.draw(st.sampled_from(sorted(self.tags)))
        self.latest(side).tags.delete(label)
        del self.tags[label]

    @rule(side=SIDES, label=LABELS, data=st.data())
    def branch(self, side: str, label: str, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        if side == "pylance" and label in self.branches:
            return  # it says that this is an error in itself
        made = self.made(lambda: self.latest(side).create_branch(label, version))
        assert made == (label not in self.branches)
        self.branches.setdefault(label, (version, self.versions[version]))

    @precondition(lambda self: self.branches)
    @rule(side=SIDES, data=st.data(), count=COUNTS)
    def append_to_branch(self, side: str, data: st.DataObject, count: int) -> None:
        label = data.draw(st.sampled_from(sorted(self.branches)))
        parent, rows = self.branches[label]
        new = self.fresh(count)
        write(side, Dataset.open(self.uri, branch=label).uri, new, "append")
        self.branches[label] = (parent, {**rows, **new})

    @precondition(lambda self: self.branches)
    @rule(side=SIDES, data=st.data())
    def delete_branch(self, side: str, data: st.DataObject) -> None:
        label = data.draw(st.sampled_from(sorted(self.branches)))
        self.latest(side).branches.delete(label)
        del self.branches[label]

    @rule(side=SIDES, kept=st.integers(1, 5))
    def clean_up(self, side: str, kept: int) -> None:
        # Not by age as well: the clock of the machine may be set back.
        self.latest(side).cleanup_old_versions(retain_versions=kept, error_if_tagged_old_versions=False)
        needed = {*sorted(self.versions)[-kept:], *self.tags.values(), *(parent for parent, _ in self.branches.values())}
        there = {v.version for v in Dataset.open(self.uri).versions()}
        assert there >= needed
        if side == "ours":
            assert there == needed
        self.versions = {version: self.versions[version] for version in there}


def write(side: str, uri: str, rows: Rows, mode: Any) -> object:
    return lance.write_dataset(table(rows), uri, mode=mode) if side == "pylance" else Dataset.write(uri, table(rows), mode)


def listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


TestWriters = Writers.TestCase
TestWriters.settings = settings(
    max_examples=300 if FULL else 12,
    stateful_step_count=30 if FULL else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
