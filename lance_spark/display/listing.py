"""Lists that print as tables, and mappings that notebooks show as tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from typing import TypeVar

from lance_spark.display.table import Table
from lance_spark.display.words import number

T = TypeVar("T")

SHOWN = 100
"""The default number of rows that are shown."""


def left_out(items: Sized, what: str = "more", shown: int = SHOWN) -> str:
    """The note below a table of at most `shown` of the items: how many are left out."""
    return f"... and {number(len(items) - shown)} {what}" if len(items) > shown else ""


class Listing(list[T], ABC):
    """A list that prints, and shows in notebooks, as a table of at most `SHOWN` items."""

    @abstractmethod
    def table(self, shown: int = SHOWN) -> Table:
        """The items as rows, at most `shown` of them."""

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Named(dict[str, T], ABC):
    """A dictionary of values by name, which notebooks show as a table of at most `SHOWN` of them."""

    @abstractmethod
    def table(self, shown: int = SHOWN) -> Table:
        """The values as rows, at most `shown` of them."""

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
