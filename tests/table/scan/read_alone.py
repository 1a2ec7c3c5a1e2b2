"""Fragments that are not read together: what must be returned for those that are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.table.scan import together


def plain(rows: pa.Table) -> pa.Table:
    """The rows without dictionaries, which may differ."""
    i = rows.schema.get_field_index("dictionary")
    return rows if i < 0 else rows.set_column(i, "dictionary", rows.column(i).cast(pa.string()))


def alone(uri: str, monkeypatch: pytest.MonkeyPatch, **scan: Any) -> pa.Table:
    """What a scan returns that reads each fragment by itself."""
    with monkeypatch.context() as patch:
        patch.setattr(together, "_MOST", 1)
        return Dataset.open(uri).scan(**scan).to_table()
