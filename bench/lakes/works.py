"""The works, in the order in which every round does them, with the same statements for all contestants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.lakes.contestants import Lake
from bench.tpch import QUERIES, TABLES

Answer = list[str] | None
OTHERS = tuple(name for name in TABLES if name != "lineitem")
TRAVELLED = "SELECT count(*), sum(l_quantity), sum(l_partkey) FROM {}"
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


def _consume(query: str, what: str = "lineitem") -> Callable[[Round], Answer]:
    def run(at: Round) -> Answer:
        at.lake.consume(query.format(at.name(what)))
        return None

    return run


def _query(query: str, what: str = "lineitem") -> Callable[[Round], Answer]:
    return lambda at: rows(at, query.format(at.name(what)))


def _statement(statement: Callable[[Round], str]) -> Callable[[Round], Answer]:
    def run(at: Round) -> Answer:
        at.lake.sql(statement(at))
        return None

    return run


def _writing() -> Iterator[Work]:
    def source(at: Round, name: str = "lineitem") -> str:
        return f"parquet.`{at.source.tables[name]}`"

    def by_frame(at: Round) -> Answer:
        at.lake.write(at.table("by_frame"), at.lake.spark.read.parquet(at.source.tables["lineitem"]))
        return None

    def by_statement(at: Round) -> Answer:
        at.lake.create(at.table(), f"SELECT * FROM {source(at)}")
        return None

    def others(at: Round) -> None:
        if at.number == 0:
            for name in OTHERS:
                at.lake.create(name, f"SELECT * FROM {source(at, name)}")
        for name in OTHERS:
            at.lake.spark.sql(f"SELECT * FROM {at.lake.name(name)}").createOrReplaceTempView(name)
        at.lake.spark.sql(f"SELECT * FROM {at.name()}").createOrReplaceTempView("lineitem")

    yield Work("write by DataFrame", by_frame, written=True)
    yield Work("CREATE TABLE .. AS SELECT", by_statement, written=True)
    yield Work("count(*)", _query("SELECT count(*) FROM {}"), prepare=others)


def _reading() -> Iterator[Work]:
    def filtered(at: Round) -> Answer:
        low = at.source.keys // 2
        high = low + at.source.keys // 100
        return rows(at, f"SELECT sum(l_tax), count(l_comment) FROM {at.name()} WHERE l_orderkey BETWEEN {low} AND {high}")

    yield Work("full scan", _consume("SELECT * FROM {}"))
    yield Work("2 of 16 columns", _consume("SELECT l_orderkey, l_extendedprice FROM {}"))
    yield Work("filter 1%", filtered)
    yield Work("filter a month", _consume("SELECT * FROM {} WHERE l_shipdate BETWEEN DATE '1995-06-01' AND DATE '1995-06-30'"))
    yield Work("point lookup", lambda at: rows(at, f"SELECT * FROM {at.name()} WHERE l_orderkey = {at.source.key} ORDER BY l_linenumber"))
    for number, query in QUERIES.items():
        yield Work(f"TPC-H Q{number}", lambda at, query=query: rows(at, query))  # type: ignore[misc]


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
    return f"MERGE INTO {at.name()} t USING parquet.`{source}` s ON {pairs} {both}"


def _changing() -> Iterator[Work]:
    def one(at: Round, line: int) -> str:
        return f"WHERE l_orderkey = {at.source.key} AND l_linenumber = {line}"

    def statement(name: str, text: Callable[[Round], str]) -> Work:
        return Work(name, _statement(text), changes=True, written=True)

    def read(name: str, run: Callable[[Round], Answer]) -> Work:
        return Work(name, run, changes=True)

    yield statement("DELETE of one row", lambda at: f"DELETE FROM {at.name()} {one(at, 1)}")
    yield statement("UPDATE of one row", lambda at: f"UPDATE {at.name()} SET l_comment = 'one row' {one(at, 2)}")
    yield statement("MERGE of one row", lambda at: _merge(at, at.source.one))
    yield statement("DELETE of 1%", lambda at: f"DELETE FROM {at.name()} WHERE l_orderkey % 97 = 7")
    yield statement("UPDATE of 1%", lambda at: f"UPDATE {at.name()} SET l_comment = concat('u', l_comment) WHERE l_orderkey % 101 = 3")
    yield statement("MERGE of 1%, and 1% new", lambda at: _merge(at, at.source.changes))
    yield read("figures after changes", _query(COUNTED))
    yield read("full scan after changes", _consume("SELECT * FROM {}"))
    yield read("2 of 16 columns after changes", _consume("SELECT l_orderkey, l_extendedprice FROM {}"))
    yield read("Q6 after changes", _query(QUERIES[6].replace("FROM lineitem", "FROM {}")))
    yield Work(
        "time travel to the first version", lambda at: rows(at, TRAVELLED.format(f"{at.name()} {at.lake.first_version(at.table())}")), True
    )


def _maintaining() -> Iterator[Work]:
    def backfill(at: Round) -> Answer:
        at.lake.add_column(at.table(), "net", "DECIMAL(33, 4)", "l_extendedprice * (1 - l_discount)")
        return None

    def small(at: Round) -> None:
        files = at.lake.spark.read.parquet(at.source.tables["lineitem"]).repartition(40)
        at.lake.write(at.table("files"), files)

    def compact(what: str) -> Callable[[Round], Answer]:
        def run(at: Round) -> Answer:
            at.lake.compact(at.table(what))
            return None

        return run

    def cluster(at: Round) -> Answer:
        at.lake.cluster(at.table("by_frame"), ("l_shipdate", "l_partkey"))
        return None

    def filtered(condition: str) -> Work:
        def query(at: Round) -> str:
            return f"SELECT * FROM {at.name('by_frame')} WHERE {condition}"

        def run(at: Round) -> Answer:
            at.lake.consume(query(at))
            return None

        return Work(f"clustered: {condition}", run, changes=True, read=query)

    yield Work("backfill of a column", backfill, changes=True, written=True)
    yield Work("figures after the backfill", _query("SELECT count(*), sum(net) FROM {}"), changes=True)
    yield Work("compaction after changes", compact("lineitem"), changes=True, written=True)
    yield Work("compaction of 40 files", compact("files"), changes=True, written=True, prepare=small)
    yield Work("full scan after compaction", _consume("SELECT * FROM {}"), changes=True)
    yield Work("clustering by two columns", cluster, changes=True, written=True)
    yield filtered("true")
    yield filtered("l_shipdate BETWEEN DATE '1995-06-01' AND DATE '1995-06-30'")
    yield filtered("l_partkey BETWEEN 1000 AND 2000")


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


WORKS = [work for part in (_writing, _reading, _wide, _changing, _maintaining, _small) for work in part()]
