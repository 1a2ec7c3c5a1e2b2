"""Values of figures, which notebooks show as a table."""

from __future__ import annotations

import dataclasses

from lance_spark.display.table import Table
from lance_spark.display.words import number, size


class Figures:
    """A dataclass of figures. Fields with `repr=False` are left out, those of bytes get units."""

    def _repr_html_(self) -> str:
        assert dataclasses.is_dataclass(self)
        rows = [(_words(f.name), _value(f.name, getattr(self, f.name))) for f in dataclasses.fields(self) if f.repr]
        return Table((type(self).__name__, ""), rows, frozenset([""]))._repr_html_()


def _words(name: str) -> str:
    return name.removeprefix("num_").replace("_", " ")


def _value(name: str, value: object) -> str:
    if not isinstance(value, int):
        return str(value)
    return size(value) if "bytes" in name else number(value)
