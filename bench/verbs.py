"""python -m bench.verbs [--quick | --full]: time and memory of what changes a table, beside pylance and delta-rs on the same machine.

Every contestant works in a process of its own, on a fresh copy of its table each time; they take turns. A run that is not quick writes
docs/bench-verbs.md. On a quiet machine with two cores it takes about five minutes.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import lance_spark
from bench.growth import markdown
from bench.memory import Peak, processor_seconds
from lance_spark import Dataset, LanceTable

FOLDER = Path(__file__).parent / "data"
DOCS = Path(__file__).parent.parent / "docs"
CONTESTANTS = ("ours", "ours, no Spark", "pylance", "delta-rs")
WARM_UP = 20_000


@dataclass(frozen=True)
class Size:
    """Rows and fragments of the large table, and of the one of many small fragments."""

    rows: int
    fragments: int
    small_rows: int
    small_fragments: int

    @property
    def merged(self) -> int:
        """How many rows are merged: a 50th, of which half are new."""
        return self.rows // 50


QUICK = Size(200_000, 4, 1_000, 20)
DEFAULT = Size(10_000_000, 10, 20_000, 100)
FULL = Size(50_000_000, 50, 100_000, 500)


def rows(start: int, count: int) -> pa.Table:
    """Narrow rows."""
    ids = np.arange(start, start + count)
    names = pa.array(np.char.add("name", (ids % 9973).astype(str)))
    values = np.random.default_rng(start).random(count)
    return pa.table({"id": ids, "k": (ids % 1000).astype(np.int32), "v": values, "name": names})


def source(count: int) -> pa.Table:
    """The rows to be merged into a table of 50 times as many: half of them, evenly spread, are there."""
    known, new = rows(0, count * 25), rows(count * 50, count - count // 2)
    return pa.concat_tables([known.take(np.arange(0, count // 2) * 50), new])


Verb = Callable[[str, int], object]
"""Changes the table at a path, which has so many rows."""


def spark_verbs(spark: SparkSession) -> dict[str, Verb]:
    """With LanceTable."""

    def at(uri: str) -> LanceTable:
        return LanceTable.forPath(spark, uri)

    def merge(uri: str, count: int) -> object:
        new = spark.read.parquet(f"{uri}.source").alias("s")
        return at(uri).alias("t").merge(new, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    return {
        "delete 1%": lambda uri, count: at(uri).delete("id % 100 = 7"),
        "update 1%": lambda uri, count: at(uri).update("id % 100 = 7", {"v": "v + 1"}),
        "merge": merge,
        "add a column, own expression": lambda uri, count: at(uri).addColumns({"w": "v * 2 + id"}),
        "add a column, Spark's expression": lambda uri, count: at(uri).addColumns({"w": "md5(name)"}),
        "compact": lambda uri, count: at(uri).optimize().executeCompaction(),
    }


def read_source(uri: str) -> pa.Table:
    """What is to be merged."""
    return pa.parquet.read_table(f"{uri}.source")


def dataset_verbs(open_table: Callable[[str], Dataset]) -> dict[str, Verb]:
    """With Dataset or with pylance, whose calls have the same names."""

    def merge(uri: str, count: int) -> object:
        return open_table(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(read_source(uri))

    return {
        "delete 1%": lambda uri, count: open_table(uri).delete("id % 100 = 7"),
        "update 1%": lambda uri, count: open_table(uri).update({"v": "v + 1"}, where="id % 100 = 7"),
        "merge": merge,
        "add a column, own expression": lambda uri, count: open_table(uri).add_columns({"w": "v * 2 + id"}),
        "compact": lambda uri, count: open_table(uri).optimize.compact_files(),
    }


def delta_verbs() -> dict[str, Verb]:
    """With delta-rs, which adds a column without values and then rewrites the table."""

    def merge(uri: str, count: int) -> object:
        merger = DeltaTable(uri).merge(read_source(uri), "t.id = s.id", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def add(uri: str, kind: str, expression: str) -> object:
        from deltalake import Field
        from deltalake.schema import PrimitiveType

        DeltaTable(uri).alter.add_columns([Field("w", PrimitiveType(kind))])
        return DeltaTable(uri).update({"w": expression})

    return {
        "delete 1%": lambda uri, count: DeltaTable(uri).delete("id % 100 = 7"),
        "update 1%": lambda uri, count: DeltaTable(uri).update({"v": "v + 1"}, predicate="id % 100 = 7"),
        "merge": merge,
        "add a column, own expression": lambda uri, count: add(uri, "double", "v * 2 + id"),
        "add a column, Spark's expression": lambda uri, count: add(uri, "string", "md5(name)"),
        "compact": lambda uri, count: DeltaTable(uri).optimize.compact(),
    }


def verbs_of(contestant: str) -> dict[str, Verb]:
    """What a contestant can do; those that need Spark start it."""
    if contestant == "ours":
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
        spark = builder.config("spark.sql.shuffle.partitions", "8").config("spark.ui.showConsoleProgress", "false").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        lance_spark.enable(spark)
        return spark_verbs(spark)
    if contestant == "delta-rs":
        return delta_verbs()
    if contestant == "pylance":
        return {
            **dataset_verbs(lance.dataset),
            "add a column, Spark's expression": lambda u, n: lance.dataset(u).add_columns({"w": "md5(name)"}),
        }
    return dataset_verbs(Dataset.open)


def make(folder: Path, kind: str, count: int, parts: int) -> Path:
    """A table of `count` rows in `parts` files, made once, with the rows to be merged beside it."""
    path = folder / f"verbs-{count}-{parts}.{kind}"
    if not path.exists():
        for start in range(0, count, count // parts):
            if kind == "delta":
                write_deltalake(path, rows(start, count // parts), mode="append")
            else:
                lance.write_dataset(rows(start, count // parts), path, mode="append")
        pa.parquet.write_table(source(count // 50), f"{path}.source")
    return path


def serve(contestant: str, verb: str) -> None:
    """The process of a contestant: a path and a number of rows come in, seconds go out."""
    change = verbs_of(contestant)[verb]
    print("ready", flush=True)
    for line in sys.stdin:
        uri, count = line.rstrip("\n").split("\t")
        start = time.perf_counter()
        change(uri, int(count))
        print(time.perf_counter() - start, flush=True)


@dataclass(frozen=True)
class Measured:
    """Seconds, seconds of processors, and peak memory in bytes of each round."""

    seconds: list[float]
    processors: list[float]
    memory: list[int]

    @property
    def cell(self) -> str:
        """For the table: seconds, seconds of processors, and memory in MB."""
        times = f"{statistics.median(self.seconds):.2f}, {statistics.median(self.processors):.2f}"
        return f"{times} ({statistics.median(self.memory) / 1e6:.0f})"


class Contestant:
    """The process of a contestant, which answers with the seconds that a verb took."""

    def __init__(self, name: str, verb: str, size: Size) -> None:
        kind = "delta" if name == "delta-rs" else "lance"
        many = verb == "compact"
        self._count, parts = (size.small_rows * size.small_fragments, size.small_fragments) if many else (size.rows, size.fragments)
        self._table, self._small = make(FOLDER, kind, self._count, parts), make(FOLDER, kind, WARM_UP, 4)
        command = [sys.executable, "-m", "bench.verbs", "--serve", name, verb]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.measured = Measured([], [], [])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._ask, self._answers = self._process.stdin, self._process.stdout
        self._answers.readline()

    def run(self, number: int, folder: Path) -> None:
        """A round on a fresh copy of the table. Those with negative numbers do not count; the first of them is on a small table."""
        original, count = (self._small, WARM_UP) if number == -2 else (self._table, self._count)
        path = folder / "table"
        copied(original, path)
        before = processor_seconds(self._process.pid)
        with Peak(self._process.pid) as peak:
            self._ask.write(f"{path}\t{count}\n")
            self._ask.flush()
            answer = self._answers.readline()
        if number >= 0:
            self.measured.seconds.append(float(answer))
            self.measured.processors.append(processor_seconds(self._process.pid) - before)
            self.measured.memory.append(peak.bytes)
        shutil.rmtree(path)

    def stop(self) -> None:
        """End the process."""
        self._ask.close()
        self._process.wait()
        self._answers.close()


def copied(original: Path, path: Path) -> None:
    """A copy of a table. Its data files are links, since no writer changes them."""

    def copy(source: str, target: str) -> str:
        if source.endswith((".lance", ".parquet")):
            os.link(source, target)
            return target
        return shutil.copy2(source, target)

    shutil.copytree(original, path, copy_function=copy)
    shutil.copyfile(f"{original}.source", f"{path}.source")


def measure(verb: str, size: Size, rounds: int) -> dict[str, Measured | None]:
    """All contestants in turns, after a round on a small table and one on the table that do not count; None for one without the verb."""
    names = [name for name in CONTESTANTS if name != "ours, no Spark" or "Spark's" not in verb]
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder, ExitStack() as stack:
        contestants = {}
        for name in names:
            contestants[name] = Contestant(name, verb, size)
            stack.callback(contestants[name].stop)
        for number in range(-2, rounds):
            for contestant in contestants.values():
                contestant.run(number, Path(folder))
    return {name: contestants[name].measured if name in names else None for name in CONTESTANTS}


def line(verb: str, size: Size, rounds: int) -> list[str]:
    """One line of the table: every contestant, and ours as a multiple of the others."""
    results = measure(verb, size, rounds)
    ours = results["ours"]
    assert ours is not None
    ratios = ["" if (theirs := results[other]) is None else ratio(ours, theirs) for other in CONTESTANTS[2:]]
    return [verb, *("" if r is None else r.cell for r in results.values()), *ratios]


def ratio(ours: Measured, theirs: Measured) -> str:
    """Our time as a multiple of the other's, on the clock and of processors."""
    wall = statistics.median(ours.seconds) / statistics.median(theirs.seconds)
    return f"{wall:.2f}, {statistics.median(ours.processors) / max(statistics.median(theirs.processors), 0.01):.2f}"


