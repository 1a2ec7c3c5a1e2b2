"""`python -m tests.currency`: print what was found and compare it with docs/currency.md; with `--write`, write that page instead."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("LANCE_LOG", "error")

import lance

from tests.currency import encodings, engines, flags, indexes, keys, operations
from tests.currency.table import markdown, names_in_binary

PAGE = Path(__file__).parents[2] / "docs" / "currency.md"
_TABLES = (
    ("Feature flags", flags, ("flag", "pylance", "lance-spark")),
    ("Operations of transactions", operations, ("field", "pylance", "lance-spark")),
    ("Kinds of indexes", indexes, ("kind", "details", "version", "files", "lance-spark")),
    ("Layouts and encodings of files", encodings, ("layout or encoding", "pylance writes it in", "lance-spark writes it in")),
    ("Metadata", keys, ("where", "key", "named in the source of lance-spark")),
)


def main() -> int:
    """Return 0 if the page is up to date or was written."""
    unstable = list(names_in_binary(rb"LANCE_ENABLE_UNSTABLE(?:_[A-Z]+)+"))
    os.environ.update(dict.fromkeys(unstable, "1"))
    page = [_head(unstable)]
    with tempfile.TemporaryDirectory() as folder:
        for title, module, head in _TABLES:
            page.append(f"## {title}\n\n{markdown(head, module.rows(Path(folder)))}")
    if of_engines := engines.part_of(PAGE.read_text()):
        page.append(of_engines)  # `make engines` keeps it up to date
    text = "\n".join(page)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    print(text)
    if difference := list(difflib.unified_diff(PAGE.read_text().splitlines(), text.splitlines(), "docs/currency.md", "found", lineterm="")):
        print(
            "\n".join(difference),
            "\ndocs/currency.md is out of date: decide what to do about it, then `make currency CURRENCY=--write`",
            file=sys.stderr,
        )
    return bool(difference)


def _head(unstable: list[str]) -> str:
    variables = ", ".join(f"`{name}`" for name in unstable) or "none"
    return f"""# What pylance writes and accepts

`make currency` has found this by trying pylance {lance.__version__}: flags are set in manifests, versions are made by transactions with one
field, indexes of each kind that its library names are made, and columns of all types are written in all storage versions. It fails when
this page is out of date. Variables that pylance needs for unstable features are set: {variables}.
"""


sys.exit(main())
