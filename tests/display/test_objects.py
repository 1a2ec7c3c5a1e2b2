"""What a method returns is one line in a shell and a table in a notebook, never its internals."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.display.figures import Figures
from tests.markup import HOSTILE, assert_harmless


@pytest.fixture
def dataset(tmp_path: object) -> Dataset:
    rows = pa.table({"id": range(150), "s": ["x"] * 150})
    table = Dataset.write(f"{tmp_path}/t.lance", rows, commit_message=HOSTILE)
    table = table.create_scalar_index("id", "BTREE").insert(rows.slice(0, 50)).delete("id < 2").update({"s": "'y'"}, "id = 7")
    table.tags.create("checked", 1)
    table.create_branch("dev")
    return table


def test_handles_are_one_line_and_show_what_they_hold(dataset: Dataset) -> None:
    scan = dataset.scan(columns=["id"], filter="id > 3", limit=5)
    assert repr(dataset.tags) == f"Tags({dataset.uri!r})"
    assert repr(dataset.branches) == f"Branches({dataset.uri!r})"
    assert repr(dataset.consumers) == f"Consumers({dataset.uri!r})"
    assert repr(dataset.optimize) == f"Optimizer({dataset.uri!r}, version=5)"
    assert repr(scan) == f"Scan({dataset.uri!r}, version=5, columns=['id'], filter='id > 3', limit=5)"
    assert repr(dataset.scan()) == f"Scan({dataset.uri!r}, version=5)"
    for shown, part in (
        (dataset.tags, "checked1main"),
        (dataset.branches, "dev5main"),
        (dataset.optimize, "to rewrite2"),
        (scan, "idint64"),
    ):
        assert part in assert_harmless(shown._repr_html_()).text
    assert_harmless(dataset.scan(filter="s = '<script>alert(1)</script>'")._repr_html_())


def test_lists_are_tables(dataset: Dataset) -> None:
    indexes = dataset.list_indices()
    assert indexes == list(indexes)
    assert str(indexes).splitlines()[0].split() == ["index", "kind", "columns", "version", "fragments", "segment"]
    assert "id_idxBTreeid11" in assert_harmless(indexes._repr_html_()).text
    assert "checked1main" in assert_harmless(dataset.tags.list()._repr_html_()).text


def test_figures_are_a_table_with_units(dataset: Dataset) -> None:
    stats = dataset.cleanup_old_versions(retain_versions=1, dry_run=True, error_if_tagged_old_versions=False)
    assert stats.files
    assert "files=(" not in repr(stats)
    assert isinstance(stats, Figures)
    text = assert_harmless(stats._repr_html_()).text
    assert "old versions3" in text
    assert "KiB" in text


def test_the_history_tells_how_many_rows_and_bytes(dataset: Dataset) -> None:
    rows = {entry.version: str(entry.rows) for entry in dataset.history()}
    assert rows[1].startswith("+150 -0 rows, ")
    assert rows[3].startswith("+50 -0 rows, ")
    assert rows[4] == "+0 -4 rows"
    assert rows[5].startswith("+0 ~2 -0 rows, ")
    assert rows[2] == ""
    assert "num_updated_rows" not in str(dataset.history())
    assert str(dataset.history(2)[1].rows) == "+0 -4 rows"
