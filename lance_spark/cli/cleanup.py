"""`cleanup`: remove old versions and the files that no version needs."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from lance_spark.cli.arguments import add_json, add_table, open_table, positive
from lance_spark.cli.output import print_json
from lance_spark.display.words import counted, one_line, size


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "remove old versions and the files that no version needs"
    parser = commands.add_parser(
        "cleanup",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. The latest version stays, and so do those that a tag, a branch or a clone needs.",
    )
    add_table(parser)
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed, without removing it")
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        type=_time,
        help="remove versions older than this, such as 1h (default: 14d, or no limit with --retain-versions)",
    )
    parser.add_argument("--retain-versions", metavar="N", type=positive, help="the number of latest versions to keep at any age")
    add_json(parser)
    parser.set_defaults(run=run)


def _time(text: str) -> timedelta:
    from lance_spark.table.maintenance.durations import duration

    try:
        return duration(text)
    except (ValueError, OverflowError) as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def run(arguments: argparse.Namespace) -> int:
    """Remove, or print what would be removed."""
    stats = open_table(arguments).cleanup_old_versions(
        arguments.older_than, arguments.retain_versions, error_if_tagged_old_versions=False, dry_run=arguments.dry_run
    )
    if arguments.json:
        print_json({"dry_run": arguments.dry_run, "removed": stats})
        return 0
    done = "would remove" if arguments.dry_run else "removed"
    print(f"{done} {counted(stats.old_versions, 'version')}, {counted(len(stats.files), 'file')}, {size(stats.bytes_removed)}")
    if arguments.dry_run:
        for path in stats.files:
            print(one_line(path))
    return 0
