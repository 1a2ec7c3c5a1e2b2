"""`maintain`: all tables of a namespace look after themselves, with one budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from lance_spark.errors import InvalidOptionError, TableNotFoundError
from lance_spark.namespace.protocol import Namespace
from lance_spark.table.compaction.compaction import COMPACTION
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.upkeep.maintain import Maintenance, Upkeep, maintain_all
from lance_spark.table.versions.snapshot import Snapshot


def maintain(
    catalog: Namespace,
    spark: Any = None,
    *,
    budget_bytes: int | None = None,
    budget_seconds: float | None = None,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment,
    filter_log: str | None = None,
    apply_recommendations: bool = False,
    dry_run: bool = False,
) -> dict[str, Maintenance]:
    """Do what the tables of a namespace, and of those inside of it, need: see `Dataset.maintain` for the arguments.

    The budget is that of all tables: of all steps, those that gain most for each byte are done first. Tasks run on the executors of the
    session `spark`, or in this process. Returns the steps by the names of tables. An error of a table is the outcome of its step,
    which begins with "failed"; other tables are looked after. Raises InvalidOptionError for a partitioned namespace.

    Examples:
        >>> import lance_spark, pyarrow as pa
        >>> lake = lance_spark.namespace("/tmp/lake")
        >>> for x in range(3):
        ...     table = lake.write(["points"], pa.table({"x": [x]}), "append" if x else "create")
        >>> [(step.action, step.what) for step in lance_spark.maintain(lake, budget_seconds=60)["points"]]
        [('compact', '3 fragments')]
    """
    if not isinstance(catalog, Namespace):
        raise InvalidOptionError(
            f"maintain looks after the tables of lance_spark.namespace(..), not of {catalog!r}; the tables of a partitioned namespace "
            "change together, by its compact and its other verbs"
        )
    upkeep = Upkeep(
        budget_bytes,
        budget_seconds,
        older_than,
        retain_versions,
        target_rows_per_fragment,
        filter_log,
        apply_recommendations,
        dry_run,
    )
    tables = {".".join(name): partial(_snapshot, catalog, name) for name in _tables(catalog, ())}
    return maintain_all(_runner(spark), tables, upkeep)


def _tables(catalog: Namespace, inside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The names of all tables, those of namespaces inside of others, too."""
    yield from ((*inside, name) for name in catalog.list_tables(inside))
    for name in catalog.list_namespaces(inside):
        yield from _tables(catalog, (*inside, name))


def _snapshot(catalog: Namespace, name: Sequence[str]) -> Snapshot | None:
    """The latest version of a table; None if it is only declared."""
    try:
        return catalog.open(tuple(name)).snapshot
    except TableNotFoundError:
        if catalog.lost_location(tuple(name)) is not None:
            raise
        return None


def _runner(spark: Any) -> Runner:
    if spark is None:
        return Here()
    from lance_spark.verbs.job import OnExecutors  # needs pyspark, which other callers need not have

    return OnExecutors(spark, spark.sparkContext.defaultParallelism)
