"""Data overlays (flag 64), which pylance writes and reads if a variable is set: the rows are the same, and no verb drops them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.file import LanceFileWriter
from lance.fragment import DataFile
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import OVERLAYS_VARIABLE
from lance_spark.metadata.overlays import overlays_of

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
ROWS = pa.table(
    {
        "id": range(10),
        "s": [f"s{i}" for i in range(10)],
        "l": [[i] * (i % 3) for i in range(10)],
        "r": pa.array([{"a": i, "b": "x"} for i in range(10)], STRUCT),
        "v": pa.array([[float(i)] * 4 for i in range(10)], pa.list_(pa.float32(), 4)),
    }
)
FIELDS = {"id": [0], "s": [1], "l": [3], "r": [5, 6], "v": [7]}
"""The field ids of the leaves of each column."""


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERLAYS_VARIABLE, "1")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(ROWS, uri, max_rows_per_file=5)
    return uri


def overlay(uri: str, fragment: int, columns: dict[str, Any], offsets: Sequence[int] | Sequence[Sequence[int]], fields: Any = None) -> None:
    """Commit an overlay with pylance, by default of the fields of these columns."""
    arrays = {name: v if isinstance(v, pa.Array) else pa.array(v, ROWS.schema.field(name).type) for name, v in columns.items()}
    table = pa.table(arrays)
    name = f"overlay{len(list(Path(uri, 'data').iterdir()))}.lance"
    path = Path(uri, "data", name)
    with LanceFileWriter(str(path), table.schema, version="2.2") as out:
        out.write_batch(table)
    ids = fields or [i for column in columns for i in FIELDS[column]]
    file = DataFile(name, ids, list(range(len(ids))), 2, 2, path.stat().st_size)
    group = LanceOperation.DataOverlayGroup(fragment, [LanceOperation.DataOverlayFile(file, offsets)])
    lance.LanceDataset.commit(uri, LanceOperation.DataOverlay([group]), read_version=lance.dataset(uri).version)


def several(uri: str) -> None:
    """Overlays of all columns, some over others."""
    overlay(uri, 0, {"s": ["A", None]}, [1, 3])
    overlay(uri, 0, {"s": ["C", "D"], "id": [103, 104]}, [3, 4])
    overlay(uri, 1, {"l": [[7, 7], None], "v": [[1.5] * 4, None]}, [0, 4])
    overlay(uri, 1, {"r": [{"a": 1, "b": None}, None, {"a": None, "b": "z"}]}, [1, 2, 3])
    overlay(uri, 1, {"id": [-1, -2], "s": ["X", "Y"]}, [[0, 4], [1, 2]])


QUERIES: dict[str, Callable[[Any], pa.Table]] = {
    "all": lambda t: t.to_table(),
    "some columns": lambda t: t.to_table(columns=["v", "s"]),
    "a struct's field": lambda t: t.to_table(columns={"b": "r.b"}) if isinstance(t, lance.LanceDataset) else b_of(t),
    "new values": lambda t: t.to_table(filter="s = 'C' OR id < 0"),
    "old values": lambda t: t.to_table(filter="s IN ('s3', 's1') OR id = 4"),
    "nulls": lambda t: t.to_table(filter="s IS NULL OR l IS NULL"),
    "some rows": lambda t: t.take([0, 3, 5, 6], columns=["id", "s"]),
}


def b_of(table: Dataset) -> pa.Table:
    """The field `b` of each struct."""
    return pa.table({"b": table.to_table(columns=["r"])["r"].combine_chunks().flatten()[1]})


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("state", ["as written", "with deleted rows", "with an index"])
def test_rows_are_those_of_pylance(uri: str, query: str, state: str) -> None:
    if state == "with an index":
        lance.dataset(uri).create_scalar_index("id", "BTREE")
        lance.dataset(uri).create_scalar_index("s", "BITMAP")
    several(uri)
    if state == "with deleted rows":
        lance.dataset(uri).delete("id = 2 OR id = 103 OR s = 'X'")
    ours, theirs = QUERIES[query](Dataset.open(uri)), QUERIES[query](lance.dataset(uri))
    assert ours.to_pydict() == theirs.to_pydict()


def test_the_variable_is_needed_and_named(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    several(uri)
    monkeypatch.delenv(OVERLAYS_VARIABLE)
    with pytest.raises(UnsupportedFeatureError, match=OVERLAYS_VARIABLE):
        Dataset.open(uri)
    with pytest.raises(ValueError, match="64"):
        lance.dataset(uri)


VERBS: dict[str, Callable[[Dataset], Any]] = {
    "append": lambda t: Dataset.write(t.uri, ROWS, "append"),
    "overwrite": lambda t: Dataset.write(t.uri, ROWS, "overwrite"),
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"s": "'z'"}, "id = 0"),
    "merge": lambda t: t.merge_insert("id").when_matched_update_all().execute(ROWS),
    "new column": lambda t: t.add_columns({"n": "id + 1"}),
    "dropped column": lambda t: t.drop_columns(["id"]),
    "compaction": lambda t: t.optimize.compact_files(),
    "index": lambda t: t.create_scalar_index("id", "BTREE"),
    "restore": lambda t: t.checkout_version(2).restore(),
    "config": lambda t: t.update_config({"a": "b"}),
    "shallow clone": lambda t: t.shallow_clone(t.uri + ".clone"),
    "deep clone": lambda t: t.deep_clone(t.uri + ".clone"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_are_refused_and_say_what_to_do(uri: str, verb: str) -> None:
    several(uri)
    version = lance.dataset(uri).version
    with pytest.raises(UnsupportedFeatureError, match=r"64 \(data overlays\); compact it with pylance"):
        VERBS[verb](Dataset.open(uri))
    assert lance.dataset(uri).version == version
    assert not Path(uri + ".clone", "_versions").exists()


def test_after_a_compaction_of_pylance_verbs_go_on_and_its_history_is_read(uri: str) -> None:
    several(uri)
    expected = Dataset.open(uri).to_table()
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    table = Dataset.open(uri)
    assert table.to_table().to_pydict() == expected.to_pydict()
    assert [entry.operation for entry in table.history()].count("DataOverlay") == 5
    with pytest.raises(UnsupportedFeatureError, match="64"):
        table.checkout_version(3).restore()
    assert table.delete("id = 103").count_rows() == 9
    lance.dataset(uri).validate()


def test_a_change_that_was_prepared_before_an_overlay_conflicts_with_it(uri: str) -> None:
    before = Dataset.open(uri)
    several(uri)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    # Row 3 has another id since: the update is computed anew.
    assert before.update({"s": "'late'"}, "id = 3").count_rows("s = 'late'") == 0


def test_cleanup_keeps_files_of_overlays(uri: str) -> None:
    several(uri)
    expected = Dataset.open(uri).to_table().to_pydict()
    Dataset.open(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert Dataset.open(uri).to_table().to_pydict() == lance.dataset(uri).to_table().to_pydict() == expected


def test_overlays_of_a_part_of_a_struct_are_those_of_pylance(uri: str) -> None:
    rows = ROWS.set_column(3, "r", pa.array([None if i % 2 else {"a": i, "b": "x"} for i in range(10)], STRUCT))
    lance.write_dataset(rows, uri, mode="overwrite", max_rows_per_file=5)
    overlay(uri, 2, {"r": [{"a": 50, "b": "new"}, {"a": 51, "b": None}, None]}, [[0, 1, 2], [2, 3, 4]])
    for columns in (["r"], ["id", "r"]):
        ours, theirs = Dataset.open(uri).to_table(columns=columns), lance.dataset(uri).to_table(columns=columns)
        assert ours.to_pydict() == theirs.to_pydict()


def test_an_overlay_of_a_column_that_no_data_file_has_is_that_of_pylance(uri: str) -> None:
    lance.dataset(uri).add_columns(pa.field("n", pa.int64()))
    overlay(uri, 1, {"n": pa.array([5, 6])}, [0, 3], fields=[8])
    ours, theirs = Dataset.open(uri).to_table(), lance.dataset(uri).to_table()
    assert ours.to_pydict() == theirs.to_pydict()
    assert ours["n"].to_pylist() == [None] * 5 + [5, None, None, 6, None]


def test_overlays_of_a_part_of_items_are_refused(uri: str) -> None:
    structs = pa.array([[{"a": 1, "b": 2}]] * 5)
    lance.write_dataset(pa.table({"id": range(5), "x": structs}), uri, mode="overwrite")
    overlay(uri, 2, {"x": pa.array([[{"a": 7}]])}, [0], fields=[3])
    table = Dataset.open(uri)
    assert table.to_table(columns=["id"]).num_rows == 5
    with pytest.raises(UnsupportedFeatureError, match="'x'"):
        table.to_table()


def test_overlays_of_blobs_are_refused(uri: str) -> None:
    blobs = pa.field("x", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([range(5), pa.array([b"x"] * 5, pa.large_binary())], schema=pa.schema([pa.field("id", pa.int64()), blobs]))
    lance.write_dataset(table, uri, mode="overwrite")
    overlay(uri, 2, {"x": pa.array([b"y"], pa.large_binary())}, [0], fields=[1])
    with pytest.raises(UnsupportedFeatureError, match=r"'x'.*blobs"):
        Dataset.open(uri).to_table()


def test_an_overlay_with_too_few_rows_is_an_error(uri: str) -> None:
    overlay(uri, 0, {"s": ["A"]}, [1, 3])
    with pytest.raises(CorruptFileError, match="has 1 rows, but values for 2"):
        Dataset.open(uri).to_table()


def of_rows(*sets: list[int]) -> bytes:
    """An overlay that has values of one field for these sets of rows."""
    rows = pb.RowsOfFields(rows=[BitMap(numbers).serialize() for numbers in sets])
    return pb.DataOverlayFile(data_file=pb.DataFile(path="x", fields=[1], column_indices=[0]), rows_of_fields=rows).SerializeToString()


@pytest.mark.parametrize(
    "data",
    [b"\xff", of_rows([5]), of_rows([1], [2]), b"\n\r\n\x01x\x12\x01\x01\x1a\x01\x00 \x02(\x02\x12\x02ab"],
    ids=["no message", "a row beyond the fragment", "too many sets of rows", "no bitmap"],
)
def test_damaged_overlays_are_errors(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        overlays_of(Fragment(0, (), 5, overlays=(data,)))


def test_unknown_sets_of_rows_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="for which rows"):
        overlays_of(Fragment(0, (), 5, overlays=(b"\n\r\n\x01x\x12\x01\x01\x1a\x01\x00 \x02(\x02",)))
