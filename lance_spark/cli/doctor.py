"""`doctor`: what is installed, what a table's store permits, and what is wrong, for a report of a bug."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_json, add_storage_options
from lance_spark.cli.diagnosis import Request, diagnose
from lance_spark.cli.output import print_json
from lance_spark.errors import InvalidOptionError


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "check the installation, and a table, and print what a report of a bug needs"
    note = "Secrets are never printed. The exit code is 1 if something is wrong."
    parser = commands.add_parser("doctor", help=text, description=f"{text[0].upper()}{text[1:]}. {note}")
    parser.add_argument("uri", metavar="URI", nargs="?", help="a table, which need not exist or be intact")
    add_storage_options(parser)
    parser.add_argument("--try-put", action="store_true", help="try the conditional put of commits with a temporary object")
    parser.add_argument("--start-spark", action="store_true", help="start Spark, and try to install the planner")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings. Returns 1 if something is wrong."""
    if arguments.try_put and arguments.uri is None:
        raise InvalidOptionError("--try-put needs the URI of a table, or of the folder of a new one")
    options = dict(arguments.storage_option)
    found = []
    for finding in diagnose(Request(arguments.uri, options, arguments.start_spark, arguments.try_put)):
        found.append(finding)
        if not arguments.json:
            print(finding, flush=True)
    wrong = [finding for finding in found if finding.state == "wrong"]
    if arguments.json:
        print_json({"ok": not wrong, "findings": found})
    return 1 if wrong else 0
