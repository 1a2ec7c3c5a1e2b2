"""Which characters are of which class, and the words of the dictionaries: the data of ICU, in the file `icu_tables.xz`.

`scripts/icu_tables.py` makes the file. A line for each class of characters has its ranges; after an empty line come the words,
a line each and sorted, of each language in turn.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np

from lance_spark.index.text.analysis.alphanumeric import code_points

_FILE = Path(__file__).with_name("icu_tables.xz")
_CODE_POINTS = 0x110000


class Word(IntEnum):
    """Classes of characters for the rules of words: the property Word_Break of Unicode, but for some.

    EXTEND has Format, ALETTER_PICT are the letters that are pictures, too, and DICTIONARY the characters of scripts without spaces.
    """

    OTHER = 0
    CR = 1
    LF = 2
    NEWLINE = 3
    EXTEND = 4
    ZWJ = 5
    REGIONAL_INDICATOR = 6
    KATAKANA = 7
    HEBREW = 8
    ALETTER = 9
    ALETTER_PICT = 10
    SINGLE_QUOTE = 11
    DOUBLE_QUOTE = 12
    MID_NUM_LET = 13
    MID_LETTER = 14
    MID_NUM = 15
    NUMERIC = 16
    EXTEND_NUM_LET = 17
    SPACE = 18
    PICT = 19
    DICTIONARY = 20


class Cluster:
    """Flags of characters in grapheme clusters: what joins those before it, and the parts of Indic conjuncts."""

    JOINS = 1
    CONSONANT = 2
    LINKER = 4
    EXTENDS = 8


LANGUAGES = ("thai", "lao", "khmer", "burmese", "cj")
"""The dictionaries, in the order of the file; `cj` is of Chinese and Japanese. Their numbers in `Tables.languages` begin with 1."""


@dataclass(frozen=True)
class Tables:
    """The data of the tokenizer. Arrays with an item for each code point are of uint8.

    Word i of the dictionaries is `text[starts[i] : starts[i + 1] - 1]`, in UTF-8; those of language k are numbered from `groups[k - 1]` up
    to `groups[k]`.
    """

    words: np.ndarray
    clusters: np.ndarray
    languages: np.ndarray
    alphanumeric: np.ndarray
    text: np.ndarray
    starts: np.ndarray
    groups: np.ndarray


@cache
def tables() -> Tables:
    """The tables, which are read once in a process."""
    head, _, listed = lzma.decompress(_FILE.read_bytes()).partition(b"\n\n")
    words, clusters, languages = (np.zeros(_CODE_POINTS, np.uint8) for _ in range(3))
    counts: list[int] = []
    for line in head.decode().splitlines():
        kind, name, *ranges = line.split(" ")
        if kind == "count":
            counts.append(int(ranges[0]))
            continue
        chosen = _chosen(ranges)
        if kind == "word":
            words[chosen] = Word[name]
        elif kind == "cluster":
            clusters[chosen] |= np.uint8(getattr(Cluster, name))
        else:
            languages[chosen] = LANGUAGES.index(name) + 1
    text = np.frombuffer(listed, np.uint8)
    starts = np.concatenate(([0], np.flatnonzero(text == ord("\n")) + 1)).astype(np.int64)
    groups = np.cumsum([0, *counts]).astype(np.int64)
    return Tables(words, clusters, languages, _alphanumeric(), text, starts, groups)


def _chosen(ranges: list[str]) -> np.ndarray:
    pairs = [(int(first, 16), int(last or first, 16)) for first, _, last in (one.partition("-") for one in ranges)]
    return np.concatenate([np.arange(first, last + 1) for first, last in pairs])


def _alphanumeric() -> np.ndarray:
    table = np.zeros(_CODE_POINTS, np.uint8)
    for first, last in code_points():
        table[first : last + 1] = 1
    return table
