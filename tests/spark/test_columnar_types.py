"""Scans that hand over columns give the same values as scans that hand over rows: every type, nulls, slices, and batches of all sizes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset
from lance_spark.spark.workers.version import SPARK_VERSION
from tests.arrays import ArrayMaker
from tests.spark.columns import differences, hands_over_columns
from tests.spark.plans import settings

ROWS = 90
STRUCT = pa.struct([("b", pa.bool_()), ("s", pa.string()), ("l", pa.list_(pa.int16())), ("n", pa.null())])
TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "half": pa.float16(),
    "unsigned": pa.uint64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval": pa.duration("us"),
    **({"time": pa.time64("us")} if SPARK_VERSION >= (4, 1) else {}),
    "decimal5": pa.decimal128(5, 2),
    "decimal18": pa.decimal128(18, 0),
    "decimal19": pa.decimal128(19, 4),
    "decimal38": pa.decimal128(38, 10),
    "string": pa.string(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
    "void": pa.null(),
    "vector": pa.list_(pa.float32(), 4),
    "bools": pa.list_(pa.bool_()),
    "bytes": pa.list_(pa.int8()),
    "shorts": pa.list_(pa.int16()),
    "longs": pa.list_(pa.int64()),
    "doubles": pa.list_(pa.float64()),
    "dates": pa.list_(pa.date32()),
    "decimals": pa.list_(pa.decimal128(30, 3)),
    "strings": pa.list_(pa.string()),
    "binaries": pa.list_(pa.binary()),
    "voids": pa.list_(pa.null()),
    "lists": pa.list_(pa.list_(pa.string())),
    "structs": pa.list_(STRUCT),
    "maps": pa.list_(pa.map_(pa.int32(), pa.string())),
    "struct": STRUCT,
    "nested": pa.struct([("a", pa.struct([("x", pa.int32()), ("y", pa.decimal128(20, 2))])), ("m", pa.map_(pa.int32(), pa.float64()))]),
    "map": pa.map_(pa.int32(), pa.string()),
    "map_of_structs": pa.map_(pa.int32(), STRUCT),
    "map_of_maps": pa.map_(pa.int32(), pa.map_(pa.int64(), pa.list_(pa.int32()))),
}
EXTREMES: dict[str, list[Any]] = {
    "long": [-(2**63), 2**63 - 1],
    "float": [float("nan"), -0.0],
    "double": [float("inf"), -0.0],
    "unsigned": [2**64 - 1, 2**63],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "decimal5": [Decimal("-999.99"), Decimal("999.99")],
    "decimal18": [Decimal(10**18 - 1), Decimal(1 - 10**18)],
    "decimal19": [Decimal("999999999999999.9999"), Decimal("-922337203685477.5808")],
    "decimal38": [Decimal("9" * 28 + ".9999999999"), Decimal("-" + "9" * 28 + ".9999999999")],
    "string": ["", "\U0001f600" * 50],
}


def data(null_share: float) -> pa.Table:
    """Every type with random values, some of them extreme, and an `id` of each row."""
    make = ArrayMaker(5, null_share, 2)
    columns = {"id": pa.array(range(ROWS), pa.int64())}
    for name, kind in TYPES.items():
        array = make.sliced(kind, ROWS)
        if name in EXTREMES:
            array = pa.concat_arrays([array.slice(0, ROWS - 2), pa.array(EXTREMES[name], kind)])
        columns[name] = array
    return pa.table(columns)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """Tables with few, no and only nulls, in one file, and in several files with deleted rows, read in small batches."""
    folder = tmp_path_factory.mktemp("columnar")
    read = spark.read.format("lance")
    found = {}
    for name, null_share in (("some nulls", 0.25), ("no nulls", 0.0), ("only nulls", 1.0)):
        Dataset.write(f"{folder}/{name}", data(null_share))
        found[name] = read.load(f"{folder}/{name}")
    deleted = f"{folder}/deleted"
    Dataset.write(deleted, data(0.25), max_rows_per_file=40).delete("id % 7 = 3 OR id BETWEEN 40 AND 49")
    found["deleted rows"] = read.load(deleted)
    found["batches of 7"] = read.option("batch_size", 7).load(deleted)
    found["no rows"] = read.load(deleted).where("id < 0")
    found["filtered"] = read.load(deleted).where("id > 30 AND id % 3 = 0")
    return found


def text(df: DataFrame) -> list[str]:
    """The sorted rows as text, in which NaN equals NaN."""
    return sorted(map(repr, df.collect()))


def test_every_type_is_handed_over(tables: dict[str, DataFrame]) -> None:
    assert all(hands_over_columns(df) for df in tables.values())


@pytest.mark.parametrize("codegen", ["true", "false"], ids=["compiled", "interpreted"])
def test_all_columns(spark: SparkSession, tables: dict[str, DataFrame], codegen: str) -> None:
    with settings(spark, codegen__wholeStage=codegen):
        works: dict[str, Callable[[], Any]] = {name: lambda df=df: text(df.select("*")) for name, df in tables.items()}  # type: ignore[misc]
        assert differences(spark, works) == {}


EXPRESSIONS = [
    "vector[1], vector[id % 4], size(strings), strings[0], element_at(lists, 1)[0], bools[0], longs[1], decimals[0]",
    "struct.s, struct.l, struct.l[0], structs.s, structs[0].l[0], nested.a.y, nested.m, struct.n",
    "map[0], map[1], map_keys(map), map_values(map_of_structs), map_entries(map), map_of_maps[0][1L][0], maps[0][0]",
    "transform(vector, x -> x + 1), filter(strings, x -> x > 'c'), exists(bools, x -> x), aggregate(longs, 0L, (a, x) -> a + x)",
    "sort_array(strings), array_distinct(lists), flatten(lists), reverse(binaries), concat(shorts, shorts), slice(doubles, 1, 2)",
    "xxhash64(id, struct, decimals, decimal38, string, lists, bools, interval), hash(struct, vector, string)",
    "CAST(struct AS string), to_json(nested), CAST(lists AS string), CAST(map AS string), CAST(interval AS string)",
    "decimal5 + 1, decimal18 * 2, decimal19 / 3, decimal38, -decimal5, round(decimal19, 1)",
    "upper(string), length(binary), concat(string, dictionary), substring(string, 2), hex(uuid), string < dictionary",
]


@pytest.mark.parametrize("expressions", EXPRESSIONS)
def test_expressions(spark: SparkSession, tables: dict[str, DataFrame], expressions: str) -> None:
    tables["batches of 7"].createOrReplaceTempView("t")
    with settings(spark, ansi__enabled="false"):
        assert differences(spark, {expressions: lambda: text(spark.sql(f"SELECT id, {expressions} FROM t"))}) == {}


AGGREGATES = [
    "SELECT max_by(struct, id), min_by(nested, id), max_by(map, id), max_by(lists, id), max_by(string, id) FROM t",
    "SELECT id % 3, max_by(struct, id), max_by(lists, id), max_by(decimal38, id), max(string), min(binary) FROM t GROUP BY 1",
    "SELECT id % 3, sort_array(collect_list(struct(id, strings))), count(DISTINCT string) FROM t GROUP BY 1",
    "SELECT string, count(*), sum(decimal5), sum(decimal38), avg(double), max(bool) FROM t GROUP BY string",
    "SELECT struct.b, dictionary, count(*), first(id) IS NULL FROM t GROUP BY 1, 2",
    "SELECT id, s FROM t LATERAL VIEW explode(strings) x AS s",
    "SELECT id, k, v FROM t LATERAL VIEW explode(map_of_structs) x AS k, v",
    "SELECT id, inline(structs) FROM t",
    "SELECT l.id, r.string FROM t l JOIN t r ON l.string = r.dictionary",
    "SELECT id, row_number() OVER (PARTITION BY bool ORDER BY string, id), lag(struct) OVER (ORDER BY id) FROM t",
    "SELECT id, string, lists, struct FROM t ORDER BY string DESC, id LIMIT 20",
    "SELECT DISTINCT strings, decimal38, struct.s FROM t",
    "SELECT id, vector FROM t WHERE strings[0] > 'a' OR bool UNION ALL SELECT id, vector FROM t WHERE int > 3",
]


@pytest.mark.matrix
@pytest.mark.parametrize("query", AGGREGATES)
@pytest.mark.parametrize("name", ["batches of 7", "some nulls"])
def test_queries(spark: SparkSession, tables: dict[str, DataFrame], query: str, name: str) -> None:
    tables[name].createOrReplaceTempView("t")
    with settings(spark, ansi__enabled="false"):
        assert differences(spark, {query: lambda: text(spark.sql(query))}) == {}


def test_batches_of_all_sizes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("sizes") / "t.lance")
    n = 70_000
    numbers = np.arange(n)
    texts = pa.array(numbers.astype(str)).cast(pa.string())
    Dataset.write(folder, pa.table({"id": numbers, "s": texts, "v": pa.FixedSizeListArray.from_arrays(numbers.astype("f4").repeat(3), 3)}))
    for size in (1000, 32_768, n):
        df = spark.read.format("lance").option("batch_size", size).load(folder)
        expected = [n, n * (n - 1) // 2, n * (n - 1) // 2, 3.0 * n * (n - 1) / 2]
        found = df.selectExpr("count(*)", "sum(id)", "sum(CAST(s AS long))", "sum(aggregate(v, 0D, (a, x) -> a + x))")
        assert hands_over_columns(found)
        assert list(found.collect()[0]) == expected


def test_repeated_values(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Those of columns with dictionaries, in fragments with few and many distinct values and with nulls."""
    folder, rows = str(tmp_path_factory.mktemp("repeated") / "t.lance"), 10_000
    numbers = np.arange(5 * rows)
    # Items: 4, then 300, which codes of one byte cannot tell, then as many as rows, then 5 with nulls, then one.
    values = np.concatenate([numbers[:rows] % 4, numbers[:rows] % 300, numbers[:rows], numbers[:rows] % 5, np.zeros(rows, np.int64)])
    nulls = (numbers >= 3 * rows) & (values == 4)
    repeated = pa.array(values, mask=nulls)
    texts = repeated.cast(pa.string())
    data = {
        "id": numbers,
        "string": texts,
        "binary": texts.cast(pa.binary()),
        "decimal5": repeated.cast(pa.decimal128(19, 0)).cast(pa.decimal128(10, 2)),
        "decimal38": repeated.cast(pa.decimal128(38, 0)),
        "dictionary": pa.array(values % 100, mask=nulls).cast(pa.string()).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        "list": pa.ListArray.from_arrays(np.arange(len(numbers) + 1), texts),
    }
    Dataset.write(folder, pa.table(data), max_rows_per_file=rows).delete("id % 11 = 3")
    df = spark.read.format("lance").load(folder)
    df.createOrReplaceTempView("t")
    names = ("string", "binary", "decimal5", "decimal38", "dictionary")
    works: dict[str, Callable[[], Any]] = {
        name: lambda name=name: text(spark.sql(f"SELECT {name}, count(*), sum(id), max(list) FROM t GROUP BY 1"))  # type: ignore[misc]
        for name in names
    }
    works["all"] = lambda: text(spark.sql(f"SELECT sum(hash({', '.join(names)}, list)), count(string), count(decimal5) FROM t"))
    works["some"] = lambda: text(df.where("id % 97 = 5"))
    assert hands_over_columns(df)
    assert differences(spark, works) == {}
    with settings(spark, codegen__wholeStage="false"):
        assert differences(spark, {"interpreted": lambda: text(df.where("id % 97 = 5"))}) == {}
