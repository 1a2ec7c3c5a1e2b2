"""The option write_order sorts rows as they are written, in portions that fit in memory."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.schema.schema import from_arrow
from lance_spark.table.write import order
from lance_spark.table.write.order import Portions, order_of


def test_rows_are_sorted_by_several_columns(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"a": [3, 1, None, 2, 1], "s": [{"t": "x"}, {"t": "y"}, None, {"t": None}, {"t": "b"}]})
    Dataset.write(uri, rows, write_order=["a", "s.t"])
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [None, 1, 1, 2, 3]
    assert [s and s["t"] for s in lance.dataset(uri).to_table()["s"].to_pylist()] == [None, "b", "y", None, "x"]


@pytest.mark.parametrize(
    "values",
    [
        [2.5, float("nan"), None, float("-inf"), 1.0],
        [True, None, False],
        [dt.datetime(2020, 1, 1), dt.datetime(1900, 1, 1), None],
        [Decimal("1.50"), Decimal("-7.25"), None],
        [b"b", None, b"", b"a"],
        ["é", "", None, "z", "a"],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_nulls_are_first_and_nan_is_last(tmp_path: Path, values: list[Any]) -> None:
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"c": values}), write_order=["c"])
    known = sorted(v for v in values if v is not None and v == v)
    expected = [*(v for v in values if v is None), *known, *(v for v in values if v != v)]
    assert str(Dataset.open(uri).to_table()["c"].to_pylist()) == str(expected)


def test_memory_holds_a_portion_and_what_is_sorted_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "PORTION_BYTES", 8000)
    schema = pa.schema({"x": pa.int64()})
    path = order_of(from_arrow(schema), ["x"])
    batches = [pa.record_batch({"x": np.arange(500) * step % 1000}) for step in (1, 7, 11, 1)]
    portions = Portions(path)
    assert not [*portions.add(batches[0])]
    [first] = portions.add(batches[1])
    assert first["x"].to_pylist() == sorted(batches[0]["x"].to_pylist() + batches[1]["x"].to_pylist()), "two batches are a portion"
    rest = [*portions.add(batches[2]), *portions.add(batches[3]), *portions.rest()]
    assert sum(rows.num_rows for rows in rest) == 1000
    sorted_already = pa.record_batch({"x": np.arange(500)})
    assert not [*portions.add(sorted_already)]
    [same] = portions.rest()
    assert same["x"].buffers()[1].address == sorted_already["x"].buffers()[1].address


def test_an_append_without_the_column_is_sorted_by_the_others(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"a": [1], "b": [1]}))
    done = Dataset.write(uri, pa.table({"b": [3, 2]}), mode="append", write_order=["a", "b"])
    assert done.to_table()["b"].to_pylist() == [1, 2, 3]


def test_columns_without_an_order_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    uri, rows = str(tmp_path / "t.lance"), pa.table({"id": [1], "v": [[1, 2]]})
    for column, message in (("nothing", "write_order: no column 'nothing'"), ("v", "cannot be sorted by column 'v'")):
        with pytest.raises(InvalidOptionError, match=message):
            Dataset.write(uri, rows, write_order=[column])
    with pytest.raises(TypeError, match="not text"):
        Dataset.write(uri, rows, write_order="id")
    assert not Path(uri).exists()
