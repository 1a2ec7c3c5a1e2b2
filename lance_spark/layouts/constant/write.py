"""Constant pages: only nulls, or (since 2.2) one value for all slots. Spec: file_encoding.md, "Constant Page Layout"."""

from __future__ import annotations

import numpy as np

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23
from lance_spark.buffers.blocks import FixedWidth, VariableWidth
from lance_spark.encodings.tree import encode_message
from lance_spark.layouts.choose.encoding import MAX_INLINE
from lance_spark.layouts.levels import write_sparse
from lance_spark.layouts.levels.shred import Shredded
from lance_spark.layouts.levels.write import encode_levels
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.version_grammar import Grammar


def encode_nulls(page: Shredded, grammar: Grammar) -> EncodedPage:
    """The page of events without a valid value."""
    if grammar.planar:
        return write_sparse.encode(page, pb23.ValuePlane(absent=pb23.AbsentValues()))
    layout = pb.ConstantLayout(layers=page.layers)  # type: ignore[arg-type]
    if page.repetition is None and len(page.layers) == 1:
        return EncodedPage.of(pb.PageLayout(constant_layout=layout), [], page.num_rows, grammar)  # every row is null: no levels are needed
    bounds = np.array([0, page.num_events], dtype=np.int64)
    buffers = []
    for levels, compression, count in (
        (page.repetition, layout.rep_compression, "num_rep_values"),
        (page.definition, layout.def_compression, "num_def_values"),
    ):
        if levels is None:
            buffers.append(np.empty(0, dtype=np.uint8))
        elif not grammar.compressed_levels:
            buffers.append(levels.view(np.uint8))
        else:
            encoded = encode_levels(levels, bounds, grammar)
            compression.CopyFrom(encode_message(encoded.encoding))
            setattr(layout, count, len(levels))
            buffers.append(encoded.buffer.data)
    return EncodedPage.of(pb.PageLayout(constant_layout=layout), buffers, page.num_rows, grammar)


def encode_value(page: Shredded, value: FixedWidth | VariableWidth, grammar: Grammar) -> EncodedPage:
    """The page whose valid values are all `value`, a block of one. Its levels are always raw, or since 2.3 sparse."""
    if grammar.planar and (page.repetition is not None or page.definition is not None):
        assert isinstance(value, FixedWidth)
        return write_sparse.encode(page, pb23.ValuePlane(constant=pb23.ConstantValues(scalar=value.data.tobytes())))
    layout = pb.ConstantLayout(layers=page.layers)  # type: ignore[arg-type]
    buffers = []
    if isinstance(value, FixedWidth) and len(value.data) <= MAX_INLINE:
        layout.inline_value = value.data.tobytes()
    else:
        parts = [value.data] if isinstance(value, FixedWidth) else [value.offsets.view(np.uint8), value.data]
        header = np.array([len(parts), *map(len, parts)], dtype="<u4")
        buffers.append(np.concatenate([header.view(np.uint8), *parts]))
    if page.repetition is not None or page.definition is not None:
        for levels in (page.repetition, page.definition):
            buffers.append(np.empty(0, dtype=np.uint8) if levels is None else levels.view(np.uint8))
    return EncodedPage.of(pb.PageLayout(constant_layout=layout), buffers, page.num_rows, grammar)
