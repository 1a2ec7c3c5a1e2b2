"""Every kind of index on every type that it can be built for, made and kept by either writer: both find the rows of a scan."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset
from lance_spark.index.value_types import TAKES
from lance_spark.predicate import Predicate, bind
from lance_spark.predicate.compare import as_seen
from lance_spark.predicate.tree import Call, Column, Expression, IsNull, Literal, Not

pytestmark = pytest.mark.spec("table.md", "Indices")

FULL = settings().max_examples > 100
FLOATS = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.5, -2.0]
UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
TEXTS = ["", "a", "abc", "xabcy", "ab cd", "é", "Straße 12", "z" * 300, "\0"]
ZONES = (None, "UTC", "+05:30", "America/New_York")
INTEGERS = {t: [0, 1, 5, 100, 2 ** (t.bit_width - 1) - 1] for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())} | {
    t: [0, -1, 5, 2 ** (t.bit_width - 1) - 1, -(2 ** (t.bit_width - 1))] for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
}
INSTANTS = {pa.timestamp(unit, zone): [0, -1, 1, 86_399, 10**9, -(10**9)] for unit in UNITS for zone in ZONES}
TYPES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    **INTEGERS,
    **dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), FLOATS),
    pa.date32(): [0, -1, 1, 18_000, -100_000],
    pa.date64(): [0, -86_400_000, 86_400_000 * 18_000],
    **{t: [0, 1, 3_723, 86_399] for t in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
    **INSTANTS,
    **{pa.duration(unit): [0, -1, 1, 10**9] for unit in UNITS},
    pa.decimal128(9, 2): [Decimal(n).scaleb(-2) for n in (0, -1, 125, 999_999_999)],
    pa.decimal128(38, 0): [Decimal(0), Decimal(10) ** 37, -(Decimal(10) ** 37)],
    pa.decimal256(50, 3): [Decimal("0.000"), Decimal("1.250"), Decimal(10) ** 45],
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): [b"", b"\0", b"\xff", b"ab"],
    pa.large_binary(): [b"", b"\0", b"\xff", b"ab"],
    pa.binary(3): [b"\0\0\0", b"abc", b"\xff\xff\xff"],
}
"""The values of each type; those of temporal types as their numbers."""

LISTS = [*map(pa.list_, TYPES), pa.large_list(pa.string()), pa.large_list(pa.int32())]
OTHERS = ("JSON", "INVERTED", "MINHASHLSH", "RTREE")
KINDS = {kind: [t for t in (*TYPES, *LISTS) if takes(t)] for kind, takes in TAKES.items() if kind not in OTHERS}
if not FULL:
    KINDS = {kind: types if len(types) < 6 else random.Random(kind).sample(types, 6) for kind, types in KINDS.items()}


def array(values: list[Any], t: pa.DataType) -> pa.Array:
    """Values of `TYPES` as an array."""
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        sizes = [0, *itertools.accumulate(0 if v is None else len(v) for v in values)]
        items = array([item for v in values if v is not None for item in v], t.value_type)
        lists = pa.LargeListArray if pa.types.is_large_list(t) else pa.ListArray
        offsets = pa.array(sizes, pa.int64() if lists is pa.LargeListArray else pa.int32())
        return lists.from_arrays(offsets, items, type=t, mask=pa.array([v is None for v in values], pa.bool_()))
    if pa.types.is_temporal(t):
        return pa.array(values, pa.int32() if t.bit_width == 32 else pa.int64()).view(t)
    return pa.array(values, t, from_pandas=False)


def rows(kind: str, count: int, shape: str, start: int = 0) -> pa.Table:
    """A table with a column of each type: of all values and nulls ("mixed"), of nulls only, or of one value."""
    rng = random.Random(start)

    def one(t: pa.DataType) -> Any:
        if shape == "nulls" or (shape == "mixed" and rng.random() < 0.15):
            return None
        if pa.types.is_list(t) or pa.types.is_large_list(t):
            return [one(t.value_type) for _ in range(rng.choice([0, 1, 3]) if shape == "mixed" else 1)]
        return rng.choice(TYPES[t]) if shape == "mixed" else TYPES[t][-1]

    columns = {f"c{n}": array([one(t) for _ in range(count)], t) for n, t in enumerate(KINDS[kind])}
    return pa.table({"id": pa.array(range(start, start + count), pa.int64()), **columns})


def theirs(t: pa.DataType, value: Any) -> str:
    """A value of a type in the SQL of pylance."""
    if pa.types.is_decimal256(t) or pa.types.is_decimal128(t):
        return f"arrow_cast('{value:f}', 'Decimal{t.bit_width}({t.precision}, {t.scale})')"
    if pa.types.is_boolean(t):
        return str(value).lower()
    if pa.types.is_large_string(t) or pa.types.is_string(t):
        return f"'{value}'"
    if isinstance(value, bytes):
        name = {pa.binary(): "Binary", pa.large_binary(): "LargeBinary"}.get(t, f"FixedSizeBinary({len(value)})")
        return f"arrow_cast(X'{value.hex()}', '{name}')"
    if pa.types.is_floating(t):
        return f"arrow_cast('{value}', 'Float{t.bit_width}')"
    unit = UNITS[t.unit] if hasattr(t, "unit") else ""
    if pa.types.is_timestamp(t):
        zone = "None" if t.tz is None else f'Some("{t.tz}")'
        return f"arrow_cast({value}, 'Timestamp({unit}, {zone})')"
    if pa.types.is_date(t):
        return f"arrow_cast(arrow_cast({value}, 'Int{t.bit_width}'), 'Date{t.bit_width}')"
    if pa.types.is_time(t):
        return f"arrow_cast(arrow_cast({value}, 'Int{t.bit_width}'), 'Time{t.bit_width}({unit})')"
    if pa.types.is_duration(t):
        return f"arrow_cast({value}, 'Duration({unit})')"
    return f"arrow_cast({value}, '{str(t).replace('i', 'I').replace('u', 'U')}')"


def conditions(kind: str, column: Column, t: pa.DataType, rng: random.Random) -> Iterator[tuple[Expression, str | None]]:
    """Conditions on a column, here and in the SQL of pylance. The first one is what the kind is for."""
    name = column.path[0]
    is_list = kind == "LABEL_LIST"
    item = t.value_type if is_list else t
    pool = TYPES[item]
    value = rng.choice(pool)
    seen = bind.item_type(t) if is_list else column.type
    if kind in ("NGRAM", "FM"):
        yield Call("contains", (column, Literal("abc", pa.string())), pa.bool_()), f"contains({name}, 'abc')"
    known = Literal(as_python(item, value, seen), seen)
    if is_list:
        call = Call("array_contains", (column, known), pa.bool_())
        yield call, f"array_has({name}, {theirs(item, value)})"
    else:
        yield bind.compare("=", column, known), f"{name} = {theirs(t, value)}"
    yield IsNull(column), f"{name} IS NULL"
    if is_list:
        return
    yield Not(IsNull(column)), f"{name} IS NOT NULL"
    several = [rng.choice(pool) for _ in range(3)]
    literals = [Literal(as_python(item, v, seen), seen) for v in several]
    yield bind.is_in(column, literals), f"{name} IN ({', '.join(theirs(t, v) for v in several)})"
    if not pa.types.is_boolean(t):
        op = rng.choice(["<", "<=", ">", ">="])
        yield bind.compare(op, column, known), f"{name} {op} {theirs(t, value)}"


def as_python(t: pa.DataType, value: Any, seen: pa.DataType) -> Any:
    """The value as Python's, as a column of the type is seen."""
    return as_seen(array([value], t), seen)[0].as_py()


