"""Column names that are likely to break a parser, a resolver or a file format."""

from __future__ import annotations

import random

# fmt: off
KEYWORDS = [
    "comment", "values", "from", "case", "set", "desc", "order", "timestamp", "select", "where", "null", "true", "group", "by", "and",
    "or", "not", "in", "is", "like", "between", "join", "table", "interval", "date", "array", "map", "struct", "end", "when", "then",
    "else", "cast", "as", "on", "using", "union", "all", "with", "lateral", "exists", "limit", "offset", "row", "default",
]
PUNCTUATION = [
    "a b", " a", "a ", "do.t", ".", "a.b.c", "`", "tick`ed", "``", "'", "it's", "\"", "q\"q", "\\", "a\\b", "/", "%", "_", "*", "?",
    "#", "--", "/*", ";", ",", "(", ")", "[0]", "{}", "{x}", "$", "@", "=", "<", "a=b", "\t", "a\nb", ":", "|", "~", "+", "-", "&",
]
UNICODE = [
    "\u0130", "\u0131", "\xdf", "\u1e9e", "\xe9", "e\u0301", "\xc9", "\u03a3", "\u03c2", "\u03c3", "\u212a", "\ufb01", "\u01c5",
    "\U0001f600", "\u65e5\u672c", "\u0645\u0631", "\u200b", "a\u200bb", "\xa0", "\ufeff", "\u2028", "\U00010400", "\uffff", "I\u0307",
]
NUMBERS = [
    "1", "0x", "1a", "12e3", "_", "__", "_1", "-1", "1.5", "1L", "NaN",
]
SPECIAL = [
    "_metadata", "_fragid", "rowid", "_ROWID", "__index_level_0__", "_c0", "col", "key", "value", "element", "item", "path", "version",
    "a0", "k0", "id", "ID", "Id", "count(1)", "max(id)", "t", "__row_operation", "__spark", "_tmp", "name",
]
# fmt: on
LONG = ["x" * 130, "\u00e9" * 100]
RESERVED = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]
"""Names that a field of a struct can have, but not a column; so can those with dots and backticks."""
POOLS = [KEYWORDS, PUNCTUATION, UNICODE, NUMBERS, SPECIAL, LONG]


def folded(name: str) -> str:
    """The same text for names that Java's equalsIgnoreCase may take for one."""
    return "".join(c.upper().lower() if len(c.upper()) == 1 else c for c in name).replace("\u0130", "i").lower()


def distinct(rng: random.Random, count: int, case_sensitive: bool, nested: bool = False) -> list[str]:
    """Random names, of which no two are equal for the resolver."""
    pools = [*POOLS, RESERVED] if nested else POOLS
    names: list[str] = []
    while len(names) < count:
        name = rng.choice(rng.choice(pools))
        if case_sensitive and rng.random() < 0.2 and names:
            name = rng.choice(names).swapcase()
        taken = set(names) if case_sensitive else {folded(n) for n in names}
        if not nested and (name in RESERVED or "." in name or "`" in name):
            continue  # refused as names of columns
        if (name if case_sensitive else folded(name)) not in taken:
            names.append(name)
    return names


def quoted(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def spelled(rng: random.Random, name: str, case_sensitive: bool) -> str:
    """A name in SQL, with letters of another case where that makes no difference."""
    if case_sensitive or not name.isascii() or rng.random() < 0.6:
        return quoted(name)
    return quoted(rng.choice([name.upper(), name.lower(), name.title()]))
