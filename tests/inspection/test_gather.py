"""Inspection finds every byte of a table, in all storage versions, and reports what it did not read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.inspection.gather import GROUPS, inspect
from lance_spark.inspection.tables import as_text
from lance_spark.inspection.usage import ColumnUse, Inspection
from lance_spark.metadata.manifest import serialise
from tests.sample import TURNS, by_turns, others_slow

CORPUS = os.environ.get("LANCE_SPARK_CORPUS")
GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.lance"))


def rows(count: int, start: int = 0) -> pa.Table:
    ids = np.arange(start, start + count)
    return pa.table(
        {
            "id": ids,
            "s": [f"text {i % 97}" for i in ids],
            "p": pa.array([{"a": float(i), "b": [1, 2]} for i in ids], pa.struct([("a", pa.float64()), ("b", pa.list_(pa.int16()))])),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(0).normal(size=count * 8).astype("f4")), 8),
        }
    )


def found(uri: str | Path, max_files: int = 256) -> Inspection:
    return inspect(Dataset.open(uri).snapshot, max_files)


def column(inspection: Inspection, path: str) -> ColumnUse:
    (use,) = [c for c in inspection.columns if c.path == path]
    return use


def sizes(uri: str | Path) -> int:
    return sum(p.stat().st_size for p in Path(uri).rglob("*") if p.is_file())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_every_byte_of_every_golden_table_is_found(path: Path) -> None:
    every_byte_is_found(path)


@pytest.mark.skipif(CORPUS is None, reason="LANCE_SPARK_CORPUS does not name the corpus's folder")
@pytest.mark.parametrize("turn", by_turns([()]))
def test_every_byte_of_every_table_of_the_corpus_is_found(turn: int, subtests: pytest.Subtests) -> None:
    tables = sorted(path for path in Path(CORPUS or "").glob("*/*.lance") if "overlay" not in path.name)[turn::TURNS]
    assert tables
    for path in tables:
        with subtests.test(path.stem):
            every_byte_is_found(path)


def every_byte_is_found(path: Path) -> None:
    inspection = found(path)
    sample = inspection.sample
    assert inspection.problems == ()
    # Neither the hint nor the second copy of the manifest that old writers kept belongs to a version.
    assert inspection.size == sizes(path) - sum(
        p.stat().st_size for p in (*path.rglob("latest_version_hint.json"), *path.glob("*.manifest"))
    )
    assert sample.files_read == sample.files
    assert sample.size_read == sample.size == inspection.areas[0].size
    assert sum(c.size for c in inspection.columns) + sample.metadata_size + sample.rest_size == sample.size
    assert all(sum(e.size for e in c.encodings) == c.size and sum(e.pages for e in c.encodings) == c.pages for c in inspection.columns)
    assert not [e for c in inspection.columns for e in c.encodings if "unknown" in e.encoding]
    assert sum(g.size for g in inspection.groups) >= sample.size
    assert str(inspection.overview.uri) in as_text(inspection)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
def test_bytes_of_columns_are_those_that_pylance_counts(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(5000), uri, data_storage_version=version, max_rows_per_file=2000)
    expected = {f.id: f.bytes_on_disk for f in lance.dataset(uri).stats.data_stats().fields if f.bytes_on_disk}
    ids = {".".join(n for n in names): i for i, names in ids_and_paths(uri)}
    assert {ids[c.path]: c.size for c in found(uri).columns if c.size} == expected


def ids_and_paths(uri: str) -> list[tuple[int, list[str]]]:
    def walk(fields: list[lance.schema.LanceField], prefix: list[str]) -> list[tuple[int, list[str]]]:
        return [x for f in fields for x in [(f.id(), [*prefix, f.name()]), *walk(f.children(), [*prefix, f.name()])]]

    return walk(lance.dataset(uri).lance_schema.fields(), [])


def test_encodings_pages_and_ratios(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    small = pa.table(
        {"n": pa.array(np.arange(10_000) % 4, pa.int64()), "c": ["same"] * 10_000, "s": [f"a long text {i}" for i in range(10_000)]}
    )
    lance.write_dataset(small, uri, data_storage_version="2.1")
    inspection = found(uri)
    n = column(inspection, "n")
    assert [e.encoding for e in n.encodings] == ["mini-block: inline bitpacking"]
    assert (n.rows, n.plain_size, n.type, n.files, n.in_use) == (10_000, 80_000, "int64", 1, True)
    assert n.plain_size is not None
    assert n.plain_size / n.size > 20
    assert [e.encoding for e in column(inspection, "c").encodings] == ["mini-block: dictionary(inline bitpacking, variable(flat))"]
    assert [e.encoding for e in column(inspection, "s").encodings] == ["mini-block: fsst(variable(flat))"]


def test_columns_that_the_version_does_not_read_are_marked(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(100), uri, data_storage_version="2.1")
    lance.dataset(uri).drop_columns(["v"])
    lance.dataset(uri).alter_columns({"path": "id", "data_type": pa.int32()})
    inspection = found(uri)
    assert {(c.path, c.type) for c in inspection.columns if not c.in_use} == {("v", "fixed_size_list<item: float>[8]"), ("id", "int64")}
    assert ("id", "int32") in {(c.path, c.type) for c in inspection.columns if c.in_use}
    assert "v (not in use)" in as_text(inspection)


def test_fragments_deletions_and_indexes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(3000), uri, max_rows_per_file=1000)
    lance.dataset(uri).delete("id < 500")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.write_dataset(rows(10, 3000), uri, mode="append")
    inspection = found(uri)
    by_id = {f.id: f for f in inspection.largest_fragments}
    assert (by_id[0].rows, by_id[0].deleted, by_id[0].deletion_file) == (500, 500, "arrow")
    assert (by_id[3].rows, by_id[3].deleted, by_id[3].deletion_file) == (10, 0, None)
    assert [(g.rows, g.deleted) for g in inspection.groups] == [(500, 500), (1000, 0), (1000, 0), (10, 0)]
    (index,) = inspection.indexes
    assert (index.name, index.kind, index.columns, index.segments, index.fragments) == ("id_idx", "BTree", ("id",), 1, 3)
    assert index.size == sizes(Path(uri, "_indices")) > 0
    assert {a.name: a.files for a in inspection.areas}["deletion files"] == 1
    assert "3 of 4" in as_text(inspection)


def test_old_versions_and_leftovers_are_an_area_of_their_own(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(1000), uri)
    before = found(uri).areas
    lance.write_dataset(rows(10), uri, mode="overwrite")
    Path(uri, "data", "left.lance").write_bytes(b"x" * 1000)
    areas = {a.name: a for a in found(uri).areas}
    other = areas["other versions and unused files"]
    # The data file, manifest and transaction of version 1, and the leftover.
    assert other.files == 4
    assert other.size >= before[0].size + 1000


def test_files_of_other_tables_count(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(1000), uri, data_storage_version="2.1")
    clone = Dataset.open(uri).shallow_clone(str(tmp_path / "clone"))
    inspection = inspect(clone.snapshot)
    assert inspection.areas[0] == found(uri).areas[0]
    assert inspection.columns == found(uri).columns


def test_large_tables_are_sampled_and_sizes_estimated(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(3000), uri, max_rows_per_file=10, data_storage_version="2.1")
    some, all_files = found(uri, max_files=16), found(uri, max_files=1000)
    assert (some.sample.files, some.sample.files_read) == (300, 16)
    assert (all_files.sample.files_read, all_files.sample.scale) == (300, 1.0)
    estimate = column(some, "id").size * some.sample.scale
    assert estimate == pytest.approx(column(all_files, "id").size, rel=0.05)
    assert len(some.groups) == GROUPS
    assert sum(g.fragments for g in some.groups) == 300
    assert "estimated from 16 of 300 data files" in as_text(some)
    assert "... and 280 smaller fragments" in as_text(some)
    assert found(uri, max_files=16) == some


def test_fewer_files_are_read_if_they_have_many_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(1000), uri, max_rows_per_file=10)
    monkeypatch.setattr("lance_spark.inspection.columns._MAX_PAGES", 50)
    inspection = found(uri)
    assert inspection.sample.files == 100
    assert 8 <= inspection.sample.files_read <= 24
    assert "of 100 data files" in as_text(inspection)


@pytest.mark.parametrize("count", others_slow([10_000, 100_000], [10_000]))
def test_many_fragments_are_no_problem(count: int, tmp_path: Path) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), rows(10))
    snapshot = dataset.snapshot
    (fragment,) = snapshot.manifest.fragments
    many = tuple(replace(fragment, id=i) for i in range(count))
    snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, fragments=many, max_fragment_id=count - 1)))
    inspection = found(dataset.uri)
    assert inspection.overview.rows == 10 * count
    # All fragments name one file, which is read and counted once.
    assert (inspection.sample.files, inspection.sample.files_read) == (1, 1)
    assert sum(g.fragments for g in inspection.groups) == count
    assert len(as_text(inspection)) < 10_000


def test_missing_and_corrupt_files_are_problems_and_the_rest_is_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(3000), uri, max_rows_per_file=1000)
    gone, broken, _ = sorted(Path(uri, "data").iterdir())
    os.unlink(gone)
    broken.write_bytes(b"no Lance file")
    inspection = found(uri)
    assert {p.path for p in inspection.problems} == {f"data/{gone.name}", f"data/{broken.name}"}
    assert inspection.sample.files_read == 1
    assert column(inspection, "id").rows == 1000
    assert f"data/{gone.name}" in as_text(inspection)


def test_an_empty_table_has_no_columns_to_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.schema([("a", pa.int64())]).empty_table(), uri)
    inspection = found(uri)
    assert (inspection.columns, inspection.groups, inspection.sample.files) == ((), (), 0)
    assert "0 rows, 0 fragments" in as_text(inspection)


def test_an_index_with_a_broken_bitmap_is_a_problem(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(100), uri)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    snapshot = Dataset.open(uri).snapshot
    (index,) = snapshot.manifest.indexes
    snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, indexes=(replace(index, fragment_bitmap=b"\xff\xff"),))))
    inspection = found(uri)
    assert inspection.indexes[0].fragments is None
    assert [p.path for p in inspection.problems] == ["index id_idx"]


def test_an_index_of_all_possible_fragments_covers_the_existing_ones(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(100), uri, max_rows_per_file=10)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    snapshot = Dataset.open(uri).snapshot
    (index,) = snapshot.manifest.indexes
    everything = BitMap()
    everything.add_range(0, 2**32)
    everything.run_optimize()
    changed = replace(index, fragment_bitmap=everything.serialize())
    snapshot.store.put(snapshot.path, serialise(replace(snapshot.manifest, indexes=(changed,))))
    assert found(uri).indexes[0].fragments == 10


def test_values_of_blobs_are_found_outside_of_pages(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    blobs = pa.table({"b": [b"x" * 20_000] * 10}, pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]))
    lance.write_dataset(blobs, uri, data_storage_version="2.1")
    inspection = found(uri)
    assert inspection.sample.rest_size >= 200_000
    assert [e.encoding for e in column(inspection, "b").encodings] == ["blob descriptors"]
    assert "(blob values, padding)" in as_text(inspection)
