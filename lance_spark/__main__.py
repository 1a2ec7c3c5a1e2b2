"""`python -m lance_spark COMMAND`: what is done from a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lance_spark.errors import LanceError


def jar(arguments: argparse.Namespace) -> int:
    """Write the planner as a jar."""
    try:
        from lance_spark.spark.planner.install import write_jar  # starts a JVM, which other commands do without
    except ModuleNotFoundError as e:
        print(f"the planner is compiled by Spark, which is not there ({e}): pip install 'lance-spark[spark]'", file=sys.stderr)
        return 2
    write_jar(arguments.out)
    return 0


def verify(arguments: argparse.Namespace) -> int:
    """Print what is wrong with a version of a table; 1 if something is."""
    from lance_spark.dataset import Dataset  # loads the decoders, which other commands do without

    report = Dataset.open(arguments.uri, version=arguments.version).verify(decode=arguments.decode)
    print(report)
    return 0 if report.ok else 1


def main(words: Sequence[str] | None = None) -> int:
    """Run the command of the command line, or of `words`; gives the exit code, 2 for an error."""
    parser = argparse.ArgumentParser(prog="python -m lance_spark", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("jar", help="write the planner as a jar, for Spark Connect servers and spark.sql.extensions")
    command.add_argument("out", metavar="OUT", help="the jar to write")
    command.set_defaults(run=jar)
    command = commands.add_parser("verify", help="check that every file of a table is there and whole")
    command.add_argument("uri", metavar="URI", help="where the table is")
    command.add_argument("--version", type=int, help="the version to check; the latest by default")
    command.add_argument("--no-decode", dest="decode", action="store_false", help="check sizes and numbers of rows only")
    command.set_defaults(run=verify)
    arguments = parser.parse_args(words)
    try:
        return int(arguments.run(arguments))
    except LanceError as e:
        print(e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
