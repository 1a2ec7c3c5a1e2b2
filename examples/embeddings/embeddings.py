"""Pictures and texts become searchable: blobs, vectors from a function, an index of each, and a search of both.

    python embeddings.py FOLDER

The pictures are the handwritten digits of scikit-learn, which come with it. The "model" is a projection that is computed from the pictures
themselves; a real one takes its place in the function `embed`.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits

import lance_spark
from lance_spark import LanceTable

DIMENSIONS = 16
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def write(spark: SparkSession, uri: str) -> None:
    """The raw data: bytes of pictures, as blobs, and a text for each."""
    digits = load_digits()
    rows = pa.table(
        {
            "id": range(len(digits.target)),
            "picture": [image.astype("uint8").tobytes() for image in digits.images],
            "caption": [f"a handwritten {WORDS[label]}, number {i}" for i, label in enumerate(digits.target)],
        }
    )
    lance_spark.Dataset.write(uri, rows, column_options={"picture.lance.encoding": "blob"})


def projection() -> np.ndarray:
    """The directions in which the pictures differ most."""
    pixels = load_digits().data
    return np.linalg.svd(pixels - pixels.mean(axis=0), full_matrices=False)[2][:DIMENSIONS].astype("float32")


def embed(batch: pa.RecordBatch, directions: np.ndarray) -> pa.RecordBatch:
    """A batch of pictures to a batch of vectors. Here a model runs, on the executors."""
    pixels = np.stack([np.frombuffer(picture, np.uint8) for picture in batch["picture"].to_pylist()]).astype("float32")
    vectors = pixels @ directions.T
    return pa.RecordBatch.from_pydict({"embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSIONS)})


def main(spark: SparkSession, folder: str) -> list[str]:
    """Load, embed, index, search."""
    uri, directions = f"{folder}/digits.lance", projection()
    write(spark, uri)
    table = LanceTable.forPath(spark, uri)
    schema = pa.schema([("embedding", pa.list_(pa.float32(), DIMENSIONS))])
    # The checkpoint keeps what is finished if the job of a slow model is interrupted.
    table.addColumns(lambda batch: embed(batch, directions), schema=schema, columns=["picture"], checkpoint=f"{folder}/embedding")
    table.createIndex("embedding", "IVF_FLAT", num_partitions=8)
    table.createIndex("caption", "INVERTED")

    dataset = lance_spark.Dataset.open(uri)
    query = (load_digits().images[42].ravel().astype("float32") @ directions.T).tolist()
    near = dataset.scan(columns=["id", "caption"], nearest={"column": "embedding", "q": query, "k": 5, "nprobes": 4}).to_table()
    seven = table.search().fullText("seven", columns=["caption"]).select("caption").limit(3)
    labels = [caption.split()[2].strip(",") for caption in near["caption"].to_pylist()]
    return [
        f"nearest to picture 42: {near['id'].to_pylist()[0]}, all of {sorted(set(labels))}",
        f"texts about seven: {[row.caption.split()[2] for row in seven.collect()]}",
    ]


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    lance_spark.enable(session)
    print(*main(session, sys.argv[1]), sep="\n")
    session.stop()
