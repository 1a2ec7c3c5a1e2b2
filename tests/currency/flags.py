"""Feature flags: each one is set in the manifest of a table, which is then read and appended to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa

from lance_spark import Dataset
from lance_spark.metadata.manifest import describe
from tests.currency.table import attempt, change_manifest, new_table

_BITS = 20
_ROW = pa.table({"id": [3]})


def rows(folder: Path) -> list[list[str]]:
    """Each flag that pylance or ours accepts, and what each does with a table that has it for readers and writers, or for one of them."""
    found = [[describe(1 << bit), _accepted(folder, 1 << bit, True), _accepted(folder, 1 << bit, False)] for bit in range(_BITS)]
    return [row for row in found if row[1:] != ["refuses", "refuses"]]


def _accepted(folder: Path, flag: int, by_pylance: bool) -> str:
    both = _does(folder, flag, flag, by_pylance)
    half = [_does(folder, *flags, by_pylance) for flags in ((flag, 0), (0, flag))]
    return both if both == "refuses" or half != ["refuses"] * 2 else f"{both}; half of the pair is corrupt"


def _does(folder: Path, reader: int, writer: int, by_pylance: bool) -> str:
    uri = new_table(folder)
    change_manifest(uri, lambda manifest: replace(manifest, reader_flags=reader, writer_flags=writer))
    if attempt(lambda: lance.dataset(uri).to_table() if by_pylance else Dataset.open(uri).to_table()):
        return "refuses"
    failed = attempt(lambda: lance.write_dataset(_ROW, uri, mode="append") if by_pylance else Dataset.write(uri, _ROW, "append"))
    return "reads" if failed else "reads, writes"
