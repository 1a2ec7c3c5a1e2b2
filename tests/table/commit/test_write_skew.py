"""Snapshot isolation: changes of one row see each other; changes of different rows that read each other's do not, as documented."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from lance_spark import Dataset

ON_CALL = pa.table({"who": ["ann", "bob"], "on_call": [True, True]})


def rest(ds: Dataset, who: str) -> None:
    """Take a person off call, if the version that was read has another one."""
    assert ds.count_rows(f"on_call AND who != '{who}'") == 1
    ds.update({"on_call": "false"}, f"who = '{who}'")


def test_two_changes_of_different_rows_do_not_see_each_other(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, ON_CALL, max_rows_per_file=1)
    first, second = Dataset.open(uri), Dataset.open(uri)
    rest(first, "ann")
    rest(second, "bob")
    assert lance.dataset(uri).count_rows("on_call") == 0 == Dataset.open(uri).count_rows("on_call")


def test_a_row_is_not_updated_twice_from_one_value(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"k": [1, 2], "n": [0, 0]}))
    first, second = Dataset.open(uri), Dataset.open(uri)
    first.update({"n": "n + 1"}, "k = 1")
    second.update({"n": "n + 1"}, "k = 1")
    assert lance.dataset(uri).to_table(filter="k = 1")["n"].to_pylist() == [2]


def test_a_rule_about_one_row_holds(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, pa.table({"team": ["a"], "on_call": [2]}))
    first, second = Dataset.open(uri), Dataset.open(uri)
    first.update({"on_call": "on_call - 1"}, "team = 'a' AND on_call > 1")
    second.update({"on_call": "on_call - 1"}, "team = 'a' AND on_call > 1")
    assert lance.dataset(uri).to_table()["on_call"].to_pylist() == [1]
