"""python -m bench.codec: speed of each encoding, and of pylance, in MB/s of Arrow data on one core; then file sizes.

Both read the file that pylance wrote, and write the same data to a temporary folder. They take turns. The first round, which compiles the
kernels, is ignored; the result is the best of the other rounds, in processor time of all threads.
The last column is the time of reading our own file with checksum verification, divided by the time without.

Measured limits of encoding, for 12 MiB of text in chunks of 2 KB: pyarrow's zstd takes 0.087 s, and pylance with everything 0.083 s,
because pyarrow makes a compression context for each chunk; with a context that is kept (the package zstandard), the compression alone
takes 0.076 s. pyarrow's lz4 takes 0.023 s of our 0.041 s, and pylance with everything 0.031 s.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["LANCE_CPU_THREADS"] = "1"  # read when pylance is loaded

import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from bench import sizes
from bench.columns import Column, columns
from lance_spark.file.data_file import open_data_file
from lance_spark.file.writer import DataFileWriter
from lance_spark.schema.schema import from_arrow
from lance_spark.schema.storage_version import StorageVersion
from lance_spark.storage.store import Store

ROUNDS = 5
BATCH_BYTES = 4 << 20
Batches = list[pa.RecordBatch]


def batch_rows(table: pa.Table) -> int:
    """Rows of about `BATCH_BYTES` bytes."""
    return max(1, min(1 << 16, BATCH_BYTES * int(table.num_rows) // int(table.nbytes)))


def batches(table: pa.Table) -> Batches:
    """The table as batches that own their memory: pylance assumes that a slice is as large as its parent."""
    return [pa.ipc.read_record_batch(batch.serialize(), batch.schema) for batch in table.to_batches(batch_rows(table))]


def write(path: Path, batches: Batches, version: StorageVersion) -> None:
    """Write with our writer."""
    with path.open("wb") as out:
        writer = DataFileWriter(out, from_arrow(batches[0].schema), version)
        for batch in batches:
            writer.write(batch)
        writer.finish()


def read(path: Path, rows: int, verify_checksums: bool = True) -> None:
    """Read with our reader."""
    reader = open_data_file(Store(str(path.parent)), path.name, verify_checksums=verify_checksums)
    leaves = {leaf.id: column for column, leaf in enumerate(reader.schema.leaves())}
    for _ in reader.read(reader.schema.fields, leaves, range(reader.num_rows), rows):
        pass


def write_pylance(path: Path, batches: Batches, version: StorageVersion) -> None:
    """Write with pylance."""
    with LanceFileWriter(str(path), batches[0].schema, version=str(version)) as writer:
        for batch in batches:
            writer.write_batch(batch)


def read_pylance(path: Path, rows: int) -> None:
    """Read with pylance."""
    for _ in LanceFileReader(str(path)).read_all(batch_size=rows).to_batches():
        pass


def fastest(works: list[Callable[[], None]]) -> list[float]:
    """The best processor time of each function in seconds."""
    best = [float("inf")] * len(works)
    for i in range(ROUNDS + 1):
        for k, work in enumerate(works):
            start = time.process_time()
            work()
            if i:
                best[k] = min(best[k], time.process_time() - start)
    return best


def measure(column: Column, folder: Path, version: StorageVersion) -> str:
    """A line of the table."""
    table = column.table
    data = batches(table)
    ours, theirs = folder / "ours.lance", folder / "pylance.lance"
    write_pylance(theirs, data, version)
    rows = batch_rows(table)
    decode = fastest([lambda: read(theirs, rows), lambda: read_pylance(theirs, rows)])
    encode = fastest([lambda: write(ours, data, version), lambda: write_pylance(theirs, data, version)])
    verified = fastest([lambda: read(ours, rows), lambda: read(ours, rows, verify_checksums=False)])
    mb = table.nbytes / 1e6
    size = ours.stat().st_size / theirs.stat().st_size
    cells = [f"{mb / decode[0]:.0f}", f"{mb / decode[1]:.0f}", _ratio(decode, column)]
    cells += [f"{mb / encode[0]:.0f}", f"{mb / encode[1]:.0f}", _ratio(encode, column), f"{size:.2f}", f"{verified[0] / verified[1]:.2f}"]
    return f"| {column.name} | " + " | ".join(cells) + " |"


def _ratio(times: list[float], column: Column) -> str:
    ratio = times[1] / times[0]
    return f"{ratio:.2f}" if ratio >= (1 if column.common else 0.5) else f"**{ratio:.2f}**"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.codec", description=__doc__)
    parser.add_argument("--only", default="", help="only columns whose name contains this, and no sizes")
    parser.add_argument("--version", default="2.2", help="the storage version of the files, from 2.1 on")
    arguments = parser.parse_args()
    version = StorageVersion.parse(arguments.version)
    pa.set_cpu_count(1)
    print("Bold: a ratio below 1 for common columns, below 0.5 for the others.\n")
    names = ["column", "decode, MB/s", "pylance", "ratio", "encode, MB/s", "pylance", "ratio", "size, ours / pylance", "checksums"]
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for column in columns():
            if arguments.only in column.name:
                print(measure(column, Path(folder), version), flush=True)
        if not arguments.only:

            def ours(path: Path, table: pa.Table) -> None:
                write(path, batches(table), version)

            def theirs(path: Path, table: pa.Table) -> None:
                write_pylance(path, batches(table), version)

            print("\n" + sizes.report(Path(folder), ours, theirs))


if __name__ == "__main__":
    main()
