"""Reading and writing on an S3 server through Spark: storage options are used and not shown."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lance_spark

SECRET = "wJalrXUtnFEMI"


@pytest.fixture
def storage(s3_server: str) -> dict[str, str]:
    """The storage options for the server, as Spark options."""
    options = {"endpoint": s3_server, "access_key_id": "AKIA", "secret_access_key": SECRET, "region": "us-east-1", "allow_http": "true"}
    return {f"storage.{key}": value for key, value in options.items()}


def test_a_table_in_s3(spark: SparkSession, storage: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    uri = "s3a://tables/through/spark.lance"
    lance_spark.write(spark.range(10), uri, "error", **storage)
    lance_spark.write(spark.range(10), uri, mode="ignore", **storage)
    with pytest.raises(lance_spark.errors.TableAlreadyExistsError):
        lance_spark.write(spark.range(10), uri, "error", **storage)
    spark.range(10, 20).write.format("lance").mode("append").options(**storage).save(uri)
    df = spark.read.format("lance").options(**storage).load(uri)
    assert sorted(row.id for row in df.where("id > 7").collect()) == list(range(8, 20))
    df.explain("extended")
    assert spark.read.format("lance").options(**storage).option("version", 1).load("s3://tables/through/spark.lance").count() == 10
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err


@pytest.mark.parametrize("wrong", [{"storage.endpoint": "http://127.0.0.1:1"}, {"storage.secret_acess_key": SECRET}])
def test_errors_do_not_show_secrets(spark: SparkSession, storage: dict[str, str], wrong: dict[str, Any]) -> None:
    quick = {"storage.client_max_retries": "0", "storage.connect_timeout": "1s"}
    with pytest.raises(AnalysisException) as e:
        spark.read.format("lance").options(**{**storage, **quick, **wrong}).load("s3://tables/nothing.lance")
    assert "StorageError" in str(e.value) or "did you mean 'secret_access_key'" in str(e.value)
    assert SECRET not in str(e.value)
