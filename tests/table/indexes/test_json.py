"""JSON indexes of both writers: the rows of a scan, whatever the documents have at the path."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError

ROWS = 300


def document(i: int) -> str | None:
    """A document with a value of each type, sometimes null or missing."""
    if i % 17 == 0:
        return [None, "{}", "null", "[1]", '"n"'][i // 17 % 5]
    number = None if i % 13 == 0 else i * (1 << 50) if i % 11 == 0 else i % 40
    values = {"n": number, "x": i / 4, "s": f"é{i % 30}", "b": i % 3 == 0, "list": [{"v": i % 7}, f"t{i % 5}"], "o": {"p q": f"word{i}"}}
    return json.dumps(values)


def table(rows: range = range(ROWS)) -> pa.Table:
    return pa.table({"id": rows, "doc": pa.array([document(i) for i in rows], pa.json_())})


PATHS = [("n", "int"), ("x", "float"), ("s", "string"), ("b", "bool"), ("$.list[0].v", "int"), ('$.o["p q"]', "string")]
CONDITIONS = {
    "int": ["= 5", "IN (3, 7, 22)", "> 1000", "IS NULL", "< 2 AND id < 100"],
    "float": ["= 4.25", "> 70.5", "IN (1.5, 2.5)", "IS NOT NULL"],
    "string": ["= 'é7'", "IN ('é1', 'word9')", "LIKE '%ord11%'", "> 'word90'", "IS NULL"],
    "bool": ["= true", "= false"],
}


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def check(path: Path, at: str, function: str, used: bool = True) -> None:
    """Compare all conditions with and without the index; and with pylance, where its index and its scan agree: on plain names."""
    ours, theirs, named, plain = Dataset.open(path), lance.dataset(path), False, at.isalpha()
    for condition in CONDITIONS[function]:
        text = f"json_get_{function}(doc, '{at}') {condition}"
        with_index = ours.scan(columns=["id"], filter=text)
        rows = ids(with_index.to_table())
        assert rows == ids(ours.scan(columns=["id"], filter=text, use_scalar_index=False).to_table()), text
        assert ours.count_rows(text) == len(rows)
        named |= "(JSON)" in with_index.explain()
        if plain:
            assert rows == ids(theirs.scanner(columns=["id"], filter=text).to_table()), text
            assert rows == ids(theirs.scanner(columns=["id"], filter=text, use_scalar_index=False).to_table()), text
    assert named == used


@pytest.mark.matrix
@pytest.mark.parametrize("writer", ["ours", "pylance"])
@pytest.mark.parametrize(
    ("target", "stable"), [("BTREE", False), ("BITMAP", False), ("BITMAP", True), ("ZONEMAP", False), ("NGRAM", False)]
)
def test_indexes_of_both_writers_give_the_rows_of_a_scan(writer: str, target: str, stable: bool, tmp_path: Path) -> None:
    paths = PATHS if target == "BTREE" else PATHS[-1:] if target == "NGRAM" else PATHS[:1]
    Dataset.write(tmp_path, table(), max_rows_per_file=120, enable_stable_row_ids=stable)
    for at, _ in paths:
        make(tmp_path, writer, target, at, name=at)
    lance.dataset(tmp_path).delete("id % 10 = 3")
    lance.write_dataset(table(range(ROWS, ROWS + 40)), tmp_path, mode="append")
    for maintained in (False, True):
        if maintained:
            maintain(tmp_path, writer, target)
        for at, function in paths:
            check(tmp_path, at, function)
            assert (Dataset.open(tmp_path).index_statistics(at)["num_unindexed_rows"] == 0) == maintained
        assert Dataset.open(tmp_path).verify().ok


def make(path: Path, writer: str, target: str, at: str, name: str = "doc_idx") -> None:
    if writer == "ours":
        Dataset.open(path).create_scalar_index("doc", "JSON", name, path=at, target_index_type=target)
    else:
        config = IndexConfig("json", {"path": at, "target_index_type": target.lower()})
        lance.dataset(path).create_scalar_index("doc", config, name=name)


def maintain(path: Path, writer: str, target: str) -> None:
    """Compact and optimize with the other writer. pylance 14 extends no JSON indexes but those of BTREE, and drops compacted zones."""
    if writer == "ours" and target != "ZONEMAP":
        lance.dataset(path).optimize.compact_files()
    if writer == "ours" and target == "BTREE":
        lance.dataset(path).optimize.optimize_indices()
    else:
        Dataset.open(path).optimize.compact_files()
        Dataset.open(path).optimize.optimize_indices()


def test_pylance_uses_our_index_and_lists_it(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, table()).create_scalar_index("doc", "JSON", path="n", target_index_type="btree")
    (listed,) = made.list_indices()
    assert (listed["name"], listed["type"], listed["fields"]) == ("doc_idx", "Json", ["doc"])
    theirs = lance.dataset(tmp_path)
    assert theirs.describe_indices()[0].type_url == "/lance.index.pb.JsonIndexDetails"
    assert "ScalarIndexQuery: query=[Json(doc = 5->n)]@doc_idx(BTree)" in theirs.scanner(filter="json_get_int(doc, 'n') = 5").explain_plan()


def test_pylances_configuration_of_an_index_is_taken(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, table()).create_scalar_index("doc", IndexConfig("json", {"path": "n", "target_index_type": "bitmap"}))
    assert made.list_indices()[0]["type"] == "Json"
    assert [file.name for file in tmp_path.glob("_indices/*/*")] == ["bitmap_page_lookup.lance"]


def stored(path: Path) -> pa.DataType:
    """The type of the values in the only index of a table."""
    (file,) = path.glob("_indices/*/page_data.lance")
    return lance.file.LanceFileReader(str(file)).metadata().schema.field("values").type


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        [None, 3],
        [1.5, 2],
        [2.0],
        ["a", None],
        [True],
        [1 << 63, 1],
        [],
        [None],
        [1, 1.5],
        [1, "2"],
        ["a", 1],
        [True, 0],
        [[1]],
        [{}],
    ],
    ids=str,
)
def test_values_have_the_type_that_pylance_gives_them(values: list[Any], tmp_path: Path) -> None:
    documents = pa.table({"doc": pa.array([json.dumps({"v": v}) for v in values] + ["{}", None], pa.json_())})
    found: list[pa.DataType | str] = []
    for writer in ("ours", "pylance"):
        Dataset.write(tmp_path / writer, documents)
        try:
            make(tmp_path / writer, writer, "BTREE", "v")
            found.append(stored(tmp_path / writer))
        except (InvalidOptionError, ValueError):
            found.append("refused")
    assert found[0] == found[1]


def test_a_condition_that_the_index_does_not_answer_reads_the_rows(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, table()).create_scalar_index("doc", "JSON", path="$.n", target_index_type="btree")
    others = ["json_get_float(doc, '$.n') = 5", "json_get_string(doc, '$.n') = '5'", "json_get_int(doc, '$.x') = 5", "doc = '{}'"]
    others += ["json_get_int(doc, '$.n') = 5 OR json_extract(doc, '$.n') = '6'", "get_json_object(doc, '$.n') = '5'"]
    for text in others:
        scan = made.scan(columns=["id"], filter=text)
        assert "JSON" not in scan.explain()
        assert ids(scan.to_table()) == ids(made.scan(columns=["id"], filter=text, use_scalar_index=False).to_table())
    both = made.scan(filter="json_get_int(doc, 'n') = 5 AND json_get_int(doc, '$[\"n\"]') = 5")
    assert "doc_idx (JSON)" in both.explain()


def test_get_json_object_uses_an_index_of_strings_for_texts_that_no_other_value_has(tmp_path: Path) -> None:
    values = ["a", "b", "1", "null", "[1]", None, "a"]
    documents = pa.table({"id": range(7), "doc": pa.array([json.dumps({"v": v}) for v in values], pa.json_())})
    made = Dataset.write(tmp_path, documents).create_scalar_index("doc", "JSON", path="$.v", target_index_type="BTREE")
    for text, used in [("= 'a'", True), ("IN ('b', 'c')", True), ("= '1'", False), ("= 'null'", False), ("<> 'a'", False)]:
        condition = f"get_json_object(doc, '$.v') {text}"
        scan = made.scan(columns=["id"], filter=condition)
        assert ("JSON" in scan.explain()) == used
        assert ids(scan.to_table()) == ids(made.scan(columns=["id"], filter=condition, use_scalar_index=False).to_table())


def test_an_index_without_values_takes_the_type_of_the_first_one_that_is_added(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, pa.table({"id": [1], "doc": pa.array(["{}"], pa.json_())}))
    made = made.create_scalar_index("doc", "JSON", path="n", target_index_type="BITMAP")
    Dataset.write(tmp_path, table(), mode="append").optimize.optimize_indices(num_indices_to_merge=0)
    check(tmp_path, "n", "int")


def test_rows_with_values_of_another_type_stay_outside_of_the_index(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Dataset.write(tmp_path, table()).create_scalar_index("doc", "JSON", path="n", target_index_type="BTREE")
    made = Dataset.write(tmp_path, pa.table({"id": [ROWS], "doc": pa.array(['{"n": "5"}'], pa.json_())}), mode="append")
    with caplog.at_level(logging.WARNING):
        kept = made.optimize.optimize_indices()
    assert "values of int64 and of string" in caplog.text
    assert kept.index_statistics("doc_idx")["num_unindexed_rows"] == 1
    assert ROWS in ids(kept.scan(filter="json_get_int(doc, 'n') = 5").to_table())
    with pytest.raises(InvalidOptionError, match="values of int64 and of string"):
        made.optimize.optimize_indices(index_names=["doc_idx"])
    assert len(list(tmp_path.glob("_indices/*"))) == 1


def test_compaction_with_a_fragment_reuse_index_keeps_the_answers(tmp_path: Path) -> None:
    Dataset.write(tmp_path, table(), max_rows_per_file=100).create_scalar_index("doc", "JSON", path="n", target_index_type="BTREE")
    Dataset.open(tmp_path).delete("id % 3 = 0").optimize.compact_files(defer_index_remap=True)
    check(tmp_path, "n", "int")


@pytest.mark.matrix
@pytest.mark.parametrize("target", ["BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize("at", ["n", "nothing"])
def test_an_index_follows_the_rows_that_a_compaction_moves(at: str, target: str, tmp_path: Path) -> None:
    Dataset.write(tmp_path, table(), max_rows_per_file=100)
    make(tmp_path, "pylance", target, at)
    lance.write_dataset(table(range(ROWS, ROWS + 20)), tmp_path, mode="append")
    Dataset.open(tmp_path).delete("id % 3 = 0 AND id > 100").optimize.compact_files()
    made = Dataset.open(tmp_path)
    assert made.index_statistics("doc_idx")["num_indexed_rows"] > 150
    assert made.verify().ok
    check(tmp_path, "n", "int", used=at == "n")


def test_an_index_that_is_not_trained_yet_has_the_type_of_the_values(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, table()).create_scalar_index("doc", "JSON", train=False, path="n", target_index_type="BTREE")
    assert stored(tmp_path) == pa.int64()
    check(tmp_path, "n", "int", used=False)
    made.optimize.optimize_indices()
    check(tmp_path, "n", "int")


def test_what_cannot_be_indexed_is_refused(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path / "t", table().append_column("text", pa.array(["{}"] * ROWS)))
    bad: list[tuple[str, str, dict[str, Any], str]] = [
        ("text", "JSON", {"path": "$.n"}, "cannot be built for column 'text'"),
        ("doc", "BTREE", {}, "cannot be built for column 'doc'"),
        ("doc", "JSON", {}, "needs the parameter path"),
        ("doc", "JSON", {"path": "$.a[*]"}, "is not supported"),
        ("doc", "JSON", {"path": "$.n", "target_index_type": "BLOOMFILTER"}, "invalid target_index_type"),
        ("doc", "JSON", {"path": "$.n", "rows_per_zone": 3}, "has no parameter 'rows_per_zone'"),
    ]
    for column, kind, parameters, message in bad:
        with pytest.raises(InvalidOptionError, match=message):
            made.create_scalar_index(column, kind, **parameters)
    stable = Dataset.write(tmp_path / "stable", table(), enable_stable_row_ids=True)
    with pytest.raises(UnsupportedFeatureError, match="use BITMAP"):
        stable.create_scalar_index("doc", "JSON", path="n", target_index_type="BTREE")


@pytest.mark.parametrize("damage", [b"", b"\xff\xff", b"\x0a\x01n", b"\x0a\x03$.*\x12\x20\x0a\x1e/lance.table.BTreeIndexDetails"])
def test_damaged_details_leave_the_index_unused(damage: bytes, tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, table()).create_scalar_index("doc", "JSON", path="n", target_index_type="BTREE")
    manifest = made.snapshot.manifest
    damaged = replace(manifest, indexes=tuple(replace(i, details=damage) for i in manifest.indexes))
    table_ = Dataset(replace(made.snapshot, manifest=damaged))
    text = "json_get_int(doc, 'n') = 5"
    assert "JSON" not in table_.scan(filter=text).explain()
    assert ids(table_.scan(filter=text).to_table()) == ids(made.scan(filter=text).to_table())
    assert BitMap(table_.list_indices()[0]["fragment_ids"]) == BitMap([0])
