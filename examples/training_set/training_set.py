"""A training set of 200 columns: written by Spark, named by a tag, and read by Arrow in batches that are the same every time.

python training_set.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark import Dataset

FEATURES, ROWS, CHOSEN = 200, 2_000, ["feature_3", "feature_7", "feature_150"]


def write(spark: SparkSession, uri: str) -> None:
    """Two appends of rows; the first is the training set."""
    features = [F.sin(F.col("id") * (i + 1)).cast("float").alias(f"feature_{i}") for i in range(FEATURES)]
    label = (F.sin(F.col("id") * 4) > 0).cast("int").alias("label")
    for first in (0, ROWS):
        rows = spark.range(first, first + ROWS, numPartitions=1).select("id", label, *features)
        rows.write.format("lance").mode("append").save(uri)
        if first == 0:
            Dataset.open(uri).tags.create("train-v1")


def batches(uri: str, tag: str, size: int, epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of features and labels of a tagged version, in an order that depends only on the epoch.

    This is all that a loader of PyTorch, JAX or scikit-learn needs: `torch.from_numpy` takes the arrays as they are.
    """
    dataset = Dataset.open(uri, tag=tag)
    order = np.random.default_rng(epoch).permutation(dataset.count_rows())
    for start in range(0, len(order), size):
        rows = dataset.take(order[start : start + size].tolist(), columns=[*CHOSEN, "label"])
        yield np.stack([rows[name].to_numpy() for name in CHOSEN], axis=1), rows["label"].to_numpy()


def train(uri: str, tag: str) -> np.ndarray:
    """A logistic regression by gradient descent over the batches."""
    weights = np.zeros(len(CHOSEN))
    for epoch in range(3):
        for features, labels in batches(uri, tag, 500, epoch):
            predicted = 1 / (1 + np.exp(-features @ weights))
            weights += 0.5 * features.T @ (labels - predicted) / len(labels)
    return weights


def main(spark: SparkSession, folder: str) -> np.ndarray:
    """Write, train twice with another append in between, and get the same weights."""
    uri = f"{folder}/features.lance"
    write(spark, uri)
    first = train(uri, "train-v1")
    spark.read.format("lance").load(uri).limit(10).coalesce(1).write.format("lance").mode("append").save(uri)
    again = train(uri, "train-v1")
    assert (first == again).all()
    latest, tagged = Dataset.open(uri), Dataset.open(uri, tag="train-v1")
    print(f"train-v1 has {tagged.count_rows()} rows of {len(tagged.schema.names)} columns, the latest version {latest.count_rows()}")
    print("weights:", *(f"{name} {weight:.2f}" for name, weight in zip(CHOSEN, first, strict=True)))
    return first


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    lance_spark.enable(session)
    main(session, sys.argv[1])
    session.stop()
