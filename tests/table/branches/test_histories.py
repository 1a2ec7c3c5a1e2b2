"""Random histories of two branches: merges do what a comparison of three dictionaries says."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import BranchMergeConflictError, RefConflictError
from lance_spark.table.branches.three_way import Choice

KEY = {"lance-schema:unenforced-primary-key": "true"}
State = dict[int, str]


def schema(with_key: bool) -> pa.Schema:
    """A table with a primary key, or one whose rows are known by their row ids."""
    return pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY if with_key else None), pa.field("v", pa.string())])


def rows_of(state: State, with_key: bool) -> pa.Table:
    return pa.table([list(state), list(state.values())], schema=schema(with_key))


def three_way(base: State, theirs: State, ours: State, takes_theirs: bool) -> tuple[State, int]:
    """What a merge leaves, and the number of conflicts."""
    result, conflicts = dict(ours), 0
    for key in base.keys() | theirs.keys():
        was, there, here = (state.get(key, "absent") for state in (base, theirs, ours))
        if there in (was, here):
            continue
        if here != was:
            conflicts += 1
            if not takes_theirs:
                continue
        if key in theirs:
            result[key] = theirs[key]
        else:
            result.pop(key, None)
    return result, conflicts


@dataclass
class History:
    """Two branches, what they should have, and what they had when they were the same last."""

    uri: str
    with_key: bool
    choose: random.Random
    states: dict[str, State] = field(default_factory=dict)
    base: State = field(default_factory=dict)
    next_id: int = 20

    def open(self, branch: str) -> Dataset:
        return Dataset.open(self.uri, branch=None if branch == "main" else branch)

    def begin(self) -> None:
        self.base = {i: str(i) for i in range(self.next_id)}
        table = Dataset.write(self.uri, rows_of(self.base, self.with_key), enable_stable_row_ids=not self.with_key, max_rows_per_file=7)
        table.create_branch("dev")
        self.states = {"main": dict(self.base), "dev": dict(self.base)}

    def change(self, branch: str) -> None:
        """Insert, update, delete or compact at random."""
        state, table = self.states[branch], self.open(branch)
        some = sorted(self.choose.sample(sorted(state), min(len(state), self.choose.randint(1, 3))))
        ids = ", ".join(map(str, some)) or "-1"
        match self.choose.randrange(5):
            case 0:
                # With a key, both branches may insert the same one.
                first = self.choose.randrange(20, 40) if self.with_key else self.next_id
                new = {i: f"{branch} {i}" for i in range(first, first + 2) if i not in state}
                self.next_id += 2
                if new:
                    table.insert(rows_of(new, self.with_key))
                state.update(new)
            case 1:
                value = f"{branch} {self.choose.randrange(3)}"
                table.update({"v": f"'{value}'"}, f"id IN ({ids})")
                state.update(dict.fromkeys(some, value))
            case 2:
                table.delete(f"id IN ({ids})")
                for i in some:
                    del state[i]
            case 3:
                table.optimize.compact_files()
            case 4:
                lance.dataset(self.uri).checkout_version((branch if branch != "main" else None, None)).optimize.compact_files()

    def merge(self, branch: str, into: str) -> None:
        choice: Choice = "ours" if self.choose.randrange(2) else "theirs"
        expected, conflicts = three_way(self.base, self.states[branch], self.states[into], choice == "theirs")
        before = self.open(into)
        if conflicts:
            with pytest.raises(BranchMergeConflictError) as e:
                before.branches.merge(branch, into)
            assert e.value.conflicts.num_rows == conflicts
        assert self.rows(into) == self.states[into]
        before.branches.merge(branch, into, on_conflict=choice)
        again = before.branches.merge(branch, into)
        assert (again.num_inserted_rows, again.num_updated_rows, again.num_deleted_rows) == (0, 0, 0)
        self.states[into], self.base = expected, dict(self.states[branch])

    def publish(self, branch: str, to: str) -> None:
        """`branch` becomes what `to` is, if it has not changed since."""
        table = self.open(branch)
        try:
            table.branches.fast_forward(branch, to)
        except RefConflictError:
            assert self.states[branch] != self.base or self.open(branch).version == table.version
            return
        assert self.states[branch] == self.base
        self.states[branch] = dict(self.states[to])
        self.base = dict(self.states[to])

    def rows(self, branch: str) -> State:
        found = self.open(branch).to_table().to_pylist()
        state = {row["id"]: row["v"] for row in found}
        assert len(state) == len(found)
        return state

    def check(self) -> None:
        for branch, state in self.states.items():
            assert self.rows(branch) == state
            theirs = lance.dataset(self.uri).checkout_version((branch if branch != "main" else None, None))
            theirs.validate()
            assert {row["id"]: row["v"] for row in theirs.to_table().to_pylist()} == state


@pytest.mark.matrix
@pytest.mark.parametrize("with_key", [True, False], ids=["primary key", "row ids"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_a_merge_does_what_a_comparison_of_three_versions_says(tmp_path: Path, seed: int, with_key: bool) -> None:
    """As many changes, merges in both directions, publications and compactions as fit into a history."""
    history = History(str(tmp_path / "t.lance"), with_key, random.Random(seed))
    history.begin()
    for _ in range(6):
        for branch in ("main", "dev"):
            for _ in range(history.choose.randrange(4)):
                history.change(branch)
        source, target = history.choose.choice([("dev", "main"), ("main", "dev")])
        match history.choose.randrange(4):
            case 0:
                history.publish(target, source)
            case _:
                history.merge(source, target)
        history.check()
