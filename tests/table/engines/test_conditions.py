"""Conditions of DuckDB and polars on every type find the rows that they find in an Arrow table in memory."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

from lance_spark import Dataset
from lance_spark.polars import scan_lance

duckdb = pytest.importorskip("duckdb", reason="one of the engines that are tested")
polars = pytest.importorskip("polars", reason="one of the engines that are tested")

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, -1, 0, 5, 127]),
    "int16": (pa.int16(), [-(2**15), -1, 0, 5, 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), -1, 0, 5, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 5, 2**63 - 1]),
    "uint8": (pa.uint8(), [0, 1, 5, 200, 255]),
    "uint16": (pa.uint16(), [0, 1, 5, 200, 2**16 - 1]),
    "uint32": (pa.uint32(), [0, 1, 5, 200, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, 1, 5, 2**63, 2**64 - 1]),
    "float32": (pa.float32(), [-1.5, -0.0, 0.0, 0.1, float("nan")]),
    "float64": (pa.float64(), [-1.5, -0.0, 0.0, 0.1, float("inf"), float("nan")]),
    "bool": (pa.bool_(), [False, True]),
    "string": (pa.string(), ["", "a", "A", "a'b", "ß€", "a%"]),
    "large_string": (pa.large_string(), ["", "a", "A", "a'b"]),
    "binary": (pa.binary(), [b"", b"a", b"\x00\xff", b"b"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "timestamp_s": (pa.timestamp("s"), [dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 2, 29, 12)]),
    "timestamp_ms": (pa.timestamp("ms"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 2, 29)]),
    "timestamp_us": (pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29)]),
    "timestamp_tz": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC), dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC)],
    ),
    "time": (pa.time64("us"), [dt.time(0), dt.time(12, 30, 0, 1), dt.time(23, 59, 59, 999999)]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99")]),
}
"""A type, and its values in ascending order."""

COMPARISONS = {
    "= least": lambda column, values: column == values[0],
    "<> least": lambda column, values: column != values[0],
    "< middle": lambda column, values: column < values[len(values) // 2],
    "<= middle": lambda column, values: column <= values[len(values) // 2],
    "> middle": lambda column, values: column > values[len(values) // 2],
    ">= greatest": lambda column, values: column >= values[-1],
    "in": lambda column, values: column.is_in([values[0], values[-1]]),
    "not in": lambda column, values: ~column.is_in([values[0], values[-1]]),
    "in with null": lambda column, values: column.is_in([values[0], None]),
    "between": lambda column, values: column.is_between(values[0], values[len(values) // 2]),
    "is null": lambda column, values: column.is_null(),
    "is not null": lambda column, values: column.is_not_null(),
    "equal or both null": lambda column, values: column.eq_missing(values[0]),
    "not": lambda column, values: ~(column < values[len(values) // 2]),
    "or null": lambda column, values: (column == values[0]) | column.is_null(),
    "and id": lambda column, values: (column >= values[0]) & (polars.col("id") > 2),
}
"""A condition of polars."""

SQL = {
    "= least": "{c} = {least}",
    "<> least": "{c} <> {least}",
    "< middle": "{c} < {middle}",
    "<= middle": "{c} <= {middle}",
    "> middle": "{c} > {middle}",
    ">= greatest": "{c} >= {greatest}",
    "in": "{c} IN ({least}, {greatest})",
    "not in": "{c} NOT IN ({least}, {greatest})",
    "in with null": "{c} IN ({least}, NULL)",
    "between": "{c} BETWEEN {least} AND {middle}",
    "is null": "{c} IS NULL",
    "is not null": "{c} IS NOT NULL",
    "equal or both null": "{c} IS NOT DISTINCT FROM {least}",
    "not": "NOT ({c} < {middle})",
    "or null": "{c} = {least} OR {c} IS NULL",
    "and id": "{c} >= {least} AND id > 2",
}
"""The same conditions of DuckDB."""


def _rows() -> pa.Table:
    columns: dict[str, pa.Array] = {"id": pa.array(range(24), pa.int64())}
    for name, (t, values) in TYPES.items():
        columns[name] = pa.array([[*values, None][i % (len(values) + 1)] for i in range(24)], t)
    return pa.table(columns)


ROWS = _rows()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset.write(tmp_path_factory.mktemp("conditions") / "t", ROWS, max_rows_per_file=10)


def _literal(name: str, value: Any) -> str:
    """A value of a type in SQL of DuckDB."""
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
    text = str(value).replace("'", "''")
    if isinstance(value, dt.datetime):
        return f"'{text}'::{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'}"
    types = {dt.date: "DATE", dt.time: "TIME", float: "FLOAT" if name == "float32" else "DOUBLE", str: "VARCHAR"}
    return f"'{text}'::{types[type(value)]}" if type(value) in types else text


@pytest.mark.parametrize("comparison", SQL)
def test_duckdb_finds_the_same_rows_as_in_memory(table: Dataset, comparison: str) -> None:
    rows, memory = table.to_arrow_dataset(), ROWS
    session = duckdb.connect()
    session.execute("SET TimeZone = 'UTC'")
    session.register("rows", rows)
    session.register("memory", memory)
    differing = []
    for name, (_, values) in TYPES.items():
        texts = [_literal(name, value) for value in values]
        condition = SQL[comparison].format(c=f'"{name}"', least=texts[0], middle=texts[len(texts) // 2], greatest=texts[-1])
        query = f"SELECT id FROM {{}} WHERE {condition} ORDER BY id"
        found, expected = (session.execute(query.format(source)).fetchall() for source in ("rows", "memory"))
        if found != expected:
            differing.append((condition, found, expected))
    assert not differing


@pytest.mark.matrix
@pytest.mark.parametrize("door", ["scan_lance", "scan_pyarrow_dataset"])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_polars_finds_the_same_rows_as_in_memory(table: Dataset, comparison: str, door: str) -> None:
    rows = scan_lance(table) if door == "scan_lance" else polars.scan_pyarrow_dataset(table.to_arrow_dataset())
    memory = polars.from_arrow(ROWS).lazy()
    # polars hands conditions to a dataset of pyarrow, where NaN is not greater than all numbers.
    own = memory if door == "scan_lance" else polars.scan_pyarrow_dataset(pyarrow.dataset.dataset(ROWS))
    differing = []
    for name, (t, values) in TYPES.items():
        typed = [polars.lit(value, polars.from_arrow(pa.array([value], t)).dtype) for value in values]
        condition = COMPARISONS[comparison](polars.col(name), values if "in" in comparison.split() else typed)
        found = rows.filter(condition).select("id").collect()["id"].to_list()
        try:
            expected = own.filter(condition).select("id").collect()["id"].to_list()
        except pa.ArrowInvalid:  # pyarrow reads literals above those of int64 as int64
            expected = memory.filter(condition).select("id").collect()["id"].to_list()
        if found != expected:
            differing.append((name, found, expected))
    assert not differing
