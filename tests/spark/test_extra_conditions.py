"""Conditions with array functions and LIKE reach the indexes of a table, and give the rows that Spark finds in Parquet."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings as hypothesis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset
from tests.spark.plans import physical, rows_read, scans, settings

Load = Callable[..., DataFrame]
ROWS = 400
FULL = hypothesis().max_examples > 100
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 0.1, 2.5, math.inf, math.nan]
ITEMS: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "bytes_": (pa.int8(), [-128, -1, 0, 1, 5, 127], "{}Y"),
    "shorts": (pa.int16(), [-300, 0, 1, 5, 300], "{}"),
    "ints": (pa.int32(), [-5, 0, 1, 5, 2**31 - 1], "{}"),
    "longs": (pa.int64(), [-5, 0, 5, 2**53 + 1], "{}L"),
    "floats": (pa.float32(), FLOATS, "float('{}')"),
    "doubles": (pa.float64(), FLOATS, "double('{}')"),
    "texts": (pa.string(), ["", "a", "A", "ab", "é", "z\U0001f600", "\uffff", " a "], "'{}'"),
    "days": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)], "DATE '{}'"),
    "times": (pa.timestamp("us", "UTC"), [dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 3, 10, 7, 30)], "TIMESTAMP '{}+00:00'"),
    "nanos": (pa.timestamp("ns"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 6, 1)], "TIMESTAMP_NTZ '{}'"),
    "prices": (
        pa.decimal128(12, 2),
        [Decimal("-1.05"), Decimal("0.00"), Decimal("1.05"), Decimal("9999999999.99")],
        "CAST({} AS DECIMAL(12,2))",
    ),
    "codes": (pa.binary(), [b"", b"\x00", b"\x7f", b"\xff\x00"], "X'{}'"),
    "flags": (pa.bool_(), [True, False], "{}"),
}
WORDS = ["", "the quick brown fox", "The Quick Brown Dog", "100% of it", "quick\nbrown", "brown é quick"]


def rows() -> pa.Table:
    """Arrays of each type: null, empty, with nulls, and full ones."""
    rng = random.Random(3)

    def array(kind: pa.DataType, pool: list[Any]) -> pa.Array:
        def one() -> list[Any]:
            return [None if rng.random() < 0.15 else rng.choice(pool) for _ in range(rng.choice([0, 1, 2, 4]))]

        return pa.array([None if rng.random() < 0.1 else one() for _ in range(ROWS)], pa.list_(kind), from_pandas=False)

    arrays = {name: array(kind, pool) for name, (kind, pool, _) in ITEMS.items()}
    within = pa.StructArray.from_arrays([array(*ITEMS["texts"][:2])], ["tags"], mask=pa.array([i % 9 == 0 for i in range(ROWS)]))
    words = [None if i % 13 == 0 else rng.choice(WORDS) + rng.choice(["", f" {i}"]) for i in range(ROWS)]
    return pa.table({"id": range(ROWS), "k": [i % 40 for i in range(ROWS)], **arrays, "st": within, "word": words})


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`t.lance`, of which an index covers each column in one of two fragments, and the same rows as `t.parquet`."""
    folder = tmp_path_factory.mktemp("extra")
    table, uri = rows(), folder / "t.lance"
    made = Dataset.write(uri, table[:300])
    for name in ITEMS:
        made = made.create_scalar_index(name, "LABEL_LIST")
    made = made.create_scalar_index("word", "NGRAM").create_scalar_index("k", "BTREE")
    Dataset.write(uri, table[300:], mode="append").delete("id % 50 = 7")
    pq.write_table(table.filter(pa.array([i % 50 != 7 for i in range(ROWS)])), folder / "t.parquet", coerce_timestamps="us")
    return folder


def literal(rng: random.Random, name: str) -> str:
    """A constant of the items' type, or of one that is compared with it."""
    _, pool, text = ITEMS[name]
    value = rng.choice(pool)
    if name in ("shorts", "bytes_", "ints") and rng.random() < 0.3:
        return f"{rng.choice([0, 5, 300, 2**40])}L"
    if name == "floats" and rng.random() < 0.3:
        return f"double('{rng.choice([0.1, 2.5, math.nan])}')"
    if name == "flags":
        return str(value).lower()
    return text.format(value.hex() if isinstance(value, bytes) else value)


def leaf(rng: random.Random) -> str:
    """A condition with a function that Spark does not push down, or one that goes with it."""
    choice = rng.random()
    if choice < 0.1:
        return rng.choice(["k = 5", "k IN (3, 4, 50)", "k > 37", "word IS NULL", "id < 20", "k + 1 = 4"])
    if choice < 0.25:
        pattern = rng.choice(["%quick%brown%", "_he%fox", "%br_wn%", "%100!% of%", "%quick_brown%", "the%quick%", "%", "%é q%", "%quick%9"])
        return f"word {rng.choice(['', 'NOT '])}LIKE '{pattern}'{' ESCAPE ' + repr('!') if '!' in pattern else ''}"
    name = rng.choice(list(ITEMS))
    column = "st.tags" if name == "texts" and rng.random() < 0.4 else name
    if choice < 0.6:
        return f"array_contains({column}, {literal(rng, name)})"
    if choice < 0.65:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    nothing = ["NULL"] if rng.random() < 0.25 else []
    wanted = f"array({', '.join([*(literal(rng, name) for _ in range(rng.randint(1, 3))), *nothing])})"
    if rng.random() < 0.1:
        wanted = "array()"
    return rng.choice([f"arrays_overlap({column}, {wanted})", f"arrays_overlap({wanted}, {column})"])


