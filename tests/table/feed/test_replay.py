"""The changes from one version to another, applied to the rows of the first, give the rows of the second, whoever made the versions."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError

SEEDS = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 10
STEPS = 12
Rows = dict[Any, dict[str, Any]]


class Walk:
    """Random changes of a table with the key `id`, by us and by pylance in turn."""

    def __init__(self, uri: str, seed: int, stable: bool) -> None:
        self.uri, self.random, self.next = uri, random.Random(seed), 0
        if self.random.random() < 0.5:
            Dataset.write(uri, self.rows(8), enable_stable_row_ids=stable)
        else:
            lance.write_dataset(self.rows(8), uri, enable_stable_row_ids=stable, max_rows_per_file=5)
        self.stable = stable

    def rows(self, count: int) -> pa.Table:
        ids = range(self.next, self.next + count)
        self.next += count
        values = [self.random.choice([None, 1, 2, 3]) for _ in ids]
        columns = {"id": pa.array(ids), "n": pa.array(values, pa.int64()), "s": pa.array([f"s{v}" for v in values])}
        if self.next > count:
            now = Dataset.open(self.uri).schema
            return pa.table({f.name: columns[f.name].cast(f.type) if f.name in columns else pa.nulls(count, f.type) for f in now})
        return pa.table(columns)

    def where(self) -> str:
        return self.random.choice(["id % 3 = 0", "id % 2 = 1", "id < 5", f"id = {self.random.randrange(self.next)}", "id >= 0"])

    def append(self, ours: bool) -> None:
        rows = self.rows(self.random.randrange(1, 5))
        Dataset.write(self.uri, rows, mode="append") if ours else lance.write_dataset(rows, self.uri, mode="append")

    def delete(self, ours: bool) -> None:
        Dataset.open(self.uri).delete(self.where()) if ours else lance.dataset(self.uri).delete(self.where())

    def update(self, ours: bool) -> None:
        column = self.random.choice([name for name in Dataset.open(self.uri).schema.names if name.startswith("n")])
        updates = {column: f"id + {self.random.randrange(100)}"}
        Dataset.open(self.uri).update(updates, self.where()) if ours else lance.dataset(self.uri).update(updates, where=self.where())

    def merge(self, ours: bool) -> None:
        new = self.rows(2)
        ids = pa.array([self.random.randrange(self.next - 2), self.next - 1])
        source = new.set_column(new.schema.names.index("id"), "id", ids)
        table: Any = Dataset.open(self.uri) if ours else lance.dataset(self.uri)
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)

    def compact(self, ours: bool) -> None:
        Dataset.open(self.uri).optimize.compact_files() if ours else lance.dataset(self.uri).optimize.compact_files()

    def restore(self, ours: bool) -> None:
        version = self.random.randrange(1, Dataset.open(self.uri).version + 1)
        Dataset.open(self.uri, version=version).restore() if ours else lance.dataset(self.uri, version=version).restore()

    def overwrite(self, ours: bool) -> None:
        rows = self.rows(6)
        Dataset.write(self.uri, rows, mode="overwrite") if ours else lance.write_dataset(rows, self.uri, mode="overwrite")

    def add_column(self, ours: bool) -> None:
        columns = {f"n{Dataset.open(self.uri).version}": "id * 2"}
        Dataset.open(self.uri).add_columns(columns) if ours else lance.dataset(self.uri).add_columns(columns)

    def drop_column(self, ours: bool) -> None:
        names = [name for name in Dataset.open(self.uri).schema.names if name not in ("id", "n")]
        if names:
            Dataset.open(self.uri).drop_columns(names[:1]) if ours else lance.dataset(self.uri).drop_columns(names[:1])

    def rename(self, ours: bool) -> None:
        if "s" in Dataset.open(self.uri).schema.names:
            change: Any = {"path": "s", "name": f"s{Dataset.open(self.uri).version}"}
            Dataset.open(self.uri).alter_columns(change) if ours else lance.dataset(self.uri).alter_columns(change)

    def retype(self, ours: bool) -> None:
        table = Dataset.open(self.uri)
        change: Any = {"path": "n", "data_type": pa.int32() if table.schema.field("n").type == pa.int64() else pa.int64()}
        table.alter_columns(change) if ours else lance.dataset(self.uri).alter_columns(change)

    def step(self) -> None:
        rows: list[Callable[[bool], None]] = [self.append, self.delete, self.update, self.update, self.merge, self.overwrite]
        whole: list[Callable[[bool], None]] = [self.compact, self.restore]
        columns: list[Callable[[bool], None]] = [self.add_column, self.drop_column, self.rename, self.retype]
        self.random.choice([*rows, *rows, *whole, *(columns if self.stable else ())])(self.random.random() < 0.5)


def fields(table: Dataset) -> dict[int, str]:
    """The names of the columns by field id."""
    return {f.id: f.name for f in table.snapshot.manifest.schema.fields}


def kept_columns(versions: list[Dataset]) -> dict[str, str]:
    """The columns that all versions have, as the last one calls them, and their names in the first one.

    Values of columns that are new since are not changes of rows, and a row changes without the columns that the table lacks at that time.
    An overwrite gives out ids again, and a restore brings back columns whose ids others have, so columns must have kept their names then.
    """
    operations = {entry.operation for entry in versions[-1].history() if versions[0].version < entry.version <= versions[-1].version}
    overwritten = not operations.isdisjoint({"Overwrite", "Restore"})
    known = [fields(version) for version in versions]
    kept = {i: name for i, name in known[-1].items() if all(i in ids for ids in known)}
    return {name: known[0][i] for i, name in kept.items() if not overwritten or all(ids[i] == name for ids in known)}


def rows_of(table: Dataset, key: str, names: dict[str, str]) -> Rows:
    """The rows by key; `names` are the columns to return, and what they are called in the result."""
    found = table.scan(columns=[*dict.fromkeys([key, *names])]).to_table().to_pylist()
    return {row[key]: {new: row[old] for old, new in names.items()} for row in found}


def replayed(rows: Rows, changes: pa.Table, key: str, names: list[str]) -> Rows:
    """The rows after the changes. Each change must fit the row that it changes."""
    for change in changes.to_pylist():
        values, kind = {name: change[name] for name in names}, change["_change_type"]
        if kind in ("delete", "update_preimage"):
            assert rows.pop(change[key]) == values
        else:
            assert change[key] not in rows
            rows[change[key]] = values
    return rows


@pytest.mark.parametrize("seed", range(SEEDS))
def test_changes_replay_to_the_rows_of_the_last_version(tmp_path: Path, seed: int) -> None:
    walk = Walk(str(tmp_path / "t.lance"), seed, stable=True)
    for _ in range(STEPS):
        walk.step()
    last = Dataset.open(walk.uri).version
    chance = random.Random(seed)
    for _ in range(6):
        begin, end = sorted(chance.sample(range(1, last + 1), 2)) if last > 1 else (1, 1)
        before, after = Dataset.open(walk.uri, version=begin), Dataset.open(walk.uri, version=end)
        known = kept_columns([Dataset.open(walk.uri, version=v) for v in range(begin, end + 1)])
        expected = rows_of(after, "_rowid", {name: name for name in known})
        for net in (False, True):
            rows = rows_of(before, "_rowid", {old: new for new, old in known.items()})
            changes = after.changes(begin, columns=["_rowid", *known], net=net).to_table()
            assert replayed(rows, changes, "_rowid", [*known]) == expected, f"versions {begin} to {end}"
            assert not net or max(changes["_rowid"].value_counts().field("counts").to_pylist(), default=0) <= 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_without_stable_row_ids_changes_replay_or_are_refused(tmp_path: Path, seed: int) -> None:
    walk = Walk(str(tmp_path / "t.lance"), seed, stable=False)
    for _ in range(STEPS):
        walk.step()
    table, replays = Dataset.open(walk.uri), 0
    for end in range(2, table.version + 1):
        before, after = Dataset.open(walk.uri, version=end - 1), Dataset.open(walk.uri, version=end)
        operation = table.history()[table.version - end].operation
        try:
            changes = after.changes(end - 1).to_table()
        except UnsupportedFeatureError:
            assert operation == "Restore"
            continue
        names = {name: name for name in after.schema.names}
        assert replayed(rows_of(before, "id", names), changes, "id", [*names]) == rows_of(after, "id", names)
        assert operation not in ("Rewrite", "ReserveFragments") or not changes.num_rows
        replays += 1
    assert replays
