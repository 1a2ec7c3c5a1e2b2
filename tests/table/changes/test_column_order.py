"""Columns and fields of structs in another order: ids stay, and every verb of both implementations finds the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.table.changes.alter import move_columns
from lance_spark.table.changes.column_order import Move

pytestmark = pytest.mark.spec("schema.md", "Schema Evolution")

INNER = pa.struct([("p", pa.int64()), ("q", pa.list_(pa.int64()))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.string()),
        ("s", pa.struct([("x", pa.int64()), ("y", pa.string()), ("d", INNER)])),
        ("l", pa.list_(pa.struct([("m", pa.int64()), ("n", pa.string())]))),
        ("v", pa.list_(pa.float32(), 2)),
    ]
)
ROWS: list[dict[str, Any]] = [
    {"id": i, "a": f"a{i}", "s": {"x": i, "y": f"y{i}", "d": {"p": -i, "q": [i]}}, "l": [{"m": i, "n": "n"}], "v": [i, 2]}
    for i in range(10)
]
ORDER = ["v", "s", "s.d", "s.d.q", "l.element.n", "id"]
SHOWN = {"v": None, "s": {"d": {"q": None, "p": None}, "x": None, "y": None}, "id": None, "a": None, "l": {"n": None, "m": None}}
VERSIONS = ["legacy", "2.0", "2.1", "2.2"]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def shown(fields: list[pa.Field]) -> dict[str, Any]:
    """The names of the fields and of those in them, in their order."""
    found = {}
    for field in fields:
        t = field.type
        inner = t.value_type if pa.types.is_list(t) else t
        found[field.name] = shown(list(inner)) if pa.types.is_struct(inner) else None
    return found


def ids(schema: Any) -> dict[str, int]:
    return {f.name: f.id for f in schema.walk()}


@pytest.fixture(scope="module", params=VERSIONS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of pylance in two fragments, whose columns were put in another order."""
    path: Path = tmp_path_factory.mktemp("order") / "t"
    lance.write_dataset(table(ROWS), path, data_storage_version=request.param, max_rows_per_file=6)
    before = Dataset.open(path)
    after = before.reorder_columns(ORDER)
    assert ids(after.snapshot.manifest.schema) == ids(before.snapshot.manifest.schema)
    assert [f.files for f in after.snapshot.manifest.fragments] == [f.files for f in before.snapshot.manifest.fragments]
    return path


def check(path: Path, expected: list[dict[str, Any]]) -> None:
    """Both implementations show this order and these rows."""
    theirs = lance.dataset(path)
    theirs.validate()
    ours = Dataset.open(path)
    for schema, rows in ((theirs.schema, theirs.to_table()), (ours.schema, ours.to_table())):
        assert str(shown(list(schema))) == str(SHOWN)
        assert str(shown(list(rows.schema))) == str(SHOWN)
        assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == expected


def test_both_implementations_show_the_new_order(made: Path) -> None:
    check(made, ROWS)
    for opened in (Dataset.open(made), lance.dataset(made)):
        rows = opened.to_table(columns=["a", "s"], filter="s.d.p < -7 AND a <> 'a9'").to_pylist()
        assert rows == [{"a": "a8", "s": ROWS[8]["s"]}]
        assert opened.take([7], columns=["s"]).to_pylist() == [{"s": ROWS[7]["s"]}]
    assert Dataset.open(made).verify().ok


def changed(i: int, **values: Any) -> list[dict[str, Any]]:
    return [{**row, **(values if row["id"] == i else {})} for row in ROWS]


