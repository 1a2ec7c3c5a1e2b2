"""Where the tokens of many texts are, found at once: the kernels of the tokenizers simple, whitespace, raw, ngram and icu."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lance_spark.index.text.analysis import icu
from lance_spark.index.text.analysis.alphanumeric import code_points
from lance_spark.index.text.analysis.icu_tables import tables
from lance_spark.index.text.analysis.parameters import TextParameters
from lance_spark.kernels.kernel import kernel

_CODE_POINTS = 0x110000


@dataclass(frozen=True)
class Spans:
    """Tokens in some bytes (uint8): token i is `data[starts[i]:ends[i]]`, in the text `texts[i]` (uint32) at the position `places[i]`."""

    data: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    texts: np.ndarray
    places: np.ndarray


def spans_of(parameters: TextParameters, data: np.ndarray, bounds: np.ndarray) -> Spans | None:
    """The tokens before all filters of texts, text i being `data[bounds[i]:bounds[i + 1]]`; None if the tokenizer has no kernel."""
    match parameters.base_tokenizer:
        case "simple":
            return _filled(data, bounds, lambda *out: _words(data, bounds, _is_alphanumeric(), *out))
        case "whitespace":
            return _filled(data, bounds, lambda *out: _words(data, bounds, _is_no_space(), *out))
        case "raw":
            texts = np.arange(len(bounds) - 1, dtype=np.uint32)
            return Spans(data, bounds[:-1], bounds[1:], texts, np.zeros(len(texts), np.uint32))
        case "ngram":
            sizes = parameters.min_ngram_length, parameters.max_ngram_length, parameters.prefix_only
            return _filled(data, bounds, lambda *out: _ngrams(data, bounds, *sizes, *out))
        case "icu" | "icu/split" as name:
            t = tables()
            read = t.words, t.clusters, t.languages, t.alphanumeric, t.text, t.starts, t.groups
            return _filled(data, bounds, lambda *out: icu.split(data, bounds, *read, name == "icu/split", *out))
    return None


def _filled(data: np.ndarray, bounds: np.ndarray, fill: Any) -> Spans:
    """Tokens whose number is counted first: `fill` writes them to arrays, unless these are empty, and returns it."""
    size = fill(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))
    starts, ends, texts, places = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint32), np.empty(size, np.uint32)
    if size:
        fill(starts, ends, texts, places)
    return Spans(data, starts, ends, texts, places)


@cache
def _is_alphanumeric() -> np.ndarray:
    table = np.zeros(_CODE_POINTS, np.bool_)
    for first, last in code_points():
        table[first : last + 1] = True
    return table


@cache
def _is_no_space() -> np.ndarray:
    table = np.ones(_CODE_POINTS, np.bool_)
    table[[ord(c) for c in "\t\n\f\r "]] = False
    return table


@kernel
def _words(
    data: np.ndarray, bounds: np.ndarray, belongs: np.ndarray, starts: np.ndarray, ends: np.ndarray, texts: np.ndarray, places: np.ndarray
) -> int:
    """The longest runs of characters that belong to words. The texts are UTF-8."""
    count = 0
    writes = len(starts) > 0
    for text in range(len(bounds) - 1):
        at: Any = bounds[text]
        stop = bounds[text + 1]
        place = 0
        start: Any = -1
        while at < stop:
            first = np.int64(data[at])
            width = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            point = first
            if width > 1 and at + width <= stop:
                point = first & (0x7F >> width)
                for i in range(1, width):
                    point = point << 6 | (np.int64(data[at + i]) & 0x3F)
            if point < len(belongs) and belongs[point]:
                if start < 0:
                    start = at
            elif start >= 0:
                if writes:
                    starts[count], ends[count], texts[count], places[count] = start, at, text, place
                count += 1
                place += 1
                start = -1
            at += width
        if start >= 0:
            if writes:
                starts[count], ends[count], texts[count], places[count] = start, stop, text, place
            count += 1
    return count


@kernel
def _ngrams(
    data: np.ndarray,
    bounds: np.ndarray,
    least: int,
    most: int,
    prefix_only: bool,
    starts: np.ndarray,
    ends: np.ndarray,
    texts: np.ndarray,
    places: np.ndarray,
) -> int:
    """All parts of `least` to `most` characters, or those at the start; all have the position 0."""
    count = 0
    writes = len(starts) > 0
    for text in range(len(bounds) - 1):
        at: Any = bounds[text]
        stop = bounds[text + 1]
        while at < stop:
            end: Any = at
            size = 0
            while end < stop and size < most:
                end += 1
                while end < stop and data[end] & np.uint8(0xC0) == np.uint8(0x80):
                    end += 1
                size += 1
                if size >= least:
                    if writes:
                        starts[count], ends[count], texts[count], places[count] = at, end, text, 0
                    count += 1
            if prefix_only:
                break
            at += 1
            while at < stop and data[at] & np.uint8(0xC0) == np.uint8(0x80):
                at += 1
    return count
