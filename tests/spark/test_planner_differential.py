"""Queries return the same rows with the planner, without it, and on the same data in Parquet.

Generated queries come from fixed seeds; QUERIES has the queries that once failed.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings as hypothesis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark import Dataset
from tests.sample import others_slow
from tests.spark.plans import PUSH_DOWN, settings

FULL = hypothesis().max_examples > 100
ROWS = 240
DAY = dt.date(2024, 1, 1)
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.int8(), [-128, -1, 0, 1, 7, 127]),
    "i": (pa.int32(), [-(2**31), -5, 0, 3, 4, 5, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -3, 0, 3, 2**53 + 1, 2**63 - 1]),
    "f": (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 0.1, 2.5, math.inf, math.nan]),
    "d": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 0.1, 2.5, math.inf, math.nan]),
    "s": (pa.string(), ["", "a", "A", "ab", "abc", "a%c", "a_c", "été", "z\U0001f600", "\uffff", " a "]),
    "dt": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), DAY, dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "ts": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 3, 10, 7, 30), dt.datetime(2024, 11, 3, 5, 30)],
    ),
    "ntz": (pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 6, 1)]),
    "t": (pa.bool_(), [True, False]),
    "dec": (pa.decimal128(12, 2), [Decimal("-1.05"), Decimal("0.00"), Decimal("1.00"), Decimal("1.05"), Decimal("9999999999.99")]),
    "dec6": (pa.decimal128(20, 6), [Decimal("-1.050000"), Decimal("1.000000"), Decimal("1.050001")]),
    "bin": (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00"]),
    "Mixed Case": (pa.string(), ["x", "X", "y"]),
    "dot-ted": (pa.int32(), [1, 2, 3]),
    "tick~ed": (pa.int32(), [1, 2, 3]),
}
PLAIN = ["b", "i", "l", "f", "d", "s", "dt", "ts", "ntz", "t", "dec", "dec6", "bin", "`Mixed Case`", "`dot-ted`", "`tick~ed`"]
NESTED = ["st.p", "st.q.r", "st.q.z"]
EXACT = [name for name in [*PLAIN, *NESTED] if name not in ("f", "d", "st.q.z")]


def data() -> pa.Table:
    """Every pool's values and nulls at random places, structs that are null or have nulls in them, and an `id` of each row."""
    rng = random.Random(7)

    def column(kind: pa.DataType, pool: list[Any]) -> pa.Array:
        return pa.array([None if rng.random() < 0.15 else rng.choice(pool) for _ in range(ROWS)], kind)

    columns = {"id": pa.array(range(ROWS), pa.int64())} | {name: column(*pool) for name, pool in POOLS.items()}

    def struct(fields: dict[str, pa.Array], every: int) -> pa.Array:
        return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=pa.array([i % every == 0 for i in range(ROWS)]))

    inner = struct({"r": column(*POOLS["s"]), "z": column(*POOLS["d"])}, 9)
    columns["st"] = struct({"p": column(*POOLS["i"]), "q": inner}, 7)
    columns["arr"] = pa.array([None if i % 8 == 0 else [i, None] if i % 3 else [] for i in range(ROWS)], pa.list_(pa.int32()))
    return pa.table(columns)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The same rows in Lance, in Lance with indexes that cover two of three fragments, and in Parquet, and a small dimension."""
    folder = tmp_path_factory.mktemp("differential")
    Dataset.write(f"{folder}/t.lance", data(), max_rows_per_file=100)
    indexed = Dataset.write(f"{folder}/indexed.lance", data()[:200], max_rows_per_file=100)
    kinds = {"s": "NGRAM", "dt": "ZONEMAP", "d": "ZONEMAP", "bin": "BLOOMFILTER", "t": "BITMAP", "b": "BITMAP", "arr": "LABEL_LIST"}
    for name in (*PLAIN, *NESTED, "arr"):
        indexed = indexed.create_scalar_index(name, kinds.get(name, "BTREE"))
    Dataset.write(f"{folder}/indexed.lance", data()[200:], mode="append")
    pq.write_table(data(), f"{folder}/t.parquet")
    spark.createDataFrame([(i * 3, i, "abc"[i]) for i in range(3)], "k long, p int, name string").coalesce(1).createOrReplaceTempView("dim")
    yield {
        "lance": spark.read.format("lance").load(f"{folder}/t.lance"),
        "indexed": spark.read.format("lance").load(f"{folder}/indexed.lance"),
        "parquet": spark.read.parquet(f"{folder}/t.parquet"),
    }
    spark.catalog.dropTempView("dim")
    spark.catalog.dropTempView("t")


def run(spark: SparkSession, query: str) -> list[str]:
    """The sorted rows of a query as text, or the class of its error."""
    try:
        return sorted(map(repr, spark.sql(query).collect()))
    except PySparkException as e:
        return [f"{type(e).__name__} {e.getCondition()}"]


def differences(spark: SparkSession, tables: dict[str, Any], queries: list[str], without: bool, table: str = "lance") -> list[str]:
    """The queries whose results differ between a table and Parquet, with `without` also without the planner."""
    tables["parquet"].createOrReplaceTempView("t")
    # Spark takes the statistics of a Parquet file as if there were no NaN in it.
    with settings(spark, parquet__filterPushdown="false"):
        expected = [run(spark, query) for query in queries]
    tables[table].createOrReplaceTempView("t")
    found = [("planner", q, a, b) for q, a, b in zip(queries, expected, (run(spark, query) for query in queries)) if a != b]
    if without:
        with settings(spark, optimizer__excludedRules=PUSH_DOWN):
            found += [("without", q, a, b) for q, a, b in zip(queries, expected, [run(spark, query) for query in queries]) if a != b]
    return [f"{q}\n  parquet {a[:6]}\n  {how} {b[:6]}" for how, q, a, b in found]


def literal(rng: random.Random, name: str) -> str:
    """A SQL constant of the column's kind, close to values of the column."""
    kind, pool = POOLS[{"st.p": "i", "st.q.r": "s", "st.q.z": "d"}.get(name, name.strip("`").replace("``", "`"))]
    value = rng.choice(pool)
    if pa.types.is_floating(kind):
        return f"{'float' if kind == pa.float32() else 'double'}('{value}')"
    if pa.types.is_timestamp(kind):
        return f"{'TIMESTAMP' if kind.tz else 'TIMESTAMP_NTZ'} '{value}'"
    if kind == pa.date32():
        return f"DATE '{value}'"
    if kind == pa.binary():
        return f"X'{value.hex()}'"
    if kind == pa.string():
        return f"'{value}'"
    if pa.types.is_decimal(kind):
        return rng.choice([str(value), f"{value}001", str(int(value))])
    if kind == pa.int64() and value == -(2**63):
        return "(-9223372036854775807L - 1L)"
    return f"{value}L" if kind == pa.int64() else str(value)