def condition(rng: random.Random, depth: int = 2) -> str:
    """A random condition."""
    choice = rng.random() if depth else 0.0
    if choice < 0.4:
        return leaf(rng)
    if choice < 0.6:
        return f"NOT ({condition(rng, depth - 1)})"
    return f"({condition(rng, depth - 1)} {rng.choice(['AND', 'OR', 'OR'])} {condition(rng, depth - 1)})"


def found(df: DataFrame, conditions: Sequence[str]) -> list[list[int]]:
    """The ids of the rows that each condition selects, in one query."""
    each = [df.where(c).select(F.lit(n).alias("n"), "id") for n, c in enumerate(conditions)]
    union = each[0]
    for one in each[1:]:
        union = union.union(one)
    out: list[list[int]] = [[] for _ in conditions]
    for n, i in union.collect():
        out[n].append(i)
    return [sorted(ids) for ids in out]


@pytest.mark.parametrize("seed", range(40 if FULL else 1))
def test_conditions_find_the_rows_that_spark_finds(spark: SparkSession, load: Load, stored: Path, seed: int) -> None:
    rng = random.Random(seed)
    conditions = [condition(rng) for _ in range(25 if FULL else 8)]
    with settings(spark, ansi__enabled=str(seed % 2 == 0).lower(), adaptive__enabled=str(seed % 2 == 1).lower()):
        truth = spark.read.parquet(str(stored / "t.parquet")).select("id", *(F.expr(c) for c in conditions)).collect()
        expected = [sorted(row[0] for row in truth if row[n + 1]) for n in range(len(conditions))]
        for use in (True, False) if FULL else (True,):
            results = found(load(stored / "t.lance", use_scalar_index=use), conditions)
            assert not [(c, a, b) for c, a, b in zip(conditions, results, expected) if a != b]


@pytest.mark.parametrize(
    ("condition", "used"),
    [
        ("array_contains(texts, 'ab')", "texts_idx (LABEL_LIST)"),
        ("array_contains(TEXTS, 'ab') AND k = 3", "k_idx (BTREE)"),
        ("arrays_overlap(texts, array('ab', 'A'))", "texts_idx (LABEL_LIST)"),
        ("arrays_overlap(array(1L, NULL), longs)", "longs_idx (LABEL_LIST)"),
        ("array_contains(shorts, 300)", "shorts_idx (LABEL_LIST)"),
        ("array_contains(doubles, double('NaN')) OR k = 3", "doubles_idx (LABEL_LIST), k_idx (BTREE)"),
        ("word LIKE '%100%of%'", "word_idx (NGRAM)"),
        ("contains(word, 'rown fox 1')", "word_idx (NGRAM)"),
        ("startswith(word, 'The Quick Brown Dog 1')", "word_idx (NGRAM)"),
        ("endswith(word, 'quick 33')", "word_idx (NGRAM)"),
    ],
)
def test_explain_names_the_index(load: Load, stored: Path, condition: str, used: str) -> None:
    (scan,) = scans(load(stored / "t.lance").where(condition))
    assert used in scan
    assert "PushedFilters: [" in scan


def test_explain_shows_the_condition_and_spark_evaluates_it_again(spark: SparkSession, load: Load, stored: Path) -> None:
    filtered = load(stored / "t.lance").where("array_contains(longs, 9007199254740993) AND k = 5")
    assert "k = 5, array_contains(longs, 9007199254740993L)]" in scans(filtered)[0]
    assert "Filter array_contains(" in physical(filtered)
    with settings(spark, adaptive__enabled="false"):
        assert rows_read(filtered) == filtered.count() > 0


@pytest.mark.parametrize(
    "condition",
    [
        "array_contains(floats, float('0.1')) = (k > 3)",
        "arrays_overlap(doubles, array(double('0')))",  # Spark's keeps -0.0 and 0.0 apart
        "array_contains(texts, word)",
        "array_contains(ints, CAST(k AS INT))",
        "array_contains(CAST(ints AS ARRAY<TINYINT>), 5Y)",
        "array_contains(CAST(texts AS ARRAY<STRING COLLATE UTF8_LCASE>), 'a')",
        "array_contains(transform(texts, t -> upper(t)), 'A')",
        "array_contains(longs, 5) OR rand() < 0.5",
    ],
)
def test_what_the_reader_cannot_evaluate_as_spark_does_is_left_to_spark(load: Load, stored: Path, condition: str) -> None:
    (scan,) = scans(load(stored / "t.lance").where(condition))
    assert "array" not in scan.partition("PushedFilters: ")[2].partition("], ")[0]


def test_not_like_is_evaluated_by_spark_alone(load: Load, stored: Path) -> None:
    """No index finds these rows, and most rows are among them."""
    found = load(stored / "t.lance").where("word NOT LIKE '%100%of%' AND id < 50")
    (scan,) = scans(found)
    assert "id < 50" in scan
    assert "LIKE" not in scan
