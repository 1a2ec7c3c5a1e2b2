"""The functions of full-text search that a filter may call: conditions on the words of a column."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_spark.arrow.types import is_list, is_text
from lance_spark.errors import InvalidOptionError
from lance_spark.predicate.tree import Column, Expression, Literal, Or, TextMatch

TEXT_FUNCTIONS: Mapping[str, str] = {
    "lance_match": "lance_match(column, words [, options])",
    "lance_match_phrase": "lance_match_phrase(column, words [, slop])",
    "lance_multi_match": "lance_multi_match(words, [options,] column, ...)",
}
"""Their names and how they are called."""

_OPTIONS = ("operator", "fuzziness", "prefix_length", "max_expansions", "boost")
_MOST = (1 << 31) - 1
_MOST_FUZZY = 32
"""The largest edit distance, as in a search."""
_MOST_CHARACTERS = 1 << 20


def text_condition(name: str, arguments: Sequence[Expression]) -> Expression:
    """The condition that a call of one of `TEXT_FUNCTIONS` is. Raises InvalidOptionError."""
    call = TEXT_FUNCTIONS[name]
    columns: Sequence[Expression]
    options: Expression | None
    if name == "lance_multi_match":
        words, *rest = arguments or (Literal(None, pa.null()),)
        options, columns = (rest[0], rest[1:]) if rest and isinstance(rest[0], Literal) else (None, rest)
    else:
        if not 2 <= len(arguments) <= 3:
            raise InvalidOptionError(f"{name} has {len(arguments)} arguments; it is called as {call}")
        columns, words, options = arguments[:1], arguments[1], arguments[2] if len(arguments) > 2 else None
    if not columns:
        raise InvalidOptionError(f"{name} needs a column; it is called as {call}")
    text = _text(words, f"the words of {name}")
    if name == "lance_match_phrase":
        slop = 0 if options is None else _integer("slop", options.value if isinstance(options, Literal) else options, _MOST)
        made = [TextMatch(_column(c, name), text, slop=slop) for c in columns]
    else:
        given = {} if options is None else _options(_text(options, f"the options of {name}"))
        made = [_match(_column(c, name), text, given) for c in columns]
    return made[0] if len(made) == 1 else Or(tuple(made))


def _match(column: Column, text: str, given: Mapping[str, str]) -> TextMatch:
    operator, fuzziness = given.get("operator", "OR").upper(), given.get("fuzziness", "0")
    if operator not in ("AND", "OR"):
        raise InvalidOptionError(f"the option operator must be AND or OR, not {operator!r}")
    # A row either matches or not, however many words of other rows do. So these two have no meaning in a condition.
    _integer("max_expansions", given.get("max_expansions", "50"), _MOST)
    _number("boost", given.get("boost", "1"))
    is_auto = fuzziness.lower() == "auto"
    edits = None if is_auto else _integer("fuzziness", fuzziness, _MOST_FUZZY)
    prefix = _integer("prefix_length", given.get("prefix_length", "0"), _MOST)
    return TextMatch(column, text, operator == "AND", edits, prefix)


def _options(text: str) -> dict[str, str]:
    """The options in a text such as "fuzziness=1,operator=AND"."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name.lower() not in _OPTIONS:
            raise InvalidOptionError(f"options have the form 'name=value' with the names {', '.join(_OPTIONS)}, not {reprlib.repr(part)}")
        if name.lower() in found:
            raise InvalidOptionError(f"the option {name} is given twice")
        found[name.lower()] = value
    return found


def _column(node: Expression, name: str) -> Column:
    if isinstance(node, Column):
        t = node.type
        if is_text(t.value_type if is_list(t) else t):
            return node
        raise InvalidOptionError(f"{name} needs a column of texts, lists of texts or JSON; {node.quoted} is of type {t}")
    raise InvalidOptionError(f"{name} needs a column, not an expression; it is called as {TEXT_FUNCTIONS[name]}")


def _text(node: Expression, what: str) -> str:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        raise InvalidOptionError(f"{what} must be a text in quotes")
    if len(node.value) > _MOST_CHARACTERS:
        raise InvalidOptionError(f"{what} have {len(node.value)} characters; at most {_MOST_CHARACTERS} are searched for")
    return node.value


def _integer(name: str, value: object, most: int) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
        raise InvalidOptionError(f"{name} must be an integer from 0 to {most}, not {reprlib.repr(value)}")
    return int(text)


def _number(name: str, text: str) -> None:
    try:
        valid = 0 <= float(text) < float("inf")
    except ValueError:
        valid = False
    if not valid:
        raise InvalidOptionError(f"the option {name} must be a number of at least 0, not {reprlib.repr(text)}")
