"""`schema`: the columns of a version."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, add_version, open_table
from lance_spark.cli.output import print_json


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "print the columns of a version with their types"
    parser = commands.add_parser("schema", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_table(parser)
    add_version(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the columns, those of structs and lists indented."""
    from lance_spark.inspection.overview import overview

    shown = overview(open_table(arguments).snapshot)
    if arguments.json:
        print_json(shown.columns)
    else:
        print(shown.schema)
    return 0
