"""A backfill beside every change of another client, at each moment: what counts as computed is of the inputs, and every rule holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError, SchemaMismatchError
from lance_spark.metadata.operations import CONSTRAINT
from lance_spark.storage.store import Store
from lance_spark.table.backfill.fingerprints import fingerprints
from lance_spark.table.backfill.state import state_of, with_columns
from lance_spark.table.changes import alter
from lance_spark.table.versions.snapshot import open_snapshot
from tests.table.backfill.rounds import MOMENTS, backfill, expected

ROWS = pa.table(
    {"id": range(8), "x": range(1, 9), "y": [1] * 8, "z": list("abcdefgh"), "w": range(8)},
    schema=pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("x", pa.int64()),
            pa.field("y", pa.int64()),
            pa.field("z", pa.string()),
            pa.field("w", pa.int64()),
        ]
    ),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fragments. In the first one a row is deleted, and the inputs are in a file of their own. The state column is there."""
    path = tmp_path_factory.mktemp("backfills") / "base"
    ds = Dataset.write(str(path), ROWS.drop_columns(["x"]), max_rows_per_file=4, enable_stable_row_ids=True)
    ds = ds.add_columns({"x": "id + 1"}).delete("id = 2")
    with_columns(open_snapshot(Store(str(path))), "y", None, ("x",))
    return path


def _merge(ds: Dataset) -> object:
    rows = pa.table({"id": [1, 50], "x": [100, 101]})
    return ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _deleted_and_restored(ds: Dataset) -> object:
    version = ds.version
    ds.delete("id = 5")
    return Dataset.open(ds.uri, version=version).restore()


THEIRS: dict[str, Callable[[Dataset], object]] = {
    "CHECK that the results fulfil": lambda ds: alter.add_constraint(ds.snapshot, "small", "y < 1000"),
    "CHECK that they fail": lambda ds: alter.add_constraint(ds.snapshot, "small", "y < 10"),
    "CHECK with the input that they fail": lambda ds: alter.add_constraint(ds.snapshot, "small", "y <= x"),
    "CHECK of the input": lambda ds: alter.add_constraint(ds.snapshot, "small", "x < 1000"),
    "NOT NULL": lambda ds: ds.alter_columns({"path": "y", "nullable": False}),
    "NOT NULL of the input": lambda ds: ds.alter_columns({"path": "x", "nullable": False}),
    "primary key": lambda ds: alter.set_primary_key(ds.snapshot, ["id"]),
    "primary key of the column": lambda ds: alter.set_primary_key(ds.alter_columns({"path": "y", "nullable": False}).snapshot, ["y"]),
    "drop the column": lambda ds: ds.drop_columns(["y"]),
    "drop the input": lambda ds: ds.drop_columns(["x"]),
    "drop another column": lambda ds: ds.drop_columns(["z"]),
    "drop and add the column": lambda ds: ds.drop_columns(["y"]).add_columns(pa.field("y", pa.int64())),
    "drop and add the input": lambda ds: ds.drop_columns(["x"]).add_columns(pa.field("x", pa.int64())),
    "drop and add the input with values": lambda ds: ds.drop_columns(["x"]).add_columns({"x": "id + 40"}),
    "rename the column": lambda ds: ds.alter_columns({"path": "y", "name": "yy"}),
    "rename the input": lambda ds: ds.alter_columns({"path": "x", "name": "xx"}),
    "exchange the input": lambda ds: ds.alter_columns({"path": "x", "name": "xx"}).alter_columns({"path": "w", "name": "x"}),
    "retype the column": lambda ds: ds.alter_columns({"path": "y", "data_type": pa.int32()}),
    "retype the input": lambda ds: ds.alter_columns({"path": "x", "data_type": pa.int32()}),
    "update in place": lambda ds: ds.update({"x": "x + 20"}),
    "update of a row": lambda ds: ds.update({"x": "x + 20"}, "id = 5"),
    "update of another column": lambda ds: ds.update({"z": "'new'"}),
    "merge": _merge,
    "append": lambda ds: Dataset.write(ds.uri, ROWS.slice(0, 2), "append"),
    "delete a row": lambda ds: ds.delete("id = 5"),
    "delete a fragment": lambda ds: ds.delete("id > 3"),
    "delete and restore": _deleted_and_restored,
    "restore before the deletion": lambda ds: ds.checkout_version(2).restore(),
    "compact": lambda ds: ds.optimize.compact_files(),
    "update and compact": lambda ds: ds.update({"x": "x + 20"}, "id = 5").optimize.compact_files(),
    "overwrite": lambda ds: Dataset.write(ds.uri, ROWS.slice(0, 4), "overwrite"),
    "overwrite with other columns": lambda ds: Dataset.write(ds.uri, ROWS.slice(0, 4).select(["y", "x"]), "overwrite"),
    "add a column": lambda ds: ds.add_columns({"v": "x + 1"}),
    "index": lambda ds: ds.create_scalar_index("y", "BTREE"),
    "index of the input": lambda ds: ds.create_scalar_index("x", "BTREE"),
    "config": lambda ds: ds.update_config({"a": "1"}),
    "another backfill": lambda ds: backfill(ds.uri),
    "a backfill of some rows": lambda ds: backfill(ds.uri, where="id < 6"),
}
CELLS = [(moment, theirs) for moment in MOMENTS for theirs in THEIRS]
ALWAYS = [
    ("computing", "CHECK that they fail"),
    ("computed", "NOT NULL"),
    ("committing", "CHECK with the input that they fail"),
    ("committing", "primary key of the column"),
    ("committing", "update in place"),
    ("committing", "restore before the deletion"),
    ("committed", "update in place"),
    ("committed", "exchange the input"),
    ("computed", "drop and add the input with values"),
]


