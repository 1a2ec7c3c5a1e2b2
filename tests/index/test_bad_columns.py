"""Index files with nulls, or columns of another type or order than expected: filters read the rows, and merging builds the index again."""

from __future__ import annotations

import logging
import resource
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from tests.index.bad_columns import Change, with_bad_column

ROWS = pa.table(
    {"k": [i % 20 for i in range(60)], "t": [f"abc def{i % 7}" for i in range(60)], "l": [[f"x{i % 5}"] for i in range(60)]},
)
FILTERS = {"NGRAM": ("t", "contains(t, 'abc')"), "LABEL_LIST": ("l", "array_contains(l, 'x0')")}
COLUMNS = (
    ("BTREE", "ids"),
    ("BTREE", "null_count"),
    ("BTREE", "page_idx"),
    ("BITMAP", "bitmaps"),
    ("LABEL_LIST", "bitmaps"),
    ("NGRAM", "tokens"),
    ("NGRAM", "posting_list"),
    ("ZONEMAP", "null_count"),
    ("ZONEMAP", "fragment_id"),
    ("BLOOMFILTER", "fragment_id"),
    ("BLOOMFILTER", "bloom_filter_data"),
)


def with_null(values: pa.Array) -> pa.Array:
    return pa.array([None, *values.to_pylist()[1:]], values.type)


def as_text(values: pa.Array) -> pa.Array:
    return pa.array([str(v) for v in values.to_pylist()])


def reversed_(values: pa.Array) -> pa.Array:
    return pa.array(values.to_pylist()[::-1], values.type)


CASES = [*((kind, name, change) for kind, name in COLUMNS for change in (with_null, as_text)), ("NGRAM", "tokens", reversed_)]


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "name", "change"), CASES)
def test_a_column_with_nulls_of_another_type_or_in_another_order_is_not_used(
    kind: str, name: str, change: Change, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    column, condition = FILTERS.get(kind, ("k", "k = 0"))
    bad = with_bad_column(Dataset.write(tmp_path, ROWS).create_scalar_index(column, kind), name, change)
    expected = bad.scan(filter=condition, use_scalar_index=False).to_table()
    assert expected.num_rows > 2
    with caplog.at_level(logging.WARNING):
        assert bad.scan(filter=condition).to_table() == expected
        assert bad.scan(filter=f"{column} IS NULL").to_table().num_rows == 0
    assert f"a segment of index '{column}_idx' is not used" in caplog.text
    Dataset.write(tmp_path, ROWS, mode="append")
    joined = Dataset.open(tmp_path).optimize.optimize_indices()
    assert joined.scan(filter=condition).to_table().num_rows == 2 * expected.num_rows
    assert f"{column}_idx ({kind})" in joined.scan(filter=condition).explain()


def _every_row(values: pa.Array) -> pa.Array:
    """Sets of all rows that there can be, of the fragments 0 and 1."""
    everything = BitMap(range(1 << 32)).serialize()
    entries = b"".join(struct.pack("<II", fragment, len(everything)) + everything for fragment in range(2))
    return pa.array([struct.pack("<I", 2) + entries] * len(values), values.type)


def _many_fragments(values: pa.Array) -> pa.Array:
    """Sets of all rows of many fragments, of which only one exists."""
    entries = b"".join(struct.pack("<II", fragment, 0) for fragment in range(1 << 14))
    return pa.array([struct.pack("<I", 1 << 14) + entries] * len(values), values.type)


@pytest.mark.matrix
@pytest.mark.parametrize("change", [_every_row, _many_fragments])
@pytest.mark.parametrize("life", ["addresses", "moved", "stable"])
@pytest.mark.parametrize("kind", ["BITMAP", "LABEL_LIST"])
def test_sets_of_billions_of_rows_are_not_expanded(kind: str, life: str, change: Change, tmp_path: Path) -> None:
    column, condition = FILTERS.get(kind, ("k", "k = 0"))
    table = Dataset.write(tmp_path, ROWS, max_rows_per_file=30, enable_stable_row_ids=life == "stable")
    bad = with_bad_column(table.create_scalar_index(column, kind), "bitmaps", change)
    if life == "moved":
        bad = bad.optimize.compact_files(defer_index_remap=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # An exact index is believed: there is nothing in it to tell wrong rows from right ones.
    assert bad.scan(filter=condition).to_table().num_rows <= ROWS.num_rows
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # KiB
