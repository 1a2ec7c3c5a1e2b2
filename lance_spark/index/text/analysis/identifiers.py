"""The words that an identifier of a program is made of: `parseHTTPResponse2` has parse, HTTP, Response and 2."""

from __future__ import annotations

from itertools import pairwise


def identifier_parts(identifier: str, split_on_numerics: bool) -> list[str]:
    """The words between underscores and changes of case, and, with `split_on_numerics`, between ASCII digits and other characters."""
    return [part for piece in identifier.split("_") if piece for part in _words(piece, split_on_numerics)]


def _words(text: str, split_on_numerics: bool) -> list[str]:
    bounds = [0, *(at for at in range(1, len(text)) if _starts(text, at, split_on_numerics)), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


def _starts(text: str, at: int, split_on_numerics: bool) -> bool:
    """Whether a word starts at this character."""
    before, here = text[at - 1], text[at]
    if split_on_numerics and _is_digit(before) != _is_digit(here):
        return True
    if not here.isupper():
        return False
    return before.islower() or (before.isupper() and text[at + 1 : at + 2].islower())


def _is_digit(character: str) -> bool:
    return character.isascii() and character.isdigit()
