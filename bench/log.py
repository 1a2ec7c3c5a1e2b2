"""python -m bench.log [--quick] [--streams]: small batches into the write-ahead log, and by one commit a batch, beside pylance.

Each batch replaces rows by their primary key, and begins when the one before is visible: a process of its own reads one row
again and again, and has found its new value. Latencies are from the call, or from the end of a stream's batch, on. `--streams`
measures batches of Spark's streams instead, beside Delta Lake, and needs the environment of `make bench-lakes`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import lance_spark
from bench.commits import KEYS
from bench.growth import markdown
from bench.lakes.contestants import jars
from lance_spark import Dataset, LanceTable
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.log_stream import LogMessage, LogStreamWriter, LogTarget
from tests import s3_server

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("value", pa.int64()), pa.field("text", pa.string())])
ROWS, TABLE_ROWS, WARM = 100, 100_000, 5
SHARD = str(uuid.UUID(int=1))
HEADS = ("a batch of 100 rows", "returned, ms", "p99", "visible, ms", "p99", "CPU, ms", "rows/s")
STREAM_HEADS = ("a batch of a stream, 100 rows", "whole batch, ms", "p99", "write and commit, ms")

Options = dict[str, str]
Put = Callable[[int, pa.Table], object]


def batch(number: int) -> pa.Table:
    """The rows of a batch: of the key 0, which is read, and of others."""
    keys = np.random.default_rng(number).choice(np.arange(1, TABLE_ROWS), ROWS - 1, replace=False)
    return rows(np.concatenate([[0], keys]), number)


def rows(keys: np.ndarray, number: int) -> pa.Table:
    """Rows with these keys."""
    return pa.table({"id": keys, "value": np.full(len(keys), number), "text": [f"text {key}" for key in keys]}, schema=SCHEMA)


def watch(uri: str, options: Options, last: int, seen: Any) -> None:
    """Read until the batch `last` is there. `seen` is sent each batch that is found, and when."""
    newest = -2
    while newest < last:
        [found] = Dataset.open(uri, storage_options=options).to_table(["value"], "id = 0")["value"].to_pylist()
        if found > newest:
            newest = found
            seen.put((found, time.time()))


def ours(uri: str, options: Options) -> Put:
    """Our writer of the log."""
    writer = Dataset.open(uri, storage_options=options).mem_wal_writer(SHARD)
    return lambda number, rows: writer.put(rows)


def pylance(uri: str, options: Options) -> Put:
    """pylance's writer of the log."""
    writer = lance.dataset(uri, storage_options=options).mem_wal_writer(SHARD)
    return lambda number, rows: writer.put(rows)


def sink(uri: str, options: Options) -> Put:
    """What the streaming sink does at the end of a batch."""
    target = LogTarget(Dataset.open(uri, storage_options=options).snapshot.store, SHARD, None, None, "stream")

    def put(number: int, rows: pa.Table) -> None:
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, rows.schema) as stream:
            stream.write_table(rows)
        message = LogMessage(WriteClock().report(()), out.getvalue().to_pybytes(), target, "query")
        LogStreamWriter(None).commit([message], number)

    return put


def commit(uri: str, options: Options) -> Put:
    """A commit of ours."""
    return lambda number, rows: _merged(Dataset.open(uri, storage_options=options), rows)


def pylance_commit(uri: str, options: Options) -> Put:
    """A commit of pylance."""
    return lambda number, rows: _merged(lance.dataset(uri, storage_options=options), rows)


def _merged(table: Any, rows: pa.Table) -> None:
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


WRITERS: dict[str, Callable[[str, Options], Put]] = {
    "put": ours,
    "put, pylance": pylance,
    "the end of a stream's batch": sink,
    "a commit (merge)": commit,
    "a commit (merge), pylance": pylance_commit,
}


def measured(name: str, uri: str, options: Options, count: int) -> list[str]:
    """A row of the table."""
    lance.write_dataset(rows(np.arange(TABLE_ROWS), -1), uri, storage_options=options)
    table = Dataset.open(uri, storage_options=options)
    table.create_scalar_index("id", "BTREE")
    table.initialize_mem_wal()
    put = WRITERS[name](uri, options)
    for number in range(WARM):
        put(number, batch(number))
    spawn = multiprocessing.get_context("spawn")
    seen, last = spawn.Queue(), WARM + count - 1
    reader = spawn.Process(target=watch, args=(uri, options, last, seen))
    reader.start()
    seen.get()
    returned, visible, cpu = [], [], 0.0
    for number in range(WARM, WARM + count):
        changes = batch(number)
        used, begun = time.process_time(), time.time()
        put(number, changes)
        returned.append(1000 * (time.time() - begun))
        cpu += time.process_time() - used
        _, found = seen.get()
        visible.append(1000 * (found - begun))
    reader.join()
    rate = f"{1000 * ROWS / statistics.mean(returned):,.0f}"
    return [name, *typical(returned), *typical(visible), f"{1000 * cpu / count:.1f}", rate]


