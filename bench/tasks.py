"""python -m bench.tasks [--quick]: what many small tasks of a Spark write cost, beside a Python writer that discards its rows.

`bench.commits` has this table too, from a process of its own; run alone, this prints it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.__main__ import session
from bench.growth import markdown, milliseconds

HEADS = ("what", "ms", "a writer that discards its rows, ms", "ratio")
TASKS, ROUNDS = 200, 3


def small_tasks(folder: Path, tasks: int) -> Iterator[list[str]]:
    """The rows of the table."""
    spark = session()
    try:
        rows = spark.range(0, tasks, 1, tasks)
        table = str(folder / "tasks")
        writes = [
            lambda: rows.write.format("lance").mode("append").save(table),
            lambda: rows.write.format("floor").mode("append").save(table),
        ]
        yield [f"{tasks} tasks of one row", *milliseconds(writes, ROUNDS)]
    finally:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tasks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        print(markdown(HEADS, list(small_tasks(Path(folder), TASKS // 10 if quick else TASKS))))


if __name__ == "__main__":
    main()
