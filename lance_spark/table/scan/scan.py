"""A scan of a snapshot: a plan whose rows are read on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from lance_spark.arrow.stream import ArrowStream
from lance_spark.display.listing import SHOWN, left_out
from lance_spark.display.table import Table, escape
from lance_spark.table.scan.explain import explain
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.versions.snapshot import Snapshot, in_use


class Task(Protocol):
    """A part of a scan, see `ScanTask.read`."""

    def read(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class Scan(ArrowStream):
    """A scan from `Dataset.scan`. Rows are read on request."""

    snapshot: Snapshot
    plan: ScanPlan

    def __repr__(self) -> str:
        plan = self.plan
        asked = {"columns": plan.columns and list(plan.columns), "filter": plan.predicate and plan.predicate.text, "limit": plan.limit}
        words = [f"{name}={value!r}" for name, value in {**asked, "offset": plan.offset or None}.items() if value is not None]
        name = type(self).__name__.removeprefix("Merged")
        return f"{name}({', '.join([repr(self.snapshot.store.uri), f'version={self.snapshot.version}', *words])})"

    def _repr_html_(self) -> str:
        """The scan, and the columns of its result."""
        rows = [(field.name, str(field.type)) for field in self.schema]
        return f"<div><code>{escape(repr(self))}</code>{Table(('column', 'type'), rows[:SHOWN], note=left_out(rows))._repr_html_()}</div>"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self.plan.schema(self.snapshot)

    def tasks(self, plan: ScanPlan) -> Sequence[Task]:
        """The tasks of a plan of this scan."""
        # Rows without columns are read as addresses, which need no file.
        nothing = not plan.counts_rows and not plan.fields(self.snapshot).fields
        return plan_tasks(self.snapshot, replace(plan, with_row_address=True) if nothing else plan)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the table's order."""
        counting = not self.plan.fields(self.snapshot).fields
        with in_use(self.snapshot):
            for task in self.tasks(self.plan):
                for batch in task.read():
                    yield batch.select([]) if counting else batch

    def explain(self) -> str:
        """What the scan will do: the filter, the indexes that it uses, and the rows that they leave.

        Examples:
            >>> from lance_spark import Dataset
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3]}))
            >>> print(table.scan(filter="id = 2").explain().partition("\\n")[2])
              filter: id = 2
              indexes: none
              scanned: 3 rows in 1 fragments
        """
        with in_use(self.snapshot):
            return explain(self.snapshot, self.plan)

    def count_rows(self) -> int:
        """The number of rows. Nothing is read of rows that indexes find."""
        if self.plan.limit is not None or self.plan.offset:
            return sum(batch.num_rows for batch in self._batches())
        with in_use(self.snapshot):
            tasks = self.tasks(replace(self.plan, columns=(), with_row_id=False, with_row_address=False, counts_rows=True))
            return sum(batch.column(0)[0].as_py() for task in tasks for batch in task.read())
