"""Merges of nested values: fields that the source lacks keep their values, and nested columns are keys, as in pylance."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import SchemaMismatchError

XY = pa.struct([("x", pa.int64()), ("y", pa.string())])
X = pa.struct([("x", pa.int64())])
DEEP, PART = pa.struct([("a", XY), ("z", pa.int64())]), pa.struct([("a", X)])


def column(t: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(list(values), t)


def upsert(dataset: Any, source: pa.Table, condition: str | None = None) -> None:
    dataset.merge_insert("id").when_matched_update_all(condition).when_not_matched_insert_all().execute(source)


STRUCTS = column(XY, {"x": 1, "y": "a"}, {"x": 2, "y": "b"}, None, {"x": 4, "y": None})
DEEP_STRUCTS = column(DEEP, {"a": {"x": 1, "y": "a"}, "z": 1}, {"a": None, "z": 2}, None, {"a": {"x": 4, "y": "d"}, "z": None})
LISTS = column(pa.list_(XY), [{"x": 1, "y": "a"}], [{"x": 2, "y": "b"}, None], [], None)
CASES = {
    "structs": (STRUCTS, column(X, {"x": 10}, None, {"x": 30}, None, {"x": 90})),
    "other fields": (STRUCTS, column(pa.struct([("y", pa.string())]), {"y": "A"}, {"y": None}, {"y": "C"}, None, {"y": "Z"})),
    "structs in structs": (DEEP_STRUCTS, column(PART, {"a": {"x": 10}}, {"a": {"x": 20}}, {"a": None}, None, {"a": {"x": 90}})),
    "whole structs in structs": (DEEP_STRUCTS, column(pa.struct([("a", XY)]), {"a": None}, None, {"a": {"x": 3, "y": "C"}}, None, None)),
    "lists": (LISTS, column(pa.list_(X), [{"x": 10}], [{"x": 20}, {"x": 21}], [], None, [{"x": 90}])),
}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("condition", [None, "target.id <> 1"])
@pytest.mark.parametrize("case", CASES)
def test_nested_fields_that_the_source_lacks_keep_their_values(tmp_path: Path, case: str, condition: str | None, stable: bool) -> None:
    old, new = CASES[case]
    table = pa.table({"id": range(4), "c": old})
    source = pa.table({"id": [0, 1, 2, 3, 9], "c": new})
    theirs = lance.write_dataset(table, str(tmp_path / "theirs"), enable_stable_row_ids=stable)
    ours = Dataset.open(shutil.copytree(tmp_path / "theirs", tmp_path / "ours"))
    upsert(theirs, source, condition)
    upsert(ours, source, condition)
    expected = lance.dataset(theirs.uri).to_table().sort_by("id").to_pylist()
    seen = lance.dataset(ours.uri)
    seen.validate()
    assert seen.to_table().sort_by("id").to_pylist() == expected
    assert Dataset.open(ours.uri).scan().to_table().sort_by("id").to_pylist() == expected


@pytest.mark.parametrize("value", [[{"x": 10}, {"x": 11}], [], None])
def test_lists_of_other_lengths_without_all_fields_are_refused(tmp_path: Path, value: Any) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({"id": [0], "c": column(pa.list_(XY), [{"x": 1, "y": "a"}])}))
    with pytest.raises(SchemaMismatchError, match=f"column 'c'.* a list has {len(value or [])} items, but 1 in the table"):
        upsert(dataset, pa.table({"id": [0], "c": column(pa.list_(X), value)}))
    assert Dataset.open(dataset.uri).version == 1


def test_maps_whose_values_lack_fields_are_refused(tmp_path: Path) -> None:
    table = pa.table({"id": [0], "c": column(pa.map_(pa.string(), XY), [("k", {"x": 1, "y": "a"})])})
    dataset = Dataset.write(str(tmp_path / "t"), table, data_storage_version="2.2")
    with pytest.raises(SchemaMismatchError, match="column 'c': the source lacks fields"):
        upsert(dataset, pa.table({"id": [0], "c": column(pa.map_(pa.string(), X), [("k", {"x": 2})])}))


KEYS = {
    "structs": column(XY, {"x": 1, "y": "a"}, {"x": 2, "y": None}, None, {"x": None, "y": None}),
    "structs in structs": column(DEEP, {"a": {"x": 1, "y": "a"}, "z": 1}, {"a": None, "z": 1}, None, {"a": {"x": 1, "y": None}, "z": 1}),
    "lists": column(pa.list_(pa.int64()), [1, 2], [], None, [None]),
    "lists of lists": column(pa.large_list(pa.list_(pa.string())), [["a"], []], [[], ["a"]], None, [None]),
    "lists of structs": column(pa.list_(XY), [{"x": 1, "y": "a"}], [], None, [{"x": 1, "y": "a"}] * 2),
    "vectors": column(pa.list_(pa.float32(), 2), [1, 2], [2, 1], None, [1, 1]),
    "halves": column(pa.list_(pa.float16(), 2), [1, 2], [2, 1], None, [1, 1]),
    "maps": column(pa.map_(pa.string(), pa.int64()), [("a", 1)], [], None, [("a", 2)]),
    "dictionaries": column(pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))]), {"d": "a"}, {"d": "b"}, None, {"d": None}),
    "nulls": pa.nulls(4),
    "texts": column(pa.string(), "a", "b", None, ""),
    "large bytes": column(pa.large_binary(), b"a", b"b", None, b""),
    "unsigned numbers": column(pa.uint32(), 1, 2**32 - 1, None, 0),
    "large unsigned numbers": column(pa.uint64(), 1, 2**64 - 1, None, 0),
    "decimals": column(pa.decimal128(20, 2), 1, 2, None, -1),
    "floats": column(pa.float64(), 1.5, math.inf, None, -1.5),
    "days": column(pa.date32(), 1, 2, None, -1),
    "instants of one microsecond": column(pa.timestamp("ns"), 1001, 1002, None, 1003),
    "instants": column(pa.timestamp("us", "UTC"), 1, 2, None, -1),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type_match_as_in_pylance(tmp_path: Path, kind: str) -> None:
    keys = KEYS[kind]
    theirs = lance.write_dataset(pa.table({"k": keys, "v": range(4)}), str(tmp_path / "theirs"), data_storage_version="2.2")
    ours = Dataset.open(shutil.copytree(tmp_path / "theirs", tmp_path / "ours"))
    source = pa.table({"k": keys.take(pa.array([3, 2, 1, 0])), "v": [13, 12, 11, 10]})
    for dataset in (theirs, ours):
        dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(source)
    expected, got = (lance.dataset(d.uri).to_table().sort_by("v").to_pylist() for d in (theirs, ours))
    assert got == expected
    assert [row["v"] for row in got] == ([*range(4), *range(10, 14)] if kind == "nulls" else [2, *range(10, 14)])


@pytest.mark.parametrize("name", ["__source_row", "__target_row", "__row_operation", "source", "target", "0"])
def test_columns_may_be_called_like_what_a_merge_uses(tmp_path: Path, name: str) -> None:
    for key, value in ((name, "v"), ("id", name)):
        dataset = Dataset.write(str(tmp_path / key / "t"), pa.table({key: [1, 2], value: [1, 2]}))
        dataset.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(pa.table({key: [1, 9], value: [10, 90]}))
        got = lance.dataset(dataset.uri).to_table().sort_by(key).to_pydict()
        assert got == {key: [1, 2, 9], value: [10, 2, 90]}


@pytest.mark.parametrize("text", ["concat(s, s)", "s || 'x'", "coalesce(s || 'x', s)"])
def test_texts_joined_in_a_new_column_are_strings(tmp_path: Path, text: str) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({"s": ["a", None]})).add_columns({"c": text})
    assert dataset.schema.field("c").type == pa.string()
    theirs = lance.dataset(dataset.uri)
    assert theirs.schema.field("c").type == pa.string()
    assert lance.write_dataset(pa.table({"s": ["b"], "c": ["cc"]}), theirs, mode="append").count_rows() == 3


def test_texts_joined_with_a_large_string_are_large(tmp_path: Path) -> None:
    rows = pa.table({"s": ["a"], "l": pa.array(["b"], pa.large_string())})
    dataset = Dataset.write(str(tmp_path / "t"), rows).add_columns({"c": "concat(s, l)"})
    assert dataset.schema.field("c").type == pa.large_string()
