"""`verify`: check that every file of a version exists and is intact."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, add_version, open_table
from lance_spark.cli.output import print_json


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "check that every file of a version exists and is intact"
    parser = commands.add_parser("verify", help=text, description=f"{text[0].upper()}{text[1:]}. The exit code is 1 if there are problems.")
    add_table(parser)
    add_version(parser)
    parser.add_argument("--no-decode", dest="decode", action="store_false", help="check only sizes and row counts")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report. Returns 1 if there are problems."""
    report = open_table(arguments).verify(decode=arguments.decode)
    if arguments.json:
        print_json({"ok": report.ok, "report": report})
    else:
        print(report)
    return 0 if report.ok else 1
