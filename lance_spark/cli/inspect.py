"""`inspect`: the storage usage of a version."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, add_version, open_table, positive
from lance_spark.cli.output import print_json
from lance_spark.errors import InvalidOptionError, one_line


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "print the storage usage of a version: files, columns, pages, encodings, fragments, deletions, indexes"
    note = "The exit code is 1 if a data file cannot be read."
    parser = commands.add_parser("inspect", help=text, description=f"{text[0].upper()}{text[1:]}. {note}")
    add_table(parser)
    add_version(parser)
    parser.add_argument(
        "--max-files",
        metavar="N",
        type=positive,
        help="the maximum number of data files to read metadata of (default: 256); the rest is estimated",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--html", metavar="FILE", type=Path, help="write an HTML page with charts to FILE instead")
    add_json(form)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Inspect the version. Returns 1 if one of its files cannot be read."""
    from lance_spark.inspection.gather import MAX_FILES, inspect
    from lance_spark.inspection.page import as_html
    from lance_spark.inspection.tables import as_text
    from lance_spark.table.maintenance.progress import tracker

    found = inspect(open_table(arguments).snapshot, arguments.max_files or MAX_FILES, tracker(None))
    if arguments.json:
        print_json(found)
    elif arguments.html:
        _write(arguments.html, as_html(found))
        print(f"wrote {one_line(str(arguments.html))}")
    else:
        print(as_text(found))
    return 1 if found.problems else 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise InvalidOptionError(f"cannot write {str(path)!r} ({e.strerror}): give --html a file in a folder that exists") from None
