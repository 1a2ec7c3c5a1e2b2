"""Clustering moves rows so that filters on several columns read few of them; rows, ids and indexes stay right, and pylance goes on."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, InvalidOperationError, InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.table.changes.alter import update_config
from lance_spark.table.compaction import cluster
from lance_spark.table.compaction.curve import hilbert

ROWS = 40_000
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def points(seed: int = 0, rows: int = ROWS) -> pa.Table:
    """Rows with two columns without any relation, texts of them with nulls, and vectors."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 1000, rows), rng.random(rows)
    names = pa.array([None if n % 50 == 0 else f"https://example.org/{n:03d}" for n in x])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(y, 2).astype(np.float32)), 2)
    return pa.table({"id": np.arange(rows) + seed * rows, "x": x, "y": y, "name": names, "v": vectors})


def written(path: Path, stable: bool = False, rows: int = ROWS) -> str:
    uri = str(path / "t.lance")
    lance.write_dataset(points(rows=rows), uri, max_rows_per_file=rows // 4, enable_stable_row_ids=stable)
    return uri


def share_read(uri: str, condition: str) -> float:
    """The share of the rows that the indexes leave to a scan with this condition."""
    text = str(Dataset.open(uri).scan(filter=condition).explain())
    left = next(line for line in text.splitlines() if "rows left by the indexes" in line)
    kept, total = left.split(": ")[1].split(",")[0].split(" of ")
    return int(kept) / int(total)


@pytest.mark.parametrize("two_passes", [False, True], ids=["in memory", "sorted runs"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_filters_on_either_column_read_few_rows(tmp_path: Path, stable: bool, two_passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = written(tmp_path, stable)
    Dataset.open(uri).create_scalar_index("id", "BTREE")
    for column in ("x", "y"):
        Dataset.open(uri).create_scalar_index(column, "ZONEMAP", rows_per_zone=256)
    lance.dataset(uri).delete("id % 7 = 3")
    columns = ["id", "x", "y", "name", "v", *(LINEAGE if stable else [])]
    before = Dataset.open(uri).scan(columns=columns).to_table().sort_by("id")
    if two_passes:
        monkeypatch.setattr(cluster, "_RANGE_BYTES", 300_000)
    dataset = Dataset.open(uri).optimize.cluster("x", "y", target_rows_per_fragment=10_000)
    assert dataset.scan(columns=columns).to_table().sort_by("id").equals(before)
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table(columns=columns).sort_by("id").equals(before)
    assert dataset.verify().ok
    assert share_read(uri, "x < 10") < 0.2
    assert share_read(uri, "y > 0.99") < 0.2
    for condition in ("x < 10", "y > 0.99", "id = 500", "x = 7 AND y < 0.5", "name = 'https://example.org/007'"):
        assert sorted(dataset.scan(filter=condition).to_table()["id"].to_pylist()) == sorted(
            theirs.to_table(filter=condition)["id"].to_pylist()
        )
    left = {path.name for path in (tmp_path / "t.lance" / "data").iterdir()}
    named = {file.path for version in (1, theirs.version) for f in lance.dataset(uri, version).get_fragments() for file in f.data_files()}
    assert left == named, "sorted runs are deleted"


def test_pylance_goes_on_with_a_clustered_table(tmp_path: Path) -> None:
    uri = written(tmp_path)
    Dataset.open(uri).optimize.cluster("x", "name")
    theirs = lance.write_dataset(points(1), uri, mode="append")
    theirs.delete("x < 100")
    theirs.optimize.optimize_indices()
    theirs.optimize.compact_files()
    expected = [i for t in (points(), points(1)) for i, x in zip(t["id"].to_pylist(), t["x"].to_pylist()) if x >= 100]
    assert sorted(Dataset.open(uri).scan(filter="x >= 0").to_table()["id"].to_pylist()) == sorted(expected)
    assert Dataset.open(uri).optimize.cluster().count_rows() == len(expected)


def test_only_new_and_small_fragments_are_written_again(tmp_path: Path) -> None:
    uri = written(tmp_path)
    dataset = Dataset.open(uri).optimize.cluster("x", "y", target_rows_per_fragment=10_000)
    first = {f.id for f in dataset.snapshot.manifest.fragments}
    assert dataset.optimize.cluster(target_rows_per_fragment=10_000).version == dataset.version, "nothing is new"
    Dataset.write(uri, points(1, 3000), mode="append")
    second = Dataset.open(uri).optimize.cluster(target_rows_per_fragment=10_000)
    assert first < {f.id for f in second.snapshot.manifest.fragments}
    Dataset.write(uri, points(2, 3000), mode="append")
    third = Dataset.open(uri).optimize.cluster(target_rows_per_fragment=10_000)
    assert sorted(f.physical_rows for f in third.snapshot.manifest.fragments) == [6000, *[10_000] * 4], "the small one, too"
    other = Dataset.open(uri).optimize.cluster("y", target_rows_per_fragment=10_000)
    assert not first & {f.id for f in other.snapshot.manifest.fragments}, "other columns: all"
    again = Dataset.open(uri).optimize.cluster("y", full=True)
    assert len(again.snapshot.manifest.fragments) == 1


@pytest.mark.parametrize(
    "values",
    [
        [True, False, None],
        [1.5, float("nan"), None, float("-inf")],
        [dt.date(2020, 1, 1), None, dt.date(1960, 1, 1)],
        [dt.datetime(2020, 1, 1), dt.datetime(1900, 1, 1), None],
        [dt.time(1, 2), dt.time(23, 0)],
        [Decimal("1.50"), Decimal("-7.25"), None],
        [b"a", b"", None],
        ["", "é", "x" * 100, None],
        [None, None],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_columns_of_values_with_an_order(tmp_path: Path, values: list[Any]) -> None:
    uri = str(tmp_path / "t.lance")
    column = pa.array(values * 50) if any(v is not None for v in values) else pa.nulls(100, pa.int16())
    table = pa.table({"id": range(len(column)), "c": column, "s": [{"n": i % 9} for i in range(len(column))]})
    Dataset.write(uri, table)
    dataset = Dataset.open(uri).optimize.cluster("c", "s.n")
    assert [i.name for i in dataset.snapshot.manifest.indexes] == ["c_idx", "s.n_idx"]
    assert str(dataset.scan().to_table().sort_by("id").to_pylist()) == str(table.to_pylist())
    lance.dataset(uri).validate()


def test_a_dictionary_of_pylance_is_a_column_without_zones(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = pa.table({"id": range(300), "d": pa.array([f"x{i % 7}" if i % 11 else None for i in range(300)]).dictionary_encode()})
    lance.write_dataset(table, uri, max_rows_per_file=100)
    dataset = Dataset.open(uri).optimize.cluster("d", "id", target_rows_per_fragment=150)
    assert dataset.scan().to_table().sort_by("id").to_pylist() == table.to_pylist()
    assert [i.name for i in dataset.snapshot.manifest.indexes] == ["id_idx"]


def test_a_frequent_value_is_never_sorted_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    table = pa.table(
        {"id": np.arange(50_000), "x": np.where(np.arange(50_000) % 10, 7, np.arange(50_000)), "y": np.random.default_rng(0).random(50_000)}
    )
    Dataset.write(uri, table)
    monkeypatch.setattr(cluster, "_RANGE_BYTES", 60_000)
    streamed = []
    read = cluster.write_sorted

    def seen(task: cluster.SortTask) -> list[cluster.Run]:
        streamed.append(not task.sorts)
        return read(task)

    monkeypatch.setattr(cluster, "STAGES", [(tasks, seen if run is read else run) for tasks, run in cluster.STAGES])
    dataset = Dataset.open(uri).optimize.cluster("x")
    assert dataset.scan().to_table().sort_by("id").equals(table)
    assert any(streamed)


def test_another_writer_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = written(tmp_path)
    stale = Dataset.open(uri)
    files = sorted(path.name for path in (tmp_path / "t.lance" / "data").iterdir())
    commit = cluster.commit_clustered

    def late(*arguments: Any) -> Any:
        lance.dataset(uri).delete("id = 5")
        return commit(*arguments)

    monkeypatch.setattr(cluster, "commit_clustered", late)
    with pytest.raises(CommitConflictError):
        stale.optimize.cluster("x")
    assert sorted(path.name for path in (tmp_path / "t.lance" / "data").iterdir()) == files
    assert lance.dataset(uri).count_rows() == ROWS - 1


def test_what_cannot_be_clustered(tmp_path: Path) -> None:
    uri = written(tmp_path, rows=400)
    optimize = Dataset.open(uri).optimize
    with pytest.raises(InvalidOperationError, match="name the columns"):
        optimize.cluster()
    with pytest.raises(UnsupportedFeatureError, match="'v'"):
        optimize.cluster("v")
    with pytest.raises(SchemaMismatchError, match="nothing"):
        optimize.cluster("nothing")
    with pytest.raises(InvalidOptionError, match="at most 4"):
        optimize.cluster(*"abcde")
    with pytest.raises(InvalidOptionError, match="once"):
        optimize.cluster("x", "x")
    with pytest.raises(ValueError, match="target_rows"):
        optimize.cluster("x", target_rows_per_fragment=0)


@pytest.mark.parametrize("text", ["", "[]", '{"columns": 7}', '{"columns": ["x"], "jobs": [{}]}', '{"columns": [null]}'])
def test_a_record_that_is_not_ours_counts_for_nothing(tmp_path: Path, text: str) -> None:
    uri = written(tmp_path, rows=400)
    update_config(Dataset.open(uri).snapshot, {cluster.CONFIG: text})
    assert Dataset.open(uri).optimize.cluster("x").scan(filter="x >= 0").count_rows() == 400


@settings(deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32))
def test_neighbours_on_the_curve_differ_in_one_coordinate(dimensions: int, seed: int) -> None:
    side = 4
    axes = np.meshgrid(*[np.arange(side, dtype=np.uint64)] * dimensions)
    # Any cell of the curve is such a curve, too.
    corner = np.random.default_rng(seed).integers(0, (1 << 16) // side, dimensions).astype(np.uint64) * np.uint64(side)
    points = [axis.ravel() + start for axis, start in zip(axes, corner)]
    order = np.argsort(hilbert(points))
    steps = sum(np.abs(np.diff(point[order].astype(np.int64))) for point in points)
    assert (steps == 1).all()
