"""New types of columns: the values, and what is refused, are those of pylance on a copy; only the column itself is written."""

from __future__ import annotations

import itertools
import shutil
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.table.changes.alter import AlterColumn

pytestmark = pytest.mark.spec("table.md", "Data Evolution")

SMALL: dict[str, pa.Array] = {
    "int8": pa.array([1, None, -3, 4], pa.int8()),
    "int64": pa.array([1, None, -3, 4], pa.int64()),
    "large int64": pa.array([1, None, 2**40, 4], pa.int64()),
    "uint32": pa.array([1, None, 3, 4], pa.uint32()),
    "half": pa.array([1, None, 3.5, float("nan")], pa.float16()),
    "double": pa.array([1, None, 3.5, 1e4], pa.float64()),
    "bool": pa.array([True, None, False, True]),
    "string": pa.array(["1", None, "", "é"]),
    "large string": pa.array(["1", None, "", "é"], pa.large_string()),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "binary": pa.array([b"1", None, b"", b"\xff"]),
    "large binary": pa.array([b"1", None, b"", b"\xff"], pa.large_binary()),
    "fixed binary": pa.array([b"11", None, b"22", b"33"], pa.binary(2)),
    "date32": pa.array([1, None, -3, 4], pa.date32()),
    "date64": pa.array([86400000, None, -86400000, 0], pa.date64()),
    "timestamp[s]": pa.array([86400, None, -86400, 0], pa.timestamp("s")),
    "timestamp[us, UTC]": pa.array([86400000000, None, -86400000000, 0], pa.timestamp("us", "UTC")),
    "time32": pa.array([1, None, 3, 4], pa.time32("s")),
    "time64": pa.array([1000000, None, 3000000, 0], pa.time64("us")),
    "duration": pa.array([1, None, 3, 4], pa.duration("s")),
    "duration[ns]": pa.array([10**9, None, 3 * 10**9, 0], pa.duration("ns")),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-3.00"), Decimal("4.00")], pa.decimal128(10, 2)),
    "long decimal": pa.array([Decimal("1.5"), None, Decimal("-3"), Decimal("4")], pa.decimal256(40, 4)),
    "list": pa.array([[1], None, [3, None], []], pa.list_(pa.int32())),
    "large list": pa.array([[1], None, [3, None], []], pa.large_list(pa.int64())),
    "vector": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
    "half vector": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.float16(), 2)),
    "struct": pa.array([{"a": 1}, None, {"a": 2}, {"a": 3}]),
}


def outcome(uri: Path, alteration: AlterColumn, ours: bool) -> pa.Table | None:
    """The rows after the change; None if it was refused."""
    try:
        (Dataset.open(uri) if ours else lance.dataset(str(uri))).alter_columns(alteration)
    except LanceError if ours else OSError:  # noqa: B030
        return None
    lance.dataset(str(uri)).validate()
    return lance.dataset(str(uri)).to_table()


@pytest.mark.parametrize("name", SMALL)
def test_every_pair_of_types_is_cast_as_in_pylance(tmp_path: Path, name: str) -> None:
    lance.write_dataset(pa.table({"x": SMALL[name], "y": range(4)}), str(tmp_path / "start"), max_rows_per_file=3)
    for number, t in enumerate(dict.fromkeys(array.type for array in SMALL.values())):
        if t == SMALL[name].type:
            continue
        both = []
        for ours in (True, False):
            uri = tmp_path / f"{number} {ours}"
            shutil.copytree(tmp_path / "start", uri)
            both.append(outcome(uri, {"path": "x", "data_type": t}, ours))
        assert (both[0] is None) == (both[1] is None), t
        if both[0] is not None and both[1] is not None:
            assert both[0].schema == both[1].schema
            # NaN is not equal to itself.
            assert repr(both[0].to_pylist()) == repr(both[1].to_pylist()), t


ROWS = pa.table({
    "id": pa.array(range(100), pa.int32()), "v": [None if i % 9 == 0 else i for i in range(100)], "s": [f"{i}" * 50 for i in range(100)],
})  # fmt: skip
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(uri: Path, stable: bool) -> pa.Table:
    lance.dataset(str(uri)).validate()
    assert Dataset.open(uri).verify().ok
    columns = [*lance.dataset(str(uri)).schema.names, *(LINEAGE if stable else [])]
    return Dataset.open(uri).scan(columns=columns).to_table()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_only_the_column_is_written(tmp_path: Path, stable: bool) -> None:
    for side in ("ours", "theirs"):
        lance.write_dataset(ROWS, str(tmp_path / side), max_rows_per_file=30, enable_stable_row_ids=stable)
        dataset = lance.dataset(str(tmp_path / side))
        dataset.create_scalar_index("v", "BTREE")
        dataset.delete("id IN (0, 40, 41) OR id >= 90")
        lance.dataset(str(tmp_path / side)).add_columns(pa.field("n", pa.int64()))
    before = {path.name for path in Path(tmp_path, "ours", "data").iterdir()}
    ours = Dataset.open(tmp_path / "ours").alter_columns(
        {"path": "id", "data_type": pa.int64(), "name": "key"}, {"path": "n", "data_type": pa.int16()}
    )
    changes: list[AlterColumn] = [{"path": "id", "data_type": pa.int64(), "name": "key"}, {"path": "n", "data_type": pa.int16()}]
    lance.dataset(str(tmp_path / "theirs")).alter_columns(*changes)
    assert rows(tmp_path / "ours", stable).equals(rows(tmp_path / "theirs", stable))
    assert ours.schema == lance.dataset(str(tmp_path / "theirs")).schema
    new = [path for path in Path(tmp_path, "ours", "data").iterdir() if path.name not in before]
    assert len(new) == 3  # no file for the fragment that has no rows left
    assert sum(path.stat().st_size for path in new) < 3000
    assert [index.name for index in lance.dataset(str(tmp_path / "ours")).describe_indices()] == ["v_idx"]
    more = pa.table({"key": pa.array([500]), "v": pa.array([1]), "s": ["x"], "n": pa.array([7], pa.int16())})
    lance.dataset(str(tmp_path / "ours")).insert(more)
    lance.dataset(str(tmp_path / "ours")).optimize.compact_files()
    assert sorted(rows(tmp_path / "ours", stable)["key"].to_pylist()) == [*(i for i in range(1, 90) if i not in (40, 41)), 500]


