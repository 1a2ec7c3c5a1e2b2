"""The order of values in indexes, however many rows there are and whatever is known of the values."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError
from lance_spark.index import order
from tests.table.indexes.columns import table

TYPES = {
    "int8": st.integers(-128, 127),
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "uint64": st.integers(0, 2**64 - 1) | st.integers(2**63 - 2, 2**63 + 2),
    "bool": st.booleans(),
    "date32": st.dates(),
    "duration": st.integers(-(2**50), 2**50).map(lambda n: datetime.timedelta(microseconds=n)),
    "timestamp": st.datetimes(),
    "decimal": st.integers(-(10**20), 10**20).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    "string": st.text("ab\0é", max_size=40) | st.text("ab", max_size=3).map(lambda s: "abcdefgh" * 5 + s),
    "large_binary": st.binary(max_size=20),
}
ARROW = {"duration": pa.duration("us"), "timestamp": pa.timestamp("us"), "decimal": pa.decimal128(25, 2), "date32": pa.date32()}


@pytest.mark.matrix
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_values_are_sorted_and_equal_ones_stay_as_they_are(name: str, few: bool, data: st.DataObject) -> None:
    items = TYPES[name]
    if few:
        items = st.sampled_from(data.draw(st.lists(items, min_size=1, max_size=4)))
    values = pa.array(data.draw(st.lists(st.none() | items, max_size=60)), ARROW.get(name) or pa.type_for_alias(name)).slice(1)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(order, "_SAMPLE", 20)
        found = order.sort_order(values)
    expected = sorted(range(len(values)), key=lambda i: (values[i].is_valid, *([] if values[i].as_py() is None else [values[i].as_py()])))
    assert found.tolist() == expected


def test_floats_are_in_total_order_nans_with_a_sign_first() -> None:
    values = pa.array([np.nan, 0.0, -0.0, None, -np.inf, -np.nan, 1.0, np.inf, -1.0] * 2)
    found = values.take(pa.array(order.sort_order(values)))
    expected = [v for v in (np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan) for _ in range(2)]
    assert str(found.to_pylist()) == str([None] * 2 + expected)


def test_sorted_sources_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)

    def source(count: int, size: int) -> list[pa.RecordBatch]:
        values = pa.array(np.sort(rng.choice(1000, count, replace=False)).astype(str)).cast(pa.int64())
        return [
            pa.record_batch({"value": values.slice(i, size), "row": pa.array(range(i, min(i + size, count)))})
            for i in range(0, count, size)
        ]

    sources = [source(300, 7), source(1, 5), [], source(500, 100), source(200, 200)]
    batches = list(order.merged(sources))
    found = pa.concat_arrays([b.column(0) for b in batches]).to_pylist()
    assert found == sorted(v for s in sources for b in s for v in b.column(0).to_pylist())
    # A value is in one batch only.
    assert sum(len(b.column(0).unique()) for b in batches) == len(set(found))
    with pytest.raises(CorruptFileError, match="not in order"):
        list(order.merged([sources[0][::-1], sources[3]]))


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "LABEL_LIST", "NGRAM"])
def test_more_rows_than_are_sorted_in_memory_make_the_same_index(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    column = {"LABEL_LIST": "labels", "NGRAM": "text"}.get(kind, "double")
    made = Dataset.write(tmp_path, table(3000), max_rows_per_file=1000)

    def contents(name: str) -> list[pa.Table]:
        (index,) = [i for i in made.create_scalar_index(column, kind, name=name).snapshot.manifest.indexes if i.name == name]
        store, folder = made.snapshot.locations.index_folder(index)
        from lance_spark.index.files import IndexFiles

        files = IndexFiles(store, folder, made.snapshot.manifest.schema.fields[0], {})
        return [files.open(file.path).read([0, 1]) for file in index.files]

    whole = contents("whole")
    monkeypatch.setattr(order, "RUN_BYTES", 4000)
    monkeypatch.setattr("lance_spark.index.ngram._RUN_BYTES", 4000)
    monkeypatch.setattr("lance_spark.index.keyed_rows._PIECE_NUMBERS", 100)
    for a, b in zip(whole, contents("parts"), strict=True):
        # The rows of equal values may be in another order in a BTREE.
        assert a.column(0).equals(b.column(0)) or pc.all(pc.is_nan(a.column(0).filter(pc.not_equal(a.column(0), b.column(0))))).as_py()
        assert kind == "BTREE" or a.column(1).equals(b.column(1))
