"""The primary key: which fields may be in it, and that no door changes it once it is set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset, operations
from lance_spark._proto import file_pb2 as pb
from lance_spark.errors import InvalidOperationError, SchemaMismatchError
from lance_spark.schema.field_messages import parse_fields, serialise_fields
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, from_arrow
from lance_spark.table.changes.alter import set_primary_key

pytestmark = pytest.mark.spec("table.md", "Unenforced Primary Key")

KEY, POSITION = PRIMARY_KEY.decode(), PRIMARY_KEY_POSITION.decode()
MARK = {KEY: "true"}
ERRORS = (InvalidOperationError, SchemaMismatchError)


def leaf(nullable: bool = False) -> pa.Field:
    return pa.field("x", pa.int64(), nullable, MARK)


FIELDS: dict[str, tuple[pa.Field, object, str, str | None]] = {
    "a leaf": (pa.field("a", pa.int64(), False, MARK), 1, "a", None),
    "a vector": (pa.field("a", pa.list_(pa.float32(), 2), False, MARK), [1.0, 2.0], "a", None),
    "in a struct": (pa.field("a", pa.struct([leaf()]), False), {"x": 1}, "a.x", None),
    "nullable": (pa.field("a", pa.int64(), True, MARK), 1, "a", "must not be nullable"),
    "nullable in a struct": (pa.field("a", pa.struct([leaf(True)]), False), {"x": 1}, "a.x", "must not be nullable"),
    "in a nullable struct": (pa.field("a", pa.struct([leaf()])), {"x": 1}, "a.x", "its parent 'a' must not be nullable"),
    "a struct": (pa.field("a", pa.struct([pa.field("x", pa.int64(), False)]), False, MARK), {"x": 1}, "a", "must be a leaf"),
    "a list": (pa.field("a", pa.list_(pa.field("item", pa.int64(), False)), False, MARK), [1], "a", "must be a leaf"),
    "in a list": (pa.field("a", pa.list_(pa.field("item", pa.int64(), False, MARK)), False), [1], "a.item", "not be within a list"),
    "in a large list": (
        pa.field("a", pa.large_list(pa.field("item", pa.int64(), False, MARK)), False),
        [1],
        "a.item",
        "not be within a list",
    ),
    "in a struct in a list": (
        pa.field("a", pa.list_(pa.field("item", pa.struct([leaf()]), False)), False),
        [{"x": 1}],
        "a.item.x",
        "not be within a list",
    ),
    "in a map": (
        pa.field("a", pa.map_(pa.string(), pa.field("value", pa.int64(), False, MARK)), False),
        [("k", 1)],
        "a.value",
        "not be within a map",
    ),
}


def without_marks(field: pa.Field) -> pa.Field:
    return next(iter(_unmarked(pa.schema([field]))))


def _unmarked(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, by the field messages."""
    messages = serialise_fields(from_arrow(schema))
    copies = [pb.Field.FromString(message.SerializeToString()) for message in messages]
    for message in copies:
        message.metadata.clear()
        message.ClearField("unenforced_primary_key")
        message.ClearField("unenforced_primary_key_position")
    return parse_fields(copies, {}).to_arrow()


def by_write(path: Path, table: pa.Table, column: str) -> None:
    Dataset.write(path, table)


def by_overwrite(path: Path, table: pa.Table, column: str) -> None:
    Dataset.write(path, pa.table({"other": [1]}))
    Dataset.write(path, table, mode="overwrite")


def by_declaration(path: Path, table: pa.Table, column: str) -> None:
    plain = pa.Table.from_arrays(table.columns, schema=pa.schema([without_marks(f) for f in table.schema]))
    set_primary_key(Dataset.write(path, plain).snapshot, [column])


def by_commit(path: Path, table: pa.Table, column: str) -> None:
    Dataset.commit(str(path), operations.Overwrite((), from_arrow(table.schema)))


