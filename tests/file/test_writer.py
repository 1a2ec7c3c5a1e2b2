"""Files of DataFileWriter are read back by pylance and DataFileReader."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader, LanceFileWriter

from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.file.data_file import open_data_file
from lance_spark.file.writer import DataFileWriter, WrittenFile
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import from_arrow
from lance_spark.schema.storage_version import V2_1, V2_2, StorageVersion
from lance_spark.storage.store import Store
from tests.arrays import LEAVES, ArrayMaker, types
from tests.sample import examples

pytestmark = pytest.mark.spec("table.md", "Data Files")

VERSIONS = [(2, 1), (2, 2)]
SIZES = [0, 1, 7, 1023, 1024, 1025, 4096, 5000]


def write(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema, version: tuple[int, int]) -> WrittenFile:
    with path.open("wb") as out:
        writer = DataFileWriter(out, from_arrow(schema), StorageVersion(*version))
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def assert_read_back(table: pa.Table, version: tuple[int, int]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.lance"
        written = write(path, table.to_batches(), table.schema, version)
        assert written.num_rows == table.num_rows
        assert written.size_bytes == path.stat().st_size
        reader = LanceFileReader(str(path))
        assert_same(reader.read_all().to_table(), table)
        if table.num_rows:
            # Single rows are found by the repetition index, which reading all does not look at.
            rows = np.unique(np.random.default_rng(0).integers(0, table.num_rows, 20))
            # Arrow's take reads the wrong items of nested fixed-size lists that do not start at 0; concatenations start there.
            copied = pa.table({name: pa.concat_arrays(table[name].chunks) for name in table.column_names})
            assert_same(reader.take_rows(rows.tolist()).to_table(), copied.take(rows))
            start = table.num_rows // 3
            assert_same(reader.read_range(start, table.num_rows - start).to_table(), table.slice(start))
            assert_same(read_ourselves(path, written, rows), copied.take(rows))
            assert_same(read_ourselves(path, written, range(start, table.num_rows)), table.slice(start))


def read_ourselves(path: Path, written: WrittenFile, rows: Rows) -> pa.Table:
    reader = open_data_file(Store(str(path.parent)), path.name)
    columns = dict(zip(written.field_ids, written.column_indices))
    batches = reader.read(reader.schema.fields, columns, rows, batch_rows=3000)
    return pa.concat_tables([pa.table(arrays, names=reader.schema.names) for arrays in batches])


def assert_same(got: pa.Table, expected: pa.Table) -> None:
    assert got.num_rows == expected.num_rows
    for name in expected.column_names:
        a, b = got[name].combine_chunks(), expected[name].combine_chunks()
        if pa.types.is_dictionary(b.type):  # a null item of a dictionary becomes a null index
            a, b = a.cast(b.type.value_type), b.cast(b.type.value_type)
        assert a.equals(b) or a.to_pylist() == b.to_pylist()


@pytest.mark.matrix
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_every_leaf_type_is_read_back(leaf: pa.DataType, version: tuple[int, int]) -> None:
    columns = {}
    for variety in (0, 1, 2):
        for nulls in (0, 0.3):
            columns[f"{variety} {nulls}"] = ArrayMaker(variety, nulls, variety).array(leaf, 3000)
    assert_read_back(pa.table(columns), version)


@settings(deadline=None, max_examples=examples(150))
@given(data=st.data(), version=st.sampled_from(VERSIONS), seed=st.integers(0, 2**32), nulls=st.sampled_from([0, 0, 0.1, 0.5, 1]))
def test_any_nesting_nulls_and_slices_are_read_back(data: st.DataObject, version: tuple[int, int], seed: int, nulls: float) -> None:
    t = data.draw(types(maps=version >= (2, 2)))
    count, variety = data.draw(st.sampled_from(SIZES)), data.draw(st.integers(0, 2))
    column = ArrayMaker(seed, nulls, variety, data.draw(st.sampled_from([12, 300]))).sliced(t, count)
    assert_read_back(pa.table({"c": column, "row": np.arange(count)}), version)


def test_constant_items_of_lists_in_null_structs_are_read_back() -> None:
    rows = [{"f": [0, 0, None]}, {"f": [0]}, None, {"f": [0]}, None]
    assert_read_back(pa.table({"s": pa.array(rows, pa.struct([("f", pa.list_(pa.int8()))]))}), (2, 2))


@pytest.mark.matrix
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("length", [254, 255, 256, 257, 4096, 9000, 32767, 32768, 32769, 40000])
@pytest.mark.parametrize("t", [pa.string(), pa.large_binary()], ids=str)
def test_strings_around_the_limits_of_layouts_are_read_back(t: pa.DataType, length: int, version: tuple[int, int]) -> None:
    for nulls in (0, 0.4):
        maker = ArrayMaker(length, nulls, 2, length)
        lists = pa.list_(t)
        assert_read_back(pa.table({"plain": maker.array(t, 60), "list": maker.sliced(lists, 60)}), version)


@pytest.mark.parametrize("version", [*(pytest.param(version, marks=pytest.mark.slow) for version in VERSIONS[:-1]), *VERSIONS[-1:]])
def test_columns_of_several_pages_are_read_back(version: tuple[int, int]) -> None:
    count = 400_000
    maker = ArrayMaker(5, 0.1, 2, 60)
    table = pa.table(
        {
            "wide": maker.array(pa.int64(), count * 6),
            "text": maker.array(pa.string(), count * 6),
            "list": maker.array(pa.list_(pa.int64()), count * 6),
            "vector": maker.array(pa.list_(pa.float32(), 4), count * 6),
            "flag": maker.array(pa.bool_(), count * 6),
        }
    )
    # One batch larger than several pages, then batches that fill a page together.
    batches = [*table.slice(0, 4 * count).to_batches(), *table.slice(4 * count).to_batches(max_chunksize=70_000)]
    assert_read_back(pa.Table.from_batches(batches), version)


@pytest.mark.matrix
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("empties", [60, 900, 70_000, 200_000])
@pytest.mark.parametrize("item", [pa.int32(), pa.string(), pa.bool_(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_values_with_many_empty_lists_between_them_are_read_back(item: pa.DataType, empties: int, version: tuple[int, int]) -> None:
    lengths = np.zeros(300_000, dtype=np.int32)
    lengths[::empties] = 3
    offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
    values = ArrayMaker(1, 0, 2).array(item, int(offsets[-1]))
    outer = np.array([0, 3, len(lengths) - 5, len(lengths)], dtype=np.int32)
    flat = pa.ListArray.from_arrays(offsets, values)
    assert_read_back(pa.table({"rows": flat}), version)
    if not pa.types.is_dictionary(item):
        assert_read_back(pa.table({"one row": pa.ListArray.from_arrays(outer, flat)}), version)


def test_a_map_is_refused_before_2_2() -> None:
    table = pa.table({"m": pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32()))})
    writer = DataFileWriter(io.BytesIO(), from_arrow(table.schema), V2_2)
    writer.write(table.to_batches()[0])
    with pytest.raises(UnsupportedFeatureError, match="map"):
        DataFileWriter(io.BytesIO(), from_arrow(table.schema), V2_1)


def test_other_columns_than_the_schemas_are_refused() -> None:
    writer = DataFileWriter(io.BytesIO(), from_arrow(pa.schema({"a": pa.int64()})), V2_2)
    with pytest.raises(SchemaMismatchError, match=r"'b'"):
        writer.write(pa.record_batch({"b": [1]}))
    with pytest.raises(SchemaMismatchError, match="int32"):
        writer.write(pa.record_batch({"a": pa.array([1], pa.int32())}))


def test_field_ids_name_the_leaves() -> None:
    t = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int32()))])
    table = pa.table({"s": pa.array([{"x": 1, "y": [2]}], t), "z": [1]})
    out = io.BytesIO()
    writer = DataFileWriter(out, from_arrow(table.schema), V2_2)
    writer.write(table.to_batches()[0])
    written = writer.finish()
    assert written.field_ids == (1, 3, 4)  # s is 0 and y is 2, which own no column
    assert written.column_indices == (0, 1, 2)
    assert written.size_bytes == len(out.getvalue())


OPTIONS = [
    {"compression": "zstd"},
    {"compression": "zstd", "compression-level": "9", "bss": "on"},
    {"compression": "lz4", "bss": "off"},
    {"compression": "none"},
    {"compression": "fsst"},
    {"structural-encoding": "fullzip"},
    {"structural-encoding": "fullzip", "compression": "zstd"},
    {"structural-encoding": "miniblock"},
    {"rle-threshold": "0"},
    {"rle-threshold": "1.0"},
    {"dict-values-compression": "zstd"},
    {"dict-values-compression": "none", "dict-divisor": "5"},
    {"minichunk-size": "64"},
    {"minichunk-size": "1000000", "compression": "none"},
]


@pytest.mark.matrix
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(f"{k}={v}" for k, v in o.items()))
def test_options_in_field_metadata_round_trip(options: dict[str, str], version: tuple[int, int]) -> None:
    leaves = [pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(38, 3), pa.binary(5)]
    leaves += [pa.string(), pa.large_binary(), pa.list_(pa.float32(), 4), pa.dictionary(pa.int8(), pa.string())]
    metadata = {f"lance-encoding:{key}": value for key, value in options.items()}
    columns, fields = [], []
    for variety in (0, 1, 2):
        maker = ArrayMaker(variety, 0.1, variety, 250)
        for t in leaves:
            item = pa.field("item", t, metadata=metadata)
            for array in (maker.array(t, 2000), maker.array(pa.list_(item), 2000)):
                columns.append(array)
                fields.append(pa.field(f"{variety} {array.type}", array.type, metadata=metadata))
    assert_read_back(pa.Table.from_arrays(columns, schema=pa.schema(fields)), version)


def test_an_option_with_a_wrong_value_is_refused() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"lance-encoding:compression": "brotli"})])
    writer = DataFileWriter(io.BytesIO(), from_arrow(schema), V2_2)
    writer.write(pa.record_batch([pa.array([1, 2])], schema=schema))
    with pytest.raises(InvalidOptionError, match=r"'a'.*brotli.*zstd"):
        writer.finish()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_float_keeps_its_bits(version: tuple[int, int]) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308])
    for values in (special, np.repeat(special, 300), np.full(500, np.nan), np.full(500, -0.0)):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "data.lance"
            table = pa.table({"x": values})
            write(path, table.to_batches(), table.schema, version)
            back = LanceFileReader(str(path)).read_all().to_table()["x"].to_numpy()
        assert back.view(np.int64).tolist() == values.view(np.int64).tolist()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", [0, 0.3])
def test_a_packed_struct_is_one_column(nulls: float, version: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    children = [pa.array(rng.integers(-100, 100, 3000, dtype=np.int16)), pa.array(rng.random(3000))]
    mask = pa.array(rng.random(3000) < nulls)
    array = pa.StructArray.from_arrays(children, ["a", "b"], mask=mask)
    schema = pa.schema([pa.field("s", array.type, metadata={"packed": "true"})])
    table = pa.Table.from_arrays([array], schema=schema)
    assert_read_back(table, version)
    assert_read_back(table.slice(7, 2000), version)


def test_the_file_contains_the_schema_with_its_metadata(tmp_path: Path) -> None:
    fields = [
        pa.field("id", pa.int64(), nullable=False, metadata={"unit": "none"}),
        pa.field("s", pa.struct([("x", pa.list_(pa.string()))])),
    ]
    schema = pa.schema(fields, metadata={"origin": "test"})
    batch = pa.RecordBatch.from_pylist([{"id": 1, "s": {"x": ["y"]}}], schema=schema)
    write(tmp_path / "data.lance", [batch], schema, (2, 2))
    assert LanceFileReader(str(tmp_path / "data.lance")).metadata().schema.equals(schema, check_metadata=True)


def test_a_file_without_rows_is_read_back() -> None:
    for version in VERSIONS:
        assert_read_back(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.list_(pa.string()))}), version)


TYPICAL: dict[str, Callable[[np.random.Generator, int], pa.Array]] = {
    "numbers in order": lambda rng, n: pa.array(np.arange(n)),
    "small numbers": lambda rng, n: pa.array(rng.integers(0, 1000, n, dtype=np.int32), mask=rng.random(n) < 0.1),
    "large numbers": lambda rng, n: pa.array(rng.integers(-(2**62), 2**62, n)),
    "few numbers": lambda rng, n: pa.array(rng.integers(0, 100, n) * 10**12),
    "runs": lambda rng, n: pa.array(np.repeat(rng.integers(0, 10**12, n // 50), 50)),
    "one number and nulls": lambda rng, n: pa.array(np.full(n, 7), mask=rng.random(n) < 0.1),
    "floats": lambda rng, n: pa.array(rng.random(n)),
    "flags": lambda rng, n: pa.array(rng.random(n) < 0.01),
    "few strings": lambda rng, n: pa.array([f"word {i}" for i in rng.integers(0, 100, n)]),
    "addresses": lambda rng, n: pa.array([f"user-{i:09d}@example.com" for i in rng.permutation(n)]),
    "lists": lambda rng, n: ArrayMaker(0, 0.1, 2).array(pa.list_(pa.int32()), n),
    "vectors": lambda rng, n: pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 8, dtype=np.float32)), 8),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", TYPICAL)
def test_files_are_about_as_small_as_pylances(name: str, version: tuple[int, int], tmp_path: Path) -> None:
    array = TYPICAL[name](np.random.default_rng(4), 100_000)
    table = pa.table({"c": array})
    ours = write(tmp_path / "ours.lance", table.to_batches(), table.schema, version).size_bytes
    with LanceFileWriter(str(tmp_path / "theirs.lance"), table.schema, version=f"{version[0]}.{version[1]}") as writer:
        writer.write_batch(table.to_batches()[0])
    assert ours <= 1.05 * (tmp_path / "theirs.lance").stat().st_size
