"""The picture of the layers of the package, drawn from its imports, for the documentation. `python scripts/layers.py` prints it."""

from __future__ import annotations

import ast
import html
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "lance_spark"
LEFT_OUT = ("_proto", "__init__", "version", "py")
"""Generated code, and modules that hold no more than names."""


@dataclass(frozen=True)
class Room:
    """A folder, or a module beside the folders, with the first sentence of its docstring and the rooms inside it."""

    name: str
    about: str
    level: int
    inner: tuple[Room, ...]


def layers() -> str:
    """The rooms of the package as an SVG, each above all the rooms that it imports."""
    return _svg(_rows(_rooms(PACKAGE)))


def _rooms(folder: Path) -> tuple[Room, ...]:
    """The rooms in a folder. A room's level is one above the highest that it imports."""
    paths = [
        p
        for p in folder.iterdir()
        if p.stem not in LEFT_OUT and ((p / "__init__.py").exists() or (folder == PACKAGE and p.suffix == ".py"))
    ]
    below = {p: {q for q in paths if p != q and _imports(p) & _names(q)} for p in paths}
    levels: dict[Path, int] = {}

    def level(path: Path) -> int:
        if path not in levels:
            levels[path] = 1 + max((level(p) for p in below[path]), default=-1)
        return levels[path]

    return tuple(Room(p.stem, _about(p), level(p), _rooms(p) if p.is_dir() else ()) for p in sorted(paths))


def _modules(path: Path) -> Iterable[Path]:
    return path.rglob("*.py") if path.is_dir() else [path]


def _names(path: Path) -> set[str]:
    """The modules of a room by their full names."""
    parts = [module.relative_to(ROOT).with_suffix("").parts for module in _modules(path)]
    return {".".join(p[:-1] if p[-1] == "__init__" else p) for p in parts}


def _imports(path: Path) -> set[str]:
    """The full names of the modules that a room imports, as far as they can be told from the statements."""
    return {name for module in _modules(path) for name in _imports_of(module)}


@cache
def _imports_of(module: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def _about(path: Path) -> str:
    module = path / "__init__.py" if path.is_dir() else path
    text = (ast.get_docstring(ast.parse(module.read_text())) or "").split("\n\n")[0].replace("\n", " ").replace("`", "")
    return re.split(r"(?<=[a-z)])\. ", text)[0].rstrip(".")


def _rows(rooms: tuple[Room, ...]) -> list[list[Room]]:
    """The rooms of a level side by side, but each that has inner rooms on its own."""
    rows: dict[tuple[int, str], list[Room]] = {}
    for room in sorted(rooms, key=lambda room: -room.level):
        rows.setdefault((room.level, room.name if room.inner else ""), []).append(room)
    return list(rows.values())


WIDTH, GAP, PAD, LINE = 1000, 8, 10, 15
STYLE = """
    rect { fill: #ffffff; stroke: #5c6bc0; rx: 4px }
    .back { fill: #f5f6fb; stroke: none }
    .outer { fill: #e8eaf6 }
    text { font: 12px sans-serif; fill: #37474f }
    .name { font: bold 13px monospace; fill: #1a237e }
"""


def _svg(rows: list[list[Room]]) -> str:
    parts: list[str] = []
    y = GAP
    for row in rows:
        height = _draw_row(row, GAP, y, WIDTH - 2 * GAP, parts)
        y += height + GAP
    title = "The layers of lance_spark: a box imports only from boxes further down"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img"><title>{title}</title><style>{STYLE}</style>'
    return "\n".join([head, f'<rect class="back" width="{WIDTH}" height="{y}"/>', *parts, "</svg>\n"])


def _draw_row(row: list[Room], x: int, y: int, width: int, parts: list[str]) -> int:
    """Draw rooms side by side; gives their height."""
    each = (width - GAP * (len(row) - 1)) // len(row)
    height = max(_height(room, each) for room in row)
    for number, room in enumerate(row):
        _draw(room, x + number * (each + GAP), y, each, height, parts)
    return height


def _lines(room: Room, width: int) -> list[str]:
    return textwrap.wrap(room.about, (width - 2 * PAD) * 10 // 62)


def _height(room: Room, width: int) -> int:
    text = 2 * PAD + LINE * (1 + len(_lines(room, width)))
    return text + sum(max(_height(r, _share(row, width)) for r in row) + GAP for row in _rows(room.inner))


def _share(row: list[Room], width: int) -> int:
    return (width - 2 * PAD - GAP * (len(row) - 1)) // len(row)


def _draw(room: Room, x: int, y: int, width: int, height: int, parts: list[str]) -> None:
    shape = ' class="outer"' if room.inner else ""
    parts.append(f'<rect{shape} x="{x}" y="{y}" width="{width}" height="{height}"/>')
    y += PAD + 10
    parts.append(f'<text class="name" x="{x + PAD}" y="{y}">{room.name}</text>')
    for line in _lines(room, width):
        y += LINE
        parts.append(f'<text x="{x + PAD}" y="{y}">{html.escape(line)}</text>')
    y += PAD + 5
    for row in _rows(room.inner):
        y += _draw_row(row, x + PAD, y, width - 2 * PAD, parts) + GAP


if __name__ == "__main__":
    print(layers(), end="")
