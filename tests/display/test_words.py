"""Numbers and names in readable form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.display.words import counted, number, percent, printable, size
from lance_spark.errors import one_line


@pytest.mark.parametrize(
    ("bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (2**40, "1.0 TiB"),
        (2**70, "1,024.0 EiB"),
        (None, "unknown"),
    ],
)
def test_sizes_have_binary_units(bytes: int | None, text: str) -> None:
    assert size(bytes) == text


def test_counts_have_commas_and_plurals() -> None:
    assert [counted(n, "row") for n in (0, 1, 1234567, None)] == ["0 rows", "1 row", "1,234,567 rows", "unknown rows"]
    assert number(None) == "unknown"
    assert (percent(1, 8), percent(1, 10**6), percent(0, 5), percent(0, 0)) == ("12.5%", "<0.1%", "0.0%", "")


def test_control_characters_are_escaped_and_long_names_are_cut() -> None:
    assert one_line("a\n\x1b[31m\u202eb\x00") == "a\\n\\x1b[31m\\u202eb\\x00"
    assert one_line("größe 表 🙂") == "größe 表 🙂"
    assert printable("x" * 500) == "x" * 200 + "…"


@given(st.text(alphabet=st.characters()))
def test_every_text_becomes_one_printable_line(text: str) -> None:
    assert one_line(text).isprintable()
