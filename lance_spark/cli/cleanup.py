"""`cleanup`: remove old versions and the files that no version needs."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lance_spark.cli.arguments import add_json, add_table, add_yes, confirmed, open_table, positive
from lance_spark.cli.output import print_json
from lance_spark.display.words import counted, size
from lance_spark.errors import one_line

if TYPE_CHECKING:
    from lance_spark.dataset import Dataset
    from lance_spark.table.maintenance.cleanup import CleanupStats


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
    add_yes(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def _time(text: str) -> timedelta:
    from lance_spark.options.durations import duration

    try:
        return duration(text)
    except (ValueError, OverflowError) as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def run(arguments: argparse.Namespace) -> int:
    """Ask and remove, or print what would be removed."""
    table = open_table(arguments)
    stats = _cleanup(table, arguments, dry_run=True) if arguments.dry_run or not arguments.yes else None
    if not arguments.dry_run:
        if stats is not None and stats.files and not confirmed(arguments, f"Remove {_counted(stats)} of {table.uri}?"):
            return 1
        stats = _cleanup(table, arguments, dry_run=False)
    assert stats is not None
    if arguments.json:
        print_json({"dry_run": arguments.dry_run, "removed": stats})
        return 0
    print(f"{'would remove' if arguments.dry_run else 'removed'} {_counted(stats)}")
    if arguments.dry_run:
        for path in stats.files:
            print(one_line(path))
    return 0


def _cleanup(table: Dataset, arguments: argparse.Namespace, dry_run: bool) -> CleanupStats:
    return table.cleanup_old_versions(arguments.older_than, arguments.retain_versions, error_if_tagged_old_versions=False, dry_run=dry_run)


def _counted(stats: CleanupStats) -> str:
    return f"{counted(stats.old_versions, 'version')}, {counted(len(stats.files), 'file')}, {size(stats.bytes_removed)}"
