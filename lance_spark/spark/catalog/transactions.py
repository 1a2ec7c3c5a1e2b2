"""Transactions of a catalog: `lance_spark.transaction`, and BEGIN TRANSACTION, COMMIT and ROLLBACK in SQL.

While one is open, the catalog has the setting `transaction`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lance_spark.errors import CommitConflictError, InvalidOperationError, InvalidOptionError, UnsupportedFeatureError, logged
from lance_spark.namespace.protocol import TRANSACTION, NamespaceTransaction
from lance_spark.spark.catalog_settings import Catalog, is_lance_catalog
from lance_spark.spark.enable import enable
from lance_spark.spark.stopped import check_running

Id = Sequence[str]


@contextlib.contextmanager
def transaction(spark: SparkSession, catalog: str = "lance") -> Iterator[None]:
    """Change several tables of a catalog of `lance_spark.catalog` at once: other readers of it see all of the changes, or none.

    In the block, the catalog's tables are as the transaction sees them, in SQL, DataFrames and LanceTable.forName, also for other threads
    that use the session. The changes are committed at the end, and rolled back if the block raises an error. What names a table by its
    path is outside of the transaction. See docs/transactions.md. Raises CommitConflictError if another writer has changed the same rows,
    and UnsupportedFeatureError for a catalog that is no directory, and with Spark Connect, which takes BEGIN TRANSACTION in SQL.

    Examples:
        >>> import lance_spark
        >>> lance_spark.catalog(spark, "lance", root="/tmp/lake")
        >>> for name in ("debit", "credit"):
        ...     _ = spark.sql(f"CREATE TABLE lance.{name} AS SELECT 100 AS amount")
        >>> with lance_spark.transaction(spark, "lance"):
        ...     _ = spark.sql("UPDATE lance.debit SET amount = amount - 30")
        ...     _ = spark.sql("UPDATE lance.credit SET amount = amount + 30")
        >>> spark.table("lance.debit").union(spark.table("lance.credit")).collect()
        [Row(amount=70), Row(amount=130)]
    """
    if is_remote():
        raise UnsupportedFeatureError(
            f"with Spark Connect, write spark.sql('BEGIN TRANSACTION IN {catalog}'), and COMMIT or ROLLBACK IN {catalog}"
        )
    enable(spark)
    plugin = _plugin(spark, catalog)
    plugin.enter(begin(Catalog(dict(plugin.settings()))))
    try:
        yield
    except BaseException:
        with logged(f"rolling back the transaction of the catalog {catalog}"):
            _end(spark, plugin, roll_back)
        raise
    _end(spark, plugin, commit)


def _end(spark: SparkSession, plugin: Any, ends: Callable[[Catalog], None]) -> None:
    """Commit a transaction or roll it back; either way, the session is outside of it then."""
    check_running(spark, "lance_spark.transaction")
    settings = dict(plugin.settings())
    try:
        ends(Catalog(settings))
    finally:
        plugin.enter(None)


def _plugin(spark: SparkSession, name: str) -> Any:
    """The catalog of a name, in Java. Raises InvalidOptionError if there is none, and UnsupportedFeatureError for one of others."""
    session: Any = spark._jsparkSession
    manager = session.sessionState().catalogManager()
    if not manager.isCatalogRegistered(name):
        raise InvalidOptionError(f"the session has no catalog {name!r}; lance_spark.catalog(spark, {name!r}, root=..) adds it")
    found = manager.catalog(name)
    if not is_lance_catalog(found.getClass()):
        raise UnsupportedFeatureError(f"the catalog {name!r} has no transactions: it is not one of lance_spark.catalog")
    return found


def begin(catalog: Catalog, id: Id = ()) -> str:
    """Begin a transaction, and return its id. Raises UnsupportedFeatureError for another namespace than a directory."""
    return catalog.namespace.begin_transaction().id


def commit(catalog: Catalog, id: Id = ()) -> None:
    """Commit the transaction of the catalog. Raises InvalidOperationError if there is none."""
    opened = _opened(catalog, "COMMIT")
    try:
        opened.commit()
    except InvalidOperationError as e:
        if not catalog.asked.is_again:
            raise
        # If the process that was asked first had committed it, its record would have been found.
        what = "the transaction has ended without a commit: it changed nothing, or there was a conflict; run it again"
        raise CommitConflictError(f"COMMIT: {what}", retryable=True) from e


def roll_back(catalog: Catalog, id: Id = ()) -> None:
    """Roll the transaction of the catalog back. Raises InvalidOperationError if there is none."""
    opened = _opened(catalog, "ROLLBACK")
    with contextlib.suppress(*([InvalidOperationError] if catalog.asked.is_again else [])):
        opened.roll_back()


def _opened(catalog: Catalog, verb: str) -> NamespaceTransaction:
    if TRANSACTION not in catalog.settings:
        raise InvalidOperationError(f"{verb}: the catalog has no open transaction; write BEGIN TRANSACTION first")
    namespace = catalog.namespace
    assert isinstance(namespace, NamespaceTransaction)
    return namespace
