"""`tags`: list, create, move and delete the tags of a table."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, add_yes, confirmed, open_table
from lance_spark.cli.output import print_json
from lance_spark.display.table import Table
from lance_spark.display.words import printable


def add_to(commands: Any) -> None:
    """Add the command and its own commands to the parser's."""
    text = "list, create, move and delete the tags of a table"
    parser = commands.add_parser("tags", help=text, description=f"{text[0].upper()}{text[1:]}.")
    own = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, about, run in (
        ("list", "print the tags with their versions", _list),
        ("create", "create a tag for a version", _put),
        ("update", "move a tag to another version", _put),
        ("delete", "delete a tag; its version stays", _delete),
    ):
        command = own.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        add_table(command)
        if name != "list":
            command.add_argument("name", metavar="TAG", help="the tag")
        if run is _put:
            command.add_argument("--version", metavar="N", type=int, help="the version (default: the latest)")
        if run is _delete:
            add_yes(command)
        add_json(command)
        command.set_defaults(run=run, verb=name)


def _list(arguments: argparse.Namespace) -> int:
    tags = open_table(arguments).tags.list()
    if arguments.json:
        print_json(tags)
        return 0
    rows = [(tag.name, str(tag.version), tag.branch or "main") for tag in tags.values()]
    print(Table(("tag", "version", "branch"), rows, right=frozenset(["version"])))
    return 0


def _put(arguments: argparse.Namespace) -> int:
    dataset = open_table(arguments)
    (dataset.tags.create if arguments.verb == "create" else dataset.tags.update)(arguments.name)
    if arguments.json:
        print_json({"tag": arguments.name, "version": dataset.version})
    else:
        print(printable(f"tag {arguments.name}: version {dataset.version}"))
    return 0


def _delete(arguments: argparse.Namespace) -> int:
    tags = open_table(arguments).tags
    version = tags.get_version(arguments.name)
    if not confirmed(arguments, printable(f"Delete the tag {arguments.name} of version {version}?")):
        return 1
    tags.delete(arguments.name)
    if arguments.json:
        print_json({"tag": arguments.name, "version": version})
    else:
        print(printable(f"deleted the tag {arguments.name} of version {version}"))
    return 0
