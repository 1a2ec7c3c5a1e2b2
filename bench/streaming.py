"""python -m bench.streaming [--quick]: batches of streams into a table and out of it beside Parquet, and what grows with the table.

A batch's time is that of Spark's progress: planning, tasks, and what is noted in the checkpoint. Both sinks read the same Parquet files,
one a batch; both sources are read into nothing. The contestants take turns.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.__main__ import session
from bench.growth import markdown, with_versions
from lance_spark import Dataset
from lance_spark.table.feed.options import LATEST, FeedOptions
from lance_spark.table.feed.stream import TableStream

HEADS = ("what", "ms", "Parquet, ms", "ratio")
BATCHES = 20
ROUNDS = 3
FORMATS = ("lance", "parquet")
QUICK = 20


def batch_ms(writer: DataStreamWriter, checkpoint: str) -> list[float]:
    """Run a query to its end: the milliseconds of each of its batches but the first, which finds cold code."""
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]][1:]


class Streams:
    """Queries of one session, in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._names = itertools.count()

    def _new(self) -> str:
        return str(self._folder / f"{next(self._names)}")

    def _rows(self, count: int) -> tuple[DataFrame, str]:
        """A table of so many rows a file, and where it is as Parquet."""
        frame = self._spark.range(0, count * BATCHES, 1, BATCHES).selectExpr("id", "rand(7) AS value", "concat('text ', id) AS text")
        frame.write.parquet(path := self._new())
        return frame, path

    def _compared(self, run: Callable[[str], list[float]]) -> list[str]:
        """The median milliseconds of both formats' batches, in alternation after one round to warm up, and the ratio."""
        times: dict[str, list[float]] = {name: [] for name in FORMATS}
        for i in range(ROUNDS + 1):
            for name in FORMATS:
                measured = run(name)
                times[name] += measured if i else []
        medians = [statistics.median(times[name]) for name in FORMATS]
        return [*(f"{m:.0f}" for m in medians), f"{medians[0] / medians[1]:.2f}"]

    def _sink(self, source: str, name: str, target: str | None = None) -> list[float]:
        stream = self._spark.readStream.schema("id long, value double, text string").option("maxFilesPerTrigger", 1).parquet(source)
        return batch_ms(stream.writeStream.format(name).option("path", target or self._new()), self._new())

    def into(self, count: int) -> list[str]:
        """Batches of so many rows into a table."""
        source = self._rows(count)[1]
        return self._compared(lambda name: self._sink(source, name))

    def out(self, count: int) -> list[str]:
        """Batches of so many rows out of a table."""
        frame, parquet = self._rows(count)
        frame.write.format("lance").mode("append").save(table := self._new())

        def run(name: str) -> list[float]:
            stream = self._spark.readStream.schema("id long, value double, text string") if name == "parquet" else self._spark.readStream
            rows = stream.format(name).option("maxFilesPerTrigger", 1).load(parquet if name == "parquet" else table)
            return batch_ms(rows.writeStream.format("noop"), self._new())

        return self._compared(run)

    def many_versions(self, versions: int) -> Iterator[list[str]]:
        """A batch of one row into a table of many versions, and the look of an idle stream for the next version."""
        with_versions(table := self._new(), versions)
        self._spark.range(0, BATCHES, 1, BATCHES).selectExpr("id", "'a row' AS s").write.parquet(source := self._new())
        stream = self._spark.readStream.schema("id long, s string").option("maxFilesPerTrigger", 1).parquet(source)
        sink = batch_ms(stream.writeStream.format("lance").option("path", table), self._new())
        yield [f"into a table of {versions:,} versions, a row a batch", f"{statistics.median(sink):.0f}", "", ""]
        idle = TableStream(Dataset.open(table).changes(0), FeedOptions(starting_version=LATEST))
        at, times = idle.initial(), []
        for _ in range(BATCHES):
            start = time.perf_counter()
            idle.advance(at, False)
            times.append(1000 * (time.perf_counter() - start))
        yield [f"an idle stream's look at a table of {versions:,} versions", f"{statistics.median(times):.2f}", "", ""]

    def feed(self, count: int, changed: int = 1000) -> list[str]:
        """The changes of a commit that updated a few of many rows."""
        ids = pa.table({"id": np.arange(count), "value": np.zeros(count)})
        table = Dataset.write(uri := self._new(), ids, enable_stable_row_ids=True, max_rows_per_file=1_000_000)
        table.update({"value": "1.0"}, f"id % {count // changed} = 7")
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            found = Dataset.open(uri).changes(1).to_table().num_rows
            times.append(1000 * (time.perf_counter() - start))
            assert found == 2 * changed, found
        return [f"the changes of {changed:,} updated rows among {count:,}", f"{statistics.median(times):.0f}", "", ""]


def lines(spark: SparkSession, folder: Path, share: int) -> Iterator[list[str]]:
    """The rows of the table; counts of rows are divided by `share`."""
    streams, rows = Streams(spark, folder), 100_000 // share
    yield [f"into a table, {rows:,} rows a batch", *streams.into(rows)]
    yield ["into a table, a row a batch", *streams.into(1)]
    yield [f"out of a table, {rows:,} rows a batch", *streams.out(rows)]
    yield ["out of a table, a row a batch", *streams.out(1)]
    for versions in (1000 // share, 100_000 // share):
        yield from streams.many_versions(versions)
    yield streams.feed(50_000_000 // share)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.streaming", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"all counts divided by {QUICK}")
    share = QUICK if parser.parse_args().quick else 1
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        print(markdown(HEADS, list(lines(spark, Path(folder), share))))
    spark.stop()


if __name__ == "__main__":
    main()
