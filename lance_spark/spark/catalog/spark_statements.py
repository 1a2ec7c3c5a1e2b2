"""Statements that mean one of Spark's own, such as REPLACE t WHERE .. AS .. of the JVM connector: they are handed on as that."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.spark.catalog.statement_tokens import Tokens


@dataclass(frozen=True)
class SparkStatement:
    """The text of a statement of Spark's own."""

    sql: str


def replaced_rows(rest: Tokens) -> SparkStatement:
    """`REPLACE t WHERE condition AS query`."""
    rest.need("WHERE")
    condition = rest.until("AS")
    rest.need("AS")
    return SparkStatement(f"INSERT INTO {rest.table} REPLACE WHERE {condition} {rest.until()}")


def analyzed(rest: Tokens) -> SparkStatement:
    """`ANALYZE TABLE t COMPUTE STATISTICS`, with whatever follows."""
    rest.need("COMPUTE")
    rest.take("DELTA")
    rest.need("STATISTICS")
    if not rest.is_done:
        rest.until()
    return SparkStatement("SELECT 'nothing is needed: a scan takes rows, bytes and bounds from the table itself' AS status")


def write_order(rest: Tokens) -> SparkStatement:
    """Iceberg's `WRITE ORDERED BY`, which is the clustering of the table here."""
    if rest.take("UNORDERED"):
        return SparkStatement(f"ALTER TABLE {rest.table} CLUSTER BY NONE")
    rest.take("LOCALLY")
    if not rest.take("ORDERED BY"):
        raise UnsupportedFeatureError("WRITE DISTRIBUTED BY: lance tables have no partitions; write ALTER TABLE t CLUSTER BY (a, b)")
    columns: list[str] = []
    while not columns or rest.take(","):
        columns.append(rest.path())
        rest.take("ASC")
        if rest.take("DESC") or rest.take("NULLS"):
            raise UnsupportedFeatureError(
                "WRITE ORDERED BY: a table is clustered by columns in no direction; leave out DESC and NULLS FIRST or LAST"
            )
    return SparkStatement(f"ALTER TABLE {rest.table} CLUSTER BY ({', '.join(columns)})")


def check_fields(rest: Tokens) -> None:
    """Raise UnsupportedFeatureError for Iceberg's partition and identifier fields."""
    for verb in ("ADD", "DROP", "REPLACE", "SET"):
        if rest.take(f"{verb} PARTITION FIELD"):
            raise UnsupportedFeatureError(f"{verb} PARTITION FIELD: lance tables have no partitions; write ALTER TABLE t CLUSTER BY (a, b)")
        if rest.take(f"{verb} IDENTIFIER FIELDS"):
            advice = (
                "write ALTER TABLE t SET UNENFORCED PRIMARY KEY (a, b)" if verb == "SET" else "a primary key is declared once and stays"
            )
            raise UnsupportedFeatureError(f"{verb} IDENTIFIER FIELDS: lance tables have a primary key; {advice}")


@dataclass(frozen=True)
class ColumnValues:
    """The rows of a query with row addresses, whose other columns become columns of the table, or replace theirs."""

    kind: str
    columns: tuple[str, ...]
    query: str


def columns_of_a_view(verb: str, rest: Tokens) -> ColumnValues:
    """`ADD COLUMNS a, b FROM view` and `UPDATE COLUMNS a, b FROM view` of the JVM connector; the view has `_rowaddr`."""
    columns = tuple(rest.paths())
    rest.need("FROM")
    view = rest.until()
    if len({name.lower() for name in columns}) < len(columns):
        raise InvalidOptionError(f"{verb} COLUMNS names a column twice: {', '.join(columns)}")
    # A task writes whole fragments, in the order of their rows.
    order = "DISTRIBUTE BY shiftright(_rowaddr, 32) SORT BY _rowaddr"
    query = f"SELECT _rowaddr, {', '.join(columns)} FROM {view} WHERE _rowaddr IS NOT NULL {order}"
    return ColumnValues(f"{verb} COLUMNS", columns, query)
