"""Translation of Java's regular expressions (Spark's RLIKE) to RE2 (Arrow), limited to what means the same in both."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidOptionError

# Java's dot excludes more line ends than RE2's, and its \s has one more character.
_SPACE = r"\t\n\v\f\r "
_PIECE = re.compile(
    r"""(?P<quantifier>[*+?]\??|\{\d+(?:,\d*)?\}\??)
      | (?P<group>\((?:\?:)?)
      | (?P<open>[|)])
      | (?P<start>\^|\\A)
      | (?P<end>\\z)
      | (?P<dot>\.)
      | (?P<space>\\[sS])
      | (?P<escape>\\[dDwWtnrf.*+?(){}\[\]|^$\\/\-,:;!=<>@&~\#%'"` ])
      | (?P<set>\[\^?-?(?:[^\[\]\\^&\-](?:-[^\[\]\\^&\-])?|\\[dwstnrf.*+?(){}\[\]|^$\\/\-])+-?\])
      | (?P<plain>[^\\\[\]{}*+?.|()^$])""",
    re.VERBOSE,
)
_LIKE = re.compile(r"\(\?s\)\^\(\?:(.*)\)\\z", re.DOTALL)
_LIKE_PIECE = re.compile(r"\.\*|\.|\\(.)|([^\\.])", re.DOTALL)


TRANSLATED: dict[str, Callable[[str], str]] = {
    "dot": lambda _: r"[^\n\r\x{85}\x{2028}\x{2029}]",
    "space": lambda text: f"[{_SPACE}]" if text == r"\s" else f"[^{_SPACE}]",
    "set": lambda text: re.sub(r"\\(.)", lambda m: _SPACE if m[1] == "s" else m[0], text),
}


def for_re2(pattern: str) -> str:
    """The RE2 pattern that is equivalent to Java's `pattern`.

    Raises InvalidOptionError for patterns that are invalid or could mean something else in RE2, such as those with `$`, `\\b`, flags,
    lookaround, back references, possessive quantifiers, Unicode classes, or classes within classes.
    """
    out, at, before = [], 0, "start"
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        kind = piece.lastgroup if piece else None
        if piece is None or kind is None or (kind == "quantifier" and before in ("quantifier", "start", "end", "group", "bar")):
            raise InvalidOptionError(
                f"the regular expression {pattern!r} is invalid, or its meaning may differ from Spark's, from {pattern[at:]!r} on"
            )
        text = piece[0]
        out.append(TRANSLATED[kind](text) if kind in TRANSLATED else text)
        before = "bar" if text == "|" else kind
        at = piece.end()
    return _checked("".join(out), pattern)


def _checked(found: str, pattern: str) -> str:
    try:
        pc.match_substring_regex(pa.array([""]), found)
    except pa.ArrowInvalid as e:
        raise InvalidOptionError(f"the regular expression {pattern!r} is invalid: {e}") from e
    return found


def of_like(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern, for the whole string, where a dot matches line breaks too."""
    out, at = [], 0
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise InvalidOptionError(f"the pattern {pattern!r} has an escape character that is not followed by %, _ or itself")
            out.append(re.escape(pattern[at]))
        else:
            out.append({"%": ".*", "_": "."}.get(c) or re.escape(c))
        at += 1
    return f"(?s)^(?:{''.join(out)})\\z"


def like_parts(regex: str) -> list[str]:
    """The texts between the wildcards of the LIKE pattern that `of_like` has translated; none for other regular expressions."""
    match = _LIKE.fullmatch(regex)
    if match is None:
        return []
    return "".join(piece[1] or piece[2] or "\0" for piece in _LIKE_PIECE.finditer(match[1])).split("\0")
