"""Unknown or false messages of page layouts are refused when they are parsed."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from lance_spark._proto import encodings_v2_1_early_pb2 as early
from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import encodings_v2_3_pb2 as pb23
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.nodes import page_layouts
from lance_spark.layouts.nodes.page_layouts import parse_layout
from tests.layouts.pages import flat

DENSE = pb23.StructuralPlane(dense=pb23.DenseStructure(layers=[pb.REPDEF_ALL_VALID_ITEM]))
ABSENT = pb23.ValuePlane(absent=pb23.AbsentValues())
CONSTANT = pb.PageLayout(constant_layout=pb.ConstantLayout(layers=[pb.REPDEF_ALL_VALID_ITEM]))
BLOBS = pb.PageLayout(blob_layout=pb.BlobLayout(layers=[pb.REPDEF_ALL_VALID_ITEM], inner_layout=CONSTANT))
TYPES = {
    early.PageLayout: "lance.encodings.PageLayout",
    pb.PageLayout: "lance.encodings21.PageLayout",
    pb23.PlanarLayout: "lance.encodings23.PlanarLayout",
}


def sparse(*layers: pb23.SparseLayer) -> pb23.PlanarLayout:
    return pb23.PlanarLayout(structure=pb23.StructuralPlane(sparse=pb23.SparseStructure(layers=layers)), values=ABSENT)


def validity(meaning: int) -> pb23.SparseValidity:
    return pb23.SparseValidity(meaning=meaning, positions=flat(64))


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (early.PageLayout(), "unknown page layout"),
        (pb.PageLayout(), "unknown page layout"),
        (pb.PageLayout(constant_layout=pb.ConstantLayout(layers=[pb.REPDEF_UNSPECIFIED])), "layer of kind 0"),
        (pb23.PlanarLayout(structure=DENSE), "unknown value plane"),
        (pb23.PlanarLayout(values=ABSENT), "unknown structural plane"),
        (pb23.PlanarLayout(structure=DENSE, values=pb23.ValuePlane(indexed=pb23.Indexed())), "indexed values in a page of dense structure"),
        (sparse(pb23.SparseLayer()), "unknown sparse layer"),
        (sparse(pb23.SparseLayer(validity=validity(3))), "positions with meaning 3 are not supported"),
    ],
)
def test_unknown_layouts_are_refused(message: Message, complaint: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=complaint):
        parse_layout(TYPES[type(message)], message.SerializeToString())


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (pb.PageLayout(constant_layout=pb.ConstantLayout()), "has no layers"),
        (sparse(), "has no layers"),
        (sparse(pb23.SparseLayer(fixed_size_list=pb23.SparseFixedSizeList(dimension=0, validity=validity(1)))), "lists have 0 items"),
        (
            sparse(pb23.SparseLayer(fixed_size_list=pb23.SparseFixedSizeList(dimension=2**31, validity=validity(1)))),
            "lists have 2147483648",
        ),
        (
            pb.PageLayout(blob_layout=pb.BlobLayout(layers=[pb.REPDEF_ALL_VALID_ITEM], inner_layout=BLOBS)),
            "a blob page contains a blob page",
        ),
    ],
)
def test_false_declarations_are_found(message: Message, complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        parse_layout(TYPES[type(message)], message.SerializeToString())


def test_an_encoding_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"a page encoding of type 'lance\.encodings99\.PageLayout'"):
        parse_layout("lance.encodings99.PageLayout", b"")


def test_sparse_layers_list_their_nulls_and_hide_no_values_in_them() -> None:
    assert not page_layouts.has_values_in_nulls(page_layouts.Sparse(()))
