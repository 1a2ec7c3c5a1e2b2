"""Recommendations: indexes and columns to cluster by, of the filters that scans have noted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lance_spark.display.words import number, size
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.compaction.clustered import Clustered
from lance_spark.table.scan.filter_log import Kind, Noted, read_log
from lance_spark.table.upkeep.step import Step
from lance_spark.table.upkeep.steps import ClusterBy, CreateIndex
from lance_spark.table.upkeep.waste import Sizes, bytes_of
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.order import has_order

_FEWEST_SCANS = 10
"""With fewer scans, a recommendation would be a guess."""
_MANY_ROWS = 0.1
"""A scan that reads a larger share of the rows than this would gain from an index or an order."""
_MOST_COLUMNS = 2
"""Each further column makes the ranges of all others wider."""


@dataclass(frozen=True)
class _Use:
    """How scans use a column: so many scans read many rows for a condition on it, of so many in the log."""

    column: str
    scans: int
    of_all: int
    bytes_read: int

    @property
    def gain(self) -> int:
        """The bytes that an average scan reads for it."""
        return self.bytes_read // max(self.of_all, 1)


def recommendations(snapshot: Snapshot, path: str) -> Iterator[Step]:
    """The steps that the log at `path` recommends for this table. Nothing is changed."""
    lines = read_log(path, snapshot.store.uri)
    if len(lines) < _FEWEST_SCANS:
        return
    sizes = Sizes.of(snapshot)
    total = int(sizes.live_bytes.sum())
    schema = snapshot.manifest.schema
    known = {quoted([field.name for field in fields]): fields for fields in schema.paths() if has_order(fields[-1])}
    indexed = {field for index in snapshot.manifest.indexes if index.name not in SYSTEM_INDEXES for field in index.fields}
    for use in _uses(lines, "equal", total):
        fields = known.get(use.column)
        if fields is not None and fields[-1].id not in indexed:
            cost = int(bytes_of(snapshot, schema.select([use.column]), sizes.rows).sum())
            yield CreateIndex(_why(use, fields, "want single values"), cost, use.gain, _name(fields))
    ranges = [use for use in _uses(lines, "range", total) if use.column in known][:_MOST_COLUMNS]
    if ranges and not Clustered.of(snapshot).columns:
        why = "; ".join(_why(use, known[use.column], "want ranges") for use in ranges)
        yield ClusterBy(why, total, sum(use.gain for use in ranges), tuple(_name(known[use.column]) for use in ranges))


def _name(path: Sequence[Field]) -> str:
    """The path of a column as a user writes it: in backticks only where it must be."""
    return ".".join(quoted([field.name]) if "." in field.name or "`" in field.name else field.name for field in path)


def _why(use: _Use, path: Sequence[Field], want: str) -> str:
    return f"{number(use.scans)} of {number(use.of_all)} scans {want} of {_name(path)}, and read {size(use.bytes_read)}"


def _uses(lines: Sequence[Noted], kind: Kind, total: int) -> list[_Use]:
    """The columns of conditions of a kind for which scans read many rows, those with the most bytes first."""
    scans, read = Counter[str](), Counter[str]()
    for line in lines:
        share = line.read / max(line.rows, 1)
        for column, own in line.columns.items():
            if own == kind and share > _MANY_ROWS:
                scans[column] += 1
                read[column] += int(total * share)
    return [_Use(column, scans[column], len(lines), count) for column, count in read.most_common()]
