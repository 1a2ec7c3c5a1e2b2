"""Wrong arguments of Dataset raise errors that name the argument, what was given and what is expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lance_spark import Dataset, InvalidOperationError, TableNotFoundError


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
    for use in (dataset.scan, dataset.count_rows, dataset.delete):
        with pytest.raises(TypeError, match=r"a condition must be SQL text, such as 'id > 3', not Expression: '\(id > 3\)'"):
            use(**{"predicate" if use == dataset.delete else "filter": expression})


def test_a_folder_of_parquet_files_is_named(uri: str) -> None:
    Path(uri).mkdir()
    pq.write_table(pa.table({"id": [1]}), f"{uri}/a.parquet")
    with pytest.raises(TableNotFoundError, match="the folder holds Parquet files"):
        Dataset.open(uri)
    with pytest.raises(InvalidOperationError, match="holds Parquet files; write the Lance table to a folder of its own"):
        Dataset.write(uri, pa.table({"id": [1]}))
    assert [path.name for path in Path(uri).iterdir()] == ["a.parquet"]