def condition(rng: random.Random, depth: int = 2) -> str:
    """A random condition with parts that Spark pushes down and some that it does not."""
    if depth and rng.random() < 0.6:
        left, right = condition(rng, depth - 1), condition(rng, depth - 1)
        return rng.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
    name = rng.choice(PLAIN + NESTED)
    kind = rng.random()
    if depth and kind < 0.1:
        return f"({condition(rng, 0)} {rng.choice(['AND', 'OR'])} NULL) {rng.choice(['=', '<=>', '<'])} {rng.choice(['t', '(b >= -128)'])}"
    if kind < 0.45:
        return f"{name} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {literal(rng, name)}"
    if kind < 0.6:
        values = [literal(rng, name) for _ in range(rng.randint(1, 4))] + (["NULL"] if rng.random() < 0.3 else [])
        return f"{name} {rng.choice(['IN', 'NOT IN'])} ({', '.join(values)})"
    if kind < 0.7:
        return f"{rng.choice([*PLAIN, *NESTED, 'st', 'st.q', 'arr'])} IS {rng.choice(['', 'NOT '])}NULL"
    if kind < 0.8:
        pattern = rng.choice(["a%", "%c", "%b%", "a_c", "a\\\\_c", "%", "", "A%", "%é%", "_"])
        return f"{rng.choice(['s', 'st.q.r', '`Mixed Case`'])} {rng.choice(['LIKE', 'NOT LIKE', 'ILIKE'])} '{pattern}'"
    return rng.choice(
        [
            "t",
            "NOT t",
            "i = st.p",
            "b < i",
            "f = d",
            "dec = dec6",
            "s = st.q.r",
            "startswith(s, st.q.r)",
            "contains(s, 'b')",
            "CAST(i AS bigint) + b > 3L",
            "length(s) = 1",
            "s = upper(s)",
            "isnan(f)",
            "CAST(i AS string) = '3'",
            "date_trunc('day', ts) = TIMESTAMP '2024-03-10'",
            "ts > ntz",
            "dt = CAST(ntz AS date)",
            "coalesce(i, 3) = 3",
            "st = struct(3 AS p, st.q AS q)",
            "arr = array(1, NULL)",
            "array_contains(arr, 7)",
            "arrays_overlap(arr, array(4, 100, NULL))",
            "I IN (3, 4) AND ST.Q.R = 'a'",
        ]
    )


