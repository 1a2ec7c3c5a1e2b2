"""A merge on the model: the resulting rows and the numbers of changed rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.lance_table import MergeBuilder
from tests.verbs.model import Condition, Row, Value, Values, quoted


@dataclass(frozen=True)
class Clause:
    """A clause: `side` is the alias ("t" or "s") that its condition is on; `values` by column, each with the alias that it is on."""

    when: str
    side: str
    condition: Condition | None
    values: Mapping[str, tuple[str, Value]] | None
    delete: bool

    def __repr__(self) -> str:
        values = {name: v.sql for name, (_, v) in (self.values or {}).items()}
        return f"{self.when} {self.condition and self.condition.sql}: {'delete' if self.delete else values or 'all'}"

    def applies(self, target: Values | None, source: Values | None) -> bool:
        """Whether the condition is true for a pair of rows."""
        row = target if self.side == "t" else source
        return self.condition is None or (row is not None and self.condition.holds(row) is True)

    def new(self, target: Values | None, source: Values | None) -> dict[str, Any]:
        """The values that are assigned."""
        if self.values is None:
            return dict(source or {})
        sides = {"t": target, "s": source}
        return {name: value.of(sides[side] or {}) for name, (side, value) in self.values.items()}

    def added(self, builder: MergeBuilder) -> MergeBuilder:
        """The builder with this clause."""
        text = None if self.condition is None else self.condition.sql
        values = None if self.values is None else {quoted(name): v.sql for name, (_, v) in self.values.items()}
        if self.when == "matched":
            if self.delete:
                return builder.whenMatchedDelete(text)
            return builder.whenMatchedUpdateAll(text) if values is None else builder.whenMatchedUpdate(text, values)
        if self.when == "not matched":
            return builder.whenNotMatchedInsertAll(text) if values is None else builder.whenNotMatchedInsert(text, values)
        if self.delete:
            return builder.whenNotMatchedBySourceDelete(text)
        return builder.whenNotMatchedBySourceUpdate(text, values)


@dataclass(frozen=True)
class Merged:
    """The rows afterwards, and how many were updated, deleted and inserted."""

    rows: list[Row]
    counts: tuple[int, int, int]


def merged(
    rows: Sequence[Row], source: Sequence[Values], matches: Callable[[Values, Values], bool], clauses: Sequence[Clause], names: list[str]
) -> Merged | None:
    """The merge of `source`; None if two rows of the source change the same row. Changed rows have the version -1.

    Several rows may delete one if that is all that the clauses do with matched rows.
    """
    only_deletes = [(c.delete, c.condition) for c in clauses if c.when == "matched"] == [(True, None)]

    def chosen(when: str, target: Values | None, new: Values | None) -> Clause | None:
        return next((c for c in clauses if c.when == when and c.applies(target, new)), None)

    result: list[Row] = []
    used: set[int] = set()
    updated = deleted = inserted = 0
    for row in rows:
        found = [i for i, new in enumerate(source) if matches(row.values, new)]
        used.update(found)
        pairs: list[tuple[Clause | None, Values | None]] = [(chosen("matched", row.values, source[i]), source[i]) for i in found]
        if not found:
            pairs = [(chosen("not matched by source", row.values, None), None)]
        applied = [(clause, new) for clause, new in pairs if clause is not None]
        if len(applied) > 1 and not only_deletes:
            return None
        if not applied:
            result.append(row)
        elif applied[0][0].delete:
            deleted += 1
        else:
            clause, new = applied[0]
            result.append(row.with_values(-1, **clause.new(row.values, new)))
            updated += 1
    for i, new in enumerate(source):
        insert = chosen("not matched", None, new) if i not in used else None
        if insert is not None:
            values = insert.new(None, new)
            result.append(Row({name: values.get(name) for name in names}, -1, -1))
            inserted += 1
    return Merged(result, (updated, deleted, inserted))
