"""A search of a snapshot: the best rows for a query, which are found and fetched on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lance_spark.display.words import counted
from lance_spark.errors import InvalidOptionError
from lance_spark.predicate import Predicate
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.plan import BATCH_ROWS, ScanPlan
from lance_spark.table.scan.scan import Scan
from lance_spark.table.versions.log_rows import check_no_addresses
from lance_spark.table.versions.snapshot import Snapshot, in_use

if TYPE_CHECKING:
    from lance_spark.table.search.hits import Hits


class Query(Protocol):
    """What is searched for."""

    @property
    def prefilter(self) -> bool:
        """Whether the predicate of the plan comes before the search."""

    @property
    def columns(self) -> pa.Schema:
        """The columns that the search adds to those of the table, such as `_distance`."""

    @property
    def comes_first(self) -> tuple[str, ...]:
        """Those of the `columns` that come before all others."""

    @property
    def most_rows(self) -> int | None:
        """The largest number of rows that are found; None if there is none but the limit of the plan and the rows of the table."""

    def hits(self, snapshot: Snapshot, plan: ScanPlan) -> Hits:
        """The best rows, best first, of those that satisfy the predicate of the plan; its limit and offset are not applied."""

    def explain(self, snapshot: Snapshot, plan: ScanPlan) -> Sequence[str]:
        """What is searched for, and how; line by line."""


def only_found(snapshot: Snapshot, query: Query, predicate: Predicate) -> list[str]:
    """The columns of the predicate that the search adds; a column of the table is taken for one of its name."""
    read, own = {*predicate.columns}, {*snapshot.manifest.schema.names}
    return [name for name in query.columns.names if quoted((name,)) in read and name not in own]


@dataclass(frozen=True, repr=False)
class Search(Scan):
    """A search from `Dataset.scan`: the rows of the plan in the order of the query, with the columns that it adds.

    `columns` are the names that a user requests, with those of the query among them (None: all).
    """

    query: Query
    columns: tuple[str, ...] | None

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the result: the columns in the requested order; those that the query adds are last if they are not requested."""
        own, added = self.plan.schema(self.snapshot), self.query.columns
        chosen = len(replace(self.plan, with_row_id=False, with_row_address=False).fields(self.snapshot).fields)
        if twice := [name for name in added.names if name in own.names]:
            raise InvalidOptionError(f"a search adds the column {twice[0]!r}, but the table has a column with this name; request others")
        fields = list(own)[:chosen]
        for at, name in reversed([*enumerate(self.columns or ())]):
            if name in added.names and name not in self.query.comes_first:
                fields.insert(self._fields_before(at), added.field(name))
        there = {f.name for f in fields}
        first = [added.field(name) for name in self.query.comes_first]
        rest = [f for f in added if f.name not in there and f.name not in self.query.comes_first]
        return pa.schema([*first, *fields, *rest, *list(own)[chosen:]], metadata=own.metadata)

    def _fields_before(self, at: int) -> int:
        """The number of the table's columns that are requested before the name with the number `at`."""
        names = tuple(name for name in (self.columns or ())[:at] if name not in self.query.columns.names)
        return len(ScanPlan(names, blob_handling=self.plan.blob_handling).fields(self.snapshot).fields)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the query."""
        from lance_spark.table.search.hits import fetched  # loads the decoders

        with in_use(self.snapshot):
            found = fetched(self.snapshot, self.plan, self._hits())
        yield from found.select(self.schema.names).cast(self.schema).to_batches(self.plan.batch_size or BATCH_ROWS)

    def _hits(self) -> Hits:
        plan, condition = self._split
        found = self.query.hits(self.snapshot, plan).where(self.snapshot, condition)
        return found.window(plan.offset, plan.limit)

    @property
    def _split(self) -> tuple[ScanPlan, Predicate | None]:
        """The plan of the query, and a condition on the rows that it finds: the predicate, if it has columns that the search adds."""
        predicate = self.plan.predicate
        if predicate is not None:
            check_no_addresses(self.snapshot, predicate)
        if predicate is None or not only_found(self.snapshot, self.query, predicate):
            return self.plan, None
        return replace(self.plan, predicate=None), predicate

    def count_rows(self) -> int:
        """The number of rows that are found."""
        with in_use(self.snapshot):
            return len(self._hits())

    def explain(self) -> str:
        """What is searched for, the indexes, partitions and segments that are searched, and the rows that are searched without."""
        with in_use(self.snapshot):
            plan, condition = self._split
            lines = [*self.query.explain(self.snapshot, plan), *([] if condition is None else [f"of the rows that are found: {condition}"])]
            if (log := self.snapshot.log) is not None:
                lines.append(f"write-ahead log: {counted(log.num_rows, 'row')}; {log.replaced} of the table are left out")
            return "\n".join([f"Search of {self.snapshot}", *(f"  {line}" for line in lines)])
