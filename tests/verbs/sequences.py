"""Random sequences of verbs, ours and pylance's, on a table and on its model."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset
from lance_spark.errors import AmbiguousMergeError
from lance_spark.spark.columns.types import to_spark
from tests.verbs.compared import LINEAGE
from tests.verbs.evolving import Evolving
from tests.verbs.merging import Clause, merged
from tests.verbs.model import (
    CARRIED,
    COLUMNS,
    DOUBLE,
    INT,
    LONG,
    MAP,
    STRUCT,
    STRUCTS,
    TEXT,
    Condition,
    Row,
    Table,
    Value,
    condition,
    quoted,
    random_value,
    value,
)
from tests.verbs.without_spark import WithoutSpark


class Run(WithoutSpark, Evolving):
    """A table, its model, and the steps so far."""

    def __init__(self, seed: int, uri: str, spark: SparkSession) -> None:
        self.rng = rng = random.Random(seed)
        self.root, self.spark = uri, spark
        self.ids = itertools.count()
        self.names = (f"{name} {i}" if i % 3 == 0 else f"{name}{i}" for i in itertools.count() for name in "c")
        self.stable, self.format = rng.random() < 0.5, rng.choice(["2.0", "2.1", "2.2"])
        self.table, self.tags = Table(), {}
        if self.format == "2.0":
            # Which has no null structs.
            del self.table.columns["st"]
        refused = {"2.0": [MAP, STRUCTS], "2.1": [MAP], "2.2": []}[self.format]
        carried = [kind for kind in CARRIED if kind not in refused]
        self.table.columns |= {f"p{i}": kind for i, kind in enumerate(rng.sample(carried, 2))}
        self.told = [f"{self.format}, stable row ids: {self.stable}, {self.table.columns}"]
        self.table.rows = self.new_rows(rng.randrange(20, 80), 1)
        options: dict[str, Any] = {
            "enable_stable_row_ids": self.stable,
            "data_storage_version": self.format,
            "max_rows_per_file": rng.choice([10, 30, 1000]),
        }
        if rng.random() < 0.5:
            lance.write_dataset(self.arrow(self.table.rows), uri, **options)
        else:
            Dataset.write(uri, self.arrow(self.table.rows), **options)
        self.branch: str | None = None
        self.main = self.table.copy()
        draw = rng.random()
        if draw < 0.15:
            self.root = f"{uri}-clone"
            Dataset.open(uri).shallow_clone(self.root)
            self.told.append("on a shallow clone")
        elif draw < 0.35:
            self.branch = "dev"
            lance.dataset(uri).create_branch("dev", 1)
            self.told.append("on a branch")
        self.version = self.ours().version
        self.versions: dict[int, Table] = {}
        self.check()
        self.versions[self.version] = self.table.copy()

    def frame(self, rows: Sequence[dict[str, Any]], columns: dict[str, pa.DataType]) -> DataFrame:
        maps = {name for name, kind in columns.items() if kind == MAP}
        data = [tuple(dict(row[name]) if name in maps and row[name] is not None else row[name] for name in columns) for row in rows]
        return self.spark.createDataFrame(data, to_spark(pa.schema(list(columns.items()))))

    def condition(self) -> tuple[str | Column, Condition]:
        """A condition: as text that our filters can hold, as a Column, or as text that only Spark understands."""
        chosen = condition(self.rng, self.table.columns)
        spark_only = f"({chosen.sql}) AND hash(id) = hash(id)"
        given: list[str | Column] = [chosen.sql, chosen.sql, F.expr(chosen.sql), spark_only]
        return self.rng.choice(given), chosen

    # Steps

    def run(self, steps: int) -> None:
        names = self.rng.choices(list(STEPS), list(STEPS.values()), k=steps)
        for name in names:
            self.step(name)

    def step(self, name: str) -> None:
        before = self.version
        self.told.append(name)
        expected = getattr(self, name)()
        self.version = self.ours().version
        if expected is not None:
            self.table.rows = [self._dated(row) for row in expected]
        for version in range(before + 1, self.version + 1):
            self.versions[version] = self.table.copy()
        self.check()
        self.versions[self.version] = self.table.copy()

    def _dated(self, row: Row) -> Row:
        """The row with the latest version for -1, which stands for the version that the step makes."""
        created, updated = (self.version if version < 0 else version for version in (row.created, row.updated))
        return replace(row, created=created, updated=updated)

    def delete(self) -> list[Row]:
        given, chosen = self.condition()
        self.told[-1] += f" {given}"
        gone = [row for row in self.table.rows if chosen.holds(row.values)]
        assert self.verbs().delete(given).num_deleted_rows == len(gone)
        return [row for row in self.table.rows if not chosen.holds(row.values)]

    def delete_by_key(self) -> list[Row]:
        some = [row.values["id"] for row in self.table.rows if self.rng.random() < 0.15]
        self.told[-1] += f" {some}"
        gone = [i for i in some if i is not None]
        self.verbs().delete(f"id IN ({', '.join(map(str, [-1, *gone]))})")
        return [row for row in self.table.rows if row.values["id"] not in gone]

    def _values(self, columns: Sequence[str]) -> dict[str, Value]:
        kinds = self.table.columns
        return {name: value(self.rng, kinds[name], kinds) for name in columns}

    def _given(self, values: dict[str, Value]) -> dict[str, str | Column]:
        as_columns = self.rng.random() < 0.3
        return {quoted(name): F.expr(v.sql) if as_columns else v.sql for name, v in values.items()}

    def update(self) -> list[Row]:
        given, chosen = self.condition()
        return self._update(given, chosen)

    def update_all(self) -> list[Row]:
        return self._update(None, Condition("true", lambda row: True))

    def _update(self, given: str | Column | None, chosen: Condition) -> list[Row]:
        names = [name for name in self.table.columns if name != "id"]
        values = self._values(self.rng.sample(names, min(len(names), self.rng.randrange(1, 3))))
        sets = self._given(values)
        self.told[-1] += f" {given}: {sets}"
        done = self.verbs().update(given, sets)
        rows = [
            row.with_values(-1, **{name: v.of(row.values) for name, v in values.items()}) if chosen.holds(row.values) else row
            for row in self.table.rows
        ]
        assert done.num_updated_rows == sum(row.updated < 0 for row in rows)
        return rows

    def update_field(self) -> list[Row] | None:
        """A field of a struct."""
        if not (structs := self.of_type(STRUCT)):
            return None
        given, chosen = self.condition()
        name = self.rng.choice(structs)
        self.told[-1] += f" {name} where {given}"
        self.verbs().update(given, {f"{quoted(name)}.a": "CAST(id AS INT)"})

        def changed(row: Row) -> Row:
            old = row.values[name]
            return row.with_values(-1, **{name: None if old is None else {**old, "a": row.values["id"]}})

        return [changed(row) if chosen.holds(row.values) else row for row in self.table.rows]

    def merge(self) -> list[Row] | None:
        rng, kinds = self.rng, dict(self.table.columns)
        there = [row.values["id"] for row in self.table.rows if row.values["id"] is not None]
        known = rng.sample(there, min(len(there), rng.randrange(0, 12)))
        source = [{**self.new_values(list(kinds)), "id": i} for i in known] + [
            self.new_values(list(kinds)) for _ in range(rng.randrange(8))
        ]
        if source and rng.random() < 0.2:
            source.append(dict(rng.choice(source)))
        on = Condition("t.id = s.id", lambda row: None)
        extra = condition(rng, kinds, "t.") if rng.random() < 0.2 else None
        clauses = self._clauses()
        text = on.sql if extra is None else f"t.id = s.id AND ({extra.sql})"
        self.told[-1] += f" ON {text} {clauses} {len(source)} rows"

        def matches(t: Any, s: Any) -> bool:
            return t["id"] is not None and t["id"] == s["id"] and (extra is None or extra.holds(t) is True)

        result = merged(self.table.rows, source, matches, clauses, list(kinds))
        builder = self.verbs().alias("t").merge(self.frame(source, kinds).alias("s"), text if rng.random() < 0.7 else F.expr(text))
        for clause in clauses:
            builder = clause.added(builder)
        if result is None:
            try:
                builder.execute()
            except AmbiguousMergeError:
                return self.table.rows
            raise AssertionError("the merge is ambiguous")
        done = builder.execute()
        assert (done.num_updated_rows, done.num_deleted_rows, done.num_inserted_rows) == result.counts
        return result.rows

    def _clauses(self) -> list[Clause]:
        rng, kinds = self.rng, self.table.columns
        clauses = []
        for when, sides in (("matched", "ts"), ("not matched", "s"), ("not matched by source", "t")):
            count = rng.choice([0, 1, 1, 2]) if when != "not matched by source" else rng.choice([0, 0, 1])
            for i in range(count):
                side = rng.choice(sides)
                chosen = condition(rng, kinds, f"{side}.") if i < count - 1 or rng.random() < 0.4 else None
                clauses.append(self._clause(when, side, chosen, sides))
        return clauses or [Clause("not matched", "s", None, None, delete=False)]

    def _clause(self, when: str, side: str, chosen: Condition | None, sides: str) -> Clause:
        rng, kinds = self.rng, self.table.columns
        if when != "not matched" and rng.random() < 0.3:
            return Clause(when, side, chosen, None, delete=True)
        if when != "not matched by source" and rng.random() < 0.5:
            return Clause(when, side, chosen, None, delete=False)
        names = [name for name in kinds if when == "not matched" or name != "id"]
        values = {}
        for name in rng.sample(names, min(len(names), rng.randrange(1, 4))):
            of = rng.choice(sides)
            values[name] = (of, value(rng, kinds[name], kinds, f"{of}."))
        if when == "not matched":
            values["id"] = ("s", Value("s.id", lambda row: row["id"]))
        return Clause(when, side, chosen, values, delete=False)

    def add_columns(self) -> list[Row]:
        name, kind = next(self.names), self.rng.choice(list(COLUMNS.values()) if self.format != "2.0" else [LONG, INT, DOUBLE, TEXT])
        made = value(self.rng, kind, self.table.columns)
        if made.sql == "7":
            made = Value(f"CAST(7 AS {'INT' if kind == INT else 'BIGINT'})", made.of)
        if "struct(" in made.sql or "array(" in made.sql or "reverse" in made.sql or "FLOAT" in made.sql:
            # Which are other types: lists instead of vectors, fields that are not nullable.
            made = Value("id", lambda row: row["id"])
            kind = LONG
        sql = F.expr(made.sql) if self.rng.random() < 0.5 else made.sql
        self.told[-1] += f" {name} = {sql}"
        self.verbs().addColumns({name: sql})
        return self._added(name, self.ours().schema.field(name).type, made.of)

    def add_columns_by_function(self) -> list[Row]:
        name = next(self.names)

        def twice(batch: pa.RecordBatch) -> pa.RecordBatch:
            return pa.record_batch({name: pa.array([None if i is None else 2 * i for i in batch.column(0).to_pylist()], pa.int64())})

        self.verbs().addColumns(twice, schema=pa.schema({name: pa.int64()}), columns=["id"])
        return self._added(name, LONG, lambda row: None if row["id"] is None else 2 * row["id"])

    def add_columns_by_frame(self) -> list[Row]:
        name, kind = next(self.names), self.rng.choice([INT, DOUBLE, TEXT])
        values = self._by_key(kind)
        df = self.frame([{"id": i, name: v} for i, v in values.items()], {"id": LONG, name: kind})
        self.verbs().addColumns(df, on="id")
        versions = self._updated_versions()
        rows = self._added(name, kind, lambda row: values.get(row["id"]), updated=None)
        # Fragments without any of these rows get no file.
        latest = self.ours().version
        return [replace(row, updated=latest) if versions.get(row.row_id) == latest else row for row in rows]

    def _updated_versions(self) -> dict[int | None, int]:
        """The version that changed each row last, by its id."""
        rows = self.ours().scan(columns=LINEAGE).to_table().to_pylist() if self.stable else []
        return {row["_rowid"]: row["_row_last_updated_at_version"] for row in rows}

    def _by_key(self, kind: pa.DataType) -> dict[int, Any]:
        there = sorted({row.values["id"] for row in self.table.rows if row.values["id"] is not None})
        ids = [*self.rng.sample(there, self.rng.randrange(len(there) + 1)), 10**6]
        return {i: random_value(self.rng, kind) for i in ids}

    def update_columns(self) -> list[Row] | None:
        if not (names := [name for name in self.table.columns if name != "id"]):
            return None
        name = self.rng.choice(names)
        kind = self.table.columns[name]
        values = self._by_key(kind)
        self.told[-1] += f" {name}"
        df = self.frame([{"id": i, name: v} for i, v in values.items()], {"id": LONG, name: kind})
        done = self.verbs().updateColumns(df, on="id")
        rows = [row.with_values(-1, **{name: values[row.values["id"]]}) if row.values["id"] in values else row for row in self.table.rows]
        assert done.num_updated_rows == sum(row.updated < 0 for row in rows)
        return rows

    def drop_columns(self) -> list[Row] | None:
        names = [name for name in self.table.columns if name != "id"]
        if len(names) < 3:
            return None
        name = self.rng.choice(names)
        self.told[-1] += f" {name}"
        self.verbs().dropColumns([quoted(name)])
        del self.table.columns[name]
        return [Row({k: v for k, v in row.values.items() if k != name}, row.created, row.updated, row.row_id) for row in self.table.rows]

    def rename_column(self) -> list[Row]:
        name, new = self.rng.choice([name for name in self.table.columns if name != "id"]), next(self.names)
        self.told[-1] += f" {name} to {new}"
        self.verbs().renameColumn(quoted(name), new)
        return self._renamed(name, new)

    def optimize(self) -> None:
        optimizer = self.verbs().optimize()
        if self.rng.random() < 0.3:
            optimizer = optimizer.where(self.condition()[0])
        rows, drops = self.rng.choice([5, 25, 1000]), self.rng.random() < 0.5
        self.told[-1] += f" to {rows}"
        optimizer.executeCompaction(target_rows_per_fragment=rows, drop_index_coverage=drops, materialize_deletions_threshold=0.05)

    def append(self) -> list[Row]:
        rows = self.new_rows(self.rng.randrange(1, 20), -1)
        self._write(rows, self.table.columns, "append")
        return [*self.table.rows, *rows]

    def append_with_new_column(self) -> list[Row]:
        name, kind = next(self.names), self.rng.choice([INT, DOUBLE, TEXT])
        old = self._added(name, kind, lambda row: None, updated=None)
        names = self.rng.sample(list(self.table.columns), self.rng.randrange(1, len(self.table.columns)))
        rows = self.new_rows(self.rng.randrange(1, 10), -1, ["id", name, *names])
        given = {n: k for n, k in self.table.columns.items() if n in ("id", name, *names)}
        self._write(rows, given, "append", mergeSchema="true")
        return [*old, *rows]

    def _write(self, rows: Sequence[Row], columns: dict[str, pa.DataType], mode: str, **options: str) -> None:
        frame = self.frame([dict(row.values) for row in rows], columns).coalesce(self.rng.choice([1, 2]))
        frame.write.format("lance").mode(mode).options(**options).save(self.ours().uri)

    def replace_where(self) -> list[Row]:
        chosen = condition(self.rng, self.table.columns)
        self.told[-1] += f" {chosen.sql}"
        rows = [row for row in self.new_rows(self.rng.randrange(20), -1) if chosen.holds(row.values)]
        self._write(rows, self.table.columns, "overwrite", replaceWhere=chosen.sql)
        return [*(row for row in self.table.rows if not chosen.holds(row.values)), *rows]

    def overwrite(self) -> list[Row]:
        rows = self.new_rows(self.rng.randrange(1, 40), -1)
        self._write(rows, self.table.columns, "overwrite")
        return rows

    def vacuum(self) -> None:
        kept = self.rng.randrange(1, 4)
        if self.tags:
            self.ours().cleanup_old_versions(retain_versions=kept, error_if_tagged_old_versions=False)
        else:
            self.verbs().vacuum(retain_versions=kept)
        there = {version.version for version in self.ours().versions()}
        assert there >= {*sorted(self.versions)[-kept:], *self.tags.values()}
        self.versions = {version: table for version, table in self.versions.items() if version in there}

    def restore(self) -> list[Row]:
        version = self.rng.choice(list(self.versions))
        tagged = [name for name, tagged in self.tags.items() if tagged == version]
        self.told[-1] += f" {version} {tagged}"
        self.verbs().restoreToVersion(tagged[0] if tagged else version)
        self.table = self.versions[version].copy()
        return self.table.rows


STEPS = {
    "delete": 4, "delete_by_key": 2, "update": 4, "update_all": 3, "update_field": 2, "merge": 8, "add_columns": 3,
    "add_columns_by_function": 1, "add_columns_by_frame": 2, "update_columns": 3, "drop_columns": 2, "rename_column": 1, "optimize": 4,
    "append": 3, "append_with_new_column": 2, "replace_where": 3, "overwrite": 1, "restore": 2, "vacuum": 1, "insert": 3,
    "delete_without_spark": 3,
    "update_without_spark": 3, "merge_without_spark": 3, "add_columns_without_spark": 2, "rename_without_spark": 1,
    "compact_without_spark": 3, "index": 3,
}  # fmt: skip
"""The steps, and how often each comes."""
EVOLVING = {"alter_type": 2, "alter_nullability": 1, "merge_with_new_column": 2, "add_columns_with_checkpoint": 1, "tag": 1}
"""Steps of the full profile only."""
if os.environ.get("HYPOTHESIS_PROFILE") == "full":
    STEPS |= EVOLVING
