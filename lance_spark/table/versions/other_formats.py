"""What a local folder without a Lance table holds instead, for messages. Object stores are not listed for this."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lance_spark.display.words import counted
from lance_spark.metadata.locations import VERSIONS
from lance_spark.storage.store import Store

_TABLES = {"_delta_log": "a Delta table", ".hoodie": "a Hudi table"}
_FILES = {".parquet": "Parquet", ".orc": "ORC", ".avro": "Avro"}
_READERS = {
    "Parquet files": "spark.read.parquet or pyarrow.parquet",
    "ORC files": "spark.read.orc",
    "CSV files": "spark.read.csv",
    "JSON files": "spark.read.json",
}
_LISTED = 200
"""The most folders that are looked at."""
_TEXTS = {".csv": "CSV", ".csv.gz": "CSV", ".json": "JSON", ".json.gz": "JSON", ".jsonl": "JSON"}


def other_format(store: Store) -> str:
    """A table of another format, such as "Parquet files"; "" if there is none. A Lance table must not be written among its files."""
    if store.location.kind != "file":
        return ""
    names = store.names("")
    if "metadata" in names and any(name.endswith(".metadata.json") for name in store.names("metadata")):
        return "an Iceberg table"
    if tables := [what for name, what in _TABLES.items() if name in names]:
        return tables[0]
    if files := _of_files(names, _FILES):
        return files
    return "folders of partitions of another format" if any("=" in name and not name.startswith(".") for name in names) else ""


def how_to_read(store: Store) -> str:
    """What the folder holds and how to read it, as the end of a message; "" if that is unknown."""
    what = other_format(store)
    if not what and store.location.kind == "file":
        what = _of_files(store.names(""), _TEXTS)
    if not what:
        return ""
    reader = _READERS.get(what, "the reader of that format")
    return f"; the folder holds {what}: read it with {reader}"


def tables_near(store: Store) -> str:
    """The tables in the folder, or beside it under a similar name, as the end of a message; "" if there are none, or in object stores."""
    if store.location.kind != "file":
        return ""
    folders = store.contents("")[1][:_LISTED]
    if inside := [name for name in folders if VERSIONS in store.names(name)]:
        return f"; the folder holds {counted(len(inside), 'table')}, such as {inside[0]!r}: add its name to the path"
    folder, _, name = store.uri.rstrip("/").rpartition("/")
    if not folder:
        return ""
    beside = store.at(folder)
    near = difflib.get_close_matches(name, beside.contents("")[1][:_LISTED], n=1)
    return f"; did you mean {near[0]!r}?" if near and VERSIONS in beside.names(near[0]) else ""


def _of_files(names: Sequence[str], endings: dict[str, str]) -> str:
    found = [kind for ending, kind in endings.items() if any(name.lower().endswith(ending) for name in names)]
    return f"{found[0]} files" if found else ""
