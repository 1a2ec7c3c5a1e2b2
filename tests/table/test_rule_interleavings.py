"""Every writer of values, prepared before another client declares a rule or changes columns and rows: the rule holds afterwards.

A writer is refused, runs again, or comes before the other change; values that fail a rule of the table are never in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, LanceError
from lance_spark.metadata.operations import CONSTRAINT
from lance_spark.predicate import parse
from lance_spark.schema.schema import PRIMARY_KEY
from lance_spark.table.changes import alter
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, column_target, write_columns
from lance_spark.table.changes.columns_in_place import InPlacePlan
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.changes.new_columns import commit_columns, new_fields
from lance_spark.table.changes.replace_where import replace_where
from lance_spark.table.changes.row_changes import RowPlan, change_rows
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write import write
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.target import Mode
from lance_spark.table.write.write import rewrite_target

Prepared = Callable[[], object]
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64()), pa.field("b", pa.string())])
ROWS = pa.table({"k": [1, 2, 3, 4], "a": [1, 2, 3, 4], "b": list("wxyz")}, schema=SCHEMA)
BAD = pa.table({"k": [7, 8], "a": [100, None], "b": ["v", None]}, schema=SCHEMA)
"""Rows that fail the rules."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fragments, and a deleted row."""
    path = tmp_path_factory.mktemp("rules") / "base"
    Dataset.write(str(path), ROWS, max_rows_per_file=2, enable_stable_row_ids=True).delete("k = 1")
    return path


def _written(mode: Mode, rows: pa.Table = BAD, **options: Any) -> Callable[[str], Prepared]:
    def prepare(uri: str) -> Prepared:
        target = write.begin_write(uri, rows.schema, mode, WriteOptions(**options))
        fragments = write.write_fragments(target, rows.to_batches())
        return lambda: write.commit_write(target, fragments)

    return prepare


def _replaced(uri: str) -> Prepared:
    target = write.begin_write(uri, BAD.schema, "append")
    fragments = write.write_fragments(target, BAD.to_batches())
    return lambda: replace_where(target, parse("k >= 0", Dataset.open(uri).snapshot.manifest.schema), fragments)


def _verb(run: Callable[[Dataset], object]) -> Callable[[str], Prepared]:
    def prepare(uri: str) -> Prepared:
        return partial(run, Dataset.open(uri))

    return prepare


def _merged(ds: Dataset) -> object:
    rows = pa.table({"k": [2, 9], "a": [None, 100], "b": [None, "t"]}, schema=SCHEMA)
    return ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _files_of(values: dict[str, Any], snapshot: Snapshot, target: ColumnTarget) -> list[ColumnFile]:
    """Column files in which every row has these values."""
    types = {field.name: field.type for field in target.write.schema.fields}
    batches = []
    for task in plan_tasks(snapshot, ScanPlan(columns=(ROW_ADDRESS,))):
        for batch in task.read():
            for name, value in values.items():
                batch = batch.append_column(name, pa.repeat(pa.scalar(value, types[name]), batch.num_rows))
            batches.append(batch)
    return write_columns(target, batches)


def _in_place(values: dict[str, Any], snapshot: Snapshot) -> InPlacePlan:
    for name in values:
        snapshot.manifest.schema.resolve_field(name)  # raises SchemaMismatchError if the table lacks it
    return InPlacePlan(snapshot, partial(_files_of, values, snapshot), tuple(values))


def _columns_updated_from(values: dict[str, Any]) -> Callable[[str], Prepared]:
    """UPDATE COLUMNS FROM: the files are there before the other change, and are committed after it."""

    def prepare(uri: str) -> Prepared:
        snapshot = Dataset.open(uri).snapshot
        written = _in_place(values, snapshot).write(rewrite_target(snapshot, WriteOptions()))
        return lambda: written.commit({})

    return prepare


def _update_columns(values: dict[str, Any]) -> Callable[[str], Prepared]:
    """LanceTable.updateColumns: prepared like UPDATE COLUMNS FROM, and run again if the table has changed."""

    def prepare(uri: str) -> Prepared:
        return partial(change_rows, Dataset.open(uri).snapshot, WriteOptions(), lambda snapshot: RowPlan(_in_place(values, snapshot).write))

    return prepare


def _columns_added_from(uri: str) -> Prepared:
    """ADD COLUMNS FROM."""
    snapshot = Dataset.open(uri).snapshot
    new = new_fields(snapshot, pa.schema([("n", pa.int64())]))
    target = replace(rewrite_target(snapshot, WriteOptions()), schema=new.written)
    columns = replace(column_target(snapshot, target), names=new.names)
    files = {file.fragment_id: file for file in _files_of({"n": 100}, snapshot, columns)}
    return lambda: commit_columns(snapshot, new, columns.write.since, files, {})