def query(rng: random.Random) -> str:
    """A random statement."""
    where = condition(rng)
    kind = rng.randrange(7)
    if kind == 0:
        name = rng.choice(PLAIN + NESTED)
        exact = rng.choice(EXACT)
        return f"SELECT count(*), count({name}), min({exact}), max({exact}) FROM t WHERE {where}"
    if kind == 1:
        name = rng.choice(PLAIN + NESTED)
        order = f"{name} {rng.choice(['', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}, id {rng.choice(['', 'DESC'])}"
        return f"SELECT id, {name} FROM t WHERE {where} ORDER BY {order} LIMIT {rng.choice([1, 5, 40])} OFFSET {rng.choice([0, 2])}"
    if kind == 2:
        return f"SELECT count(*) FROM (SELECT id FROM t WHERE {where} LIMIT {rng.choice([1, 10])})"
    if kind == 3:
        return f"SELECT id, name FROM t JOIN dim ON {rng.choice(['id = k', 't.i = p', 'st.p = dim.p'])} WHERE {where}"
    if kind == 4:
        name = rng.choice(EXACT)
        return f"SELECT {name}, count(*), max(id) FROM t WHERE {where} GROUP BY {name}"
    parts = [f"SELECT {n} AS n, id, {rng.choice(PLAIN + NESTED)} IS NULL FROM t WHERE {condition(rng)}" for n in range(4)]
    return " UNION ALL ".join(parts)


def aggregate(rng: random.Random) -> str:
    """A random aggregate: most are computed by the reader."""
    name, exact = rng.choice([*PLAIN, *NESTED, "st", "arr"]), rng.choice(EXACT)
    decimals = ["dec", "dec6", "(1 - dec)", "(dec + dec6)", "dec * dec6", "dec * (1 - dec6) * (1 + dec)", "CAST(b AS decimal(4, 1)) * dec"]
    others = ["b", "i", "st.p", "l", "-dec", "dec / 3", "CAST(i AS bigint) * 2", "CASE WHEN i = 3 THEN dec ELSE 0 END", "length(s)", "1"]
    number = rng.choice(decimals if rng.random() < 0.6 else others)
    return rng.choice(
        [
            "count(*)",
            f"count({name})",
            f"min({exact})",
            f"max({exact})",
            f"sum({number})",
            f"sum({number})",
            f"avg({number})",
            f"avg({number})",
            f"max({rng.choice(decimals)})",
            f"try_sum({rng.choice(['l', 'dec'])})",
            f"sum({number}) FILTER (WHERE {condition(rng, 0)})",
            "sum(DISTINCT i)",
        ]
    )


