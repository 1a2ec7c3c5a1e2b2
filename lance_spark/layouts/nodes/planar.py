"""The page layouts of 2.1 and 2.2 as messages of 2.3: the structure of a page apart from its values. The buffers are the same."""

from __future__ import annotations

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23

PLANAR_TYPE = "lance.encodings23.PlanarLayout"


def planar_layout(layout: pb.PageLayout) -> pb23.PlanarLayout:
    """The message of a page with levels: in chunks, zipped, or of one value in the message, which then has no nulls and no lists."""
    kind = layout.WhichOneof("layout")
    if kind == "mini_block_layout":
        return _of(layout.mini_block_layout.layers, pb23.ValuePlane(chunked=_chunked(layout.mini_block_layout)))
    if kind == "full_zip_layout":
        return _of(layout.full_zip_layout.layers, pb23.ValuePlane(zipped=_zipped(layout.full_zip_layout)))
    assert kind == "constant_layout"
    constant = pb23.ConstantValues(scalar=layout.constant_layout.inline_value)
    return _of(layout.constant_layout.layers, pb23.ValuePlane(constant=constant))


def _of(layers: object, values: pb23.ValuePlane) -> pb23.PlanarLayout:
    dense = pb23.DenseStructure(layers=layers)  # type: ignore[arg-type]
    return pb23.PlanarLayout(structure=pb23.StructuralPlane(dense=dense), values=values)


def _chunked(message: pb.MiniBlockLayout) -> pb23.Chunked:
    chunked = pb23.Chunked(
        value=message.value_compression,
        levels=pb23.ChunkedLevels(repetition_index_depth=message.repetition_index_depth),
        num_dictionary_items=message.num_dictionary_items,
        num_buffers=message.num_buffers,
        num_items=message.num_items,
    )
    if message.HasField("rep_compression"):
        chunked.levels.repetition.CopyFrom(message.rep_compression)
    if message.HasField("def_compression"):
        chunked.levels.definition.CopyFrom(message.def_compression)
    if message.HasField("dictionary"):
        chunked.dictionary.CopyFrom(message.dictionary)
    return chunked


def _zipped(message: pb.FullZipLayout) -> pb23.Zipped:
    zipped = pb23.Zipped(
        value=message.value_compression,
        levels=pb23.ZippedLevels(bits_repetition=message.bits_rep, bits_definition=message.bits_def),
        num_items=message.num_items,
        num_visible_items=message.num_visible_items,
    )
    width = message.WhichOneof("details")
    assert width is not None
    setattr(zipped, width, getattr(message, width))
    return zipped
