"""From nothing to a Lance table: handwritten digits as 64-dimensional vectors, written, appended to, queried and read back in time.

Run it with `make demo`.
"""

import shutil
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType, IntegerType, LongType, StructField, StructType
from sklearn.datasets import load_digits

import lance_spark
from lance_spark import Dataset


def main() -> None:
    spark = SparkSession.builder.appName("lance quickstart").master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lance_spark.enable(spark)

    folder = tempfile.mkdtemp()
    uri = f"{folder}/digits.lance"
    digits = load_digits()
    # 64 grey values a picture. The field's metadata says that all vectors are of one size, so Lance stores them as such.
    schema = StructType(
        [
            StructField("id", LongType(), False),
            StructField("label", IntegerType()),
            StructField("pixels", ArrayType(FloatType()), metadata={"arrow.fixed-size-list.size": 64}),
        ]
    )
    rows = [(i, int(label), [float(v) for v in pixels]) for i, (label, pixels) in enumerate(zip(digits.target, digits.data, strict=True))]

    print(f"\n1. Write the first 1,500 of {len(rows)} digits to {uri}")
    spark.createDataFrame(rows[:1500], schema).write.format("lance").mode("append").save(uri)

    print("2. Append the rest")
    spark.createDataFrame(rows[1500:], schema).write.format("lance").mode("append").save(uri)

    print("3. Read a few columns of some rows")
    frame = spark.read.format("lance").load(uri)
    frame.printSchema()
    frame.where("label = 7 AND id > 1700").select("id", "label").show(5)

    print("4. Count by label")
    frame.groupBy("label").count().orderBy("label").show()

    print("5. Travel back: the table as it was before the append")
    before = spark.read.format("lance").option("version", 1).load(uri)
    print(f"   version 1 has {before.count()} rows, the latest {frame.count()}")

    print("\n6. The same table without Spark: the picture that is most like the first one")
    table = Dataset.open(uri)
    vectors = table.scan(columns=["id", "label", "pixels"]).to_table()
    pixels = vectors["pixels"].combine_chunks().flatten().to_numpy().reshape(-1, 64)
    distance = ((pixels - pixels[0]) ** 2).sum(axis=1)
    nearest = int(distance[1:].argmin()) + 1
    found = table.take([0, nearest], columns=["id", "label"]).to_pylist()
    print(f"   {found[0]} is nearest to {found[1]}\n")

    spark.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
