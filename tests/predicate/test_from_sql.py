"""Filters have Spark's semantics. tests/spark/test_predicate_meaning.py compares the same conditions with Spark itself."""

import contextlib
import datetime
import operator
import pickle
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.predicate import evaluate, parse
from lance_spark.schema import schema as lance_schema
from lance_spark.schema.schema import from_arrow
from tests.predicate.conditions import CONDITIONS, ODD_CONDITIONS, ODD_TABLE, TABLE

SCHEMA = lance_schema.from_arrow(TABLE.schema)


def chosen(sql: str, table: pa.Table = TABLE) -> list[int]:
    """The ids of the rows that the condition selects."""
    mask = evaluate(parse(sql, lance_schema.from_arrow(table.schema)), table)
    return list(table.filter(mask)["id"].to_pylist())


@pytest.mark.parametrize(("sql", "ids"), CONDITIONS)
def test_a_condition_selects_the_rows_that_spark_would(sql: Any, ids: Any) -> None:
    assert chosen(sql) == ids


@pytest.mark.parametrize(("sql", "ids"), ODD_CONDITIONS)
def test_odd_texts_numbers_and_operators_select_the_rows_that_spark_would(sql: str, ids: list[int]) -> None:
    assert chosen(sql, ODD_TABLE) == ids


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("a = b < a", "write parentheses around the operands of EQ"),
        ("a = s LIKE 'x'", "write parentheses around the operands of EQ"),
        ("l | 1 & 2 = 3", "write parentheses around the operands of BITWISEAND"),
        ("dec / 2 = 1", "cannot divide column 'dec'.* cast one of them to DOUBLE"),
        ("x = CAST(x AS DECIMAL(10, 2))", "CAST.*which filters do not support"),
        ("d = '20240226'", "expected yyyy-mm-dd"),
        ("l = CAST('1_0' AS INT)", "which filters do not support"),
        ("CASE WHEN a THEN 1 END = 1", r"filters do not support CASE; use if\("),
        ("d > DATE '2024-01-01' + INTERVAL 1 DAY", "calculates with INTERVAL, which filters do not support; use date_add"),
        ("trim(BOTH 'x' FROM s) = ''", "filters do not support words between the arguments"),
        ("round(x) = 1", "calls round.double.*Spark.s where has all functions"),
        ("length(l) = 1", r"calls length.int64.*expected length\(string\)"),
    ],
)
def test_conditions_that_would_mean_something_else_are_refused_with_a_hint(sql: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        chosen(sql, ODD_TABLE)


def test_the_quotient_of_the_smallest_integer_and_minus_one_is_an_error() -> None:
    with pytest.raises(InvalidOptionError, match="cannot be evaluated: overflow"):
        chosen("l DIV -1 = 0", ODD_TABLE)


@pytest.mark.parametrize(
    "sql",
    [
        "s > 1", "i = 'x'", "b = 1", "l = 1", "st = 1", "i", "s + 1 > 2", "d > 5", "i IN (SELECT 1)", "i = 1; DROP TABLE t", "", "SELECT 1",
        "lower(i) = 'a'", "nosuch(i) = 1", "CASE WHEN b THEN true END", "s LIKE 'a\\\\b'", "d = DATE '2024-02-31'", "ts > TIMESTAMP 'soon'",
        "i = 1 AND", "s LIKE i", "startswith(s, s)", "rand() > 0.5", "i BETWEEN 'a' AND 'b'", "sum(i) > 1", "i > ALL (1, 2)",
        "(" * 5000 + "b" + ")" * 5000,
        "NOT " * 100000 + "b", "d + INTERVAL 1 DAY > d", "i = 1e", "1" * 50 + ".5 = i", "CAST(s AS INT) = 1",
        "s RLIKE 'a$'", "s RLIKE s", "startswith(s, 1)",
        "l = array(1)", "l IN (array(1))", "l IN (array(1), array(2))", "l BETWEEN array(1) AND array(2)", "l <=> NULL", "st IN (NULL)",
        "datediff(d, 1) = 1", "if(i, 1, 2) = 1", "CAST(ts AS STRING) = ''",
    ],
)  # fmt: skip
def test_unsupported_conditions_raise_our_error(sql: Any) -> None:
    with pytest.raises(InvalidOptionError):
        parse(sql, SCHEMA)


NULLS = [
    ("n = n", False), ("n <=> NULL", True), ("NULL <=> NULL", True), ("n BETWEEN n AND n", False), ("lower(n) IS NULL", True),
    ("year(NULL) IS NULL", True), ("startswith(n, 'a')", False), ("if(n, 1, 2) = 2", True), ("coalesce(n, id) = 1", True),
    ("CAST(n AS INT) IS NULL", True), ("CAST(NULL AS STRING) IS NULL", True), ("upper(lower(n)) = 'A'", False), ("n IN (1)", False),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "holds"), NULLS)
