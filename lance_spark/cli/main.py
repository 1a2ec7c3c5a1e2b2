"""The program: its commands, its exit codes, and errors as one line.

Exit codes: 0 success; 1 the command found problems; 2 invalid usage, or an error; 130 interrupted; 141 the output was closed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from lance_spark.cli import count, head, info, inspect, jar, namespace, operations, schema, sql, warm
from lance_spark.errors import LanceError, one_line
from lance_spark.version import __version__

_COMMANDS = (info, schema, head, count, inspect, operations, namespace, sql, jar, warm)
_ERROR, _INTERRUPTED, _BROKEN_PIPE = 2, 130, 141
"""Exit codes: that of argparse, and 128 plus the number of the signals SIGINT and SIGPIPE, as in shells."""


def main(words: Sequence[str] | None = None, prog: str = "lance-spark") -> int:
    """Run the command of the command line, or of `words`, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Column names may contain characters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run(words, prog)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes once more as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (LanceError, OSError) as e:
        print(f"{prog}: error: {one_line(str(e))}", file=sys.stderr)
        return _ERROR


def _run(words: Sequence[str] | None, prog: str) -> int:
    parser = program(prog)
    if not (sys.argv[1:] if words is None else words):
        parser.print_help(sys.stderr)
        return _ERROR
    arguments = parser.parse_args(words)
    return int(arguments.run(arguments))


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where there is help."""
        self.exit(_ERROR, one_line(f"{self.prog}: error: {message}; see {self.prog} --help") + "\n")


def program(prog: str) -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        prog=prog,
        description="Look at Lance tables and keep them in order.",
        epilog="Exit codes: 0 all is well, 1 problems were found, 2 wrong usage or an error.",
    )
    parser.add_argument("--version", action="version", version=f"lance-spark {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    return parser
