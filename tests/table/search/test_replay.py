"""A search that was logged is run again on its version, whatever happened to the table since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, VersionNotFoundError
from lance_spark.table.search.replay import SearchSnapshot

Q = np.full(8, 0.25, np.float32)
SEARCHES: dict[str, dict[str, Any]] = {
    "nearest": {"nearest": {"column": "vec", "q": Q, "k": 6}},
    "a filter": {"nearest": {"column": "vec", "q": Q, "k": 6, "nprobes": 1}, "filter": "id % 3 = 0", "prefilter": True},
    "words": {"full_text_query": "word3", "limit": 7},
    "both": {"hybrid": {"routes": [{"nearest": {"column": "vec", "q": Q}}, {"full_text_query": "word2"}], "k": 5}},
}


def rows(first: int, count: int) -> pa.Table:
    values = np.random.default_rng(first).normal(size=(count, 8)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 8)
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "vec": column, "text": [f"word{i % 7} other" for i in ids]})


@pytest.fixture
def table(tmp_path: Path) -> Dataset:
    made = Dataset.write(tmp_path / "t", rows(0, 300)).create_index("vec", "IVF_PQ", num_partitions=2, num_sub_vectors=2)
    return Dataset.write(made.uri, rows(300, 100), mode="append").create_scalar_index("text", "INVERTED")


CHANGES: dict[str, Callable[[Dataset], Any]] = {
    "nothing": lambda table: table,
    "appended": lambda table: Dataset.write(table.uri, rows(400, 50), mode="append"),
    "deleted": lambda table: table.delete("id % 2 = 0"),
    "compacted": lambda table: table.optimize.compact_files(),
    "optimized": lambda table: table.optimize.optimize_indices(retrain=True),
    "dropped": lambda table: table.drop_index("vec_idx"),
    "overwritten": lambda table: Dataset.write(table.uri, rows(7, 20), mode="overwrite"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_rows_are_found_again(table: Dataset, change: str) -> None:
    logged = {name: str(table.search_snapshot(["id"], **search)) for name, search in SEARCHES.items()}
    before = {name: table.scan(["id"], **search).to_table() for name, search in SEARCHES.items()}
    CHANGES[change](table)
    latest = Dataset.open(table.uri)
    for name, told in logged.items():
        assert latest.replay(told).to_table().equals(before[name]), name


def test_a_version_that_was_cleaned_up_is_named(table: Dataset) -> None:
    logged = table.search_snapshot(**SEARCHES["nearest"])
    later = table.delete("id = 3")
    later.cleanup_old_versions(retain_versions=1)
    with pytest.raises(VersionNotFoundError, match=f"cannot be run again: its version {table.version} was cleaned up"):
        Dataset.open(table.uri).replay(logged)


def test_equal_searches_have_equal_digests(table: Dataset) -> None:
    one, other = (table.search_snapshot(nearest={"column": "vec", "q": q, "k": 3}) for q in (Q, Q.tolist()))
    assert one.digest == other.digest != table.search_snapshot(nearest={"column": "vec", "q": Q, "k": 4}).digest
    assert SearchSnapshot.of(str(one)) == one


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"uri":1}', "nonsense"])
def test_other_text_is_an_error(table: Dataset, text: str) -> None:
    with pytest.raises(InvalidOptionError, match="JSON that search_snapshot has made"):
        table.replay(text)


def test_changed_arguments_are_an_error(table: Dataset) -> None:
    told = str(table.search_snapshot(nearest={"column": "vec", "q": Q, "k": 3})).replace('"k":3', '"k":4')
    with pytest.raises(InvalidOptionError, match="were changed"):
        table.replay(told)


def test_only_searches_are_logged(table: Dataset) -> None:
    with pytest.raises(InvalidOptionError, match="a search has one of the arguments nearest"):
        table.search_snapshot(["id"], "id > 3")
