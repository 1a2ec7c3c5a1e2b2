"""The tables of documentation pages that are made from the package. `python -m tests.pages` writes them into the pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lance_spark.actions import connector, delta, elsewhere, iceberg
from lance_spark.actions.action import VERSION, Action, Parameter
from lance_spark.actions.all import OWN
from lance_spark.cli.operations import commands, flag, words_of
from lance_spark.predicate.functions import FUNCTIONS, SYNONYMS
from tests import settings
from tests.options import page as options

DOCS = Path(__file__).parents[1] / "docs"


def procedures() -> str:
    """The table of CALL."""
    actions = [action for family in (*OWN, connector, delta) for action in family.ACTIONS]
    return _table("procedure", "the columns of its rows", actions, lambda a: _names(a.columns))


def of_iceberg() -> str:
    """The table of the procedures of Iceberg."""
    return _table("procedure", "does", iceberg.ACTIONS, lambda a: a.see.removeprefix("Does ").rstrip("."))


def without_meaning() -> str:
    """The table of the procedures of Iceberg that are refused."""
    rows = ["| procedure | instead |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{action.name}` | {action.instead} |" for action in elsewhere.ACTIONS)])


def _table(first: str, last: str, actions: Iterable[Action], told: Callable[[Action], str]) -> str:
    rows = [f"| {first} | arguments after `table` | what it does | {last} |", "|---|---|---|---|"]
    for action in actions:
        arguments = ", ".join(map(_argument, action.at("CALL")))
        see = "" if last == "does" else f". {action.see.rstrip('.')}" if action.see else ""
        rows.append(f"| `{action.name}` | {arguments} | {action.help}{see} | {told(action)} |")
    return "\n".join(rows)


def _argument(parameter: Parameter) -> str:
    """A parameter, and in italics whether it must be given."""
    return f"`{parameter.name}`" + (" *(needed)*" if parameter.is_required else "")


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def parameters() -> str:
    """The table of what the arguments of CALL mean."""
    meanings: dict[tuple[str, str, str], list[str]] = {}
    for family in OWN:
        for action in family.ACTIONS:
            for p in action.at("CALL"):
                meanings.setdefault((p.name, p.type, _meaning(p)), []).append(action.name)
    rows = ["| argument | type | of | meaning |", "|---|---|---|---|"]
    for (name, type, meaning), of in meanings.items():
        rows.append(f"| `{name}` | {type} | {_names(of)} | {meaning} |")
    return "\n".join(rows)


def _meaning(parameter: Parameter) -> str:
    if parameter.default in (None, (), False) or parameter.is_required:
        return parameter.help
    return f"{parameter.help} (default: {str(parameter.default).lower()})"


def command_line() -> str:
    """The table of the commands of operations."""
    rows = ["| command | what it does | options |", "|---|---|---|"]
    for members in commands().values():
        for action, command in members:
            said = action.at("command")
            needed = "".join(f" {flag(p)}" for p in said if p.is_required)
            options = [
                option for p in said if not p.is_required for option in (("--version", "--tag") if p.kind == VERSION else (flag(p),))
            ]
            options += ["--version", "--tag"] if command.of_version else []
            options += ["--yes"] if command.question is not None else []
            words = " ".join(words_of(action, command))
            rows.append(f"| `{words} URI{needed}` | {action.help} | {_names(options)} |")
    return "\n".join(rows)


def functions() -> str:
    """The table of the functions of filters."""
    rows = ["| function | other names |", "|---|---|"]
    for name in sorted({*FUNCTIONS, *SYNONYMS.values()}):
        others = sorted(other for other, meant in SYNONYMS.items() if meant == name)
        rows.append(f"| `{name}` | {_names(others)} |")
    return "\n".join(rows)


PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "catalog.md": {"procedures": procedures, "parameters": parameters},
    "statements.md": {"procedures of Iceberg": of_iceberg, "other procedures of Iceberg": without_meaning},
    "command-line.md": {"operations": command_line},
    "options.md": {"options": options.table},
    "reading.md": {"functions": functions},
    "settings.md": {"properties": settings.properties},
}
"""By the page, the tables in it, each between two comments with its name."""


def written(text: str, name: str, table: str) -> str:
    """The text of a page with a table between the comments of this name."""
    begin, end = f"<!-- begin {name}: make pages -->\n", f"\n<!-- end {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    found, count = pattern.subn(lambda _: begin + table + end, text)
    assert count == 1, f"the page has {count} places for the table {name}"
    return found


def page(name: str) -> str:
    """The text that a page should have."""
    text = (DOCS / name).read_text()
    for table, make in PAGES[name].items():
        text = written(text, table, make())
    return text


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page(name))
