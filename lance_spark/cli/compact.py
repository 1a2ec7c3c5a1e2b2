"""`compact`: join small fragments, and rewrite those with many deleted rows."""

from __future__ import annotations

import argparse
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, open_table, positive
from lance_spark.cli.output import print_json
from lance_spark.display.words import counted


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "join small fragments, and rewrite those with many deleted rows"
    parser = commands.add_parser(
        "compact",
        help=text,
        description=f"{text[0].upper()}{text[1:]}, as a new version. `cleanup` removes the old files later. This runs in one process; "
        "LanceTable.optimize does the same with all executors of Spark.",
    )
    add_table(parser)
    parser.add_argument("--target-rows", metavar="N", type=positive, help="the rows of a fragment (default: 1048576)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compact, and print what has changed."""
    before = open_table(arguments)
    given = {} if arguments.target_rows is None else {"target_rows_per_fragment": arguments.target_rows}
    after = before.optimize.compact_files(**given)
    counts = [len(dataset.snapshot.manifest.fragments) for dataset in (before, after)]
    if arguments.json:
        print_json({"version": after.version, "fragments_before": counts[0], "fragments": counts[1]})
    elif after.version == before.version:
        print(f"nothing to compact in {counted(counts[0], 'fragment')} of version {before.version}")
    else:
        print(f"version {after.version}: {counted(counts[0], 'fragment')} became {counts[1]}")
    return 0
