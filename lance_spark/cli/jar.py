"""`jar`: the compiled planner."""

from __future__ import annotations

import argparse
import os
from typing import Any

from lance_spark.cli.arguments import add_json
from lance_spark.cli.output import print_json
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "write the planner as a jar, for Spark Connect servers and spark.sql.extensions"
    parser = commands.add_parser("jar", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("out", metavar="OUT", help="the jar to write")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the jar."""
    folder = os.path.dirname(os.path.abspath(arguments.out))
    if not os.path.isdir(folder):
        raise InvalidOptionError(f"cannot write {arguments.out!r}: there is no folder {folder!r}")
    try:
        from lance_spark.spark.jvm.install import write_jar  # starts a JVM, which other commands do not need
    except ModuleNotFoundError as e:
        raise UnsupportedFeatureError(
            f"Spark, which compiles the planner, is not installed ({e}): pip install 'lance-spark[spark]'"
        ) from None
    write_jar(arguments.out)
    if arguments.json:
        print_json({"path": os.path.abspath(arguments.out), "size": os.path.getsize(arguments.out)})
    return 0
