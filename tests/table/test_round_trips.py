"""Tables of any nesting and with encoding options, written by one library and read by both.

HYPOTHESIS_PROFILE=full tries twenty times as many as the default, over 2,000 in all.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lance_spark import Dataset
from tests.arrays import ArrayMaker, types
from tests.layouts.data import marked
from tests.rows import assert_same_values, values_in_nulls
from tests.v2_0.files import without_struct_nulls

pytestmark = pytest.mark.spec("table.md", "Fragments")

VERSIONS = ["2.0", "2.1", "2.2", "2.3"]
EXAMPLES = settings().max_examples * 4 // 10
SIZES = [0, 1, 2, 7, 1023, 1024, 1025, 4095, 4096, 4097]
WISHES = {
    "compression": ["none", "zstd", "lz4", "fsst"],
    "compression-level": ["1", "9"],
    "rle-threshold": ["0", "0.2", "1"],
    "bss": ["off", "on", "auto"],
    "dict-values-compression": ["none", "lz4", "zstd"],
    "structural-encoding": ["miniblock", "fullzip", "sparse"],
    "minichunk-size": ["64", "1024"],
}


def deep_types(*, maps: bool) -> st.SearchStrategy[pa.DataType]:
    """Types nested to depth 4."""
    inner = types(maps=maps)
    return st.one_of(inner, inner.map(pa.list_), inner.map(lambda t: pa.struct([("only", t)])))


@st.composite
def tables(draw: st.DrawFn, version: str) -> pa.Table:
    """One column of any type with a few options, and the number of each row."""
    wishes = draw(st.dictionaries(st.sampled_from(sorted(WISHES)), st.integers(0, 3), max_size=3))
    metadata = {f"lance-encoding:{name}": WISHES[name][n % len(WISHES[name])] for name, n in wishes.items()}
    if version < "2.3" and metadata.get("lance-encoding:structural-encoding") == "sparse":
        metadata = {}
    t, count = draw(deep_types(maps=version >= "2.2")), draw(st.sampled_from(SIZES))
    maker = ArrayMaker(
        draw(st.integers(0, 2**32)),
        draw(st.sampled_from([0, 0, 0.02, 0.4, 1])),
        draw(st.integers(0, 2)),
        draw(st.sampled_from([12, 12, 300, 32 << 10 if count < 10 else 40])),
    )
    column = maker.sliced(t, count)
    if version == "2.0":
        column = without_struct_nulls(column)
    field = marked(pa.field("c", column.type), metadata)
    return pa.table([column, np.arange(count)], schema=pa.schema([field, ("row", pa.int64())]))


def assert_same_table(got: pa.Table, expected: pa.Table) -> None:
    assert got.schema.names == expected.schema.names
    for name in expected.schema.names:
        assert_same_values(got[name].combine_chunks(), expected[name].combine_chunks())


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_both_libraries_read_what_we_write(version: str, data: st.DataObject) -> None:
    table = data.draw(tables(version))
    rows = data.draw(st.sampled_from([700, 10_000]))
    with TemporaryDirectory() as folder:
        batches = table.to_batches(max_chunksize=rows) or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        dataset = Dataset.write(folder, batches, data_storage_version=version, max_rows_per_file=3000)
        theirs = lance.dataset(folder)
        theirs.validate()
        assert_same_table(dataset.scan().to_table(), table)
        seen = theirs.to_table()
        assert_same_table(seen, table)
        assert not values_in_nulls(seen["c"].combine_chunks())
        _assert_some_rows(dataset, table, data)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_what_pylance_writes_we_read(version: str, data: st.DataObject) -> None:
    table = data.draw(tables(version))
    with TemporaryDirectory() as folder:
        assume(_written_by_pylance(table, folder, version))
        dataset = Dataset.open(folder)
        assert_same_table(dataset.scan(batch_size=data.draw(st.sampled_from([None, 500]))).to_table(), table)
        _assert_some_rows(dataset, table, data)


def _written_by_pylance(table: pa.Table, folder: str, version: str) -> bool:
    """True if pylance could write the table: it does not support some options for some types."""
    # It panics about structs in structs that are slices of others; a concatenation starts at 0.
    columns = [pa.concat_arrays(column.chunks) if column.num_chunks else column for column in table.columns]
    table = pa.table(columns, schema=table.schema)
    try:
        lance.write_dataset(table, folder, data_storage_version=cast(Any, version), max_rows_per_file=3000)
    except (OSError, ValueError):
        return False
    return True


def _assert_some_rows(dataset: Dataset, table: pa.Table, data: st.DataObject) -> None:
    """Check rows from `take` and rows from a filter."""
    if not table.num_rows:
        return
    numbers = data.draw(st.lists(st.integers(0, table.num_rows - 1), min_size=1, max_size=5))
    taken = dataset.take(numbers)
    assert taken["row"].to_pylist() == numbers
    assert_same_values(taken["c"].combine_chunks(), pa.concat_arrays([table["c"].combine_chunks().slice(n, 1) for n in numbers]))
    start = numbers[0]
    left = dataset.scan(filter=f"row >= {start} AND row < {start + 10}").to_table()
    assert_same_table(left, table.slice(start, 10))


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_of_more_than_a_page_are_read_back(version: str, tmp_path: Path) -> None:
    maker, count = ArrayMaker(3, 0.1, 2, 40), 600_000
    types_ = {"number": pa.int64(), "text": pa.string(), "list": pa.list_(pa.int32()), "vector": pa.list_(pa.float32(), 16)}
    table = pa.table({name: maker.array(t, count) for name, t in types_.items()})
    ours = Dataset.write(str(tmp_path / "ours"), table, data_storage_version=version)
    theirs = lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=cast(Any, version))
    assert_same_table(lance.dataset(ours.uri).to_table(), table)
    assert_same_table(ours.scan().to_table(), table)
    assert_same_table(Dataset.open(theirs.uri).scan().to_table(), table)