VERBS = ("delete 1%", "update 1%", "merge", "add a column, own expression", "add a column, Spark's expression", "compact")
HEADS = ("verb", *(f"{c}, s, CPU s (MB)" for c in CONTESTANTS), *(f"ours / {c}" for c in CONTESTANTS[2:]))


def page(lines: Sequence[Sequence[str]], size: Size, rounds: int) -> str:
    """The page of the documentation."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pylance", "deltalake", "pyarrow", "numba"))
    return f"""# Verbs

Made by `make bench-verbs` in one run on {os.cpu_count()} cores, Python {platform.python_version()}, {versions}. Times differ from machine
to machine and hour to hour, and with what else the machine does; the ratios of one run are what can be compared.

Each cell has the medians of {rounds} rounds, in which the contestants take turns: seconds, seconds that processors worked, and in brackets
the most memory in MB that the process and all that it has started had at once. The ratios are of seconds, and of processor seconds, which
depend less on what else runs.
Every round is on a fresh copy of the table, on a local disk. A session of Spark is there before the clock starts, and everybody has
done the same on a small table and once on this one. The memory of ours includes the JVM.
When the run ended, {os.getloadavg()[2]:.1f} tasks had wanted to run at once on average of 15 minutes, those of other programs included:
times on the clock mean little if that is more than the cores.

