"""Geometries: conditions on them mean what they mean in pylance, and RTREE indexes, of both, find the rows that a scan finds."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.predicate import geometry

ROWS = 120
XY = pa.struct([pa.field("x", pa.float64(), nullable=False), pa.field("y", pa.float64(), nullable=False)])
PAIR = pa.list_(pa.field("xy", pa.float64(), nullable=False), 2)
LINE = pa.list_(pa.field("vertices", XY, nullable=False))
RINGS = pa.list_(pa.field("rings", LINE, nullable=False))
POLYGON = "POLYGON((10 0, 20 0, 20 2, 10 2, 10 0))"
FUNCTIONS = tuple(name for name in geometry.GEOMETRY_FUNCTIONS if name != "st_distance")


def xy(x: float, y: float) -> dict[str, float]:
    return {"x": float(x), "y": float(y)}


def square(x: float, y: float, side: float) -> list[dict[str, float]]:
    return [xy(x, y), xy(x + side, y), xy(x + side, y + side), xy(x, y + side), xy(x, y)]


Make = Callable[[int], Any]
LAYOUTS: dict[str, tuple[pa.DataType, Make]] = {
    "point": (XY, lambda i: xy(i / 2, i % 5)),
    "linestring": (LINE, lambda i: [xy(i / 2, i % 5), xy(i / 2 + 3, i % 7)]),
    "polygon": (RINGS, lambda i: [square(i / 2, i % 5, 3), square(i / 2 + 1, i % 5 + 1, 1)]),
    "multipoint": (LINE, lambda i: [xy(i / 2, i % 5), xy(i / 3, 40)]),
    "multilinestring": (RINGS, lambda i: [[xy(i / 2, i % 5), xy(i / 2 + 3, 1)], [xy(0, 40), xy(1, 41)]]),
    "multipolygon": (pa.list_(pa.field("polygons", RINGS, nullable=False)), lambda i: [[square(i / 2, i % 5, 3)], [square(i, 50, 1)]]),
    "wkb": (pa.binary(), lambda i: struct.pack("<BIdd", 1, 1, i / 2, i % 5)),
}


def rows(layout: str, first: int = 0, count: int = ROWS) -> pa.Table:
    t, make = LAYOUTS[layout]
    field = pa.field("g", t, metadata={"ARROW:extension:name": f"geoarrow.{layout}"})
    values = [None if i % 11 == 4 else make(i) for i in range(first, first + count)]
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table({"id": range(first, first + count), "g": pa.array(values, t)}, schema=schema)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Tables of a layout whose index ours or pylance has made; each is made once."""
    folder, known = tmp_path_factory.mktemp("geometries"), dict[tuple[str, str], Path]()

    def table(layout: str, maker: str) -> Path:
        path = folder / f"{layout}_{maker}"
        if (layout, maker) not in known:
            lance.write_dataset(rows(layout), path, max_rows_per_file=50).delete("id % 13 = 5")
            if maker == "ours":
                Dataset.open(path).create_scalar_index("g", "RTREE")
            else:
                lance.dataset(path).create_scalar_index("g", "RTREE")
        return known.setdefault((layout, maker), path)

    return table


def found(path: Path, condition: str, use: bool = True) -> list[int]:
    return sorted(Dataset.open(path).scan(columns=["id"], filter=condition, use_scalar_index=use).to_table()["id"].to_pylist())


def found_by_pylance(path: Path, condition: str) -> list[int]:
    return sorted(lance.dataset(path).to_table(columns=["id"], filter=condition)["id"].to_pylist())


