"""RLIKE matches Java's regular expressions or is refused."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.errors import InvalidOptionError
from lance_spark.predicate.regex import for_re2


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("b", ["abc"], ["ac"]),
        ("^a.c", ["abc", "a\u00e9c", "a\U0001f600c"], ["a\nc", "a\rc", "a\u0085c", "a\u2028c", "xabc"]),
        (r"^\s+\z", [" \t\x0b\f\r\n"], ["\u00a0", "a"]),
        (r"^\S\z", ["a", "\u00a0"], ["\x0b"]),
        (r"^[\sx]+\z", ["x\x0b"], ["y"]),
        (r"^[^\s]\z", ["s"], ["\x0b"]),
        (r"^[\\s]+\z", ["\\s"], [" "]),
        (r"^\d{2,3}\z", ["12", "123"], ["1", "1234", "\u0661\u0662"]),
        (r"^\w+@[a-z0-9_.-]+\.(?:com|org)\z", ["joe@a-b.c.org"], ["jo\u00e9@x.com"]),
        ("^[^a-c]+?b", ["xb", "\nb"], ["ab"]),
    ],
)
def test_patterns_of_both_dialects_mean_what_they_mean_in_java(pattern: str, found: list[str], not_found: list[str]) -> None:
    values = pc.match_substring_regex(pa.array(found + not_found), for_re2(pattern))
    assert values.to_pylist() == [True] * len(found) + [False] * len(not_found)


@pytest.mark.parametrize(
    "pattern",
    ["a$", r"\bword", "(?i)a", "(?=a)", "(?<n>a)", r"(a)\1", "a*+", "a++", r"\p{L}", r"\h", r"\R", r"\Qa\E",
     r"\Z", r"\x41", r"\u0041", r"\v", "[a&&b]",
     "[[:alpha:]]", "[a[b]]", r"[\w-z]", r"[\D]", "[]a]", "a{,3}", "{", "*a", "a**", "^*", "(*)", "|*",
     "(", ")", "[a", "[b-a]", "a{2001}", "\\"],
)  # fmt: skip
def test_patterns_that_may_differ_in_java_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidOptionError, match="the regular expression"):
        for_re2(pattern)
