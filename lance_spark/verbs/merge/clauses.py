"""The definition of a merge: what LanceTable.merge(..) and its clauses say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from lance_spark.errors import check_type
from lance_spark.metadata.inserted_keys import names_column, primary_key_in
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.changes.delta import DELETED, INSERTED
from lance_spark.table.changes.merge.rows import When
from lance_spark.verbs.condition import Condition
from lance_spark.verbs.target import Target


@dataclass(frozen=True)
class Clause:
    """WHEN .. THEN ..: `operation` is one of the numbers in `table.changes.delta`; `values` None means all columns of the source."""

    when: When
    operation: int
    condition: Condition | None = None
    values: Mapping[str, Condition] | None = None

    def __post_init__(self) -> None:
        if self.values is not None and not self.values:
            raise ValueError("the clause needs values: {column: value}")


@dataclass(frozen=True)
class Merge:
    """The definition of a merge. With `evolves`, the table gets the columns of the source that the clauses assign and it lacks."""

    target: Target
    source: DataFrame
    on: Condition
    clauses: tuple[Clause, ...]
    evolves: bool = False

    def check(self) -> None:
        """Raise ValueError for a merge without clauses, and for a clause that never applies because an unconditional one precedes it."""
        check_type("source", self.source, DataFrame, "a DataFrame")
        # Without a condition, every row would match.
        check_type("condition", self.on, (str, Column), "SQL text, such as 't.id = s.id', or a Column")
        if not self.clauses:
            raise ValueError("a merge needs at least one clause, such as whenMatchedUpdateAll()")
        for when in ("matched", "not matched", "not matched by source"):
            clauses = [c for c in self.clauses if c.when == when]
            if any(c.condition is None for c in clauses[:-1]):
                raise ValueError(f"only the last clause for {when} rows may omit its condition")

    @property
    def may_repeat_deletes(self) -> bool:
        """Whether several rows of the source may match one row of the table: whatever they are, the row is deleted."""
        matched = [c for c in self.clauses if c.when == "matched"]
        return [(c.operation, c.condition) for c in matched] == [(DELETED, None)]


def key_of(merge: Merge, schema: Schema) -> tuple[Field, ...]:
    """The primary key if rows are inserted and the condition names all columns of the key; else ()."""
    inserts = any(c.operation == INSERTED for c in merge.clauses)
    return primary_key_in(schema, str(merge.on)) if inserts else ()


def key_columns(merge: Merge, schema: Schema) -> list[str]:
    """The columns of the table that the condition names."""
    return [f.name for f in schema.fields if names_column(str(merge.on), f.name)]
