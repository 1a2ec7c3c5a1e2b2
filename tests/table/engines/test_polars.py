"""`lance_spark.polars.scan_lance`: lazy frames of polars, with the rows that polars finds in memory."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.schema.schema import from_arrow
from lance_spark.table.engines.polars_conditions import from_polars

pl = pytest.importorskip("polars", reason="the engine that is tested")
scan_lance = pytest.importorskip("lance_spark.polars", reason="needs polars").scan_lance

DAYS = [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]
TIMES = [datetime.datetime(2024, 2, 29, 12, 0, 0, 1), datetime.datetime(1969, 12, 31, 23, 59, 59)]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i32": (pa.int32(), [-1, 0, 1, 5, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**53) - 1, -1, 0, 1, 5, 2**53 + 1]),
    "u64": (pa.uint64(), [0, 1, 5, 2**63 + 1]),
    "f32": (pa.float32(), [-math.inf, -0.0, 0.0, 0.1, 1.5, math.nan]),
    "f64": (pa.float64(), [-math.inf, -0.0, 0.0, 0.1, 1.5, math.inf, math.nan]),
    "b": (pa.bool_(), [True, False]),
    "s": (pa.string(), ["", "a", "A", "ab", "b.c", "ä"]),
    "d": (pa.date32(), DAYS),
    "ts": (pa.timestamp("us"), TIMES),
    "ms": (pa.timestamp("ms"), [TIMES[1]]),
    "ns": (pa.timestamp("ns"), TIMES),
}
ROWS = 240


def _column(t: pa.DataType, values: list[Any], step: int) -> pa.Array:
    cycle = [None, *values]
    return pa.array([cycle[(row // step + row) % len(cycle)] for row in range(ROWS)], t)


TABLE = pa.table({name: _column(t, values, 1 + at) for at, (name, (t, values)) in enumerate(VALUES.items())})
TABLE = TABLE.append_column("n", pa.array(range(ROWS), pa.int64()))
CONSTANTS = [value for _, values in VALUES.values() for value in values]
COMPARE: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    lambda a, b: a.eq_missing(b),
]


@st.composite
def conditions(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(list(VALUES)))
    _, values = VALUES[name]
    column = pl.col(name)
    constant = st.sampled_from([None, *values])
    kinds = {
        "compare": lambda: draw(st.sampled_from(COMPARE))(column, draw(st.sampled_from(values))),
        "typed": lambda: draw(st.sampled_from(COMPARE[:6]))(column, pl.lit(draw(constant))),
        "between": lambda: column.is_between(
            draw(st.sampled_from(values)), draw(st.sampled_from(values)), draw(st.sampled_from(["both", "left", "right", "none"]))
        ),
        "is_in": lambda: column.is_in(draw(st.lists(constant, max_size=3)), nulls_equal=draw(st.booleans())),
        "null": lambda: draw(st.sampled_from([column.is_null(), column.is_not_null()])),
        "number": lambda: draw(st.sampled_from(COMPARE))(
            pl.col(draw(st.sampled_from(["i8", "i32", "i64", "f32", "f64"]))),
            draw(st.sampled_from([-1, 0, 0.1, 1.5, 300, math.nan, math.inf])),
        ),
        "text": lambda: draw(
            st.sampled_from(
                [
                    pl.col("s").str.starts_with("a"),
                    pl.col("s").str.ends_with("b"),
                    pl.col("s").str.contains(".", literal=True),
                    pl.col("s").str.contains("^a."),
                    pl.col("s").str.to_lowercase() == "a",
                ]
            )
        ),
        "other": lambda: draw(
            st.sampled_from([pl.col("b"), pl.col("i32") + 1 > 1, pl.col("i32") < pl.col("f64"), pl.col("f64").is_nan(), pl.lit(True)])
        ),
    }
    return kinds[draw(st.sampled_from(list(kinds)))]()


CONDITIONS = st.recursive(
    conditions(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: both[0] & both[1]),
        st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    uri = tmp_path_factory.mktemp("polars") / "t"
    return Dataset.write(uri, TABLE, max_rows_per_file=60).create_scalar_index("i32", "BTREE")


@given(CONDITIONS)
def test_the_same_rows_as_polars_finds_in_memory(table: Dataset, condition: Any) -> None:
    try:
        expected = pl.DataFrame(TABLE).filter(condition)["n"].to_list()
    except pl.exceptions.PolarsError:
        return  # such as a list of values of another type
    assert scan_lance(table).filter(condition).select("n").collect()["n"].to_list() == expected, str(condition)


PUSHED = {
    "comparison": pl.col("i32") > 5,
    "mirrored comparison": pl.lit(5) < pl.col("i32"),
    "date": pl.col("d") == DAYS[0],
    "time": pl.col("ts") < TIMES[0],
    "members": pl.col("s").is_in(["a", "b"]),
    "members in a series": pl.col("i64").is_in(pl.Series([1, 2])),
    "between": pl.col("f64").is_between(0.5, 2),
    "null": pl.col("f32").is_null(),
    "prefix": pl.col("s").str.starts_with("a"),
    "connected": (pl.col("i32") > 5) & ((pl.col("s") == "a") | ~pl.col("b")),
    "one part of two": (pl.col("i32") > 5) & (pl.col("i32") + 1 > 1),
}


@pytest.mark.parametrize("name", PUSHED)
def test_what_reaches_the_scan(name: str) -> None:
    assert from_polars(PUSHED[name].meta.serialize(format="json"), from_arrow(TABLE.schema)) is not None


@pytest.mark.parametrize("tree", ["", "null", "{}", '{"Column": 1}', '{"BinaryExpr": {"left": 1}}', '{"Function": []}'])
def test_a_form_that_is_not_known_is_left_to_polars(tree: str) -> None:
    assert from_polars(tree, from_arrow(TABLE.schema)) is None


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_queries_of_all_kinds(table: Dataset, engine: str) -> None:
    frame = scan_lance(table)
    assert frame.collect(engine=engine).equals(pl.DataFrame(TABLE))
    assert frame.select(pl.len()).collect(engine=engine).item() == ROWS
    assert frame.filter(pl.col("n") > 100).select(pl.len()).collect(engine=engine).item() == ROWS - 101
    assert frame.head(5).filter(pl.col("n") > 2).collect(engine=engine)["n"].to_list() == [3, 4]
    assert frame.filter(pl.col("n") > 100).head(2).select("s", "n").collect(engine=engine)["n"].to_list() == [101, 102]
    grouped = frame.group_by("b").agg(pl.col("n").sum()).sort("b").collect(engine=engine)
    assert grouped.equals(pl.DataFrame(TABLE).group_by("b").agg(pl.col("n").sum()).sort("b"))
    assert frame.join(frame, on="n").collect(engine=engine).height == ROWS


def test_a_query_reads_few_bytes_and_the_pinned_version(tmp_path: Path) -> None:
    rows = pa.table({"id": range(4000), "text": [f"{random.Random(i).getrandbits(3200)}" for i in range(4000)]})
    written = Dataset.write(tmp_path / "t", rows, max_rows_per_file=1000)
    frame, counters = scan_lance(written), written.snapshot.store.counters
    begin = counters.bytes_read
    frame.collect()
    end = counters.bytes_read
    found = frame.filter(pl.col("id") == 2500).select("id").collect()
    assert found["id"].to_list() == [2500]
    assert counters.bytes_read - end < (end - begin) / 8
    written.insert(rows)
    assert frame.select(pl.len()).collect().item() == 4000
    assert scan_lance(tmp_path / "t", version=2).select(pl.len()).collect().item() == 8000
