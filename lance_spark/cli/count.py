"""`count`: the number of rows."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_filter, add_json, add_table, add_version, open_table
from lance_spark.cli.output import print_json


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "print the number of rows of a version"
    parser = commands.add_parser("count", help=text, description=f"{text[0].upper()}{text[1:]}. Without a filter, no data file is read.")
    add_table(parser)
    add_version(parser)
    add_filter(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the number."""
    rows = open_table(arguments).count_rows(arguments.filter)
    if arguments.json:
        print_json({"rows": rows})
    else:
        print(rows)
    return 0
