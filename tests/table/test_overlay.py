"""Data overlays: cells that they cover have their values, all others those of the data files."""

import dataclasses

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter
from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.dataset import Dataset
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.table.manifest import serialise

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("p", pa.struct([("a", pa.int32()), ("b", pa.int32())]))])


@pytest.fixture
def uri(tmp_path):
    """One fragment of 20 rows."""
    data = {"id": range(20), "s": [f"old{i}" for i in range(20)], "p": [{"a": i, "b": -i} for i in range(20)]}
    lance.write_dataset(pa.table(data, SCHEMA), str(tmp_path / "t"), data_storage_version="2.1")
    return str(tmp_path / "t")


def message(uri: str, name: str, version: int, rows: list[int], columns: dict[int, pa.Array]) -> bytes:
    """Write an overlay's file; `columns` are its values by field id."""
    table = pa.table(list(columns.values()), [f"c{i}" for i in columns])
    with LanceFileWriter(f"{uri}/data/{name}", table.schema, version="2.1") as writer:
        writer.write_batch(table)
    file = pb.DataFile(path=name, fields=list(columns), column_indices=range(len(columns)), file_major_version=2, file_minor_version=1)
    overlay = pb.DataOverlayFile(data_file=file, shared_offset_bitmap=BitMap(rows).serialize(), committed_version=version)
    return overlay.SerializeToString()


def with_overlays(uri: str, *overlays: bytes) -> Dataset:
    ds = Dataset.open(uri)
    manifest = ds.snapshot.manifest
    fragment = dataclasses.replace(manifest.fragments[0], overlays=overlays)
    newer = dataclasses.replace(manifest, version=ds.version + 1, fragments=(fragment,), reader_flags=manifest.reader_flags | 64)
    ds.snapshot.store.put(f"_versions/{2**64 - 1 - newer.version}.manifest", serialise(newer))
    return Dataset.open(uri)


def test_the_overlay_committed_last_counts_for_each_cell(uri):
    late = message(uri, "late.lance", 9, [3, 7], {1: pa.array(["late3", None])})
    early = message(uri, "early.lance", 2, [0, 3, 19], {1: pa.array(["e0", "e3", "e19"]), 0: pa.array([100, 103, 119])})
    same = message(uri, "same.lance", 2, [0], {0: pa.array([1000])})
    ds = with_overlays(uri, late, early, same)
    ids, names = list(range(20)), [f"old{i}" for i in range(20)]
    ids[3], ids[19], ids[0] = 103, 119, 1000
    names[0], names[3], names[7], names[19] = "e0", "late3", None, "e19"
    expected = pa.table({"id": ids, "s": names})
    assert ds.scan(["id", "s"]).to_table() == expected
    assert ds.scan(["id", "s"], batch_size=3).to_table() == expected
    assert ds.scan(["s"], "id > 100").to_table()["s"].to_pylist() == ["e0", "late3", "e19"]
    assert ds.take([19, 4, 3], ["s"])["s"].to_pylist() == ["e19", "old4", "late3"]


def test_deleted_rows_stay_deleted(uri):
    lance.dataset(uri).delete("id IN (3, 5)")
    ds = with_overlays(uri, message(uri, "o.lance", 2, [3, 4], {1: pa.array(["x3", "x4"])}))
    assert ds.scan(["s"], limit=5).to_table()["s"].to_pylist() == ["old0", "old1", "old2", "x4", "old6"]


def test_a_column_without_data_file_can_have_an_overlay(uri):
    lance.dataset(uri).add_columns(pa.schema([("later", pa.float64())]))
    field_id = Dataset.open(uri).snapshot.manifest.schema.max_field_id
    ds = with_overlays(uri, message(uri, "o.lance", 3, [2], {field_id: pa.array([0.5])}))
    assert ds.scan(["later"]).to_table()["later"].to_pylist() == [None, None, 0.5] + [None] * 17


def test_what_is_not_implemented_or_wrong_is_refused(uri):
    part_of_a_struct = message(uri, "a.lance", 2, [1], {3: pa.array([5], pa.int32())})
    with pytest.raises(UnsupportedFeatureError, match="part of column 'p'"):
        with_overlays(uri, part_of_a_struct).scan().to_table()
    assert with_overlays(uri, part_of_a_struct).scan(["id"]).to_table().num_rows == 20
    sparse = pb.DataOverlayFile.FromString(part_of_a_struct)
    sparse.field_coverage.offset_bitmaps.append(BitMap([1]).serialize())
    with pytest.raises(UnsupportedFeatureError, match="other rows in each field"):
        with_overlays(uri, sparse.SerializeToString()).scan().to_table()
    too_few = message(uri, "b.lance", 2, [1, 2], {1: pa.array(["x"])})
    with pytest.raises(CorruptFileError, match="1 values for 2 rows"):
        with_overlays(uri, too_few).scan().to_table()
    with pytest.raises(CorruptFileError, match="not a valid message"):
        with_overlays(uri, b"\xff").scan().to_table()


def test_the_order_of_an_overlays_values_is_that_of_the_rows(uri):
    rows = np.random.default_rng(1).permutation(20)[:9].tolist()
    ds = with_overlays(uri, message(uri, "o.lance", 2, rows, {0: pa.array(sorted(rows))}))
    assert ds.scan(["id"]).to_table()["id"].to_pylist() == list(range(20))