BAD_VALUES: dict[str, Any] = {"a": None, "b": None}
OURS: dict[str, Callable[[str], Prepared]] = {
    "append": _written("append"),
    "append of some columns": _written("append", BAD.select(["k"])),
    "append of a new column": _written("append", BAD.append_column("e", pa.array([1, 2])), merge_schema=True),
    "overwrite": _written("overwrite"),
    "overwrite the rows": _written("overwrite", overwrite_schema=False),
    "replace where": _replaced,
    "update in place": _verb(lambda ds: ds.update({"a": "100"})),
    "update with null": _verb(lambda ds: ds.update({"a": "cast(null as bigint)", "b": "cast(null as string)"})),
    "update of a row": _verb(lambda ds: ds.update({"a": "cast(null as bigint)", "b": "cast(null as string)"}, "k = 3")),
    "merge": _verb(_merged),
    "add columns": _verb(lambda ds: ds.add_columns({"n": "a + 100"})),
    "ADD COLUMNS FROM": _columns_added_from,
    "UPDATE COLUMNS FROM": _columns_updated_from({"a": 100}),
    "UPDATE COLUMNS FROM with null": _columns_updated_from(BAD_VALUES),
    "updateColumns": _update_columns({"a": 100}),
    "updateColumns with null": _update_columns(BAD_VALUES),
    "alter type": _verb(lambda ds: ds.alter_columns({"path": "a", "data_type": pa.int32()})),
    "compact": _verb(lambda ds: ds.optimize.compact_files()),
    "compact nothing": _verb(lambda ds: ds.optimize.compact_files(target_rows_per_fragment=1, materialize_deletions=False)),
}
THEIRS: dict[str, Callable[[Dataset], object]] = {
    "CHECK": lambda ds: alter.add_constraint(ds.snapshot, "small", "a < 50"),
    "CHECK against null": lambda ds: alter.add_constraint(ds.snapshot, "known", "b IS NOT NULL"),
    "NOT NULL": lambda ds: ds.alter_columns({"path": "a", "nullable": False}),
    "NOT NULL of text": lambda ds: ds.alter_columns({"path": "b", "nullable": False}),
    "primary key": lambda ds: alter.set_primary_key(ds.alter_columns({"path": "a", "nullable": False}).snapshot, ["a"]),
    "drop": lambda ds: ds.drop_columns(["a"]),
    "rename": lambda ds: ds.alter_columns({"path": "a", "name": "aa"}),
    "rename with CHECK": lambda ds: alter.add_constraint(ds.alter_columns({"path": "a", "name": "aa"}).snapshot, "small", "aa < 50"),
    "retype": lambda ds: ds.alter_columns({"path": "a", "data_type": pa.int16()}),
    "retype with NOT NULL": lambda ds: ds.alter_columns({"path": "a", "data_type": pa.int16(), "nullable": False}),
    "update": lambda ds: ds.update({"a": "a + 1"}),
    "compact": lambda ds: ds.optimize.compact_files(),
    "delete": lambda ds: ds.delete("k = 2"),
    "overwrite with NOT NULL": lambda ds: Dataset.write(
        ds.uri,
        pa.table({"k": [1], "a": [1]}, schema=pa.schema([pa.field("k", pa.int64(), False), pa.field("a", pa.int64(), False)])),
        "overwrite",
    ),
    "restore": lambda ds: ds.checkout_version(1).restore(),
}
RULES = ("CHECK", "NOT NULL", "rename with CHECK")
OFTEN = ("append", "update in place", "update of a row", "overwrite the rows", "UPDATE COLUMNS FROM")
SOME = [(ours, theirs) for ours in OFTEN for theirs in RULES]
CELLS = [(ours, theirs) for ours in OURS for theirs in THEIRS]


def rows_of(uri: str) -> list[str]:
    return sorted(map(repr, Dataset.open(uri).to_table().to_pylist()))


def check(base: Path, place: Path, ours: str, theirs: str) -> None:
    shutil.copytree(base, place)
    uri = str(place)
    commit = OURS[ours](uri)
    THEIRS[theirs](Dataset.open(uri))
    alone = rows_of(uri)
    try:
        commit()
    except LanceError:
        assert rows_of(uri) == alone
    ds = Dataset.open(uri)
    for key, text in ds.snapshot.manifest.config.items():
        assert not key.startswith(CONSTRAINT) or ds.count_rows(f"NOT ({text})") == 0, text
    for field in ds.snapshot.manifest.schema.fields:
        required = not field.nullable or PRIMARY_KEY in field.metadata
        assert not required or ds.count_rows(f"{field.name} IS NULL") == 0, field.name
    assert ds.verify().ok


@pytest.mark.parametrize(("ours", "theirs"), SOME)
def test_a_rule_holds_whatever_was_prepared_before_it(base: Path, tmp_path: Path, ours: str, theirs: str) -> None:
    check(base, tmp_path / "t", ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "theirs"), [cell for cell in CELLS if cell not in SOME])
def test_every_writer_beside_every_change(base: Path, tmp_path: Path, ours: str, theirs: str) -> None:
    check(base, tmp_path / "t", ours, theirs)


def test_values_of_new_columns_are_all_calculated_from_the_same_columns(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "t")
    uri = str(tmp_path / "t")
    ours = Dataset.open(uri)
    Dataset.write(uri, pa.table({"k": [9], "a": [9], "b": ["t"]}), "append").drop_columns(["a"]).add_columns(pa.field("a", pa.int64()))
    with pytest.raises(CommitConflictError, match="another column is called 'a'"):
        ours.add_columns({"n": "a * 2"})
