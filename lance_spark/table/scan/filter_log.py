"""A log of the filters of scans, by which upkeep recommends indexes and columns to cluster by. Nobody keeps it unless asked to.

The environment variable `LANCE_SPARK_FILTER_LOG` names a file. Each scan with a filter appends one line of JSON: the table's URI, the rows
of the version and those that the scan reads, and the columns of the conditions that all must be true, each with the kind of condition.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lance_spark.errors import CorruptFileError, MissingFileError, StorageError
from lance_spark.predicate import Predicate
from lance_spark.predicate.tree import And, Column, Compare, Expression, In, walk
from lance_spark.storage.secrets import shown
from lance_spark.table.versions.snapshot import Snapshot

VARIABLE = "LANCE_SPARK_FILTER_LOG"
Kind = Literal["equal", "range", "other"]
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Noted:
    """A line of the log: of `rows` rows, a scan read `read`. `columns` are paths as a filter names them, with the kind of the condition."""

    table: str
    rows: int
    read: int
    columns: dict[str, Kind]


def note(snapshot: Snapshot, predicate: Predicate | None, rows: np.ndarray, read: np.ndarray) -> None:
    """Append a line, if the log is kept and the scan has a filter. A log that cannot be written is a warning.

    `rows` are the numbers of rows of all fragments, `read` those of the parts that the scan reads.
    """
    path = os.environ.get(VARIABLE)
    if not path or predicate is None:
        return
    columns = dict(_conditions(predicate.root))
    line = json.dumps({"table": shown(snapshot.store.uri), "rows": int(rows.sum()), "read": int(read.sum()), "columns": columns})
    try:
        # A short line is appended at once, also if several processes write.
        with open(path, "a") as file:
            file.write(line + "\n")
    except OSError as e:
        _LOG.warning("the log of filters (%s) cannot be written: %s", VARIABLE, e)


def _conditions(root: Expression) -> Iterator[tuple[str, Kind]]:
    """The columns of conditions with one column each, of which all must be true."""
    for condition in root.operands if isinstance(root, And) else (root,):
        columns = {node.quoted for node in walk(condition) if isinstance(node, Column)}
        if len(columns) == 1:
            yield columns.pop(), _kind(condition)


def _kind(condition: Expression) -> Kind:
    if isinstance(condition, In) and isinstance(condition.operand, Column):
        return "equal"
    if isinstance(condition, Compare) and isinstance(condition.left, Column):
        return "equal" if condition.op in ("=", "<=>") else "other" if condition.op == "<>" else "range"
    return "other"


def read_log(path: str, table: str) -> list[Noted]:
    """The lines of a table. Raises MissingFileError and StorageError, and CorruptFileError for a line that is none of a log."""
    if not os.path.exists(path):
        raise MissingFileError(f"{path}: there is no log of filters; scans keep one if {VARIABLE} names its file")
    try:
        with open(path, "rb") as file:
            noted = [_noted(path, number, line) for number, line in enumerate(file, 1)]
    except OSError as e:
        raise StorageError(f"{path}: the log of filters cannot be read: {e}") from e
    return [line for line in noted if line.table == shown(table)]


def _noted(path: str, number: int, line: bytes) -> Noted:
    """A line of a log."""
    try:
        found = json.loads(line)
        columns: dict[str, Kind] = dict(found["columns"])
        return Noted(str(found["table"]), int(found["rows"]), int(found["read"]), columns)
    except (ValueError, TypeError, KeyError) as e:
        raise CorruptFileError(f"{path}: line {number} is not one of a log of filters: {e}") from e
