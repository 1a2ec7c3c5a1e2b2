"""Row ids from 2^63 on: `_rowid` has them, and the signed `_metadata.row_id` cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.row_columns import ROW_COLUMNS
from lance_spark.schema.schema import Schema
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.projection import Projection

COLUMNS = {field.name: Projection.of(Schema((field,))) for field in ROW_COLUMNS}


def reader(place: Path, fragment_id: int) -> FragmentReader:
    """The reader of two rows, whose addresses are their ids."""
    snapshot = Dataset.write(place, pa.table({"a": [1, 2]})).snapshot
    [fragment] = snapshot.manifest.fragments
    return FragmentReader(replace(fragment, id=fragment_id), snapshot.locations)


def test_the_largest_signed_ids_are_those_of_the_table(tmp_path: Path) -> None:
    (batch,) = reader(tmp_path / "t", 2**31 - 1).read(range(2), COLUMNS["_metadata"], 10)
    ids = [row["row_id"] for row in batch.column("_metadata").to_pylist()]
    assert ids == [(2**31 - 1) << 32, ((2**31 - 1) << 32) + 1]


def test_larger_ones_are_refused_by_name(tmp_path: Path) -> None:
    rows = reader(tmp_path / "t", 2**31)
    (batch,) = rows.read(range(2), COLUMNS["_rowid"], 10)
    assert batch.column("_rowid").to_pylist() == [2**63, 2**63 + 1]
    with pytest.raises(UnsupportedFeatureError, match=r"a value of _metadata\.row_id .* read _rowid"):
        list(rows.read(range(2), COLUMNS["_metadata"], 10))
