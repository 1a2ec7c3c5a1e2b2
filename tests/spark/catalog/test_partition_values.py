"""The tables of a partitioned namespace in the catalog: their properties have the partition values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from tests.spark.catalog.lakes import lake


@pytest.mark.spec("partitioned-namespace.md", "Partition Value Discovery")
def test_the_properties_of_a_table_have_its_partition_values(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    made = lance_spark.create_partitioned_namespace(root, pa.schema([("id", pa.int64()), ("country", pa.string())]), ["country"])
    made.write(pa.table({"id": [1, 2], "country": ["DE", "US"]}))
    with lake(spark, root) as own:
        places = [row[0] for row in own.sql("SHOW NAMESPACES IN lance.v1")]
        shown = {}
        for place in places:
            properties = dict(own.sql(f"SHOW TBLPROPERTIES lance.{place}.dataset"))
            [(rows,)] = own.sql(f"SELECT collect_list(country) FROM lance.{place}.dataset")
            shown[properties["partition.country"]] = rows
        assert shown == {"DE": ["DE"], "US": ["US"]}
