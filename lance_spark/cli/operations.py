"""The commands of the operations in `lance_spark.actions`: each is made from the value of its operation."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lance_spark.actions.action import VERSION, Action, Command, Outcome, Parameter
from lance_spark.actions.all import ACTIONS
from lance_spark.cli.arguments import (
    add_json,
    add_table,
    add_version,
    add_yes,
    confirmed,
    open_table,
)
from lance_spark.cli.output import print_json, print_table
from lance_spark.errors import wrong_arguments_as_options

if TYPE_CHECKING:
    from lance_spark.table.versions.snapshot import Snapshot

_GIVEN = "given "
"""Before the names of arguments of operations, which may be those of others, such as `name` and `version`."""


def words_of(action: Action, command: Command) -> list[str]:
    """The words of a command."""
    return (command.words or action.name.replace("_", "-")).split()


def commands() -> dict[str, list[tuple[Action, Command]]]:
    """The operations on the command line, by the first word of their commands."""
    found: dict[str, list[tuple[Action, Command]]] = {}
    for action in ACTIONS.values():
        if action.command is not None:
            first = words_of(action, action.command)[0]
            found.setdefault(first, []).append((action, action.command))
    return found


def add_to(parsers: Any) -> None:
    """Add the commands to the parser's."""
    for first, members in commands().items():
        action, command = members[0]
        if len(words_of(action, command)) == 1:
            _add(parsers, first, action, command)
            continue
        verbs = ", ".join(words_of(*member)[1] for member in members)
        text = f"{first} of a table: {verbs}"
        group = parsers.add_parser(first, help=text, description=f"{text[0].upper()}{text[1:]}.")
        own = group.add_subparsers(required=True, metavar="COMMAND")
        for member in members:
            _add(own, words_of(*member)[1], *member)


def _add(parsers: Any, word: str, action: Action, command: Command) -> None:
    first = f"{action.help[0].upper()}{action.help[1:]}."
    parser = parsers.add_parser(word, help=action.help, description=" ".join(filter(None, (first, command.about))))
    add_table(parser)
    if command.of_version:
        add_version(parser)
    for parameter in action.at("command"):
        _add_parameter(parser, parameter)
    if command.question is not None:
        add_yes(parser)
    add_json(parser)
    parser.set_defaults(run=_run, action=action, command=command)


def flag(parameter: Parameter) -> str:
    """How a parameter is written: a flag, or, if it is needed, a word in capital letters."""
    if parameter.is_required:
        return parameter.name.upper()
    name = parameter.name.replace("_", "-")
    return f"--no-{name}" if parameter.default is True else f"--{name}"


def _add_parameter(parser: argparse.ArgumentParser, parameter: Parameter) -> None:
    dest, text = _GIVEN + parameter.name, parameter.help.replace("%", "%%")
    parse = _parser_of(parameter)
    if parameter.is_required:
        parser.add_argument(dest, metavar=flag(parameter), type=parse, help=text)
    elif parameter.kind == VERSION:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--version", dest=dest, metavar="N", type=_number, help=text)
        which.add_argument("--tag", dest=dest, metavar="TAG", help="instead, its tag")
    elif parameter.kind == "boolean" and parameter.default is None:
        both = argparse.BooleanOptionalAction
        parser.add_argument(flag(parameter), dest=dest, action=both, help=text)
    elif parameter.kind == "boolean":
        how = "store_false" if parameter.default is True else "store_true"
        told = f"do not {text}" if parameter.default is True else text
        parser.add_argument(flag(parameter), dest=dest, action=how, default=parameter.default, help=told)
    else:
        shown = _METAVARS.get(parameter.kind, "JSON")
        told = text if parameter.default in (None, ()) else f"{text} (default: {parameter.default})"
        parser.add_argument(
            flag(parameter),
            dest=dest,
            metavar=shown,
            type=parse,
            default=parameter.default,
            help=told,
        )


_METAVARS = {
    "string": "TEXT",
    "bigint": "N",
    "double": "X",
    "array<string>": "A,B",
    "array<bigint>": "N,N",
    "timestamp": "TIME",
    "interval day to second": "TIME",
}


def _parser_of(parameter: Parameter) -> Callable[[str], Any]:
    """The function that reads the text of an argument. It raises ArgumentTypeError."""
    if parameter.kind == "bigint":
        return _at_least(parameter.least)
    return _PARSERS.get(parameter.kind, _json)


def _at_least(least: int | None) -> Callable[[str], int]:
    expected = "a whole number" if least is None else f"a whole number of at least {least}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or (least is not None and value < least):
            raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}")
        return value

    return parse


def _number(text: str) -> str:
    return str(_at_least(0)(text))


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}") from None


def _texts(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _numbers(text: str) -> list[int]:
    return [_at_least(None)(number) for number in text.split(",")]


def _age(text: str) -> timedelta:
    from lance_spark.options.durations import duration

    try:
        return duration(text)
    except (ValueError, OverflowError) as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a time such as 2026-01-31T12:00:00, in UTC, found {text!r}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"expected JSON, found {text!r} ({e})") from None


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "double": _decimal,
    "array<string>": _texts,
    "array<bigint>": _numbers,
    "timestamp": _moment,
    "interval day to second": _age,
}


def given(action: Action, arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the operation, by its own names, with the defaults of the command."""
    found = {}
    for parameter in action.parameters:
        said = parameter.at("command")
        value = None if said is None else getattr(arguments, _GIVEN + said.name)
        if value is not None:
            found[parameter.name] = value
    return found


def _run(arguments: argparse.Namespace) -> int:
    """Ask, do the work, and print its rows or what the command tells of it. Returns the exit code."""
    from lance_spark.table.maintenance.progress import tracker
    from lance_spark.table.scan.runner import Here

    action: Action = arguments.action
    command: Command = arguments.command
    asked = given(action, arguments)
    with wrong_arguments_as_options():
        snapshot: Snapshot = open_table(arguments).snapshot
        if command.question is not None and not arguments.yes:
            question = command.question(snapshot, asked)
            if question is not None and not confirmed(arguments, question):
                return 1
        value = action.run(Here(), snapshot, asked, tracker(None))
    outcome = Outcome(snapshot, asked, value)
    if arguments.json:
        print_json(_records(action, value) if command.plain is None else command.plain(outcome))
    elif command.told is not None:
        print(command.told(outcome))
    else:
        print_table(action.columns, action.rows(value))
    return command.code(outcome)


def _records(action: Action, value: Any) -> Iterable[dict[str, Any]]:
    return [dict(zip(action.columns, row)) for row in action.rows(value)]
