"""A table that gets its write-ahead log by a property, of both catalogs: the log is that of `initialize_mem_wal`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset, LanceTable
from tests.sample import others_slow
from tests.spark.catalog.lakes import Lake
from tests.spark_session import SPARK_ERRORS

COLUMNS = "(id BIGINT NOT NULL, v STRING) USING lance"
KEY = "(id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)) USING lance"
VALUES: dict[str, dict[str, Any]] = {
    "unsharded": {"unsharded": True},
    "bucket(id, 4)": {"bucket_column": "id", "num_buckets": 4},
    "identity(v)": {"identity_column": "v"},
    "true": {},
}
PLACES = ["lance.ns", "default"]


def created(own: Lake, table: str, properties: str) -> None:
    own.sql(f"CREATE TABLE {table} {KEY if table.startswith('lance.') else COLUMNS} TBLPROPERTIES ({properties})")


def of_rows(own: Lake, table: str, properties: str) -> None:
    own.sql(f"CREATE TABLE {table} USING lance TBLPROPERTIES ({properties}) AS SELECT 1L AS id, 'a' AS v")


def altered(own: Lake, table: str, properties: str) -> None:
    own.sql(f"CREATE TABLE {table} {COLUMNS}")
    own.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    own.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({properties})")


DOORS: dict[str, Callable[[Lake, str, str], None]] = {"CREATE": created, "AS SELECT": of_rows, "ALTER": altered}


@pytest.fixture
def catalogs(own: Lake) -> Iterator[Lake]:
    own.sql("CREATE NAMESPACE IF NOT EXISTS lance.ns")
    yield own
    for place in PLACES:
        own.sql(f"DROP TABLE IF EXISTS {place}.logged")


def location(own: Lake, table: str) -> str:
    if table.startswith("lance."):
        return own.location("ns.logged")
    described = {row[0]: row[1] for row in own.sql(f"DESCRIBE EXTENDED {table}")}
    return str(described["Location"]).removeprefix("file:")


CELLS = [(door, place, value) for door in DOORS for place in PLACES for value in VALUES]
SOME = [
    ("CREATE", "lance.ns", "bucket(id, 4)"),
    ("AS SELECT", "lance.ns", "identity(v)"),
    ("ALTER", "default", "unsharded"),
    ("CREATE", "default", "true"),
]


@pytest.mark.parametrize(("door", "place", "value"), others_slow(CELLS, SOME))
def test_a_property_gives_a_table_the_log_that_the_method_gives(door: str, place: str, value: str, catalogs: Lake, tmp_path: Path) -> None:
    table = f"{place}.logged"
    DOORS[door](catalogs, table, f"'lance_spark.mem_wal' = '{value}'")
    if door == "CREATE":
        catalogs.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    uri = location(catalogs, table)
    other = str(tmp_path / "other.lance")
    lance.write_dataset(pa.table({"id": [1], "v": ["a"]}), other).initialize_mem_wal(**VALUES[value])
    details, expected = (lance.dataset(each).mem_wal_index_details() for each in (uri, other))
    assert details == expected
    rows = catalogs.spark.createDataFrame([(2, "b")], "id LONG, v STRING")
    shard = "00000000-0000-0000-0000-000000000007" if value == "true" else None
    LanceTable.forPath(catalogs.spark, uri).putRows(rows, shard=shard)
    assert sorted(catalogs.sql(f"SELECT * FROM {table}")) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("value", ["bucket(id)", "bucket(none, 4)", "identity(id, 3)", "false", "", "bucket(id, 0)"])
def test_another_value_is_refused_and_makes_no_table(value: str, catalogs: Lake) -> None:
    with pytest.raises(SPARK_ERRORS, match=r"mem_wal|none|num_buckets"):
        created(catalogs, "lance.ns.logged", f"'lance_spark.mem_wal' = '{value}'")
    assert catalogs.sql("SHOW TABLES IN lance.ns") == []


def test_the_declaration_of_a_log_cannot_be_changed(catalogs: Lake) -> None:
    created(catalogs, "lance.ns.logged", "'lance_spark.mem_wal' = 'unsharded'")
    catalogs.sql("ALTER TABLE lance.ns.logged SET TBLPROPERTIES ('lance_spark.mem_wal' = 'unsharded')")
    for change in ("SET TBLPROPERTIES ('lance_spark.mem_wal' = 'true')", "UNSET TBLPROPERTIES ('lance_spark.mem_wal')"):
        with pytest.raises(SPARK_ERRORS, match="has a write-ahead log"):
            catalogs.sql(f"ALTER TABLE lance.ns.logged {change}")
    uri = catalogs.location("ns.logged")
    assert Dataset.open(uri).snapshot.manifest.config["lance_spark.mem_wal"] == "unsharded"
    plain = Dataset.write(f"{uri}.plain", pa.table({"id": [1]}))
    logged = plain.update_config({"lance_spark.mem_wal": "unsharded"})
    with logged.mem_wal_writer("00000000-0000-0000-0000-000000000007") as writer:
        writer.put(pa.table({"id": [2]}))
    assert sorted(Dataset.open(logged.uri).to_table()["id"].to_pylist()) == [1, 2]
