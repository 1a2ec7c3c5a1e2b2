"""Random DELETE, UPDATE and MERGE statements, each with a query for the rows that it must leave."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.spark.sql.rotation.expressions import Expressions
from tests.spark.sql.rotation.names import quoted
from tests.spark.sql.rotation.queries import RELATION
from tests.spark.sql.rotation.rows import Column, Table

COPY = "\u27eacopy\u27eb"
"""The place of a relation with the table's rows before the statement."""
TARGET, SOURCE = "the table", "s.2"
TYPES = {
    "bool": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "decimal": "DECIMAL(12, 2)",
    "wide": "DECIMAL(38, 18)",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP_LTZ",
    "ntz": "TIMESTAMP_NTZ",
    "interval": "INTERVAL DAY TO SECOND",
    "ints": "ARRAY<INT>",
    "map": "MAP<STRING, INT>",
}
"""SQL's names of types that columns are assigned in."""


@dataclass(frozen=True)
class Command:
    """A statement for RELATION, and a query of COPY."""

    statement: str
    expected: str


class Commands:
    """Makes statements that change a table."""

    def __init__(self, rng: random.Random, table: Table) -> None:
        self.rng, self.table = rng, table
        self.columns = [quoted(name) for name in table.rows.schema.names]

    def command(self) -> Command:
        """A statement."""
        return self.rng.choice([self.delete, self.update, self.merge, self.merge])()

    def of(self, alias: str) -> Expressions:
        """Expressions of the table under an alias."""
        return Expressions(self.rng, self.table.columns, self.table.case_sensitive, alias)

    def assigned(self) -> Column:
        """A column that is assigned, not the key."""
        return self.rng.choice([c for c in self.table.columns if len(c.names) == 1 and c.kind in TYPES and c != self.table.key])

    def value(self, column: Column, alias: str) -> str:
        """An expression for a column."""
        return f"CAST({self.of(alias).of(column.kind, 2)} AS {TYPES[column.kind]})"

    def delete(self) -> Command:
        """DELETE of less than half of the rows, mostly."""
        alias = self.rng.choice(["", TARGET])
        key = self.table.key.sql(self.rng, self.table.case_sensitive, alias)
        where = f"({self.of(alias).condition()}) AND {key} % 3 = {self.rng.randrange(3)}"
        called = f" AS {quoted(alias)}" if alias else ""
        return Command(f"DELETE FROM {RELATION}{called} WHERE {where}", f"SELECT * FROM {COPY}{called} WHERE NOT coalesce({where}, false)")

    def update(self) -> Command:
        """UPDATE of one or two columns."""
        rng, alias = self.rng, self.rng.choice(["", TARGET])
        where = self.of(alias).condition()
        values = {c.names[0]: (c, self.value(c, alias)) for c in (self.assigned() for _ in range(rng.randint(1, 2)))}
        called = f" AS {quoted(alias)}" if alias else ""
        prefix = f"{quoted(alias)}." if alias else ""
        new = {quoted(name): f"CASE WHEN {where} THEN {value} ELSE {prefix}{quoted(name)} END" for name, (_, value) in values.items()}
        changes = ", ".join(f"{c.sql(rng, self.table.case_sensitive, alias)} = {value}" for c, value in values.values())
        chosen = ", ".join(f"{new.get(name, prefix + name)} AS {name}" for name in self.columns)
        return Command(f"UPDATE {RELATION}{called} SET {changes} WHERE {where}", f"SELECT {chosen} FROM {COPY}{called}")

    def merge(self) -> Command:
        """MERGE with rows of the table itself under other keys."""
        rng, key, one = self.rng, self.table.key, self.assigned()
        target, source = quoted(TARGET), quoted(SOURCE)
        given, name = f"{source}.`s k`", f"{source}.`values`"
        own = key.sql(rng, self.table.case_sensitive, TARGET)
        plain = key.sql(rng, self.table.case_sensitive)
        copied = one.sql(rng, self.table.case_sensitive)
        shift, part = rng.choice([0, 1, 20, 1000]), Expressions(rng, self.table.columns, self.table.case_sensitive).comparison()
        rows = f"(SELECT {plain} + {shift} AS `s k`, {copied} AS `values` FROM {COPY} WHERE {part}) AS {source}"
        deletes, lost, value = self.of(TARGET).condition(1), self.of(TARGET).condition(1), self.value(one, TARGET)
        clauses, when = [], []
        if rng.random() < 0.5:
            clauses.append(f"WHEN MATCHED AND {deletes} THEN DELETE")
            when.append(f"WHEN {own} IS NOT NULL AND {given} IS NOT NULL AND {deletes} THEN 'delete'")
        if rng.random() < 0.7:
            clauses.append(f"WHEN MATCHED THEN UPDATE SET {one.sql(rng, self.table.case_sensitive, TARGET)} = {name}")
            when.append(f"WHEN {own} IS NOT NULL AND {given} IS NOT NULL THEN 'update'")
        inserts = rng.random() < 0.7 or not clauses
        if inserts:
            clauses.append(f"WHEN NOT MATCHED THEN INSERT ({plain}, {one.sql(rng, self.table.case_sensitive)}) VALUES ({given}, {name})")
        when.append(f"WHEN {own} IS NULL THEN '{'insert' if inserts else 'delete'}'")
        by_source = rng.choice(["", "", "delete", "assign"])
        if by_source:
            change = f"UPDATE SET {one.sql(rng, self.table.case_sensitive)} = {value}" if by_source == "assign" else "DELETE"
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND {lost} THEN {change}")
            when.append(f"WHEN {given} IS NULL AND {lost} THEN '{by_source}'")
        action = f"CASE {' '.join(when)} ELSE 'keep' END"
        new = {
            quoted(key.names[0]): f"coalesce({own}, {given})",
            quoted(one.names[0]): f"CASE WHEN {action} IN ('update', 'insert') THEN {name} WHEN {action} = 'assign' THEN {value} "
            f"ELSE {target}.{quoted(one.names[0])} END",
        }
        chosen = ", ".join(f"{new.get(column, f'{target}.{column}')} AS {column}" for column in self.columns)
        joined = f"{COPY} AS {target} FULL JOIN {rows} ON {own} = {given}"
        statement = f"MERGE INTO {RELATION} AS {target} USING {rows} ON {own} = {given} {' '.join(clauses)}"
        return Command(statement, f"SELECT {chosen} FROM {joined} WHERE {action} <> 'delete'")
