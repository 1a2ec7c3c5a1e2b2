"""Tables of old storage versions become tables of the new one: the values, places and indexes stay, and both libraries continue."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.changes import migrate as migration
from lance_spark.table.changes.new_columns import add_columns_of
from tests.rows import without_dictionaries

pytestmark = [pytest.mark.spec("format-document.md", "File Version"), pytest.mark.spec("format-document.md", "Statistics")]

COUNT = 11
NUMBERS = np.arange(COUNT)
COLUMNS: Mapping[str, pa.Array] = {
    "integers": pa.array([None, *range(1, COUNT)], pa.int32()),
    "floats": pa.array(NUMBERS / 7),
    "booleans": pa.array([i % 3 == 0 for i in NUMBERS]),
    "texts": pa.array([None if i % 5 == 2 else "" if i % 5 == 3 else f"text {i}" for i in NUMBERS]),
    "binary": pa.array([bytes([i] * i) for i in NUMBERS], pa.binary()),
    "times": pa.array(NUMBERS * 10**9, pa.timestamp("us", "UTC")),
    "decimals": pa.array([int(i) for i in NUMBERS], pa.decimal128(20, 3)),
    "lists": pa.array([None if i == 4 else [str(n) for n in range(i % 3)] for i in NUMBERS]),
    "structs": pa.array([{"a": int(i), "b": {"c": [float(i)]}} for i in NUMBERS]),
    "vectors": pa.array([[float(i)] * 4 for i in NUMBERS], pa.list_(pa.float32(), 4)),
    "dictionaries": pa.array(["even", "odd"] * 5 + ["even"]).dictionary_encode(),
}


def table_of(*names: str) -> pa.Table:
    return pa.table({"id": pa.array(NUMBERS), **{name: COLUMNS[name] for name in names}})


ROWS = table_of("texts", "lists")


def write(uri: str, rows: pa.Table = ROWS, version: str = "legacy", **options: Any) -> lance.LanceDataset:
    """pylance writes an old table with deleted rows."""
    table = lance.write_dataset(rows, uri, data_storage_version=version, max_rows_per_file=4, **options)
    table.delete("id in (1, 6)")
    return lance.dataset(uri)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def with_ids(uri: str, **at: Any) -> pa.Table:
    """All rows with their row ids and addresses, as pylance reads them."""
    return lance.dataset(uri, **at).scanner(with_row_id=True, with_row_address=True).to_table()


def decoded(rows: pa.Table) -> pa.Table:
    """The rows without dictionaries, whose order may differ."""
    return rows.cast(pa.schema([f.with_type(without_dictionaries(f.type)) for f in rows.schema]))


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1"])
@pytest.mark.parametrize("column", COLUMNS)
def test_the_values_of_a_column_stay(uri: str, column: str, version: str) -> None:
    write(uri, table_of(column), version)
    before, ours = with_ids(uri), Dataset.open(uri).scan().to_table()
    table = Dataset.open(uri).migrate()
    assert table.snapshot.manifest.data_format == lance.dataset(uri).data_storage_version == "2.2"
    lance.dataset(uri).validate()
    assert decoded(with_ids(uri)) == decoded(before)
    assert decoded(table.scan().to_table()) == decoded(ours)
    assert table.verify().ok
    assert decoded(with_ids(uri, version=2)) == decoded(before)
    # Both append, update and go on.
    again = table_of(column)
    assert Dataset.write(uri, again, "append").update({"id": "id + 100"}, "id = 2").count_rows() == 20
    lance.write_dataset(again, uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    assert Dataset.open(uri).count_rows("id = 102") == 2
    assert Dataset.open(uri).verify().ok


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_ids_indexes_tags_and_the_feed_stay(uri: str, stable: bool) -> None:
    write(uri, enable_stable_row_ids=stable)
    theirs = lance.dataset(uri)
    theirs.create_scalar_index("id", "BTREE")
    theirs.tags.create("old", 2)
    before = with_ids(uri)
    table = Dataset.open(uri).migrate()
    assert with_ids(uri) == before
    assert "id_idx" in lance.dataset(uri).scanner(filter="id = 5").explain_plan()
    assert "id_idx" in table.scan(filter="id = 5").explain()
    assert table.scan(filter="id = 5").to_table().num_rows == 1
    assert table.changes(3).to_table().num_rows == 0
    assert with_ids(uri, version="old") == before
    assert table.take_rows(before["_rowid"].to_pylist()[:3])["id"].to_pylist() == before["id"].to_pylist()[:3]


VERBS: Mapping[str, Callable[[Dataset], Dataset]] = {
    "append": lambda table: Dataset.write(table.uri, ROWS, "append"),
    "update": lambda table: table.update({"texts": "'x'"}, "id > 3"),
    "merge": lambda table: table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(ROWS),
    "compact": lambda table: table.optimize.compact_files(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_error_names_the_migration_and_the_verb_works_after_it(uri: str, verb: str) -> None:
    write(uri)
    with pytest.raises(UnsupportedFeatureError, match="migrate the table first"):
        VERBS[verb](Dataset.open(uri))
    table = VERBS[verb](Dataset.open(uri).migrate())
    lance.dataset(uri).validate()
    assert lance.dataset(uri).count_rows() == table.count_rows()


def test_a_table_without_rows_and_a_fragment_without_rows(uri: str, tmp_path: Path) -> None:
    lance.write_dataset(ROWS.slice(0, 0), uri, data_storage_version="legacy")
    assert Dataset.open(uri).migrate().snapshot.manifest.data_format == "2.2"
    assert Dataset.write(uri, ROWS, "append").count_rows() == COUNT
    other = str(tmp_path / "other.lance")
    write(other)
    lance.dataset(other).delete("id < 4")
    assert Dataset.open(other).migrate().scan().to_table()["id"].to_pylist() == [4, 5, 7, 8, 9, 10]


def test_a_new_table_stays(uri: str) -> None:
    table = Dataset.write(uri, ROWS)
    assert table.migrate().version == 1
    ninety = Dataset.write(f"{uri}-23", ROWS, data_storage_version="2.3")
    assert ninety.migrate().version == 1


def test_a_column_of_blobs_is_refused(uri: str) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    lance.write_dataset(pa.table([[b"x"]], schema=pa.schema([blob])), uri, data_storage_version="2.0")
    with pytest.raises(UnsupportedFeatureError, match="column 'b' cannot be migrated"):
        Dataset.open(uri).migrate()


def test_nulls_that_old_files_cannot_have_are_no_reason_to_stop(uri: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("s", pa.string(), False)])
    lance.write_dataset(pa.table([[1, 2], ["a", ""]], schema=schema), uri, data_storage_version="legacy")
    before = lance.dataset(uri).to_table()
    assert Dataset.open(uri).migrate().scan().to_table().to_pylist() == before.to_pylist()


# --- resumed


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The fragments that are written."""
    found: list[int] = []

    def noted(task: Any, *more: Any) -> Any:
        found.extend(part.fragment.id for part in task.scan.parts)
        return add_columns_of(task, *more)

    monkeypatch.setattr(migration, "add_columns_of", noted)
    return found


