"""Invalid descriptors of blobs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_spark.layouts.nodes.page_layouts import Blob, Constant, Dense, Layer
from lance_spark.layouts.read_blob import ExternalRange, ManagedRange, SidecarRange, described, load, locate, place
from lance_spark.layouts.values.to_arrow import BLOB_V1, BLOB_V2
from lance_spark.reading.steps import run
from lance_spark.schema.blobs import BlobKind
from lance_spark.schema.schema import Field, from_arrow

PATH = (Field("b", 0, "blob"),)
ITEM, NULLABLE, LIST = Layer(False, 0, 0), Layer(False, 1, 0), Layer(True, 0, 0)
INNER = Constant(Dense((ITEM,)), None, None, None, 0, 0)


def version_2(**changes: Any) -> pa.Array:
    return pa.array([{"kind": BlobKind.INLINE, "position": 0, "size": 1, "blob_id": 0, "blob_uri": "", **changes}], BLOB_V2)


@pytest.mark.parametrize(
    ("descriptors", "error", "complaint"),
    [
        (version_2(kind=9), UnsupportedFeatureError, "a blob of kind 9"),
        (version_2(position=2**62), CorruptFileError, "a blob is beyond the end of any file"),
        (version_2(size=2**62), CorruptFileError, "a blob is beyond the end of any file"),
        (pa.array([{"position": 2**63, "size": 1}], BLOB_V1), CorruptFileError, "a blob is beyond the end of any file"),
    ],
)
def test_invalid_descriptors_are_refused(descriptors: pa.Array, error: type[LanceError], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        run(load(PATH, descriptors), lambda ranges: [])


def test_descriptors_of_one_version_are_not_shown_as_the_other() -> None:
    with pytest.raises(CorruptFileError, match="expected blobs of the column's version"):
        described(version_2(), BLOB_V1)


def test_descriptors_are_returned_on_request() -> None:
    kinds = from_arrow(pa.schema([pa.field("b", BLOB_V1)])).fields[0].children
    field = Field("b", 0, "struct", children=kinds, descriptors=True)
    stored = pa.array([{"position": 7, "size": 1}, {"position": 9, "size": 2}], BLOB_V1)
    assert run(load((field,), stored), lambda ranges: []).to_pylist() == stored.to_pylist()


def test_blobs_are_read_from_the_data_file_sidecars_and_uris() -> None:
    where = ByteRange(2, 5)
    assert place(where, BlobKind.INLINE, 0, "") is where
    beside, outside = place(where, BlobKind.PACKED, 7, ""), place(where, BlobKind.EXTERNAL, 3, "b/x")
    assert isinstance(beside, SidecarRange)
    assert (beside, beside.blob_id) == ((2, 5), 7)
    assert isinstance(outside, ExternalRange)
    managed = place(where, BlobKind.MANAGED, 0, "_blobs/x.blob")
    assert isinstance(managed, ManagedRange)
    assert (managed, managed.uri) == ((2, 5), "_blobs/x.blob")
    assert (outside, outside.uri, outside.base_id) == ((2, 5), "b/x", 3)


def test_positions_of_empty_blobs_of_version_1_are_their_levels() -> None:
    stored = pa.array([{"position": 9, "size": 3}, {"position": 1 << 16, "size": 0}, {"position": 0, "size": 0}], BLOB_V1)
    assert locate(Blob(Dense((NULLABLE,)), INNER), stored, PATH).is_valid().to_pylist() == [True, False, True]
    with pytest.raises(UnsupportedFeatureError, match="lists of blobs"):
        locate(Blob(Dense((ITEM, LIST)), INNER), stored, PATH)
    with pytest.raises(CorruptFileError, match="definition level 65536"):
        locate(Blob(Dense((NULLABLE,)), INNER), pa.array([{"position": 1 << 32, "size": 0}], BLOB_V1), PATH)
