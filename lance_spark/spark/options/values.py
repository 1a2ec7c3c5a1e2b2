"""How the texts of options are read. Each function raises ValueError with what it expects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lance_spark.table.maintenance.durations import duration
from lance_spark.table.versions.ref_files import is_new_tag_name


def nonempty(text: str) -> str:
    """Text that is not empty."""
    if not text.strip():
        raise ValueError("non-empty text")
    return text


def number(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A function that reads integers from `least` to `most`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text.strip()) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return parse


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
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def number_or_word(least: int, word: str) -> Callable[[str], int | str]:
    """A function that reads integers from `least`, or the word."""
    read = number(least)

    def parse(text: str) -> int | str:
        if text.strip().lower() == word:
            return word
        try:
            return read(text)
        except ValueError as e:
            raise ValueError(f"{e}, or {word}") from None

    return parse


def choice(*words: str) -> Callable[[str], str]:
    """A function that reads one of the given words."""

    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(" or ".join(words))
        return text.strip().lower()

    return parse


def moment(text: str) -> datetime:
    """A time in ISO 8601, UTC if it has no zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("a time in ISO 8601, such as 2026-01-31T12:00:00Z (UTC if it has no zone)") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def time_span(text: str) -> timedelta:
    """A duration, such as 14days."""
    try:
        span = duration(text)
    except (ValueError, OverflowError):
        span = timedelta()
    if not span:
        raise ValueError("a duration such as 14days or '1h 30m'")
    return span


def tag_part(text: str) -> str:
    """Text that may be a part of the name of a new tag."""
    if not is_new_tag_name(text):
        raise ValueError("letters, digits, '.', '-' and '_', all in ASCII")
    return text


def json_object(text: str) -> Mapping[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ValueError(f'a JSON object such as {{"column": "vector", "q": [0.5, 1]}} ({e})') from None
    if not isinstance(found, dict):
        raise ValueError('a JSON object such as {"column": "vector", "q": [0.5, 1]}')
    return found


def words_or_json(text: str) -> str | Mapping[str, Any]:
    """Words, or a JSON object, which starts with a brace."""
    if not text.lstrip().startswith("{"):
        return nonempty(text)
    try:
        return json_object(text)
    except ValueError:
        raise ValueError('words, or a JSON object such as {"match": {"query": "words", "column": "text"}}') from None


_COMMAS = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""Commas outside of backticks: an even number of backticks follows them."""


def columns(text: str) -> tuple[str, ...]:
    """Names of columns: separated by commas, or a JSON list."""
    expected = ValueError('names separated by commas, such as a,b.c, or a JSON list, such as ["a","b.c"]')
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except json.JSONDecodeError:
            raise expected from None
    else:
        names = [name.strip() for name in _COMMAS.split(text)]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise expected
    return tuple(names)


def fragments(text: str) -> frozenset[int] | None:
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