MORE = [{**ROWS[0], "id": 100 + i} for i in range(3)]
AFTERWARD: Mapping[str, tuple[Callable[[Path], object], list[dict[str, Any]]]] = {
    "append": (lambda path: Dataset.open(path).insert(table(MORE)), ROWS + MORE),
    "pylance appends": (lambda path: lance.write_dataset(table(MORE), path, mode="append"), ROWS + MORE),
    "update": (lambda path: Dataset.open(path).update({"a": "'new'"}, "s.x = 3"), changed(3, a="new")),
    "pylance updates": (lambda path: lance.dataset(path).update({"a": "'new'"}, "s.x = 3"), changed(3, a="new")),
    "delete": (lambda path: Dataset.open(path).delete("s.x = 3"), [row for row in ROWS if row["id"] != 3]),
    "merge": (
        lambda path: Dataset.open(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
            table([{**ROWS[4], "a": "new"}, *MORE])
        ),
        changed(4, a="new") + MORE,
    ),
    "compaction": (lambda path: Dataset.open(path).optimize.compact_files(), ROWS),
    "pylance compacts": (lambda path: lance.dataset(path).optimize.compact_files(), ROWS),
}  # fmt: skip


@pytest.mark.parametrize("verb", AFTERWARD)
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_verbs_go_on_with_the_new_order(version: str, verb: str, tmp_path: Path) -> None:
    lance.write_dataset(table(ROWS), tmp_path / "t", data_storage_version=version, max_rows_per_file=6)
    Dataset.open(tmp_path / "t").reorder_columns(ORDER)
    change, expected = AFTERWARD[verb]
    change(tmp_path / "t")
    check(tmp_path / "t", expected)


def test_indexes_and_the_change_feed_go_on(tmp_path: Path) -> None:
    written = Dataset.write(tmp_path / "t", table(ROWS), enable_stable_row_ids=True)
    indexed = written.create_scalar_index("a", "BTREE")
    updated = indexed.reorder_columns(ORDER).update({"a": "'new'"}, "id = 3")
    assert updated.to_table(filter="a = 'a5'", columns=["id"]).to_pylist() == [{"id": 5}]
    changes = updated.changes(indexed.version).to_table()
    assert changes.schema.names[:5] == list(SHOWN)
    assert changes["a"].to_pylist() == ["a3", "new"]


def test_a_column_is_moved_first_or_after_another_one(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path / "t", table(ROWS))
    moved = move_columns(made.snapshot, [Move("v"), Move("id", after="L"), Move("s.x", after="y"), Move("s.d.q")])
    expected = {"v": None, "a": None, "s": {"y": None, "x": None, "d": {"q": None, "p": None}}, "l": {"m": None, "n": None}, "id": None}
    assert str(shown(list(moved.manifest.schema.to_arrow()))) == str(expected)
    assert lance.dataset(tmp_path / "t").to_table().to_pylist() == ROWS


PACKED = pa.field("packed", pa.struct([("x", pa.int32()), ("y", pa.int32())]), metadata={"packed": "true"})
MAP = pa.field("map", pa.map_(pa.string(), pa.int32()))


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        (["nothing"], SchemaMismatchError, "no column 'nothing'"),
        (["a.x"], SchemaMismatchError, "no column 'a.x'"),
        (["a", "A"], SchemaMismatchError, "column 'A' twice"),
        (["packed.y"], UnsupportedFeatureError, "'packed.y' cannot be moved: 'packed' is a packed struct"),
        (["map.value"], UnsupportedFeatureError, "'map.value' cannot be moved"),
        (["l.element"], UnsupportedFeatureError, "'l.element' cannot be moved: 'l' is a list"),
        ([], ValueError, "at least one column"),
    ],
)
def test_an_order_that_cannot_be_is_refused(order: list[str], error: type[Exception], message: str, tmp_path: Path) -> None:
    schema = pa.schema([*SCHEMA, PACKED, MAP])
    written = Dataset.write(tmp_path / "t", pa.Table.from_pylist([], schema))
    with pytest.raises(error, match=message):
        written.reorder_columns(order)
    with pytest.raises(SchemaMismatchError, match="column 'a' cannot be moved after 'x'; expected one of: id, s, l"):
        move_columns(written.snapshot, [Move("a", after="x")])
    assert Dataset.open(tmp_path / "t").version == 1
