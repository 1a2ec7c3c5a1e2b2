"""Make the archive of a release for `test_upgrades`: `python -m tests.upgrades.make`, with that release installed.

The archive has tables of every stable storage version, and the checkpoint of a stream. An archive that exists is never made
anew: it is what users of that release have. Compiled kernels are not in it: they are code of one machine, and another
release never loads them (`tests/kernels`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark import Dataset, __version__

FOLDER = Path(__file__).parent
VERSIONS = ("2.0", "2.1", "2.2")
_DIMENSIONS = 8
_STREAM = """
import sys
import lance_spark
from pyspark.sql import SparkSession
table, copy, checkpoint = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
lance_spark.enable(spark)
rows = spark.readStream.format("lance").load(table)
written = rows.writeStream.format("lance").option("checkpointLocation", checkpoint)
written.trigger(availableNow=True).start(copy).awaitTermination()
"""


def rows(start: int, count: int) -> pa.Table:
    """Rows of many types, which depend on the numbers alone."""
    numbers = range(start, start + count)
    vectors = (np.arange(start * _DIMENSIONS, (start + count) * _DIMENSIONS) % 97).astype("float32")
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "label": [f"label {i % 7}" if i % 5 else None for i in numbers],
            "text": [f"row {i} of the lake number {i % 13}" for i in numbers],
            "price": pa.array([i * 100 for i in numbers], pa.int64()).cast(pa.decimal128(20, 0)),
            "day": pa.array([i % 365 for i in numbers], pa.int32()).cast(pa.date32()),
            "tags": [[f"tag {i % 3}", f"tag {i % 4}"] for i in numbers],
            "place": [{"x": i, "name": f"p{i % 4}"} for i in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), _DIMENSIONS),
        }
    )


def make_table(uri: str, version: str) -> None:
    """A table with two fragments, deleted rows, indexes, a tag and a branch."""
    dataset = Dataset.write(uri, rows(0, 300), data_storage_version=version)
    dataset.tags.create("first", 1)
    dataset = dataset.create_scalar_index("id", "BTREE").create_scalar_index("label", "BITMAP")
    dataset = dataset.create_scalar_index("text", "INVERTED")
    dataset = dataset.create_index("vector", "IVF_FLAT", num_partitions=2)
    dataset.create_branch("dev")
    Dataset.write(uri, rows(300, 100), "append")
    Dataset.open(uri).delete("id % 10 = 3")


def answers(uri: str) -> dict[str, Any]:
    """What a table answers to some queries."""
    dataset = Dataset.open(uri)
    return {
        "version": dataset.version,
        "rows": dataset.scan(["id", "label", "price", "day", "tags", "place"]).to_table().to_pylist(),
        "label": dataset.scan(["id"], "label = 'label 3'").to_table()["id"].to_pylist(),
        "between": dataset.scan(["id"], "id BETWEEN 290 AND 310").to_table()["id"].to_pylist(),
        "text": sorted(dataset.scan(["id"], full_text_query="77").to_table()["id"].to_pylist()),
        "first": Dataset.open(uri, tag="first").count_rows(),
        "dev": Dataset.open(uri, branch="dev").count_rows(),
    }


def as_json(value: object) -> Any:
    """A value as it comes back from JSON."""
    return json.loads(json.dumps(value, default=str))


def main() -> None:
    """Write the archive of the installed release."""
    archive = FOLDER / f"{__version__}.tar.gz"
    if archive.exists():
        sys.exit(f"{archive} exists; what a release made is not changed")
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        for version in VERSIONS:
            make_table(str(made / f"{version}.lance"), version)
        expected = {version: as_json(answers(str(made / f"{version}.lance"))) for version in VERSIONS}
        (made / "expected.json").write_text(json.dumps(expected))
        Dataset.write(str(made / "source.lance"), rows(0, 30))
        places = [str(made / name) for name in ("source.lance", "copy.lance", "checkpoint")]
        subprocess.run([sys.executable, "-c", _STREAM, *places], check=True)
        with tarfile.open(archive, "w:gz") as packed:
            for path in sorted(made.iterdir()):
                packed.add(path, path.name, filter=_of_nobody)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without the names of users of this machine."""
    entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, "", ""
    return entry


if __name__ == "__main__":
    main()
