"""The works, in the order in which every round does them, with the same statements for all contestants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.lakes.contestants import Lake
from bench.tpch import QUERIES, TABLES

Answer = list[str] | None
READ = "read"
"""Stands for the table of lineitem that all rounds read."""
TRAVELLED = "SELECT count(*), sum(l_quantity), sum(l_partkey) FROM {}"
CLUSTERED = ("l_partkey", "l_suppkey")
"""Columns in no order. Iceberg 1.10.0 cannot cluster by a date in Spark 4.0 (its issue 14091)."""
COUNTED = "SELECT count(*), sum(l_partkey), sum(length(l_comment)), sum(l_quantity) FROM {}"


@dataclass(frozen=True)
class Source:
    """Parquet files with what is written and merged, and a key that is there. `keys` is the largest key of an order."""

    tables: dict[str, str]
    wide: str
    changes: str
    one: str
    key: int
    keys: int
    many: int
    """How many rows are appended one by one, at the end."""


@dataclass(frozen=True)
class Round:
    """A contestant's tables in a round, which has new ones."""

    lake: Lake
    source: Source
    number: int

    def table(self, what: str = "lineitem") -> str:
        """The name of a table of this round."""
        return f"{what}_{self.number}"

    def name(self, what: str = "lineitem") -> str:
        """The same, as a statement calls it."""
        return self.lake.name(self.table(what))

    def create(self, what: str) -> None:
        """Make a table of this round with the rows of lineitem."""
        self.lake.create(self.table(what), f"SELECT * FROM parquet.`{self.source.tables['lineitem']}`")

    def read(self, what: str = "lineitem") -> str:
        """The name of a table of TPC-H that all rounds read."""
        if not self.lake.folder(f"read_{what}").exists():
            self.lake.create(f"read_{what}", f"SELECT * FROM parquet.`{self.source.tables[what]}`")
        return self.lake.name(f"read_{what}")


@dataclass(frozen=True)
class Work:
    """Something to be timed. `run` returns the rows of a query, which must be those of all other contestants; None for other works.

    `prepare` is not timed. `changes` is true for what Parquet cannot do. `written` asks for the bytes of new files, `read` is a query of
    which the bytes are asked for. Those with `last` are done once, after all rounds.
    """

    name: str
    run: Callable[[Round], Answer]
    changes: bool = False
    prepare: Callable[[Round], object] | None = None
    written: bool = False
    read: Callable[[Round], str] | None = None
    last: bool = False


