"""The charts of an inspection as inline SVG.

Positions are percentages, so that charts fill the page at any width while their text keeps its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lance_spark.display.table import escape
from lance_spark.display.words import counted, number, percent, printable, size
from lance_spark.inspection.tables import METADATA, REST
from lance_spark.inspection.treemap import Box, squarified
from lance_spark.inspection.usage import ColumnUse, FragmentGroup, Inspection

_TILES = 60
"""The largest number of columns with a tile of their own."""
_NAMED = (5.0, 9.0)
"""Minimum width and height, in percent, of a tile with a name."""
_MOST = 0.7
"""The least share of the largest tile with which the others are drawn a second time."""
_NARROW = 20.0
"""Maximum width, in percent, of a tile without a name on a phone."""
_FAMILIES = (
    ("dictionary", ("dictionary",)),
    ("FSST", ("fsst",)),
    ("LZ4, Zstandard", ("lz4", "zstd")),
    ("run lengths", ("rle",)),
    ("byte stream split", ("byte stream split",)),
    ("bit-packed", ("bitpack", "range", "delta")),
    ("constant", ("constant", "all nulls")),
    ("not compressed", ("",)),
)
"""Kinds of compression, with words in the encoding of a page that identify them; the first match counts."""
_NOT_VALUES = len(_FAMILIES)
_AREA_CLASSES = ("f0", "f1", "f2", "f3", "f5", "f8")


def _family(encoding: str) -> int:
    return next(i for i, (_, words) in enumerate(_FAMILIES) if any(word in encoding for word in words))


def areas(found: Inspection) -> str:
    """All bytes of the table by purpose of the files, as one bar."""
    parts = [(area.name, area.size, style) for area, style in zip(found.areas, _AREA_CLASSES) if area.size]
    return _bar("The bytes of the table by what they are for", parts)


def encodings(found: Inspection) -> str:
    """The bytes of the pages by compression, as one bar."""
    totals = [0] * len(_FAMILIES)
    for column in found.columns:
        for use in column.encodings:
            totals[_family(use.encoding)] += use.size
    scale = found.sample.scale
    parts = [(name, total * scale, f"f{i}") for i, ((name, _), total) in enumerate(zip(_FAMILIES, totals)) if total]
    rest = found.sample.metadata_size + found.sample.rest_size
    return _bar(
        "The bytes of the data files by compression",
        [*parts, *([("metadata, blobs, padding", rest * scale, f"f{_NOT_VALUES}")] if rest else [])],
    )


def _bar(title: str, parts: Sequence[tuple[str, float, str]]) -> str:
    total, at, drawn = sum(part for _, part, _ in parts), 0.0, []
    for name, part, style in parts:
        width = 100 * part / total
        label = f"{name}: {size(part)}, {percent(part, total)}"
        drawn.append(f'<g><title>{escape(label)}</title><rect class="{style}" x="{at:.3f}%" y="0" width="{width:.3f}%" height="100%"/></g>')
        at += width
    legend = _legend((f"{name} {size(part)} ({percent(part, total)})", style) for name, part, style in parts)
    return f"{_svg(title, 28, drawn)}{legend}" if parts else ""


def _legend(entries: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f'<li><svg width="12" height="12" aria-hidden="true"><rect class="{s}" width="12" height="12"/></svg> {escape(t)}</li>'
        for t, s in entries
    )
    return f'<ul class="legend">{items}</ul>'


def columns(found: Inspection) -> str:
    """The bytes of the data files by column, as a treemap, colored by the main compression of each column."""
    return _treemap(found, _tiles(found), "The bytes of the data files by column")


def other_columns(found: Inspection) -> str:
    """The same without the largest tile, if that is most of the area."""
    tiles = _tiles(found)
    if len(tiles) < 3 or tiles[0][1] < _MOST * sum(tile[1] for tile in tiles):
        return ""
    return _treemap(found, tiles[1:], "The bytes of the data files without the largest column")


def _tiles(found: Inspection) -> list[tuple[str, int, str]]:
    """The name, the bytes and the class of each tile, the largest first."""
    sample = found.sample
    tiles = [(_path(c), c.size, _style(c)) for c in found.columns[:_TILES]]
    others = found.columns[_TILES:]
    tiles.append((counted(len(others), "smaller column"), sum(c.size for c in others), "f8"))
    tiles += [(METADATA, sample.metadata_size, "f8"), (REST, sample.rest_size, "f8")]
    return sorted((tile for tile in tiles if tile[1] > 0), key=lambda tile: -tile[1])


def _treemap(found: Inspection, tiles: list[tuple[str, int, str]], title: str) -> str:
    total = sum(tile[1] for tile in tiles)
    boxes = squarified([tile[1] for tile in tiles], Box(0, 0, 240, 100))
    drawn = [_tile(name, part * found.sample.scale, percent(part, total), style, box) for (name, part, style), box in zip(tiles, boxes)]
    return _svg(title, 360, drawn) if drawn else ""


def _style(column: ColumnUse) -> str:
    if not column.in_use:
        return "f9"
    return f"f{_family(column.encodings[0].encoding)}" if column.encodings else "f8"


def _path(column: ColumnUse) -> str:
    return column.path if column.in_use else f"{column.path} (not in use)"


def _tile(name: str, part: float, share: str, style: str, box: Box) -> str:
    x, width = box.x / 2.4, box.width / 2.4
    text = ""
    if width >= _NAMED[0] and box.height >= _NAMED[1]:
        second = f'<text class="small" x="6" y="33">{escape(f"{size(part)}, {share}")}</text>' if box.height >= 2 * _NAMED[1] else ""
        narrow = ' class="narrow"' if width < _NARROW else ""
        text = f'<g{narrow}><text x="6" y="17">{escape(printable(name))}</text>{second}</g>'
    label = escape(printable(name) + f": {size(part)}, {share}")
    return (
        f'<svg x="{x:.3f}%" y="{box.y:.3f}%" width="{width:.3f}%" height="{box.height:.3f}%"><title>{label}</title>'
        f'<rect class="{style} edge" width="100%" height="100%"/>{text}</svg>'
    )


def fragments(found: Inspection) -> str:
    """The fragments in order: bars with the height of their bytes, and below the fraction of deleted rows."""
    groups = found.groups
    largest = max((_mean(group) for group in groups), default=0)
    if not largest:
        return ""
    step, drawn = 100 / len(groups), []
    for i, group in enumerate(groups):
        height = 76 * _mean(group) / largest
        deleted = 20 * group.deleted / (group.rows + group.deleted) if group.deleted else 0
        place = f'x="{i * step + step * 0.05:.3f}%" width="{step * 0.9:.3f}%"'
        drawn.append(
            f'<g><title>{escape(_fragment_label(group))}</title><rect class="f1" {place} y="{76 - height:.3f}%" height="{height:.3f}%"/>'
            f'<rect class="track" {place} y="80%" height="20%"/><rect class="bad" {place} y="80%" height="{deleted:.3f}%"/></g>'
        )
    label = f'<text class="small" x="4" y="14">{escape(f"largest: {size(largest)}")}</text>'
    return _svg("Bytes of the fragments in order, and below the share of deleted rows", 150, [*drawn, label])


def _mean(group: FragmentGroup) -> float:
    return group.size / group.fragments


def _fragment_label(group: FragmentGroup) -> str:
    rows = f"{counted(group.rows, 'row')}, {number(group.deleted)} deleted"
    if group.fragments == 1:
        return f"fragment {group.first}: {size(group.size)}, {rows}"
    return f"{number(group.fragments)} fragments, {group.first} to {group.last}: {size(_mean(group))} on average, {rows}"


def _svg(title: str, height: int, drawn: Iterable[str]) -> str:
    return f'<svg class="picture" role="img" aria-label="{escape(title)}" width="100%" height="{height}">{"".join(drawn)}</svg>'
