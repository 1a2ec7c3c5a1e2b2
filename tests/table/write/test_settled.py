"""Which columns a table and its files have after a write, by its mode, its options, and what a DataFrame says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.schema.declared_types import DECLARED
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.settled import Frame
from lance_spark.table.write.target import Mode, WriteTarget
from lance_spark.table.write.write import begin_write

CHAR = {DECLARED: b"char(3)"}
TABLE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("c", pa.string(), metadata=CHAR),
        pa.field("n", pa.int64()),
    ]
)
KEEPS = WriteOptions(overwrite_schema=False)
MERGES = WriteOptions(merge_schema=True)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with a row."""
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"id": [1], "c": ["a"], "n": [2]}, schema=TABLE))
    return uri


@pytest.mark.parametrize(
    ("mode", "options", "given", "files", "table"),
    [
        ("append", WriteOptions(), ["id", "n"], ["id", "n"], None),
        ("append", MERGES, ["id", "n"], ["id", "n"], None),
        ("append", MERGES, ["id", "new"], ["id", "new"], ["id", "c", "n", "new"]),
        ("overwrite", WriteOptions(), ["new", "id"], ["new", "id"], None),
        ("overwrite", KEEPS, ["n", "id"], ["id", "c", "n"], None),
        ("overwrite", MERGES, ["new", "id"], ["id", "c", "n", "new"], None),
    ],
)
def test_the_mode_and_the_options_decide_the_columns(
    uri: str,
    mode: Mode,
    options: WriteOptions,
    given: list[str],
    files: list[str],
    table: list[str] | None,
) -> None:
    target = begin_write(uri, pa.schema([(name, pa.int64()) for name in given]), mode, options)
    wider = target.table_schema
    assert target.schema.names == files
    assert (None if wider is None else wider.names) == table


def overwritten(uri: str, frame: Frame | None) -> WriteTarget:
    """The target of an overwrite by columns of which `id` and `n` have no nulls."""
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("c", pa.string()),
            pa.field("n", pa.int64(), nullable=False),
        ]
    )
    return begin_write(uri, columns, "overwrite", WriteOptions(), frame)


@pytest.mark.parametrize(
    ("frame", "nullable", "char"),
    [
        (None, [False, True, False], False),
        (Frame(), [False, True, True], True),
        (Frame(keeps_lengths=False), [False, True, True], False),
        (Frame(frozenset({"n"})), [True, True, False], False),
        (Frame(frozenset({"id", "c", "n"})), [False, True, False], False),
    ],
    ids=["data that say all", "inferred", "inferred, overwriteSchema", "one declared", "declared"],
)
def test_spark_does_not_know_all_of_the_columns_of_a_frame(uri: str, frame: Frame | None, nullable: list[bool], char: bool) -> None:
    fields = overwritten(uri, frame).schema.fields
    assert [field.nullable for field in fields] == nullable
    assert (DECLARED in fields[1].metadata) is char


def test_columns_of_a_new_table_that_nobody_has_declared_may_be_null(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    for frame, expected in ((None, False), (Frame(), True), (Frame(frozenset({"id"})), False)):
        target = begin_write(str(tmp_path / "new.lance"), columns, "append", WriteOptions(), frame)
        assert [field.nullable for field in target.schema.fields] == [expected]
