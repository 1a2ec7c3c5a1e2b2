"""Statements that mean one of Spark's own, such as REPLACE t WHERE .. AS .. of the JVM connector: they are handed on as that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import InvalidOptionError, TableNotFoundError, UnsupportedFeatureError
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


def inserted(rest: Tokens) -> SparkStatement:
    """`INSERT INTO t [[AS] alias] REPLACE USING (columns) query` and `.. REPLACE ON (condition) query`, as one MERGE."""
    if rest.take("PARTITION"):
        chosen = rest.in_parentheses()
        what = f"PARTITION ({chosen}): a lance table has no partitions"
        condition = chosen.replace(",", " AND")
        raise UnsupportedFeatureError(f"{what}; write INSERT INTO {rest.table} REPLACE WHERE {condition} SELECT .., with all columns")
    alias = ""
    if not rest.comes("BY NAME") and not rest.comes("REPLACE"):
        rest.take("AS")
        alias = rest.name()
    if rest.take("BY NAME"):
        raise UnsupportedFeatureError("INSERT .. BY NAME REPLACE: leave out BY NAME, and SELECT the columns in the order of the table")
    rest.need("REPLACE")
    columns = rest.columns()
    if rest.take("USING"):
        condition = _equal(columns, rest.paths(), alias or rest.table)
    else:
        rest.need("ON")
        condition = rest.in_parentheses()
    query, source = rest.query()
    values = [f"__new.__{number}" for number in range(1, len(columns) + 1)]
    return SparkStatement(
        f"MERGE INTO {rest.table} {alias} USING ({_twice(query, source or '__row', len(columns))}) AS __new "
        f"ON NOT __new.__is_inserted AND ({condition}) WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED AND __new.__is_inserted THEN INSERT ({', '.join(map(_quoted, columns))}) VALUES ({', '.join(values)})"
    )


def _equal(columns: Sequence[str], used: Sequence[str], table: str) -> str:
    """The condition that the columns `used` of the table are those of the query, which has the table's columns in order."""
    places = {name.lower(): number for number, name in enumerate(columns, 1)}
    terms = []
    for name in used:
        plain = name.strip("`").lower()
        if plain not in places:
            raise InvalidOptionError(f"REPLACE USING ({name}): the table has no such column; its columns are {', '.join(columns)}")
        terms.append(f"{table}.{name} = __new.__{places[plain]}")
    return " AND ".join(terms)


def _twice(query: str, alias: str, count: int) -> str:
    """Each row of a query twice: once to find the rows that it replaces, and once to be inserted.

    The query is evaluated once. Its columns are `__1` and so on, so that no name but that of the struct `alias` is one of it.
    """
    names = ", ".join(f"__{number}" for number in range(1, count + 1))
    rows = f"SELECT struct(__query.*) AS __row FROM ({query}) AS __query"
    return (
        f"SELECT __row AS {alias}, __values.*, __is_inserted FROM ({rows}) LATERAL VIEW inline(array(__row)) __values AS {names} "
        "LATERAL VIEW explode(array(true, false)) __each AS __is_inserted"
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_BITS = {"TINYINT": 8, "BYTE": 8, "SMALLINT": 16, "SHORT": 16, "INT": 32, "INTEGER": 32, "BIGINT": 64, "LONG": 64}


def retyped(rest: Tokens) -> SparkStatement:
    """`ALTER COLUMN c TYPE t`, which is Spark's. Raises UnsupportedFeatureError for a smaller integer, of which Spark says less."""
    sql, column = rest.statement, rest.path()
    rest.need("TYPE")
    type = rest.until()
    bits = _BITS.get(type.upper())
    if bits is not None and _is_longer(rest, column, bits):
        raise UnsupportedFeatureError(
            f"ALTER COLUMN {column} TYPE {type}: SQL makes types wider only; write "
            f"LanceTable.forName(spark, '{rest.table}').alterColumn('{column}', type='{type.lower()}'), which checks that all values fit"
        )
    return SparkStatement(sql)


def _is_longer(rest: Tokens, column: str, bits: int) -> bool:
    """Whether a column has integers of more bits. False of a table of the session catalog that has no version yet."""
    try:
        old = rest.types().get(column.strip("`").lower())
    except TableNotFoundError:
        return False
    return old is not None and pa.types.is_integer(old) and old.bit_width > bits


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
