"""Column options: their effect on a new table's schema and files, and invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.schema import Schema
from lance_spark.table.write.target import Mode
from tests.arrays import ArrayMaker

pytestmark = pytest.mark.spec("schema.md", "Encoding Metadata")

ROWS = 4_000
NUMBERS = np.random.default_rng(1).integers(0, 1000, ROWS)
TABLE = pa.table(
    {
        "n": pa.array(NUMBERS),
        "s": pa.array([{"t": f"text of {i}", "l": [f"word {i}"]} for i in NUMBERS.tolist()]),
        "v": pa.array([[1.5, 2.5]] * ROWS, pa.list_(pa.float32(), 2)),
        "w": pa.array([[1.5, None], None] * (ROWS // 2), pa.list_(pa.float64())),
        "b": pa.array([b"bytes %d" % i for i in NUMBERS.tolist()]),
    }
)


def written(uri: Path, **options: str) -> Schema:
    """The schema of a table that is written with these options, after checking its rows."""
    dataset = Dataset.write(str(uri), TABLE, column_options={key.replace("__", "."): value for key, value in options.items()})
    assert dataset.scan().to_table().to_pylist() == TABLE.to_pylist()
    assert lance.dataset(str(uri)).scanner(blob_handling="all_binary").to_table().to_pylist() == TABLE.to_pylist()
    return dataset.snapshot.manifest.schema


@pytest.mark.parametrize("field_metadata", [False, True])
def test_metadata_that_other_readers_cannot_return_is_refused(field_metadata: bool, tmp_path: Path) -> None:
    binary = {"k": b"\x80\x04"}
    schema = pa.schema([pa.field("a", pa.int64(), metadata=binary)]) if field_metadata else pa.schema([("a", pa.int64())], binary)
    with pytest.raises(SchemaMismatchError, match="the metadata b'k' is not UTF-8 text"):
        Dataset.write(tmp_path / "t", pa.table({"a": [1]}, schema=schema))
    assert not (tmp_path / "t").exists()


def test_types_are_changed(tmp_path: Path) -> None:
    schema = written(
        tmp_path / "t", v__arrow__float16="true", W__arrow__float16="TRUE", s__arrow__large_var_char="true", n__lance__bss="on"
    )
    assert schema.to_arrow().field("v").type == pa.list_(pa.float16(), 2)
    assert schema.to_arrow().field("w").type == pa.list_(pa.float16())
    assert schema.to_arrow().field("s").type == pa.struct([("t", pa.large_string()), ("l", pa.list_(pa.large_string()))])


def test_false_changes_nothing(tmp_path: Path) -> None:
    schema = written(tmp_path / "t", v__arrow__float16="false", s__arrow__large_var_char="false")
    assert schema.to_arrow().equals(TABLE.schema)


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [
        ("lance.compression", "compression", "zstd"),
        ("lance.compression-level", "compression-level", "3"),
        ("lance.structural-encoding", "structural-encoding", "fullzip"),
        ("lance.rle-threshold", "rle-threshold", "0.1"),
        ("lance.bss", "bss", "off"),
        ("lance.dict-divisor", "dict-divisor", "4"),
        ("lance.dict-size-ratio", "dict-size-ratio", "0.5"),
        ("lance.dict-values-compression", "dict-values-compression", "lz4"),
        ("lance.dict-values-compression-level", "dict-values-compression-level", "2"),
        ("lance.minichunk-size", "minichunk-size", "4096"),
    ],
)
def test_options_become_metadata_of_every_leaf_of_the_field(key: str, name: str, value: str, tmp_path: Path) -> None:
    schema = written(tmp_path / "t", **{f"s.{key}": value, f"n.{key}": value})
    wished = [f.name for f in schema.walk() if f.metadata.get(f"lance-encoding:{name}".encode()) == value.encode()]
    assert wished == ["n", "t", "item"]


def test_compression_makes_files_smaller(tmp_path: Path) -> None:
    sizes = []
    for value in ("none", "zstd"):
        uri = tmp_path / value
        Dataset.write(str(uri), TABLE.select(["s"]), column_options={"s.t.lance.compression": value, "s.l.lance.compression": value})
        sizes.append(sum(path.stat().st_size for path in uri.glob("data/*")))
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_binary_columns_become_blobs(version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE, data_storage_version=version, column_options={"b.lance.encoding": "blob"})
    Dataset.write(uri, TABLE, "append", column_options={"b.lance.encoding": "blob"})
    assert lance.dataset(uri).take_blobs("b", indices=[ROWS + 7])[0].readall() == TABLE["b"][7].as_py()
    assert Dataset.open(uri).scan(columns=["b"]).to_table()["b"].to_pylist() == TABLE["b"].to_pylist() * 2


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("n.lance.compression", "gzip", "'n': invalid compression scheme.*zstd"),
        ("s.lance.compression", "gzip", r"'s\.t'.*compression.*zstd"),
        ("n.lance.compression-level", "high", "'n'.*compression-level"),
        ("n.lance.structural-encoding", "sparse", "'n'.*structural-encoding"),
        ("n.lance.rle-threshold", "2", "'n'.*rle-threshold"),
        ("n.lance.bss", "maybe", "'n'.*bss"),
        ("b.lance.encoding", "bytes", "'b'.*blob"),
        ("v.arrow.float16", "yes", "'v'.*expected true or false"),
        ("n.arrow.float16", "true", "n.arrow.float16.*does not apply"),
        ("nothing.lance.bss", "on", "nothing.lance.bss.*no column 'nothing'"),
        ("n.lance.speed", "high", "unknown column option 'n.lance.speed'"),
        ("lance.bss", "on", "unknown column option 'lance.bss'"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(key: str, value: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=what):
        Dataset.write(str(tmp_path / "t"), TABLE, column_options={key: value})
    assert not (tmp_path / "t").exists()


def test_an_existing_table_keeps_its_settings(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, TABLE)
    appended = Dataset.write(uri, TABLE, "append", column_options={"v.arrow.float16": "true", "n.lance.compression": "zstd"})
    assert appended.schema.equals(TABLE.schema)


PACKED = {"lance-encoding:packed": "true"}


def packed(t: pa.DataType) -> pa.Field:
    return pa.field("p", pa.struct([pa.field("a", pa.int32()), pa.field("x", t)]), metadata=PACKED)


@pytest.mark.parametrize("t", [pa.string(), pa.large_binary(), pa.list_(pa.float32(), 3), pa.decimal128(20, 2), pa.binary(5)], ids=str)
def test_packed_structs_of_2_2_hold_strings_and_vectors(t: pa.DataType, tmp_path: Path) -> None:
    field, uri = packed(t), str(tmp_path / "t")
    maker = ArrayMaker(1, 0, 2, 40)
    column = pa.StructArray.from_arrays([maker.array(pa.int32(), 3000), maker.array(t, 3000)], fields=list(field.type))
    column = pa.concat_arrays([column, pa.nulls(5, column.type), column.slice(0, 0)])
    table = pa.table([column, pa.array(range(len(column)))], schema=pa.schema([field, ("row", pa.int64())]))
    Dataset.write(uri, table, data_storage_version="2.2")
    assert Dataset.open(uri).scan().to_table().to_pylist() == table.to_pylist()
    assert lance.dataset(uri).to_table().to_pylist() == table.to_pylist()
    assert Dataset.open(uri).take([5, 3001, 2], columns=["p.x"])["p"].to_pylist() == [
        {"x": column[5]["x"].as_py()},
        None,
        {"x": column[2]["x"].as_py()},
    ]


@pytest.mark.parametrize(
    ("field", "version", "what"),
    [
        (packed(pa.string()), "2.1", r"'p'.*'x'.*2\.2"),
        (packed(pa.list_(pa.int8(), 2)), "2.1", r"'p'.*'x'.*2\.2"),
        (packed(pa.string()), "2.0", r"'p'.*'x'.*2\.2"),
        (packed(pa.bool_()), "2.2", "'p'.*'x'"),
        (packed(pa.list_(pa.int8())), "2.2", "'p'.*'x'"),
        (packed(pa.struct([("y", pa.int8())])), "2.2", "'p'.*'x'"),
        (pa.field("s", pa.struct([("m", pa.map_(pa.string(), pa.int8()))])), "2.1", r"'s\.m'.*maps; 2\.2"),
        (pa.field("m", pa.map_(pa.string(), pa.int8())), "2.0", r"'m'.*maps; 2\.2"),
        (pa.field("f", pa.list_(pa.struct([("y", pa.int8())]), 2)), "2.2", "'f'.*fixed-size lists of structs"),
        (pa.field("f", pa.list_(pa.string(), 2)), "2.2", "'f'"),
        (pa.field("e", pa.struct([("x", pa.struct([]))])), "2.2", r"'e\.x'.*without fields"),
        (pa.field("", pa.int8()), "2.1", "without a name"),
    ],
    ids=str,
)
def test_unsupported_types_are_refused_before_anything_is_written(field: pa.Field, version: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=what):
        Dataset.write(str(tmp_path / "t"), pa.table([pa.nulls(1, field.type)], schema=pa.schema([field])), data_storage_version=version)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("mode", "what"), [("append", "none of the table's columns"), ("create", "at least one"), ("overwrite", "at least one")]
)
def test_rows_without_columns_are_refused_and_not_lost(mode: Mode, what: str, tmp_path: Path) -> None:
    if mode != "create":
        Dataset.write(tmp_path, pa.table({"a": [1]}))
    with pytest.raises(LanceError, match=what):
        Dataset.write(tmp_path, pa.table({"a": [1, 2]}).select([]), mode)


@pytest.mark.parametrize("version", ["legacy", "0.1", "2.4"])
def test_versions_that_are_not_written_are_refused_by_name(version: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=rf"storage version {version} is not supported; use 2\.0, 2\.1, 2\.2, 2\.3"):
        Dataset.write(str(tmp_path / "t"), TABLE, data_storage_version=version)


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
@pytest.mark.parametrize("by", ["us", "pylance"])
def test_tables_of_every_version_are_made_appended_to_and_overwritten(version: str, by: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = TABLE.select(["n", "s", "v", "w", "b"])
    options: Any = {"data_storage_version": version}
    if by == "us":
        Dataset.write(uri, table, **options)
    else:
        lance.write_dataset(table, uri, **options)
    Dataset.write(uri, table, "append")
    lance.write_dataset(table, uri, mode="append")
    assert lance.dataset(uri).data_storage_version == version
    assert lance.dataset(uri).to_table().to_pylist() == table.to_pylist() * 3
    assert Dataset.open(uri).scan().to_table().to_pylist() == table.to_pylist() * 3
    Dataset.write(uri, table, "overwrite")
    assert lance.dataset(uri).data_storage_version == version


def test_binary_values_have_a_fixed_width(tmp_path: Path) -> None:
    key = "h.arrow.fixed-size-binary.byte-width"
    hashes = pa.table({"h": pa.array([b"abcd", None], pa.binary())})
    Dataset.write(tmp_path / "t", hashes, column_options={key: "4"})
    Dataset.write(tmp_path / "t", hashes, mode="append")
    expected = pa.table({"h": pa.array([b"abcd", None] * 2, pa.binary(4))})
    assert lance.dataset(tmp_path / "t").to_table().cast(expected.schema).equals(expected)
    assert lance.dataset(tmp_path / "t").schema.field("h").type == pa.binary(4)
    with pytest.raises(SchemaMismatchError, match="4"):
        Dataset.write(tmp_path / "t", pa.table({"h": [b"abc"]}), mode="append")
    for value in ("0", "-1", "four", str(2**31)):
        with pytest.raises(InvalidOptionError, match="expected a number of bytes from 1"):
            Dataset.write(tmp_path / "u", hashes, column_options={key: value})
    with pytest.raises(InvalidOptionError, match="has the type string; only binary values"):
        Dataset.write(tmp_path / "u", pa.table({"h": ["a"]}), column_options={key: "4"})