def typical(times: list[float]) -> list[str]:
    """The median and the 99th percentile."""
    return [f"{statistics.median(times):.1f}", f"{statistics.quantiles(times, n=100)[98]:.1f}"]


def lines(folder: Path, names: list[str], local: int, remote: int) -> Iterator[list[str]]:
    """The rows of the table; `local` and `remote` are the numbers of batches."""
    with s3_server.running() as endpoint:
        s3 = {**KEYS, "endpoint": endpoint}
        for place, root, options, count in (("disk", str(folder), {}, local), ("S3", "s3://tables", s3, remote)):
            for name in names:
                label, *figures = measured(name, f"{root}/{uuid.uuid4().hex}", options, count)
                yield [f"{place}: {label}", *figures]


def streams(folder: Path, count: int) -> Iterator[list[str]]:
    """Streams of one session with Delta Lake: what Spark says of each batch, but the first ones."""
    jar = ",".join(jars(folder))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars", jar)
    builder = builder.config("spark.driver.extraClassPath", jar.replace(",", ":")).config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    spark = builder.config("spark.databricks.delta.snapshotPartitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    lance_spark.enable(spark)
    source = folder / "source"
    source.mkdir()
    for number in range(count + WARM):
        pq.write_table(batch(number), source / f"{number}.parquet")
    table, delta = str(folder / "ours"), str(folder / "delta")
    lance.write_dataset(rows(np.arange(TABLE_ROWS), -1), table)
    Dataset.open(table).initialize_mem_wal(unsharded=True)
    spark.read.format("lance").load(table).write.format("delta").save(delta)
    shutil.copytree(table, committed := str(folder / "committed"))
    Dataset.open(committed).create_scalar_index("id", "BTREE")

    def merged_ours(changes: DataFrame, number: int) -> None:
        LanceTable.forPath(spark, committed).merge(changes, "id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def merged_delta(changes: DataFrame, number: int) -> None:
        changes.createOrReplaceTempView("changes")
        on = f"MERGE INTO delta.`{delta}` t USING changes s ON t.id = s.id"
        changes.sparkSession.sql(f"{on} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    stream = spark.readStream.schema("id long, value long, text string").option("maxFilesPerTrigger", 1).parquet(str(source))
    sinks: dict[str, DataStreamWriter] = {
        "into the log": stream.writeStream.format("lance").option("putIntoLog", "true").option("path", table),
        "a commit (append)": stream.writeStream.format("lance").option("path", str(folder / "appended")),
        "a commit (append), Delta Lake": stream.writeStream.format("delta").option("path", str(folder / "delta-appended")),
        "a commit (merge)": stream.writeStream.foreachBatch(merged_ours),
        "a commit (merge), Delta Lake": stream.writeStream.foreachBatch(merged_delta),
    }
    for name, sink in sinks.items():
        query = sink.option("checkpointLocation", str(folder / f"of {name}")).trigger(availableNow=True).start()
        query.awaitTermination()
        steps = [p["durationMs"] for p in query.recentProgress if p["numInputRows"]][WARM:]
        whole, adding = [float(s["triggerExecution"]) for s in steps], [s["addBatch"] for s in steps]
        yield [name, *typical(whole), f"{statistics.median(adding):.0f}"]
    newest = spark.read.format("lance").load(table).where("id = 0").first()
    assert newest is not None
    assert newest.value == count + WARM - 1
    spark.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.log", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few batches")
    parser.add_argument("--streams", action="store_true", help="batches of Spark's streams, beside Delta Lake")
    parser.add_argument("--only", nargs="+", choices=WRITERS, default=list(WRITERS), help="these contestants")
    given = parser.parse_args()
    share = 10 if given.quick else 1
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        if given.streams:
            print(markdown(STREAM_HEADS, list(streams(Path(folder), 60 // share))))
        else:
            print(markdown(HEADS, list(lines(Path(folder), given.only, 300 // share, 100 // share))))
    print(f"load {before:.1f} at the begin, {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
