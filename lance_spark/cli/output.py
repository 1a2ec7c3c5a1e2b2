"""Values as JSON, and rows as text or JSON, on standard output."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lance_spark.display.table import Table
from lance_spark.display.words import printable

if TYPE_CHECKING:
    import pyarrow as pa


def print_json(value: Any) -> None:
    """Print a value of dataclasses, lists, mappings and plain values; times are ISO 8601, in UTC, and bytes are hexadecimal."""
    print(json.dumps(_plain(value), indent=2, default=_text))


def print_rows(rows: pa.Table, as_json: bool) -> None:
    """Print rows as lines side by side, or as a list of JSON."""
    if as_json:
        print_json(rows.to_pylist())
        return
    import pyarrow as pa  # help and usage errors do not need it

    cells = [["null" if value is None else str(value) for value in column.to_pylist()] for column in rows.columns]
    headers = [printable(name) for name in rows.column_names]
    is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    numbers = frozenset(header for header, t in zip(headers, rows.schema.types) if any(of(t) for of in is_number))
    print(Table(headers, list(zip(*cells)), right=numbers))


def print_table(columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows side by side, under the names of the columns, whose types are those of Spark."""
    numbers = frozenset(name for name, kind in columns.items() if kind in ("bigint", "double"))
    cells = [[_cell(value) for value in row] for row in rows]
    print(Table(list(columns), cells, right=numbers))


def _cell(value: Any) -> str:
    """A value as one line of text."""
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(_plain(value), default=_text)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _text(value: Any) -> str:
    """A value that JSON has not, such as a decimal or a date."""
    return value.hex() if isinstance(value, bytes) else str(value)
