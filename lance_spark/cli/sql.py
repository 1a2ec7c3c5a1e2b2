"""`sql`: run a statement with Spark."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from lance_spark.cli.arguments import add_json, positive
from lance_spark.cli.output import print_rows
from lance_spark.errors import UnsupportedFeatureError


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "start Spark, run a statement, and print its rows"
    parser = commands.add_parser(
        "sql", help=text, description=f"{text[0].upper()}{text[1:]}. Tables are named by path, as in SELECT * FROM lance.`/data/t.lance`."
    )
    parser.add_argument("statement", metavar="STATEMENT", help="a statement of Spark's SQL")
    parser.add_argument("--root", metavar="URI", help="a directory namespace, whose tables are called lance.namespace.table")
    parser.add_argument("-n", "--rows", metavar="N", type=positive, default=100, help="the most rows to print (default: 100)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the statement in a local session, which has the catalog lance."""
    try:
        from lance_spark.spark.session import run_statement  # starts a JVM, which other commands do not need
    except ModuleNotFoundError as e:
        raise UnsupportedFeatureError(f"Spark, which runs SQL, is not installed ({e}): pip install 'lance-spark[spark]'") from None
    print("starting Spark ...", file=sys.stderr)
    print_rows(run_statement(arguments.statement, arguments.root, arguments.rows), arguments.json)
    return 0
