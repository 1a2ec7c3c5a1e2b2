"""DELETE, UPDATE and MERGE of a partitioned namespace: the rows of the same change of one table, in the tables of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset, PartitionedNamespace
from lance_spark.namespace.partitioned.leaves import leaves_of
from lance_spark.namespace.partitioned.spec import Form
from lance_spark.namespace.partitioned.write import partition_values

pytestmark = pytest.mark.spec("partitioned-namespace.md", "ACID Enforcement")

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("k", pa.int64()), ("t", pa.timestamp("us")), ("v", pa.float64())])
TEXTS = ["Aa", "ab", None, "Bé", "bz", "漢字"]
LATER = datetime(2031, 3, 4, 5, 6, 7)
Changed: TypeAlias = "Dataset | PartitionedNamespace"


def row(i: int) -> dict[str, Any]:
    moment = None if i == 5 else datetime(2020 + i % 3, 1 + i % 5, 1 + i % 7, i % 4)
    return {"id": i, "s": TEXTS[i % 6], "k": None if i == 7 else 7 * i - 30, "t": moment, "v": i / 2}


def rows(*ids: int, **values: Any) -> pa.Table:
    return pa.Table.from_pylist([row(i) | values for i in ids], SCHEMA)


@dataclass(frozen=True)
class Case:
    """A partition field, and new values of its source that move rows, as SQL and as a value."""

    field: Any
    form: Form
    text: dict[str, str]
    value: dict[str, Any]


TO_TEXT, TO_NUMBER = ({"s": "'new'"}, {"s": "new"}), ({"k": "k + 1000"}, {"k": 1000})
TO_TIME = ({"t": "TIMESTAMP_NTZ '2031-03-04 05:06:07'"}, {"t": LATER})
CASES = {
    "identity": Case("s", "published", *TO_TEXT),
    "identity of a time": Case("t", "published", *TO_TIME),
    "bucket by murmur3": Case(("bucket", "k", 4), "published", *TO_NUMBER),
    "bucket of text by murmur3": Case(("bucket", "s", 4), "published", *TO_TEXT),
    "bucket by xxhash64": Case(("bucket", "k", 4), "document", *TO_NUMBER),
    "bucket of text by xxhash64": Case(("bucket", "s", 4), "document", *TO_TEXT),
    "truncated text": Case(("truncate", "s", 1), "published", *TO_TEXT),
    "truncated number": Case(("truncate", "k", 10), "document", *TO_NUMBER),
    "year": Case(("year", "t"), "published", *TO_TIME),
    "month": Case(("month", "t"), "document", *TO_TIME),
    "day": Case(("day", "t"), "published", *TO_TIME),
    "hour": Case(("hour", "t"), "document", *TO_TIME),
    "expression": Case(("expression", "s", "lower(col)"), "published", *TO_TEXT),
    "expression of the document": Case(("expression", "s", "upper(left(col, 1))"), "document", *TO_TEXT),
}


def merged(to: Changed, source: pa.Table) -> Changed:
    builder: Any = to.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    done: Changed = builder.execute(source)
    return done


CHANGES: dict[str, Callable[[Changed, Case], Changed]] = {
    "delete in one table": lambda to, case: to.delete("id = 1"),
    "delete in several tables": lambda to, case: to.delete("v < 4 OR s IS NULL"),
    "delete moved rows": lambda to, case: to.update(case.text, "id < 6").delete("id < 4"),
    "delete everything": lambda to, case: to.delete("true"),
    "update in one table": lambda to, case: to.update({"v": "v + 100"}, "id = 1"),
    "update in several tables": lambda to, case: to.update({"v": "v * 2"}, "id < 8"),
    "update moved rows": lambda to, case: to.update(case.text, "id < 8").update({"v": "v + 1"}),
    "update rows again and again": lambda to, case: to.update(case.text).update({"s": "'x'", "k": "id", "t": "NULL"}, "id > 3"),
    "merge in one table": lambda to, case: merged(to, rows(1, v=50.0)),
    "merge in several tables": lambda to, case: merged(to, rows(2, 3, 8, 30, 31, v=50.0)),
    "merge moved rows": lambda to, case: merged(to, rows(2, 3, 8, 30, v=50.0, **case.value)),
}


def content(changed: Changed) -> list[tuple[Any, ...]]:
    found = changed.scan().to_table().to_pylist()
    return sorted((tuple(each.values()) for each in found), key=repr)


def check(namespace: PartitionedNamespace) -> None:
    """pylance opens and validates each table at its version, which has the rows of its values alone; all of them are the namespace."""
    shape, total = namespace.snapshot.shape.manifest.schema, 0
    for leaf in leaves_of(namespace.snapshot, namespace.snapshot.leaves):
        table = lance.dataset(f"{namespace.uri}/{leaf.location}", version=leaf.pin.version)
        table.validate()
        found = table.to_table()
        total += found.num_rows
        for batch in found.combine_chunks().to_batches():
            values = partition_values(leaf.spec, shape, batch)
            for f in leaf.spec.fields:
                assert values.column(f.column).to_pylist() == leaf.values[f.column].to_pylist() * batch.num_rows
    assert total == namespace.count_rows()
    report = namespace.verify()
    assert report.ok, str(report)
    assert not report.ahead


@pytest.mark.spec("partitioned-namespace.md", "Partition Expression")
@pytest.mark.matrix
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_change_leaves_the_rows_of_the_same_change_of_a_table(
    case: Case, change: Callable[[Changed, Case], Changed], tmp_path: Path
) -> None:
    namespace = PartitionedNamespace.create(tmp_path / "n", SCHEMA, [case.field], form=case.form)
    namespace = namespace.write(rows(*range(8))).write(rows(*range(8, 12)))
    table = Dataset.write(tmp_path / "t", rows(*range(12)))
    changed = change(namespace, case)
    assert isinstance(changed, PartitionedNamespace)
    assert content(changed) == content(change(table, case))
    check(changed)
    assert content(PartitionedNamespace.open(namespace.uri, version=namespace.version)) == content(table)
