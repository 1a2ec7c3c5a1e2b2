"""The tables of an inspection, for its text and its page."""

from __future__ import annotations

from lance_spark.display.table import Table
from lance_spark.display.words import counted, number, percent, printable, size
from lance_spark.inspection.usage import ColumnUse, Inspection

COLUMNS = 200
"""Maximum number of columns shown."""
PROBLEMS = 50
"""Maximum number of problems shown."""
METADATA = "(file metadata)"
REST = "(blob values, padding)"


def as_text(found: Inspection) -> str:
    """The whole inspection for a terminal."""
    shown = found.overview
    lines = [f"{printable(shown.uri)}, {shown.title}", shown.counts, ""]
    for table in (areas(found), columns(found), fragments(found), indexes(found), problems(found)):
        lines += [str(table), ""] if table.rows else []
    lines += ["what to do:", *(f"- {printable(each)}" for each in found.advice)] if found.advice else []
    return "\n".join(lines).rstrip()


def areas(found: Inspection) -> Table:
    """The files of the table by purpose."""
    rows = [(area.name, number(area.files), size(area.size), percent(area.size, found.size)) for area in found.areas if area.files]
    rows.append(("total", number(sum(area.files for area in found.areas)), size(found.size), ""))
    return Table(("what", "files", "size", "share"), rows, frozenset(["files", "size", "share"]))


def columns(found: Inspection) -> Table:
    """The columns and the other contents of the data files; sizes are estimates if not all files were read."""
    sample = found.sample
    rows = [_column(found, column) for column in found.columns[:COLUMNS]]
    for name, stored in ((METADATA, sample.metadata_size), (REST, sample.rest_size)):
        if stored:
            rows.append((name, "", "", size(stored * sample.scale), percent(stored, sample.size_read), "", "", ""))
    headers = ("column", "type", "pages", "size", "share", "bytes/row", "ratio", "encodings")
    return Table(headers, rows, frozenset(headers[2:7]), _columns_note(found))


def _columns_note(found: Inspection) -> str:
    """The numbers of omitted columns and of files that the estimates are based on."""
    sample = found.sample
    notes = [f"... and {number(len(found.columns) - COLUMNS)} smaller columns"] if len(found.columns) > COLUMNS else []
    if sample.files_read < sample.files:
        notes.append(f"estimated from {number(sample.files_read)} of {counted(sample.files, 'data file')}")
    return "; ".join(notes)


def _column(found: Inspection, column: ColumnUse) -> tuple[str, ...]:
    sample = found.sample
    ratio = f"{column.plain_size / column.size:.2f}" if column.plain_size and column.size else ""
    per_row = f"{column.size / column.rows:,.2f}" if column.rows else ""
    return (
        column.path if column.in_use else f"{column.path} (not in use)",
        column.type,
        number(round(column.pages * sample.scale)),
        size(column.size * sample.scale),
        percent(column.size, sample.size_read),
        per_row,
        ratio,
        _encodings(column),
    )


def _encodings(column: ColumnUse) -> str:
    """The encodings with the most bytes."""
    uses = column.encodings
    if len(uses) == 1:
        return uses[0].encoding
    shown = [f"{use.encoding} {percent(use.size, column.size)}".rstrip() for use in uses[:3]]
    return "; ".join([*shown, f"{len(uses) - 3} more"] if len(uses) > 3 else shown)


def fragments(found: Inspection) -> Table:
    """The largest fragments."""
    rows = [
        (str(f.id), number(f.files), size(f.size), number(f.rows), number(f.deleted), f.deletion_file or "")
        for f in found.largest_fragments
    ]
    headers = ("fragment", "files", "size", "rows", "deleted", "deletion file")
    more = found.overview.fragments - len(rows)
    return Table(headers, rows, frozenset(headers[:5]), f"... and {number(more)} smaller fragments" if more > 0 else "")


def indexes(found: Inspection) -> Table:
    """The indexes."""
    total = found.overview.fragments
    rows = [
        (
            i.name,
            i.kind,
            ", ".join(i.columns),
            number(i.segments),
            number(i.files),
            size(i.size),
            "unknown" if i.fragments is None else f"{number(i.fragments)} of {number(total)}",
        )
        for i in found.indexes
    ]
    headers = ("index", "kind", "columns", "segments", "files", "size", "fragments")
    return Table(headers, rows, frozenset(headers[3:]))


def config(found: Inspection) -> Table:
    """The configuration of the table."""
    return Table(("key", "value"), sorted(found.config.items()))


def problems(found: Inspection) -> Table:
    """The files that could not be read."""
    rows = [(p.path, p.message) for p in found.problems[:PROBLEMS]]
    more = len(found.problems) - len(rows)
    return Table(("problem", "message"), rows, note=f"... and {number(more)} more" if more else "")
