"""`head`: the first rows of a version, or of those that satisfy a condition."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_filter, add_json, add_table, add_version, open_table, positive
from lance_spark.cli.output import print_rows


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "print the first rows of a version"
    parser = commands.add_parser("head", help=text, description=f"{text[0].upper()}{text[1:]}. Blobs are shown by position and size.")
    add_table(parser)
    add_version(parser)
    add_filter(parser)
    parser.add_argument("-n", "--rows", metavar="N", type=positive, default=10, help="the number of rows (default: 10)")
    parser.add_argument("--columns", metavar="A,B", help="the columns, separated by commas (default: all)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print rows: a line, or an object of JSON, for each."""
    columns = None if arguments.columns is None else [name.strip() for name in arguments.columns.split(",")]
    scan = open_table(arguments).scan(columns, arguments.filter, limit=arguments.rows, blob_handling="descriptor")
    print_rows(scan.to_table(), arguments.json)
    return 0
