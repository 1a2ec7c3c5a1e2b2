"""Random changes by this package and pylance in turn: after each, every filter gives the rows of a model, with and without indexes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from lance.indices import IndexConfig

from lance_spark import Dataset
from tests.sample import others_slow
from tests.table.indexes.both_writers import BothWriters

SCHEMA = pa.schema(
    [
        *(("id", pa.int64()), ("number", pa.float64()), ("word", pa.string()), ("text", pa.string()), ("labels", pa.list_(pa.string()))),
        ("doc", pa.json_()),
    ]
)
KINDS = (
    ("id", "BTREE"),
    ("number", "BTREE"),
    ("number", "ZONEMAP"),
    ("id", "BLOOMFILTER"),
    ("id", "BITMAP"),
    ("number", "BITMAP"),
    ("number", "BLOOMFILTER"),
    ("word", "BITMAP"),
    ("word", "BTREE"),
    ("word", "ZONEMAP"),
    ("text", "NGRAM"),
    ("text", "BTREE"),
    ("text", "BLOOMFILTER"),
    ("labels", "LABEL_LIST"),
    ("doc", "JSON"),
)
DOCUMENTS = ['{"n": 1}', '{"n": 2, "m": 0}', '{"n": 3}', '{"n": null}', "{}", "[2]", None]
NAN = float("nan")
Row = dict[str, object]
FILTERS: dict[str, Callable[[Row], bool]] = {
    "id = 7": lambda r: r["id"] == 7,
    "id IN (3, 50, 90)": lambda r: r["id"] in (3, 50, 90),
    "number = 1.5": lambda r: r["number"] == 1.5,
    "number > 3": lambda r: r["number"] is not None and not float(str(r["number"])) <= 3,
    "number = 0": lambda r: r["number"] == 0,
    "number IS NULL": lambda r: r["number"] is None,
    "word = 'b'": lambda r: r["word"] == "b",
    "word = 'b' AND number < 3": lambda r: r["word"] == "b" and r["number"] is not None and float(str(r["number"])) < 3,
    "contains(text, 'word 3')": lambda r: r["text"] is not None and "word 3" in str(r["text"]),
    "array_contains(labels, 'y')": lambda r: r["labels"] is not None and "y" in list(r["labels"]),  # type: ignore[call-overload]
    "text = 'Some word 7'": lambda r: r["text"] == "Some word 7",
    "text LIKE '%word 1%' AND NOT word = 'a'": lambda r: "word 1" in str(r["text"]) and r["word"] not in (None, "a"),
    "labels IS NULL": lambda r: r["labels"] is None,
    "json_get_int(doc, 'n') = 2": lambda r: r["doc"] == DOCUMENTS[1],
    "json_get_int(doc, 'n') IS NULL OR json_get_int(doc, 'n') > 2": lambda r: r["doc"] not in DOCUMENTS[:2],
    "word IS NULL OR id = 5": lambda r: r["word"] is None or r["id"] == 5,
}


THEIRS = ("id = 7", "id IN (3, 50, 90)", "word = 'b'", "contains(text, 'word 3')", "array_contains(labels, 'y')", "text = 'Some word 7'")


class Steps(BothWriters):
    """The table, its model by id, and the steps that change both."""

    _most_new = 24

    def __init__(self, path: Path, stable: bool, seed: int) -> None:
        self.path, self.random = path, random.Random(seed)
        self.rows: dict[int, Row] = {}
        self.next_id = 0
        Dataset.write(path, self.new(30), enable_stable_row_ids=stable)

    def new(self, count: int) -> pa.Table:
        choice = self.random.choice
        rows: list[Row] = [
            {
                "id": self.next_id + i,
                "number": choice([None, 0.0, -0.0, 1.5, 4.0, -2.0, NAN]),
                "word": choice([None, "", "a", "b", "c"]),
                "text": choice([None, "", f"Some word {self.random.randrange(40)}", "é"]),
                "labels": choice([None, [], ["x"], ["x", "y"], [None, "z"]]),
                "doc": choice(DOCUMENTS),
            }
            for i in range(count)
        ]
        self.next_id += count
        self.rows |= {int(str(r["id"])): r for r in rows}
        return pa.Table.from_pylist(rows, SCHEMA)

    def delete(self) -> None:
        self._delete(lambda condition: self.ours.delete(condition))

    def delete_theirs(self) -> None:
        self._delete(lambda condition: self.theirs.delete(condition))

    def _delete(self, run: Callable[[str], object]) -> None:
        rest = self.random.randrange(9)
        run(f"id % 9 = {rest}")
        self.rows = {i: r for i, r in self.rows.items() if i % 9 != rest}

    def update(self) -> None:
        self._update(lambda where: self.ours.update({"number": "1.5D", "word": "'b'"}, where))

    def update_theirs(self) -> None:
        self._update(lambda where: self.theirs.update({"number": "1.5", "word": "'b'"}, where=where))

    def _update(self, run: Callable[[str], object]) -> None:
        rest = self.random.randrange(7)
        run(f"id % 7 = {rest}")
        for i, row in self.rows.items():
            if i % 7 == rest:
                row |= {"number": 1.5, "word": "b"}

    def merge(self) -> None:
        builder = self.ours.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        builder.execute(self._some_new_and_old())

    def merge_theirs(self) -> None:
        builder = self.theirs.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        builder.execute(self._some_new_and_old())

    def _some_new_and_old(self) -> pa.Table:
        """Rows with new values, some of which have an id that exists."""
        rows = self.new(self.random.randrange(1, 9))
        ids = rows["id"].to_pylist()
        old = self.random.sample(sorted(self.rows.keys() - set(ids)), min(len(self.rows) - len(ids), self.random.randrange(len(ids))))
        for before, now in zip(ids, old):
            self.rows[now] = self.rows.pop(before) | {"id": now}
        return rows.set_column(0, SCHEMA.field(0), pa.array(old + ids[len(old) :]))

    def restore(self) -> None:
        """Delete all rows, and restore the version before."""
        before = self.ours
        before.delete("true")
        before.restore()

    def compact(self) -> None:
        self.ours.optimize.compact_files(target_rows_per_fragment=self.random.choice([40, 100]))

    def compact_theirs(self) -> None:
        self.theirs.optimize.compact_files(target_rows_per_fragment=self.random.choice([40, 100]))

    def compact_later(self) -> None:
        self.ours.optimize.compact_files(target_rows_per_fragment=self.random.choice([40, 100]), defer_index_remap=True)

    def compact_later_theirs(self) -> None:
        # pylance does not defer it with stable row ids.
        later = not self.theirs.has_stable_row_ids
        self.theirs.optimize.compact_files(target_rows_per_fragment=self.random.choice([40, 100]), defer_index_remap=later)

    def index(self) -> None:
        column, kind = self._kind()
        parameters: dict[str, Any] = {"path": "n", "target_index_type": "BTREE"} if kind == "JSON" else {}
        self.ours.create_scalar_index(column, kind, f"{column}_{kind}", **parameters)

    def index_theirs(self) -> None:
        column, kind = self._kind()
        config = IndexConfig("json", {"path": "n", "target_index_type": "btree"}) if kind == "JSON" else kind
        self.theirs.create_scalar_index(column, config, name=f"{column}_{kind}")

    def _kind(self) -> tuple[str, str]:
        # With stable row ids, pylance neither makes JSON indexes of BTREE nor extends others.
        return self.random.choice(KINDS[:-1] if self.theirs.has_stable_row_ids else KINDS)

    def optimize(self) -> None:
        self.ours.optimize.optimize_indices(num_indices_to_merge=self.random.choice([None, 0, 1]))

    def retrain(self) -> None:
        self.ours.optimize.optimize_indices(retrain=True)

    def optimize_theirs(self) -> None:
        self.theirs.optimize.optimize_indices(num_indices_to_merge=self.random.choice([0, 1, 1, 9]))

    def drop(self) -> None:
        names = sorted({str(i["name"]) for i in self.ours.list_indices()})
        if len(names) > 3:
            self.ours.drop_index(self.random.choice(names))

    def check(self, after: str) -> None:
        table = self.ours
        for condition, holds in FILTERS.items():
            expected = sorted(i for i, row in self.rows.items() if holds(row))
            for use in (True, False):
                found = table.scan(columns=["id"], filter=condition, use_scalar_index=use).to_table()["id"].to_pylist()
                assert sorted(found) == expected, f"{condition}, use_scalar_index={use}, after {after}"
        assert self.theirs.count_rows() == len(self.rows), after
        for condition in THEIRS:
            scanners = [self.theirs.scanner(columns=["id"], filter=condition, use_scalar_index=use) for use in (True, False)]
            found, expected = (sorted(scanner.to_table()["id"].to_pylist()) for scanner in scanners)
            assert found == expected, f"pylance: {condition}, after {after}"


STEPS = [name for name in (*vars(BothWriters), *vars(Steps)) if not name.startswith("_") and name not in ("new", "ours", "theirs", "check")]
OFTEN = ["index", "index_theirs", "compact", "optimize"]
FULL = settings().max_examples > 100


CASES = [(stable, seed) for stable in (False, True) for seed in range(40 if FULL else 2)]


@pytest.mark.parametrize(("stable", "seed"), others_slow(CASES, [(False, 0), (True, 1)]))
def test_filters_are_right_after_every_change_by_either_writer(stable: bool, seed: int, tmp_path: Path) -> None:
    steps = Steps(tmp_path / "t.lance", stable, seed)
    for _ in range(2):
        steps.index()
    done = []
    for _ in range(14):
        done.append(steps.random.choice(STEPS + OFTEN))
        getattr(steps, done[-1])()
        steps.check(", ".join(done))
