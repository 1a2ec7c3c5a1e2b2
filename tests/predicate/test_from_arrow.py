"""Expressions of pyarrow as filters: the same rows as pyarrow's own filter of the table in memory."""

from __future__ import annotations

import datetime
import decimal
import math
import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, SchemaMismatchError
from lance_spark.predicate import evaluate, parse_filter
from lance_spark.predicate.arrow_condition import projected
from lance_spark.predicate.tree import ArrowCondition, walk
from lance_spark.schema.schema import from_arrow as schema_of

UTC = datetime.UTC
DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 1)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i32": (pa.int32(), [-(2**31), -1, 0, 1, 5, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**50), -1, 0, 1, 5, 2**50]),
    "u64": (pa.uint64(), [0, 1, 5, 2**50]),
    "f32": (pa.float32(), [-math.inf, -0.0, 0.0, 0.1, 1.5, math.inf, math.nan]),
    "f64": (pa.float64(), [-math.inf, -0.0, 0.0, 0.1, 1.5, 5.0, math.inf, math.nan]),
    "b": (pa.bool_(), [True, False]),
    "s": (pa.string(), ["", "a", "A", "ab", "b.c", "ä%", "x_y\nz"]),
    "ls": (pa.large_string(), ["", "a", "ab"]),
    "bin": (pa.binary(), [b"", b"a", b"\xff"]),
    "d": (pa.date32(), [DAY, datetime.date(1969, 12, 31)]),
    "ts": (pa.timestamp("us"), [NOON, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    "tz": (pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC), datetime.datetime(1970, 1, 1, tzinfo=UTC)]),
    "ns": (pa.timestamp("ns"), [NOON, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    "dec": (pa.decimal128(10, 2), [decimal.Decimal("-1.50"), decimal.Decimal("0.00"), decimal.Decimal("1.50")]),
}
ROWS = 240


def _column(t: pa.DataType, values: list[Any], step: int) -> pa.Array:
    cycle = [None, *values]
    return pa.array([cycle[(row // step + row) % len(cycle)] for row in range(ROWS)], t)


TABLE = pa.table({name: _column(t, values, 1 + at) for at, (name, (t, values)) in enumerate(VALUES.items())})
TABLE = TABLE.append_column("n", pa.array(range(ROWS), pa.int64()))
STRUCTS = pa.StructArray.from_arrays([TABLE["i32"].combine_chunks(), TABLE["s"].combine_chunks()], ["x", "t"])
TABLE = TABLE.append_column("st", pc.if_else(pc.equal(pc.bit_wise_and(TABLE["n"], 7), 3), None, STRUCTS))
COLUMNS = {**VALUES, "st.x": VALUES["i32"], "st.t": VALUES["s"]}


def _field(name: str) -> pc.Expression:
    return pc.field(*name.split("."))


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def comparisons(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(COLUMNS)))
    t, values = COLUMNS[name]
    compare = COMPARE[draw(st.sampled_from(list(COMPARE)))]
    literal = pa.scalar(draw(st.sampled_from([None, *values])), t)
    if draw(st.booleans()):
        return compare(pc.scalar(literal), _field(name))
    return compare(_field(name), literal)


@st.composite
def of_numbers(draw: st.DrawFn) -> pc.Expression:
    """Comparisons of numbers with constants of another type, as users write them."""
    name = draw(st.sampled_from(["i8", "i32", "i64", "f32", "f64", "st.x"]))
    compare = COMPARE[draw(st.sampled_from(list(COMPARE)))]
    return compare(_field(name), draw(st.sampled_from([-1, 0, 1, 5, 300, 0.1, 1.5, 5.0, math.nan, math.inf])))


@st.composite
def members(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(COLUMNS)))
    t, values = COLUMNS[name]
    chosen = draw(st.lists(st.sampled_from([None, *values]), max_size=4))
    return pc.is_in(_field(name), pa.array(chosen, t), skip_nulls=draw(st.booleans()))


@st.composite
def texts(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(["s", "ls", "st.t"]))
    test = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_substring, pc.match_like, pc.match_substring_regex]))
    pattern = draw(st.sampled_from(["", "a", ".", "b.c", "%", "a%", "_", "\\%", "^a", "z"]))
    if test is pc.match_substring_regex and pattern == "\\%":
        pattern = "[ab]$"
    return test(_field(name), pattern, ignore_case=draw(st.booleans()))


