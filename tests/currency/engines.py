"""`python -m tests.currency.engines`: other engines read tables of lance-spark; compare what they find with docs/currency.md.

`make engines` runs it where the engines are installed. With `--write`, it writes their part of the page instead.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_spark import Dataset

PAGE = Path(__file__).parents[2] / "docs" / "currency.md"
TITLE = "## Other engines\n"
HEAD = f"""{TITLE}
`make engines` has found this in an environment with these packages: each engine opens tables of lance-spark in every storage
version, with several fragments, deleted and updated rows and an index, counts their rows and finds one by a condition.

| engine | packages | reads tables of | by |
| --- | --- | --- | --- |
"""
NOT_TRIED = "| DuckDB's extension `lance` | none: it is downloaded from DuckDB's own site | not tried | its own reader |\n"
STORAGE_VERSIONS = ("2.0", "2.1", "2.2", "2.3")
EXPECTED = (90, "new")
"""The number of rows, and the text of row 50."""


def part_of(page: str) -> str:
    """The part of the page about engines."""
    return page[page.index(TITLE) :] if TITLE in page else ""


def make(folder: Path, storage_version: str) -> Path:
    """A table that has been changed in every way."""
    rows = pa.table({"id": range(100), "text": [f"t{i}" for i in range(100)]})
    path = folder / f"v{storage_version.replace('.', '_')}.lance"
    table = Dataset.write(path, rows.slice(0, 80), max_rows_per_file=30, data_storage_version=storage_version)
    table.insert(rows.slice(80)).delete("id < 10").update({"text": "'new'"}, "id = 50").create_scalar_index("id", "BTREE")
    return path


def lancedb(path: Path) -> tuple[int, str]:
    table = _module("lancedb").connect(path.parent).open_table(path.stem)
    return table.count_rows(), table.search().where("id = 50").to_arrow()["text"][0].as_py()


def daft(path: Path) -> tuple[int, str]:
    frame = _module("daft").read_lance(str(path))
    return frame.count_rows(), frame.where(_module("daft").col("id") == 50).to_pydict()["text"][0]


def ray(path: Path) -> tuple[int, str]:
    ray = _module("ray")
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False, ignore_reinit_error=True)
    rows = ray.data.read_lance(str(path))
    return rows.count(), rows.filter(expr="id == 50").take_all()[0]["text"]


def duckdb(path: Path) -> tuple[int, str]:
    rows = Dataset.open(path).to_arrow_dataset()
    connection = _module("duckdb").connect()
    connection.register("rows", rows)
    (found,) = connection.sql("SELECT (SELECT count(*) FROM rows), text FROM rows WHERE id = 50").fetchall()
    return found[0], found[1]


def ibis(path: Path) -> tuple[int, str]:
    connection = _module("duckdb").connect()
    connection.register("rows", Dataset.open(path).to_arrow_dataset())
    rows = _module("ibis").duckdb.from_connection(connection).table("rows")
    return int(rows.count().execute()), rows.filter(rows.id == 50).text.execute()[0]


def polars(path: Path) -> tuple[int, str]:
    pl, frame = _module("polars"), importlib.import_module("lance_spark.polars").scan_lance(path)
    return frame.select(pl.len()).collect().item(), frame.filter(pl.col("id") == 50).collect()["text"][0]


Read = Callable[[Path], tuple[int, str]]
ENGINES: dict[str, tuple[Read, tuple[str, ...], str]] = {
    "LanceDB": (lancedb, ("lancedb",), "its own reader in Rust"),
    "Daft": (daft, ("daft", "daft-lance"), "its own reader in Rust"),
    "Ray Data": (ray, ("ray", "pylance"), "pylance"),
    "DuckDB": (duckdb, ("duckdb",), "`Dataset.to_arrow_dataset()`"),
    "ibis": (ibis, ("ibis-framework", "duckdb"), "DuckDB, of `Dataset.to_arrow_dataset()`"),
    "polars": (polars, ("polars",), "`lance_spark.polars.scan_lance`"),
}
"""How an engine reads a table, its packages, and what reads the files."""


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _read(read: Read, path: Path) -> str:
    """ "" if the rows are right, else what is wrong."""
    try:
        found = read(path)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # noqa: BLE001
        return f"{type(e).__name__}: {e}"
    return "" if found == EXPECTED else f"other rows: {found}"


def lines(paths: dict[str, Path]) -> Iterable[str]:
    """A line for each engine."""
    for name, (read, packages, reader) in ENGINES.items():
        try:
            installed = ", ".join(f"{package} {version(package)}" for package in packages)
        except PackageNotFoundError as e:
            raise SystemExit(f"{e.name} is not installed: run `make engines`") from None
        wrong = {storage_version: _read(read, path) for storage_version, path in paths.items()}
        for storage_version, said in wrong.items():
            if said:
                print(f"{name}, {storage_version}: {said}", file=sys.stderr)
        right = [storage_version for storage_version, said in wrong.items() if not said]
        yield f"| {name} | {installed} | {', '.join(right) or 'none'} | {reader} |\n"


def main() -> int:
    """Return 0 if the page is up to date or was written."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {storage_version: make(Path(folder), storage_version) for storage_version in STORAGE_VERSIONS}
        found = HEAD + "".join(lines(paths)) + NOT_TRIED
    page = PAGE.read_text()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page.removesuffix(part_of(page)).rstrip("\n") + "\n\n" + found)
        return 0
    print(found)
    if found != part_of(page):
        print("docs/currency.md is out of date: decide what to do about it, then `make engines ENGINES=--write`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