def aggregation(rng: random.Random) -> str:
    """A random statement with aggregates."""
    keys = rng.sample([*PLAIN, *NESTED], rng.choice([0, 1, 1, 2]))
    functions = [aggregate(rng) for _ in range(rng.randint(0 if keys else 1, 4))]
    where = f" WHERE {condition(rng, 1)}" if rng.random() < 0.6 else ""
    having = f" HAVING count(*) > {rng.choice([1, 9])}" if rng.random() < 0.2 else ""
    return f"SELECT {', '.join([*keys, *functions])} FROM t{where}{' GROUP BY ' if keys else ''}{', '.join(keys)}{having}"


@pytest.mark.parametrize("seed", others_slow(range(50 if FULL else 2), [0]))
def test_random_aggregates(spark: SparkSession, tables: dict[str, Any], seed: int) -> None:
    rng = random.Random(seed)
    with settings(spark, ansi__enabled=str(seed % 2 == 0).lower(), session__timeZone="America/New_York"):
        found = differences(spark, tables, [aggregation(rng) for _ in range(8)], without=seed == 0)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", others_slow(range(100 if FULL else 3), [0, 2]))
def test_random_queries(spark: SparkSession, tables: dict[str, Any], seed: int) -> None:
    rng = random.Random(seed)
    zone = ["America/New_York", "UTC", "Asia/Kolkata", "Pacific/Apia"][seed % 4]
    with settings(spark, session__timeZone=zone, adaptive__enabled=str(seed % 2 == 0).lower(), ansi__enabled="true"):
        table = "indexed" if seed % 4 >= 2 else "lance"
        found = differences(spark, tables, [query(rng) for _ in range(5)], without=True, table=table)
    assert not found, "\n".join(found)


