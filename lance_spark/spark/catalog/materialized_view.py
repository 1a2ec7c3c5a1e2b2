"""Materialized views in Python: `lance_spark.materialized_view`. Each method is a statement of SQL."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.utils import is_remote

from lance_spark.spark.enable import enable


@dataclass(frozen=True)
class MaterializedView:
    """A materialized view, by its name in SQL."""

    spark: SparkSession
    name: str

    def refresh(self, full: bool = False) -> Row:
        """Make the view what its query is now; with `full`, of all rows of its inputs.

        Returns the figures, the version, whether the refresh was `incremental`, `full` or `none`, and the reason.
        """
        return self._first(f"REFRESH MATERIALIZED VIEW {self.name}{' FULL' if full else ''}")

    def explain(self) -> DataFrame:
        """A row for each input: what has changed, and what a refresh would do, and why."""
        return self.spark.sql(f"EXPLAIN REFRESH MATERIALIZED VIEW {self.name}")

    def verify(self, percent: float = 100) -> Row:
        """Compute the rows again, or a sample of them, and count those that are missing in the view, and those that should not be there."""
        return self._first(f"VERIFY MATERIALIZED VIEW {self.name} SAMPLE {percent} PERCENT")

    def rows(self) -> DataFrame:
        """The rows of the view."""
        return self.spark.table(self.name)

    def drop(self) -> None:
        """Remove the view."""
        self.spark.sql(f"DROP MATERIALIZED VIEW {self.name}")

    def _first(self, statement: str) -> Row:
        found = self.spark.sql(statement).first()
        assert found is not None, "the statement returns a row"
        return found


def materialized_view(spark: SparkSession, name: str, query: str | None = None, replace: bool = False) -> MaterializedView:
    """Make the materialized view `name` of a query, or with `replace` in the place of one; without a query, name one that is there.

    See docs/materialized-views.md.

    Examples:
        >>> import lance_spark
        >>> lance_spark.catalog(spark, "lance", root="/tmp/market")
        >>> _ = spark.sql("CREATE TABLE lance.sales AS SELECT id % 2 AS item, id AS price FROM range(6)")
        >>> view = lance_spark.materialized_view(spark, "lance.totals", "SELECT item, sum(price) AS total FROM lance.sales GROUP BY item")
        >>> _ = spark.sql("INSERT INTO lance.sales VALUES (1, 100)")
        >>> view.refresh().refresh
        'incremental'
        >>> view.rows().orderBy("item").collect()
        [Row(item=0, total=6), Row(item=1, total=109)]
    """
    if not is_remote():
        enable(spark)
    if query is not None:
        spark.sql(f"CREATE {'OR REPLACE ' if replace else ''}MATERIALIZED VIEW {name} AS {query}")
    return MaterializedView(spark, name)
