"""A version of a table as a dataset of pyarrow, which engines ask for columns and for rows that satisfy a condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lance_spark.arrow.stream import ArrowStream
from lance_spark.display.words import nearest
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.predicate.arrow_condition import ArrowExpression, fields_of, projected
from lance_spark.schema.schema import quoted
from lance_spark.table.mem_wal.version import with_log
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.scan import Scan
from lance_spark.table.scan.take import take
from lance_spark.table.search.methods import SearchMethods

Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names of columns, or expressions by the names of the columns that they make."""

HINTS = frozenset(
    (
        "batch_readahead",
        "cache_metadata",
        "fragment_readahead",
        "fragment_scan_options",
        "memory_pool",
        "use_threads",
    )
)
"""Arguments of pyarrow's scanners that say how its own files are read. They change no row."""


class ArrowScanner(ArrowStream):
    """A scan of a dataset, with the methods of `pyarrow.dataset.Scanner` that read rows."""

    def __init__(self, scan: Scan, dataset_schema: pa.Schema, expressions: Mapping[str, pc.Expression] | None) -> None:
        self._scan = scan
        self._expressions = expressions
        self.dataset_schema = dataset_schema

    def __repr__(self) -> str:
        return f"ArrowScanner({self._scan!r})"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        if self._expressions is None:
            return self._scan.schema
        return projected(self._scan.schema.empty_table(), self._expressions).schema

    @property
    def plan(self) -> ScanPlan:
        """What the table is asked for."""
        return self._scan.plan

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the result, as pyarrow calls it."""
        return self.schema

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._scan.to_batches():
            if self._expressions is None:
                yield batch
            else:
                yield from projected(pa.Table.from_batches([batch]), self._expressions).to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows, batch by batch."""
        return self.to_batches()

    def count_rows(self) -> int:
        """The number of rows."""
        return self._scan.count_rows()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        rows: list[pa.RecordBatch] = []
        left = num_rows
        for batch in self.to_batches():
            rows.append(batch.slice(0, left))
            left -= rows[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(rows, schema=self.schema).slice(0, num_rows)

    def take(self, indices: object) -> pa.Table:
        """The rows of the result with these numbers."""
        return self.to_table().take(indices)


class ArrowDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A version of a table, from `Dataset.to_arrow_dataset`.

    Columns and conditions reach the scan of the table: fragments, pages and rows that do not satisfy the condition are not
    read as far as statistics and indexes tell. What has no other form is evaluated on the rows that are read.
    """

    def __init__(self, rows: SearchMethods, filter: pc.Expression | None = None) -> None:
        # pyarrow's own constructor belongs to datasets of its files.
        self._rows = rows
        self._filter = filter

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowDataset, (self._rows, self._filter)

    def __repr__(self) -> str:
        return f"ArrowDataset({self._rows!r})"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._rows.scan().schema

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **hints: Any,
    ) -> ArrowScanner | pyarrow.dataset.Scanner:
        """A scan of some columns, or expressions of columns, of the rows that satisfy the filter.

        For `pyarrow.dataset.write_dataset`, it is a scanner of pyarrow, which can be read once.
        """
        found = self._scanner(columns, filter, batch_size, None, hints)
        if columns is None and filter is None and batch_size is None and hints.keys() == {"use_threads"}:
            # So `write_dataset` asks, whose writer takes only scanners of pyarrow.
            return pyarrow.dataset.Scanner.from_batches(found.to_reader(), use_threads=hints["use_threads"])
        return found

    def _scanner(
        self,
        columns: Columns,
        filter: pc.Expression | None,
        batch_size: int | None,
        limit: int | None,
        hints: Mapping[str, Any],
    ) -> ArrowScanner:
        if unknown := [name for name in hints if name not in HINTS]:
            said = nearest(unknown[0], ("columns", "filter", "batch_size", *HINTS))
            raise TypeError(f"a scanner has no argument {unknown[0]!r}{said}; it has columns, filter and batch_size")
        expressions = columns if isinstance(columns, Mapping) else None
        names = columns if expressions is None else _needed(expressions, self.schema)
        scan = self._rows.scan(
            None if names is None else [quoted((name,)) for name in names],
            _both(self._filter, filter),
            limit=limit,
            batch_size=batch_size,
        )
        return ArrowScanner(scan, self.schema, expressions)

    def to_batches(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **hints: Any,
    ) -> pa.RecordBatchReader:
        """The rows, batch by batch."""
        return self._scanner(columns, filter, batch_size, None, hints).to_batches()

    def to_table(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **hints: Any,
    ) -> pa.Table:
        """All rows in memory."""
        return self._scanner(columns, filter, batch_size, None, hints).to_table()

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **hints: Any,
    ) -> pa.Table:
        """The first rows."""
        return self._scanner(columns, filter, batch_size, num_rows, hints).to_table()

    def take(
        self,
        indices: Any,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **hints: Any,
    ) -> pa.Table:
        """The rows with these numbers, of those that satisfy the filter."""
        scanner = self._scanner(columns, filter, batch_size, None, hints)
        if isinstance(columns, Mapping) or _both(self._filter, filter) is not None:
            return scanner.take(indices)
        numbers = pa.array(indices).to_numpy(zero_copy_only=False)
        return take(with_log(self._rows.snapshot), numbers, scanner.plan)

    def count_rows(self, filter: pc.Expression | None = None, batch_size: int | None = None, **hints: Any) -> int:
        """The number of rows that satisfy the filter."""
        return self._scanner([], filter, batch_size, None, hints).count_rows()

    def filter(self, expression: pc.Expression) -> ArrowDataset:
        """The dataset with only the rows that satisfy the expression."""
        return ArrowDataset(self._rows, _both(self._filter, expression))

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """The rows in another order, as a dataset in memory."""
        return pyarrow.dataset.dataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """The rows joined with those of another dataset, as a dataset in memory."""
        return pyarrow.dataset.dataset(self.to_table().join(_table_of(right_dataset), *arguments, **options))

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """The rows joined with those of another dataset by the nearest key, as a dataset in memory."""
        return pyarrow.dataset.dataset(self.to_table().join_asof(_table_of(right_dataset), *arguments, **options))

    @property
    def partition_expression(self) -> None:
        """None: rows of a table are not in folders by their values."""

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not supported: cast the rows instead."""
        raise UnsupportedFeatureError("the dataset of a Lance table keeps its schema; cast the table that it returns")

    def get_fragments(self, filter: pc.Expression | None = None) -> NoReturn:
        """Not supported: a fragment of a Lance table is no fragment of pyarrow."""
        raise UnsupportedFeatureError("the dataset of a Lance table has no fragments of pyarrow; use scanner(..)")


def _both(first: pc.Expression | None, second: pc.Expression | None) -> pc.Expression | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _needed(expressions: Mapping[str, pc.Expression], schema: pa.Schema) -> list[str]:
    """The top-level columns that the expressions need; one of all columns for constants, since it tells the number of rows."""
    fields = [field for expression in expressions.values() for field in fields_of(ArrowExpression(expression).root)]
    return list(dict.fromkeys(field.path[0] for field in fields)) or schema.names[:1]


def _table_of(dataset: Any) -> pa.Table:
    return dataset.to_table() if isinstance(dataset, pyarrow.dataset.Dataset) else dataset
