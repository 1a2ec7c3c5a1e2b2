"""Blob columns of every storage version, written and read by both libraries."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.file.checksums import BLOCK

VERSIONS = ["2.0", "2.1", "2.2"]
VALUES = [b"hello", None, b"", b"x" * 10, b"y" * 100_000, b"z" * (3 << 20), b"w" * (5 << 20), b"y" * 65_536, b"y" * 65_537]


def marked(**metadata: str) -> pa.Field:
    return pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true", **metadata})


def flat(values: list[bytes | None], field: pa.Field | None = None) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64()), field or marked()])
    return pa.table([pa.array(range(len(values))), pa.array(values, pa.large_binary())], schema=schema)


def in_struct(values: list[bytes | None], null_row: int | None) -> pa.Table:
    t = pa.struct([pa.field("x", pa.int32()), marked()])
    rows = [None if i == null_row else {"x": i, "b": v} for i, v in enumerate(values)]
    return pa.table([pa.array(rows, t)], schema=pa.schema([("s", t)]))


def in_lists(values: list[bytes | None]) -> pa.Table:
    t = pa.list_(marked())
    return pa.table([pa.array([values, None, [], values[:2]], t)], schema=pa.schema([("s", t)]))


def files(uri: str) -> dict[str, int]:
    """The files below the data folder and their sizes."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(f"{uri}/data") for name in names]
    return {os.path.relpath(path, uri): os.path.getsize(path) for path in found}


CASES = {
    **{f"{v} flat": (v, flat(VALUES)) for v in VERSIONS},
    **{f"{v} only nulls": (v, flat([None] * 5)) for v in VERSIONS},
    **{f"{v} only empty": (v, flat([b""] * 5)) for v in VERSIONS},
    **{f"{v} many": (v, flat([None if i % 5 == 0 else b"%d" % i * (i % 7) for i in range(3000)])) for v in VERSIONS},
    **{f"{v} in structs": (v, in_struct(VALUES, None if v == "2.0" else 3)) for v in VERSIONS},
    **{f"{v} in lists": (v, in_lists(VALUES)) for v in ("2.0", "2.2")},
}


@pytest.mark.parametrize("case", CASES)
def test_blobs_are_read_back_by_both_and_survive_pylances_compaction(case: str, tmp_path: Path) -> None:
    version, table = CASES[case]
    uri, expected = str(tmp_path / "t"), table.to_pylist() * 2
    Dataset.write(uri, table, data_storage_version=version)
    Dataset.write(uri, table, "append")
    got = Dataset.open(uri).scan().to_table()
    got.validate(full=True)
    assert got.to_pylist() == expected
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.scanner(blob_handling="all_binary").to_table().to_pylist() == expected
    theirs.optimize.compact_files()
    assert len(lance.dataset(uri).get_fragments()) == 1
    assert Dataset.open(uri).scan().to_table().to_pylist() == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_pylance_opens_our_blobs_as_files(version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, flat(VALUES), data_storage_version=version)
    blobs = lance.dataset(uri).take_blobs("b", indices=list(range(len(VALUES))))
    assert [None if blob is None else blob.readall() for blob in blobs] == VALUES