- The table has {size.rows:,} rows of four columns in {size.fragments} fragments. {size.merged:,} rows are merged into it, of which half
  are new.
- Compaction is of {size.small_fragments} fragments of {size.small_rows:,} rows each.
- *own expression* is `v * 2 + id`, which our tasks calculate; *Spark's expression* is `md5(name)`, which Spark evaluates for ours.
- **ours** is `LanceTable` in local[2]; **ours, no Spark** is `Dataset` in one process; **delta-rs** is the `deltalake` package on a Delta
  table of the same rows, which adds a column without values and then updates all rows.

{markdown(HEADS, lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.verbs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data, one round; writes nothing")
    parser.add_argument("--full", action="store_true", help="50 million rows, and 500 fragments of 100,000 rows")
    parser.add_argument("--only", default="", help="only verbs whose name contains this; writes nothing")
    parser.add_argument("--rows", type=int, help="rows of the large table, in 10 fragments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(*arguments.serve)
        return
    FOLDER.mkdir(exist_ok=True)
    size = QUICK if arguments.quick else FULL if arguments.full else DEFAULT
    if arguments.rows:
        size = Size(arguments.rows, 10, arguments.rows // 250, 100)
    rounds = 1 if arguments.quick else arguments.rounds
    lines = []
    for verb in VERBS:
        if arguments.only in verb:
            lines.append(line(verb, size, rounds))
            print(" | ".join(lines[-1]), flush=True)
    text = page(lines, size, rounds)
    print(text)
    if not arguments.quick and not arguments.only:
        (DOCS / "bench-verbs.md").write_text(text)


if __name__ == "__main__":
    main()
