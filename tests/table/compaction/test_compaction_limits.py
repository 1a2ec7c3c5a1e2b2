"""Limits of a compaction, and fragments that it leaves as they are: the groups that are rewritten are those of pylance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction

from lance_spark import Dataset
from lance_spark.table.compaction.compaction import CompactionOptions, plan_compaction

SIZES = [10, 10, 7, 10, 40, 10, 50, 10, 10, 3]


def write(uri: str, **options: Any) -> None:
    for start, size in enumerate(SIZES):
        rows = pa.table({"id": pa.array(range(100 * start, 100 * start + size), pa.int64())})
        lance.write_dataset(rows, uri, mode="append", **options)
    lance.dataset(uri).delete("id % 10 = 3")


def groups(uri: str, **options: Any) -> list[list[int]]:
    plan = plan_compaction(Dataset.open(uri).snapshot, CompactionOptions(30, **options))
    return [[f.id for f in group] for group in plan.groups]


def groups_of_pylance(uri: str, **options: Any) -> list[list[int]]:
    plan = Compaction.plan(lance.dataset(uri), options={"target_rows_per_fragment": 30, **options})
    return [[f.id for f in task.fragments] for task in plan.tasks]


OPTIONS: list[dict[str, Any]] = [
    {},
    *({"max_source_fragments": n} for n in (1, 3, 4, 5, 6, 8, 100)),
    *({"max_source_rows": n} for n in (1, 33, 34, 35, 100, 200)),
    *({"max_source_bytes": n} for n in (1, 1000, 2000, 4000, 1 << 40)),
    *({"excluded_fragment_ids": ids} for ids in ([], [1], [2, 2, 99], [0, 9], [1, 3, 5, 7], range(10))),
    {"excluded_fragment_ids": [1], "max_source_fragments": 3, "max_source_rows": 100},
]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_the_groups_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path)
    write(uri, data_storage_version=version)
    assert len(groups(uri)) > 1
    for options in OPTIONS:
        listed = {key: list(value) if key == "excluded_fragment_ids" else value for key, value in options.items()}
        assert groups(uri, **options) == groups_of_pylance(uri, **listed), options


@pytest.mark.parametrize("stable", [False, True])
def test_a_limited_compaction_goes_on_where_the_last_one_stopped(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path)
    write(uri, enable_stable_row_ids=stable)
    before = Dataset.open(uri).scan().to_table().sort_by("id")
    table = Dataset.open(uri).optimize.compact_files(target_rows_per_fragment=30, max_source_fragments=4, excluded_fragment_ids=[9])
    kept = {f.fragment_id for f in lance.dataset(uri).get_fragments()}
    assert {4, 5, 6, 7, 8, 9} <= kept
    assert not {0, 1, 2, 3} & kept
    while (now := table.optimize.compact_files(target_rows_per_fragment=30, max_source_rows=90)).version > table.version:
        table = now
    assert len(table.snapshot.manifest.fragments) < len(SIZES) - 3
    assert table.scan().to_table().sort_by("id").equals(before)
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table().sort_by("id").equals(before)
    theirs.optimize.compact_files()
    assert lance.dataset(uri).count_rows() == before.num_rows


def test_old_files_without_a_recorded_size_count(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, data_storage_version="0.1")
    assert groups(uri, max_source_bytes=1) == []
    assert groups(uri, max_source_bytes=1 << 30) == groups(uri) != []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_source_fragments": 0}, ValueError),
        ({"max_source_rows": -1}, ValueError),
        ({"max_source_bytes": 1.5}, TypeError),
        ({"max_source_rows": True}, TypeError),
        ({"excluded_fragment_ids": 3}, TypeError),
        ({"excluded_fragment_ids": ["a"]}, TypeError),
        ({"excluded_fragment_ids": [-1]}, ValueError),
    ],
)
def test_wrong_limits_are_refused_by_name(tmp_path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    Dataset.write(tmp_path, pa.table({"id": [1]}))
    (name,) = options
    with pytest.raises(error, match=name):
        Dataset.open(tmp_path).optimize.compact_files(**options)