def values(ds: Dataset, name: str) -> list[Any] | None:
    return ds.to_table()[name].to_pylist() if name in ds.schema.names else None


def check_what_counts(uri: str) -> None:
    """Each row whose state says that it is computed, for inputs that are its own, has the result of these."""
    ds = Dataset.open(uri)
    by_name = {field.name: field for field in ds.snapshot.manifest.schema.fields}
    state_column = state_of(ds.snapshot.manifest.schema, by_name["y"]) if "y" in by_name else None
    if "x" not in by_name or state_column is None:
        return
    rows = ds.to_table()
    prints = fingerprints([rows["x"].combine_chunks()]).view(np.int64).tolist()
    for x, y, state, fingerprint in zip(*(rows[name].to_pylist() for name in ("x", "y", state_column.name)), prints):
        if state and state["version"] == "1" and state["error"] is None and state["inputs"] == fingerprint:
            assert y == expected(x)


def check_rules(uri: str) -> None:
    """No row fails a constraint or is null where it must not be, no file is damaged, and pylance reads the table."""
    ds = Dataset.open(uri)
    for key, text in ds.snapshot.manifest.config.items():
        assert not key.startswith(CONSTRAINT) or ds.count_rows(f"NOT ({text})") == 0
    for field in ds.schema:
        assert field.nullable or ds.count_rows(f"{field.name} IS NULL") == 0
    assert ds.verify().ok
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table().num_rows == ds.count_rows()


def check(base: Path, place: Path, moment: str, theirs: str) -> None:
    shutil.copytree(base, place)
    uri = str(place)
    try:
        backfill(uri, moment, lambda: THEIRS[theirs](Dataset.open(uri)))
    except LanceError:
        assert theirs not in ("append", "config", "index of the input", "primary key", "add a column", "compact"), "refused without need"
    check_rules(uri)
    check_what_counts(uri)
    try:
        backfill(uri)
    except LanceError:
        check_rules(uri)
        return
    ds = Dataset.open(uri)
    assert values(ds, "y") == [expected(x) for x in values(ds, "x") or []]
    check_rules(uri)


@pytest.mark.parametrize(("moment", "theirs"), ALWAYS)
def test_a_backfill_beside_another_change(base: Path, tmp_path: Path, moment: str, theirs: str) -> None:
    check(base, tmp_path / "t", moment, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "theirs"), [cell for cell in CELLS if cell not in ALWAYS])
def test_a_backfill_beside_every_change(base: Path, tmp_path: Path, moment: str, theirs: str) -> None:
    check(base, tmp_path / "t", moment, theirs)


@pytest.mark.matrix
@pytest.mark.parametrize("theirs", ["CHECK that they fail", "CHECK with the input that they fail", "NOT NULL"])
@pytest.mark.parametrize("moment", ["computing", "computed", "committing"])
def test_a_result_that_fails_a_new_rule_is_an_error(base: Path, tmp_path: Path, moment: str, theirs: str) -> None:
    shutil.copytree(base, tmp_path / "t")
    uri = str(tmp_path / "t")
    with pytest.raises(SchemaMismatchError, match=r"small|not nullable"):
        backfill(uri, moment, lambda: THEIRS[theirs](Dataset.open(uri)))
    assert values(Dataset.open(uri), "y") == [1] * 7
    check_rules(uri)
