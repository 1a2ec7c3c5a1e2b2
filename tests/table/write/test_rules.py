"""The rules of written rows, at the doors that need no Spark (see `tests.doors`), and what holds for all doors."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamWriter

import lance_spark
import lance_spark.spark.write as spark_writes
from lance_spark import Dataset, LanceTable, PartitionedNamespace
from lance_spark.errors import LanceError, SchemaMismatchError
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.write.writer import Write
from lance_spark.table.write import rules
from lance_spark.table.write.defaults import Moment, default_of
from tests.doors import DOORS, NO_DOORS, Door, Place
from tests.rules import ACCEPTED, CASES, REFUSED, Rule, applies, make, rows_at, rows_of, written_row

PACKAGE = Path(rules.__file__).parents[2]
HERE = [door for door in DOORS if not door.spark]
MOMENT = Moment(dt.datetime(2026, 3, 1, 3, 4, 5, 6, dt.UTC), "ada", "America/New_York")


@pytest.mark.parametrize("door", HERE, ids=str)
def test_a_row_gets_what_the_rules_say(door: Door, tmp_path: Path) -> None:
    cases = [case for case in ACCEPTED if applies(door, case)]
    place = Place(None, str(tmp_path / "t.lance"))
    make(place, cases, door)
    door.write(place, rows_of(cases, door.kind))
    row = written_row(place.uri, door)
    assert {case.name: row[case.column.name] for case in cases} == {case.name: case.expected for case in cases}


@pytest.mark.matrix
@pytest.mark.parametrize(("door", "case"), [(door, case) for door in HERE for case in REFUSED if applies(door, case)], ids=str)
def test_a_row_that_breaks_a_rule_is_refused(door: Door, case: Rule, tmp_path: Path) -> None:
    place = Place(None, str(tmp_path / "t.lance"))
    make(place, [case], door)
    before = rows_at(place.uri, door)
    with pytest.raises(LanceError, match=case.error):
        door.write(place, rows_of([case], door.kind))
    assert rows_at(place.uri, door) == before


def test_every_rule_has_a_case() -> None:
    named = re.findall(r"^\d\. ([\w ]+):", rules.__doc__ or "", re.MULTILINE)
    assert named == list(dict.fromkeys(case.rule for case in CASES))


def test_data_files_are_written_behind_the_rules_only() -> None:
    found = {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if re.search(r"\bnew_data_file\(", p.read_text())}
    assert found == {
        "file/data_file.py",
        "table/write/fragment_writer.py",
        "table/compaction/task.py",  # copies encoded pages
        "index/target.py",
    }
    without = {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if "NO_RULES" in p.read_text()}
    assert without == {"table/write/rules.py", "namespace/manifest_table.py", "table/mem_wal_writing/sstable.py"}


WRITE_FRAGMENTS = {
    "FragmentWriter": {
        "table/write/fragment_writer.py",
        "table/write/write.py",
        "table/changes/delta_writer.py",
        "table/changes/column_files.py",
        "table/compaction/task.py",
        "table/compaction/cluster.py",
        "namespace/partitioned/write.py",
        "table/mem_wal_writing/sstable.py",
    },
    "write_fragments": {
        "table/write/write.py",
        "namespace/manifest_table.py",
        "spark/write/rows.py",
        "spark/write/delta.py",
    },
    "write_rows": {
        "table/branches/merge.py",
        "table/changes/delta.py",
        "table/changes/delta_writer.py",
        "table/changes/row_tasks.py",
        "table/changes/merge/rows.py",
        "spark/write/delta.py",
        "verbs/job.py",
    },
    "write_columns": {
        "table/changes/column_files.py",
        "table/changes/new_columns.py",
        "table/backfill/work.py",
        "spark/write/columns.py",
        "verbs/add_columns.py",
    },
    "write_partitions": {
        "namespace/partitioned/write.py",
        "namespace/partitioned/namespace.py",
        "spark/write/partitions.py",
    },
}
"""What writes fragments, and the modules that name it: each of them is behind a door of `tests.doors`, or writes rows as they are."""


@pytest.mark.parametrize("name", WRITE_FRAGMENTS)
def test_only_what_is_listed_writes_fragments(name: str) -> None:
    found = {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if re.search(rf"\b{name}\b", p.read_text())}
    assert found == WRITE_FRAGMENTS[name]


def test_spark_gets_one_writer_and_those_of_streams() -> None:
    classes = re.compile(r"^class (\w+)\(.*\bDataSource\w*Writer\b", re.MULTILINE)
    found = [name for path in sorted(PACKAGE.rglob("*.py")) for name in classes.findall(path.read_text())]
    assert found == ["LogStreamWriter", "LanceStreamWriter", "LanceWriter"]


def public_names() -> Iterator[str]:
    """The public methods and functions, and the kinds of writes of Spark."""
    for owner in (Dataset, LanceTable, PartitionedNamespace):
        yield from (f"{owner.__name__}.{name}" for name in dir(owner) if not name.startswith("_"))
    yield from (
        f"lance_spark.{name}" for name in lance_spark.__all__ if name != "errors" and not inspect.isclass(getattr(lance_spark, name))
    )
    for found in pkgutil.iter_modules(spark_writes.__path__):
        module = importlib.import_module(f"{spark_writes.__name__}.{found.name}")
        classes = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
        yield from (c.__name__ for c in classes if c is not Write and issubclass(c, (Write, DataSourceStreamWriter)))


def test_what_writes_rows_is_a_door() -> None:
    behind = {name for door in DOORS for name in door.public}
    others = [name for names in NO_DOORS.values() for name in names]
    unlisted = {*public_names()} - behind - {*others}
    assert not unlisted, f"list {sorted(unlisted)} in tests/doors.py: as doors, or in NO_DOORS if they write no rows"
    assert sorted([*behind, *others]) == sorted(public_names())


@pytest.mark.parametrize(
    ("t", "text", "value"),
    [
        (pa.int8(), "5Y", 5),
        (pa.uint64(), "18446744073709551615", 2**64 - 1),
        (pa.float32(), "CAST('-Infinity' AS FLOAT)", float("-inf")),
        (pa.float64(), "1e3D", 1000.0),
        (pa.decimal128(5, 2), "1.5BD", Decimal("1.50")),
        (pa.bool_(), "true", True),
        (pa.string(), r"'a\nb\'\u00e9\\%'", "a\nb'é\\%"),
        (pa.string(), "'it''s' COLLATE UTF8_LCASE", "it's"),
        (pa.large_string(), "current_user()", "ada"),
        (pa.binary(), "X'00ff'", b"\x00\xff"),
        (pa.date32(), "DATE '2026-01-02'", dt.date(2026, 1, 2)),
        (pa.date32(), "current_date()", dt.date(2026, 2, 28)),
        (pa.timestamp("us", "UTC"), "now()", MOMENT.time),
        (pa.timestamp("us", "UTC"), "TIMESTAMP '2026-01-02 03:04:05'", dt.datetime(2026, 1, 2, 8, 4, 5, tzinfo=dt.UTC)),
        (pa.timestamp("us", "UTC"), "TIMESTAMP '2026-01-02 03:04:05Z'", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        (pa.timestamp("us"), "localtimestamp()", dt.datetime(2026, 2, 28, 22, 4, 5, 6)),
        (pa.duration("us"), "INTERVAL '-1 02:03:04.5' DAY TO SECOND", -dt.timedelta(1, 4, 500_000, 0, 3, 2)),
        (pa.list_(pa.string()), r"array('a,', NULL, 'b')", ["a,", None, "b"]),
        (pa.list_(pa.float32(), 2), "ARRAY(1, 2.5)", [1.0, 2.5]),
        (pa.dictionary(pa.int8(), pa.string()), "'x'", "x"),
    ],
)
def test_a_default_has_the_value_that_spark_gives_it(t: pa.DataType, text: str, value: Any) -> None:
    default = default_of(from_arrow(pa.schema([pa.field("c", t, metadata={"CURRENT_DEFAULT": text})])).fields[0])
    assert default is not None
    assert default.value(MOMENT).to_pylist() == [value]


def test_a_moment_is_one_in_all_rows_of_a_write(tmp_path: Path) -> None:
    field = pa.field("at", pa.timestamp("us", "UTC"), metadata={"CURRENT_DEFAULT": "current_timestamp()"})
    table = Dataset.write(tmp_path / "t.lance", pa.table({"id": [1], "at": [MOMENT.time]}, schema=pa.schema([("id", pa.int64()), field])))
    before = dt.datetime.now(dt.UTC)
    table = table.insert(pa.table({"id": [2]}).to_batches() * 3)
    [at] = set(table.scan(filter="id = 2").to_table()["at"].to_pylist())
    assert before <= at <= dt.datetime.now(dt.UTC)


def test_a_default_that_needs_the_zone_of_a_session_is_refused_without_one(tmp_path: Path) -> None:
    field = pa.field("day", pa.date32(), metadata={"CURRENT_DEFAULT": "current_date()"})
    table = Dataset.write(tmp_path / "t.lance", pa.table({"id": [1], "day": [MOMENT.time]}, schema=pa.schema([("id", pa.int64()), field])))
    with pytest.raises(SchemaMismatchError, match=r"'day' has the DEFAULT current_date\(\): it depends on the time zone"):
        table.insert(pa.table({"id": [2]}))
    assert table.insert(pa.table({"id": [2], "day": [MOMENT.time.date()]})).count_rows() == 2


_X = pa.struct([("x", pa.int32())])
_XY = pa.struct([("x", pa.int32()), ("y", pa.int32())])


@pytest.mark.parametrize("kind", rules.Kind, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", ["struct", "list", "map", "nested"])
def test_new_values_in_place_have_all_fields_of_their_structs(shape: str, kind: rules.Kind) -> None:
    """Rows that stay in place would lose the fields that values lack; new rows have null in them."""
    of_shape = {
        "struct": lambda t: t,
        "list": pa.list_,
        "map": lambda t: pa.map_(pa.string(), t),
        "nested": lambda t: pa.struct([("s", pa.list_(t))]),
    }[shape]
    columns = from_arrow(pa.schema([("c", of_shape(_XY))]))
    values = pa.record_batch([pa.nulls(1, of_shape(_X))], names=["c"])
    if kind is rules.Kind.VALUES:
        with pytest.raises(SchemaMismatchError, match="'c': the values lack fields"):
            rules.NO_RULES.apply(values, columns, kind)
    else:
        assert rules.NO_RULES.apply(values, columns, kind).schema.types == [of_shape(_XY)]
