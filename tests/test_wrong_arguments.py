"""Wrong arguments of Dataset raise errors that name the argument, what was given and what is expected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOperationError, InvalidOptionError, SchemaMismatchError, StorageError, TableNotFoundError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"version": "1"}, TypeError, "version must be an integer, not '1'"),
        ({"version": 1.0}, TypeError, "version must be an integer, not 1.0"),
        ({"timestamp": "yesterday"}, ValueError, "timestamp must be a datetime or text in ISO 8601.*not 'yesterday'"),
        ({"timestamp": 3}, TypeError, "timestamp must be a datetime or text in ISO 8601.*not 3"),
    ],
)
def test_wrong_versions_and_times_are_named(uri: str, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    Dataset.write(uri, pa.table({"id": [1]}))
    with pytest.raises(error, match=message):
        Dataset.open(uri, **arguments)


def test_conditions_are_text(uri: str) -> None:
    dataset = Dataset.write(uri, pa.table({"id": [1]}))
    expression: Any = pc.field("id") > 3
    with pytest.raises(TypeError, match=r"a condition must be SQL text, such as 'id > 3', not Expression: '\(id > 3\)'"):
        dataset.delete(expression)
    for use in (dataset.scan, dataset.count_rows):
        with pytest.raises(TypeError, match="a condition must be SQL text, such as 'id > 3', not int: '3'"):
            use(filter=3)


def test_a_folder_of_parquet_files_is_named(uri: str) -> None:
    Path(uri).mkdir()
    pq.write_table(pa.table({"id": [1]}), f"{uri}/a.parquet")
    with pytest.raises(TableNotFoundError, match="the folder holds Parquet files"):
        Dataset.open(uri)
    with pytest.raises(InvalidOperationError, match="holds Parquet files; write the Lance table to a folder of its own"):
        Dataset.write(uri, pa.table({"id": [1]}))
    assert [path.name for path in Path(uri).iterdir()] == ["a.parquet"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("a.orc", "ORC files: read it with spark.read.orc"),
        ("p=1/a.parquet", "folders of partitions of another format"),
        ("_delta_log/00000000000000000000.json", "a Delta table"),
        ("metadata/v1.metadata.json", "an Iceberg table"),
    ],
)
def test_a_folder_of_another_format_is_named_and_no_table_is_made_in_it(uri: str, name: str, what: str) -> None:
    path = Path(uri, name)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    with pytest.raises(TableNotFoundError, match=f"the folder holds {what}"):
        Dataset.open(uri)
    with pytest.raises(InvalidOperationError, match=f"holds {what.split(':')[0]}; write the Lance table to a folder of its own"):
        Dataset.write(uri, pa.table({"id": [1]}))
    assert [path] == [p for p in Path(uri).rglob("*") if p.is_file()]


def test_a_folder_of_texts_is_named(uri: str) -> None:
    Path(uri).mkdir()
    Path(uri, "part-0.csv").write_text("1,2")
    with pytest.raises(TableNotFoundError, match=r"the folder holds CSV files: read it with spark\.read\.csv"):
        Dataset.open(uri)


def test_a_file_is_no_table(uri: str) -> None:
    Path(uri).write_text("x")
    with pytest.raises(StorageError, match="expected a folder, found a file; a Lance table is a folder"):
        Dataset.open(uri)


def test_one_column_by_two_names_is_refused(uri: str) -> None:
    dataset = Dataset.write(uri, pa.table({"id": [1]}))
    for names in (["id", "ID"], ["id", "`id`"]):
        with pytest.raises(SchemaMismatchError, match="are the same one; name each column once"):
            dataset.scan(columns=names).to_table()


WRITE: Any = Dataset.write
OPEN: Any = Dataset.open
WRONG_USES: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda t: t.scan(columns=[1]), TypeError, "the name of a column must be text, not 1"),
    (lambda t: t.scan(limit="5"), TypeError, "limit must be an integer, not '5'"),
    (lambda t: t.scan(batch_size=1.5), TypeError, "batch_size must be an integer, not 1.5"),
    (lambda t: t.scan(offset=None), TypeError, "offset must be an integer, not None"),
    (lambda t: t.take(0), TypeError, "indices must be a sequence of integers, not 0"),
    (lambda t: t.take([0.9]), TypeError, "indices must be integers of 64 bits, not .*0.9"),
    (lambda t: t.take(["0"]), TypeError, "indices must be integers of 64 bits, not .*'0'"),
    (lambda t: t.take([2**70]), TypeError, "indices must be integers of 64 bits, not 1180591620717411303424"),
    (lambda t: t.take_rows([-1]), ValueError, "row_ids must be at least 0, not -1"),
    (lambda t: t.take_rows([99999]), IndexError, "1 of the rows do not exist in .*, such as the one with the id 99999"),
    (
        lambda t: t.update({"id": "hello world"}),
        InvalidOptionError,
        "the value 'hello world' of 'id' has a syntax error: .*'world'; if it is",
    ),
    (lambda t: t.update({"id": "hello"}), SchemaMismatchError, "no column 'hello'; .*; if it is text, quote it: 'hello'$"),
    (
        lambda t: t.add_columns({"q": "id +"}),
        InvalidOptionError,
        r"the value 'id \+' of 'q' has a syntax error: an operand is missing at '\+'",
    ),
    (lambda t: t.delete("id = 3 AND"), InvalidOptionError, "the filter 'id = 3 AND' has a syntax error: an operand is missing at 'AND'"),
    (lambda t: t.take_rows([True]), TypeError, "row_ids must be integers"),
    (lambda t: t.history("3"), TypeError, "limit must be an integer, not '3'"),
    (lambda t: t.checkout_version(["main", 1]), TypeError, r"a version must be a number, the name of a tag or \(branch, number\)"),
    (lambda t: t.tags.create(5), TypeError, "the name of a tag must be text, not 5"),
    (lambda t: t.create_branch(None), TypeError, "the name of a branch must be text, not None"),
    (lambda t: t.cleanup_old_versions(7), TypeError, r"older_than must be a timedelta, such as timedelta\(days=7\), not 7"),
    (lambda t: t.cleanup_old_versions(timedelta(1), 2.5), TypeError, "retain_versions must be an integer, not 2.5"),
    (lambda t: t.update({"id": "1", "ID": "2"}), SchemaMismatchError, "one column has two new values: .id., .ID."),
    (lambda t: t.update({"id": 5}), TypeError, r"updates\['id'\] must be text, not 5"),
    (lambda t: t.update("id = 5"), TypeError, "updates must be a mapping"),
    (lambda t: t.add_columns(["x"]), TypeError, "a new column must be a field, not 'x'"),
    (lambda t: t.add_columns(None), TypeError, "columns must be a field, a list of fields, a schema, or SQL text by name, not None"),
    (lambda t: t.alter_columns({"name": "x"}), TypeError, "path must be the name of a column, not None"),
    (lambda t: t.alter_columns({"path": "id", "data_type": "bigint"}), TypeError, "data_type must be a type of pyarrow, not 'bigint'"),
    (lambda t: t.alter_columns({"path": "id", "nullable": "no"}), TypeError, "nullable must be True or False, not 'no'"),
    (lambda t: t.update_config({"a": 1}), TypeError, r"values\['a'\] must be text, not 1"),
    (lambda t: t.merge_insert([]).when_not_matched_insert_all().execute(pa.table({"id": [1]})), ValueError, "has no primary key"),
    (lambda t: t.merge_insert(None), ValueError, "has no primary key"),
    (lambda t: t.merge_insert(3), TypeError, "on must be a column or a sequence of columns, not 3"),
    (
        lambda t: t.optimize.compact_files(target_rows_per_fragment=1e6),
        TypeError,
        "target_rows_per_fragment must be an integer, not 1000000.0",
    ),
    (lambda t: t.create_scalar_index(None, "BTREE"), TypeError, "column must be the name of a column, not None"),
    (lambda t: t.create_scalar_index("id", None), TypeError, "index_type must be text"),
    (lambda t: WRITE(t.uri, None, "append"), TypeError, "data must be a pyarrow table"),
    (
        lambda t: WRITE(t.uri, pa.table({"id": [1]}), "append", max_rows_per_file=1e6),
        TypeError,
        "max_rows_per_file must be an integer",
    ),
    (
        lambda t: WRITE(t.uri, pa.table({"id": [1]}), "append", transaction_properties={"a": 1}),
        TypeError,
        r"properties\['a'\] must be",
    ),
    (lambda t: OPEN(t.uri, storage_options="x"), TypeError, "storage_options must be a mapping"),
]


def test_wrong_types_are_named_and_change_nothing(uri: str) -> None:
    dataset = Dataset.write(uri, pa.table({"id": [1, 2, 3]}))
    files = sorted(Path(uri).rglob("*"))
    for use, error, message in WRONG_USES:
        with pytest.raises(error, match=message):
            use(dataset)
    assert sorted(Path(uri).rglob("*")) == files