def test_null_and_columns_without_a_type_are_known_to_all_functions(sql: str, holds: bool) -> None:
    assert chosen(sql, pa.table({"id": [1], "n": pa.nulls(1)})) == [1] * holds


def test_other_dialects_names_and_literals() -> None:
    day = datetime.datetime(1969, 12, 31, 23)
    table = pa.table({"id": [1, 2], "a": [["x"], []], "s": [" q", "r"], "t": pa.array([day, None], pa.timestamp("us"))})
    for sql in ("array_has_any(a, ['x', 'y'])", "regexp_match(s, 'q')", "btrim(s) = 'q'", "CAST(t AS DATE) = DATE '1969-12-31'"):
        assert chosen(sql, table) == [1], sql
    assert chosen("to_date(t) = to_date('1969-12-31')", table) == [1]
    for word in ("timestamp", "timestamp(6)", "datetime", "datetime(6)"):
        assert chosen(f"t = CAST('1969-12-31 23:00:00' AS {word})", table) == [1], word


def test_an_unknown_column_is_named_with_those_that_exist() -> None:
    with pytest.raises(SchemaMismatchError, match=r"no column 'nope'; existing columns: id, i"):
        parse("nope = 1", SCHEMA)


def test_columns_are_matched_case_insensitively_and_listed_once_by_their_own_names() -> None:
    assert parse("I > 1 AND i < 5 OR ST.Q.R IS NULL", SCHEMA).columns == ("`i`", "`st`.`q`.`r`")


@pytest.mark.parametrize("name", ["a.b", "sp ace", "back`tick", "``", "quote'\"", "Ünï", "from"])
def test_any_column_name_can_be_quoted(name: Any) -> None:
    table = pa.table({"id": [1, 2], name: [3, 4], "s": pa.array([{name: 5}, {name: 6}])})
    said = "`" + name.replace("`", "``") + "`"
    assert chosen(f"{said} = 4", table) == chosen(f"s.{said} = 6", table) == chosen(f"s.{said} > 5 AND {said} > 3", table) == [2]


def test_a_thousand_conditions_in_a_row_are_no_nesting() -> None:
    assert chosen(" OR ".join(f"id = {n}" for n in range(0, 5000, 2))) == [0, 2, 4]


def test_predicates_can_be_pickled() -> None:
    predicate = parse("i IN (1, 2) AND s LIKE 'a%' AND ts > '2020-01-01'", SCHEMA)
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_names_with_dots_and_spaces_are_written_in_backticks() -> None:
    table = pa.table({"id": [0, 1], "a.b": [1, 2], "c d": ["x", "y"]})
    assert chosen("`a.b` = 2 AND `c d` = 'y'", table) == [1]


def test_overflow_is_an_error_and_division_by_zero_is_null() -> None:
    table = pa.table({"id": [0, 1], "x": [2**63 - 1, 1], "zero": [0, 0]})
    with pytest.raises(InvalidOptionError, match="cannot be evaluated"):
        chosen("x + 1 > 0", table)
    assert chosen("x / zero IS NULL AND x % zero IS NULL", table) == [0, 1]


def test_integers_of_every_width_compare_with_constants_beyond_their_range() -> None:
    table = pa.table({"id": [0, 1], "u8": pa.array([0, 255], pa.uint8()), "i8": pa.array([-128, 127], pa.int8()),
                      "u64": pa.array([0, 2**64 - 1], pa.uint64())})  # fmt: skip
    assert chosen("u8 < 1000", table) == [0, 1]
    assert chosen("i8 > -1000 AND i8 < 127.5", table) == [0, 1]
    assert chosen("u64 > 9223372036854775808", table) == [1]
    assert chosen("u64 > i8", table) == [0, 1]


