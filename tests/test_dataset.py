"""Dataset: after every kind of change by pylance, both libraries read the same."""

import dataclasses
import pickle
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.dataset import Dataset
from lance_spark.display.pylance_names import INSTEAD
from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError, VersionNotFoundError
from lance_spark.metadata.manifest import serialise
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

VERSIONS = ["2.0", "2.1", "2.2", "2.3"]


def rows(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids),
            "name": pa.array([f"n{i % 11}" for i in ids]),
            "x": pa.array(ids * 0.5, mask=ids % 5 == 0),
            "p": pa.array([{"a": int(i), "b": f"b{i}"} for i in ids], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "l": pa.array([None if i % 7 == 0 else list(range(i % 4)) for i in ids], pa.list_(pa.int16())),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(ids, 4).astype("f4")), 4),
        }
    )


def same(uri: str, version: int | None = None, **scan: Any) -> pa.Table:
    """The rows that we read, after checking that pylance reads the same."""
    expected = lance.dataset(uri, version=version).to_table(**scan)
    got = Dataset.open(uri, version=version).scan(**scan).to_table()
    assert got.schema == expected.schema
    assert got == expected
    return got


@pytest.fixture(params=VERSIONS)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table of three fragments, in every storage version."""
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 250), uri, max_rows_per_file=100, data_storage_version=request.param)
    return uri


def test_all_rows_and_the_schema(uri: str) -> None:
    ds = Dataset.open(uri)
    assert ds.schema == lance.dataset(uri).schema
    assert ds.count_rows() == same(uri).num_rows == 250
    assert (ds.uri, ds.version) == (uri, 1)


def test_deleted_rows_are_gone(uri: str) -> None:
    lance.dataset(uri).delete("id % 10 = 3 OR id BETWEEN 100 AND 190")
    assert same(uri).num_rows == Dataset.open(uri).count_rows()
    same(uri, version=1)
    same(uri, with_row_id=True)
    same(uri, columns=["name"], with_row_address=True, with_row_id=True)


def test_columns_are_added_renamed_dropped_and_cast(uri: str) -> None:
    ds = lance.dataset(uri)
    ds.add_columns({"twice": "id * 2"})
    ds.add_columns(pa.field("later", pa.struct([("c", pa.int32())])))
    ds.alter_columns({"path": "x", "name": "y"}, {"path": "p.a", "name": "aa"})
    ds.alter_columns({"path": "id", "data_type": pa.int32()})
    ds.drop_columns(["v"])
    lance.write_dataset(late(), uri, mode="append")
    for version in range(1, lance.dataset(uri).version + 1):
        same(uri, version=version)
    same(uri, columns=["later", "y"])


def late() -> pa.Table:
    """Rows for the table after its columns were changed, without some of them."""
    table = rows(250, 50)
    p = pa.array([{"aa": i, "b": str(i)} for i in range(50)], pa.struct([("aa", pa.int32()), ("b", pa.string())]))
    return pa.table({"id": table["id"].cast(pa.int32()), "name": table["name"], "y": table["x"], "p": p, "l": table["l"]})


def test_parts_of_a_struct_in_different_files_are_one_struct(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    t = pa.struct([("a", pa.int32()), ("b", pa.string())])
    data = pa.table({"id": range(6), "p": pa.array([None if i == 2 else {"a": i, "b": str(i)} for i in range(6)], t)})
    lance.write_dataset(data, uri, data_storage_version="2.1")
    lance.dataset(uri).add_columns(pa.schema([pa.field("later", pa.int64())]))
    lance.dataset(uri).alter_columns({"path": "p.a", "data_type": pa.int64()})
    assert len(Dataset.open(uri).snapshot.manifest.fragments[0].files) == 2
    same(uri)
    for child in ("a", "b"):
        # pylance gives the child a column of its own, we leave it in its struct.
        got = Dataset.open(uri).scan([f"p.{child}"]).to_table()
        assert got.schema.field("p").type.num_fields == 1
        assert pc.struct_field(got["p"], child) == lance.dataset(uri).to_table(columns=[f"p.{child}"])[f"p.{child}"]


def test_a_missing_child_of_a_struct_is_null(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    old = pa.table({"id": [0, 1, 2], "p": pa.array([{"a": 1}, None, {"a": 3}], pa.struct([("a", pa.int32())]))})
    lance.write_dataset(old, uri, data_storage_version="2.1")
    ds = Dataset.open(uri)
    manifest = ds.snapshot.manifest
    p = manifest.schema.fields[1]
    extra = dataclasses.replace(p.children[0], id=9, name="z", logical_type="string")
    schema = dataclasses.replace(manifest.schema, fields=(manifest.schema.fields[0], dataclasses.replace(p, children=(extra, *p.children))))
    changed = dataclasses.replace(ds.snapshot, manifest=dataclasses.replace(manifest, schema=schema))
    got = Dataset(changed).scan().to_table()["p"].to_pylist()
    assert got == [{"z": None, "a": 1}, None, {"z": None, "a": 3}]


def test_merged_updated_and_upserted_rows(uri: str) -> None:
    ds = lance.dataset(uri)
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(200, 100))
    ds = lance.dataset(uri)
    ds.update({"name": "'changed'"}, where="id < 20")
    ds = lance.dataset(uri)
    ds.merge(pa.table({"id": range(300), "more": [str(i) for i in range(300)]}), "id")
    for version in range(1, lance.dataset(uri).version + 1):
        same(uri, version=version)


@pytest.mark.parametrize(("column", "new"), [("name", "new"), ("x", -1.0)])
def test_a_rewritten_column_replaces_the_old_one(uri: str, column: Any, new: Any) -> None:
    fragment = lance.dataset(uri).get_fragments()[0]
    update = pa.table({"_rowid": pa.array(range(100), pa.uint64()), column: [new] * 100})
    updated, fields = fragment.update_columns(update, left_on="_rowid", right_on="_rowid")
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(uri, operation, read_version=1)
    files = Dataset.open(uri).snapshot.manifest.fragments[0].files
    assert -2 in files[0].fields
    assert same(uri)[column][5].as_py() == new


def test_compacted_fragments(uri: str) -> None:
    lance.dataset(uri).delete("id < 120")
    lance.dataset(uri).optimize.compact_files()
    same(uri)


def test_stable_row_ids_stay_with_their_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 250), uri, max_rows_per_file=100, enable_stable_row_ids=True)
    ds = lance.dataset(uri)
    ds.delete("id % 3 = 0")
    ds.update({"name": "'u'"}, where="id % 7 = 1")
    lance.write_dataset(rows(300, 20), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    for version in range(1, lance.dataset(uri).version + 1):
        same(uri, version=version, with_row_id=True, with_row_address=True)
    lineage = ["id", "_row_created_at_version", "_row_last_updated_at_version", "_rowid"]
    same(uri, columns=lineage)


def test_json_columns_are_text(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    json = pa.array(['{"b": [1, 2.5, "x"], "a": null}', None, "true", '"é\\n"'] * 5)
    nested = pa.StructArray.from_arrays([pa.ExtensionArray.from_storage(pa.json_(), json)], ["j"])
    lance.write_dataset(pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), json), "s": nested}), uri)
    got = same(uri, columns=["j"])
    assert got.schema.field("j").type == pa.json_(pa.string())
    both = Dataset.open(uri).scan().to_table()
    assert both["s"].combine_chunks().field(0).storage.to_pylist() == got["j"].combine_chunks().storage.to_pylist()


def test_a_shallow_clone_reads_the_files_of_its_source(uri: str, tmp_path: Path) -> None:
    lance.dataset(uri).delete("id = 5")
    clone = str(tmp_path / "clone.lance")
    lance.dataset(uri).shallow_clone(clone, 2)
    lance.write_dataset(rows(500, 10), clone, mode="append")
    assert same(clone).num_rows == 259


def test_a_branch_has_its_own_rows(uri: str) -> None:
    ds = lance.dataset(uri)
    branch = lance.write_dataset(rows(700, 5), ds.create_branch("dev"), mode="append")
    branch.delete("id = 1")
    ours = Dataset.open(uri, branch="dev")
    assert ours.scan().to_table() == ds.checkout_version(("dev", None)).to_table()
    assert ours.count_rows() == 254
    assert list(ours.branches.list()) == list(Dataset.open(uri).branches.list()) == ["dev"]
    ds.tags.create("mine", ("dev", 2))
    assert ours.tags.list()["mine"].branch == "dev"
    assert Dataset.open(uri, tag="mine").count_rows() == 255


def test_versions_are_those_of_pylance(uri: str) -> None:
    lance.write_dataset(rows(0, 1), uri, mode="append")
    expected = lance.dataset(uri).versions()
    assert [v.version for v in Dataset.open(uri).versions()] == [v["version"] for v in expected]


def test_legacy_tables(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    data = pa.table({"id": range(500), "s": [str(i) for i in range(500)]})
    lance.write_dataset(data, uri, data_storage_version="legacy", max_rows_per_file=200)
    lance.dataset(uri).delete("id % 4 = 0")
    lance.dataset(uri).drop_columns(["s"])
    same(uri, version=1)
    same(uri, version=2)
    same(uri)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "scan",
    [
        *({"limit": 130}, {"limit": 0}, {"limit": 7, "offset": 95}, {"offset": 230}, {"offset": 999}, {"limit": 10**9}),
        *({"limit": 2**63 - 1, "offset": 5}, {"limit": 10**30, "offset": 95}, {"offset": 10**30}, {"limit": 2**64, "offset": 2**64}),
    ],
    ids=str,
)
@pytest.mark.parametrize("deleted", [None, "id % 3 = 1"])
def test_limit_and_offset_count_rows_of_the_result(uri: str, scan: Any, deleted: Any) -> None:
    if deleted:
        lance.dataset(uri).delete(deleted)
    everything = Dataset.open(uri).scan().to_table()
    got = Dataset.open(uri).scan(**scan).to_table()
    assert got == everything.slice(min(scan.get("offset", 0), 1000), min(scan.get("limit", 1000), 1000))
    assert Dataset.open(uri).scan(filter="id >= 0", **scan).to_table() == got


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("filter", "columns"),
    [("id >= 95 AND id < 205", None), ("name = 'n3'", ["id"]), ("x IS NULL", ["v", "l"]), ("p.a > 200", ["p.b"]), ("p.b = 'b7'", ["p.a"])],
)
def test_a_filter_may_use_columns_that_are_not_returned(uri: str, filter: Any, columns: Any) -> None:
    lance.dataset(uri).delete("id = 100")
    ds = Dataset.open(uri)
    expected = lance.dataset(uri).to_table(filter=filter)
    got = ds.scan(columns, filter).to_table()
    whole = ds.scan(None, filter).to_table()
    assert whole == expected
    assert got == ds.scan(columns).to_table().take(pc.index_in(whole["id"], ds.scan(["id"]).to_table()["id"]))
    assert ds.count_rows(filter) == expected.num_rows
    assert ds.scan(columns, filter, limit=5, offset=3).to_table() == got.slice(3, 5)


def test_a_filter_on_the_row_address_reads_no_file(uri: str) -> None:
    ds = Dataset.open(uri)
    assert ds.scan(["id"], f"_rowaddr = {1 << 32 | 5}").to_table()["id"].to_pylist() == [105]
    assert ds.count_rows("_rowaddr >= 0") == 250


@pytest.mark.matrix
@pytest.mark.parametrize("deleted", [None, "id % 3 = 1", "id > 20"])
@pytest.mark.parametrize("indices", [[], [0], [5, 3, 5, 0], [81, 2, 33, 80, 82], list(range(50, 83))], ids=str)
def test_take_returns_rows_in_the_given_order(uri: str, deleted: Any, indices: Any) -> None:
    if deleted:
        lance.dataset(uri).delete(deleted)
    ds = Dataset.open(uri)
    indices = [i % ds.count_rows() for i in indices]
    assert ds.take(indices) == ds.scan().to_table().take(pa.array(indices, pa.int64()))
    if indices:
        assert ds.take(indices, ["name", "p.a"]).to_pydict() == lance.dataset(uri).take(indices, ["name", "p"]).select(
            ["name"]
        ).to_pydict() | {"p": [{"a": row["a"]} for row in lance.dataset(uri).take(indices)["p"].to_pylist()]}


def test_take_reads_no_more_than_it_needs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = pa.array([np.random.default_rng(i).bytes(2000) for i in range(3000)])
    lance.write_dataset(pa.table({"a": values}), uri, max_rows_per_file=1000, data_storage_version="2.1")
    ds = Dataset.open(uri)
    assert ds.take([1500])["a"][0] == values[1500]
    counters = ds.snapshot.store.counters
    assert counters.bytes_read < 200_000


@pytest.mark.parametrize("indices", [[-1], [250], [0, 10**12]])
def test_taking_a_missing_row_is_an_error(uri: str, indices: Any) -> None:
    with pytest.raises(IndexError, match="has 250 rows"):
        Dataset.open(uri).take(indices)


@given(st.integers(1, 40), st.integers(1, 300), st.sampled_from([None, "id % 2 = 0"]))
@settings(max_examples=20)
def test_tasks_give_the_rows_of_the_scan_in_order(tmp_path_factory: Any, parallelism: Any, batch_size: Any, deleted: Any) -> None:
    uri = str(tmp_path_factory.mktemp("t"))
    lance.write_dataset(rows(0, 400), uri, max_rows_per_file=150)
    if deleted:
        lance.dataset(uri).delete(deleted)
    ds = Dataset.open(uri)
    tasks = plan_tasks(ds.snapshot, ScanPlan(batch_size=batch_size), parallelism)
    batches = [b for task in tasks for b in pickle.loads(pickle.dumps(task)).read()]
    assert all(0 < b.num_rows <= batch_size for b in batches)
    assert pa.Table.from_batches(batches) == ds.scan().to_table()


@pytest.mark.matrix
@pytest.mark.parametrize("columns", [["id"], None])
@pytest.mark.parametrize("limit", [None, 500])
def test_batches_of_a_filter_have_at_most_the_rows_that_are_asked_for(tmp_path: Path, columns: list[str] | None, limit: int | None) -> None:
    ds = Dataset.write(tmp_path / "t", rows(0, 4000))
    scan = ds.scan(columns, filter="id >= 100", batch_size=70, limit=limit)
    assert max(batch.num_rows for batch in scan.to_batches()) <= 70
    assert scan.to_table()["id"].to_pylist() == list(range(100, 600 if limit else 4000))


def test_large_fragments_are_divided_and_small_ones_packed(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import lance_spark.table.scan.plan as scan

    snapshot = Dataset.open(uri).snapshot
    assert len(plan_tasks(snapshot, ScanPlan(), 12)) == 1
    monkeypatch.setattr(scan, "MIN_TASK_BYTES", 100)
    monkeypatch.setattr(scan, "OPEN_BYTES", 0)
    tasks = plan_tasks(snapshot, ScanPlan(), 4)
    assert 8 <= len(tasks) <= 16
    assert [b for task in tasks for b in task.read()]
    assert sum(p.num_rows for task in tasks for p in task.parts) == 250


def test_missing_columns_are_named(uri: str) -> None:
    ds = Dataset.open(uri)
    with pytest.raises(SchemaMismatchError, match="no column 'nope'"):
        ds.scan(["nope"]).to_table()
    wrong: list[dict[str, Any]] = [{"limit": -1}, {"offset": -1}, {"batch_size": 0}]
    for scan in wrong:
        with pytest.raises(ValueError, match="at least"):
            ds.scan(**scan)


def test_columns_are_a_sequence_of_names(uri: str) -> None:
    ds = Dataset.open(uri)
    for read in (ds.scan, lambda columns: ds.take([0], columns), lambda columns: ds.take_rows([0], columns)):
        with pytest.raises(TypeError, match="columns must be a sequence of names"):
            read("id")
    assert ds.scan([], with_row_id=True).to_table().column_names == ["_rowid"]


def test_a_scan_without_columns_has_the_rows_that_pylance_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = Dataset.write(path, pa.table({"id": range(10)})).delete("id = 3")
    theirs = lance.dataset(path)
    for kwargs in ({}, {"filter": "id > 4"}, {"limit": 3}, {"filter": "id > 100"}):
        scan = table.scan([], **kwargs)
        assert scan.to_table().shape == theirs.to_table(columns=[], **kwargs).shape
        assert sum(batch.num_rows for batch in scan.to_batches()) == scan.to_table().num_rows


def test_a_tilde_is_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    Dataset.write("~/t", pa.table({"id": [1, 2]}))
    assert (tmp_path / "t/_versions").is_dir()
    assert Dataset.open("~/t").count_rows() == lance.dataset("~/t").count_rows() == 2


@pytest.mark.parametrize("column", ["only", "nested", "lists"])
def test_structs_without_fields_are_read_and_written_in_files_of_2_0(tmp_path: Path, column: str) -> None:
    empty = pa.struct([])
    values = {
        "only": pa.array([{}, {}, {}], empty),
        "nested": pa.array([{"s": {}, "x": i} for i in range(3)], pa.struct([("s", empty), ("x", pa.int64())])),
        "lists": pa.array([[{}], [], [{}, {}]], pa.list_(empty)),
    }
    table, (ours, theirs) = pa.table({"id": [1, 2, 3], column: values[column]}), (str(tmp_path / who) for who in ("ours", "theirs"))
    lance.write_dataset(table, theirs, data_storage_version="2.0")
    Dataset.write(ours, table, data_storage_version="2.0")
    for uri in (ours, theirs):
        assert Dataset.open(uri).scan().to_table().to_pydict() == lance.dataset(uri).to_table().to_pydict() == table.to_pydict()
        assert Dataset.open(uri).scan([column], filter="id > 1").to_table()[column].to_pylist() == table[column].to_pylist()[1:]


def test_an_alteration_that_names_no_change_is_an_error(uri: str) -> None:
    with pytest.raises(ValueError, match="nothing to alter in column 'id'"):
        Dataset.open(uri).alter_columns({"path": "id"})
    with pytest.raises(ValueError, match="must be specified"):
        lance.dataset(uri).alter_columns({"path": "id"})


def test_tables_that_mix_files_of_different_versions_are_written_to(tmp_path: Path) -> None:
    path, rows = str(tmp_path / "t"), pa.table({"id": [1, 2], "s": ["a", "b"]})
    for mode, version in (("create", "2.1"), ("append", "2.2"), ("append", "2.0")):
        lance.write_dataset(rows, path, mode=mode, data_storage_version=version)
    table = Dataset.write(path, rows, "append").delete("id = 1")
    table = table.alter_columns({"path": "s", "name": "t"})
    assert lance.dataset(path).to_table().to_pydict() == table.scan().to_table().to_pydict() == {"id": [2] * 4, "t": ["b"] * 4}
    lance.write_dataset(pa.table({"id": [3], "t": ["c"]}), path, mode="append", data_storage_version="2.2")
    assert sorted(Dataset.open(path).scan().to_table()["id"].to_pylist()) == [2, 2, 2, 2, 3]


def test_a_table_is_found_by_its_path_object(tmp_path: Path) -> None:
    Dataset.write(tmp_path / "t", pa.table({"a": [1, 2]}))
    assert Dataset.open(tmp_path / "t").count_rows() == 2


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_structs_without_fields_are_read(version: str, tmp_path: Path) -> None:
    empty = pa.struct([])
    table = pa.table(
        {"e": pa.array([{}] * 5, empty), "s": pa.array([{"e": {}, "i": i} for i in range(5)], pa.struct({"e": empty, "i": pa.int8()}))}
    )
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    ds = Dataset.open(tmp_path / "t")
    assert ds.scan().to_table().to_pylist() == table.to_pylist()
    assert ds.take([3, 1]).to_pylist() == table.take([3, 1]).to_pylist()


def tampered(ds: Dataset, **changes: Any) -> Dataset:
    """The table with its first fragment changed in the manifest."""
    manifest = ds.snapshot.manifest
    fragments = (dataclasses.replace(manifest.fragments[0], **changes), *manifest.fragments[1:])
    return Dataset(dataclasses.replace(ds.snapshot, manifest=dataclasses.replace(manifest, fragments=fragments)))


def test_errors_name_the_table_the_version_and_the_file(uri: str, tmp_path: Path) -> None:
    ds = Dataset.open(uri)
    file = ds.snapshot.manifest.fragments[0].files[0]
    for broken, what in (
        (tampered(ds, physical_rows=99), "has 100 rows, but the fragment has 99"),
        (tampered(ds, files=(dataclasses.replace(file, path="gone.lance"),)), r"gone\.lance is missing"),
        (tampered(ds, files=(dataclasses.replace(file, path="../../x"),)), "outside of the table"),
        (tampered(ds, files=(dataclasses.replace(file, size=5),)), "expected 5 bytes"),
        (tampered(ds, files=(dataclasses.replace(file, column_indices=tuple(c + 50 for c in file.column_indices)),)), "column"),
    ):
        for read in (broken.scan().to_table, partial(broken.take, [3])):
            with pytest.raises(CorruptFileError, match=what) as e:
                read()
            assert f"{uri}, version 1: " in str(e.value)


def test_a_table_with_unknown_features_is_refused(uri: str, tmp_path: Path) -> None:
    ds = Dataset.open(uri)
    newer = dataclasses.replace(ds.snapshot.manifest, version=2, reader_flags=1 << 20)
    ds.snapshot.store.put("_versions/18446744073709551613.manifest", serialise(newer))
    with pytest.raises(UnsupportedFeatureError, match=f"{uri}.*1048576"):
        Dataset.open(uri)
    assert Dataset.open(uri, version=1).count_rows() == 250


def test_rows_are_read_by_the_names_of_pylance(uri: str) -> None:
    ours, theirs = Dataset.open(uri), lance.dataset(uri)
    assert ours.to_table(["id"], "id > 3", limit=5) == theirs.to_table(["id"], "id > 3", limit=5)
    assert pa.Table.from_batches(ours.to_batches(filter="id < 120", batch_size=7)) == theirs.to_table(filter="id < 120")
    assert ours.head(3) == theirs.head(3)
    assert ours.to_pandas(["id", "name"], "id % 2 = 0").equals(theirs.to_table(["id", "name"], "id % 2 = 0").to_pandas())


def test_a_sample_has_each_row_at_most_once(uri: str) -> None:
    dataset = Dataset.open(uri).delete("id % 3 = 0")
    ids = dataset.sample(40, ["id"])["id"].to_pylist()
    assert len({*ids}) == 40
    assert all(i % 3 for i in ids)
    assert dataset.sample(30, ["id"], randomize_order=False)["id"].to_pylist() != ids[:30]
    everything = dataset.sample(1000, ["id"], randomize_order=False)["id"].to_pylist()
    assert everything == dataset.to_table(["id"])["id"].to_pylist()


def test_rows_are_inserted_into_the_latest_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    first = Dataset.write(uri, rows(0, 250))
    first.insert(rows(250, 10))
    later = first.insert(rows(260, 10), commit_message="more")  # the first version is not the latest any more
    assert (later.version, later.count_rows(), later.history()[0].message) == (3, 270, "more")
    branch = later.create_branch("dev").insert(rows(270, 5))
    assert (branch.count_rows(), Dataset.open(uri).count_rows()) == (275, 270)
    assert branch.insert(rows(0, 2), "overwrite").count_rows() == 2
    assert lance.dataset(uri).count_rows() == 270
    with pytest.raises(SchemaMismatchError):
        first.insert(pa.table({"id": ["text"]}))


def test_rows_are_not_inserted_into_another_table_at_the_same_place(tmp_path: Path) -> None:
    first = Dataset.write(tmp_path / "t", pa.table({"id": [1]}))
    shutil.rmtree(tmp_path / "t")
    Dataset.write(tmp_path / "t", pa.table({"id": [2]}))
    with pytest.raises(VersionNotFoundError, match="dropped and made anew"):
        first.insert(pa.table({"id": [3]}))
    assert Dataset.open(tmp_path / "t").to_table()["id"].to_pylist() == [2]


def test_names_of_pylance_that_are_missing_tell_what_to_call(uri: str) -> None:
    dataset: Any = Dataset.open(uri)
    with pytest.raises(AttributeError, match=r"a Dataset has no attribute 'scanner'; call scan\(\.\.\)"):
        _ = dataset.scanner
    with pytest.raises(AttributeError, match=r"a Dataset has no attribute 'nothing'$"):
        _ = dataset.nothing
    assert {*INSTEAD} <= {*dir(lance.LanceDataset)}
    assert not {*INSTEAD} & {*dir(Dataset)}
