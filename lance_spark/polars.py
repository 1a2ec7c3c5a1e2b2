"""Lance tables as lazy frames of polars, which must be installed: `pip install 'lance-spark[polars]'`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import polars
from polars.io.plugins import register_io_source

from lance_spark.dataset import Dataset
from lance_spark.schema.schema import quoted
from lance_spark.table.engines.polars_conditions import from_polars


def scan_lance(table: str | PathLike[str] | Dataset, **options: Any) -> polars.LazyFrame:
    """A version of a table as a lazy frame: the columns and rows that a query needs are read when it is collected.

    `options` are those of `Dataset.open`, such as `version` and `storage_options`. The version is pinned here: what others
    commit later is not in the frame. Conditions skip fragments, pages and rows as far as statistics and indexes tell; polars
    evaluates them on the rows that are read. Batches are read on request, also in the streaming engine.

    Examples:
        >>> import polars as pl
        >>> import pyarrow as pa
        >>> from lance_spark import Dataset
        >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
        >>> scan_lance("/tmp/t.lance").filter(pl.col("id") > 1).select("v").collect()["v"].to_list()
        ['b', 'c']
    """
    dataset = table if isinstance(table, Dataset) else Dataset.open(table, **options)
    schema = polars.DataFrame(dataset.schema.empty_table()).schema

    def frames(
        with_columns: list[str] | None,
        predicate: polars.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        return _frames(dataset, list(schema), with_columns, predicate, n_rows, batch_size)

    return register_io_source(frames, schema=schema, is_pure=True)


def _frames(
    dataset: Dataset,
    names: Sequence[str],
    with_columns: list[str] | None,
    predicate: polars.Expr | None,
    n_rows: int | None,
    batch_size: int | None,
) -> Iterator[polars.DataFrame]:
    """The first `n_rows` rows (None: all), then those of them that satisfy the condition."""
    chosen = list(names) if with_columns is None else with_columns
    needed = chosen if predicate is None else [*chosen, *predicate.meta.root_names()]
    # polars counts rows by a column.
    read = list(dict.fromkeys(needed)) or list(names[:1])
    plan = dataset.scan([], limit=n_rows).plan
    filter = None
    if predicate is not None and n_rows is None:
        filter = from_polars(predicate.meta.serialize(format="json"), plan.known(dataset.snapshot))
    scan = dataset.scan([quoted((name,)) for name in read], filter, limit=n_rows, batch_size=batch_size)
    for batch in scan.to_batches():
        frame = polars.DataFrame(batch)
        if predicate is not None:
            frame = frame.filter(predicate)
        yield frame.select(chosen) if chosen else frame
