"""RTREE, FM and MINHASHLSH indexes of pylance: what it finds through them is right after every verb of ours, and so is what we find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

from lance_spark import Dataset

POINT = pa.field("point", pa.struct([("x", pa.float64()), ("y", pa.float64())]), metadata={"ARROW:extension:name": "geoarrow.point"})
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string()), POINT])
KINDS = {"rtree": "point", "fm": "text", "minhashlsh": "text"}
NEAR = "ST_Intersects(point, ST_GeomFromText('POLYGON((10 0, 20 0, 20 2, 10 2, 10 0))'))"


def rows(start: int, stop: int) -> pa.Table:
    points = pa.array([{"x": float(i), "y": 1.0} for i in range(start, stop)], POINT.type)
    return pa.table(
        {"id": range(start, stop), "text": [f"the text number {i}" for i in range(start, stop)], "point": points}, schema=SCHEMA
    )


VERBS: dict[str, Callable[[Dataset], Any]] = {
    "append": lambda t: Dataset.write(t.uri, rows(100, 120), "append"),
    "delete": lambda t: t.delete("id < 5 OR id = 12"),
    "update of another column": lambda t: t.update({"id": "id + 1000"}, "id = 30 OR id = 14"),
    "update of the texts": lambda t: t.update({"text": "'number 7 again'"}, "id = 40"),
    "merge": lambda t: t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(95, 125)),
    "compaction": lambda t: t.optimize.compact_files(),
    "compaction without remapping": lambda t: t.optimize.compact_files(defer_index_remap=True),
    "new column": lambda t: t.add_columns({"more": "id + 1"}),
    "dropped column": lambda t: t.drop_columns(["more"]),
    "indexes": lambda t: t.optimize.optimize_indices(),
    "restored": lambda t: t.checkout_version(t.version - 1).restore(),
    "second compaction": lambda t: t.optimize.compact_files(target_rows_per_fragment=40),
}


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_pylance_finds_the_same_rows_with_and_without_the_index(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 100), uri, max_rows_per_file=25, enable_stable_row_ids=stable)
    for kind, column in KINDS.items():
        lance.dataset(uri).create_scalar_index(column, IndexConfig(kind, {}), name=kind)
    for verb, change in VERBS.items():
        change(Dataset.open(uri))
        theirs, ours = lance.dataset(uri), Dataset.open(uri)
        for condition in ("contains(text, 'number 7')", "contains(text, 'again')"):
            assert theirs.count_rows(condition) == ours.count_rows(condition) == len(plain(theirs, condition)), verb
        assert theirs.count_rows(NEAR) == ours.count_rows(NEAR) == len(plain(theirs, NEAR)), verb
        assert {listed["name"] for listed in ours.list_indices()} >= KINDS.keys(), verb
        assert ours.verify().problems == (), verb
        theirs.validate()


def plain(dataset: Any, condition: str) -> pa.Table:
    return dataset.scanner(filter=condition, use_scalar_index=False).to_table()


def test_they_are_described(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(rows(0, 100), uri, max_rows_per_file=50)
    for kind, column in KINDS.items():
        dataset.create_scalar_index(column, IndexConfig(kind, {}), name=kind)
    table = Dataset.write(uri, rows(100, 120), "append")
    assert {listed["name"]: listed["type"] for listed in table.list_indices()} == {"rtree": "RTree", "fm": "FM", "minhashlsh": "MinHashLsh"}
    for kind in KINDS:
        found = table.index_statistics(kind)
        assert (found["num_indexed_rows"], found["num_unindexed_rows"]) == (100, 20)
