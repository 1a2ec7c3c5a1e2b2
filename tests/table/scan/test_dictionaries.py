"""Scans that ask for dictionaries get those that the files have, with the same values as other scans."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.predicate import parse
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

ROWS = 20_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    numbers = np.arange(ROWS)
    few = [None if i % 5 == 4 else f"value {i % 5}" for i in numbers.tolist()]
    rows = pa.table(
        {
            "id": numbers,
            "few": few,
            "money": pa.array([Decimal(i % 7) for i in numbers.tolist()], pa.decimal128(15, 2)),
            "many": [f"value {i}" for i in numbers.tolist()],
            "number": numbers % 3 * 10**12,
            "struct": [{"few": text} for text in few],
        }
    )
    return Dataset.write(str(tmp_path_factory.mktemp("dictionaries") / "t.lance"), rows, max_rows_per_file=ROWS // 2)


def read(table: Dataset, plan: ScanPlan) -> list[pa.RecordBatch]:
    return [batch for task in plan_tasks(table.snapshot, plan) for batch in task.read()]


def decoded(batches: list[pa.RecordBatch]) -> pa.Table:
    names = batches[0].schema.names
    plain = [[c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in b.columns] for b in batches]
    return pa.concat_tables([pa.table(columns, names) for columns in plain])


def test_columns_of_few_texts_and_decimals_have_dictionaries(table: Dataset) -> None:
    plain, found = read(table, ScanPlan()), read(table, ScanPlan(with_dictionaries=True))
    assert [f.name for f in found[0].schema if pa.types.is_dictionary(f.type)] == ["few", "money"]
    assert not any(pa.types.is_dictionary(f.type) for f in plain[0].schema)
    assert decoded(found).equals(decoded(plain))


def test_deleted_rows_are_left_out(table: Dataset, tmp_path: Path) -> None:
    own = Dataset.write(str(tmp_path / "t.lance"), decoded(read(table, ScanPlan()))).delete("id % 3 = 1 OR id > 19000")
    found = read(own, ScanPlan(with_dictionaries=True))
    assert pa.types.is_dictionary(found[0].schema.field("few").type)
    assert decoded(found).equals(decoded(read(own, ScanPlan())))


@pytest.mark.parametrize("plan", [ScanPlan(batch_size=7), ScanPlan(limit=5)], ids=["small batches", "limit"])
def test_dictionaries_as_large_as_the_batch_are_looked_up(table: Dataset, plan: ScanPlan) -> None:
    found = read(table, replace(plan, with_dictionaries=True))
    assert not any(pa.types.is_dictionary(f.type) for f in found[0].schema)
    assert decoded(found).equals(decoded(read(table, plan)))


def test_filtered_rows(table: Dataset) -> None:
    plan = ScanPlan(predicate=parse("few = 'value 1' OR id > 15000", table.snapshot.manifest.schema, None))
    assert decoded(read(table, replace(plan, with_dictionaries=True))).equals(decoded(read(table, plan)))