@st.composite
def others(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(COLUMNS)))
    number = _field(draw(st.sampled_from(["i8", "i32", "f32", "f64"])))
    return draw(
        st.sampled_from(
            [
                _field(name).is_null(),
                _field(name).is_valid(),
                pc.field("f64").is_null(nan_is_null=True),
                pc.is_nan(pc.field("f32")),
                pc.field("b"),
                pc.scalar(True),
                pc.scalar(False),
                pc.scalar(pa.scalar(None, pa.bool_())),
                pc.field("st").is_null(),
                number.cast(pa.float64()) > 0.5,
                pc.field("i32").cast(pa.int64()) >= 5,
                pc.field("i8") + 1 > 1,
                pc.field("i32") < pc.field("i64"),
                pc.field("f32") < pc.field("f64"),
                pc.field("f64") != pc.field("f32"),
                pc.utf8_lower(pc.field("s")) == "a",
                pc.utf8_length(pc.field("s")) > 1,
                pc.year(pc.field("ts")) == 2024,
                pc.if_else(pc.field("b"), pc.field("i32"), 0) > 0,
                pc.coalesce(pc.field("b"), True),
                pc.field("d") == pa.scalar(NOON),
                pc.field("ns") >= pa.scalar(NOON, pa.timestamp("ns")),
            ]
        )
    )


EXPRESSIONS = st.recursive(
    comparisons() | of_numbers() | members() | texts() | others(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: both[0] & both[1]),
        st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=5,
)


def _by_pyarrow(expression: pc.Expression) -> pa.Array:
    return projected(TABLE, {"value": expression})["value"].combine_chunks()


@given(EXPRESSIONS)
def test_the_same_result_as_pyarrow_for_each_row(expression: pc.Expression) -> None:
    try:
        expected = _by_pyarrow(expression)
    except pa.ArrowInvalid:
        return  # such as a decimal and a float that pyarrow does not compare
    found = evaluate(parse_filter(expression, schema_of(TABLE.schema)), TABLE)
    assert found.to_pylist() == expected.to_pylist(), str(expression)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    uri = tmp_path_factory.mktemp("filters") / "t"
    written = Dataset.write(uri, TABLE, max_rows_per_file=60)
    for name, kind in [("i32", "BTREE"), ("f64", "BTREE"), ("s", "BITMAP"), ("i64", "ZONEMAP")]:
        written = written.create_scalar_index(name, kind)
    return written


@given(EXPRESSIONS)
def test_the_same_rows_as_pyarrow_from_a_table_with_indexes(table: Dataset, expression: pc.Expression) -> None:
    try:
        expected = TABLE["n"].filter(_by_pyarrow(expression))
    except pa.ArrowInvalid:
        return
    assert table.scan(["n"], filter=expression).to_table()["n"].to_pylist() == expected.to_pylist(), str(expression)
    assert table.count_rows(expression) == len(expected)


TRANSLATED = {
    "comparison": pc.field("i32") > 5,
    "mirrored comparison": pc.scalar(5) < pc.field("i32"),
    "number of another type": pc.field("i64") <= 1.5,
    "float": pc.field("f64") >= 0.5,
    "member": pc.field("s").isin(["a", None]),
    "null": pc.field("st", "x").is_null(),
    "valid": ~pc.field("s").is_valid(),
    "prefix": pc.starts_with(pc.field("s"), "a"),
    "regular expression": pc.match_substring_regex(pc.field("s"), "^a"),
    "widening cast": pc.field("i8").cast(pa.int64()) == 5,
    "constant cast": pc.field("d") > pc.scalar("2024-01-01").cast(pa.date32()),
    "date": pc.field("d") == DAY,
    "time": pc.field("tz") < pa.scalar(NOON.replace(tzinfo=UTC)),
    "connected": ((pc.field("i32") > 5) | pc.field("b")) & ~(pc.field("s") == "a"),
}


@pytest.mark.parametrize("name", TRANSLATED)
def test_what_indexes_and_statistics_understand(name: str) -> None:
    predicate = parse_filter(TRANSLATED[name], schema_of(TABLE.schema))
    assert not [node for node in walk(predicate.root) if isinstance(node, ArrowCondition)]


def test_the_part_that_stays_as_it_is_does_not_hide_the_others(table: Dataset) -> None:
    expression = (pc.field("i32") == 5) & (pc.field("i8") + 1 > 1)
    assert "i32" in table.scan(filter=expression).explain()
    assert "indexes: none" not in table.scan(filter=expression).explain()


def test_a_filter_is_pickled_with_its_scan(table: Dataset) -> None:
    scan = table.scan(["n"], filter=pc.field("i8") + 1 > 1)
    assert pickle.loads(pickle.dumps(scan)).to_table() == scan.to_table()


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (pc.field("nothing") > 1, SchemaMismatchError, "nothing"),
        (pc.field("I32") > 1, SchemaMismatchError, "there is 'i32'"),
        (pc.field("i32") + 1, InvalidOptionError, "is not a condition"),
        (pc.field("i32"), InvalidOptionError, "is not a condition"),
        (pc.field(0) > 1, InvalidOptionError, "name columns"),
        (pc.field("s") > 1, InvalidOptionError, "cannot be evaluated"),
    ],
    ids=str,
)
def test_expressions_that_are_errors(table: Dataset, expression: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        table.scan(filter=expression)
