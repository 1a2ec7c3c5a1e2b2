"""The end of a legacy file is checked before it is used."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto import file_pb2
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file.data_file import open_data_file
from lance_spark.file.legacy import LegacyFile, read_legacy_file
from lance_spark.reading.steps import run
from lance_spark.storage.store import Store


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A legacy file of two batches: numbers, text, lists, dictionary values."""
    folder = tmp_path_factory.mktemp("legacy")
    table = pa.table({"i": range(30), "s": [str(i) for i in range(30)], "l": [[i] * (i % 3) for i in range(30)]})
    table = table.append_column("d", table["s"].dictionary_encode())
    lance.write_dataset(table, str(folder), data_storage_version="legacy", max_rows_per_group=20)
    (path,) = (folder / "data").iterdir()
    return path.read_bytes()


def opened(data: bytes) -> LegacyFile:
    array = np.frombuffer(data, dtype=np.uint8)
    return run(read_legacy_file(len(data)), lambda ranges: [array[start:stop] for start, stop in ranges])


def with_metadata(data: bytes, change: Callable[[file_pb2.Metadata], None]) -> bytes:
    """The file with other metadata appended, and a footer that refers to it."""
    (at,) = struct.unpack("<q", data[-16:-8])
    (length,) = struct.unpack("<I", data[at : at + 4])
    metadata = file_pb2.Metadata.FromString(data[at + 4 : at + 4 + length])
    change(metadata)
    body = metadata.SerializeToString()
    return data + struct.pack("<I", len(body)) + body + struct.pack("<q", len(data)) + data[-8:]


def test_schema_rows_and_pages_are_found(written: bytes) -> None:
    file = opened(written)
    assert file.schema.names == ["i", "s", "l", "d"]
    assert file.pages.num_rows == 30
    assert file.pages.bounds.tolist() == [0, 20, 30]
    assert opened(with_metadata(written, lambda m: None)).schema == file.schema


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: m.batch_offsets.__setitem__(0, 3), "expected batches that start at row 0"),
        (lambda m: m.batch_offsets.__setitem__(1, 31), "do not decrease"),
        (lambda m: m.batch_offsets.extend([30] * 100_000), "the page table of 5 fields"),
        (lambda m: setattr(m, "page_table_position", 2**62), "the page table of 5 fields"),
        (lambda m: setattr(m, "manifest_position", 2**62), "the metadata position"),
    ],
)
def test_false_metadata_is_found(written: bytes, change: Callable[[file_pb2.Metadata], None], complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        opened(with_metadata(written, change))


@pytest.mark.parametrize("kept", [0, 7, 15, 40])
def test_a_truncated_file_is_refused(written: bytes, kept: int) -> None:
    with pytest.raises(CorruptFileError):
        opened(written[:kept])


@given(data=st.data())
def test_any_changed_byte_gives_rows_or_our_error(written: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    changed = bytearray(written)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    folder: Path = tmp_path_factory.mktemp("changed")
    (folder / "x.lance").write_bytes(changed)
    try:
        reader = open_data_file(Store(str(folder)), "x.lance")
        for arrays in reader.read(reader.schema.fields, {}, range(min(reader.num_rows, 1000)), 7):
            for array in arrays:
                array.validate(full=True)
    except LanceError:
        pass
