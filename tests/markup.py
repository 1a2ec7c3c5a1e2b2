"""HTML as a browser parses it: elements, attributes and text."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31m\u202e\n"
"""A name that would run as script, colour a terminal, turn the direction of writing and break a line."""
VOID = {"meta", "br", "img", "link", "input", "rect"}


class Markup(HTMLParser):
    """`tags` in order, all `attributes`, and the `text`. Raises AssertionError if a closing tag does not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"{tag} is closed, but not open"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_harmless(text: str) -> Markup:
    """`text` runs nothing, loads nothing, and has no control characters."""
    markup = Markup(text)
    assert not {"script", "img", "iframe", "object", "link", "a"} & set(markup.tags)
    assert not [name for name, _ in markup.attributes if name.startswith("on") or name in ("src", "href")]
    assert not [value for _, value in markup.attributes if "url(" in value or "javascript:" in value]
    assert "\x1b" not in text
    assert "\u202e" not in text
    return markup