DOORS = {"write": by_write, "overwrite": by_overwrite, "declaration": by_declaration, "commit": by_commit}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", FIELDS)
def test_a_key_has_leaves_that_are_never_null_and_in_no_list(case: str, door: str, tmp_path: Path) -> None:
    field, value, column, rule = FIELDS[case]
    table = pa.Table.from_arrays([pa.array([value], field.type)], schema=pa.schema([field]))
    if rule is not None:
        with pytest.raises(ERRORS, match=rf"column '{column}'.*{rule}".replace(".value", r".(entries\.)?value")):
            DOORS[door](tmp_path / "t", table, column)
        with pytest.raises(OSError, match="Primary key"):
            lance.write_dataset(table, tmp_path / "theirs", data_storage_version="2.2")
        return
    DOORS[door](tmp_path / "t", table, column)
    opened = lance.dataset(tmp_path / "t")
    opened.validate()
    assert [f.metadata[PRIMARY_KEY] for f in _leaves(opened.schema) if f.metadata] == [b"true"]
    lance.write_dataset(table, tmp_path / "t", mode="append")
    assert Dataset.open(tmp_path / "t").count_rows() == (1 if door == "commit" else 2)


def _leaves(schema: pa.Schema) -> list[pa.Field]:
    return [leaf for f in schema for leaf in (f.type if pa.types.is_struct(f.type) else [f])]


def two(**marks: dict[str, str] | None) -> pa.Table:
    schema = pa.schema([pa.field(name, pa.int64(), False, mark) for name, mark in marks.items()])
    return pa.Table.from_arrays([pa.array([1])] * len(marks), schema=schema)


KEYED = two(id={POSITION: "1"}, b={POSITION: "2"}, c=None)


def renamed_and_retyped(table: Dataset) -> Dataset:
    return table.alter_columns({"path": "id", "name": "i"}).alter_columns({"path": "i", "data_type": pa.int32()})


def metadata(table: Dataset, column: int, update: operations.UpdateMap) -> Dataset:
    return Dataset.commit(table.uri, operations.UpdateConfig(field_metadata_updates={column: update}), table.version)


def overwritten(data: pa.Table) -> Callable[[Dataset], object]:
    return lambda table: Dataset.write(table.uri, data, mode="overwrite")


REFUSED: dict[str, tuple[Callable[[Dataset], object], str]] = {
    "drop a column of it": (lambda t: t.drop_columns(["id"]), "column 'id' is in the primary key"),
    "drop the last column of it": (lambda t: t.drop_columns(["b"]), "column 'b' is in the primary key at position 2"),
    "make a column nullable": (lambda t: t.alter_columns({"path": "id", "nullable": True}), "column 'id' is in the primary key"),
    "overwrite without the column": (overwritten(two(b={POSITION: "2"}, c=None)), "column 'id' is in the primary key"),
    "overwrite without the metadata": (overwritten(two(id=None, b=None)), "column 'id' is in the primary key"),
    "overwrite in another order": (overwritten(two(id={POSITION: "2"}, b={POSITION: "1"})), "column 'id' is in the primary key"),
    "overwrite with a longer key": (
        overwritten(two(id={POSITION: "1"}, b={POSITION: "2"}, c={POSITION: "3"})),
        "has the primary key id, b, .* leave column 'c' out of it",
    ),
    "declare another": (lambda t: set_primary_key(t.snapshot, ["c"]), "already has unenforced primary key"),
    "remove a column's metadata": (lambda t: metadata(t, 0, operations.UpdateMap({POSITION: None})), "already has unenforced primary"),
    "replace a column's metadata": (lambda t: metadata(t, 0, operations.UpdateMap({}, True)), "already has unenforced primary key"),
    "commit a Project": (
        lambda t: Dataset.commit(t.uri, operations.Project(t.snapshot.manifest.schema.select(["c"])), t.version),
        "column 'id' is in the primary key",
    ),
}


@pytest.mark.parametrize("door", REFUSED)
def test_a_key_that_is_set_cannot_be_changed(door: str, tmp_path: Path) -> None:
    change, message = REFUSED[door]
    table = Dataset.write(tmp_path / "t", KEYED)
    with pytest.raises(ERRORS, match=message):
        change(table)
    assert Dataset.open(tmp_path / "t").version == 1
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1


