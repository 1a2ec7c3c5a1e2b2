"""Literals of times of day and of intervals in days and time, in the forms of Spark's SQL."""

from __future__ import annotations

import datetime
import itertools
import re
from decimal import Decimal

import pyarrow as pa

from lance_spark.errors import InvalidOptionError
from lance_spark.predicate.tree import Literal

_MICROS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_MICROS |= {"DAY": 24 * _MICROS["HOUR"], "WEEK": 7 * 24 * _MICROS["HOUR"]}
_SPANS = ("DAY", "HOUR", "MINUTE", "SECOND")
_PARTS = {"DAY": r"\d+", "HOUR": r"\d+", "MINUTE": r"\d+", "SECOND": r"\d+(?:\.\d{1,9})?"}
_MOST = 2**63 - 1
"""An interval is a number of microseconds of 64 bits."""


def time_literal(text: str) -> Literal:
    """TIME 'hh:mm[:ss[.ffffff]]'. Raises InvalidOptionError."""
    match = re.fullmatch(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?", text.strip(), re.ASCII)
    try:
        if match is None:
            raise ValueError(text)
        hour, minute, second = (int(match[i] or 0) for i in (1, 2, 3))
        return Literal(datetime.time(hour, minute, second, int((match[4] or "").ljust(6, "0"))), pa.time64("us"))
    except ValueError as e:
        raise InvalidOptionError(f"{text!r} is not a time of day; expected hh:mm[:ss[.ffffff]]") from e


def interval_literal(text: str) -> Literal:
    """INTERVAL 'text': pairs of a number and a unit, or a text of several units and its span, such as '1 02:00:00 DAY TO SECOND'.

    Raises InvalidOptionError; also for months and years, which have no fixed length.
    """
    span = re.fullmatch(r"\s*(.*\S)\s+([a-z]+)\s+to\s+([a-z]+)\s*", text, re.ASCII | re.IGNORECASE)
    return _literal(text, _of_span(text, span[1], _unit(span[2]), _unit(span[3])) if span else _of_pairs(text))


def _of_span(text: str, number: str, first: str, last: str) -> int:
    """The microseconds of '1 02:00:00', whose units are from `first` to `last`."""
    if not {first, last} <= set(_SPANS) or _SPANS.index(first) >= _SPANS.index(last):
        raise InvalidOptionError(f"{text!r} is not an interval: {first} TO {last} is not a span of days, hours, minutes and seconds")
    units = _SPANS[_SPANS.index(first) : _SPANS.index(last) + 1]
    pattern = f"({_PARTS[first]})"
    for before, unit in itertools.pairwise(units):
        pattern += f"{' ' if before == 'DAY' else ':'}({_PARTS[unit]})"
    wrong = InvalidOptionError(f"{text!r} is not an interval of {first} TO {last}")
    match = re.fullmatch(rf"([+-]?){pattern}", number, re.ASCII)
    if match is None:
        raise wrong
    counts = {unit: Decimal(count) for unit, count in zip(units, match.groups()[1:], strict=True)}
    # The first unit has no limit, as in '100:00'.
    if any(counts[unit] >= (24 if unit == "HOUR" else 60) for unit in units[1:]):
        raise wrong
    micros = sum(int(count * _MICROS[unit]) for unit, count in counts.items())
    return -micros if match[1] == "-" else micros


def _of_pairs(text: str) -> int:
    """The microseconds of '1 day 2 hours'."""
    pairs = re.findall(r"([+-]?\d+(?:\.\d{1,9})?)\s+([A-Za-z]+)", text, re.ASCII)
    if not pairs or re.sub(r"\s", "", text) != "".join(number + unit for number, unit in pairs):
        raise InvalidOptionError(f"{text!r} is not an interval; expected numbers with units, such as '1 day 2 hours'")
    if whole := next((unit for number, unit in pairs if "." in number and _unit(unit) != "SECOND"), None):
        raise InvalidOptionError(f"{text!r} is not an interval: only seconds may have a fraction, not {whole}")
    return sum(int(Decimal(number) * _MICROS[_unit(unit)]) for number, unit in pairs)


def sum_of(one: Literal, other: Literal, sign: int) -> Literal:
    """The first interval plus `sign` times the other one."""
    return _literal(f"{one.value} and {other.value}", interval_micros(one) + sign * interval_micros(other))


def interval_micros(literal: Literal) -> int:
    """The microseconds of an interval."""
    return int(literal.value // datetime.timedelta(microseconds=1))


def _unit(name: str) -> str:
    unit = name.upper().removesuffix("S")
    if unit not in _MICROS:
        raise InvalidOptionError(f"filters do not support intervals in {name.lower()}; expected: {', '.join(_MICROS).lower()}")
    return unit


def _literal(text: str, micros: int) -> Literal:
    try:
        if abs(micros) <= _MOST:
            return Literal(datetime.timedelta(microseconds=micros), pa.duration("us"))
    except OverflowError:
        pass
    raise InvalidOptionError(f"the interval {text!r} is too long")
