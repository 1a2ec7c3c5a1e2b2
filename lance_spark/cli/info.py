"""`info`: the overview of a version."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, add_version, open_table
from lance_spark.cli.output import print_json
from lance_spark.display.words import printable


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "print a version's rows, columns and indexes, and the table's tags, branches and configuration"
    parser = commands.add_parser("info", help=text, description=f"{text[0].upper()}{text[1:]}. Reads no data file but those of a log.")
    add_table(parser)
    add_version(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the version's overview, tags, branches and configuration."""
    from lance_spark.inspection.overview import overview
    from lance_spark.table.mem_wal.contents import log_parts
    from lance_spark.table.versions.write_ahead_log import unread_shards

    dataset = open_table(arguments)
    shown = overview(dataset.snapshot)
    tags, branches, config = dataset.tags.list(), dataset.branches.list(), dataset.snapshot.manifest.config
    unread = unread_shards(dataset.snapshot)
    parts = log_parts(dataset.snapshot) if unread else []
    if arguments.json:
        shards = {"unread": unread.unread, "shards": unread.shards, "parts": [asdict(part) for part in parts]}
        print_json({"overview": shown, "tags": tags, "branches": branches, "config": config, "write_ahead_log": shards})
        return 0
    print(shown)
    lines = [f"written by: {shown.writer}"] if shown.writer else []
    lines += [f"tag {tag.name}: version {tag.version}" + (f" of branch {tag.branch}" if tag.branch else "") for tag in tags.values()]
    lines += [f"branch {b.name}: from version {b.parent_version} of {b.parent_branch or 'main'}" for b in branches.values()]
    lines += [f"config {key}: {value}" for key, value in config.items()]
    lines += [f"unread: {unread}", *(f"unread: {part}" for part in parts)] if unread else []
    if lines:
        print("", *map(printable, lines), sep="\n")
    return 0
