"""Columns may have the names of keywords, quoted or not, and mean the same anywhere in a condition."""

import logging

import pyarrow as pa
import pytest
from sqlglot.dialects import Spark

from lance_spark.errors import InvalidOptionError
from lance_spark.predicate import evaluate, parse
from lance_spark.schema import schema as lance_schema

CONSTANTS = ("null", "true", "false")
WORDS = sorted({word.lower() for phrase in Spark.Tokenizer.KEYWORDS for word in phrase.split() if word.isidentifier()} | {"comment", "now"})
CONDITIONS = [
    ("{0} = 2 AND 2 = {0}", [1]),
    ("NOT {0} IN (1) AND {0} NOT IN (1, 3) AND id >= 0", [1]),
    ("NOT {0} = 1 OR {0} IS NULL OR NOT {0} IS NOT NULL", [1, 2]),
    ("{0} BETWEEN {0} AND {0} AND -{0} = -2", [1]),
    ("abs({0}) = 2 OR coalesce({0}, 7) = 7", [1, 2]),
    ("CAST({0} AS DOUBLE) / 1 = 2 AND ({0}) % 2 = 0", [1]),
    ("s.{0} = 'a' OR s.{0} LIKE 'b%'", [0, 1]),
    ("{0} IS NOT DISTINCT FROM {0} AND {0} <=> 1", [0]),
]


def chosen(sql: str, table: pa.Table) -> list[int]:
    mask = evaluate(parse(sql, lance_schema.from_arrow(table.schema)), table)
    return list(table.filter(mask)["id"].to_pylist())


@pytest.mark.parametrize(("condition", "ids"), CONDITIONS)
def test_a_column_may_be_called_like_any_keyword(condition: str, ids: list[int]) -> None:
    wrong = []
    for word in WORDS:
        table = pa.table({"id": [0, 1, 2], word: [1, 2, None], "s": pa.array([{word: "a"}, {word: "b"}, None])})
        said = [f"`{word}`"] if word in CONSTANTS else [word, word.upper(), f"`{word}`"]
        wrong += [sql for name in said for sql in [condition.format(name)] if chosen(sql, table) != ids]
    assert not wrong


def test_operators_and_types_remain_what_they_are_beside_columns_of_their_names() -> None:
    table = pa.table({"id": [0, 1], "in": [1, 2], "not": [1, 2], "is": [1, None], "date": pa.array([0, 1], pa.date32()), "bigint": [5, 6]})
    for sql, ids in {
        "in IN (1)": [0], "NOT in IN (1)": [1], "not = 1": [0], "NOT not = 1": [1], "not IN (2)": [1], "not NOT IN (2)": [0],
        "is IS NULL": [1], "is IS NOT NULL": [0], "NOT is IS NULL": [0], "date = DATE '1970-01-02'": [1], "date > date'1970-01-01'": [1],
        "CAST(bigint AS BIGINT) = 5 AND bigint = 5": [0], "bigint = 5L": [0], "bigint < 5.5BD": [0],
    }.items():  # fmt: skip
        assert chosen(sql, table) == ids, sql


def test_the_parser_writes_nothing_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    schema = lance_schema.from_arrow(pa.schema({"i": pa.int64(), "comment": pa.int64()}))
    with caplog.at_level(logging.DEBUG):
        parse("comment = 1", schema)
        for sql in (
            "show tables",
            "comment on table t is 'x'",
            "transform(i, x -> x) = 1",
            "i = 1; drop table t",
            "try_cast(i as array<int>) = 1",
        ):
            with pytest.raises(InvalidOptionError):
                parse(sql, schema)
    assert not caplog.records


def test_two_quotes_in_a_string_are_one_at_its_ends_too() -> None:
    table = pa.table({"id": [0, 1, 2], "s": ["a'", "'", "'a''b"]})
    assert [chosen(f"s = {text}", table) for text in ("'a'''", "''''", "'''a''''b'")] == [[0], [1], [2]]


def test_a_text_that_was_parsed_before_is_bound_to_the_schema_and_the_time_anew() -> None:
    numbers, texts = (lance_schema.from_arrow(pa.schema([("a", t)])) for t in (pa.int32(), pa.date32()))
    assert str(parse("a < '2020-01-01'", texts).root) != str(parse("a < 2020", numbers).root)
    with pytest.raises(InvalidOptionError):
        parse("a < '2020-01-01'", numbers)
    first, second = (parse("a < now()", texts).root for _ in range(2))
    assert first != second
