"""Tables of text: aligned as text, escaped as HTML."""

from __future__ import annotations

from lance_spark.display.listing import SHOWN, Listing, left_out
from lance_spark.display.table import Table
from tests.markup import HOSTILE, assert_harmless


def test_text_is_aligned_with_numbers_on_the_right() -> None:
    table = Table(("name", "rows", ""), [("a", "5", "x"), ("  longer", "1,000", "")], frozenset(["rows"]), note="... and 3 more")
    assert str(table).splitlines() == ["name       rows", "a             5  x", "  longer  1,000", "... and 3 more"]


def test_html_keeps_indentation_and_shows_markup_as_text() -> None:
    markup = assert_harmless(Table(("name",), [("  inner",), (HOSTILE,)], note=HOSTILE)._repr_html_())
    assert markup.tags.count("td") == 2
    assert "\u00a0\u00a0inner" in markup.text
    assert "<script>alert(1)</script>" in markup.text


class Numbers(Listing[int]):
    def table(self, shown: int = SHOWN) -> Table:
        return Table(("n",), [(str(n),) for n in self[:shown]], note=left_out(self, shown=shown))


def test_a_listing_is_a_list_that_prints_as_a_table_of_bounded_length() -> None:
    numbers = Numbers(range(250))
    assert numbers == list(range(250))
    assert repr(numbers) == repr(list(range(250)))
    assert str(numbers).splitlines()[0] == "n"
    assert str(numbers).splitlines()[-1] == "... and 150 more"
    assert len(str(numbers).splitlines()) == SHOWN + 2
    assert assert_harmless(numbers._repr_html_()).tags.count("td") == SHOWN
