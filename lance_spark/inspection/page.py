"""An inspection as an HTML page, light and dark: one file without scripts or external resources."""

from __future__ import annotations

from lance_spark.display.table import Table, escape
from lance_spark.display.words import counted, number, size
from lance_spark.inspection import pictures, tables
from lance_spark.inspection.usage import Inspection

_NARROW = 7
"""Tables with up to this many columns are shrunk to fit a phone; wider tables scroll."""

# The content security policy blocks scripts and requests even if the escaping of a name should fail.
_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head><body><main>
"""
_STYLE = """
:root { color-scheme: light dark; --fore: #1c1e21; --back: #ffffff; --line: #d8dbe0; --track: #eceef1; --bad: #c62f2f;
  --f0: #b9d7f5; --f1: #a8dcc3; --f2: #f5d9a0; --f3: #d9c7f0; --f4: #c6e6ea; --f5: #f3c6d3; --f6: #dfe5b0; --f7: #e6c9b4; --f8: #d5d8dd;
  --f9: #f3b7b0; }
@media (prefers-color-scheme: dark) { :root { --fore: #e4e6ea; --back: #17191c; --line: #3a3e45; --track: #25282d; --bad: #ef6b6b;
  --f0: #24507a; --f1: #1f5c44; --f2: #6b5013; --f3: #4d3a70; --f4: #1d5660; --f5: #6e2f44; --f6: #525a17; --f7: #66422a; --f8: #454a52;
  --f9: #6b2b25; } }
body { margin: 0; background: var(--back); color: var(--fore); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 1.2em 1em 3em; }
h1 { font-size: 1.25em; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.05em; margin: 2em 0 0.6em; }
p { margin: 0.2em 0; overflow-wrap: anywhere; } .muted { opacity: 0.75; } .problem { color: var(--bad); }
.scroll { margin-top: 0.8em; font-size: 0.92em; }
.scroll td, .scroll th { border-bottom: 1px solid var(--line) !important; }
.wide table { min-width: 54em; } td { font-variant-numeric: tabular-nums; }
.picture { display: block; border-radius: 4px; } .picture + .picture { margin-top: 8px; }
.picture text { fill: var(--fore); font-size: 13px; } .picture text.small { font-size: 12px; opacity: 0.8; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2em 1.2em; padding: 0; margin: 0.5em 0 0; font-size: 0.9em; }
.edge { stroke: var(--back); stroke-width: 2px; } .track { fill: var(--track); } .bad { fill: var(--bad); }
@media (max-width: 600px) { .picture .narrow { display: none; } }
""" + " ".join(f".f{i} {{ fill: var(--f{i}); }}" for i in range(10))


def as_html(found: Inspection) -> str:
    """The page."""
    shown = found.overview
    parts = [
        f"<h1>{escape(shown.uri)}</h1>",
        f'<p class="muted">{escape(shown.title)}{escape(f", written by {shown.writer}") if shown.writer else ""}</p>',
        f"<p>{escape(shown.counts)}, {size(found.size)}</p>",
        _problems(found),
        _advice(found),
        _section("Files", pictures.areas(found), tables.areas(found)),
        _section("Columns in the data files", pictures.columns(found) + pictures.encodings(found), tables.columns(found), _note(found)),
        _rest(found),
        _section("Fragments", pictures.fragments(found), tables.fragments(found), _fragments_note(found)),
        _section("Indexes", "", tables.indexes(found)),
        _section("Schema", "", shown.schema),
        _section("Newest versions", "", found.history.table()),
        _section("Tags", "", found.tags.table()),
        _section("Branches", "", found.branches.table()),
        _section("Configuration", "", tables.config(found)),
    ]
    title = escape(f"{shown.uri}, version {shown.version}")
    return _HEAD.format(title=title, style=_STYLE) + "\n".join(part for part in parts if part) + "\n</main></body></html>\n"


def _section(title: str, drawn: str, table: Table, note: str = "") -> str:
    if not table.rows:
        return ""
    text = f'<p class="muted">{escape(note)}</p>' if note else ""
    scroll = "scroll wide" if len(table.headers) > _NARROW else "scroll"
    return f'<section><h2>{escape(title)}</h2>{text}{drawn}<div class="{scroll}">{table._repr_html_()}</div></section>'


def _problems(found: Inspection) -> str:
    table = tables.problems(found)
    if not table.rows:
        return ""
    head = f"{counted(len(found.problems), 'file')} could not be read"
    return f'<section><h2 class="problem">{head}</h2><div class="scroll">{table._repr_html_()}</div></section>'


def _advice(found: Inspection) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in found.advice)
    return f"<section><h2>What to do</h2><ul>{items}</ul></section>" if items else ""


def _rest(found: Inspection) -> str:
    """The treemap again without its largest tile, if that leaves too little room for the others."""
    drawn = pictures.other_columns(found)
    note = '<p class="muted">The same without the largest column:</p>'
    return f"<section>{note}{drawn}</section>" if drawn else ""


def _note(found: Inspection) -> str:
    sample = found.sample
    if sample.files_read < sample.files:
        return f"Estimated from the metadata of {number(sample.files_read)} of {counted(sample.files, 'data file')}."
    return "The area of a tile is the bytes of a column, its color the main encoding; columns that are not in use are red."


def _fragments_note(found: Inspection) -> str:
    total = found.overview.fragments
    each = (
        "A bar is a fragment"
        if len(found.groups) == total
        else f"A bar is the average of about {total // len(found.groups):,} neighboring fragments"
    )
    return f"{each}. Its height is the bytes, from 0 to those of the largest; the red part below is the share of deleted rows."
