"""Steps that need no Spark: ours on a `Dataset`, or pylance's, whose calls have the same names."""

from __future__ import annotations

from typing import Any

import lance

from tests.verbs.compared import Compared
from tests.verbs.merging import Clause, merged
from tests.verbs.model import INT, LONG, TEXT, Row


class WithoutSpark(Compared):
    """Each step changes the table and gives the rows that it must have, None: the same as before."""

    def either(self) -> Any:
        side = self.rng.choice(["ours", "pylance"])
        self.told[-1] += f" by {side}"
        return self.ours() if side == "ours" else self.theirs()

    def insert(self) -> list[Row]:
        names = ["id", *self.rng.sample([n for n in self.table.columns if n != "id"], self.rng.randrange(1, len(self.table.columns)))]
        rows = self.new_rows(self.rng.randrange(1, 20), -1, names)
        ordered = [name for name in self.table.columns if name in names]
        lance.write_dataset(self.arrow(rows, ordered), self.theirs(), mode="append", max_rows_per_file=self.rng.choice([5, 1000]))
        return [*self.table.rows, *rows]

    def delete_without_spark(self) -> list[Row]:
        k = self.rng.randrange(6)
        self.either().delete(f"id % 6 = {k}")
        return [row for row in self.table.rows if row.values["id"] is None or row.values["id"] % 6 != k]

    def update_without_spark(self) -> list[Row] | None:
        if not (names := [name for name in self.of_type(INT) if " " not in name]):
            return None
        k, name = self.rng.randrange(4), self.rng.choice(names)
        self.either().update({name: "5"}, f"id % 4 = {k}")
        return [
            row.with_values(-1, **{name: 5}) if row.values["id"] is not None and row.values["id"] % 4 == k else row
            for row in self.table.rows
        ]

    def merge_without_spark(self) -> list[Row]:
        there = [row.values["id"] for row in self.table.rows if row.values["id"] is not None]
        known = sorted(set(self.rng.sample(there, min(len(there), 6))))
        source = [{**self.new_values(list(self.table.columns)), "id": i} for i in [*known, next(self.ids), next(self.ids)]]
        data = self.arrow([Row(values) for values in source])
        self.either().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)
        clauses = [Clause("matched", "s", None, None, delete=False), Clause("not matched", "s", None, None, delete=False)]
        result = merged(self.table.rows, source, lambda t, s: t["id"] is not None and t["id"] == s["id"], clauses, list(self.table.columns))
        assert result is not None
        return result.rows

    def add_columns_without_spark(self) -> list[Row]:
        name = next(self.names).replace(" ", "_")
        self.either().add_columns({name: "id + 1"})
        return self._added(name, LONG, lambda row: None if row["id"] is None else row["id"] + 1)

    def rename_without_spark(self) -> list[Row]:
        names = [name for name in self.table.columns if name != "id" and " " not in name]
        name, new = self.rng.choice(names), next(self.names).replace(" ", "_")
        self.either().alter_columns({"path": name, "name": new})
        return self._renamed(name, new)

    def compact_without_spark(self) -> None:
        self.either().optimize.compact_files(target_rows_per_fragment=self.rng.choice([20, 1000]))

    def index(self) -> None:
        names = [name for name in self.of_type(INT, TEXT) if " " not in name]
        if names:
            name, kind = self.rng.choice(names), self.rng.choice(["BTREE", "BITMAP"])
            self.told[-1] += f" {kind} on {name}"
            self.theirs().create_scalar_index(name, kind, name=next(self.names).replace(" ", "_"))