def test_a_migration_continues_where_it_was_stopped(uri: str, written: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    write(uri)
    before = with_ids(uri)
    with monkeypatch.context() as stopped:
        stopped.setattr(migration, "_committed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Dataset.open(uri).migrate()
    assert (written, len(list((Path(uri) / migration.NOTES).iterdir()))) == ([0, 1, 2], 3)
    assert lance.dataset(uri).data_storage_version == "0.1"
    assert with_ids(uri) == before
    # Another writer deletes rows and appends: only the new fragment is written.
    lance.dataset(uri).delete("id = 8")
    lance.write_dataset(ROWS.slice(0, 2), uri, mode="append")
    before = with_ids(uri)
    table = Dataset.open(uri).migrate()
    assert written == [0, 1, 2, 3]
    assert with_ids(uri) == before
    assert not (Path(uri) / migration.NOTES).exists()
    assert table.verify().ok


def test_a_commit_of_another_writer_is_kept(uri: str, written: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    write(uri)
    committed = migration._committed
    commits: list[lance.LanceDataset] = []

    def overtaken(*arguments: Any) -> Any:
        if not commits:
            commits.append(lance.write_dataset(ROWS.slice(0, 1), uri, mode="append"))
        return committed(*arguments)

    monkeypatch.setattr(migration, "_committed", overtaken)
    table = Dataset.open(uri).migrate()
    assert (table.version, table.count_rows(), written) == (4, 10, [0, 1, 2, 3])


def test_a_note_that_is_no_note_is_written_again(uri: str, written: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    write(uri)
    with monkeypatch.context() as stopped:
        stopped.setattr(migration, "_committed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Dataset.open(uri).migrate()
    first, second, _ = sorted((Path(uri) / migration.NOTES).iterdir())
    first.write_text("not JSON")
    (Path(uri) / "data" / json.loads(second.read_text())["file"][0]).unlink()
    before = with_ids(uri)
    Dataset.open(uri).migrate()
    assert written == [0, 1, 2, 0, 1]
    assert with_ids(uri) == before
