"""`history`: the operation of each version."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, open_table, positive
from lance_spark.cli.output import print_json


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "print the versions, newest first, with their times, operations and commit messages"
    parser = commands.add_parser("history", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_table(parser)
    parser.add_argument("--limit", metavar="N", type=positive, default=100, help="the number of versions to print (default: 100)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the newest versions."""
    entries = open_table(arguments).history(arguments.limit)
    if arguments.json:
        print_json(entries)
    else:
        print(entries.table(len(entries)))
    return 0
