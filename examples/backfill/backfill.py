"""Embeddings of pictures by a small model: the backfill is killed and goes on, then computes only appended pictures; then a vector index.

The pictures are the handwritten digits that scikit-learn ships. Needs scikit-learn; run it with `python examples/backfill/backfill.py`.
"""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from lance_spark import Dataset, LanceTable, lance_udf

DIMENSIONS = 32
FIRST = 1500


@lance_udf(pa.list_(pa.float32(), DIMENSIONS), version="digits 1", batch_size=20)
class Embedding:
    """What the hidden layers of a network make of a picture. The model is loaded once in each worker."""

    def __init__(self, file: str) -> None:
        self.layers = pickle.loads(Path(file).read_bytes())

    def __call__(self, picture: pa.Array) -> np.ndarray:
        values = np.frombuffer(b"".join(picture.to_pylist()), np.uint8).reshape(len(picture), -1) / np.float32(16)
        for weights, bias in self.layers:
            values = np.maximum(values @ weights + bias, 0)
        time.sleep(0.002 * len(picture))  # as a large model would take
        return values.astype(np.float32)


def backfill(table: str, model: str) -> None:
    """Compute the embeddings of all pictures that have none, and say how many those were."""
    spark = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    done = LanceTable.forPath(spark, table).backfill("embedding", Embedding(model))
    print(f"   {done.num_rows} rows got an embedding, {done.num_computed_rows} of them were computed now", flush=True)


def killed(table: str, model: str) -> None:
    """Start a backfill, and kill it and its workers when there are results."""
    command = [sys.executable, __file__, table, model]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(Path(table, "_backfill").rglob("[0-9]*.arrow")):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def written(pictures: np.ndarray, labels: np.ndarray) -> pa.Table:
    """Rows of a table: pictures as bytes, one for each pixel."""
    return pa.table({"picture": [p.astype(np.uint8).tobytes() for p in pictures], "label": labels})


def main() -> None:
    folder = tempfile.mkdtemp()
    table, model = f"{folder}/digits.lance", f"{folder}/model"
    digits = load_digits()

    print(f"1. Train a model, and write a table of {FIRST} pictures")
    warnings.simplefilter("ignore", ConvergenceWarning)  # 20 rounds are enough
    network = MLPClassifier((64, DIMENSIONS), max_iter=20, random_state=0).fit(digits.data[:FIRST] / 16, digits.target[:FIRST])
    Path(model).write_bytes(pickle.dumps(list(zip(network.coefs_, network.intercepts_))[:-1]))
    Dataset.write(table, written(digits.images[:FIRST], digits.target[:FIRST]))

    print("2. Start a backfill, and kill it")
    killed(table, model)
    print("3. Start it again")
    backfill(table, model)

    print(f"4. Append {len(digits.target) - FIRST} pictures, and start it again")
    Dataset.write(table, written(digits.images[FIRST:], digits.target[FIRST:]), mode="append")
    backfill(table, model)

    print("5. Make a vector index, and find the pictures that are most like the last one, which is a", digits.target[-1])
    indexed = Dataset.open(table).create_index("embedding", "IVF_PQ", metric="l2", num_partitions=8, num_sub_vectors=8)
    last = indexed.scan(columns=["embedding"], offset=len(digits.target) - 1).to_table().column("embedding")[0].values.to_numpy()
    nearest = {"column": "embedding", "q": last, "k": 5, "nprobes": 4, "refine_factor": 4}
    print("  ", indexed.scan(columns=["label"], nearest=nearest).to_table().column("label").to_pylist())
    shutil.rmtree(folder)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        backfill(*sys.argv[1:])
    else:
        main()
