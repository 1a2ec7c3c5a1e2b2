"""Conditions on columns of geometries (GeoArrow): how they lie to a constant geometry, and how far from it.

Shapely compares the geometries; it is imported by the first condition of this kind.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.predicate.tree import Call, Expression, Literal

EXTENSION = "geoarrow."


@dataclass(frozen=True)
class Function:
    """A function of two geometries: its name in Shapely, and that of the function with its arguments in the other order.

    With `touching`, it is true only if their bounding boxes intersect.
    """

    method: str
    converse: str
    touching: bool = True
    type: pa.DataType = pa.bool_()


GEOMETRY_FUNCTIONS: Mapping[str, Function] = {
    "st_intersects": Function("intersects", "st_intersects"),
    "st_contains": Function("contains", "st_within"),
    "st_within": Function("within", "st_contains"),
    "st_touches": Function("touches", "st_touches"),
    "st_crosses": Function("crosses", "st_crosses"),
    "st_overlaps": Function("overlaps", "st_overlaps"),
    "st_covers": Function("covers", "st_coveredby"),
    "st_coveredby": Function("covered_by", "st_covers"),
    "st_equals": Function("equals", "st_equals"),
    "st_disjoint": Function("disjoint", "st_disjoint", touching=False),
    "st_distance": Function("distance", "st_distance", touching=False, type=pa.float64()),
}
"""By their names in filters, which are those of pylance."""
FROM_TEXT, POINT = "st_geomfromtext", "st_point"

_TYPES = {
    "point": ("POINT", 0),
    "linestring": ("LINESTRING", 1),
    "polygon": ("POLYGON", 2),
    "multipoint": ("MULTIPOINT", 1),
    "multilinestring": ("MULTILINESTRING", 2),
    "multipolygon": ("MULTIPOLYGON", 3),
}
"""By the name of an extension: the type in Shapely, and how many lists are around the coordinates of a row."""
LAYOUTS = (*_TYPES, "box", "wkb", "wkt")
"""The extensions whose geometries are read."""


def constant(name: str, values: Sequence[Expression]) -> Expression:
    """The geometry of a constant call of `FROM_TEXT` or `POINT`, as a literal with its well-known text. Raises InvalidOptionError."""
    given = [v.value if isinstance(v, Literal) else None for v in values]
    if name == FROM_TEXT and len(given) == 1 and isinstance(given[0], str):
        return Literal(given[0], pa.string())
    numbers = [float(v) for v in given if v is not None and not isinstance(v, str | bytes)]
    if name == POINT and len(given) == len(numbers) == 2 and all(map(math.isfinite, numbers)):
        return Literal(f"POINT ({numbers[0]!r} {numbers[1]!r})", pa.string())
    expected = f"{FROM_TEXT}('POINT (1 2)')" if name == FROM_TEXT else f"{POINT}(1, 2)"
    raise InvalidOptionError(f"{name} takes only literals, as in {expected}")


def condition(name: str, column: Expression, extension: bytes | None, text: Expression, swapped: bool) -> Call:
    """A call of one of `GEOMETRY_FUNCTIONS` for a column with this extension; if `swapped`, the constant came first.

    Raises InvalidOptionError for what is no geometry, UnsupportedFeatureError for extensions that are not read, and without Shapely.
    """
    told = (extension or b"").decode(errors="replace")
    layout = told.removeprefix(EXTENSION)
    if not told.startswith(EXTENSION):
        raise InvalidOptionError(f"{name} needs a column of geometries, whose extension is one of GeoArrow, such as geoarrow.point")
    if layout not in LAYOUTS:
        raise UnsupportedFeatureError(f"{name} of a column of {told} is not supported; supported are: {', '.join(LAYOUTS)}")
    if not isinstance(text, Literal) or not isinstance(text.value, str):
        raise InvalidOptionError(f"{name} compares a column with a constant, as in {name}(column, {FROM_TEXT}('POINT (1 2)'))")
    geometry(text.value)
    function = GEOMETRY_FUNCTIONS[name]
    own = function.converse if swapped else name
    return Call(own, (column, text, Literal(layout, pa.string())), function.type)


@lru_cache(maxsize=16)
def geometry(text: str) -> Any:
    """The geometry of a well-known text. Raises InvalidOptionError."""
    library = shapely()
    try:
        found = library.from_wkt(text)
    except library.errors.ShapelyError as e:
        raise InvalidOptionError(f"{text[:100]!r} is no geometry in well-known text: {e}") from e
    library.prepare(found)
    return found


def run(name: str) -> Any:
    """What evaluates the function `name` of `GEOMETRY_FUNCTIONS`."""
    function = GEOMETRY_FUNCTIONS[name]

    def values(column: pa.Array, text: pa.Scalar, layout: pa.Scalar) -> pa.Array:
        shapes = geometries(column, layout.as_py())
        found = getattr(shapely(), function.method)(shapes, geometry(text.as_py()))
        return pa.array(found, function.type, mask=np.asarray(shapely().is_missing(shapes)))

    return values


def geometries(column: pa.Array | pa.ChunkedArray, layout: str) -> np.ndarray:
    """The geometries of a column with an extension of `LAYOUTS`; None for nulls. Raises InvalidOptionError for what is no geometry."""
    library = shapely()
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    try:
        if layout in ("wkb", "wkt"):
            parse = library.from_wkb if layout == "wkb" else library.from_wkt
            return np.asarray(parse(np.array(array.to_pylist(), object)))
        if layout == "box":
            sides = [array.field(name).to_numpy(zero_copy_only=False) for name in ("xmin", "ymin", "xmax", "ymax")]
            shapes = np.asarray(library.box(*sides), object)
        else:
            kind, depth = _TYPES[layout]
            coordinates, offsets = _ragged(array, depth)
            shapes = np.asarray(library.from_ragged_array(getattr(library.GeometryType, kind), coordinates, offsets or None), object)
    except (library.errors.ShapelyError, ValueError, KeyError) as e:
        raise InvalidOptionError(f"a value of a column of {EXTENSION}{layout} is no geometry: {e}") from e
    if array.null_count:
        shapes[np.asarray(array.is_null())] = None
    return shapes


def _ragged(array: pa.Array, depth: int) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """The coordinates of all points of an array, and the offsets of the lists around them, the innermost first."""
    offsets = list[np.ndarray]()
    for _ in range(depth):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets.insert(0, np.append(0, np.cumsum(lengths)).astype(np.int64))
        array = array.flatten()
    if pa.types.is_struct(array.type):
        both = [array.field(name).to_numpy(zero_copy_only=False) for name in ("x", "y")]
    else:  # the coordinates of each point one after the other; those after the second are not compared
        size = array.type.list_size
        numbers = array.values.slice(array.offset * size, len(array) * size).to_numpy(zero_copy_only=False).reshape(-1, size)
        both = [numbers[:, 0], numbers[:, 1]]
    return np.ascontiguousarray(np.stack(both, axis=1), np.float64), tuple(offsets)


def bounds(shapes: np.ndarray) -> np.ndarray:
    """The bounding box of each geometry: xmin, ymin, xmax and ymax; NaN for those that are empty or None."""
    return np.asarray(shapely().bounds(shapes), np.float64)


def shapely() -> Any:
    """The library. Raises UnsupportedFeatureError without it."""
    try:
        return importlib.import_module("shapely")
    except ImportError as e:
        raise UnsupportedFeatureError("geometries need a library: pip install 'lance-spark[geo]'") from e
