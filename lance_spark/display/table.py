"""Tables as plain text, and as HTML in the colours of the surrounding page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lance_spark.display.words import printable
from lance_spark.errors import one_line

_CELL = "padding: 0.15em 0.8em 0.15em 0; vertical-align: top; border: 0; "
_LEFT = _CELL + "text-align: left; overflow-wrap: break-word; min-width: 5em; max-width: 40em"
_RIGHT = _CELL + "text-align: right; white-space: nowrap"


@dataclass(frozen=True)
class Table:
    """Rows of cells under `headers`. The columns in `right` are right-aligned, like numbers; `note` is a line below the table."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = frozenset()
    note: str = ""

    def __str__(self) -> str:
        """Columns side by side, two spaces apart."""
        lines = [list(self.headers), *([printable(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        text = "\n".join("  ".join(self._aligned(line, widths)).rstrip() for line in lines)
        return f"{text}\n{self.note}" if self.note else text

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
        for header, cell, width in zip(self.headers, line, widths):
            yield cell.rjust(width) if header in self.right else cell.ljust(width)

    def _repr_html_(self) -> str:
        """As HTML with every cell escaped. It sets no colours, so that it fits light and dark notebooks."""
        head = "".join(f'<th style="{self._style(header)}; opacity: 0.7">{escape(header)}</th>' for header in self.headers)
        body = "".join(
            "<tr>" + "".join(f'<td style="{self._style(h)}">{_cell(cell)}</td>' for h, cell in zip(self.headers, row)) + "</tr>"
            for row in self.rows
        )
        note = f"<div>{escape(self.note)}</div>" if self.note else ""
        table = f'<table style="border-collapse: collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        return f'<div style="overflow-x: auto">{table}</div>{note}'

    def _style(self, header: str) -> str:
        return _RIGHT if header in self.right else _LEFT


def escape(text: str) -> str:
    """Untrusted text as HTML: markup and control characters in it become visible text."""
    return html.escape(one_line(text))


def _cell(text: str) -> str:
    """The content of a cell, cut to `printable` length. Leading spaces are kept."""
    shown = printable(text)
    words = shown.lstrip(" ")
    return "&nbsp;" * (len(shown) - len(words)) + escape(words)