def check(path: Path, kind: str, what: str, used: bool = True) -> None:
    """Both readers give the rows of a scan for all conditions; pylance uses the index for the first ones."""
    rng = random.Random(what)
    ours, pylance = Dataset.open(path), lance.dataset(path)
    for n, t in enumerate(KINDS[kind]):
        column = bind.column(ours.snapshot.manifest.schema, f"c{n}")
        for number, (condition, text) in enumerate(conditions(kind, column, t, rng)):
            predicate = Predicate(condition, str(condition))
            found, scanned = (ours.scan(["id"], filter=predicate, use_scalar_index=use).to_table() for use in (True, False))
            assert found == scanned, (what, str(t), predicate.text)
            if text is None:
                continue
            found, scanned = (pylance.scanner(["id"], filter=text, use_scalar_index=use).to_table() for use in (True, False))
            assert sorted(found["id"].to_pylist()) == sorted(scanned["id"].to_pylist()), (what, str(t), text)
            # pylance reads all rows for a BOOLEAN in a zone map.
            named = used and ours.count_rows() and not (kind == "ZONEMAP" and pa.types.is_boolean(t))
            if number == 0 and named:
                assert f"@c{n}_idx" in pylance.scanner(filter=text).explain_plan(), (what, str(t), text)


def make(path: Path, kind: str, writer: str) -> None:
    for n in range(len(KINDS[kind])):
        if writer == "ours":
            Dataset.open(path).create_scalar_index(f"c{n}", kind)
        else:
            lance.dataset(path).create_scalar_index(f"c{n}", kind)


CASES = list(itertools.product(sorted(KINDS), (False, True), ("ours", "theirs"), ("mixed", "nulls", "one value", "no rows")))
QUICK = [(kind, n % 2 == 0, "ours", "mixed") for n, kind in enumerate(sorted(KINDS))]


@pytest.mark.parametrize(("kind", "stable", "writer", "shape"), CASES if FULL else QUICK)
def test_indexes_answer_as_scans_do(kind: str, stable: bool, writer: str, shape: str, tmp_path: Path) -> None:
    count = 0 if shape == "no rows" else 90
    Dataset.write(tmp_path, rows(kind, count, shape), max_rows_per_file=40, enable_stable_row_ids=stable)
    if count:
        Dataset.open(tmp_path).delete("id % 7 = 3")
    make(tmp_path, kind, writer)
    assert len(lance.dataset(tmp_path).describe_indices()) == len(KINDS[kind])
    check(tmp_path, kind, "made")
    for keeper in ("ours", "theirs"):
        start = 1000 if keeper == "ours" else 2000
        Dataset.write(tmp_path, rows(kind, 30, "mixed", start), mode="append")
        (Dataset.open(tmp_path) if keeper == "ours" else lance.dataset(tmp_path)).optimize.optimize_indices()
        check(tmp_path, kind, f"extended by {keeper}")
        Dataset.open(tmp_path).delete("id % 5 = 1")
        table = Dataset.open(tmp_path) if keeper == "ours" else lance.dataset(tmp_path)
        table.optimize.compact_files(target_rows_per_fragment=1000)
        check(tmp_path, kind, f"compacted by {keeper}", used=keeper == "ours" or kind not in ("ZONEMAP", "BLOOMFILTER", "FM"))
