"""The end of a file: positions are checked, and all damage is found."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark._proto import file2_pb2, file_pb2
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file.footer import FOOTER, Descriptor, Footer, file_version, read_columns, read_descriptor, read_footer
from lance_spark.reading.steps import Column, Steps, run
from tests.layouts.data import written_by_pylance
from tests.sample import examples

pytestmark = pytest.mark.spec("format-document.md", "File Version")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file of two columns."""
    folder = tmp_path_factory.mktemp("footer")
    written_by_pylance(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}), folder / "t.lance", "2.1")
    (path,) = (folder / "t.lance" / "data").iterdir()
    return Path(path).read_bytes()


T = TypeVar("T")


def read(data: bytes, steps: Steps[T]) -> T:
    array = np.frombuffer(data, np.uint8)

    def fetch(ranges: Sequence[ByteRange]) -> list[Bytes]:
        for start, stop in ranges:
            assert 0 <= start <= stop <= len(data)
        return [array[start:stop] for start, stop in ranges]

    return run(steps, fetch)


def everything(size: int) -> Steps[tuple[Footer, Descriptor, list[Column]]]:
    footer = yield from read_footer(size)
    descriptor = yield from read_descriptor(footer)
    columns = yield from read_columns(footer, range(footer.num_columns))
    return footer, descriptor, columns


def test_files_of_pylance_are_parsed(file: bytes) -> None:
    footer, descriptor, columns = read(file, everything(len(file)))
    assert footer.version == file_version(np.frombuffer(file, np.uint8)) == (2, 1)
    assert (descriptor.num_rows, descriptor.schema.names) == (3, ["a", "b"])
    assert [[(p.first_row, p.num_rows, p.encoding_type) for p in c.pages] for c in columns] == [
        [(0, 3, "lance.encodings21.PageLayout")]
    ] * 2
    assert all(b.stop <= len(file) for c in columns for p in c.pages for b in p.buffers)


@settings(max_examples=examples(300))
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.integers(0, 60))
def test_a_damaged_file_is_refused_or_asks_for_nothing_beyond_its_end(file: bytes, position: int, value: int, cut: int) -> None:
    data = bytearray(file[: len(file) - cut] if cut < 50 else file)
    data[position % len(data)] = value
    with contextlib.suppress(LanceError, DecodeError):  # the reader makes a CorruptFileError of the latter
        read(bytes(data), everything(len(data)))


@pytest.mark.parametrize("field", range(1, 5))
def test_tables_beyond_the_file_are_refused(file: bytes, field: int) -> None:
    parts = list(FOOTER.unpack(file[-FOOTER.size :]))
    parts[field] = 2**32 - 1
    with pytest.raises(CorruptFileError, match="overlaps the footer"):
        read(file[: -FOOTER.size] + FOOTER.pack(*parts), read_footer(len(file)))


@pytest.mark.parametrize("entry", [(2**64 - 1, 16), (0, 2**64 - 1), (2**63, 2**63)])
def test_metadata_beyond_the_file_is_refused(file: bytes, entry: tuple[int, int]) -> None:
    table = FOOTER.unpack(file[-FOOTER.size :])[1]
    data = file[:table] + struct.pack("<QQ", *entry) + file[table + 16 :]
    with pytest.raises(CorruptFileError, match="metadata of column 0"):
        read(data, read_footer(len(data)))


@pytest.mark.parametrize("data", [b"", b"LANC", b"x" * 40, b"x" * 36 + b"PAR1"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        read(data, read_footer(len(data)))


def test_a_column_that_does_not_exist_is_refused(file: bytes) -> None:
    footer = read(file, read_footer(len(file)))
    with pytest.raises(CorruptFileError, match="column 2"):
        read(file, read_columns(footer, [2]))


def test_the_footer_and_the_columns_of_early_2024_are_understood() -> None:
    """A footer of 48 bytes, with the position of the schema between those of the two tables; pages have no priority."""
    page = file2_pb2.ColumnMetadata.Page(buffer_offsets=[0], buffer_sizes=[16], length=2)
    column = file2_pb2.EarlyColumnMetadata(pages=[page, page]).SerializeToString()
    schema = file_pb2.FileDescriptor(length=4).SerializeToString()
    columns_at = 16 + len(column)
    schema_at = columns_at + 16
    buffers_at = schema_at + len(schema)
    data = bytes(16) + column + struct.pack("<QQ", 16, len(column)) + schema + struct.pack("<QQ", schema_at, len(schema))
    data += struct.pack("<QQQQIIHH4s", 16, columns_at, schema_at, buffers_at, 1, 1, 0, 3, b"LANC")
    footer, descriptor, columns = read(data, everything(len(data)))
    assert (footer.version, footer.early, descriptor.num_rows) == ((0, 3), True, 4)
    assert [(p.first_row, p.num_rows, p.buffers) for p in columns[0].pages] == [(0, 2, ((0, 16),)), (2, 2, ((0, 16),))]
