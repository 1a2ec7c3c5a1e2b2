"""A squarified treemap: nearly square rectangles with areas in proportion to sizes.

See Bruls, Huizing, van Wijk: "Squarified Treemaps" (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle: its upper left corner, width and height."""

    x: float
    y: float
    width: float
    height: float


def squarified(sizes: Sequence[float], box: Box) -> list[Box]:
    """Divide `box` among `sizes`, which are positive and in descending order."""
    scale = box.width * box.height / sum(sizes) if sizes else 0.0
    boxes: list[Box] = []
    row: list[float] = []
    for area in (size * scale for size in sizes):
        side = min(box.width, box.height)
        if row and _worst([*row, area], side) > _worst(row, side):
            placed, box = _placed(row, box)
            boxes += placed
            row = []
        row.append(area)
    return boxes + (_placed(row, box)[0] if row else [])


def _worst(row: Sequence[float], side: float) -> float:
    """The worst aspect ratio in a row of these areas along a side of this length."""
    total = sum(row)
    return max(side**2 * row[0] / total**2, total**2 / (side**2 * row[-1])) if side else 0.0


def _placed(row: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """Place the areas along the shorter side of `box`. Also returns the rest of `box`."""
    total, done, boxes = sum(row), 0.0, []
    if box.width >= box.height:
        width = total / box.height if box.height else 0.0
        for area in row:
            height = box.height * area / total
            boxes.append(Box(box.x, box.y + done, width, height))
            done += height
        return boxes, Box(box.x + width, box.y, max(0.0, box.width - width), box.height)
    height = total / box.width
    for area in row:
        width = box.width * area / total
        boxes.append(Box(box.x + done, box.y, width, height))
        done += width
    return boxes, Box(box.x, box.y + height, box.width, max(0.0, box.height - height))