QUERIES = [
    "SELECT * FROM t",
    "SELECT id FROM t WHERE id IN (SELECT k FROM dim)",
    "SELECT id FROM t WHERE id NOT IN (SELECT k FROM dim) AND id < 8",
    "SELECT id FROM t WHERE id = (SELECT max(k) FROM dim)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM dim WHERE k = id)",
    "SELECT k, (SELECT max(s) FROM t WHERE id = k) FROM dim",
    "SELECT (SELECT count(*) FROM t WHERE i = 3), (SELECT count(*) FROM t), (SELECT max(id) FROM t WHERE i = 3)",
    "SELECT l.id FROM t l JOIN t r ON l.id = r.id + 1 WHERE r.id < 3",
    "SELECT l.id, r.s FROM t l JOIN t r ON l.id = r.id WHERE l.i = 3 AND r.id < 50",
    "SELECT l.id, r.id FROM t l LEFT JOIN (SELECT * FROM t WHERE i = 4) r USING (id) WHERE l.id < 20",
    "SELECT f, count(*) FROM t JOIN (SELECT DISTINCT f AS g FROM t WHERE id < 40) ON f = g GROUP BY f",
    "WITH c AS (SELECT id, s, i FROM t WHERE id < 20) SELECT l.id, r.s FROM c l JOIN c r ON l.id = r.i",
    "WITH c AS (SELECT id, rand() >= 0 AS r, i FROM t) SELECT a.id FROM c a JOIN c b ON a.id = b.id WHERE a.i = 3 AND b.r",
    "SELECT id, row_number() OVER (ORDER BY id DESC) FROM t WHERE id < 5",
    "SELECT id, sum(i) OVER (PARTITION BY t ORDER BY id) FROM t WHERE i > 3 AND i < 6",
    "SELECT * FROM (SELECT id, rank() OVER (PARTITION BY s ORDER BY id) AS r FROM t) WHERE r <= 2",
    "SELECT DISTINCT i FROM t WHERE id < 100",
    "SELECT id, e FROM t LATERAL VIEW explode(arr) x AS e WHERE id < 30",
    "SELECT id FROM t TABLESAMPLE (100 PERCENT) WHERE id < 3",
    "SELECT s FROM t WHERE id < 10 INTERSECT SELECT s FROM t WHERE id BETWEEN 5 AND 20",
    "SELECT s FROM t EXCEPT SELECT s FROM t WHERE s LIKE 'a%'",
    "SELECT i, max(s) FROM t GROUP BY i HAVING count(*) > 9",
    "SELECT i, t, grouping(t), count(*) FROM t GROUP BY ROLLUP (i, t)",
    "SELECT count(DISTINCT i), count(DISTINCT s) FILTER (WHERE id > 100), count(*) FILTER (WHERE i = 3) FROM t",
    "SELECT sum(i), avg(dec), count(*) FROM t WHERE i BETWEEN -10 AND 10",
    "SELECT sum(l) FROM t",
    "SELECT try_sum(l), try_avg(l), avg(l), avg(i) FROM t",
    "SELECT i, sum(l) FROM t WHERE l < 9 AND l > -9 GROUP BY i",
    "SELECT d, f, count(*), sum(i) FROM t GROUP BY d, f",
    "SELECT s, t, count(*), sum(b), avg(b), sum(dec6 * dec), sum(dec * (1 - dec6)) FROM t GROUP BY s, t",
    "SELECT st.p, st.q.r, sum(st.p), count(st) FROM t GROUP BY st.p, st.q.r",
    "SELECT DISTINCT dt, ts, ntz FROM t",
    "SELECT avg(dec), avg(dec6), avg(dec * dec6), sum(dec * dec6 * (1 + dec)), sum(dec * dec * dec6) FROM t",
    "SELECT bin, max(bin), min(t), max(dt), max(ts), max(dec * dec6), min(dec - dec6) FROM t GROUP BY bin",
    "SELECT `dot-ted`, `tick~ed`, sum(`dot-ted`) FROM t GROUP BY 1, 2",
    "SELECT s COLLATE UTF8_LCASE, count(*) FROM t GROUP BY 1",
    "SELECT max(s) AS a0, i AS s FROM t GROUP BY i ORDER BY a0, s LIMIT 3",
    "SELECT sum(dec), count(*), count(i), max(s) FROM t WHERE id < 0",
    "SELECT i, sum(dec) FROM t WHERE id < 0 GROUP BY i",
    "SELECT sum(dec) FROM (SELECT dec FROM t ORDER BY id LIMIT 9)",
    "SELECT a.i, a.n, b.n FROM (SELECT i, count(*) n FROM t GROUP BY i) a JOIN (SELECT i, sum(dec) n FROM t GROUP BY i) b ON a.i = b.i",
    "SELECT min(f), max(f), min(d), max(d) FROM t",
    "SELECT min(t), max(t), min(bin), max(bin), min(dt), max(ts), min(ntz), max(dec6), min(b) FROM t",
    "SELECT max(id) + 1, count(*) * 2 FROM t WHERE i = 3",
    "SELECT count(*) AS c FROM t ORDER BY c LIMIT 1",
    "SELECT max(id) AS a0 FROM t ORDER BY a0 LIMIT 1",
    "SELECT count(*) FROM t WHERE id < 0",
    "SELECT min(s) FROM t WHERE id < 0",
    "SELECT count(st), count(arr), count(st.q), count(st.q.r), count(`dot-ted`) FROM t",
    "SELECT max(st) FROM t",
    "SELECT 1 FROM t WHERE id < 4",
    "SELECT count(*) FROM (SELECT rand() AS r FROM t) WHERE r < 2",
    "SELECT count(*) FROM t l CROSS JOIN (SELECT id FROM t WHERE id < 3) r",
    "SELECT st.q FROM t WHERE id < 12",
    "SELECT st.q.r, st.p FROM t WHERE st.q.z > 0 OR st.q.z IS NULL",
    "SELECT named_struct('k', st).k.q.r FROM t WHERE id = 5",
    "SELECT struct(id, st.p) FROM t WHERE id = 5",
    "SELECT ID, `MIXED CASE`, `DOT.TED`, ST.P FROM t WHERE `mixed case` = 'x'",
    "SELECT `tick~ed` FROM t WHERE `tick~ed` > 1 ORDER BY `tick~ed`, id LIMIT 5",
    "SELECT l.*, r.id AS id FROM (SELECT id, s FROM t WHERE id < 3) l JOIN (SELECT id, s FROM t) r ON l.id = r.id",
    "SELECT id FROM t ORDER BY id LIMIT 3 OFFSET 2",
    "SELECT id FROM t WHERE id > 5 ORDER BY id OFFSET 230",
    "SELECT id FROM t ORDER BY id + 1 LIMIT 2",
    "SELECT id, i FROM t ORDER BY i DESC NULLS FIRST, s, id LIMIT 30",
    "SELECT sum(id) FROM (SELECT id FROM t ORDER BY id LIMIT 10)",
    "SELECT id FROM t WHERE id IS NULL OR id = 3",
    "SELECT id FROM t WHERE i IN (NULL)",
    "SELECT id FROM t WHERE i NOT IN (3, NULL)",
    "SELECT id FROM t WHERE (i > 3) IS NULL AND id < 50",
    "SELECT id FROM t WHERE (f > 1) IS NULL AND id < 50",
    "SELECT id FROM t WHERE (t AND i = 3) <=> NULL",
    "SELECT id FROM t WHERE t > false",
    "SELECT id FROM t WHERE f = 0 OR d = double('-0.0')",
    "SELECT id FROM t WHERE f = float('NaN') OR d > double('Infinity')",
    "SELECT id FROM t WHERE f = 0.1",
    "SELECT id FROM t WHERE i = 3.0 OR l = 3.5",
    "SELECT id FROM t WHERE b = 200 OR b = 7",
    "SELECT id FROM t WHERE dec = 1.0500 OR dec > 1e9",
    "SELECT id FROM t WHERE dt >= '2024-01-01'",
    "SELECT id FROM t WHERE dt > DATE '-0001-01-01'",
    "SELECT id FROM t WHERE ts = TIMESTAMP '2024-03-10 03:30:00 America/New_York'",
    "SELECT id FROM t WHERE ts < '2024-03-10' OR year(ts) = 1969",
    "SELECT id FROM t WHERE s COLLATE UTF8_LCASE = 'A'",
    "SELECT id FROM t WHERE s COLLATE UNICODE_CI LIKE 'A%'",
    "SELECT id FROM t WHERE s LIKE 'a\\\\%c' OR s LIKE 'a!_c' ESCAPE '!'",
    "SELECT id FROM t WHERE s > 'a' AND s < '\U0001f600'",
    "SELECT id FROM t WHERE bin > X'7f'",
    "SELECT id FROM t WHERE id = 1 OR (id = 2 AND rand() < 2)",
    "SELECT id FROM t WHERE CASE WHEN id < 3 THEN true ELSE i = 3 END",
    "SELECT id FROM t WHERE if(i = 3, s, 'a') = 'a'",
    "SELECT id FROM t WHERE element_at(arr, 1) = 5",
    "SELECT id FROM t WHERE 5 > id AND NOT 3 = id",
    "SELECT id FROM t WHERE st = (SELECT max(st) FROM t)",
    "SELECT id FROM t WHERE (t OR NULL) = (i > 1) AND id < 100",
    "SELECT id FROM t WHERE (b >= -128) = t",
    "SELECT id FROM t WHERE t = (id > 3 AND NULL)",
    "SELECT max((t OR NULL) = (i > 1)), count((b >= -128) = t) FROM t",
    "SELECT id FROM t ORDER BY (t OR NULL) = (i > 1), id LIMIT 5",
    "SELECT t.id FROM t JOIN (SELECT id FROM t WHERE (b < 200) <=> t) u ON t.id = u.id WHERE i = 3",
]


@pytest.mark.parametrize("third", others_slow(range(3), [0]))
def test_known_queries(third: int, spark: SparkSession, tables: dict[str, Any]) -> None:
    found = differences(spark, tables, QUERIES[third::3], without=False)
    assert not found, "\n".join(found)
