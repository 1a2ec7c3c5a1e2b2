"""Steps that change the schema of a table, or name its versions."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lance_spark.errors import LanceError, SchemaMismatchError
from tests.verbs.compared import Compared
from tests.verbs.model import DOUBLE, INT, LONG, TEXT, Row, quoted, random_value


class Evolving(Compared):
    """Each step changes the table and gives the rows that it must have, None: the same as before."""

    tags: dict[str, int]

    def frame(self, rows: Sequence[dict[str, Any]], columns: dict[str, pa.DataType]) -> DataFrame:
        """A DataFrame of rows."""
        raise NotImplementedError

    def alter_type(self) -> list[Row] | None:
        """Widen or narrow a column, whose values fit."""
        others = {INT: LONG, LONG: INT, pa.float32(): DOUBLE}
        indexed = {name for index in self.theirs().list_indices() for name in index["fields"]}
        if not (names := self.of_type(*others)):
            return None
        name = self.rng.choice(names)
        kind = others[self.table.columns[name]]
        self.told[-1] += f" {name} to {kind}"
        if name in indexed:
            with pytest.raises(SchemaMismatchError, match="index"):
                self.verbs().alterColumn(quoted(name), type=kind)
            return None
        self.verbs().alterColumn(quoted(name), type=kind)
        self.table.columns[name] = kind
        return [row.with_values(-1) for row in self.table.rows]

    def alter_nullability(self) -> None:
        """Refuse nulls in a column and permit them again; a column that has some stays nullable."""
        name = self.rng.choice([name for name in self.table.columns if name != "id"])
        self.told[-1] += f" of {name}"
        if any(row.values[name] is None for row in self.table.rows):
            with pytest.raises(SchemaMismatchError, match="null"):
                self.verbs().alterColumn(quoted(name), nullable=False)
            return
        self.verbs().alterColumn(quoted(name), nullable=False)
        assert not self.theirs().schema.field(name).nullable
        with pytest.raises(LanceError):
            self.verbs().update(None, {quoted(name): "NULL"})
        self.verbs().alterColumn(quoted(name), nullable=True)

    def merge_with_new_column(self) -> list[Row]:
        """A merge whose source has a column that the table lacks."""
        name, kind = next(self.names), self.rng.choice([INT, DOUBLE, TEXT])
        there = sorted({row.values["id"] for row in self.table.rows if row.values["id"] is not None})
        known = self.rng.sample(there, min(len(there), 5))
        values = {i: random_value(self.rng, kind) for i in [*known, next(self.ids)]}
        self.told[-1] += f" {name} for {list(values)}"
        source = self.frame([{"id": i, name: v} for i, v in values.items()], {"id": LONG, name: kind}).alias("s")
        builder = self.verbs().alias("t").merge(source, "t.id = s.id").withSchemaEvolution()
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        rows = self._added(name, kind, lambda row: None, updated=None)
        changed = [row.with_values(-1, **{name: values[row.values["id"]]}) if row.values["id"] in known else row for row in rows]
        new = [i for i in values if i not in known]
        return [*changed, *(Row({n: {"id": i, name: values[i]}.get(n) for n in self.table.columns}, -1, -1) for i in new)]

    def add_columns_with_checkpoint(self) -> list[Row]:
        """A function that fails at some call, and is run again."""
        name, left = next(self.names), itertools.count()

        def negative(batch: pa.RecordBatch) -> pa.RecordBatch:
            return pa.record_batch({name: pa.array([None if i is None else -i for i in batch.column(0).to_pylist()], pa.int64())})

        def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
            if next(left) or batch.num_rows:
                raise RuntimeError("out of credits")
            return negative(batch)

        schema = pa.schema({name: pa.int64()})
        with tempfile.TemporaryDirectory() as folder:
            if self.table.rows:
                with pytest.raises(PySparkException, match="out of credits"):
                    self.verbs().addColumns(failing, schema=schema, columns=["id"], checkpoint=folder)
            self.verbs().addColumns(negative, schema=schema, columns=["id"], checkpoint=folder)
        return self._added(name, LONG, lambda row: None if row["id"] is None else -row["id"])

    def tag(self) -> None:
        """Name the latest version, which is then kept."""
        name = f"tag{len(self.tags)}"
        self.told[-1] += f" {name} at {self.ours().version}"
        self.verbs().tags.create(name)
        self.tags[name] = self.ours().version
