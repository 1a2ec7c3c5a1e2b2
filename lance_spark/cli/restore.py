"""`restore`: make an earlier version the latest one again."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, add_version, add_yes, confirmed, open_table
from lance_spark.cli.output import print_json
from lance_spark.errors import InvalidOptionError


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "make an earlier version the latest one again"
    parser = commands.add_parser(
        "restore", help=text, description=f"{text[0].upper()}{text[1:]}, as a new version: the versions in between stay."
    )
    add_table(parser)
    add_version(parser)
    add_yes(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, restore, and print the new version."""
    if arguments.version is None and arguments.tag is None:
        raise InvalidOptionError("say which version to restore: --version N or --tag TAG")
    earlier = open_table(arguments)
    if not confirmed(arguments, f"Restore version {earlier.version}, which has {earlier.count_rows():,} rows?"):
        return 1
    restored = earlier.restore()
    if arguments.json:
        print_json({"restored": earlier.version, "version": restored.version})
    else:
        print(f"version {restored.version} has the rows of version {earlier.version}")
    return 0
