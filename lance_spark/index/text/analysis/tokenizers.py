"""The base tokenizers: where a text is split into tokens, before these are filtered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.text.analysis import jieba, lindera
from lance_spark.index.text.analysis.alphanumeric import character_class
from lance_spark.index.text.analysis.identifiers import identifier_parts
from lance_spark.index.text.analysis.parameters import TextParameters
from lance_spark.index.text.analysis.spans import spans_of

Tokens = tuple[list[str], list[int]]
"""Tokens and their positions; a phrase has its words at consecutive positions."""
Tokenizer = Callable[[str], Tokens]

_SUPPORTED = ("simple", "whitespace", "raw", "ngram", "code", "icu", "icu/split", jieba.NAME, "lindera/..")

_OPERATORS = """
>>>= **= //= === <=> <<= >>= >>> !== &&= ||= ??= ++ += -- -= -> ** *= // /= %= == => <- <= << >= >> != &= && |= |> || ^= ~= ?? := ::
+ - * / % = < > ! & | ^ ~ ? :
"""
"""The operators of programming languages, longer ones first."""


def tokenizer_of(parameters: TextParameters) -> Tokenizer:
    """The base tokenizer of an index. Raises UnsupportedFeatureError for one that is not known here."""
    name = parameters.base_tokenizer
    match name:
        case "simple":
            return _matches(f"[{character_class()}]+")
        case "whitespace":
            return _matches("[^\t\n\f\r ]+")
        case "raw":
            return lambda text: ([text], [0])
        case "ngram":
            return _ngrams(parameters)
        case "code":
            return _code(parameters)
        case "icu" | "icu/split":
            return _icu(parameters)
        case jieba.NAME | jieba.FAMILY:
            jieba.words_of("")  # raises the error of a missing library
            return jieba.words_of
    match name.split("/"):
        case [lindera.FAMILY, _]:
            return lindera.words_by(name)
        case [jieba.FAMILY, _]:
            reason = "not supported: no library cuts texts by a dictionary of its own as pylance does"
        case _:
            reason = "unknown"
    raise UnsupportedFeatureError(f"the tokenizer {name!r} is {reason}; supported ones are: {', '.join(_SUPPORTED)}")


@cache
def _matches(pattern: str) -> Tokenizer:
    """The longest parts of a text that match the pattern."""
    find = re.compile(pattern).findall

    def tokenize(text: str) -> Tokens:
        found = find(text)
        return found, list(range(len(found)))

    return tokenize


def _icu(parameters: TextParameters) -> Tokenizer:
    def tokenize(text: str) -> Tokens:
        data = text.encode()
        found = spans_of(parameters, np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64))
        assert found is not None
        return [data[start:end].decode() for start, end in zip(found.starts.tolist(), found.ends.tolist())], found.places.tolist()

    return tokenize


def _ngrams(parameters: TextParameters) -> Tokenizer:
    """All parts of a text with some lengths, or, with `prefix_only`, those at its start; all have the position 0."""
    low, high = parameters.min_ngram_length, parameters.max_ngram_length

    def tokenize(text: str) -> Tokens:
        starts: Iterable[int] = range(1 if parameters.prefix_only else len(text))
        found = [text[at : at + n] for at in starts for n in range(low, min(high, len(text) - at) + 1)]
        return found, [0] * len(found)

    return tokenize


def _code(parameters: TextParameters) -> Tokenizer:
    """Identifiers, with underscores; with `split_identifiers` also their words, and with `index_operators` operators."""
    operators = "|".join(re.escape(o) for o in _OPERATORS.split())
    pattern = f"[{character_class()}_]+"
    split = _matches(f"{pattern}|{operators}" if parameters.index_operators else pattern)

    def tokenize(text: str) -> Tokens:
        found, places = split(text)
        return _with_parts(found, parameters) if parameters.split_identifiers else (found, places)

    return tokenize


def _with_parts(identifiers: Iterable[str], parameters: TextParameters) -> Tokens:
    """Each identifier at the position of the first of its words, which have consecutive positions."""
    tokens: list[str] = []
    positions: list[int] = []
    at = 0
    for identifier in identifiers:
        parts = identifier_parts(identifier, parameters.split_on_numerics)
        if parameters.preserve_original or len(parts) < 2:
            tokens.append(identifier)
            positions.append(at)
        if len(parts) > 1:
            tokens += parts
            positions += range(at, at + len(parts))
        at += max(len(parts), 1)
    return tokens, positions
