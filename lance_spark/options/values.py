"""How the texts of options are read: a function for each kind, which raises ValueError with what it expects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from lance_spark.options.durations import duration
from lance_spark.options.tag_names import is_new_tag_name

Kind = Literal[
    "text",
    "word",
    "count",
    "share",
    "flag",
    "moment",
    "duration",
    "new tag",
    "columns",
    "fragments",
    "id",
    "storage version",
    "JSON",
    "words or JSON",
    "bases",
]
"""What the text of an option says. A word is one of a list; a count is a whole number."""
MOST = 2**63 - 1
"""The largest count."""


def value_of(kind: Kind, text: str, least: int = 0, words: Sequence[str] = ()) -> Any:
    """The value of a text: a count of at least `least`, or one of `words`, or what another kind says."""
    if kind == "word":
        return word(text, words)
    if kind == "count":
        return count_or_word(text, least, words) if words else count(text, least)
    return _VALUES[kind](text)


def nonempty(text: str) -> str:
    """Text that is not empty."""
    if not text.strip():
        raise ValueError("non-empty text")
    return text


def word(text: str, words: Sequence[str]) -> str:
    """One of the words, in any case."""
    found = text.strip().lower()
    if found not in words:
        raise ValueError(" or ".join(words))
    return found


def count(text: str, least: int, most: int = MOST) -> int:
    """A whole number."""
    if not re.fullmatch(r"[0-9]{1,19}", text.strip()) or not least <= int(text) <= most:
        raise ValueError(f"a whole number from {least} to {most}")
    return int(text)


def count_or_word(text: str, least: int, words: Sequence[str]) -> int | str:
    """A whole number, or one of the words."""
    if (found := text.strip().lower()) in words:
        return found
    try:
        return count(text, least)
    except ValueError as e:
        raise ValueError(f"{e}, or {' or '.join(words)}") from None


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return value


def flag(text: str) -> bool:
    """`true` or `false`."""
    return word(text, ("true", "false")) == "true"


def moment(text: str) -> datetime:
    """A time in ISO 8601, UTC if it has no zone."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        expected = "a time in ISO 8601, such as 2026-01-31T12:00:00Z (UTC if it has no zone)"
        raise ValueError(expected) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def time_span(text: str) -> timedelta:
    """A duration, such as 14days."""
    try:
        span = duration(text)
    except (ValueError, OverflowError):
        span = timedelta()
    if not span:
        raise ValueError("a duration such as 14days or '1h 30m'")
    return span


def new_tag(text: str) -> str:
    """Text that may be a part of the name of a new tag."""
    if not is_new_tag_name(text):
        raise ValueError("letters, digits, '.', '-' and '_', all in ASCII")
    return text


def json_object(text: str) -> Mapping[str, Any]:
    """A JSON object."""
    expected = 'a JSON object such as {"column": "vector", "q": [0.5, 1]}'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{expected} ({e})") from None
    if not isinstance(found, dict):
        raise ValueError(expected)
    return found


def words_or_json(text: str) -> str | Mapping[str, Any]:
    """Words, or a JSON object, which starts with a brace."""
    if not text.lstrip().startswith("{"):
        return nonempty(text)
    try:
        return json_object(text)
    except ValueError:
        example = '{"match": {"query": "words", "column": "text"}}'
        raise ValueError(f"words, or a JSON object such as {example}") from None


def bases(text: str) -> tuple[Mapping[str, Any], ...]:
    """Base paths: a JSON list of objects."""
    expected = 'a JSON list such as [{"name": "fast", "path": "s3://fast/table"}]'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{expected} ({e})") from None
    if not isinstance(found, list) or not all(isinstance(base, dict) for base in found):
        raise ValueError(expected)
    return tuple(found)


_COMMAS = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""Commas outside of backticks: an even number of backticks follows them."""
_DOTS = re.compile(r"\.(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""Dots outside of backticks."""


def columns(text: str) -> tuple[str, ...]:
    """Names of columns: separated by commas, or a JSON list."""
    expected = 'names separated by commas, such as a,b.c, or a JSON list, such as ["a","b.c"]'
    if text.lstrip().startswith("["):
        return _names_in_json(text, expected)
    return _checked([name.strip() for name in _COMMAS.split(text)], expected)


def parse_id(text: str) -> tuple[str, ...]:
    """The names of an id: `a.b.c`, with backticks around names that have dots, or a JSON list."""
    expected = 'names separated by dots, such as a.b.`c.d`, or a JSON list, such as ["a","b","c.d"]'
    if text.lstrip().startswith("["):
        return _names_in_json(text, expected)
    return _checked([_unquoted(part) for part in _DOTS.split(text.strip())], expected)


def _unquoted(name: str) -> str:
    return name[1:-1] if name[:1] == name[-1:] == "`" else name


def _names_in_json(text: str, expected: str) -> tuple[str, ...]:
    try:
        return _checked(json.loads(text), expected)
    except (ValueError, RecursionError):
        raise ValueError(expected) from None


def _checked(names: list[Any], expected: str) -> tuple[str, ...]:
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(expected)
    return tuple(names)


def fragments(text: str) -> frozenset[int]:
    """Ids of fragments, separated by commas."""
    ids = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,10}", i) for i in ids):
        raise ValueError("fragment ids separated by commas, such as 0,3,4")
    return frozenset(map(int, ids))


def storage_version(text: str) -> str:
    """The number of a storage version, or `stable`."""
    if not re.fullmatch(r"\d\.\d|legacy|stable", text.strip().lower()):
        raise ValueError("a number such as 2.2, or stable")
    return text.strip().lower()


_VALUES: Mapping[Kind, Callable[[str], Any]] = {
    "text": nonempty,
    "share": share,
    "flag": flag,
    "moment": moment,
    "duration": time_span,
    "new tag": new_tag,
    "columns": columns,
    "fragments": fragments,
    "id": parse_id,
    "storage version": storage_version,
    "JSON": json_object,
    "words or JSON": words_or_json,
    "bases": bases,
}
