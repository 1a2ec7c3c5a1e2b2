"""Random histories of a table, with changes of its columns, and what is known of each column in each version.

Which columns of two versions are the same is followed here by what the history does, independently of field ids.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.storage.store import Store
from lance_spark.table.backfill.state import with_columns
from lance_spark.table.changes import alter
from lance_spark.table.versions.snapshot import open_snapshot
from tests.table.backfill.rounds import backfill

INTEGERS = (pa.int64(), pa.int32(), pa.int16())
CASTS = {**dict.fromkeys(INTEGERS, INTEGERS), **dict.fromkeys((pa.float64(), pa.float32()), (pa.float64(), pa.float32()))}
"""Types that the values of the histories fit, so that a cast back gives them again."""


@dataclass(eq=False)
class Known:
    """A column, as long as it is not dropped. It was `added_at` a version, null in all rows or with values."""

    added_at: int
    is_null: bool = False


Columns = dict[str, Known]
"""The columns of a version by path: `p.a` is the field `a` of the struct `p`."""


@dataclass
class History:
    """A table that changes at random, by us and by pylance in turn. `columns` has what is known of each version."""

    uri: str
    seed: int
    stable: bool
    columns: dict[int, Columns] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    next: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        by_us, version = self.random.random() < 0.5, self.random.choice(["2.0", "2.1"])
        # Files of storage version 2.0 have no null structs.
        self.structs: list[dict[str, Any] | None] = [{"a": 4, "b": None}, {"a": None, "b": "x"}]
        self.structs += [] if version == "2.0" else [None]
        rows = pa.table(
            {
                "id": pa.array(range(8), pa.int64()),
                "n": pa.array([self.integer() for _ in range(8)], pa.int64()),
                "f": pa.array([self.random.choice([None, 0.5, 1.5]) for _ in range(8)], pa.float64()),
                "s": [f"s{i}" for i in range(8)],
                "p": pa.array([self.random.choice(self.structs) for _ in range(8)], pa.struct({"a": pa.int64(), "b": pa.string()})),
            }
        )
        self.next = 8
        options: dict[str, Any] = {"enable_stable_row_ids": self.stable, "max_rows_per_file": 5, "data_storage_version": version}
        Dataset.write(self.uri, rows, **options) if by_us else lance.write_dataset(rows, self.uri, **options)
        self.columns[1] = {path: Known(1) for path in ("id", "n", "f", "s", "p.a", "p.b")}

    def integer(self) -> int | None:
        return self.random.choice([None, 1, 2, 3])

    @property
    def table(self) -> Dataset:
        return Dataset.open(self.uri)

    @property
    def now(self) -> Columns:
        return self.columns[max(self.columns)]

    def rows(self, count: int) -> pa.Table:
        """New rows with all columns of the table."""
        ids = range(self.next, self.next + count)
        self.next += count
        return pa.table({f.name: self._values(f, ids) for f in self.table.schema})

    def _values(self, f: pa.Field, ids: range) -> pa.Array:
        if f.name == "id":
            return pa.array(ids, f.type)
        if pa.types.is_struct(f.type):
            inner = [self._values(child, ids) for child in f.type]
            return pa.StructArray.from_arrays(inner, fields=list(f.type))
        if pa.types.is_string(f.type):
            return pa.array([self.random.choice([None, f"t{i}"]) for i in ids], f.type)
        return pa.array([self.integer() for _ in ids], pa.int64()).cast(f.type)

    def where(self) -> str:
        return self.random.choice(["id % 3 = 0", "id % 2 = 1", "id < 5", f"id = {self.random.randrange(self.next)}", "id >= 0"])

    def opened(self, ours: bool) -> Any:
        return self.table if ours else lance.dataset(self.uri)

    # Changes of rows.

    def append(self, ours: bool) -> None:
        rows = self.rows(self.random.randrange(1, 5))
        Dataset.write(self.uri, rows, "append") if ours else lance.write_dataset(rows, self.uri, mode="append")

    def delete(self, ours: bool) -> None:
        self.opened(ours).delete(self.where())

    def update(self, ours: bool) -> None:
        numbers = [f for f in self.table.schema if f.name != "id" and f.type in CASTS]
        if numbers:
            f = self.random.choice(numbers)
            values = {f.name: f"{self.random.randrange(100)}"}
            self.table.update(values, self.where()) if ours else lance.dataset(self.uri).update(values, where=self.where())

    def merge(self, ours: bool) -> None:
        rows = self.rows(2)
        ids = pa.array([self.random.randrange(self.next - 2), self.next - 1], rows.schema.field("id").type)
        rows = rows.set_column(rows.schema.names.index("id"), rows.schema.field("id"), ids)
        self.opened(ours).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def compact(self, ours: bool) -> None:
        self.opened(ours).optimize.compact_files()

    # Changes of columns, which return the columns of the new version; None: there is nothing to change.

    def overwrite(self, ours: bool) -> Columns:
        rows = self.rows(6)
        if self.random.random() < 0.3 and "f" in rows.schema.names:
            rows = rows.drop_columns(["f"])
        Dataset.write(self.uri, rows, "overwrite") if ours else lance.write_dataset(rows, self.uri, mode="overwrite")
        return {path: known for path, known in self.now.items() if path.partition(".")[0] in rows.schema.names}

    def restore(self, ours: bool) -> Columns:
        version = self.random.choice(list(self.columns))
        opened: Any = Dataset.open(self.uri, version=version) if ours else lance.dataset(self.uri, version=version)
        opened.restore()
        return dict(self.columns[version])

    def add_nulls(self, ours: bool) -> Columns:
        name = f"m{self.table.version}"
        self.opened(ours).add_columns(pa.field(name, pa.int64()))
        return {**self.now, name: Known(self.table.version, True)}

    def add_values(self, ours: bool) -> Columns:
        name = f"v{self.table.version}"
        self.opened(ours).add_columns({name: "id * 2"})
        return {**self.now, name: Known(self.table.version)}

    def add_nested(self, ours: bool) -> Columns | None:
        if "p" not in self.table.schema.names:
            return None
        name = f"c{self.table.version}"
        alter.add_null_columns(self.table.snapshot, pa.schema([pa.field(f"p.{name}", pa.int64())]))
        return {**self.now, f"p.{name}": Known(self.table.version, True)}

    def add_nested_values(self, ours: bool) -> Columns | None:
        if "p" not in self.table.schema.names:
            return None
        name = f"d{self.table.version}"
        self.table.add_columns({f"p.{name}": "id * 3"})
        return {**self.now, f"p.{name}": Known(self.table.version)}

    def _chosen(self, nested: bool = True) -> str | None:
        paths = [path for path in self.now if path != "id" and (nested or "." not in path)]
        return self.random.choice(paths) if paths else None

    def drop(self, ours: bool) -> Columns | None:
        path = self._chosen()
        if path is None or path == "n":
            return None
        self.opened(ours).drop_columns([path])
        return {other: known for other, known in self.now.items() if other != path}

    def rename(self, ours: bool) -> Columns | None:
        path = self._chosen()
        if path is None:
            return None
        name = f"r{self.table.version}"
        self.opened(ours).alter_columns({"path": path, "name": name})
        struct, dot, _ = path.rpartition(".")
        return {(f"{struct}{dot}{name}" if other == path else other): known for other, known in self.now.items()}

    def retype(self, ours: bool) -> Columns | None:
        schema = self.table.schema
        fields = [f for f in schema if f.name != "id" and f.type in CASTS]
        if not fields:
            return None
        f = self.random.choice(fields)
        change: Any = {"path": f.name, "data_type": self.random.choice([t for t in CASTS[f.type] if t != f.type])}
        renamed = f"r{self.table.version}" if ours and self.random.random() < 0.3 else f.name
        if renamed != f.name:
            change["name"] = renamed
        self.opened(ours).alter_columns(change)
        return {(renamed if other == f.name else other): known for other, known in self.now.items()}

    def retype_nested(self, ours: bool) -> Columns | None:
        if "p.a" not in self.now:
            return None
        t = self.table.schema.field("p").type.field("a").type
        self.table.alter_columns({"path": "p.a", "data_type": pa.int32() if t == pa.int64() else pa.int64()})
        return dict(self.now)

    def backfilled(self, ours: bool) -> Columns | None:
        now = self.now
        if "y" not in now and "y__backfill" not in self.table.schema.names:
            self.table.add_columns(pa.field("y", pa.int64()))
            now = {**now, "y": Known(self.table.version, True)}
            with_columns(open_snapshot(Store(self.uri)), "y", None, ("id",))
        if "y" not in now or "y__backfill" not in self.table.schema.names or self.table.schema.field("y").type != pa.int64():
            return None
        backfill(self.uri, column="y", input="id")
        return dict(now)

    def step(self) -> None:
        """One change."""
        rows: list[Callable[[bool], object]] = [self.append, self.delete, self.update, self.update, self.merge]
        whole: list[Callable[[bool], object]] = [self.compact, self.restore, self.restore, self.overwrite]
        nested: list[Callable[[bool], object]] = [self.add_nested, self.add_nested_values, self.retype_nested]
        columns: list[Callable[[bool], object]] = [self.add_nulls, self.add_nulls, self.add_values, self.drop, self.rename, self.retype]
        change, ours = self.random.choice([*rows, *rows, *whole, *columns, *nested, self.backfilled]), self.random.random() < 0.5
        before = self.table.version
        self.steps.append(f"{change.__name__} by {'us' if ours else 'pylance'}")
        try:
            made: Any = change(ours)
        except (LanceError, OSError, ValueError, RuntimeError) as e:  # pylance refuses some changes of fields
            self.steps[-1] += f": {type(e).__name__}: {str(e)[:80]}"
            made = None
        after = self.table.version
        self.steps[-1] += f" -> {after}"
        for version in range(before + 1, after + 1):
            known_now: Columns = self.now if made is None else made
            self.columns[version] = {path: known for path, known in known_now.items() if known.added_at <= version}

    def operation(self, version: int) -> str:
        """The operation that made a version."""
        return next(entry.operation for entry in self.table.history() if entry.version == version)

    def comparable(self, begin: int, end: int) -> dict[str, str | None]:
        """The columns of the version `end` that the changes since `begin` tell all of, with their paths in `begin` (None: it was null).

        These are all but the ones that were added with values since.
        """
        start = max(begin, 1)
        found: dict[str, str | None] = {}
        for path, known in self.columns[end].items():
            if known.added_at <= start or known.is_null:
                found[path] = next((old for old, other in self.columns[start].items() if other is known), None)
        return found


def value(row: dict[str, Any], path: str | None) -> Any:
    """The value at a path, null where a struct is."""
    found: Any = row
    for name in path.split(".") if path else [""]:
        found = found.get(name) if found else None
    return found


def flat(rows: pa.Table, paths: list[str | None]) -> list[tuple[Any, ...]]:
    """The values at these paths of each row."""
    return [tuple(value(row, path) for path in paths) for row in rows.to_pylist()]


def check_replay(history: History, begin: int, end: int, net: bool, without: tuple[str, ...] = ()) -> int:
    """The changes from `begin` to `end`, applied to the rows of `begin`, give the rows of `end`. Returns the number of changes."""
    before = None if begin == 0 else Dataset.open(history.uri, version=begin)
    after = Dataset.open(history.uri, version=end)
    columns = [name for name in after.schema.names if name not in without]
    comparable = {p: old for p, old in history.comparable(begin, end).items() if p.partition(".")[0] not in without}
    if history.stable:
        comparable["_rowid"] = "_rowid"
    new, old = list(comparable), list(comparable.values())
    changes = after.changes(begin, columns=[*columns, "_rowid"], net=net).to_table()
    rows = Counter([] if before is None else flat(before.scan(with_row_id=True).to_table(), old))
    for kind, values in zip(changes["_change_type"].to_pylist(), flat(changes, [*new])):
        if kind in ("delete", "update_preimage"):
            assert rows[values] > 0, f"{kind} of a row that is not there: {dict(zip(new, values))}"
            rows[values] -= 1
        else:
            rows[values] += 1
    expected = Counter(flat(after.scan(with_row_id=True).to_table(), [*new]))
    assert +rows == expected, f"missing {expected - rows}, too many {rows - expected}, columns {new}"
    if net:
        assert max(changes["_rowid"].value_counts().field("counts").to_pylist(), default=0) <= 2
    if net and begin == 0:
        # All rows are new, so nothing else tells of a value.
        assert Counter(map(repr, changes.select(columns).to_pylist())) == Counter(
            map(repr, after.scan(columns=columns).to_table().to_pylist())
        )
    moves_only = end - begin == 1 and history.operation(end) in ("Rewrite", "ReserveFragments", "Project")
    assert not moves_only or not changes.num_rows
    return int(changes.num_rows)
