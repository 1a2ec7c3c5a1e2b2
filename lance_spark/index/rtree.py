"""RTREE: the bounding boxes of geometries, in a tree of pages.

`page_data.lance` has the boxes of rows first, in the order of a space-filling curve, then level by level those of pages, whose ids
are their numbers. Pages have `page_size` entries, the last one of each level may have fewer; the root is the last page.
`nulls.lance` has the RowAddrTreeMap of the rows without a geometry. Rows of empty geometries are nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Found, Rows, intersection, of_numbers, union
from lance_spark.index.files import IndexFile, IndexFiles, bitmaps, unsigned
from lance_spark.index.moves import Translation
from lance_spark.index.row_sets import parse_row_addresses, serialise_row_addresses
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.predicate.geometry import GEOMETRY_FUNCTIONS, bounds, geometries, geometry
from lance_spark.predicate.tree import And, Call, Column, Compare, Expression, IsNull, Literal, Or

PAGES, NULLS = "page_data.lance", "nulls.lance"
VERSION = 0
PAGE_SIZE = 4096
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_BITS = 16
_BOX = pa.struct([pa.field(name, pa.float64(), nullable=False) for name in _SIDES])
_PAGES_SCHEMA = pa.schema(
    [
        pa.field("bbox", _BOX, nullable=False, metadata={"ARROW:extension:name": "geoarrow.box"}),
        pa.field("id", pa.uint64(), nullable=False),
    ]
)
_NULLS_SCHEMA = pa.schema([pa.field("nulls", pa.binary(), nullable=False)])


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows whose boxes satisfy the condition, which must be checked; exact for IS NULL."""
    match condition:
        case And(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            return Found(intersection([p.rows for p in parts]), exact=False) if parts else None
        case Or(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            return Found(union(p.rows for p in parts), all(p.exact for p in parts)) if len(parts) == len(operands) else None
        case IsNull(operand) if operand == column:
            return Found(_nulls(files), exact=True)
        case Call(name, (operand, Literal(str(text)), _)) if operand == column and _touches(name):
            return _intersecting(files, text, 0.0)
        case Compare("<" | "<=", Call("st_distance", (operand, Literal(str(text)), _)), Literal(limit)) if operand == column:
            return _intersecting(files, text, float(limit)) if isinstance(limit, int | float) and np.isfinite(limit) else None
        case _:
            return None


def _touches(name: str) -> bool:
    return name in GEOMETRY_FUNCTIONS and GEOMETRY_FUNCTIONS[name].touching


def _intersecting(files: IndexFiles, text: str, margin: float) -> Found:
    """The rows whose boxes intersect that of a geometry, which is larger by the margin on all sides."""
    box = bounds(np.array([geometry(text)], object))[0]
    if np.isnan(box).any() or margin < 0:
        return Found({}, exact=False)
    # One unit in the last place more: distances are rounded.
    reach = np.nextafter(margin, np.inf) if margin else 0.0
    box = np.nextafter(box + np.array([-reach, -reach, reach, reach]), [-np.inf, -np.inf, np.inf, np.inf])
    file = files.open(PAGES)
    starts, items = _page_starts(file)
    waiting, found = [len(starts) - 2] if items else [], [np.empty(0, np.uint64)]
    while waiting:
        page = waiting.pop()
        start, stop = int(starts[page]), int(starts[page + 1])
        boxes, ids = files.cached(f"page {page}", lambda: _read(file, range(start, stop)), lambda both: both[0].nbytes + both[1].nbytes)  # noqa: B023
        near = (boxes[:, 0] <= box[2]) & (boxes[:, 1] <= box[3]) & (boxes[:, 2] >= box[0]) & (boxes[:, 3] >= box[1])
        if start < items:
            found.append(ids[near])
            continue
        if (ids >= page).any():
            raise CorruptFileError(f"{file.path}: page {page} leads to a page that is not before it")
        waiting += ids[near].astype(np.int64).tolist()
    return Found(of_numbers(np.unique(np.concatenate(found))), exact=False)


def _page_starts(file: IndexFile) -> tuple[np.ndarray, int]:
    """The first entry of each page, and after these the number of entries; and how many entries are rows."""
    if file.schema.types != _PAGES_SCHEMA.types:
        raise CorruptFileError(f"{file.path}: expected columns of {_PAGES_SCHEMA.types}, found {file.schema.types}")
    size, items = file.number("page_size"), file.number("num_items")
    starts, first, level = list[int](), 0, items
    if size < 2 or items > file.num_rows:
        raise CorruptFileError(f"{file.path}: {items} items in pages of {size}, but {file.num_rows} rows")
    while level:
        starts += range(first, first + level, size)
        first += level
        level = -(-level // size) if level > size else 0
    if first != file.num_rows:
        raise CorruptFileError(f"{file.path}: expected {first} rows for {items} items in pages of {size}, found {file.num_rows}")
    return np.array([*starts, first], np.int64), items


def _read(file: IndexFile, rows: range) -> tuple[np.ndarray, np.ndarray]:
    """The boxes (four columns) and the ids of these entries."""
    batch = file.read(["bbox", "id"], rows)
    boxes = batch.column(0)
    sides = [boxes.field(name).to_numpy(zero_copy_only=False) for name in _SIDES]
    return np.stack(sides, axis=1), unsigned(batch.column(1), file.path)


def _nulls(files: IndexFiles) -> Rows:
    file = files.open(NULLS)
    if file.schema.types != _NULLS_SCHEMA.types or file.num_rows > 1:
        raise CorruptFileError(f"{file.path}: expected one binary value, found {file.num_rows} of {file.schema.types}")
    stored = bitmaps(file.read(["nulls"]).column(0), file.path)
    return parse_row_addresses(stored[0], files.fragments, file.path) if stored else {}


def parameters(files: IndexFiles) -> dict[str, object]:
    """The parameters that a segment was built with."""
    return {"page_size": files.open(PAGES).number("page_size")}


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, whose values are geometries with the extension that `parameters` name as "layout"."""
    layout, nulls, boxes, numbers = str(parameters["layout"]), [np.empty(0, np.uint64)], [np.empty((0, 4))], [np.empty(0, np.uint64)]
    for batch in rows:
        values, own = batch.column("value"), batch.column("row").to_numpy()
        found = bounds(geometries(values, layout))
        is_null, is_there = np.asarray(values.is_null()), ~np.isnan(found).any(axis=1)
        nulls.append(own[is_null])
        boxes.append(found[is_there & ~is_null])
        numbers.append(own[is_there & ~is_null])
    size = parameters.get("page_size", PAGE_SIZE)
    return _written(target, np.concatenate(boxes), np.concatenate(numbers), of_numbers(np.concatenate(nulls)), int(str(size)))


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the rows of all sources that still exist."""
    boxes, numbers, nulls, size = [np.empty((0, 4))], [np.empty(0, np.uint64)], list[dict[int, BitMap]](), PAGE_SIZE
    for files, translation in sources:
        file = files.open(PAGES)
        _, items = _page_starts(file)
        size = file.number("page_size")
        own, ids = _read(file, range(items))
        now, exist = translation.numbers(ids)
        boxes.append(own[exist])
        numbers.append(now[exist])
        nulls.append(translation.rows(_nulls(files)))
    return _written(target, np.concatenate(boxes), np.concatenate(numbers), union(nulls), size)


def _written(target: IndexTarget, boxes: np.ndarray, numbers: np.ndarray, nulls: Rows, size: int) -> Trained:
    total = [float(v) for v in (*boxes[:, :2].min(axis=0), *boxes[:, 2:].max(axis=0))] if len(boxes) else [np.inf, np.inf, -np.inf, -np.inf]
    order = _along_curve(boxes, total)
    with target.create(PAGES, _PAGES_SCHEMA) as out:
        pages = 0
        for level, ids in _levels(boxes[order], numbers[order], size):
            out.put(
                pa.StructArray.from_arrays([pa.array(level[:, i]) for i in range(4)], fields=list(_BOX)), pa.array(ids.astype(np.uint64))
            )
            pages += -(-len(ids) // size)
        told = dict(zip(("minx", "miny", "maxx", "maxy"), (value if np.isfinite(value) else None for value in total)))
        out.metadata |= {"page_size": str(size), "num_pages": str(pages), "num_items": str(len(numbers)), "bbox": json.dumps(told)}
    with target.create(NULLS, _NULLS_SCHEMA) as out:
        out.put(pa.array([serialise_row_addresses(nulls)], pa.binary()))
    return target.trained(b"", VERSION)


def _levels(boxes: np.ndarray, ids: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The entries of each level of the tree, that of the rows first."""
    first = 0
    while len(ids):
        yield boxes, ids
        if len(ids) <= size:
            return
        starts = np.arange(0, len(ids), size)
        lower, upper = np.minimum.reduceat(boxes[:, :2], starts), np.maximum.reduceat(boxes[:, 2:], starts)
        boxes, ids = np.concatenate([lower, upper], axis=1), first + np.arange(len(starts))
        first += len(starts)


def _along_curve(boxes: np.ndarray, total: Sequence[float]) -> np.ndarray:
    """The order of boxes along a Hilbert curve through their centers."""
    if not len(boxes):
        return np.empty(0, np.int64)
    least, most = np.array(total[:2]), np.array(total[2:])
    span = np.where(most > least, most - least, 1.0)
    centers = np.clip(((boxes[:, :2] / 2 + boxes[:, 2:] / 2) - least) / span, 0, 1) * ((1 << _BITS) - 1)
    x, y = np.nan_to_num(centers).astype(np.int64).T
    place = np.zeros(len(boxes), np.int64)
    for bit in range(_BITS - 1, -1, -1):
        side = 1 << bit
        right, upper = (x & side) > 0, (y & side) > 0
        place += side * side * ((3 * right) ^ upper)
        # A quadrant is turned, so that the curve ends beside the next one.
        flipped = ~upper & right
        x, y = (
            np.where(flipped, side - 1 - (x & (side - 1)), x & (side - 1)),
            np.where(flipped, side - 1 - (y & (side - 1)), y & (side - 1)),
        )
        x, y = np.where(upper, x, y), np.where(upper, y, x)
    return np.argsort(place, kind="stable")