def test_half_floats_dictionaries_and_json_are_compared_by_their_values() -> None:
    table = pa.table({"id": [0, 1, 2], "h": pa.array(np.array([1, 2, np.nan], "f2")), "d": pa.array(["a", "b", None]).dictionary_encode(),
                      "n": pa.array([1, 1500, 2000], pa.timestamp("ns"))})  # fmt: skip
    assert chosen("h >= 2", table) == [1, 2]
    assert chosen("d = 'b' OR d IS NULL", table) == [1, 2]
    assert chosen("n = TIMESTAMP_NTZ '1970-01-01 00:00:00.000001'", table) == [1]


VALUES: dict[str, tuple[pa.DataType, Any, Callable[[Any], str]]] = {
    "bigint": (pa.int64(), st.integers(-5, 5), str),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, -2.0, float("nan"), float("inf")]), lambda v: f"CAST('{v}' AS DOUBLE)"),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ab"]), lambda v: f"'{v}'"),
    "date": (pa.date32(), st.dates(datetime.date(2020, 1, 1), datetime.date(2020, 1, 3)), lambda v: f"DATE '{v}'"),
    "decimal": (pa.decimal128(5, 2), st.sampled_from([Decimal("1.50"), Decimal("-1.00"), Decimal("0.01")]), str),
}


def order(v: Any) -> Any:
    """The position of a value in Spark's total order of its type."""
    return (1, 0.0) if v != v else (0, v)


@given(
    st.sampled_from(sorted(VALUES)).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.none() | VALUES[n][1], max_size=8), VALUES[n][1]))
)
def test_comparisons_follow_one_total_order_and_nulls_are_unknown(case: Any) -> None:
    name, values, constant = case
    t, _, write = VALUES[name]
    table = pa.table({"id": list(range(len(values))), "x": pa.array(values, t)})
    text = write(constant)
    comparisons: dict[str, Callable[[Any, Any], bool]] = {
        "=": operator.eq,
        "<>": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
    for op, holds in comparisons.items():
        expected = [i for i, v in enumerate(values) if v is not None and holds(order(v), order(constant))]
        assert chosen(f"x {op} {text}", table) == expected, op
        assert chosen(f"NOT (x {op} {text})", table) == [i for i, v in enumerate(values) if v is not None and i not in expected]
    assert chosen(f"x IN ({text}, NULL)", table) == [i for i, v in enumerate(values) if v is not None and order(v) == order(constant)]
    assert chosen(f"NOT x IN ({text}, NULL)", table) == []


@given(st.text(max_size=40))
def test_any_text_is_a_predicate_or_our_error(text: Any) -> None:
    with contextlib.suppress(LanceError):
        evaluate(parse(text, SCHEMA), TABLE)


def test_messages_of_the_parser_are_plain_text() -> None:
    with pytest.raises(InvalidOptionError, match="has a syntax error") as e:
        parse("i >", SCHEMA)
    assert str(e.value).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("id = 3 AND", "the filter 'id = 3 AND' has a syntax error: an operand is missing at 'AND'"),
        ("id > > 3", "the filter 'id > > 3' has a syntax error: an operand is missing between '>' and '>'"),
        ("id < < 3", "the filter 'id < < 3' has a syntax error: an operand is missing between '<' and '<'"),
        ("hello world", "the filter 'hello world' has a syntax error: unexpected text at 'world'"),
        ("(id = 3", "the filter '(id = 3' has a syntax error: expecting ) at '3'"),
        ("id = 3; id = 4", "the filter 'id = 3; id = 4' has a syntax error: a semicolon ends it"),
        ("s = 'x", 'the filter "s = \'x" has a syntax error: a string, a name or a comment is not closed'),
        ("", "the filter '' has a syntax error: it is empty"),
        ("s = '\ud800'", "the filter \"s = '\\ud800'\" has half of a character, '\\ud800', which no text in a table has"),
        ("id >> 3 = 1", "the filter 'id >> 3 = 1' uses 'SHIFTRIGHT(`id`, 3)', which filters do not support"),
    ],
)
def test_a_syntax_error_is_called_one(sql: str, message: str) -> None:
    with pytest.raises(InvalidOptionError) as e:
        parse(sql, SCHEMA)
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("_rowadr", "no column '_rowadr'; did you mean '_rowaddr'?"),
        ("IDD", "no column 'IDD'; did you mean 'id'?"),
        ("`idd`", "no column 'idd'; did you mean 'id'?"),
        ("nothing", "no column 'nothing'; existing columns: id, name"),
    ],
)
def test_a_wrong_column_gets_the_similar_one_or_those_that_are_stored(name: str, message: str) -> None:
    schema = with_row_columns(from_arrow(pa.schema({"id": pa.int64(), "name": pa.string()})))
    with pytest.raises(SchemaMismatchError) as e:
        parse(f"{name} = 3", schema)
    assert str(e.value) == message


