"""Vendored tables and a corpus: `NAME.lance`, and `NAME.json` with a description and the location of its expected rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from lance_spark.dataset import Dataset
from lance_spark.metadata.operations import Project
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.snapshot import open_snapshot


@dataclass(frozen=True)
class Case:
    """One version (None: the latest) of a table, and the file with its expected rows; `row_columns` if that has row ids or versions too."""

    table: Path
    version: int | None
    expected: Path
    row_columns: bool = False

    @property
    def id(self) -> str:
        """A name for test reports."""
        return self.table.stem + ("" if self.version is None else f"@{self.version}") + ("-row-columns" if self.row_columns else "")

    def check(self) -> None:
        """Read the version and compare names, types, rows and their order."""
        with pa.ipc.open_file(self.expected) as reader:
            expected = reader.read_all()
        dataset = Dataset.open(str(self.table), version=self.version)
        got = dataset.scan(expected.schema.names if self.row_columns else None).to_table()
        assert [(f.name, f.type) for f in got.schema] == [(f.name, f.type) for f in expected.schema]
        assert dataset.count_rows() == got.num_rows == expected.num_rows
        for name in expected.schema.names:
            a, b = got[name].combine_chunks(), expected[name].combine_chunks()
            a.validate(full=True)
            if not a.equals(b):
                assert_same(plain(a), plain(b), name)


def plain(array: pa.Array) -> list[object]:
    """The values as Python objects, or as text if Python has no type for them."""
    try:
        return list(array.to_pylist())
    except ValueError:
        return [str(value) for value in array]


def assert_same(a: object, b: object, where: str) -> None:
    """Equal in type and value, NaN equal to NaN and -0.0 different from 0.0."""
    assert type(a) is type(b), where
    if isinstance(a, float) and isinstance(b, float):
        assert (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b)), f"{where}: {a} != {b}"
    elif isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert a == b, where


def cases(folder: Path) -> Iterator[Case]:
    """Every version with expected rows of every table in a folder."""
    for path in sorted(folder.glob("*.json")):
        about = json.loads(path.read_text())
        table = path.with_suffix(".lance")
        yield Case(table, None, folder / about["expected"])
        for version, expected in about.get("expected_versions", {}).items():
            yield Case(table, int(version), folder / expected)
        for key in ("lineage_expected", "row_ids_expected"):
            if key in about:
                yield Case(table, None, folder / about[key], row_columns=True)


def rename_column(uri: str, name: str, new: str) -> None:
    """Rename a column to a name that is refused now, which older versions of the package, and others, have permitted."""
    table = open_snapshot(Store(uri))
    fields = tuple(replace(f, name=new) if f.name == name else f for f in table.manifest.schema.fields)
    commit(table.store, Transaction(table.version, Project(replace(table.manifest.schema, fields=fields))), base=table)
