"""A filter finds the same rows with and without the indexes that pylance made, whatever has become of the table since."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.predicate import Predicate, bind
from lance_spark.predicate.tree import And, Call, Expression, IsNull, Literal, Not, Or
from lance_spark.schema.schema import Schema

Values = Callable[[random.Random], Any]
START = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_990)
FLOATS = (math.nan, -0.0, 0.0, math.inf, -math.inf, 1.5, -1.5, 3.0)

TYPES: dict[str, tuple[pa.DataType, Values]] = {
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "i8": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "i64": (pa.int64(), lambda r: r.choice([-(2**63), 2**63 - 1, r.randrange(-40, 40)])),
    "u64": (pa.uint64(), lambda r: r.choice([2**64 - 1, r.randrange(50)])),
    "f16": (pa.float16(), lambda r: r.choice(FLOATS)),
    "f32": (pa.float32(), lambda r: r.choice([*FLOATS, r.randrange(20) / 8])),
    "f64": (pa.float64(), lambda r: r.choice([*FLOATS, r.randrange(20) / 7])),
    "date": (pa.date32(), lambda r: datetime.date(1970, 1, 1) + datetime.timedelta(days=r.randrange(-30, 30))),
    "time": (pa.time64("us"), lambda r: datetime.time(r.randrange(24), r.randrange(60))),
    "ts": (pa.timestamp("us", "UTC"), lambda r: (START + datetime.timedelta(microseconds=r.randrange(60))).replace(tzinfo=datetime.UTC)),
    "ns": (pa.timestamp("ns"), lambda r: START + datetime.timedelta(microseconds=r.randrange(60))),
    "duration": (pa.duration("us"), lambda r: datetime.timedelta(microseconds=r.randrange(-40, 40))),
    "decimal": (pa.decimal128(9, 2), lambda r: Decimal(r.randrange(-5000, 5000)) / 100),
    "text": (pa.string(), lambda r: r.choice(["", "a", "ab", "aé", "b", "ß", "z" * 40, f"a{r.randrange(60)}"])),
    "wide": (pa.large_string(), lambda r: f"{r.choice('xyz')}{r.randrange(30)}"),
    "bytes": (pa.binary(), lambda r: bytes(r.randrange(256) for _ in range(r.randrange(3)))),
    "fixed": (pa.binary(3), lambda r: bytes(r.choice([0, 1, 255]) for _ in range(3))),
}
NO_BITMAP = {"f16"}
"""pylance does not keep -0.0 and 0.0, or the NaNs, of these apart from their bits."""


def rows(rng: random.Random, start: int, count: int) -> pa.Table:
    """Rows with one column of each type, a tenth of them null, and an id."""
    columns = {
        name: pa.array([None if rng.random() < 0.1 else make(rng) for _ in range(count)], t, from_pandas=False)
        for name, (t, make) in TYPES.items()
    }
    return pa.table({"id": pa.array(range(start, start + count), pa.int64()), **columns})


STEPS = ("append", "delete", "update", "optimize", "delta", "compact", "defer")


def live(uri: str, steps: Sequence[str], rng: random.Random) -> None:
    """Let pylance change the table."""
    for number, step in enumerate(steps):
        table = lance.dataset(uri)
        if step == "append":
            lance.write_dataset(rows(rng, 10_000 * (number + 1), 150), uri, mode="append")
        elif step == "delete":
            table.delete(f"id % {rng.randrange(3, 9)} = 1")
        elif step == "update":
            table.update({"i8": "5", "text": "'ab'", "f64": "cast(0.0 as double)"}, where=f"id % {rng.randrange(5, 12)} = 2")
        elif step == "optimize":
            table.optimize.optimize_indices()
        elif step == "delta":
            table.optimize.optimize_indices(num_indices_to_merge=0)
        elif step == "compact" or table.has_stable_row_ids:
            table.optimize.compact_files(target_rows_per_fragment=400)
        else:
            table.optimize.compact_files(target_rows_per_fragment=300, defer_index_remap=True)


def leaf(rng: random.Random, schema: Schema, name: str) -> Expression:
    """A condition on one column."""
    _, make = TYPES[name]
    column = bind.column(schema, name)

    def literal() -> Expression:
        value = make(rng)
        if isinstance(column.type, pa.DataType) and column.type == pa.float32():
            value = float(value)
        return Literal(value, column.type)

    choice = rng.randrange(9)
    if choice == 0:
        return IsNull(column)
    if choice == 1:
        return Not(bind.is_in(column, [literal() for _ in range(rng.choice([1, 3, 40]))]))
    if choice <= 3:
        nothing = [Literal(None, pa.null())] if rng.random() < 0.2 else []
        return bind.is_in(column, [*(literal() for _ in range(rng.choice([1, 3, 40]))), *nothing])
    if choice == 4 and column.type in (pa.string(), pa.large_string()):
        return Call("startswith", (column, Literal(rng.choice(["", "a", "x1", "zz"]), pa.string())), pa.bool_())
    return bind.compare(rng.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"]), column, literal())


def condition(rng: random.Random, schema: Schema, depth: int = 2) -> Expression:
    """A condition on several columns."""
    choice = rng.random()
    if not depth or choice < 0.3:
        return leaf(rng, schema, rng.choice(list(TYPES)))
    if choice < 0.4:
        name = rng.choice(list(TYPES))
        return And((leaf(rng, schema, name), leaf(rng, schema, name)))
    if choice < 0.55:
        return Not(condition(rng, schema, depth - 1))
    parts = tuple(condition(rng, schema, depth - 1) for _ in range(rng.randrange(2, 4)))
    return And(parts) if choice < 0.8 else Or(parts)


@settings(max_examples=6 if settings().max_examples <= 100 else 300, deadline=None)
@given(seed=st.integers(0, 2**32), stable=st.booleans(), steps=st.lists(st.sampled_from(STEPS), max_size=5))
def test_filters_find_the_same_rows_with_and_without_indexes(
    tmp_path_factory: pytest.TempPathFactory, seed: int, stable: bool, steps: list[str]
) -> None:
    rng = random.Random(seed)
    uri = str(tmp_path_factory.mktemp("same") / "t.lance")
    lance.write_dataset(rows(rng, 0, 600), uri, max_rows_per_file=200, enable_stable_row_ids=stable)
    kinds = {name: rng.choice(["BTREE", "BTREE", "BITMAP"]) for name in TYPES}
    for name, kind in kinds.items():
        lance.dataset(uri).create_scalar_index(name, kind)
    live(uri, steps, rng)
    table = Dataset.open(uri)
    schema = table.snapshot.manifest.schema
    used = 0
    for name in TYPES:
        used += same_rows(table, leaf(rng, schema, name))
    for _ in range(25):
        used += same_rows(table, condition(rng, schema))
    assert used > 20


def same_rows(table: Dataset, root: Expression) -> bool:
    """Check the rows of a condition; returns whether an index was used."""
    predicate = Predicate(root, str(root))
    with_index, without = (table.scan(["id", "_rowaddr"], filter=predicate, use_scalar_index=on).to_table() for on in (True, False))
    assert with_index == without, root
    assert table.count_rows(predicate) == without.num_rows, root
    some = table.scan(["id"], filter=predicate, limit=7, offset=2).to_table()
    assert some["id"].to_pylist() == without["id"].to_pylist()[2:9], root
    return "indexes: none" not in table.scan(filter=predicate).explain()
