"""A table and its model: both libraries and Spark read the rows of the model."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from tests.spark.plans import PUSH_DOWN, settings
from tests.verbs.model import INT, Row, Table, condition, quoted, random_value, shown

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


class Compared:
    """The table at `root`, or on a branch of it, and its model: `table` is the latest version, `versions` are all."""

    rng: random.Random
    root: str
    spark: SparkSession
    branch: str | None
    stable: bool
    ids: Iterator[int]
    names: Iterator[str]
    told: list[str]
    table: Table
    versions: dict[int, Table]
    main: Table

    def ours(self) -> Dataset:
        return Dataset.open(self.root, branch=self.branch)

    def theirs(self) -> Any:
        dataset = lance.dataset(self.root)
        return dataset if self.branch is None else dataset.checkout_version((self.branch, None))

    def verbs(self) -> LanceTable:
        return LanceTable.forPath(self.spark, self.root, {} if self.branch is None else {"branch": self.branch})

    def of_type(self, *kinds: pa.DataType) -> list[str]:
        return [name for name, kind in self.table.columns.items() if kind in kinds and name != "id"]

    def new_rows(self, count: int, version: int, columns: Sequence[str] | None = None) -> list[Row]:
        names = list(self.table.columns) if columns is None else columns
        return [Row(self.new_values(names), version, version) for _ in range(count)]

    def new_values(self, names: Sequence[str]) -> dict[str, Any]:
        kinds = self.table.columns
        values = {name: random_value(self.rng, kinds[name]) if name in names else None for name in kinds}
        if "id" in names and values["id"] is not None:
            values["id"] = next(self.ids)
        return values

    def arrow(self, rows: Sequence[Row], names: Sequence[str] | None = None) -> pa.Table:
        kinds = self.table.columns
        return pa.table({name: pa.array([row.values[name] for row in rows], kinds[name]) for name in names or kinds})

    def _added(self, name: str, kind: pa.DataType, of: Callable[[Any], Any], updated: int | None = -1) -> list[Row]:
        self.table.columns[name] = kind
        return [row.with_values(updated, **{name: of(row.values)}) for row in self.table.rows]

    def _renamed(self, name: str, new: str) -> list[Row]:
        def label(n: str) -> str:
            return new if n == name else n

        self.table.columns = {label(n): kind for n, kind in self.table.columns.items()}
        return [Row({label(n): v for n, v in row.values.items()}, row.created, row.updated, row.row_id) for row in self.table.rows]

    def check(self) -> None:
        """Check that both libraries read the rows of the model, and with stable row ids the expected ids and versions."""
        names = list(self.table.columns)
        columns = [quoted(name) for name in names]
        ours = self.ours().scan(columns=[*columns, *LINEAGE]).to_table() if self.stable else self.ours().scan(columns=columns).to_table()
        dataset = self.theirs()
        dataset.validate()
        theirs = dataset.to_table(columns=names)
        assert self.ours().schema.names == names == dataset.schema.names
        assert shown_rows(ours, names) == shown_rows(theirs, names)
        assert sorted(shown_rows(ours, names)) == self.table.plain()
        if self.stable:
            self.check_lineage(names, ours.to_pylist())
            lineage = dataset.to_table(columns=["id", *LINEAGE]).to_pylist()
            assert lineage == ours.select(["id", *LINEAGE]).to_pylist()
        self.check_filter(dataset)

    def check_lineage(self, names: list[str], read: list[dict[str, Any]]) -> None:
        """Rows that were there have their ids, new ones have ids that no row had, and all have the right versions."""
        there = {row["_rowid"]: (shown([row[n] for n in names]), *(row[n] for n in LINEAGE[1:])) for row in read}
        assert len(there) == len(read)
        taken = max((row.row_id for table in self.versions.values() for row in table.rows if row.row_id is not None), default=-1)
        for row in self.table.rows:
            if row.row_id is not None:
                expected = (shown([row.values[n] for n in names]), row.created, row.updated)
                assert there.pop(row.row_id, None) == expected, row.row_id
        ids: dict[object, list[int]] = defaultdict(list)
        for row_id, seen in there.items():
            assert row_id > taken
            ids[seen].append(row_id)
        self.table.rows = [row if row.row_id is not None else self._seen(row, names, ids) for row in self.table.rows]

    def _seen(self, row: Row, names: list[str], ids: dict[object, list[int]]) -> Row:
        key = (shown([row.values[n] for n in names]), row.created, row.updated)
        assert ids[key], f"{key} is not there, these are: {[k for k, unused in ids.items() if unused]}"
        return replace(row, row_id=ids[key].pop())

    def check_filter(self, dataset: Any) -> None:
        names = [name for name in self.of_type(INT) if " " not in name]
        if names:
            name, k = self.rng.choice(names), self.rng.randrange(12)
            expected = sorted(repr(r.values["id"]) for r in self.table.rows if r.values[name] is not None and r.values[name] == k)
            found = dataset.to_table(columns=["id"], filter=f"{name} = {k}")["id"].to_pylist()
            assert sorted(map(repr, found)) == expected
            assert sorted(map(repr, self.ours().scan(columns=["id"], filter=f"{name} = {k}").to_table()["id"].to_pylist())) == expected

    def finish(self, planner: bool) -> None:
        """Check that Spark reads the same, old versions are unchanged, and all files are intact."""
        excluded = "" if planner else PUSH_DOWN
        names = list(self.table.columns)
        with settings(self.spark, optimizer__excludedRules=excluded):
            self.check_with_spark(names)
        assert self.ours().verify().ok
        version = self.rng.choice(list(self.versions))
        old = self.versions[version]
        assert sorted(shown_rows(self.ours().checkout_version(version).scan().to_table(), old.columns)) == old.plain()
        if self.branch is not None:
            assert sorted(shown_rows(lance.dataset(self.root).to_table(), self.main.columns)) == self.main.plain()

    def check_with_spark(self, names: list[str]) -> None:
        df = self.verbs().toDF()
        for _ in range(2):
            chosen = condition(self.rng, self.table.columns)
            expected = [row.values["id"] for row in self.table.rows if chosen.holds(row.values)]
            found = [row[0] for row in df.where(chosen.sql).select("id").collect()]
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), chosen.sql
        assert sorted(shown_rows(df.toArrow(), names)) == self.table.plain()


def shown_rows(rows: pa.Table, names: Iterable[str]) -> list[str]:
    """The rows in a comparable form."""
    return [shown([row[name] for name in names]) for row in rows.to_pylist()]
