"""Writes the table of options into docs/options.md: `make options`."""

from pathlib import Path

from lance_spark.spark.options.page import updated

PAGE = Path(__file__).parent.parent / "docs" / "options.md"

PAGE.write_text(updated(PAGE.read_text()))
