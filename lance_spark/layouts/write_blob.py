"""Pages of blob columns, from arrays of descriptors. Spec: file_encoding.md, "Blob Page Layout"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.buffers.blocks import FixedWidth, PackedStruct, split_evenly
from lance_spark.encodings import packed_struct
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts.levels.shred import shred
from lance_spark.layouts.mini_block import write as write_mini_block
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.version_grammar import Grammar
from lance_spark.layouts.values.to_arrow import BLOB_V1, BLOB_V2
from lance_spark.layouts.write_page import encode_pages
from lance_spark.schema.schema import PACKED, Field, from_arrow

_DESCRIPTORS_PER_CHUNK = 256
"""A descriptor has 16 bytes, so a chunk has 4 KiB."""


def _packed(t: pa.StructType) -> Field:
    return from_arrow(pa.schema([pa.field("descriptors", t, metadata={PACKED[0]: b"true"})])).fields[0]


_PLACES_1, _PLACES_2 = _packed(BLOB_V1), _packed(BLOB_V2)


def encode_blob_pages(field: Field, array: pa.Array, grammar: Grammar) -> list[EncodedPage]:
    """The pages of the blob column `field`; `array` has structs of type BLOB_V1 or BLOB_V2 as its values."""
    if grammar.blob_structs:
        return encode_pages(_PLACES_2, array, grammar)
    page = shred(_PLACES_1, array)
    if page.repetition is not None:
        raise UnsupportedFeatureError(f"column {field.name!r}: lists of blobs are not supported")
    count = page.num_events
    places, sizes = np.zeros((2, count), np.uint64)
    if isinstance(page.values, PackedStruct):
        places, sizes = (child.view(np.uint64) for child in page.values.children if isinstance(child, FixedWidth))
    if page.definition is not None:
        null = page.definition > 0
        levels = page.definition.astype(np.uint64) << np.uint64(16)
        places, sizes = np.where(null, levels, places), np.where(null, np.uint64(0), sizes)
    block = PackedStruct(tuple(FixedWidth(64, np.ascontiguousarray(column).view(np.uint8), count) for column in (places, sizes)))
    plain = replace(page, layers=(pb.REPDEF_ALL_VALID_ITEM,), definition=None, max_visible=0, num_visible=count, values=block)
    chunks = packed_struct.encode_chunks(block, split_evenly(count, _DESCRIPTORS_PER_CHUNK))
    inner = write_mini_block.encode(plain, chunks, None, grammar)
    layout = pb.BlobLayout(inner_layout=pb.PageLayout.FromString(inner.encoding), layers=page.layers)  # type: ignore[arg-type]
    return [EncodedPage.of(pb.PageLayout(blob_layout=layout), inner.buffers, page.num_rows, grammar)]