def rows(at: Round, query: str) -> Answer:
    """The rows of a query as text, with what doubles and decimals have in common."""
    return [", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row) for row in at.lake.sql(query)]


def _named(at: Round, what: str) -> str:
    return at.read() if what == READ else at.name(what)


def _consume(query: str, what: str) -> Callable[[Round], Answer]:
    def run(at: Round) -> Answer:
        at.lake.consume(query.format(_named(at, what)))
        return None

    return run


def _query(query: str, what: str) -> Callable[[Round], Answer]:
    return lambda at: rows(at, query.format(_named(at, what)))


def _statement(statement: Callable[[Round], str]) -> Callable[[Round], Answer]:
    def run(at: Round) -> Answer:
        at.lake.sql(statement(at))
        return None

    return run


def _writes() -> Iterator[Work]:
    def by_frame(at: Round) -> Answer:
        at.lake.write(at.table("by_frame"), at.lake.spark.read.parquet(at.source.tables["lineitem"]))
        return None

    def by_statement(at: Round) -> Answer:
        at.create("lineitem")
        return None

    yield Work("write by DataFrame", by_frame, written=True)
    yield Work("CREATE TABLE .. AS SELECT", by_statement, written=True)


def _reads() -> Iterator[Work]:
    def filtered(at: Round) -> Answer:
        low = at.source.keys // 2
        high = low + at.source.keys // 100
        return rows(at, f"SELECT sum(l_tax), count(l_comment) FROM {at.read()} WHERE l_orderkey BETWEEN {low} AND {high}")

    month = "SELECT * FROM {} WHERE l_shipdate BETWEEN DATE '1995-06-01' AND DATE '1995-06-30'"
    yield Work("count(*)", _query("SELECT count(*) FROM {}", READ), prepare=lambda at: at.read())
    yield Work("full scan", _consume("SELECT * FROM {}", READ))
    yield Work("2 of 16 columns", _consume("SELECT l_orderkey, l_extendedprice FROM {}", READ))
    yield Work("filter 1%", filtered)
    yield Work("filter a month", _consume(month, READ))
    yield Work("point lookup", lambda at: rows(at, f"SELECT * FROM {at.read()} WHERE l_orderkey = {at.source.key} ORDER BY l_linenumber"))


def _queries() -> Iterator[Work]:
    def views(at: Round) -> None:
        for name in TABLES:
            at.lake.spark.sql(f"SELECT * FROM {at.read(name)}").createOrReplaceTempView(name)

    for number, query in QUERIES.items():
        yield Work(f"TPC-H Q{number}", lambda at, query=query: rows(at, query), prepare=views if number == 1 else None)  # type: ignore[misc]


def _wide() -> Iterator[Work]:
    def write(at: Round) -> Answer:
        at.lake.create(at.table("wide"), f"SELECT * FROM parquet.`{at.source.wide}`")
        return None

    yield Work("200 columns: write", write, written=True)
    yield Work("200 columns: full scan", _consume("SELECT * FROM {}", "wide"))
    yield Work("200 columns: 3 of them", _consume("SELECT key, amount0, code2 FROM {}", "wide"))
    yield Work("200 columns: point lookup", _query("SELECT * FROM {} WHERE key = 77", "wide"))


def _merge(at: Round, source: str) -> str:
    pairs = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"
    both = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    return f"MERGE INTO {at.name('changed')} t USING parquet.`{source}` s ON {pairs} {both}"


def _changes() -> Iterator[Work]:
    def one(at: Round, line: int) -> str:
        return f"WHERE l_orderkey = {at.source.key} AND l_linenumber = {line}"

    def statement(name: str, text: Callable[[Round], str], prepare: Callable[[Round], object] | None = None) -> Work:
        return Work(name, _statement(text), changes=True, written=True, prepare=prepare)

    def read(name: str, run: Callable[[Round], Answer]) -> Work:
        return Work(name, run, changes=True)

    def travelled(at: Round) -> Answer:
        return rows(at, TRAVELLED.format(f"{at.name('changed')} {at.lake.first_version(at.table('changed'))}"))

    yield statement("DELETE of one row", lambda at: f"DELETE FROM {at.name('changed')} {one(at, 1)}", lambda at: at.create("changed"))
    yield statement("UPDATE of one row", lambda at: f"UPDATE {at.name('changed')} SET l_comment = 'one row' {one(at, 2)}")
    yield statement("MERGE of one row", lambda at: _merge(at, at.source.one))
    yield statement("DELETE of 1%", lambda at: f"DELETE FROM {at.name('changed')} WHERE l_orderkey % 97 = 7")
    yield statement(
        "UPDATE of 1%", lambda at: f"UPDATE {at.name('changed')} SET l_comment = concat('u', l_comment) WHERE l_orderkey % 101 = 3"
    )
    yield statement("MERGE of 1%, and 1% new", lambda at: _merge(at, at.source.changes))
    yield read("figures after changes", _query(COUNTED, "changed"))
    yield read("full scan after changes", _consume("SELECT * FROM {}", "changed"))
    yield read("2 of 16 columns after changes", _consume("SELECT l_orderkey, l_extendedprice FROM {}", "changed"))
    yield read("Q6 after changes", _query(QUERIES[6].replace("FROM lineitem", "FROM {}"), "changed"))
    yield read("time travel to the first version", travelled)


def _compact(what: str) -> Callable[[Round], Answer]:
    def run(at: Round) -> Answer:
        at.lake.compact(at.table(what))
        return None

    return run


def _maintenance() -> Iterator[Work]:
    def prepare(at: Round) -> None:
        at.create("kept")
        at.lake.sql(f"DELETE FROM {at.name('kept')} WHERE l_orderkey % 97 = 7")

    def backfill(at: Round) -> Answer:
        at.lake.add_column(at.table("kept"), "net", "DECIMAL(33, 4)", "l_extendedprice * (1 - l_discount)")
        return None

    yield Work("backfill of a column", backfill, changes=True, written=True, prepare=prepare)
    yield Work("figures after the backfill", _query("SELECT count(*), sum(net) FROM {}", "kept"), changes=True)
    yield Work("compaction after changes", _compact("kept"), changes=True, written=True)
    yield Work("full scan after compaction", _consume("SELECT * FROM {}", "kept"), changes=True)


def _layouts() -> Iterator[Work]:
    def small(at: Round) -> None:
        files = at.lake.spark.read.parquet(at.source.tables["lineitem"]).repartition(40)
        at.lake.write(at.table("files"), files)

    def cluster(at: Round) -> Answer:
        at.lake.cluster(at.table("files"), CLUSTERED)
        return None

    def filtered(condition: str) -> Work:
        def query(at: Round) -> str:
            return f"SELECT * FROM {at.name('files')} WHERE {condition}"

        def run(at: Round) -> Answer:
            at.lake.consume(query(at))
            return None

        return Work(f"clustered: {condition}", run, changes=True, read=query)

    yield Work("compaction of 40 files", _compact("files"), changes=True, written=True, prepare=small)
    yield Work("clustering by two columns", cluster, changes=True, written=True)
    for condition in ("true", "l_partkey BETWEEN 1000 AND 2000", "l_suppkey BETWEEN 100 AND 150"):
        yield filtered(condition)


def _small() -> Iterator[Work]:
    def make(what: str) -> Callable[[Round], object]:
        return lambda at: at.lake.create(at.table(what), "SELECT id FROM range(1)")

    def append(what: str, count: Callable[[Round], int]) -> Callable[[Round], Answer]:
        def run(at: Round) -> Answer:
            for i in range(1, count(at) + 1):
                at.lake.sql(f"INSERT INTO {at.name(what)} VALUES ({i})")
            return None

        return run

    def merge(at: Round) -> Answer:
        for i in range(20):
            at.lake.sql(
                f"MERGE INTO {at.name('small')} t USING (SELECT {i}L AS id) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        return None

    figures = "SELECT count(*), sum(id) FROM {}"
    yield Work("20 appends of one row", append("small", lambda at: 20), True, make("small"), written=True)
    yield Work("20 merges of one row", merge, True, written=True)
    yield Work("read after 20 appends and merges", _query(figures, "small"), True)
    yield Work("many appends of one row", append("many", lambda at: at.source.many), True, make("many"), written=True, last=True)
    yield Work("read after many appends", _query(figures, "many"), True, last=True)


PARTS = {
    "writes": list(_writes()),
    "reads": list(_reads()),
    "queries": list(_queries()),
    "wide": list(_wide()),
    "changes": list(_changes()),
    "maintenance": list(_maintenance()),
    "layouts": list(_layouts()),
    "small": list(_small()),
}
"""A part has tables of its own, and can be measured alone."""
WORKS = [work for part in PARTS.values() for work in part]
