"""Clustering moves rows so that filters on several columns read few of them; rows, ids and indexes stay right, and pylance goes on."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
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
from lance_spark.table.compaction.clustered import CONFIG, Clustering
from lance_spark.table.compaction.curve import hilbert
from lance_spark.table.scan.runner import Here

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


@pytest.mark.matrix
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
    Dataset.open(uri).optimize.cluster(["x", "name"])
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

    monkeypatch.setattr(cluster, "STAGES", [replace(stage, run=seen) if stage.run is read else stage for stage in cluster.STAGES])
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


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_indexes_are_in_the_commit_that_moves_the_rows(tmp_path: Path, stable: bool) -> None:
    uri = written(tmp_path, stable, rows=8000)
    kinds = {"id": "BTREE", "x": "BITMAP", "y": "ZONEMAP", "name": "NGRAM"}
    for column, kind in kinds.items():
        Dataset.open(uri).create_scalar_index(column, kind)
    Dataset.open(uri).create_scalar_index("name", "INVERTED", name="words", base_tokenizer="raw")
    Dataset.open(uri).create_index("v", "IVF_PQ", num_partitions=4, num_sub_vectors=2)
    Dataset.write(uri, points(1, 500).set_column(0, "id", pa.array(range(8000, 8500))), mode="append")
    lance.dataset(uri).delete("id % 7 = 3")
    before = Dataset.open(uri)
    clustered = before.optimize.cluster("x", "y", target_rows_per_fragment=2500)
    moving = next(
        v for v in range(before.version + 1, clustered.version + 1) if lance.dataset(uri, version=v).count_rows() and _moved(uri, v)
    )
    for version in range(moving, clustered.version + 1):
        theirs = lance.dataset(uri, version=version)
        theirs.validate()
        for name in ("id_idx", "x_idx", "y_idx", "name_idx", "words", "v_idx"):
            figures = theirs.stats.index_stats(name)
            assert (figures["num_unindexed_fragments"], figures["num_indexed_rows"]) == (0, before.count_rows()), (version, name)
        for condition in ("id = 500", "id = 8100", "x = 7", "y > 0.9", "contains(name, '/007')", "x < 9 AND name IS NOT NULL"):
            expected = sorted(before.scan(filter=condition, use_scalar_index=False).to_table()["id"].to_pylist())
            ours = Dataset.open(uri, version=version).scan(filter=condition)
            assert sorted(ours.to_table()["id"].to_pylist()) == sorted(theirs.to_table(filter=condition)["id"].to_pylist()) == expected
        near = {"column": "v", "q": np.array([0.25, 0.25], np.float32), "k": 20, "nprobes": 4}
        assert len(set(theirs.to_table(nearest=near)["id"].to_pylist())) == 20
    assert clustered.verify().ok
    assert before.scan().to_table().sort_by("id").equals(clustered.scan().to_table().sort_by("id"))


def _moved(uri: str, version: int) -> bool:
    """Whether the version is the first one with other data files than the one before."""
    files = [{file.path for f in lance.dataset(uri, version=v).get_fragments() for file in f.data_files()} for v in (version - 1, version)]
    return files[0] != files[1]


def test_segments_that_cover_a_part_are_joined_with_what_is_new(tmp_path: Path) -> None:
    uri = written(tmp_path, stable=True, rows=4000)
    Dataset.open(uri).create_scalar_index("id", "BTREE")
    Dataset.write(uri, points(1, 4000), mode="append")
    Dataset.open(uri).optimize.optimize_indices(num_indices_to_merge=0)
    Dataset.write(uri, points(2, 4000), mode="append")
    before = Dataset.open(uri)
    assert len(before.snapshot.manifest.indexes) == 2
    last = before.snapshot.manifest.fragments[-1].id
    done = cluster.cluster(Here(), before.snapshot, Clustering(("x",), fragments={1, 2, 4, last}))
    after = Dataset.open(uri)
    assert after.version == done.version
    for number in (0, 1500, 4100, 11999):
        assert after.scan(filter=f"id = {number}").to_table()["id"].to_pylist() == [number]
        assert lance.dataset(uri).to_table(filter=f"id = {number}")["id"].to_pylist() == [number]
    assert lance.dataset(uri).stats.index_stats("id_idx")["num_unindexed_fragments"] == 0
    lance.dataset(uri).validate()
    assert after.verify().ok


def test_a_compaction_keeps_the_order(tmp_path: Path) -> None:
    uri = written(tmp_path)
    Dataset.open(uri).optimize.compact_files(10_000, sort_by=["x", "y"])
    assert len(Dataset.open(uri).snapshot.manifest.fragments) == 4
    assert share_read(uri, "x < 10") < 0.5
    Dataset.write(uri, points(1), mode="append")
    first = {f.id for f in Dataset.open(uri).snapshot.manifest.fragments}
    done = Dataset.open(uri).optimize.compact_files(10_000)
    assert len(first & {f.id for f in done.snapshot.manifest.fragments}) == 4, "what is clustered stays"
    assert share_read(uri, "x < 10") < 0.5
    assert done.optimize.compact_files(10_000).version == done.version, "nothing is left to do"
    lance.dataset(uri).delete("id < 20000")
    again = Dataset.open(uri).optimize.compact_files(10_000)
    assert not [f for f in again.snapshot.manifest.fragments if f.deletion is not None]
    assert share_read(uri, "x < 10") < 0.5
    lance.dataset(uri).validate()
    with pytest.raises(InvalidOptionError, match="leave out defer_index_remap"):
        again.optimize.compact_files(defer_index_remap=True)


def test_a_compaction_of_a_clustered_table_has_limits(tmp_path: Path) -> None:
    uri = written(tmp_path)
    optimize = Dataset.open(uri).optimize
    done = optimize.compact_files(5_000, sort_by=["x"], max_source_fragments=2, excluded_fragment_ids=[0])
    assert [f.id for f in done.snapshot.manifest.fragments][:2] == [0, 3]
    assert [f.physical_rows for f in done.snapshot.manifest.fragments][2:] == [5_000] * 4


def test_many_columns_fill_a_fragment_with_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = written(tmp_path)
    monkeypatch.setattr(cluster, "_RANGE_BYTES", 300_000)
    first = Dataset.open(uri).optimize.cluster("x", "y")
    assert len(first.snapshot.manifest.fragments) > 2
    kept = {f.id for f in first.snapshot.manifest.fragments}
    Dataset.write(uri, points(1, 500), mode="append")
    second = Dataset.open(uri).optimize.cluster()
    assert kept < {f.id for f in second.snapshot.manifest.fragments}, "all are far below a million rows, but full"


def test_appends_and_their_indexes_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = written(tmp_path, rows=4000)
    Dataset.open(uri).create_scalar_index("id", "BTREE")
    commit = getattr(cluster, "commit")  # noqa: B009

    def late(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(cluster, "commit", commit)
        theirs = lance.write_dataset(points(1, 4000), uri, mode="append")
        theirs.delete("id = 4500")
        return commit(*arguments, **more)

    monkeypatch.setattr(cluster, "commit", late)
    done = Dataset.open(uri).optimize.cluster("x", "y")
    assert done.count_rows() == lance.dataset(uri).count_rows() == 7999
    for number in (17, 4501):
        assert done.scan(filter=f"id = {number}").to_table()["id"].to_pylist() == [number]
        assert lance.dataset(uri).to_table(filter=f"id = {number}")["id"].to_pylist() == [number]
    lance.dataset(uri).validate()


@pytest.mark.parametrize("place", ["write_sorted", "rebuild"])
def test_a_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    uri = written(tmp_path, rows=4000)
    before = Dataset.open(uri).create_scalar_index("id", "BTREE")
    monkeypatch.setattr(cluster, "_RANGE_BYTES", 30_000)
    calls, real = [], getattr(cluster, place)

    def failing(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 5 or place == "rebuild":
            raise OSError("the disk is full")
        return real(*arguments)

    monkeypatch.setattr(cluster, place, failing)
    monkeypatch.setattr(cluster, "STAGES", [replace(stage, run=failing) if stage.run is real else stage for stage in cluster.STAGES])
    folders = [tmp_path / "t.lance" / name for name in ("data", "_indices")]
    files = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    with pytest.raises(OSError, match="the disk is full"):
        before.optimize.cluster("x", "y")
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == files
    assert Dataset.open(uri).scan(filter="id = 5").count_rows() == 1


def test_the_growth_of_the_manifest_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = written(tmp_path, stable=True, rows=4000)
    Dataset.write(uri, points(1, 4000), mode="append")
    files = sorted(path.name for path in (tmp_path / "t.lance" / "data").iterdir())
    monkeypatch.setattr(cluster, "_MOST_LINEAGE_BYTES", 100_000)
    with pytest.raises(UnsupportedFeatureError, match="the manifest larger by"):
        Dataset.open(uri).optimize.cluster("x", "y")
    assert sorted(path.name for path in (tmp_path / "t.lance" / "data").iterdir()) == files
    monkeypatch.undo()
    done = Dataset.open(uri).optimize.cluster("x", "y")
    grown = sum(len(s) for f in done.snapshot.manifest.fragments for s in (f.row_ids, f.created_at, f.updated_at) if isinstance(s, bytes))
    assert 100_000 < grown <= 8000 * 34


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
    with pytest.raises(TypeError, match="not 7"):
        optimize.cluster("x", 7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="target_rows"):
        optimize.cluster("x", target_rows_per_fragment=0)


@pytest.mark.parametrize("text", ["", "[]", '{"columns": 7}', '{"columns": ["x"], "jobs": [{}]}', '{"columns": [null]}'])
def test_a_record_that_is_not_ours_counts_for_nothing(tmp_path: Path, text: str) -> None:
    uri = written(tmp_path, rows=400)
    update_config(Dataset.open(uri).snapshot, {CONFIG: text})
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
