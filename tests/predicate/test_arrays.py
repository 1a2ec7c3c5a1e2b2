"""Functions of arrays have Spark's meaning; those of other Lance readers have theirs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOptionError
from lance_spark.predicate import evaluate, parse
from lance_spark.schema.schema import from_arrow

NAN = float("nan")
ROWS = pa.table(
    {
        "a": pa.array([[1, 2], [None, 3], None, [], [5]], pa.list_(pa.int32())),
        "s": pa.array([["x"], ["y", None], [], None, ["x", "y"]], pa.large_list(pa.string())),
        "f": pa.array([[0.0, 1.0], [NAN, -0.0], None, [2, None], [3, 4]], pa.list_(pa.float32(), 2)),
        "d": pa.array([[0], [None], [], None, [366]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
        "i": pa.array([1, 2, 3, 4, None]),
    }
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("array_contains(a, 2)", [True, None, None, False, False]),
        ("array_contains(a, 5000000000)", [False, None, None, False, False]),
        ("array_contains(a, 1.5)", [False, None, None, False, False]),
        ("array_contains(a, NULL)", [None] * 5),
        ("NOT array_contains(a, 2)", [False, None, None, True, True]),
        ("array_contains(s, 'y')", [False, True, False, None, True]),
        ("array_contains(f, CAST('NaN' AS FLOAT))", [False, True, None, None, False]),
        ("array_contains(f, 0)", [True, True, None, None, False]),
        ("array_contains(d, DATE'1970-01-01')", [True, None, False, None, False]),
        ("array_contains(d, '1971-01-02')", [False, None, False, None, True]),
        ("array_contains(array(1, 2), i)", [True, True, False, False, None]),
        ("array_contains(array(1, NULL), i)", [True, None, None, None, None]),
        ("arrays_overlap(a, array(2, 5))", [True, None, None, False, True]),
        ("arrays_overlap(array(2, NULL), a)", [True, None, None, False, None]),
        ("arrays_overlap(a, array())", [False, False, None, False, False]),
        ("array_has_any(s, array('x'))", [True, False, False, None, True]),
        ("array_has_all(s, array('x', 'y'))", [False, False, False, None, True]),
        ("array_has_all(s, array())", [True, True, True, None, True]),
    ],
)
def test_a_condition_on_arrays(condition: str, expected: list[bool | None]) -> None:
    assert evaluate(parse(condition, from_arrow(ROWS.schema)), ROWS).to_pylist() == expected


def test_null_lists_over_hidden_items_have_none() -> None:
    hidden = pa.ListArray.from_arrays([0, 2, 4], pa.array([1, 2, 3, 4]), mask=pa.array([True, False]))
    rows = pa.table({"a": hidden})
    assert evaluate(parse("array_contains(a, 1)", from_arrow(rows.schema)), rows).to_pylist() == [None, False]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("array_contains(i, 1)", "needs a column of arrays"),
        ("array_contains(a, i)", "takes only literals"),
        ("array_contains(a, 'x')", "cannot look up"),
        ("arrays_overlap(a, 1)", "needs an array"),
        ("array_has_any(a, array(1, NULL))", "does not look up nulls"),
        ("array_contains(a, array(1))", "needs an item"),
        ("array(i)", "takes only literals"),
    ],
)
def test_what_has_no_meaning_is_refused(condition: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        parse(condition, from_arrow(ROWS.schema))
