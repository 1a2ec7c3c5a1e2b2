"""Names of columns that pylance cannot address are refused where columns are made; existing tables with such names still open."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import SchemaMismatchError
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.write import write
from tests.tables import rename_column

DOORS: dict[str, Callable[[str, str], object]] = {
    "create": lambda uri, name: Dataset.write(f"{uri}2", pa.table({name: [1]})),
    "overwrite": lambda uri, name: Dataset.write(uri, pa.table({name: [1]}), "overwrite"),
    "merge_schema": lambda uri, name: write(uri, pa.table({"id": [1], name: [1]}), "append", WriteOptions(merge_schema=True)),
    "add_columns": lambda uri, name: Dataset.open(uri).add_columns(pa.field(name, pa.int64())),
    "rename": lambda uri, name: Dataset.open(uri).alter_columns({"path": "id", "name": name}),
}


@pytest.mark.parametrize("name", ["a.b", ".", "a`b", "`"])
@pytest.mark.parametrize("door", DOORS)
def test_a_new_column_is_refused(tmp_path_factory: pytest.TempPathFactory, door: str, name: str) -> None:
    uri = str(tmp_path_factory.mktemp("names") / "t")
    Dataset.write(uri, pa.table({"id": [1]}))
    with pytest.raises(SchemaMismatchError, match=r"must not contain (dots|backticks): .*pylance cannot address"):
        DOORS[door](uri, name)
    assert Dataset.open(uri).version == 1


def test_a_field_without_a_name_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    uri = str(tmp_path_factory.mktemp("names") / "t")
    with pytest.raises(SchemaMismatchError, match="a field of 's' has no name"):
        Dataset.write(uri, pa.table({"s": [{"": 1}]}))
    Dataset.write(uri, pa.table({"s": [{"a.b": 1, "c`d": 2}]}))


def test_an_existing_table_is_read_and_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    uri = str(tmp_path_factory.mktemp("names") / "t")
    Dataset.write(uri, pa.table({"n": [1]}))
    rename_column(uri, "n", "a.b")
    Dataset.write(uri, pa.table({"a.b": [2]}), "append")
    assert Dataset.open(uri).scan().to_table()["a.b"].to_pylist() == [1, 2]
    Dataset.write(uri, pa.table({"a.b": [3]}), "overwrite")
    assert Dataset.open(uri).count_rows("`a.b` = 3") == 1
