"""Which read the options of a DataFrame mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.kind import Read
from lance_spark.spark.read.opened import Opened, OpenedTable
from lance_spark.spark.read.rows import RowsRead

# Each kind is imported where it is meant: workers must start fast, and most reads are of rows.


@dataclass(frozen=True)
class Asked:
    """What is read: the options, for the `call` of a table function if there is one, or what is `about` the table.

    `hides_columns`: the function reads a view whose options choose columns, and may name no others.
    """

    opened: Opened
    options: ReadOptions
    about: str | None = None
    call: Mapping[str, Any] | None = None
    hides_columns: bool = False


def _about(asked: Asked) -> Read:
    from lance_spark.spark.read.about import AboutRead

    assert asked.about is not None
    table = asked.opened.table_for(" without metadata tables; query those of its tables")
    return AboutRead(table, asked.about)


def _changes(asked: Asked) -> Read:
    from lance_spark.spark.read.changes import ChangesRead

    return ChangesRead(asked.opened, asked.options)


def _branch_diff(asked: Asked) -> Read:
    from lance_spark.spark.read.branch_diff import BranchDiffRead

    assert asked.options.diffFrom is not None
    return BranchDiffRead(asked.opened.table_for(", whose branches cannot be compared"), asked.options.diffFrom, asked.options)


def _search(asked: Asked) -> Read:
    from lance_spark.spark.read.search import SearchRead

    return SearchRead(asked.opened, asked.options, asked.call, asked.hides_columns)


def _partitions(asked: Asked) -> Read:
    from lance_spark.spark.read.partitions import PartitionsRead

    return PartitionsRead(asked.opened, asked.options)


def _rows(asked: Asked) -> Read:
    return RowsRead(asked.opened, asked.options)


KINDS: tuple[tuple[Callable[[Asked], bool], Callable[[Asked], Read]], ...] = (
    (lambda asked: asked.about is not None, _about),
    (lambda asked: asked.options.diffFrom is not None, _branch_diff),
    (lambda asked: asked.options.feed.changes, _changes),
    (lambda asked: asked.options.searches, _search),
    (lambda asked: not isinstance(asked.opened, OpenedTable), _partitions),
    (lambda asked: True, _rows),
)
"""The kinds of reads. The first one that is meant is read."""


def read_of(asked: Asked) -> Read:
    """The read that is asked for."""
    return next(made(asked) for is_meant, made in KINDS if is_meant(asked))
