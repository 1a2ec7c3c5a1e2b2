"""Fields in structs and in lists of structs are added, dropped, renamed and get new types, as in pylance and where pylance cannot."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark import Dataset
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.predicate import parse
from lance_spark.table.changes.add_columns import Source, add_columns
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget
from lance_spark.table.changes.new_columns import add_columns_of, plan_columns
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.projection import Projection
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import NO_OPTIONS
from tests.table.changes.test_alter_types import LINEAGE

pytestmark = pytest.mark.spec("table.md", "Data Evolution")

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string()), ("d", pa.struct([("z", pa.int32())]))])
WHOLE: list[Any] = [{"x": i, "y": f"y{i}", "d": {"z": 10 * i}} for i in range(6)]
STRUCTS: list[Any] = [WHOLE[0], None, {"x": None, "y": None, "d": None}, WHOLE[3], {"x": 4, "y": "y", "d": {"z": None}}, WHOLE[5]]
LISTS: list[Any] = [[WHOLE[0], None], None, [], [WHOLE[3], WHOLE[4]], [None], [STRUCTS[4]]]

VERSIONS = pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
STABLE = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])


def write(uri: Path, version: str, stable: bool = False) -> Dataset:
    """A table of three fragments, one with a deleted row. Files of 2.0 have no null structs."""
    plain = version == "2.0"
    columns = {
        "id": pa.array(range(6)),
        "s": pa.array(WHOLE if plain else STRUCTS, STRUCT),
        "l": pa.array([[row] for row in WHOLE] if plain else LISTS, pa.list_(STRUCT)),
        "n": pa.array([[1], [2, None], None, [], [5], [6]], pa.list_(pa.int32())),
    }
    lance.write_dataset(pa.table(columns), str(uri), data_storage_version=version, max_rows_per_file=2, enable_stable_row_ids=stable)
    lance.dataset(str(uri)).delete("id = 4")
    return Dataset.open(uri)


def rows(uri: Path, stable: bool = False) -> pa.Table:
    """The rows, which both readers agree on."""
    theirs = lance.dataset(str(uri))
    theirs.validate()
    table = Dataset.open(uri)
    assert table.verify().ok
    read = table.scan().to_table()
    assert read.schema == theirs.schema
    assert read.to_pylist() == theirs.to_table().to_pylist()
    return table.scan(columns=[f"`{name}`" for name in read.column_names] + (LINEAGE if stable else [])).to_table()


def check_goes_on(uri: Path) -> None:
    """Both writers append, delete and compact; the rows stay."""
    before = rows(uri).to_pylist()
    table = Dataset.open(uri).scan().to_table()
    lance.write_dataset(table.slice(0, 2), str(uri), mode="append")
    Dataset.write(uri, table.slice(2), mode="append")
    Dataset.open(uri).delete("id = 1")
    lance.dataset(str(uri)).delete("id = 5")
    expected = sorted(repr(row) for row in [*before, *before] if row["id"] not in (1, 5))
    assert sorted(map(repr, rows(uri).to_pylist())) == expected
    Dataset.open(uri).optimize.compact_files(target_rows_per_fragment=3)
    assert sorted(map(repr, rows(uri).to_pylist())) == expected
    lance.dataset(str(uri)).optimize.compact_files()
    assert sorted(map(repr, rows(uri).to_pylist())) == expected


Change = Callable[[Any], Any]
BOTH: dict[str, Change] = {
    "a type": lambda d: d.alter_columns({"path": "s.x", "data_type": pa.int64()}),
    "a type and a name": lambda d: d.alter_columns({"path": "s.d.z", "data_type": pa.int16(), "name": "zz"}),
    "types of all fields": lambda d: d.alter_columns(
        {"path": "s.x", "data_type": pa.int64()},
        {"path": "s.y", "data_type": pa.large_string()},
        {"path": "s.d.z", "data_type": pa.int64()},
        {"path": "id", "data_type": pa.int32()},
    ),
    "a type in a list": lambda d: d.alter_columns({"path": "l.item.x", "data_type": pa.int64()}),
    "the type of an item": lambda d: d.alter_columns({"path": "n.item", "data_type": pa.int64()}),
    "the name of an item": lambda d: d.alter_columns({"path": "n.item", "name": "element"}),
    "the name of a struct item": lambda d: d.alter_columns({"path": "l.item", "name": "each"}),
    "a name in a list": lambda d: d.alter_columns({"path": "l.item.d.z", "name": "zz"}),
    "a field dropped": lambda d: d.drop_columns(["s.x", "s.d.z"]),
    "a field of a list dropped": lambda d: d.drop_columns(["l.item.x"]),
    "an item dropped": lambda d: d.drop_columns(["n.item"]),
    "a field": lambda d: d.add_columns(pa.field("s", pa.struct([pa.field("new", pa.int64())]))),
    "a deep field": lambda d: d.add_columns(pa.field("s", pa.struct([pa.field("d", pa.struct([pa.field("new", pa.string())]))]))),
    "a field in a list": lambda d: d.add_columns(pa.field("l", pa.list_(pa.struct([pa.field("new", pa.list_(pa.int8()))])))),
}
"""Changes that pylance makes, too; not in all storage versions."""
OLD_GAPS = {"a field", "a deep field", "a field in a list", "a field of a list dropped"}
"""pylance makes these in storage version 2.2 alone; before, the last one drops the whole list."""
GAPS_2_0 = {"a type", "a type and a name", "types of all fields", "a type in a list"}
"""After these, pylance cannot read its own table of version 2.0."""


@pytest.mark.matrix
@STABLE
@VERSIONS
@pytest.mark.parametrize("change", BOTH)
def test_a_change_of_a_field_in_a_column_is_that_of_pylance(tmp_path: Path, change: str, version: str, stable: bool) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write(ours, version, stable)
    shutil.copytree(ours, theirs)
    BOTH[change](Dataset.open(ours))
    got = rows(ours, stable)
    if not (version < "2.2" and change in OLD_GAPS) and not (version == "2.0" and change in GAPS_2_0):
        BOTH[change](lance.dataset(str(theirs)))
        expected = rows(theirs, stable)
        assert (got.schema, got.to_pylist()) == (expected.schema, expected.to_pylist())
    check_goes_on(ours)


@pytest.mark.matrix
@STABLE
@VERSIONS
def test_new_fields_of_structs_have_values_where_the_struct_is_not_null(tmp_path: Path, version: str, stable: bool) -> None:
    table = write(tmp_path / "t", version, stable)
    before = rows(tmp_path / "t").to_pylist()
    table.add_columns({"s.new": "s.x + 1", "s.d.`a.b``c`": "upper(s.y)", "top": "id * 2"})
    for row in before:
        row["top"] = row["id"] * 2
        if row["s"] is not None:
            row["s"]["new"] = None if row["s"]["x"] is None else row["s"]["x"] + 1
            if row["s"]["d"] is not None:
                row["s"]["d"]["a.b`c"] = row["s"]["y"] and row["s"]["y"].upper()
    assert [sorted_fields(row) for row in rows(tmp_path / "t").to_pylist()] == [sorted_fields(row) for row in before]
    check_goes_on(tmp_path / "t")


def sorted_fields(row: Any) -> Any:
    return {k: sorted_fields(v) for k, v in sorted(row.items())} if isinstance(row, dict) else row


@dataclass(frozen=True)
class FewRows:
    """Computes values; `t` is the type of the column t."""

    t: pa.DataType

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = batch["id"]
        t = pa.array([{"q": i} for i in ids.to_pylist()], self.t) if pa.types.is_struct(self.t) else ids
        return pa.record_batch({"s.new": pc.multiply(ids, 3), "s.d.new": ids, "t": t})


@VERSIONS
def test_rows_without_a_value_keep_their_structs(tmp_path: Path, version: str) -> None:
    """Rows that a source has no values for are null in new columns; their structs stay, whatever file has them."""
    table = write(tmp_path / "t", version)
    before = rows(tmp_path / "t").to_pylist()
    # Files of 2.0 have no null structs.
    t = pa.struct([("q", pa.int64())]) if version > "2.0" else pa.int64()
    schema = pa.schema([("s.new", pa.int64()), ("s.d.new", pa.int64()), ("t", t)])

    def some(snapshot: Snapshot, target: ColumnTarget, fragments: frozenset[int]) -> list[ColumnFile]:
        tasks = plan_columns(snapshot, target, ["id"], fragments, parse("id % 2 = 0", snapshot.manifest.schema))
        return [file for task in tasks for file in add_columns_of(task, FewRows(t))]

    add_columns(table.snapshot, Source(schema, some), NO_OPTIONS)
    for row in before:
        even = row["id"] % 2 == 0
        row["t"] = (row["id"] if version == "2.0" else {"q": row["id"]}) if even else None
        if row["s"] is not None:
            row["s"]["new"] = row["id"] * 3 if even else None
            if row["s"]["d"] is not None:
                row["s"]["d"]["new"] = row["id"] if even else None
    assert [sorted_fields(row) for row in rows(tmp_path / "t").to_pylist()] == [sorted_fields(row) for row in before]
    check_goes_on(tmp_path / "t")


@VERSIONS
def test_new_fields_without_values_are_null_also_by_path(tmp_path: Path, version: str) -> None:
    table = write(tmp_path / "t", version)
    files = [f.files for f in table.snapshot.manifest.fragments]
    added = table.add_columns({"s.new": "CAST(NULL AS INT)", "l.element.d.new": "CAST(NULL AS STRING)"})
    assert [f.files for f in added.snapshot.manifest.fragments] == files
    for row in rows(tmp_path / "t").to_pylist():
        assert row["s"] is None or row["s"]["new"] is None
        assert all(item is None or item["d"] is None or item["d"]["new"] is None for item in row["l"] or ())
    added.alter_columns({"path": "s.new", "data_type": pa.int64()}, {"path": "s.x", "data_type": pa.int64()})
    check_goes_on(tmp_path / "t")


def test_only_what_changes_is_written(tmp_path: Path) -> None:
    write(tmp_path / "t", "2.1").alter_columns({"path": "s.x", "data_type": pa.int64()})
    files = [fragment.files for fragment in Dataset.open(tmp_path / "t").snapshot.manifest.fragments]
    assert {len(of[-1].fields) for of in files} == {1}


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_rows_that_another_writer_appends_meanwhile_get_the_new_type_and_the_new_field(tmp_path: Path, version: str) -> None:
    old = write(tmp_path / "t", version)
    more = old.scan(filter="id = 3").to_table()
    lance.write_dataset(more, str(tmp_path / "t"), mode="append")
    old.alter_columns({"path": "s.x", "data_type": pa.int64()})
    lance.write_dataset(Dataset.open(tmp_path / "t").scan(filter="id = 3", limit=1).to_table(), str(tmp_path / "t"), mode="append")
    old.add_columns({"s.new": "id"})
    found = Dataset.open(tmp_path / "t").scan(filter="id = 3").to_table()
    assert [(row["s"]["x"], row["s"]["new"]) for row in found.to_pylist()] == [(3, 3)] * 3
    rows(tmp_path / "t")


def test_a_field_that_was_dropped_does_not_come_back_with_its_values(tmp_path: Path) -> None:
    table = write(tmp_path / "t", "2.1").drop_columns(["s.x"])
    table = table.add_columns(pa.field("s", pa.struct([pa.field("x", pa.int32())])))
    assert {row["s"]["x"] for row in rows(tmp_path / "t").to_pylist() if row["s"]} == {None}


def test_an_index_of_another_field_stays_and_that_of_the_field_is_named(tmp_path: Path) -> None:
    table = write(tmp_path / "t", "2.1").create_scalar_index("s.x", "BTREE").create_scalar_index("id", "BTREE")
    with pytest.raises(SchemaMismatchError, match=r"has the index .*drop the index"):
        table.alter_columns({"path": "s.x", "data_type": pa.int64()})
    changed = table.alter_columns({"path": "s.y", "data_type": pa.large_string()})
    assert {i["name"]: len(i["fragment_ids"]) for i in changed.list_indices()} == {"s.x_idx": 3, "id_idx": 3}
    assert changed.count_rows("s.x = 3") == lance.dataset(str(tmp_path / "t")).count_rows("s.x = 3") == 1


REFUSED: dict[str, tuple[Change, type[Exception], str]] = {
    "values in a list": (lambda d: d.add_columns({"l.element.new": "5"}), UnsupportedFeatureError, "list 'l' cannot get values"),
    "a field that exists": (lambda d: d.add_columns({"s.X": "5"}), SchemaMismatchError, "already has the columns 'X'"),
    "a given field that exists": (
        lambda d: d.add_columns(pa.field("s", pa.struct([pa.field("x", pa.int32())]))), SchemaMismatchError, "duplicate column names 's.x'"
    ),
    "two of a name": (lambda d: d.add_columns({"s.new": "5", "s.NEW": "5"}), SchemaMismatchError, "already has the columns"),
    "a field of a number": (lambda d: d.add_columns({"id.x": "5"}), SchemaMismatchError, "'id' is int64"),
    "no struct": (lambda d: d.add_columns({"q.x": "5"}), SchemaMismatchError, "must not contain dots"),
    "required": (
        lambda d: d.add_columns(pa.field("s", pa.struct([pa.field("q", pa.int32(), False)]))), SchemaMismatchError, "must be nullable"
    ),
    "a value that does not fit": (lambda d: d.alter_columns({"path": "s.d.z", "data_type": pa.int8()}), SchemaMismatchError, "fit"),
    "a type of another kind": (lambda d: d.alter_columns({"path": "s.x", "data_type": pa.string()}), SchemaMismatchError, "cannot become"),
    "items not null": (lambda d: d.alter_columns({"path": "n.item", "nullable": False}), UnsupportedFeatureError, "items of lists"),
    "the name of a sibling": (lambda d: d.alter_columns({"path": "s.x", "name": "y"}), SchemaMismatchError, "duplicate"),
    "a list and its item": (
        lambda d: d.alter_columns({"path": "n", "data_type": pa.list_(pa.int64())}, {"path": "n.item", "name": "e"}), ValueError, "together"
    ),
    "the key of a map": (lambda d: d.drop_columns(["m.key"]), UnsupportedFeatureError, "of a map"),
    "the type in a map": (lambda d: d.alter_columns({"path": "m.value.q", "data_type": pa.int64()}), UnsupportedFeatureError, "map"),
}  # fmt: skip


def test_what_cannot_be_done_is_refused_by_name_and_leaves_no_file(tmp_path: Path) -> None:
    values = pa.array([[("k", {"q": 1})]] * 6, pa.map_(pa.string(), pa.struct([("q", pa.int32())])))
    table = write(tmp_path / "w", "2.2").scan().to_table()
    table = table.append_column("m", values.slice(0, table.num_rows))
    wide = table.set_column(1, "s", pa.array([{"x": 1, "y": "a", "d": {"z": 1000}}] * table.num_rows, STRUCT))
    written = Dataset.write(tmp_path / "t", wide, data_storage_version="2.2")
    before = sorted((tmp_path / "t" / "data").iterdir())
    for name, (change, error, message) in REFUSED.items():
        with pytest.raises(error, match=message):
            change(written)
        assert sorted((tmp_path / "t" / "data").iterdir()) == before, name
    assert Dataset.open(tmp_path / "t").version == 1


def test_storage_version_0_1_is_refused_by_name(tmp_path: Path) -> None:
    table = pa.table({"s": pa.array(WHOLE, STRUCT), "n": pa.array([[1]] * 6, pa.list_(pa.int32()))})
    lance.write_dataset(table, str(tmp_path), data_storage_version="0.1")
    old = Dataset.open(tmp_path)
    changes: list[Change] = [
        lambda d: d.add_columns({"s.new": "5"}),
        lambda d: d.add_columns(pa.field("s", pa.struct([pa.field("new", pa.int64())]))),
        lambda d: d.alter_columns({"path": "s.x", "data_type": pa.int64()}),
        lambda d: d.alter_columns({"path": "n.item", "name": "each"}),
    ]
    for change in changes:
        with pytest.raises(UnsupportedFeatureError, match=r"0\.1"):
            change(old)
    assert old.drop_columns(["s.x"]).alter_columns({"path": "s.y", "name": "why"}).scan(columns=["s"]).to_table().to_pylist()[0] == {
        "s": {"why": "y0", "d": {"z": 0}}
    }
    assert lance.dataset(str(tmp_path)).to_table()["s"].to_pylist()[0] == {"why": "y0", "d": {"z": 0}}


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_deleted_rows_keep_their_structs_for_later_updates_in_place(tmp_path: Path, version: str) -> None:
    """An update in place reads deleted rows, too: the files of a column agree about where structs and lists are null."""
    table = write(tmp_path / "t", version)
    table = table.alter_columns({"path": "s.x", "data_type": pa.int64()}, {"path": "l.item.x", "data_type": pa.int64()})
    fragment = replace(table.snapshot.manifest.fragments[2], deletion=None)
    reader = FragmentReader(fragment, table.snapshot.locations)
    (read,) = reader.read(range(2), Projection(table.snapshot.manifest.schema), 10)
    (deleted,) = read.slice(0, 1).to_pylist()
    before = {"x": None, "y": "y4", "d": {"z": 40}} if version == "2.0" else {"x": None, "y": "y", "d": {"z": None}}
    assert (deleted["s"], deleted["l"]) == (before, [before] if version == "2.0" else [None])