@pytest.mark.parametrize("t", [pa.int64(), pa.int8()], ids=str)
def test_type_and_nullability_in_one_version(tmp_path: Path, t: pa.DataType) -> None:
    dataset = Dataset.write(tmp_path / "t", ROWS, max_rows_per_file=30).delete("v IS NULL")
    changed = dataset.alter_columns({"path": "v", "data_type": t, "nullable": False})
    assert changed.version == dataset.version + 1
    assert changed.schema.field("v") == pa.field("v", t, False)
    assert rows(tmp_path / "t", False)["v"].to_pylist() == [i for i in range(100) if i % 9]


BLANKS = [SMALL[name].type for name in ("string", "binary", "double", "decimal", "vector", "large list", "date32")]


@pytest.mark.parametrize("t", BLANKS, ids=str)
def test_deleted_rows_of_columns_without_nulls(tmp_path: Path, t: pa.DataType) -> None:
    there = next(name for name in SMALL if (SMALL[name].type != t and (SMALL[name].type, t) in PAIRS))
    table = pa.table({"x": SMALL[there], "id": range(4)})
    changed = Dataset.write(tmp_path / "t", table).delete("x IS NULL").alter_columns({"path": "x", "nullable": False, "data_type": t})
    expected = repr(table["x"].drop_null().cast(t).to_pylist())
    assert repr(changed.scan(columns=["x"]).to_table()["x"].to_pylist()) == expected
    lance.dataset(str(tmp_path / "t")).validate()
    assert repr(lance.dataset(str(tmp_path / "t")).to_table()["x"].to_pylist()) == expected


PAIRS = {
    (SMALL[a].type, SMALL[b].type)
    for group in (
        ["string", "large string"], ["binary", "large binary"], ["half", "double"], ["decimal", "long decimal"], ["vector", "half vector"],
        ["list", "large list"], ["date64", "date32"],
    )
    for a, b in itertools.permutations(group)
}  # fmt: skip


@pytest.mark.parametrize(
    ("alteration", "message"),
    [
        ({"path": "large", "data_type": pa.int8()}, r"column 'large': a value does not fit int8"),
        ({"path": "large", "data_type": pa.float16()}, r"'large' is int64 and cannot become halffloat"),
        ({"path": "x", "data_type": pa.float16()}, r"column 'x': a value does not fit halffloat"),
        ({"path": "s", "data_type": pa.int64()}, "column 's' is string and cannot become int64"),
        ({"path": "v", "data_type": pa.int32(), "nullable": False}, "row 0 of fragment 0 is null"),
        ({"path": "id", "data_type": pa.int64()}, "column 'id' has the index id_idx; drop the index"),
        ({"path": "p.q", "data_type": pa.int8()}, "a value does not fit int8"),
    ],
)
def test_values_that_do_not_fit_leave_the_table_unchanged(tmp_path: Path, alteration: AlterColumn, message: str) -> None:
    more = {"large": pa.array([2**40] * 100), "x": pa.array([1e30] * 100), "p": pa.array([{"q": 1000}] * 100)}
    lance.write_dataset(pa.table({**dict(zip(ROWS.column_names, ROWS.columns)), **more}), str(tmp_path / "t"), max_rows_per_file=30)
    lance.dataset(str(tmp_path / "t")).create_scalar_index("id", "BTREE")
    with pytest.raises(LanceError, match=message):
        Dataset.open(tmp_path / "t").alter_columns(alteration)
    assert Dataset.open(tmp_path / "t").version == 2
    assert len(list(Path(tmp_path, "t", "data").iterdir())) == 4


def test_a_concurrent_append_is_changed_too(tmp_path: Path) -> None:
    old = Dataset.write(tmp_path / "t", ROWS)
    lance.dataset(str(tmp_path / "t")).insert(ROWS.slice(0, 10))
    changed = old.alter_columns({"path": "id", "data_type": pa.int64()})
    assert changed.count_rows() == 110
    assert rows(tmp_path / "t", False)["id"].type == pa.int64()
