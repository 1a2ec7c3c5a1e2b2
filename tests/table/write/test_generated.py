"""GENERATED columns: one that is computed fits its row after each change, and no two rows have one number of an identity."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import Dataset
from lance_spark.actions.all import ACTIONS
from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.storage.store import Store
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.identity_claims import claimed_end, put_claim, superseded_claims

WRITERS, WRITES = 4, 6
DAY = {"lance-spark:generated": "CAST(at AS DATE)"}


def identity(start: int = 1, step: int = 1, always: bool = True) -> dict[str, str]:
    return {"lance-spark:identity": json.dumps({"start": start, "step": step, "always": always})}


def table(uri: str, *columns: pa.Field) -> str:
    """An empty table with these columns and a column `v`."""
    Dataset.write(uri, pa.schema([*columns, pa.field("v", pa.int64())]).empty_table())
    return uri


def append(uri: str, *values: int, **columns: pa.Array) -> None:
    Dataset.write(uri, pa.table({"v": [*values], **columns}), mode="append")


def column(uri: str, name: str) -> list[Any]:
    """The values that pylance reads, by `v`."""
    rows = lance.dataset(uri).to_table().sort_by("v")
    return list(rows[name].to_pylist())


def at(*days: int) -> pa.Array:
    return pa.array([datetime.datetime(2024, 1, day, 23, tzinfo=datetime.UTC) for day in days], pa.timestamp("us", "UTC"))


@pytest.fixture
def days(uri: str) -> str:
    """A table whose column `day` is computed from `at`, with rows 1 and 2."""
    table(uri, pa.field("at", pa.timestamp("us", "UTC")), pa.field("day", pa.date32(), metadata=DAY))
    append(uri, 1, 2, at=at(1, 2))
    return uri


def day(number: int) -> datetime.date:
    return datetime.date(2024, 1, number)


NINTH = "TIMESTAMP'2024-01-09 00:00:00'"
CHANGES: dict[str, tuple[Callable[[str], object], list[datetime.date | None]]] = {
    "a row without what it is computed from": (lambda uri: append(uri, 3), [day(1), day(2), None]),
    "a row that gives the value": (lambda uri: append(uri, 3, at=at(3), day=pa.array([day(3)])), [day(1), day(2), day(3)]),
    "a row that gives null": (lambda uri: append(uri, 3, at=at(3), day=pa.array([None], pa.date32())), [day(1), day(2), day(3)]),
    "an update of some rows": (lambda uri: Dataset.open(uri).update({"at": NINTH}, where="v = 2"), [day(1), day(9)]),
    "an update of all rows": (lambda uri: Dataset.open(uri).update({"at": NINTH}), [day(9), day(9)]),
    "an update of another column": (lambda uri: Dataset.open(uri).update({"v": "v + 5"}), [day(1), day(2)]),
    "an update to the value": (lambda uri: Dataset.open(uri).update({"day": "CAST(at AS DATE)"}), [day(1), day(2)]),
    "a compaction": (lambda uri: Dataset.open(uri).optimize.compact_files(), [day(1), day(2)]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_computed_column_fits_its_row_after(name: str, days: str) -> None:
    change, expected = CHANGES[name]
    change(days)
    assert column(days, "day") == expected


WRONG: dict[str, tuple[Callable[[str], object], str]] = {
    "a row with another value": (lambda uri: append(uri, 3, at=at(3), day=pa.array([day(4)])), "expected datetime.date"),
    "an update to another value": (lambda uri: Dataset.open(uri).update({"day": "DATE'2000-01-01'"}), "GENERATED ALWAYS AS"),
    "a column that it is computed from is dropped": (lambda uri: Dataset.open(uri).drop_columns(["at"]), "DROP COLUMN day first"),
    "a column that it is computed from is renamed": (
        lambda uri: Dataset.open(uri).alter_columns({"path": "at", "name": "other"}),
        "DROP COLUMN day first",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_would_not_fit_a_computed_column_is_refused(name: str, days: str) -> None:
    change, message = WRONG[name]
    with pytest.raises(LanceError, match=message):
        change(days)
    assert column(days, "day") == [day(1), day(2)]


@pytest.mark.parametrize(
    ("metadata", "kind", "error", "message"),
    [
        ({"lance-spark:generated": "nothing + 1"}, pa.int64(), SchemaMismatchError, "nothing"),
        ({"lance-spark:generated": "v +"}, pa.int64(), InvalidOptionError, "syntax"),
        ({"lance-spark:generated": "other"}, pa.int64(), InvalidOptionError, "generated itself"),
        ({"lance-spark:identity": "{}"}, pa.int64(), InvalidOptionError, "start, step and always"),
        (identity(step=0), pa.int64(), InvalidOptionError, "a step other than 0"),
        (identity(start=2**70), pa.int64(), InvalidOptionError, "64 bits"),
        (identity(), pa.int32(), InvalidOptionError, "BIGINT"),
    ],
)
def test_a_declaration_that_is_wrong_makes_no_table(
    metadata: dict[str, str], kind: pa.DataType, error: type[LanceError], message: str, uri: str
) -> None:
    with pytest.raises(error, match=message):
        table(uri, pa.field("g", kind, metadata=metadata), pa.field("other", pa.int64(), metadata={"lance-spark:generated": "v"}))
    assert not Path(uri, "_versions").exists()


def test_numbers_start_where_they_are_declared_and_go_by_steps(uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity(10, -3)))
    append(uri, 1, 2)
    append(uri, 3)
    assert column(uri, "id") == [10, 7, 4]
    with pytest.raises(SchemaMismatchError, match="no row may give its number"):
        append(uri, 4, id=pa.array([5]))
    with pytest.raises(UnsupportedFeatureError, match="no update may assign it"):
        Dataset.open(uri).update({"id": "v"})


def test_a_number_by_default_may_be_given_and_the_next_ones_come_after_it_when_asked(uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity(always=False)))
    append(uri, 1, 2, id=pa.array([50, None]))
    assert column(uri, "id") == [50, 1]
    assert ACTIONS["sync_identity"].run(Here(), Dataset.open(uri).snapshot, {"column": "id"}) == [(51,)]
    append(uri, 3)
    assert column(uri, "id") == [50, 1, 51]
    with pytest.raises(InvalidOptionError, match="the table has: id"):
        ACTIONS["sync_identity"].run(Here(), Dataset.open(uri).snapshot, {"column": "v"})


def test_no_change_of_the_table_gives_a_number_again(uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity()))
    append(uri, 1, 2)
    Dataset.open(uri).checkout_version(1).restore()
    append(uri, 3)
    assert column(uri, "id") == [3]
    Dataset.open(uri).create_branch("b")
    Dataset.open(uri, branch="b").insert(pa.table({"v": [4]}))
    append(uri, 5)
    assert column(uri, "id") == [3, 5]
    assert Dataset.open(uri, branch="b").to_table().sort_by("v")["id"].to_pylist() == [3, 4]


@pytest.mark.parametrize("depth", ["shallow_clone", "deep_clone"])
def test_a_clone_goes_on_after_the_numbers_of_its_table(depth: str, uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity()))
    append(uri, 1, 2)
    getattr(Dataset.open(uri), depth)(f"{uri}.clone")
    append(f"{uri}.clone", 3, 4)
    assert Dataset.open(f"{uri}.clone").to_table().sort_by("v")["id"].to_pylist() == [1, 2, 3, 4]


def test_a_clone_by_pylance_takes_numbers_once_they_are_synchronized(uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity()))
    append(uri, 1, 2)
    clone = f"{uri}.clone"
    lance.dataset(uri).shallow_clone(clone, 2)
    with pytest.raises(UnsupportedFeatureError, match="ALTER TABLE t ALTER COLUMN id SYNC IDENTITY"):
        append(clone, 3)
    ACTIONS["sync_identity"].run(Here(), Dataset.open(clone).snapshot, {"column": "id"})
    append(clone, 3)
    assert Dataset.open(clone).to_table().sort_by("v")["id"].to_pylist() == [1, 2, 3]


def test_pylance_appends_rows_without_a_number_which_stay_as_they_are(uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity()))
    append(uri, 1)
    lance.write_dataset(pa.table({"v": [2]}), uri, mode="append")
    append(uri, 3)
    assert column(uri, "id") == [1, None, 2]


WRITER = """
import sys
import pyarrow as pa
from lance_spark import Dataset
for i in range(int(sys.argv[2])):
    Dataset.write(sys.argv[1], pa.table({"v": [i, i]}), mode="append")
