"""The memory that an Arrow file needs is known before it is read, even for hostile files."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError
from lance_spark.metadata.arrow_file import decoded_bytes
from lance_spark.metadata.deletion_file import parse_arrow


def arrow_file(batches: list[list[int]], compression: str | None = None) -> bytes:
    out, schema = io.BytesIO(), pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    with pa.ipc.new_file(out, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch([pa.array(batch, pa.uint32())], schema=schema))
    return out.getvalue()


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("batches", [[], [[]], [[1, 2, 3]], [list(range(5000)), [7] * 9000]], ids=len)
def test_the_size_is_that_of_the_decoded_buffers(batches: list[list[int]], compression: str | None) -> None:
    size = decoded_bytes(arrow_file(batches, compression))
    values = sum(4 * len(batch) for batch in batches)
    assert values <= size <= values + 64 * len(batches)


def test_oversized_files_are_refused_before_they_are_read() -> None:
    out, schema = io.BytesIO(), pa.schema([pa.field("row_id", pa.uint32())])
    with pa.ipc.new_file(out, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch([pa.array(np.zeros(1 << 25, np.uint32))], schema=schema))
    bomb = out.getvalue()
    assert len(bomb) < 10_000
    with pytest.raises(CorruptFileError, match="134217728 bytes of row numbers, too many for 9 deleted rows"):
        parse_arrow(bomb, 9)


GOOD = arrow_file([[1, 2, 3], list(range(100))], "zstd")


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=8))
def test_any_bytes_are_read_or_refused(at: int, change: bytes) -> None:
    for data in (GOOD[:at] + change + GOOD[at + len(change) :], GOOD[:at], GOOD[-at:]):
        for read in (decoded_bytes, parse_arrow):
            try:
                read(data)
            except CorruptFileError:
                continue