@pytest.mark.parametrize("version", VERSIONS)
def test_descriptors_are_pylances(version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(flat(VALUES), uri, data_storage_version=version)
    expected = lance.dataset(uri).scanner(blob_handling="all_descriptions").to_table().to_pylist()
    if version == "2.0":  # where pylance shows the descriptor that stands for null
        expected[1]["b"] = None
    scan = Dataset.open(uri).scan(blob_handling="descriptor")
    got = scan.to_table()
    got.validate(full=True)
    assert got.schema == scan.schema
    assert got.schema.field("b").type == lance.dataset(uri).to_table().schema.field("b").type
    assert got.to_pylist() == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_parts_of_descriptors_are_columns(version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, flat(VALUES), data_storage_version=version)
    scan = Dataset.open(uri).scan(columns=["b.size", "id"], filter="b.size > 65536", blob_handling="descriptor")
    assert scan.to_table().to_pylist() == [{"b": {"size": len(v)}, "id": i} for i, v in enumerate(VALUES) if v and len(v) > 65536]


def test_blob_columns_can_be_left_out(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, in_struct(VALUES, 3))
    assert Dataset.open(uri).scan(blob_handling="none").to_table().schema.field("s").type == pa.struct([("x", pa.int32())])
    with pytest.raises(SchemaMismatchError, match=r"s\.b"):
        Dataset.open(uri).scan(columns=["s.b"], blob_handling="none").to_table()
    with pytest.raises(ValueError, match="blob_handling"):
        Dataset.open(uri).scan(blob_handling="all")  # type: ignore[arg-type]


def test_sizes_decide_where_blobs_of_version_2_are(tmp_path: Path) -> None:
    uri, keys = str(tmp_path / "t"), {"inline": "4", "dedicated": "1000", "pack-file": "300"}
    field = marked(**{f"lance-encoding:blob-{key}-size-threshold": value for key, value in keys.items()})
    Dataset.write(uri, flat([b"1234", b"12345", b"x" * 290, b"y" * 100, b"z" * 1000, b"w" * 1001], field))
    descriptors = [row["b"] for row in Dataset.open(uri).scan(blob_handling="descriptor").to_table().to_pylist()]
    places = [(d["kind"], d["blob_id"], d["position"] if d["kind"] else 0) for d in descriptors]
    assert places == [(0, 0, 0), (1, 1, 0), (1, 1, 5), (1, 2, 0), (1, 3, 0), (2, 4, 0)]
    (name,) = (name for name in files(uri) if name.endswith(".lance"))
    folder = name.removesuffix(".lance")
    ids = {1: 295, 2: 100, 3: 1000, 4: 1001}
    assert {n: s for n, s in files(uri).items() if n != name} == {f"{folder}/{f'{i:032b}'[::-1]}.blob": size for i, size in ids.items()}
    assert lance.dataset(uri).schema.field("b").metadata == {k.encode(): v.encode() for k, v in field.metadata.items() if False} | {
        f"lance-encoding:blob-{key}-size-threshold".encode(): value.encode() for key, value in keys.items()
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_that_fails_leaves_no_file(version: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    good = flat(VALUES).to_batches()[0]

    def batches() -> Any:
        yield good
        raise OSError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(good.schema, batches())
    with pytest.raises(OSError, match="gone"):
        Dataset.write(uri, reader, data_storage_version=version)
    assert files(uri) == {}


def test_a_commit_that_fails_leaves_no_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    batch = flat(VALUES).to_batches()[0]

    def batches() -> Any:
        yield batch
        Dataset.write(uri, pa.table({"other": [1]}))  # makes the table before this write can

    with pytest.raises(LanceError):
        Dataset.write(uri, pa.RecordBatchReader.from_batches(batch.schema, batches()), "append")
    assert len(files(uri)) == 1


def test_rows_that_were_read_are_written_as_blobs_again(tmp_path: Path) -> None:
    for version in VERSIONS:
        Dataset.write(str(tmp_path / version), flat(VALUES), data_storage_version=version)
        for other in VERSIONS:
            uri = str(tmp_path / f"{version} to {other}")
            Dataset.write(uri, Dataset.open(str(tmp_path / version)).scan().to_table(), data_storage_version=other)
            assert lance.dataset(uri).take_blobs("b", indices=[0])[0].readall() == VALUES[0]


def test_blob_arrays_of_pylance_are_taken(tmp_path: Path) -> None:
    table = pa.table([lance.blob_array([b"abc", None, b""])], schema=pa.schema([lance.blob_field("b")]))
    uri = str(tmp_path / "t")
    Dataset.write(uri, table)
    lance.write_dataset(table, uri, mode="append")
    Dataset.write(uri, table, "append")
    assert Dataset.open(uri).scan().to_table()["b"].to_pylist() == [b"abc", None, b""] * 3
    with pytest.raises(UnsupportedFeatureError, match=r"'b'.*2\.2"):
        Dataset.write(str(tmp_path / "u"), table, data_storage_version="2.1")
    reference = lance.blob_array([lance.Blob.from_uri("file:///somewhere")])
    with pytest.raises(UnsupportedFeatureError, match=r"'b'.*URI"):
        Dataset.write(uri, pa.table([reference], schema=table.schema), "append")


def test_blobs_elsewhere_are_read_only_when_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"0123456789")
    values = [b"abc", lance.Blob.from_uri(f"file://{tmp_path}/outside"), lance.Blob(uri=f"file://{tmp_path}/outside", position=2, size=3)]
    uri = str(tmp_path / "t")
    table = pa.table([lance.blob_array(values)], schema=pa.schema([lance.blob_field("b")]))
    lance.write_dataset(table, uri, allow_external_blob_outside_bases=True)
    with pytest.raises(UnsupportedFeatureError, match=r"outside.*allow_other_stores"):
        Dataset.open(uri).scan().to_table()
    got = Dataset.open(uri, allow_other_stores=True).scan().to_table()
    assert got["b"].to_pylist() == [b"abc", b"0123456789", b"234"]


@pytest.mark.parametrize(
    ("field", "version", "error", "what"),
    [
        (pa.field("b", pa.string(), metadata={"lance-encoding:blob": "true"}), "2.2", SchemaMismatchError, "'b'.*binary"),
        (pa.field("s", pa.list_(marked())), "2.1", UnsupportedFeatureError, r"'b'.*lists of blobs are not supported"),
        (marked(**{"lance-encoding:blob-inline-size-threshold": "x"}), "2.2", InvalidOptionError, "'b'.*threshold"),
    ],
    ids=["text", "lists", "threshold"],
)
def test_invalid_blobs_are_refused_before_anything_is_written(
    field: pa.Field, version: str, error: type[Exception], what: str, tmp_path: Path
) -> None:
    table = pa.table([pa.nulls(2, field.type)], schema=pa.schema([field]))
    with pytest.raises(error, match=what):
        Dataset.write(str(tmp_path / "t"), table, data_storage_version=version)
    assert files(str(tmp_path / "t")) == {}


@pytest.mark.matrix
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("by", ["ids", "addresses", "indices"])
@pytest.mark.parametrize("stable", [False, True])
def test_blobs_are_taken_as_files(version: str, by: str, stable: bool, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(in_struct(VALUES, None), uri, data_storage_version=version, enable_stable_row_ids=stable, max_rows_per_file=4)
    lance.dataset(uri).delete("s.x = 0")
    dataset = Dataset.open(uri)
    rows = dataset.scan(with_row_id=True, with_row_address=True).to_table()
    keys = {"ids": rows["_rowid"].to_pylist(), "addresses": rows["_rowaddr"].to_pylist(), "indices": list(range(rows.num_rows))}[by]
    order = [5, 0, 7, 3, 3, 1, 6, 2, 4]
    found = dataset.take_blobs("s.b", **{by: [keys[i] for i in order]})
    expected = [rows["s"][i].as_py()["b"] for i in order]
    assert [None if f is None else f.readall() for f in found] == expected
    assert [None if f is None else f.size() for f in found] == [None if v is None else len(v) for v in expected]
    with pytest.raises(IndexError):
        dataset.take_blobs("s.b", **{by: [10**6]})


@pytest.mark.parametrize("verify_checksums", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_blob_file_reads_only_the_required_blocks(version: str, verify_checksums: bool, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    value = os.urandom(6 << 20)
    Dataset.write(uri, flat([b"other" * 100, value]), data_storage_version=version)
    dataset = Dataset.open(uri, verify_checksums=verify_checksums)
    (blob,) = dataset.take_blobs("b", indices=[1])
    assert blob is not None
    before = dataset.snapshot.store.counters.bytes_read
    assert blob.seek(-1000, os.SEEK_END) == len(value) - 1000
    assert blob.read(300) == value[-1000:-700]
    assert blob.tell() == len(value) - 700
    assert blob.seek(100, os.SEEK_CUR) == len(value) - 600
    assert blob.read() == value[-600:]
    assert blob.read(10) == b""
    # The end of the data file, which has the checksums, and for each read a block or two.
    most = (64 << 10) + 4 * BLOCK if verify_checksums else 900
    assert 900 <= dataset.snapshot.store.counters.bytes_read - before <= most
    with io.BufferedReader(blob) as buffered:
        assert buffered.seek(1 << 20) == 1 << 20
        assert buffered.read(5) == value[1 << 20 : (1 << 20) + 5]
    with pytest.raises(ValueError, match="closed"):
        blob.read(1)


def test_blob_files_elsewhere_are_opened_only_when_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"0123456789")
    values = [lance.Blob.from_uri(f"file://{tmp_path}/outside"), lance.Blob(uri=f"file://{tmp_path}/outside", position=2, size=3)]
    uri = str(tmp_path / "t")
    table = pa.table([lance.blob_array(values)], schema=pa.schema([lance.blob_field("b")]))
    lance.write_dataset(table, uri, allow_external_blob_outside_bases=True)
    with pytest.raises(UnsupportedFeatureError, match=r"outside.*allow_other_stores"):
        Dataset.open(uri).take_blobs("b", indices=[0])
    found = Dataset.open(uri, allow_other_stores=True).take_blobs("b", indices=[0, 1])
    assert [f and f.read() for f in found] == [b"0123456789", b"234"]


def test_blobs_below_a_base_path_are_read(tmp_path: Path) -> None:
    (tmp_path / "base" / "a folder").mkdir(parents=True)
    paths = [tmp_path / "base" / "x", tmp_path / "base" / "a folder" / "y:z"]
    for path in paths:
        path.write_bytes(path.name.encode() * 3)
    uri, field = str(tmp_path / "t"), lance.blob_field("b")
    bases = [lance.DatasetBasePath(str(tmp_path / "base"), name="media")]
    lance.write_dataset(pa.table([lance.blob_array([p.as_uri() for p in paths])], schema=pa.schema([field])), uri, initial_bases=bases)
    more = [b"inside", lance.Blob.from_uri(paths[0].as_uri(), position=1, size=2)]
    lance.write_dataset(pa.table([lance.blob_array(more)], schema=pa.schema([field])), uri, mode="append")
    expected = [b"xxx", b"y:zy:zy:z", b"inside", b"xx"]
    table = Dataset.open(uri, allow_other_stores=True)
    assert table.scan().to_table()["b"].to_pylist() == expected
    assert [f and f.read() for f in table.take_blobs("b", indices=range(4))] == expected
    assert [f and f.read() for f in lance.dataset(uri).take_blobs("b", indices=range(4))] == expected
    with pytest.raises(UnsupportedFeatureError, match=r"outside.*allow_other_stores"):
        Dataset.open(uri).scan().to_table()


def test_invalid_arguments_of_take_blobs_are_refused(tmp_path: Path) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), flat(VALUES))
    with pytest.raises(ValueError, match="one of"):
        dataset.take_blobs("b")
    with pytest.raises(ValueError, match="one of"):
        dataset.take_blobs("b", ids=[0], indices=[0])
    with pytest.raises(SchemaMismatchError, match="not a blob"):
        dataset.take_blobs("id", indices=[0])
