"""Random queries whose rows do not depend on the order in which Spark meets them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.spark.sql.rotation.expressions import Expressions
from tests.spark.sql.rotation.names import quoted
from tests.spark.sql.rotation.rows import POOLS, Table

RELATION = "\u27eatable\u27eb"
"""The place of the relation in a query."""
LEFT, RIGHT = "left side", "r.2"
"""Aliases."""
EXACT = ["bool", "byte", "short", "int", "long", "decimal", "wide", "string", "binary", "date", "timestamp", "ntz", "interval"]
"""Types of which equal values are identical."""
SUMMED = ["byte", "short", "int", "long", "decimal", "wide"]
GROUPED = [*EXACT, "float", "double", "ints", "texts"]


class Queries:
    """Makes queries of a table."""

    def __init__(self, rng: random.Random, table: Table) -> None:
        self.rng, self.table = rng, table
        self.plain = self.of("")
        self.kinds: Sequence[Callable[[], str]] = [
            self.rows,
            self.rows,
            self.everything,
            self.aggregates,
            self.groups,
            self.groups,
            self.first_rows,
            self.first_rows,
            self.join,
            self.join,
            self.distinct,
            self.window,
            self.subquery,
            self.subquery,
            self.sets,
            self.exploded,
            self.with_clause,
        ]

    def of(self, alias: str) -> Expressions:
        """Expressions of the table under an alias."""
        return Expressions(self.rng, self.table.columns, self.table.case_sensitive, alias)

    def key(self, alias: str = "") -> str:
        """The key."""
        return self.table.key.sql(self.rng, self.table.case_sensitive, alias)

    def query(self) -> str:
        """A query."""
        return self.rng.choice(self.kinds)()

    def where(self, expressions: Expressions | None = None) -> str:
        """A WHERE clause, or none."""
        return "" if self.rng.random() < 0.2 else f" WHERE {(expressions or self.plain).condition()}"

    def named(self, expressions: list[str]) -> str:
        """A list to select."""
        names = self.rng.sample(["comment", "values", "\u0130x", "a b", "x.y", "_rowid", "order", "\u00e9", "Z"], len(expressions))
        return ", ".join(f"{e} AS {quoted(n)}" if self.rng.random() < 0.3 else e for e, n in zip(expressions, names))

    def rows(self) -> str:
        """Some columns and expressions of some rows."""
        chosen = [self.plain.column() if self.rng.random() < 0.5 else self.plain.any() for _ in range(self.rng.randint(1, 4))]
        return f"SELECT {self.named(chosen)} FROM {RELATION}{self.where()}"

    def everything(self) -> str:
        """All columns."""
        return f"SELECT * FROM {RELATION}{self.where()}"

    def aggregate(self, expressions: Expressions) -> str:
        """An aggregate function."""
        rng = self.rng
        exact, summed = rng.choice(EXACT), rng.choice(SUMMED)
        value = expressions.column(exact) if rng.random() < 0.6 else expressions.of(exact, 1)
        number = expressions.column(summed) if rng.random() < 0.6 else expressions.of(summed, 1)
        functions = [
            "count(*)",
            f"count({expressions.column()})",
            f"count({value})",
            f"count(DISTINCT {value})",
            f"min({value})",
            f"max({value})",
            f"sum({number})",
            f"try_sum({number})",
            f"avg({expressions.column('byte', 'short', 'decimal')})",
            f"sum({number}) FILTER (WHERE {expressions.comparison()})",
            f"max({expressions.column('double')}) + 0D",
            f"min({expressions.column('float')}) + 0D",
            f"array_size(collect_set({value}))",
            f"max_by({value}, {self.key()})" if not expressions.alias else f"count_if({expressions.condition(0)})",
            f"bool_or({expressions.column('bool')})",
            f"approx_count_distinct({value})",
        ]
        return rng.choice(functions)

    def aggregates(self) -> str:
        """Aggregates of all rows."""
        return f"SELECT {self.named([self.aggregate(self.plain) for _ in range(self.rng.randint(1, 4))])} FROM {RELATION}{self.where()}"

    def groups(self) -> str:
        """Aggregates of groups."""
        rng, plain = self.rng, self.plain
        keys = []
        for kind in rng.sample(GROUPED, rng.randint(1, 2)):
            keys.append(plain.column(kind) if rng.random() < 0.7 else plain.of(kind, 1))
        functions = [self.aggregate(plain) for _ in range(rng.randint(0, 3))]
        positions = ", ".join(str(i + 1) for i in range(len(keys)))
        having = rng.choice(["", "", " HAVING count(*) > 1", f" HAVING max({self.key()}) > 20"])
        by = rng.choice([positions, positions, positions, f"ROLLUP ({', '.join(keys)})", f"CUBE ({', '.join(keys)})"])
        return f"SELECT {self.named([*keys, *functions])} FROM {RELATION}{self.where()} GROUP BY {by}{having}"

    def first_rows(self) -> str:
        """The first rows in an order."""
        rng, plain = self.rng, self.plain
        order = plain.column(*POOLS.keys() - {"map"}) if rng.random() < 0.8 else plain.of(rng.choice(EXACT), 1)
        how = rng.choice(["", " DESC"]) + rng.choice(["", " NULLS FIRST", " NULLS LAST"])
        chosen = [plain.column() for _ in range(rng.randint(1, 3))]
        limit = f"LIMIT {rng.choice([0, 1, 5, 40])}" + rng.choice(["", " OFFSET 2"])
        return f"SELECT {self.named([self.key(), *chosen])} FROM {RELATION}{self.where()} ORDER BY {order}{how}, {self.key()} {limit}"

    def join(self) -> str:
        """A join of the table with itself; the right side may be filtered, so that its values become a filter of the left side."""
        rng, left, right = self.rng, self.of(LEFT), self.of(RIGHT)
        kind = rng.choice(GROUPED)
        on = f"{self.key(LEFT)} = {self.key(RIGHT)}" if rng.random() < 0.3 else f"{left.column(kind)} = {right.column(kind)}"
        if rng.random() < 0.3:
            on += f" AND {rng.choice([left, right]).comparison()}"
        how = rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        other = f"(SELECT * FROM {RELATION} WHERE {self.plain.comparison()})" if rng.random() < 0.6 else RELATION
        chosen = [self.key(LEFT), left.any()] + ([] if "SEMI" in how or "ANTI" in how else [self.key(RIGHT), right.column()])
        hint = rng.choice(["", "", f"/*+ BROADCAST({quoted(RIGHT)}) */ ", f"/*+ MERGE({quoted(RIGHT)}) */ "])
        ends = "" if rng.random() < 0.5 else f" WHERE {left.comparison()}"
        return f"SELECT {hint}{self.named(chosen)} FROM {RELATION} {quoted(LEFT)} {how} {other} {quoted(RIGHT)} ON {on}{ends}"

    def distinct(self) -> str:
        """Distinct rows."""
        chosen = [self.plain.column(*GROUPED) for _ in range(self.rng.randint(1, 2))]
        return f"SELECT DISTINCT {self.named(chosen)} FROM {RELATION}{self.where()}"

    def window(self) -> str:
        """A function over windows."""
        rng, plain = self.rng, self.plain
        function = rng.choice(
            ["row_number()", f"lag({plain.column()})", f"sum({plain.column('int', 'decimal')})", "ntile(3)", f"max({plain.column(*EXACT)})"]
        )
        over = f"PARTITION BY {plain.column(*GROUPED)} ORDER BY {self.key()} {rng.choice(['', 'DESC'])}"
        inside = f"SELECT {self.key()} AS k, {function} OVER ({over}) AS w FROM {RELATION}{self.where()}"
        return f"SELECT * FROM ({inside}) WHERE {rng.choice(['w IS NOT NULL', 'k > 3', 'true'])}"

    def subquery(self) -> str:
        """A condition with a subquery."""
        rng, left, right = self.rng, self.of(LEFT), self.of(RIGHT)
        kind = rng.choice(EXACT)
        inner = f"FROM {RELATION} {quoted(RIGHT)}"
        condition = rng.choice(
            [
                f"{left.column(kind)} IN (SELECT {right.column(kind)} {inner} WHERE {right.comparison()})",
                f"{left.column(kind)} NOT IN (SELECT {right.column(kind)} {inner} WHERE {right.comparison()})",
                f"EXISTS (SELECT 1 {inner} WHERE {right.column(kind)} = {left.column(kind)} AND {right.comparison()})",
                f"NOT EXISTS (SELECT 1 {inner} WHERE {self.key(RIGHT)} = {self.key(LEFT)} + 1)",
                f"{left.column(kind)} = (SELECT max({right.column(kind)}) {inner} WHERE {right.comparison()})",
                f"{left.column(kind)} > (SELECT min({right.column(kind)}) {inner}) OR {left.comparison()}",
            ]
        )
        scalar = f"(SELECT count(*) {inner} WHERE {right.column(kind)} = {left.column(kind)})"
        chosen = [self.key(LEFT), rng.choice([scalar, left.column()])]
        return f"SELECT {self.named(chosen)} FROM {RELATION} {quoted(LEFT)} WHERE {condition}"

    def sets(self) -> str:
        """A union, intersection or difference."""
        rng, kind = self.rng, self.rng.choice(EXACT)
        how = rng.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        parts = [
            f"SELECT {self.plain.of(kind, 1)}, {self.plain.column('int')} FROM {RELATION}{self.where()}" for _ in range(rng.randint(2, 3))
        ]
        return f" {how} ".join(parts)

    def exploded(self) -> str:
        """A row for each element."""
        rng, plain = self.rng, self.plain
        generator = rng.choice(
            [
                f"explode({plain.column('ints', 'texts', 'lists', 'structs')}) e AS c",
                f"posexplode({plain.column('texts', 'doubles')}) e AS p, c",
                f"explode({plain.column('map')}) e AS p, c",
                f"inline({plain.column('structs')}) e AS p, c",
            ]
        )
        outer = rng.choice(["", "OUTER "])
        return f"SELECT {self.key()} AS k, e.* FROM {RELATION} LATERAL VIEW {outer}{generator}{rng.choice(['', ' WHERE c IS NOT NULL'])}"

    def with_clause(self) -> str:
        """A common table expression that is used twice, and limits whose rows are only counted."""
        rng, kind = self.rng, self.rng.choice(EXACT)
        if rng.random() < 0.4:
            return f"SELECT count(*) FROM (SELECT {self.plain.column()} FROM {RELATION} LIMIT {rng.choice([0, 1, 10, 1000])})"
        common = f"WITH `with` AS (SELECT {self.key()} AS k, {self.plain.column(kind)} AS v FROM {RELATION}{self.where()})"
        return f"{common} SELECT a.k, b.k, a.v FROM `with` a JOIN `with` b ON a.v = b.v WHERE a.k > {rng.randint(0, 20)}"
