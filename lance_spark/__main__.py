"""`python -m lance_spark COMMAND`: what is done from a shell."""

from __future__ import annotations

import argparse


def jar(arguments: argparse.Namespace) -> None:
    """Write the planner as a jar."""
    from lance_spark.spark.planner import write_jar  # starts a JVM, which other commands do without

    write_jar(arguments.out)


def main() -> None:
    """Run the command of the command line."""
    parser = argparse.ArgumentParser(prog="python -m lance_spark", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("jar", help="write the planner as a jar, for Spark Connect servers and spark.sql.extensions")
    command.add_argument("out", metavar="OUT", help="the jar to write")
    command.set_defaults(run=jar)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
