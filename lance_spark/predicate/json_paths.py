"""Paths into JSON documents: those of Spark's `get_json_object`, those of Lance's JSON functions, and the keys of Lance's `json_get_*`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lance_spark.errors import InvalidOptionError

_MOST_STEPS = 256

# Spark's parser skips white space before names, numbers, "['" and "']" only.
_SPARK_STEP = re.compile(r"\.\s*([^.\[\s][^.\[]*)|\s*\['\s*([^'?\s][^'?]*)'\]|\[\s*(\d{1,18})\]", re.ASCII)
_SPARK_WILDCARD = re.compile(r"\s*\.\*|\s*\['\*'\]|\[\s*\*\]", re.ASCII)
_STEP = r'[.:](\w+)|\.?"([^"\\]*)"|\["([^"\\]*)"\]|\[(\d{1,9})\]'
_LANCE_STEP = re.compile(_STEP)
_LANCE_PATH = re.compile(rf"\s*(?:\$|(\w+)|(?=[.:\[]))((?:{_STEP})*)\s*")
_POSITION = re.compile(r"\+?[0-9]{1,18}")


@dataclass(frozen=True)
class Step:
    """A step of a path: to the member `name` of an object, or to the item at `position` (from 0) of an array; None: not to one."""

    name: str | None
    position: int | None


Path = tuple[Step, ...]


def spark_path(text: str) -> Path | None:
    """The path in an argument of get_json_object; None if it is invalid, so that the result is null.

    Raises InvalidOptionError for a path with a wildcard, which filters do not support.
    """
    at, steps = 1, []
    while text.startswith("$") and (wildcard := _SPARK_WILDCARD.match(text, at) or _SPARK_STEP.match(text, at)):
        if wildcard.re is _SPARK_WILDCARD:
            raise InvalidOptionError(f"the JSON path {text!r} has a wildcard, which filters do not support")
        name = wildcard[1] or wildcard[2]
        steps.append(Step(name, None if name else int(wildcard[3])))
        at = wildcard.end()
    return _checked(steps, text) if text.startswith("$") and not text[at:].strip(" \t\n\r\f\v") else None


def lance_path(text: str) -> Path:
    """The path in an argument of json_extract, or of a JSON index: names and positions, such as `$.a.b[0]`, `a.b` or `$["a b"]`.

    Raises InvalidOptionError for other paths.
    """
    match = _LANCE_PATH.fullmatch(text)
    if match is None:
        raise InvalidOptionError(f"the JSON path {text!r} is not supported; expected names and positions, such as $.a.b[0]")
    steps = [Step(match[1], None)] if match[1] else []
    for dotted, quoted, bracketed, position in _LANCE_STEP.findall(match[2]):
        steps.append(Step(None, int(position)) if position else Step(dotted or quoted or bracketed, None))
    return _checked(steps, text)


def key_or_path(text: str) -> Path:
    """The path in an argument of json_get_int and the like: a path if it begins with `$.` or `$[`, else a member's name or a position.

    Raises InvalidOptionError as `lance_path`.
    """
    if text.startswith(("$.", "$[")):
        return lance_path(text)
    return (Step(text, int(text) if _POSITION.fullmatch(text) else None),)


def written(path: Path) -> str:
    """The text of a path, for `lance_path` and `key_or_path`."""
    return "$" + "".join(f"[{s.position}]" if s.name is None else f'["{s.name}"]' for s in path)


def _checked(steps: list[Step], text: str) -> Path:
    if len(steps) > _MOST_STEPS:
        raise InvalidOptionError(f"a JSON path has {len(steps)} steps; the maximum is {_MOST_STEPS}: {text[:60]!r}...")
    return tuple(steps)
