"""The schema tree between Arrow and Lance."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.arrow import bfloat16_array

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.logical_types import parse_logical_type
from lance_spark.schema.schema import Field, Schema, from_arrow

ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("u", pa.uuid()),
        pa.field("tensor", pa.fixed_shape_tensor(pa.float32(), [2, 3])),
        pa.field("j", pa.json_()),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("d", pa.dictionary(pa.int8(), pa.timestamp("us", "Europe/Paris"))),
        pa.field("l", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float16(), 3))]))),
        pa.field("f", pa.list_(pa.list_(pa.int8(), 2), 3), metadata={"k": "v"}),
        pa.field("st", pa.struct([("x.y", pa.int32()), ("q", pa.struct([("r", pa.string()), ("s", pa.bool_())]))])),
    ],
    {"of": "the schema"},
)


def test_an_arrow_schema_round_trips() -> None:
    assert from_arrow(ARROW).to_arrow().equals(ARROW, check_metadata=True)


def test_ids_are_given_depth_first() -> None:
    assert [f.id for f in from_arrow(ARROW, first_id=5).walk()] == list(range(5, 5 + len(list(from_arrow(ARROW).walk()))))


def test_bfloat16_vectors_round_trip(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(bfloat16_array([1.0, 2.0, 3.0, 4.0]), 2)
    written = Dataset.write(str(tmp_path / "t"), pa.table({"v": vectors}), mode="create")
    assert written.snapshot.manifest.schema.fields[0].logical_type == "fixed_size_list:lance.bfloat16:2"
    assert written.scan().to_table()["v"].combine_chunks().equals(vectors)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("ID", ["id"]),
        ("st.q.r", ["st", "q", "r"]),
        ("ST.Q", ["st", "q"]),
        ("st.x.y", ["st", "x.y"]),
        ("`st`.`x.y`", ["st", "x.y"]),
    ],
)
def test_columns_are_found_by_path_without_regard_to_case(path: Any, names: Any) -> None:
    assert [f.name for f in from_arrow(ARROW).resolve(path)] == names


@pytest.mark.parametrize("path", ["", ".", "id.", ".id", "st.", "st.q.", "`st`.", "id.x", "st..q"])
def test_a_path_with_a_missing_name_is_no_column(path: str) -> None:
    with pytest.raises(SchemaMismatchError, match="no column"):
        from_arrow(ARROW).resolve(path)


def test_a_selection_keeps_parents_and_unites_children_in_the_order_of_the_table() -> None:
    chosen = from_arrow(ARROW).select(["st.q.s", "id", "st.q.r"]).to_arrow()
    assert chosen.names == ["st", "id"]
    assert chosen.field("st").type == pa.struct([("q", pa.struct([("r", pa.string()), ("s", pa.bool_())]))])


def test_a_name_that_fits_two_columns_is_refused_unless_it_is_exact() -> None:
    schema = from_arrow(pa.schema([("a", pa.int32()), ("A", pa.int32())]))
    assert schema.resolve("A")[0].id == 1
    with pytest.raises(SchemaMismatchError, match="ambiguous"):
        from_arrow(pa.schema([("aB", pa.int32()), ("Ab", pa.int32())])).resolve("ab")


@pytest.mark.parametrize(
    "t",
    [
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.list_(pa.float32(), 0),
        pa.binary(0),
    ],
)
def test_a_type_that_lance_does_not_have_is_refused_with_the_name_of_the_column(t: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="'odd'"):
        from_arrow(pa.schema([("odd", t)]))


def test_half_floats_match_numpy(tmp_path: Path) -> None:
    table = pa.table({"h": pa.array(np.array([1.5, np.nan], "f2"))})
    assert Dataset.write(str(tmp_path / "t"), table, mode="create").schema == table.schema


@pytest.mark.parametrize(
    ("kind", "name", "parameters"),
    [
        ("fixed_size_list:int8:4", b"arrow.fixed_shape_tensor", b"{"),
        ("fixed_size_list:int8:4", b"arrow.fixed_shape_tensor", b'{"shape": [9, 9]}'),
        ("int8", b"arrow.uuid", b""),
        ("string", b"arrow.opaque", b"\xff"),
    ],
)
def test_extension_types_whose_metadata_cannot_be_read_are_refused(kind: str, name: bytes, parameters: bytes) -> None:
    good = Field("good", 0, "int32")
    bad = Field("bad", 1, kind, metadata={b"ARROW:extension:name": name, b"ARROW:extension:metadata": parameters})
    with pytest.raises(CorruptFileError, match="column 'bad': the metadata of the extension type"):
        Schema((good, bad)).to_arrow()
    assert Schema((good,)).to_arrow().names == ["good"]


class _Picky(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A user's own extension type, which fails with a Python error."""

    def __init__(self) -> None:
        super().__init__(pa.int8(), "tests.picky")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> "_Picky":
        json.loads(serialized)["needed"]
        return cls()


def test_errors_of_extension_types_name_the_column() -> None:
    pa.register_extension_type(_Picky())
    try:
        for parameters in (b"{}", b"[]", b"\xff", b"[" * 10_000):
            bad = Field("c", 0, "int8", metadata={b"ARROW:extension:name": b"tests.picky", b"ARROW:extension:metadata": parameters})
            with pytest.raises(CorruptFileError, match="column 'c'"):
                Schema((bad,)).to_arrow()
    finally:
        pa.unregister_extension_type("tests.picky")


@pytest.mark.parametrize(
    "text",
    [
        "decimal:128:99999999999999999999:0",
        "decimal:128:-1:0",
        "decimal:512:1:0",
        "timestamp:x:-",
        "dict:string:string:false",
        "dict:string:int8",
        "fixed_size_binary:-1",
        "fixed_size_list:int8:99999999999999",
        "fixed_size_list:int8:²",
        "fixed_size_binary:" + "9" * 5000,
        "fixed_size_list:" * 50_000 + "int8" + ":2" * 50_000,
        "dict:" * 5000 + "int8",
    ],
)
def test_types_with_invalid_parameters_are_refused(text: str) -> None:
    with pytest.raises((CorruptFileError, UnsupportedFeatureError), match="column 'c'"):
        parse_logical_type(text, "c")


def test_ids_end_at_31_bits() -> None:
    with pytest.raises(UnsupportedFeatureError, match="not enough field ids"):
        from_arrow(pa.schema([("a", pa.int8()), ("b", pa.int8())]), 2**31 - 1)
