"""Parts of structs: fields of packed structs, and children that are in no data file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.schema import Field

VERSIONS = ["2.0", "2.1", "2.2"]
PACKED = {"lance-encoding:packed": "true"}
POINT = pa.struct([("a", pa.int32()), ("b", pa.float64()), ("c", pa.int16())])
POINTS = [{"a": i, "b": i / 2, "c": -i} for i in range(1000)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("by", ["us", "pylance"])
def test_fields_of_a_packed_struct_are_columns(version: str, by: str, tmp_path: Path) -> None:
    table = pa.table([pa.array(POINTS, POINT), range(1000)], schema=pa.schema([pa.field("p", POINT, metadata=PACKED), ("n", pa.int64())]))
    uri = str(tmp_path / "t")
    if by == "us":
        Dataset.write(uri, table, data_storage_version=version)
    else:
        lance.write_dataset(table, uri, data_storage_version=cast(Any, version))
    dataset = Dataset.open(uri)
    assert dataset.scan(columns=["p.b"]).to_table()["p"].to_pylist() == [{"b": p["b"]} for p in POINTS]
    found = dataset.scan(columns=["p.c", "p.a"], filter="p.b >= 100 and n < 210").to_table()
    assert found["p"].to_pylist() == [{"a": p["a"], "c": p["c"]} for p in POINTS[200:210]]
    assert dataset.take([7, 3], columns=["p.a"])["p"].to_pylist() == [{"a": 7}, {"a": 3}]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_fields_of_packed_structs_in_lists_are_columns(version: str, tmp_path: Path) -> None:
    item = pa.field("item", POINT, metadata=PACKED)
    rows = [POINTS[i : i + i % 4] if i % 5 else None for i in range(100)]
    table = pa.table([pa.array(rows, pa.list_(item))], schema=pa.schema([("l", pa.list_(item))]))
    dataset = Dataset.write(str(tmp_path / "t"), table, data_storage_version=version)
    assert dataset.scan().to_table().to_pylist() == table.to_pylist()
    assert lance.dataset(dataset.uri).to_table().to_pylist() == table.to_pylist()


def with_child(dataset: Dataset, path: str, child: Field) -> Dataset:
    """The dataset with a child in the struct at `path` that no file has."""
    snapshot = dataset.snapshot
    schema = snapshot.manifest.schema
    target = schema.resolve(path)[-1]

    def extended(field: Field) -> Field:
        if field.id == target.id:
            item = field.children[0] if field.logical_type != "struct" else field
            grown = replace(item, children=(*item.children, child))
            return grown if item is field else replace(field, children=(grown,))
        return replace(field, children=tuple(extended(c) for c in field.children))

    manifest = replace(snapshot.manifest, schema=replace(schema, fields=tuple(extended(f) for f in schema.fields)))
    return Dataset(replace(snapshot, manifest=manifest))


NEW = Field("new", 99, "int32")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_struct_with_only_a_missing_child_keeps_its_nulls(version: str, tmp_path: Path) -> None:
    rows: list[Any] = [{"a": 1, "t": {"b": "x"}}, None, {"a": None, "t": None}, {"a": 4, "t": {"b": None}}]
    if version == "2.0":
        rows = [{"a": 1, "t": {"b": "x"}}, {"a": None, "t": {"b": None}}]
    t = pa.struct([("a", pa.int32()), ("t", pa.struct([("b", pa.string())]))])
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({"s": pa.array(rows, t)}), data_storage_version=version)
    outer, inner = with_child(dataset, "s", NEW), with_child(dataset, "s.t", NEW)
    assert outer.scan(columns=["s.new"]).to_table()["s"].to_pylist() == [r and {"new": None} for r in rows]
    expected = [r and {"t": r["t"] and {"new": None}} for r in rows]
    assert inner.scan(columns=["s.t.new"]).to_table()["s"].to_pylist() == expected
    everything = [r and {**r, "t": r["t"] and {**r["t"], "new": None}} for r in rows]
    assert inner.scan().to_table()["s"].to_pylist() == everything


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_child_is_not_confused_with_one_of_the_same_name(version: str, tmp_path: Path) -> None:
    t = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({"s": pa.array([{"a": 1, "b": 2}], t)}), data_storage_version=version)
    renamed = with_child(dataset, "s", Field("a", 99, "int32"))
    schema = renamed.snapshot.manifest.schema
    (s,) = schema.fields
    only_new = replace(schema, fields=(replace(s, children=s.children[-1:]),))
    again = Dataset(replace(renamed.snapshot, manifest=replace(renamed.snapshot.manifest, schema=only_new)))
    assert again.scan().to_table()["s"].to_pylist() == [{"a": None}]


def test_lists_of_structs_with_only_a_missing_child_keep_their_lengths(tmp_path: Path) -> None:
    rows = [[{"a": 1}, None], None, [], [{"a": None}]]
    column = pa.array(rows, pa.list_(pa.struct([("a", pa.int32())])))
    for version in ("2.1", "2.2"):
        dataset = Dataset.write(str(tmp_path / version), pa.table({"l": column}), data_storage_version=version)
        grown = with_child(dataset, "l", NEW)
        (l,) = grown.snapshot.manifest.schema.fields
        only_new = replace(l, children=(replace(l.children[0], children=(NEW,)),))
        manifest = replace(grown.snapshot.manifest, schema=replace(grown.snapshot.manifest.schema, fields=(only_new,)))
        got = Dataset(replace(grown.snapshot, manifest=manifest)).scan().to_table()["l"].to_pylist()
        assert got == [[{"new": None}, None], None, [], [{"new": None}]]


@pytest.mark.parametrize("version", VERSIONS)
def test_incompatible_dictionaries_are_refused(version: str, tmp_path: Path) -> None:
    def batch(prefix: str) -> pa.RecordBatch:
        items = pa.array([f"{prefix}{i}" for i in range(100)])
        return pa.record_batch([pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), items)], names=["d"])

    with pytest.raises(UnsupportedFeatureError, match="dictionaries"):
        Dataset.write(str(tmp_path / "t"), [batch("a"), batch("b")], data_storage_version=version)
    dataset = Dataset.write(str(tmp_path / "u"), [batch("a"), batch("b")], data_storage_version=version, max_rows_per_file=100)
    got = dataset.scan().to_table()["d"].to_pylist()
    assert got == batch("a")["d"].to_pylist() + batch("b")["d"].to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_with_incompatible_dictionaries_are_not_one_array(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.file.writer.PAGE_BYTES", 50)
    items = [pa.array([f"{prefix}{i}" for i in range(100)]) for prefix in "ab"]
    batches = [pa.record_batch([pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), i)], names=["d"]) for i in items]
    dataset = Dataset.write(str(tmp_path / "t"), batches, data_storage_version=version)
    assert dataset.scan().to_table()["d"].to_pylist() == [value for each in items for value in each.to_pylist()]
    with pytest.raises(UnsupportedFeatureError, match="dictionaries"):
        dataset.take(list(range(200)))
    assert dataset.take([3, 120])["d"].to_pylist() == ["a3", "b20"]
