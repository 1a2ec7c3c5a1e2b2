"""Value buffers of pages that pylance wrote, extracted by a minimal reader for these tests."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
from google.protobuf.any_pb2 import Any
from lance.file import LanceFileWriter

from lance_spark._proto import encodings_v2_1_pb2, encodings_v2_3_pb2, file2_pb2
from lance_spark.buffers.blocks import Chunks, Encoding, FixedWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.encodings.tree import decode_message


def value_chunks(folder: Path, array: pa.Array, version: str, metadata: dict[str, str] | None = None) -> tuple[Encoding, Chunks]:
    """The encoding and the chunks of `array`, which has no nulls and no lists, in a file of one page written by pylance.

    `metadata` is of the field, without "lance-encoding:" before the keys.
    """
    message, buffers = _only_page(folder, array, version, metadata or {})
    meta, stored = buffers[:2]
    if version == "2.3":
        chunked = encodings_v2_3_pb2.PlanarLayout.FromString(message).values.chunked
        encoding, num_items = chunked.value, chunked.num_items
    else:
        layout = encodings_v2_1_pb2.PageLayout.FromString(message).mini_block_layout
        encoding, num_items = layout.value_compression, layout.num_items
    node = decode_message(encoding)
    return node, _chunks(meta.view(np.uint16 if version == "2.1" else np.uint32), stored, node.num_buffers, num_items)


def zipped_values(folder: Path, array: pa.Array, version: str) -> tuple[Encoding, FixedWidth]:
    """The encoding and the values of `array`, which has no nulls and no lists, in a full-zip page of fixed width (2.1 or 2.2)."""
    message, buffers = _only_page(folder, array, version, {"structural-encoding": "fullzip"})
    layout = encodings_v2_1_pb2.PageLayout.FromString(message).full_zip_layout
    assert layout.bits_def == layout.bits_rep == 0
    return decode_message(layout.value_compression), FixedWidth(layout.bits_per_value, buffers[0], layout.num_items)


def _only_page(folder: Path, array: pa.Array, version: str, metadata: dict[str, str]) -> tuple[bytes, list[Bytes]]:
    """The layout message and the buffers of the only page."""
    path = folder / "file.lance"
    settings = {f"lance-encoding:{key}": value for key, value in metadata.items()}
    schema = pa.schema([pa.field("c", array.type, nullable=array.null_count > 0, metadata=settings)])
    with LanceFileWriter(str(path), schema, version=version) as writer:
        writer.write_batch(pa.table({"c": array}, schema=schema))
    data = np.fromfile(path, np.uint8)
    data.flags.writeable = False
    metadata_offset, offset_table = struct.unpack("<2Q", data[-40:-24].tobytes())
    size = struct.unpack("<2Q", data[offset_table : offset_table + 16].tobytes())[1]
    column = file2_pb2.ColumnMetadata.FromString(data[metadata_offset : metadata_offset + size].tobytes())
    (page,) = column.pages
    message = Any.FromString(page.encoding.direct.encoding).value
    return message, [data[start : start + size] for start, size in zip(page.buffer_offsets, page.buffer_sizes)]


def _chunks(words: np.ndarray, stored: np.ndarray, num_buffers: int, num_items: int) -> Chunks:
    """The chunks in `stored`: u16 number of levels (0), the size of each buffer, padding to 8; the buffers, each padded to 8."""
    ends = np.cumsum((words.astype(np.int64) >> 4) * 8 + 8)
    counts = 1 << (words.astype(np.int64) & 15)
    counts[-1] = num_items - counts[:-1].sum()
    width = words.itemsize
    starts, sizes = (np.empty((num_buffers, len(words)), np.int64) for _ in range(2))
    for chunk, start in enumerate([0, *ends[:-1].tolist()]):
        assert stored[start : start + 2].view(np.uint16)[0] == 0
        sizes[:, chunk] = stored[start + 2 : start + 2 + width * num_buffers].view(words.dtype)
        start += -(-(2 + width * num_buffers) // 8) * 8
        for buffer in range(num_buffers):
            starts[buffer, chunk] = start
            start += -(-int(sizes[buffer, chunk]) // 8) * 8
        assert start == ends[chunk]
    return Chunks(stored, starts, sizes, counts)
