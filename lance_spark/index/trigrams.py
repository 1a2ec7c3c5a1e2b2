"""Trigrams of texts, as NGRAM indexes store them: lower-case, folded to ASCII, letters and digits only.

Folding replaces each character by itself: "é" is "e", "ß" is "ss", "½" is "12", and a character without an ASCII form separates words.
A token is a number of three digits in base 37, 1 to 10 for "0" to "9" and 11 to 36 for "a" to "z". Some characters fold to capital
letters, which other writers leave as they are: their digits are larger than 36 or equal to those of others, so tokens can collide.
"""

from __future__ import annotations

import string
import unicodedata
from functools import cache
from itertools import chain

import numpy as np
import pyarrow as pa

from lance_spark.arrow.texts import bytes_of
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U

BASE = 37
TOKENS = 255 * (BASE * BASE + BASE + 1) + 1
"""Tokens are below this number."""
_SEPARATOR = -1
_FOLDED = 0x20000
"""Characters from here on have no ASCII form."""
_RANGES = (
    (0x80, 0x2200), (0x2460, 0x2500), (0x2C7C, 0x2C7E), (0x3250, 0x3400), (0xA7F1, 0xA800), (0xFB00, 0xFB07), (0xFF10, 0xFF5B),
    (0x10780, 0x107C0), (0x1CCD6, 0x1CCFA), (0x1D400, 0x1D800), (0x1F100, 0x1F191), (0x1FBF0, 0x1FBFA),
)  # fmt: skip
"""The ranges with all characters that have an ASCII form."""
_LETTERS = {
    "æ": "ae", "ð": "d", "đ": "d", "œ": "oe", "þ": "th", "ħ": "h", "ı": "i", "ĸ": "k", "ł": "l", "ŋ": "n", "ø": "o", "ß": "ss", "ŧ": "t",
    "Æ": "AE", "Ħ": "H",
}  # fmt: skip
"""Letters that Unicode does not decompose."""
# Characters of Unicode 16 and 17, which older versions of Python do not know.
_LATER = {"\ua7f1": "S"} | {chr(0x1CCD6 + i): c for i, c in enumerate(string.ascii_uppercase + string.digits)}


def postings(texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tokens of an array of texts, ascending, with the positions of the texts that contain each.

    The positions of token i are `positions[bounds[i]:bounds[i + 1]]`, ascending. Null texts have no tokens.
    """
    valid = texts.drop_null() if texts.null_count else texts
    content, bounds = bytes_of(valid)
    starts, digits = folding()
    ends = np.zeros(TOKENS, np.int64)
    _place(content, bounds, starts, digits, np.full(TOKENS, -1, np.int64), ends, np.empty(0, np.int64))
    tokens = np.flatnonzero(ends)
    sizes = ends[tokens]
    np.cumsum(ends, out=ends)
    next_ = ends.copy()
    next_[1:], next_[0] = ends[:-1], 0
    positions = np.empty(int(sizes.sum()), np.int64)
    _place(content, bounds, starts, digits, np.full(TOKENS, -1, np.int64), next_, positions)
    if texts.null_count:
        positions = np.flatnonzero(np.asarray(texts.is_valid()))[positions]
    return tokens.astype(np.uint32), np.concatenate([[0], np.cumsum(sizes)]), positions


def ascii_tokens(text: str) -> np.ndarray:
    """The tokens of those parts of `text` that are ASCII, ascending. Each text that contains `text` has all of them."""
    digits = _ascii_digits()[np.frombuffer(text.encode("ascii", "replace"), np.uint8)]
    first, second, third = digits[:-2], digits[1:-1], digits[2:]
    in_word = (first != _SEPARATOR) & (second != _SEPARATOR) & (third != _SEPARATOR)
    return np.unique(((first * BASE + second) * BASE + third)[in_word]).astype(np.uint32)


@cache
def _ascii_digits() -> np.ndarray:
    """The digit of each ASCII character."""
    return np.array([_digits(chr(c).lower())[0] for c in range(0x80)])


@cache
def folding() -> tuple[np.ndarray, np.ndarray]:
    """The digits of the characters: those of code point c are `digits[starts[c]:starts[c + 1]]`; a negative one separates words."""
    folded = {c: _digits(_folded(chr(c))) for c in chain(range(0x80), *(range(*r) for r in _RANGES))}
    sizes = np.ones(_FOLDED, np.int64)
    sizes[list(folded)] = [len(d) for d in folded.values()]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    digits = np.full(int(starts[-1]), _SEPARATOR, np.int16)
    for c, values in folded.items():
        digits[starts[c] : starts[c + 1]] = values
    return starts, digits


def _folded(character: str) -> str:
    """The ASCII form of a character: its lower-case letters, decomposed, without what is not ASCII; NUL if nothing is left."""
    done = ""
    for c in character.lower():
        parts = _LATER.get(c) or unicodedata.normalize("NFKD", c)
        done += c if c.isascii() else "".join(p if p.isascii() else _LETTERS.get(p, "") for p in parts) or "\0"
    return done


def _digits(text: str) -> list[int]:
    # Other writers subtract without regard to capital letters, whose digits wrap around.
    return [ord(c) - 47 if c.isdigit() else (ord(c) - 86) % 256 if c.isalpha() else _SEPARATOR for c in text]


@kernel
def _character(data: np.ndarray, at: np.uint64, stop: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The code point at `at` in UTF-8 and the position after it. Invalid bytes are separators, too."""
    first = U(data[at])
    size = U(1)
    if first >= U(0xF8):
        pass
    elif first >= U(0xF0):
        size = U(4)
    elif first >= U(0xE0):
        size = U(3)
    elif first >= U(0xC0):
        size = U(2)
    if size > stop - at:
        return U(_FOLDED), stop
    if size == U(1):
        return first if first < U(0x80) else U(_FOLDED), at + size
    code = first & (U(0x7F) >> size)
    for i in range(U(1), size):
        code = code << U(6) | U(data[at + U(i)]) & U(0x3F)
    return code, at + size


@kernel
def _place(
    data: np.ndarray, bounds: np.ndarray, starts: np.ndarray, digits: np.ndarray, seen: np.ndarray, next_: np.ndarray, out: np.ndarray
) -> None:
    """Store each text that contains a token at the token's next place in `out`; if `out` is empty, `next_` only counts these texts.

    `seen` is the last text with each token, -1 at first.
    """
    for i in range(len(bounds) - 1):
        at, stop = U(bounds[i]), U(bounds[i + 1])
        token, run = 0, 0
        first, second = 0, 0
        while at < stop:
            code, at = _character(data, at, stop)
            if code >= U(_FOLDED):
                run = 0
                continue
            for k in range(starts[code], starts[code + U(1)]):
                digit = int(digits[k])
                run = 0 if digit < 0 else run + 1
                token = first * BASE * BASE + second * BASE + digit
                first, second = second, digit
                if run > 2 and seen[token] != i:
                    seen[token] = i
                    if len(out):
                        out[next_[token]] = i
                    next_[token] += 1
