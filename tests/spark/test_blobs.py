"""Blob columns and options of single columns through Spark."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from lance_spark import Dataset

VALUES = [b"small", None, b"", b"y" * 100_000, b"w" * (5 << 20)]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_binary_columns_are_written_as_blobs_and_read_as_bytes_descriptors_or_not_at_all(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    uri = str(tmp_path / "t")
    rows = spark.createDataFrame(list(enumerate(VALUES)), "id long, b binary").coalesce(1)
    options = {"b.lance.encoding": "blob", "data_storage_version": version}
    rows.write.format("lance").options(**options).mode("append").save(uri)
    rows.write.format("lance").mode("append").save(uri)
    blobs = lance.dataset(uri).take_blobs("b", indices=list(range(len(VALUES))))
    assert [None if blob is None else blob.readall() for blob in blobs] == VALUES

    reader = spark.read.format("lance").option("blob_handling", "bytes")
    assert sorted((r.id, r.b) for r in reader.load(uri).where("id <> 4").collect()) == sorted(list(enumerate(VALUES[:4])) * 2)

    descriptors = spark.read.format("lance").option("blob_handling", "descriptor").load(uri)
    parts: list[tuple[str, st.DataType]] = [("position", st.LongType()), ("size", st.LongType())]
    if version == "2.2":
        parts = [("kind", st.ShortType()), *parts, ("blob_id", st.LongType()), ("blob_uri", st.StringType())]
    struct = descriptors.schema["b"].dataType
    assert isinstance(struct, st.StructType)
    assert [(f.name, f.dataType) for f in struct.fields] == parts
    sizes = [None if v is None else len(v) for v in VALUES]
    assert sorted((r.id, r.size) for r in descriptors.select("id", "b.size").collect()) == sorted(list(enumerate(sizes)) * 2)

    assert spark.read.format("lance").option("blob_handling", "none").load(uri).columns == ["id"]


def test_copies_of_blob_columns_are_blob_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame(list(enumerate(VALUES)), "id long, b binary").coalesce(1)
    rows.write.format("lance").option("b.lance.encoding", "blob").mode("append").save(str(tmp_path / "t"))
    spark.read.format("lance").load(str(tmp_path / "t")).write.format("lance").mode("append").save(str(tmp_path / "copy"))
    assert [f.is_blob for f in Dataset.open(tmp_path / "copy").snapshot.manifest.schema.fields] == [False, True]


def test_column_options_set_types_and_metadata_of_a_new_table(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rows = spark.createDataFrame([([1.5, 2.5], ("text",))], "Vec array<float>, s struct<t: string>")
    options = {
        "vec.arrow.fixed-size-list.size": "2",
        "vec.arrow.float16": "true",
        "s.t.lance.compression": "zstd",
        "s.t.arrow.large_var_char": "true",
    }
    rows.write.format("lance").options(**options).mode("append").save(uri)
    schema = Dataset.open(uri).snapshot.manifest.schema
    text = schema.resolve("s.t")[-1]
    assert [schema.resolve("Vec")[-1].logical_type, text.logical_type] == ["fixed_size_list:halffloat:2", "large_string"]
    assert text.metadata == {b"lance-encoding:compression": b"zstd"}
    assert spark.read.format("lance").load(uri).collect() == rows.collect()
    with pytest.raises(AnalysisException, match=r"InvalidOptionError: column 'Vec\.item'.*gzip"):
        rows.write.format("lance").option("vec.lance.compression", "gzip").mode("overwrite").save(uri)
