"""Folding of characters into ASCII: "é" becomes "e", "ß" "ss", "①" "1" and "½" "12"."""

from __future__ import annotations

import unicodedata
from functools import cache

_LETTERS = {
    "Æ": "AE", "Ð": "D", "Ø": "O", "Þ": "TH", "ß": "ss", "æ": "ae", "ð": "d", "ø": "o", "þ": "th", "Đ": "D", "đ": "d", "Ħ": "H",
    "ħ": "h", "ı": "i", "ĸ": "k", "Ł": "L", "ł": "l", "Ŋ": "N", "ŋ": "n", "Œ": "OE", "œ": "oe", "Ŧ": "T", "ŧ": "t", "ẞ": "SS",
    "\ua7f1": "S",
}  # fmt: skip
"""Letters that Unicode does not decompose; the last one only since version 17, which Python may not have."""

_OUTLINED = {chr(0x1CCD6 + i): c for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")}
"""The outlined letters and digits of Unicode 16."""

_FOLDED = _LETTERS | _OUTLINED


def folded(text: str) -> str:
    """The text with each character that has a form in ASCII replaced by it; others stay."""
    return text if text.isascii() else "".join(_folded(c) for c in text)


@cache
def _folded(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character)
    return "".join(_FOLDED.get(c, c if c.isascii() else "") for c in parts) or character