def test_of_many_columns_the_first_are_named() -> None:
    with pytest.raises(SchemaMismatchError, match=r"existing columns: column0, .*column19 and 30 more$"):
        parse("x = 3", from_arrow(pa.schema({f"column{i}": pa.int64() for i in range(50)})))


def test_today_is_that_of_the_zone_and_is_refused_where_the_zone_is_unknown() -> None:
    # There are 26 hours between these zones, so their dates always differ.
    east, west = (parse("d = current_date()", SCHEMA, zone) for zone in ("Pacific/Kiritimati", "Etc/GMT+12"))
    assert east.root != west.root
    with pytest.raises(InvalidOptionError, match="depends on the time zone of the session"):
        parse("d = current_date()", SCHEMA, None)


def test_a_column_called_current_date_comes_before_the_function() -> None:
    assert chosen("current_date = 5", pa.table({"id": [0, 1], "current_date": [4, 5]})) == [1]


def test_dates_of_five_digit_years_are_written_with_a_plus_sign() -> None:
    table = pa.table({"id": [0], "d": pa.array([2932897], pa.int32()).cast(pa.date32())})
    assert chosen("CAST(d AS STRING) = '+10000-01-01'", table) == [0]


INTEGERS = (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(20, 2))


@pytest.mark.parametrize("type", INTEGERS, ids=str)
@pytest.mark.parametrize("last", [100, 2**40, -3], ids=str)
def test_a_long_list_of_integers_means_the_same_as_short_ones(type: pa.DataType, last: int) -> None:
    table = pa.table({"id": pa.array([None, *range(120)], type), "in": range(121)})
    schema, wanted = from_arrow(table.schema), [*range(3, 102, 1), last]
    in_one = f"NOT (id in ({', '.join(map(str, wanted))}) AND in < 70)"
    in_parts = f"NOT ((id IN ({', '.join(map(str, wanted[:50]))}) OR id IN ({','.join(map(str, wanted[50:]))})) AND in < 70)"
    one, parts = (evaluate(parse(text, schema), table) for text in (in_one, in_parts))
    assert one.to_pylist() == parts.to_pylist()


def test_what_only_looks_like_a_long_list_of_integers_is_read_as_it_is() -> None:
    values = ", ".join(map(str, range(200)))
    schema = from_arrow(pa.schema([("s", pa.string()), ("id", pa.int64())]))
    text = f"x IN ({values})"
    found = evaluate(parse(f"s = '{text}'", schema), pa.table({"s": [text, "y"], "id": [1, 2]}))
    assert found.to_pylist() == [True, False]
    for wrong in ("id IN (__list(0))", f"id IN (__list({values}))", f"id IN ({values}, __list(0))"):
        with pytest.raises(InvalidOptionError, match="calls __list"):
            parse(wrong, schema)


def test_a_hundred_thousand_integers_are_parsed_in_a_moment() -> None:
    """The parser took three seconds. Ten times as long as the new way passes, so that a loaded machine does not fail."""
    schema = from_arrow(pa.schema([("id", pa.int64())]))
    start = time.process_time()
    parse(f"id IN ({', '.join(map(str, range(100_000)))})", schema)
    assert time.process_time() - start < 1.5
