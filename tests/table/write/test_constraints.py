"""CHECK constraints hold for every writer of this package, and other writers keep them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, InvalidOptionError, SchemaMismatchError
from lance_spark.metadata.fragment import Fragment
from lance_spark.predicate import parse
from lance_spark.table.changes.alter import add_constraint, drop_constraint
from lance_spark.table.changes.replace_where import replace_where
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import begin_write, commit_write, write_fragments


@pytest.fixture
def table(uri: str) -> Dataset:
    """A table whose column `n` must be positive or null."""
    made = Dataset.write(uri, pa.table({"id": range(4), "n": [1, 2, 3, None], "s": list("abcd")}))
    return Dataset(add_constraint(made.snapshot, "positive", "n > 0"))


def rows(**values: object) -> pa.Table:
    return pa.table({name: [value] for name, value in values.items()})


Begun: TypeAlias = tuple[WriteTarget, Sequence[Fragment]]
"""A write whose files are there, before its commit."""


def begun(uri: str, data: pa.Table, options: WriteOptions = NO_OPTIONS) -> Begun:
    target = begin_write(uri, data.schema, "append", options)
    return target, write_fragments(target, data.to_batches())


def commit_replacement(target: WriteTarget, fragments: Sequence[Fragment]) -> Snapshot:
    return replace_where(target, parse("id = 1", target.schema), fragments)


WRITES: dict[str, Callable[[Dataset], object]] = {
    "append": lambda t: Dataset.write(t.uri, rows(id=5, n=-1, s="x"), mode="append"),
    "overwrite": lambda t: Dataset.write(t.uri, rows(id=5, n=-1, s="x"), mode="overwrite"),
    "replacement of rows": lambda t: commit_replacement(*begun(t.uri, rows(id=1, n=-1, s="x"))),
    "append with a new column": lambda t: commit_write(*begun(t.uri, rows(n=-1, new=1), WriteOptions(merge_schema=True))),
    "update": lambda t: t.update({"n": "n - 1"}),
    "update of few rows": lambda t: t.update({"n": "0"}, where="id = 1"),
    "merge that inserts": lambda t: t.merge_insert("id").when_not_matched_insert_all().execute(rows(id=7, n=0, s="y")),
    "merge that updates": lambda t: t.merge_insert("id").when_matched_update_all().execute(rows(id=1, n=0, s="y")),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_of_a_row_that_fails_a_constraint_changes_nothing(table: Dataset, write: Callable[[Dataset], object]) -> None:
    with pytest.raises(SchemaMismatchError, match=r"fails the constraint 'positive', CHECK \(n > 0\): \{'n': (0|-1)\}"):
        write(table)
    assert Dataset.open(table.uri).version == table.version


def test_rows_that_fulfil_a_constraint_or_lack_its_columns_are_written(table: Dataset) -> None:
    Dataset.write(table.uri, rows(id=5, n=7, s="x"), mode="append")
    Dataset.write(table.uri, rows(id=6), mode="append")
    Dataset.open(table.uri).update({"s": "upper(s)"})
    assert [r["n"] for r in Dataset.open(table.uri).to_table().sort_by("id").to_pylist()] == [1, 2, 3, None, 7, None]


def test_a_constraint_is_declared_only_if_all_rows_fulfil_it(table: Dataset) -> None:
    for condition, message in {"id < 3": "row 3 of fragment 0 fails", "nothing > 1": "nothing", "id +": "does not fit"}.items():
        with pytest.raises(SchemaMismatchError, match=message):
            add_constraint(table.snapshot, "other", condition)
    with pytest.raises(InvalidOptionError, match="there is a constraint 'positive'"):
        add_constraint(table.snapshot, "positive", "id >= 0")
    with pytest.raises(InvalidOptionError, match="it has: positive"):
        drop_constraint(table.snapshot, "other")
    assert drop_constraint(table.snapshot, "other", if_exists=True).version == table.version
    drop_constraint(table.snapshot, "positive")
    Dataset.write(table.uri, rows(id=5, n=-1, s="x"), mode="append")


CHANGES: dict[str, Callable[[Dataset], object]] = {
    "drop": lambda t: t.drop_columns(["n"]),
    "rename": lambda t: t.alter_columns({"path": "n", "name": "m"}),
    "retype": lambda t: t.alter_columns({"path": "n", "data_type": pa.int32()}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_columns_of_a_constraint_stay(table: Dataset, change: Callable[[Dataset], object]) -> None:
    with pytest.raises(SchemaMismatchError, match="DROP CONSTRAINT positive first"):
        change(table)
    table.drop_columns(["s"])


def test_pylance_keeps_constraints(table: Dataset) -> None:
    lance.write_dataset(rows(id=5, n=9, s="x"), table.uri, mode="append")
    with pytest.raises(SchemaMismatchError, match="positive"):
        Dataset.write(table.uri, rows(id=6, n=-1, s="x"), mode="append")


COMMITS: dict[str, Callable[[str], tuple[Begun, Callable[..., Snapshot]]]] = {
    "append": lambda uri: (begun(uri, rows(id=1, n=-1)), commit_write),
    "append with a new column": lambda uri: (begun(uri, rows(id=1, n=-1, new=1), WriteOptions(merge_schema=True)), commit_write),
    "replacement of rows": lambda uri: (begun(uri, rows(id=1, n=-1)), commit_replacement),
}


@pytest.mark.parametrize("begin", COMMITS.values(), ids=COMMITS)
def test_a_write_that_began_before_the_constraint_is_refused(
    uri: str, begin: Callable[[str], tuple[Begun, Callable[..., Snapshot]]]
) -> None:
    made = Dataset.write(uri, rows(id=0, n=1))
    (target, fragments), commit = begin(uri)
    add_constraint(made.snapshot, "positive", "n > 0")
    with pytest.raises(CommitConflictError, match="constraint") as error:
        commit(target, fragments)
    assert error.value.retryable


def test_a_property_is_no_way_around_the_check_of_the_rows(table: Dataset) -> None:
    with pytest.raises(InvalidOptionError, match=r"ADD CONSTRAINT small CHECK \(n < 2\)"):
        table.update_config({"lance_spark.constraint.small": "n < 2"})
    table.update_config({"lance_spark.constraint.positive": None})


def test_a_constraint_sees_the_rows_of_writes_that_came_first(uri: str) -> None:
    made = Dataset.write(uri, pa.table({"n": [1]}))
    Dataset.write(uri, rows(n=-1), mode="append")
    with pytest.raises(SchemaMismatchError, match="row 0 of fragment 1 fails the constraint 'positive'"):
        add_constraint(made.snapshot, "positive", "n > 0")
