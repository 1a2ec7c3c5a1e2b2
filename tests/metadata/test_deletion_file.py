"""Deletion files: both formats match pylance, and contradictions to the manifest are errors."""

import dataclasses
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError
from lance_spark.metadata.deletion_file import BITMAP_FROM, parse_arrow, parse_bitmap, read_deletions, serialise_deletions
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import open_snapshot

pytestmark = [pytest.mark.spec("table.md", "Deletion Files"), pytest.mark.spec("format-document.md", "Deletion")]


@pytest.mark.parametrize(("rows", "condition", "bitmap"), [(100, "a % 7 = 3", False), (20_000, "a % 2 = 1", True)])
def test_rows_that_pylance_deleted_are_deleted(tmp_path: Path, rows: Any, condition: Any, bitmap: Any) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(rows)}), uri)
    lance.dataset(uri).delete(condition)
    snapshot = open_snapshot(Store(uri))
    (fragment,) = snapshot.manifest.fragments
    assert fragment.deletion is not None
    assert fragment.deletion.is_bitmap == bitmap
    left = lance.dataset(uri).to_table()["a"].to_numpy()
    deleted = read_deletions(fragment, snapshot.locations)
    assert deleted.dtype == np.uint32
    assert np.array_equal(np.delete(np.arange(rows), deleted), left)

    assert fragment.deletion is not None
    more = dataclasses.replace(fragment, deletion=dataclasses.replace(fragment.deletion, num_deleted=1))
    with pytest.raises(CorruptFileError, match=r"expected 1 as in the manifest|expected at most 1"):
        read_deletions(more, snapshot.locations)
    with pytest.raises(CorruptFileError, match="but the fragment has only 5 rows"):
        read_deletions(dataclasses.replace(fragment, physical_rows=5), snapshot.locations)


def test_without_a_deletion_file_no_row_is_deleted() -> None:
    from lance_spark.metadata.fragment import Fragment
    from lance_spark.metadata.locations import Locations

    assert len(read_deletions(Fragment(0, (), 5), Locations(Store("/nowhere")))) == 0


@given(st.sets(st.integers(0, 2**32 - 1), max_size=50))
def test_few_offsets_come_back_from_an_arrow_file(offsets: Any) -> None:
    values = np.array(sorted(offsets), dtype=np.uint32)
    is_bitmap, data = serialise_deletions(values)
    assert not is_bitmap
    assert np.array_equal(parse_arrow(data), values)


@pytest.mark.parametrize("step", [1, 3, 70_000])
def test_many_offsets_come_back_from_a_bitmap(step: Any) -> None:
    values = np.arange(0, BITMAP_FROM * step, step, dtype=np.uint32)
    is_bitmap, data = serialise_deletions(values)
    assert is_bitmap
    assert np.array_equal(parse_bitmap(data), values)


def arrow_file(array: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("row_id", array.type)])) as writer:
        writer.write_batch(pa.record_batch([array], ["row_id"]))
    return bytes(sink.getvalue())


def test_offsets_may_be_unsorted_and_signed() -> None:
    assert parse_arrow(arrow_file(pa.array([5, 1, 3], pa.int32()))).tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ARROW1" + b"\0" * 50,
        arrow_file(pa.array(["x"])),
        arrow_file(pa.array([-1])),
        arrow_file(pa.array([2**32])),
        arrow_file(pa.array([1, None])),
    ],
)
def test_other_arrow_files_are_refused(data: Any) -> None:
    with pytest.raises(CorruptFileError):
        parse_arrow(data)


@given(st.binary(max_size=40) | st.binary(max_size=40).map(lambda b: b":0\0\0\1\0\0\0" + b))
def test_any_bytes_are_a_bitmap_or_corrupt(data: Any) -> None:
    try:
        offsets = parse_bitmap(data)
    except CorruptFileError:
        return
    assert (np.diff(offsets.astype(np.int64)) > 0).all()
