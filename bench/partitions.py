"""python -m bench.partitions [--quick]: what planning over many partitions costs, and appending to many in one job.

`bench.commits` has these tables too; run alone, this prints them.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lance_spark import Dataset, PartitionedNamespace, create_partitioned_namespace
from lance_spark.namespace.manifest_table import change
from lance_spark.storage.store import Store

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.float64())])
KEPT = 3
PLANNED, WRITTEN = (100, 10_000), (100, 1_000)
ROWS = 100
PLAN_HEADS = ("partitions", f"planning with a filter that keeps {KEPT}, ms")
WRITE_HEADS = ("partitions", "new, ms each", "new, bytes each", "append, ms each", "append, bytes each", "peak memory, MB")


def namespace_of(uri: str, count: int) -> PartitionedNamespace:
    """A namespace with `count` partitions of one row; only the first tables exist, since planning opens no others."""
    create_partitioned_namespace(uri, SCHEMA, ["id"])
    rows: list[dict[str, object]] = []
    for i in range(count):
        name = f"v1${i:016}"
        location = f"{i:08x}_{name}$dataset"
        if i < KEPT:
            Dataset.write(f"{uri}/{location}", pa.table({"id": pa.array([i], pa.int64()), "v": [0.5]}))
        rows.append({"object_id": name, "object_type": "namespace", "partition_field_id": i})
        values = {"location": location, "read_version": 1, "partition_field_id": i}
        rows.append({"object_id": f"{name}$dataset", "object_type": "table", **values})
    change(Store(uri), lambda table: table.with_rows(rows))
    return PartitionedNamespace.open(uri)


def plannings(folder: Path, rounds: int) -> Iterator[list[str]]:
    """The median time to open a namespace and plan a scan of a few of its partitions."""
    for count in PLANNED:
        uri = namespace_of(str(folder / f"plan-{count}"), count).uri
        filter = f"id < {KEPT}"
        times = []
        for _ in range(rounds + 1):
            start = time.perf_counter()
            kept, total = PartitionedNamespace.open(uri).scan(filter=filter).partitions
            times.append(1000 * (time.perf_counter() - start))
            assert (kept, total) == (KEPT, count)
        yield [f"{count:,}", f"{statistics.median(times[1:]):.1f}"]


def writes(folder: Path, counts: tuple[int, ...] = WRITTEN) -> Iterator[list[str]]:
    """The time and the bytes to write to new and to existing partitions in one job."""
    for count in counts:
        uri = str(folder / f"write-{count}")
        namespace = create_partitioned_namespace(uri, SCHEMA, ["id"])
        ids = [i % count for i in range(count * ROWS)]
        data = pa.table({"id": pa.array(ids, pa.int64()), "v": [i / 2 for i in ids]})
        cells = []
        for _ in range(2):
            before, start = size(uri), time.perf_counter()
            namespace = namespace.write(data)
            seconds = time.perf_counter() - start
            cells += [f"{1000 * seconds / count:.1f}", f"{(size(uri) - before) / count:,.0f}"]
        assert namespace.count_rows() == 2 * count * ROWS
        yield [f"{count:,}", *cells, f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f}"]
        shutil.rmtree(uri)


def size(uri: str) -> int:
    """The bytes of all files below a folder."""
    return sum(path.stat().st_size for path in Path(uri).rglob("*") if path.is_file())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m bench.partitions", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds, and no more than 100 partitions are written")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        print(PLAN_HEADS, *plannings(Path(folder), 2 if quick else 9), sep="\n")
        print(WRITE_HEADS, *writes(Path(folder), WRITTEN[: 1 if quick else 2]), sep="\n")


if __name__ == "__main__":
    main()