KEPT: dict[str, Callable[[Dataset], object]] = {
    "rename and retype": renamed_and_retyped,
    "drop another column": lambda t: t.drop_columns(["c"]),
    "overwrite with the key": overwritten(two(new=None, b={POSITION: "2"}, id={POSITION: "1"})),
    "delete all rows": lambda t: t.delete("true"),
    "add a column": lambda t: t.add_columns(pa.field("d", pa.int64())),
}


@pytest.mark.parametrize("change", KEPT)
def test_other_changes_keep_the_key(change: str, tmp_path: Path) -> None:
    KEPT[change](Dataset.write(tmp_path / "t", KEYED))
    opened = lance.dataset(tmp_path / "t")
    opened.validate()
    marked = {f.name: f.metadata[PRIMARY_KEY_POSITION] for f in opened.schema if PRIMARY_KEY_POSITION in (f.metadata or {})}
    assert marked == {"i" if change == "rename and retype" else "id": b"1", "b": b"2"}


@pytest.mark.parametrize("change", ["drop", "overwrite"])
def test_what_pylance_leaves_of_a_key_opens(change: str, tmp_path: Path) -> None:
    theirs = lance.write_dataset(KEYED, tmp_path / "t")
    if change == "drop":
        theirs.drop_columns(["id"])
    else:
        lance.write_dataset(two(id=None, b=None), tmp_path / "t", mode="overwrite")
    table = Dataset.open(tmp_path / "t")
    assert [f.name for f in primary_key(table.snapshot.manifest.schema)] == (["b"] if change == "drop" else [])
    assert table.add_columns(pa.field("d", pa.int64())).count_rows() == 1


def test_a_version_without_a_key_can_be_restored(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t", two(id=None))
    set_primary_key(table.snapshot, ["id"])
    assert not primary_key(table.restore().snapshot.manifest.schema)


@pytest.mark.parametrize(
    ("marks", "order"),
    [
        ({"a": {POSITION: "2"}, "b": {POSITION: "1"}}, "ba"),
        ({"a": {KEY: "yes"}, "b": {KEY: "TRUE"}, "c": {KEY: "1"}}, "abc"),
        ({"a": {KEY: "true"}, "b": {KEY: "true", POSITION: "7"}}, "ba"),
        ({"a": {POSITION: "0"}, "b": {POSITION: "1"}}, "ba"),
        ({"a": {KEY: "false"}, "b": {KEY: "no"}}, ""),
    ],
)
@pytest.mark.spec("schema.md", "Primary Key Metadata")
def test_fields_with_positions_come_first_then_the_others_by_id(marks: dict[str, dict[str, str]], order: str, tmp_path: Path) -> None:
    Dataset.write(tmp_path / "t", two(**marks))
    assert "".join(f.name for f in primary_key(Dataset.open(tmp_path / "t").snapshot.manifest.schema)) == order
    theirs = lance.dataset(tmp_path / "t").lance_schema.fields()
    assert "".join(f.name() for f in theirs if f.is_unenforced_primary_key()) == "".join(sorted(order))


@pytest.mark.parametrize("position", ["x", "-1", "1.5", "", str(2**32)])
def test_a_position_that_is_none_is_refused(position: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="column 'a' is in the primary key, so its position must be an integer from 1"):
        Dataset.write(tmp_path / "t", two(a={POSITION: position}))


@pytest.mark.spec("schema.md", "Field Message")
def test_a_key_that_only_the_field_message_names_is_one() -> None:
    messages = [
        pb.Field(name="a", id=0, parent_id=-1, logical_type="int64", unenforced_primary_key=True),
        pb.Field(name="b", id=1, parent_id=-1, logical_type="int64", unenforced_primary_key=True, unenforced_primary_key_position=1),
    ]
    schema = parse_fields(messages, {})
    assert [f.name for f in primary_key(schema)] == ["b", "a"]
    written = [(m.unenforced_primary_key, m.unenforced_primary_key_position) for m in serialise_fields(schema)]
    assert written == [(True, 0), (True, 1)]