"""


def test_writers_in_several_processes_never_take_one_number_twice(uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity()))
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, uri, str(WRITES)]) for _ in range(WRITERS)]
    assert [writer.wait() for writer in writers] == [0] * WRITERS
    numbers = column(uri, "id")
    assert len(numbers) == 2 * WRITERS * WRITES
    assert len(set(numbers)) == len(numbers)


def test_a_table_that_is_replaced_by_one_with_an_identity_is_numbered(uri: str) -> None:
    Dataset.write(uri, pa.table({"v": [1]}))
    Dataset.write(
        uri, pa.schema([pa.field("v", pa.int64()), pa.field("id", pa.int64(), metadata=identity())]).empty_table(), mode="overwrite"
    )
    append(uri, 2, 3)
    assert column(uri, "id") == [1, 2]
    Dataset.write(
        uri, pa.schema([pa.field("id", pa.int64(), metadata=identity()), pa.field("v", pa.int64())]).empty_table(), mode="overwrite"
    )
    append(uri, 4)
    assert column(uri, "id")[0] is not None


def test_a_partitioned_namespace_refuses_them_by_name(uri: str) -> None:
    schema = pa.schema([pa.field("p", pa.int64()), pa.field("id", pa.int64(), metadata=identity())])
    namespace = PartitionedNamespace.create(uri, schema, ["p"])
    with pytest.raises(UnsupportedFeatureError, match="no GENERATED columns, such as 'id'"):
        namespace.write(pa.table({"p": [1]}))


def test_the_folder_of_the_numbers_goes_with_the_table(tmp_path: Path) -> None:
    lake = lance_spark.namespace(tmp_path)
    lake.declare_table(["t"])
    uri = lake.describe_table(["t"]).location
    table(uri, pa.field("id", pa.int64(), metadata=identity()))
    append(uri, 1)
    assert Path(uri, "_identity").is_dir()
    lake.drop_table(["t"])
    assert not Path(uri).exists()


@pytest.mark.parametrize("delete_unverified", [False, True])
def test_a_cleanup_keeps_the_last_claim_of_each_column_and_those_of_active_writers(delete_unverified: bool, uri: str) -> None:
    table(uri, pa.field("id", pa.int64(), metadata=identity()), pa.field("other", pa.int64(), metadata=identity()))
    for value in range(3):
        append(uri, value)
    claims = Path(uri, "_identity")
    [column_folder, _] = sorted(claims.iterdir())
    for path in column_folder.iterdir():
        os.utime(path, (time.time() - 8 * 86400,) * 2)
    Dataset.open(uri).cleanup_old_versions(datetime.timedelta(0), delete_unverified=delete_unverified)
    left = {folder.name: sorted(path.name[-1] for path in folder.iterdir() if path.name != "begun") for folder in claims.iterdir()}
    assert sorted(left.values()) == sorted([["2"], ["2"] if delete_unverified else ["0", "1", "2"]])
    append(uri, 3)
    assert column(uri, "id") == [1, 2, 3, 4]
    assert column(uri, "other") == [1, 2, 3, 4]


def test_a_claim_that_a_cleanup_removes_while_a_writer_looks_for_the_last_one(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(uri)
    put_claim(store, 0, 1, 10)
    listed = Store.names

    def names(self: Store, folder: str) -> Sequence[str]:
        found = listed(self, folder)
        monkeypatch.undo()
        put_claim(store, 0, 10, 20)
        for path, _ in superseded_claims(store):
            store.delete(path)
        return found

    monkeypatch.setattr(Store, "names", names)
    assert claimed_end(store, 0) == 20