@pytest.mark.matrix
@pytest.mark.parametrize("maker", ["ours", "pylance"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("layout", [k if k in ("point", "polygon") else pytest.param(k, marks=pytest.mark.slow) for k in LAYOUTS])
def test_conditions_find_the_rows_of_pylance(tables: Callable[[str, str], Path], layout: str, name: str, maker: str) -> None:
    path = tables(layout, maker)
    expected = found_by_pylance(path, f"{name}(g, ST_GeomFromText('{POLYGON}'))")
    # pylance takes a constant that comes first for the second argument.
    converse = geometry.GEOMETRY_FUNCTIONS[name].converse
    for condition in (f"{name}(g, ST_GeomFromText('{POLYGON}'))", f"{converse}(ST_GeomFromText('{POLYGON}'), g)"):
        assert found(path, condition) == found(path, condition, use=False) == expected, condition
    if geometry.GEOMETRY_FUNCTIONS[name].touching:
        assert "indexes: g_idx (RTREE)" in Dataset.open(path).scan(filter=condition).explain()
        assert "ScalarIndexQuery" in lance.dataset(path).scanner(filter=f"st_intersects(g, ST_GeomFromText('{POLYGON}'))").explain_plan()


@pytest.mark.parametrize("maker", ["ours", "pylance"])
@pytest.mark.parametrize(
    "condition",
    [
        f"st_distance(g, ST_GeomFromText('{POLYGON}')) < 3",
        f"st_distance(g, ST_GeomFromText('{POLYGON}')) <= 0.5 AND id > 20",
        f"st_distance(ST_GeomFromText('{POLYGON}'), g) > 8.25",
        f"NOT st_intersects(g, ST_GeomFromText('{POLYGON}'))",
        f"st_intersects(g, ST_GeomFromText('{POLYGON}')) OR st_within(g, ST_GeomFromText('POLYGON((0 0, 3 0, 3 9, 0 9, 0 0))'))",
        "st_intersects(g, st_point(1.5, 3))",
        "st_intersects(g, 'POINT(1.5 3)')",
        "st_intersects(g, ST_GeomFromText('POINT EMPTY'))",
        "g IS NULL",
        "g IS NOT NULL",
    ],
)
def test_distances_nulls_and_combined_conditions(tables: Callable[[str, str], Path], condition: str, maker: str) -> None:
    path = tables("point", maker)
    expected = found(path, condition, use=False) if "EMPTY" in condition else found_by_pylance(path, condition)
    assert found(path, condition) == found(path, condition, use=False) == expected


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_the_index_follows_its_rows(tmp_path: Path, stable: bool) -> None:
    path, condition = tmp_path / "t", f"st_intersects(g, ST_GeomFromText('{POLYGON}'))"
    lance.write_dataset(rows("polygon"), path, max_rows_per_file=50, enable_stable_row_ids=stable)
    Dataset.open(path).create_scalar_index("g", "RTREE", page_size=4)

    def check(unindexed: int) -> None:
        assert found(path, condition) == found(path, condition, use=False) == found_by_pylance(path, condition)
        assert found(path, "g IS NULL") == found(path, "g IS NULL", use=False)
        assert Dataset.open(path).index_statistics("g_idx")["num_unindexed_rows"] == unindexed
        assert Dataset.open(path).verify().ok

    check(0)
    Dataset.open(path).delete("id % 3 = 1")
    Dataset.open(path).optimize.compact_files()
    check(0)
    Dataset.write(path, rows("polygon", 200, 30), mode="append")
    check(30)
    Dataset.open(path).optimize.optimize_indices()
    check(0)
    lance.write_dataset(rows("polygon", 300, 30), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    check(0)


def test_coordinates_in_pairs_are_read(tmp_path: Path) -> None:
    field = pa.field("g", PAIR, metadata={"ARROW:extension:name": "geoarrow.point"})
    values = pa.array([[float(i), 1.0] for i in range(40)], PAIR)
    lance.write_dataset(pa.table({"id": range(40), "g": values}, schema=pa.schema([pa.field("id", pa.int64()), field])), tmp_path)
    condition = f"st_intersects(g, ST_GeomFromText('{POLYGON}'))"
    expected = list(range(10, 21))
    # pylance loses the name of the items of a fixed-size list, and then does not find geometries in them.
    assert found(tmp_path, condition, use=False) == expected
    Dataset.open(tmp_path).create_scalar_index("g", "RTREE")
    assert found(tmp_path, condition) == expected


def test_an_index_of_no_rows(tmp_path: Path) -> None:
    Dataset.write(tmp_path, rows("point", count=0)).create_scalar_index("g", "RTREE")
    assert found(tmp_path, "st_intersects(g, st_point(1, 1))") == []
    Dataset.write(tmp_path, rows("point"), mode="append").optimize.optimize_indices()
    assert found(tmp_path, "st_intersects(g, st_point(1, 2))") == [2]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("st_intersects(g, g)", "compares a column with a constant"),
        ("st_intersects(id, 'POINT(1 2)')", "needs a column of geometries"),
        ("st_intersects(g, 'POINT(1')", "is no geometry in well-known text"),
        ("st_intersects(g)", "needs a column and a constant geometry"),
        ("st_intersects(g, st_geomfromtext(id))", "takes only literals"),
        ("st_buffer(g, 3)", "st_buffer"),
    ],
)
def test_wrong_calls_are_errors(tables: Callable[[str, str], Path], condition: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message.replace("(", r"\(")):
        Dataset.open(tables("point", "ours")).scan(filter=condition).to_table()


def test_other_extensions_are_refused_by_name(tmp_path: Path) -> None:
    field = pa.field("g", pa.large_binary(), metadata={"ARROW:extension:name": "geoarrow.geometrycollection"})
    table = Dataset.write(
        tmp_path, pa.table({"g": pa.array([b"x"], pa.large_binary()), "n": [1]}, schema=pa.schema([field, pa.field("n", pa.int64())]))
    )
    with pytest.raises(UnsupportedFeatureError, match=r"geoarrow\.geometrycollection is not supported"):
        table.scan(filter="st_intersects(g, 'POINT(1 2)')").to_table()
    with pytest.raises(UnsupportedFeatureError, match=r"RTREE of a column of geoarrow\.geometrycollection is not supported"):
        table.create_scalar_index("g", "RTREE")
    with pytest.raises(InvalidOptionError, match="cannot be built for column 'n'"):
        table.create_scalar_index("n", "RTREE")
    with pytest.raises(InvalidOptionError, match="page_size must be an integer of at least 2"):
        Dataset.write(tmp_path / "p", rows("point")).create_scalar_index("g", "RTREE", page_size=1)


def test_without_the_library_the_error_names_it(monkeypatch: pytest.MonkeyPatch, tables: Callable[[str, str], Path]) -> None:
    path = tables("point", "ours")
    monkeypatch.setitem(__import__("sys").modules, "shapely", None)
    geometry.geometry.cache_clear()
    with pytest.raises(UnsupportedFeatureError, match=r"pip install 'lance-spark\[geo\]'"):
        Dataset.open(path).scan(filter="st_intersects(g, 'POINT(1 2)')").to_table()


def test_boxes_far_apart_are_in_different_pages(tmp_path: Path) -> None:
    """A search of a large tree reads few of its pages."""
    rng = np.random.default_rng(5)
    points = pa.StructArray.from_arrays([pa.array(rng.uniform(size=3000)), pa.array(rng.uniform(size=3000))], fields=list(XY))
    field = pa.field("g", XY, metadata={"ARROW:extension:name": "geoarrow.point"})
    Dataset.write(tmp_path, pa.table({"id": range(3000), "g": points}, schema=pa.schema([pa.field("id", pa.int64()), field])))
    Dataset.open(tmp_path).create_scalar_index("g", "RTREE", page_size=32)
    condition = "st_within(g, ST_GeomFromText('POLYGON((0.5 0.5, 0.6 0.5, 0.6 0.6, 0.5 0.6, 0.5 0.5))'))"
    assert found(tmp_path, condition) == found(tmp_path, condition, use=False) == found_by_pylance(tmp_path, condition) != []
