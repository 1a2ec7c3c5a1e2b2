"""Search for pictures: handwritten digits, embedded by a small network that is trained here, in a Lance table with a vector index.

Needs scikit-learn; run it with `python examples/vector_search/vector_search.py`. Only the last step needs Spark, where `LanceTable.search`
finds the same rows as the other steps.
"""

import shutil
import tempfile
import time
import warnings

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from lance_spark import Dataset, LanceTable, enable

SIZE = 8  # pixels of a side
DIMENSIONS = 32


def pictures() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The 1,797 digits of scikit-learn, each also moved by one pixel in 8 directions: pixels, labels, and how they were moved."""
    digits = load_digits()
    images, moved = digits.images / 16, []
    for down in (0, -1, 1):
        for right in (0, -1, 1):
            moved.append(np.roll(images, (down, right), axis=(1, 2)))
    names = [f"{down} {right}" for down in (0, -1, 1) for right in (0, -1, 1)]
    pixels = np.concatenate(moved).reshape(-1, SIZE * SIZE).astype(np.float32)
    return pixels, np.tile(digits.target, len(moved)), [name for name in names for _ in digits.target]


def embedded(model: MLPClassifier, pixels: np.ndarray) -> np.ndarray:
    """What the hidden layers of the network make of the pixels."""
    values = pixels
    for weights, bias in list(zip(model.coefs_, model.intercepts_))[:-1]:
        values = np.maximum(values @ weights + bias, 0)
    return values.astype(np.float32)


def main() -> None:
    folder = tempfile.mkdtemp()
    pixels, labels, moves = pictures()

    print(f"1. Train a network on every second of {len(pixels)} pictures, and embed all of them")
    warnings.simplefilter("ignore", ConvergenceWarning)  # 15 rounds are enough to search by
    model = MLPClassifier((64, DIMENSIONS), max_iter=15, random_state=0).fit(pixels[::2], labels[::2])
    vectors = embedded(model, pixels)

    print("2. Write a table, and make a vector index and one of the labels")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSIONS)
    rows = pa.table({"id": np.arange(len(labels)), "label": labels, "moved": moves, "embedding": column})
    table = Dataset.write(f"{folder}/digits.lance", rows)
    table = table.create_index("embedding", "IVF_PQ", metric="l2", num_partitions=32, num_sub_vectors=8)
    table = table.create_scalar_index("label", "BITMAP")

    # Pictures that the network has not seen
    queries = vectors[1::2][:: len(vectors) // 400]
    print("3. The pictures that are most like one of a", labels[1])
    nearest = {"column": "embedding", "q": vectors[1], "k": 5, "nprobes": 8, "refine_factor": 4}
    print(table.scan(columns=["id", "label", "moved"], nearest=nearest).to_table().to_pylist())

    other = f"label <> {labels[1]} AND moved = '0 0'"
    print(f"4. Those with the filter {other}, searched for before and after it")
    for prefilter in (True, False):
        found = table.scan(columns=["id", "label"], nearest=nearest, filter=other, prefilter=prefilter).to_table()
        print(f"   {'before' if prefilter else 'after'}: {found.to_pylist()}")

    print(f"\n5. Recall of the 10 nearest against time, of {len(queries)} queries one after another")
    print("   nprobes  refine_factor  recall  ms a query")
    for refine in (None, 5):
        for probes in (1, 2, 4, 8, 16):
            print(f"   {probes:7}  {refine or '-':>13}  {measured(table, queries, nprobes=probes, refine_factor=refine)}")
    print(f"   without the index     {measured(table, queries, use_index=False)}")

    start = time.perf_counter()
    found = table.scan(columns=["label"], nearest={"column": "embedding", "q": queries, "k": 10, "nprobes": 4}).to_table()
    print(f"\n6. All {len(queries)} queries at once: {len(found)} rows in {1000 * (time.perf_counter() - start):.0f} ms")

    print("\n7. Near duplicates, by a nearest join of the table with itself in Spark")
    duplicates(f"{folder}/digits.lance")
    shutil.rmtree(folder)


def duplicates(path: str) -> None:
    """Print how many pictures have embeddings that are nearly those of others."""
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 4).getOrCreate()
    enable(spark)
    found = LanceTable.forPath(spark, path).nearDuplicateVectors("embedding", distance=1, nprobes=8)
    found.pairs.persist()
    groups = found.groups.groupBy("group_id").count()
    sizes = groups.agg(F.count("*"), F.sum("count"), F.max("count")).collect()[0]
    print(f"   {found.pairs.count()} pairs; {sizes[1]} pictures in {sizes[0]} groups, the largest of {sizes[2]}")
    spark.stop()


def measured(table: Dataset, queries: np.ndarray, **parameters: object) -> str:
    """The recall of searches with these parameters, and the time of one."""
    recall = table.recall("embedding", queries, k=10, **parameters)
    start = time.perf_counter()
    for query in queries:
        table.scan(columns=["id"], nearest={"column": "embedding", "q": query, "k": 10, **parameters}).to_table()
    return f"{recall:6.3f}  {1000 * (time.perf_counter() - start) / len(queries):10.2f}"


if __name__ == "__main__":
    main()
