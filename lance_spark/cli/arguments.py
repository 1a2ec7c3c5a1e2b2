"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from lance_spark.errors import InvalidOptionError

if TYPE_CHECKING:
    from lance_spark.dataset import Dataset


def add_json(parser: argparse._ActionsContainer) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_table(parser: argparse.ArgumentParser) -> None:
    """The URI of a table and its storage options."""
    parser.add_argument("uri", metavar="URI", help="the table: a local path, or a URI such as s3://bucket/table.lance")
    parser.add_argument("--branch", help="the branch (default: main)")
    add_storage_options(parser)


def add_storage_options(parser: argparse.ArgumentParser) -> None:
    """`--storage-option`."""
    parser.add_argument(
        "--storage-option",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="a storage option, such as region=eu-west-1; can be repeated",
    )


def add_version(parser: argparse.ArgumentParser) -> None:
    """The version of the table."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", metavar="N", type=int, help="the version (default: the latest)")
    which.add_argument("--tag", help="the version with this tag")


def add_filter(parser: argparse.ArgumentParser) -> None:
    """`--filter`."""
    parser.add_argument("--filter", metavar="CONDITION", help="only rows that satisfy a condition of Spark's SQL, such as 'id > 3'")


def key_and_value(text: str) -> tuple[str, str]:
    """The type of KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        # The text may be a secret, so it is not repeated.
        raise argparse.ArgumentTypeError("expected KEY=VALUE")
    return key, value


def positive(text: str) -> int:
    """The type of a number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return value


def add_yes(parser: argparse.ArgumentParser) -> None:
    """`--yes`."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before anything is removed")


def confirmed(arguments: argparse.Namespace, question: str) -> bool:
    """Whether the user agrees, on the terminal or by --yes. Raises InvalidOptionError if there is nobody to ask."""
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidOptionError(f"{question} Nobody can be asked without a terminal; add --yes to agree")
    # Standard output may be for a program.
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def open_table(arguments: argparse.Namespace) -> Dataset:
    """Open the version that the arguments select."""
    from lance_spark.dataset import Dataset  # loads the decoders, which help and usage errors do not need

    version, tag = getattr(arguments, "version", None), getattr(arguments, "tag", None)
    branch = None if tag is not None else arguments.branch  # a tag is of one branch
    return Dataset.open(arguments.uri, version=version, tag=tag, branch=branch, storage_options=dict(arguments.storage_option))
