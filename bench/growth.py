"""python -m bench.growth [--quick]: what writes, scans, deletes and appends cost by the number of columns, fragments, rows and versions.

`bench.commits` has this table too; run alone, this prints it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa

from lance_spark import Dataset
from lance_spark.metadata.manifest import serialise
from lance_spark.metadata.numbered_writes import NumberedWrites
from lance_spark.table.versions.hint import move_hint
from lance_spark.table.versions.snapshot import manifest_path

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "s": ["ten rows"] * 10})
HEADS = ("what", "ms", "pylance, ms", "ratio")
ROUNDS = 3
QUICK = 20

Work = Callable[[str], object]


def _with_files(uri: str, count: int) -> None:
    """Create a table with `count` fragments, each with a data file of its own: links to one file, which are cheap to make."""
    snapshot = Dataset.write(uri, ROWS).snapshot
    (fragment,) = snapshot.manifest.fragments
    (file,) = fragment.files
    fragments = tuple(replace(fragment, id=i, files=(replace(file, path=f"{i}.lance"),)) for i in range(count))
    for i in range(count):
        os.link(f"{uri}/data/{file.path}", f"{uri}/data/{i}.lance")
    snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, fragments=fragments, max_fragment_id=count - 1)))


def with_versions(uri: str, count: int, ours: bool = True) -> None:
    """Create a table with `count` versions, which all have the same rows, as we or other writers make them."""
    snapshot = Dataset.write(uri, ROWS).snapshot
    for version in range(1, count + 1):
        numbered = NumberedWrites(version, 0) if ours else None
        manifest = replace(snapshot.manifest, version=version, numbered=numbered)
        snapshot.store.put(manifest_path(version), serialise(manifest), durable=False)
    move_hint(snapshot.store, count)


def milliseconds(works: Sequence[Callable[[], object]], rounds: int, before: Callable[[], object] = lambda: None) -> list[str]:
    """The medians of both, measured in alternation after one warm-up round, and their ratio."""
    times: list[list[float]] = [[] for _ in works]
    for i in range(rounds + 1):
        for k, work in enumerate(works):
            before()
            start = time.perf_counter()
            work()
            if i:
                times[k].append(1000 * (time.perf_counter() - start))
    medians = [statistics.median(t) for t in times]
    return [*(f"{m:.1f}" for m in medians), f"{medians[0] / medians[1]:.2f}"]


def on_copies(table: str, ours: Work, theirs: Work) -> list[str]:
    """Measure a change of a table, each time on a new copy of it."""
    copy = f"{table}-copy"

    def before() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        # No file of a table is changed in place, so the copy can share them.
        shutil.copytree(table, copy, copy_function=os.link)

    return milliseconds([lambda: ours(copy), lambda: theirs(copy)], ROUNDS, before)


def growth(folder: Path, share: int = 1) -> Iterator[list[str]]:
    """The rows of the table; every count is divided by `share`."""
    numbers = itertools.count()

    def new() -> str:
        return str(folder / f"growth-{next(numbers)}")

    kinds: tuple[tuple[str, Callable[[int], object]], ...] = (
        ("columns", int),
        ("columns of strings", lambda n: f"v{n * 7919 % 1000}"),
        ("columns with nulls", lambda n: n if n % 3 else None),
    )
    sizes = ((5_000, 100, kinds[0]), (1_000, 3, kinds[0]), (1_000, 100, kinds[1]), (1_000, 100, kinds[2]))
    for columns, count, (what, value) in ((c // share, n, kind) for c, n, kind in sizes):
        rows = pa.table({f"c{i}": [value(n) for n in range(i, i + count)] for i in range(columns)})
        works = [lambda rows=rows: Dataset.write(new(), rows), lambda rows=rows: lance.write_dataset(rows, new())]
        yield [f"write {count} rows of {columns:,} {what}", *milliseconds(works, ROUNDS)]
    yield from _wide_reads(new(), 5_000 // share)
    wide, columns = new(), 5_000 // share
    row = pa.table({f"c{i}": [i] for i in range(columns)})
    Dataset.write(wide, row)
    appended = on_copies(wide, lambda uri: Dataset.write(uri, row, "append"), lambda uri: lance.write_dataset(row, uri, mode="append"))
    yield [f"append a row of {columns:,} columns", *appended]
    yield from _fragments(new(), 5_000 // share)
    many, count = new(), 1_000_000 // share
    lance.write_dataset(pa.table({"id": pa.array(range(count))}), many, max_rows_per_file=count // 100)
    for condition in ("id % 2 = 0", "id >= 0"):
        yield [f"delete `{condition}` from {count:,} rows in 100 fragments", *_deletes(many, condition)]
    old, count = new(), 20_000 // share
    with_versions(old, count)

    def theirs(uri: str) -> object:
        return lance.write_dataset(ROWS, uri, mode="append")

    opens = [lambda: Dataset.open(old).schema, lambda: lance.dataset(old).schema]
    yield [f"open a table of {count:,} versions", *milliseconds(opens, ROUNDS)]
    yield [f"append to a table of {count:,} versions", *on_copies(old, lambda uri: Dataset.write(uri, ROWS, "append"), theirs)]
    with_versions(foreign := new(), count, ours=False)
    # pylance has no such option: its time is that of an append without it. The first such write reads what other writers have made.
    after = new()
    shutil.copytree(foreign, after)
    Dataset.write(after, ROWS, "append", txn_app_id="another", txn_version=1)
    whats = (
        f"table of {count:,} versions",
        f"{count:,} versions of other writers",
        f"after one of another id, {count:,} versions of other writers",
    )
    for what, table in zip(whats, (old, foreign, after), strict=True):
        numbered = on_copies(table, lambda uri: Dataset.write(uri, ROWS, "append", txn_app_id="job", txn_version=1), theirs)
        yield [f"append with a new txnAppId ({what})", *numbered]


def _wide_reads(uri: str, columns: int) -> Iterator[list[str]]:
    Dataset.write(uri, pa.table({f"c{i}": pa.array(range(i, i + 100)) for i in range(columns)}))
    opens = [lambda: Dataset.open(uri).schema, lambda: lance.dataset(uri).schema]
    yield [f"open a table of {columns:,} columns", *milliseconds(opens, ROUNDS)]
    scans = [lambda: Dataset.open(uri).scan().to_table(), lambda: lance.dataset(uri).to_table()]
    yield [f"scan 100 rows of {columns:,} columns", *milliseconds(scans, ROUNDS)]
    takes = [lambda: Dataset.open(uri).take([42]), lambda: lance.dataset(uri).take([42])]
    yield [f"take a row of {columns:,} columns", *milliseconds(takes, ROUNDS)]


def _fragments(many: str, count: int) -> Iterator[list[str]]:
    _with_files(many, count)
    scans = [lambda: Dataset.open(many).scan().to_table(), lambda: lance.dataset(many).to_table()]
    yield [f"scan {count:,} fragments", *milliseconds(scans, ROUNDS)]
    yield [f"delete with a condition that matches nothing ({count:,} fragments)", *_deletes(many, "id = -1")]


def _deletes(table: str, condition: str) -> list[str]:
    return on_copies(table, lambda uri: Dataset.open(uri).delete(condition), lambda uri: lance.dataset(uri).delete(condition))


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with numbers in all columns except the first."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, ["---", *["---:"] * (len(heads) - 1)], *lines])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"all counts divided by {QUICK}")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        print(markdown(HEADS, list(growth(Path(folder), QUICK if quick else 1))))


if __name__ == "__main__":
    main()
