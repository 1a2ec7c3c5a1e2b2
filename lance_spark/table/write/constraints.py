"""CHECK constraints: conditions that no row of a table may fail. A condition that is null is not failed, as in SQL.

They are in the table's config, which other writers keep. This package obeys them wherever it writes rows; other writers do not know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CommitConflictError, LanceError, SchemaMismatchError
from lance_spark.metadata.operations import CONSTRAINT
from lance_spark.predicate.tree import Column, Predicate, walk
from lance_spark.schema.schema import Field, Schema


def names_read(predicate: Predicate) -> set[str]:
    """The names of the top-level columns that a condition reads."""
    return {node.path[0] for node in walk(predicate.root) if isinstance(node, Column)}


@dataclass(frozen=True)
class Constraints:
    """The constraints of a table: conditions by name, and the columns that they read."""

    conditions: tuple[tuple[str, Predicate], ...] = ()
    fields: tuple[Field, ...] = ()

    def check(self, rows: pa.RecordBatch) -> None:
        """Raise SchemaMismatchError if a row fails a condition. Columns that the rows lack are null."""
        if not self.conditions or not rows.num_rows:
            return
        from lance_spark.predicate import evaluate  # few tables have constraints

        for field in self.fields:
            if field.name not in rows.schema.names:
                rows = rows.append_column(pa.field(field.name, field.type), pa.nulls(rows.num_rows, field.type))
        for name, condition in self.conditions:
            failed = pc.fill_null(pc.invert(evaluate(condition, rows)), False)
            if pc.any(failed).as_py():
                read = names_read(condition)
                shown = [name for name in rows.schema.names if name in read]
                [row] = rows.filter(failed).slice(0, 1).select(shown).to_pylist()
                raise SchemaMismatchError(f"a row fails the constraint {name!r}, CHECK ({condition.text}): {row}")

    def check_complete(self, config: Mapping[str, str], where: str) -> None:
        """Raise CommitConflictError if a table with this config has other constraints, which the rows were not checked against."""
        known = {CONSTRAINT + name: condition.text for name, condition in self.conditions}
        for key, text in config.items():
            if key.startswith(CONSTRAINT) and known.get(key) != text:
                name = key.removeprefix(CONSTRAINT)
                what = f"the constraint {name!r} was declared while the rows were written; run the write again"
                raise CommitConflictError(f"{where}: {what}", retryable=True)

    def reading(self, columns: Iterable[str]) -> Constraints:
        """The constraints that read one of these columns."""
        names = set(columns)
        conditions = tuple((name, condition) for name, condition in self.conditions if names_read(condition) & names)
        read = {column for _, condition in conditions for column in names_read(condition)}
        return Constraints(conditions, tuple(f for f in self.fields if f.name in read))

    def of(self, columns: set[str]) -> list[str]:
        """The names of the constraints that read one of these columns."""
        return [name for name, condition in self.conditions if names_read(condition) & columns]


NO_CONSTRAINTS = Constraints()


def constraints(config: Mapping[str, str], schema: Schema) -> Constraints:
    """The constraints in the config of a table with this schema. Raises SchemaMismatchError for one that does not fit its columns."""
    texts = {key.removeprefix(CONSTRAINT): text for key, text in sorted(config.items()) if key.startswith(CONSTRAINT)}
    if not texts:
        return NO_CONSTRAINTS
    conditions = tuple((name, condition(name, text, schema)) for name, text in texts.items())
    read = {column for _, predicate in conditions for column in names_read(predicate)}
    return Constraints(conditions, tuple(f for f in schema.fields if f.name in read))


def condition(name: str, text: str, schema: Schema) -> Predicate:
    """The condition of a constraint. Raises SchemaMismatchError if it is none on these columns."""
    from lance_spark.predicate import parse

    try:
        return parse(text, schema)
    except LanceError as e:
        raise SchemaMismatchError(
            f"the constraint {name!r}, CHECK ({text}), does not fit the table: {e}; DROP CONSTRAINT removes it"
        ) from e
