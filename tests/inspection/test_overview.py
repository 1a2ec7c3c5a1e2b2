"""The display of a table, its versions, its history and a verify report in notebooks and shells."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from tests.markup import HOSTILE, assert_harmless

GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.lance"))


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    rows = pa.table({"id": range(10), "p": pa.array([{"x": 1.5}] * 10), "l": pa.array([[1]] * 10, pa.list_(pa.int16()))})
    Dataset.write(str(tmp_path / "t.lance"), rows, data_storage_version="2.1", commit_message="first <b>rows</b>")
    return Dataset.write(str(tmp_path / "t.lance"), rows, "append", transaction_properties={"job": "nightly"})


def test_a_dataset_prints_its_version_counts_and_columns(dataset: Dataset) -> None:
    assert repr(dataset) == f"Dataset({dataset.uri!r}, version=2)"
    heading, counts, _, *columns = str(dataset).splitlines()
    assert heading.startswith(f"{dataset.uri}, version 2, 20")
    assert counts == "20 rows, 2 fragments, storage version 2.1"
    assert columns == ["column  type", "id      int64", "p       struct", "  x     double", "l       list", "  item  int16"]


def test_a_branch_is_named(dataset: Dataset) -> None:
    branch = dataset.create_branch("dev")
    assert repr(branch) == f"Dataset({branch.uri!r}, version=2, branch='dev')"
    assert ", version 2 of branch dev, " in str(branch)


def test_a_dataset_shows_as_html(dataset: Dataset) -> None:
    markup = assert_harmless(dataset._repr_html_())
    assert "20 rows, 2 fragments, storage version 2.1" in markup.text
    assert "\u00a0\u00a0xdouble" in markup.text


def test_indexes_are_named_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(100)}), uri)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    assert str(Dataset.open(uri)).splitlines()[1].endswith(", indexes: a_idx")


def test_versions_and_history_are_lists_that_print_as_tables(dataset: Dataset) -> None:
    versions, history = dataset.versions(), dataset.history()
    assert versions == list(versions)
    assert [v.version for v in versions] == [1, 2]
    assert [e.version for e in history] == [2, 1]
    assert str(versions).splitlines()[0].split() == ["version", "time"]
    head, newest, oldest = str(history).splitlines()
    assert head.split() == ["version", "time", "operation", "rows", "message", "properties"]
    assert "job=nightly" in newest
    assert "first <b>rows</b>" in oldest
    assert "first <b>rows</b>" in assert_harmless(history._repr_html_()).text
    assert assert_harmless(versions._repr_html_()).tags.count("td") == 4


def test_a_verify_report_shows_as_html(dataset: Dataset) -> None:
    assert "✓ " in assert_harmless(dataset.verify()._repr_html_()).text
    gone = sorted(Path(dataset.uri, "data").iterdir())[0]
    os.unlink(gone)
    Path(dataset.uri, "data", "left <over>.lance").touch()
    text = assert_harmless(dataset.verify()._repr_html_()).text
    assert "✗ " in text
    assert f"missingdata/{gone.name}" in text
    assert "data/left <over>.lance" in text


def test_hostile_names_and_messages_are_escaped(tmp_path: Path) -> None:
    rows = pa.table({HOSTILE: [1], "s": pa.array([{HOSTILE: 1}])})
    dataset = Dataset.write(tmp_path / "<img src=x>", rows, commit_message=HOSTILE, transaction_properties={HOSTILE: HOSTILE})
    for shown in (dataset, dataset.history(), dataset.versions(), dataset.verify()):
        assert_harmless(shown._repr_html_())
        assert "\x1b" not in str(shown)
    assert "<script>alert(1)</script>" in assert_harmless(dataset._repr_html_()).text


def test_wide_tables_are_cut(tmp_path: Path) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({f"c{i}": [i] for i in range(150)}))
    assert str(dataset).splitlines()[-1] == "... and 50 more"
    markup = assert_harmless(dataset._repr_html_())
    assert markup.tags.count("tr") == 101
    assert "details" in markup.tags
    assert "150 columns" in markup.text


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_every_golden_table_prints(path: Path) -> None:
    dataset = Dataset.open(path)
    assert all(name in str(dataset) for name in dataset.schema.names)
    assert_harmless(dataset._repr_html_())
