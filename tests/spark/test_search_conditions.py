"""Searches through each door of Spark meet their conditions before rows are counted, in a table and in its write-ahead log.

The oracle is brute force: distances in NumPy, and the scores that pylance gives to all rows.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from lance.mem_wal import ShardWriter
from lance.query import MatchQuery, PhraseQuery
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from tests.spark_session import SPARK_ERRORS
from tests.write_ahead_logs import SCHEMA as OF_LOGS

COVERED, UNCOVERED, DIMENSIONS = 300, 40, 4
K, LIMIT, OFFSET = 8, 3, 2
CONDITION = "id % 3 = 0"
SCHEMA = pa.schema([OF_LOGS.field("id"), pa.field("v", pa.list_(pa.float32(), DIMENSIONS)), pa.field("text", pa.string())])
ALL_CELLS = settings().max_examples > 100


def rows(ids: list[int], seed: int) -> pa.Table:
    """Rows with random vectors, and texts of few words."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(len(ids), DIMENSIONS)).astype(np.float32)
    texts = [" ".join(rng.choice(["sea", "sky", "red", "blue"], rng.integers(1, 9))) for _ in ids]
    return pa.table({"id": ids, "v": list(vectors), "text": texts}, schema=SCHEMA)


@dataclass(frozen=True)
class Case:
    """A table, the vectors that a scan finds in it, and the scores of its texts."""

    uri: str
    vectors: dict[int, np.ndarray]
    scores: Callable[[str], dict[int, float]] = field(repr=False)

    def distances(self, query: list[float]) -> dict[int, float]:
        """The squared distance of each row."""
        return {i: float(((v.astype(np.float64) - query) ** 2).sum()) for i, v in self.vectors.items()}


def made(uri: str) -> str:
    """A table with indexes of vectors and of texts, rows that they do not cover, and deleted rows."""
    table = Dataset.write(uri, rows([*range(COVERED)], 1), max_rows_per_file=120)
    table = table.create_index("v", "IVF_FLAT", num_partitions=3)
    table.create_scalar_index("text", "INVERTED", with_position=True, stem=False, remove_stop_words=False)
    Dataset.write(uri, rows([*range(COVERED, COVERED + UNCOVERED)], 2), mode="append")
    Dataset.open(uri).delete("id % 7 = 3")
    return uri


def logged(uri: str) -> ShardWriter:
    """The same with a write-ahead log: it replaces, deletes and adds rows, in an SSTable and in entries, until its writer is closed."""
    lance.dataset(made(uri)).initialize_mem_wal()
    shard = "00000000-0000-0000-0000-000000000001"
    for seed, first in ((3, 0), (4, 5)):
        writer = lance.dataset(uri).mem_wal_writer(shard)
        writer.put(rows([*range(first, COVERED + UNCOVERED + 20, 11)], seed))
        writer.delete(pa.table({"id": pa.array(range(first + 2, COVERED, 29), pa.int64())}))
        if first == 0:
            writer.close()
    Dataset.open(uri).delete("id % 13 = 4")  # rows of the table; those of the log stay
    return writer


@pytest.fixture(scope="module", params=["table", "table with a log"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    uri = str(tmp_path_factory.mktemp("conditions") / "t")
    has_log = request.param == "table with a log"
    writer = logged(uri) if has_log else None
    if not has_log:
        made(uri)
    there = Dataset.open(uri).to_table(["id", "v"])
    vectors = dict(zip(there["id"].to_pylist(), np.array(there["v"].to_pylist(), np.float32)))

    def scores(text: str) -> dict[int, float]:
        """The scores of all rows with the words: pylance's, or in a log, which its searches do not read, ours."""
        if has_log:
            found = Dataset.open(uri).to_table(["id"], full_text_query=text_query(text))
        else:
            asked = PhraseQuery(text[1:-1], "text") if text[0] == '"' else MatchQuery(text, "text")
            found = lance.dataset(uri).to_table(columns=["id", "_score"], full_text_query=asked)
        return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist()))

    yield Case(uri, vectors, scores)
    if writer is not None:
        writer.close()


@dataclass(frozen=True)
class Cell:
    """The conditions of a search. `filter` is "before" or "after" it, or None."""

    range: str
    filter: str | None
    limited: bool
    refine_factor: int | None


CELLS = [Cell(*v) for v in itertools.product(("none", "lower", "both"), (None, "before", "after"), (False, True), (None, 3))]
NO_RANGE: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Asked:
    """A cell with its values: k counts the rows that are searched for, which a limit reduces."""

    cell: Cell
    query: list[float]
    range: tuple[float | None, float | None]

    @property
    def nearest(self) -> dict[str, Any]:
        given: dict[str, Any] = {"refine_factor": self.cell.refine_factor}
        if self.range != NO_RANGE:
            given["distance_range"] = self.range
        return {name: value for name, value in given.items() if value is not None}

    @property
    def counted(self) -> tuple[int, int, int]:
        """The rows that are searched for, those that are left out first, and those that are returned at most."""
        return (LIMIT + OFFSET, OFFSET, LIMIT) if self.cell.limited else (K, 0, K)


def first(values: dict[int, float], cell: Cell, counted: tuple[int, int, int], best_last: bool = False) -> list[int]:
    """The ids that a search for the least values finds, or for the largest with `best_last`."""
    k, offset, limit = counted
    sign = -1 if best_last else 1
    there = [i for i in values if cell.filter != "before" or i % 3 == 0]
    near = sorted(there, key=lambda i: (sign * round(values[i], 5), i))[:k]
    return [i for i in near if cell.filter != "after" or i % 3 == 0][offset : offset + limit]


def asked(case: Case, cell: Cell, query: list[float]) -> tuple[Asked, list[int]]:
    """A search, and the ids that it must find. The bounds are just below distances of rows: their rounding does not matter."""
    distances = case.distances(query)
    ordered = sorted(distances.values())
    low, high = (float(np.float32(ordered[n])) for n in (100, 160))
    bounds = {"none": NO_RANGE, "lower": (low - 1e-4, None), "both": (low - 1e-4, high - 1e-4)}[cell.range]
    inside = {i: d for i, d in distances.items() if (bounds[0] or 0) <= d < (bounds[1] or np.inf)}
    found = Asked(cell, query, bounds)
    expected = first(inside, cell, found.counted)
    assert len(expected) == found.counted[2] or cell.filter == "after"
    return found, expected


def read(spark: SparkSession, uri: str, cell: Cell, counted: tuple[int, int, int], **search: Any) -> DataFrame:
    """A read with the options of a search."""
    options = {name: json.dumps(value) for name, value in search.items()}
    if cell.filter:
        options |= {"filter": CONDITION, "prefilter": str(cell.filter == "before").lower()}
    if cell.limited:
        options |= {"offset": str(counted[1]), "limit": str(counted[2])}
    return spark.read.format("lance").options(**options).load(uri)


def arguments(cell: Cell, counted: tuple[int, int, int]) -> str:
    """The arguments of a function that say the conditions of all searches."""
    text = f", k => {counted[2]}, offset => {counted[1]}"
    return text + (f", filter => '{CONDITION}', prefilter => {cell.filter == 'before'}" if cell.filter else "")


def array(values: list[float]) -> str:
    return f"array({', '.join(f'{value!r}D' for value in values)})"


def by_option(spark: SparkSession, uri: str, what: Asked) -> DataFrame:
    near = {"column": "v", "q": what.query, "k": what.counted[0], **what.nearest}
    return read(spark, uri, what.cell, what.counted, nearest=near)


def by_function(spark: SparkSession, uri: str, what: Asked) -> DataFrame:
    given = f"'{uri}', 'v', {array(what.query)}" + arguments(what.cell, what.counted)
    for name, bound in zip(("lower_bound", "upper_bound"), what.range):
        given += "" if bound is None else f", {name} => {bound!r}D"
    given += "" if what.cell.refine_factor is None else f", refine_factor => {what.cell.refine_factor}"
    return spark.sql(f"SELECT * FROM lance_vector_search({given})")


def by_verb(spark: SparkSession, uri: str, what: Asked) -> DataFrame:
    search = LanceTable.forPath(spark, uri).search("v").nearest(what.query, k=what.counted[0], **what.nearest)
    if what.cell.filter:
        search = search.where(CONDITION, prefilter=what.cell.filter == "before")
    if what.cell.limited:
        search = search.limit(what.counted[2], offset=what.counted[1])
    return search.toDF()


DOORS = {"option": by_option, "function": by_function, "verb": by_verb}


def ids(df: DataFrame) -> list[int]:
    return [row.id for row in df.select("id").collect()]


def some(cells: list[Cell], number: int) -> list[Cell]:
    """Some of the cells, or all in a run with many examples."""
    return cells if ALL_CELLS else random.Random(6).sample(cells, number)


@pytest.mark.matrix
@pytest.mark.parametrize("by_tasks", [False, True])
@pytest.mark.parametrize("door", DOORS)
def test_the_nearest_rows_meet_all_conditions(
    spark: SparkSession, case: Case, door: str, by_tasks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_tasks:
        monkeypatch.setattr("lance_spark.table.search.task._COMPARED_HERE_BYTES", -1)
    rng = np.random.default_rng(5)
    for cell in some(CELLS, 2 if by_tasks else 6):
        search, expected = asked(case, cell, rng.normal(size=DIMENSIONS).round(3).tolist())
        assert ids(DOORS[door](spark, case.uri, search)) == expected, cell


JOINED = [cell for cell in CELLS if not cell.limited and cell.filter != "after"]


def test_a_nearest_join_meets_all_conditions(spark: SparkSession, case: Case) -> None:
    rng = np.random.default_rng(7)
    for cell in some(JOINED, 3):
        query = rng.normal(size=DIMENSIONS).round(3).tolist()
        search, expected = asked(case, cell, query)
        questions = spark.createDataFrame([(0, query)], "question INT, q ARRAY<DOUBLE>")
        condition = CONDITION if cell.filter else None
        table = LanceTable.forPath(spark, case.uri)
        joined = table.nearestJoin(questions, ("q", "v"), k=K, filter=condition, **search.nearest)
        assert ids(joined.orderBy("_distance")) == expected, cell


def text_query(text: str) -> dict[str, Any]:
    """The words, or in double quotes the phrase, in the column `text`."""
    kind, words = ("phrase", text[1:-1]) if text[0] == '"' else ("match", text)
    return {kind: {"query": words, "column": "text"}}


def text_by_option(spark: SparkSession, uri: str, text: str, cell: Cell, counted: tuple[int, int, int]) -> DataFrame:
    return read(spark, uri, cell, counted, fullTextQuery=text_query(text))


def text_by_function(spark: SparkSession, uri: str, text: str, cell: Cell, counted: tuple[int, int, int]) -> DataFrame:
    given = f"'{uri}', '{json.dumps(text_query(text))}'" + arguments(cell, counted)
    return spark.sql(f"SELECT * FROM SEARCH({given})")


def text_by_verb(spark: SparkSession, uri: str, text: str, cell: Cell, counted: tuple[int, int, int]) -> DataFrame:
    search = LanceTable.forPath(spark, uri).search().fullText(text_query(text))
    if cell.filter:
        search = search.where(CONDITION, prefilter=cell.filter == "before")
    return (search.limit(counted[2], offset=counted[1]) if cell.limited else search).toDF()


TEXT_DOORS = {"option": text_by_option, "function": text_by_function, "verb": text_by_verb}
TEXTS = ("blue", "sea sky", '"red sea"')
EVERY = 1000


@pytest.mark.matrix
@pytest.mark.parametrize("door", TEXT_DOORS)
@pytest.mark.parametrize("text", TEXTS)
def test_scores_are_those_of_all_rows_whatever_is_filtered(spark: SparkSession, case: Case, door: str, text: str) -> None:
    scores = case.scores(text)
    for filter, limited in itertools.product((None, "before", "after"), (False, True)):
        cell = Cell("none", filter, limited, None)
        counted = (LIMIT + OFFSET, OFFSET, LIMIT) if limited else (EVERY, 0, EVERY)
        found = TEXT_DOORS[door](spark, case.uri, text, cell, counted).select("id", "_score").collect()
        expected = first(scores, cell, counted, best_last=True)
        wanted = [scores[i] for i in expected]
        np.testing.assert_allclose([row["_score"] for row in found], wanted, rtol=1e-5, err_msg=str(cell))
        # Of rows with equal scores, those of the log have no place, and come in any order.
        np.testing.assert_allclose([scores[row.id] for row in found], wanted, rtol=1e-5, err_msg=str(cell))
        assert len({row.id for row in found}) == len(found)


@pytest.mark.matrix
@pytest.mark.parametrize("text", TEXTS)
def test_conditions_on_words_find_the_rows_of_a_search(spark: SparkSession, case: Case, text: str) -> None:
    function, words = ("lance_match_phrase", text[1:-1]) if text[0] == '"' else ("lance_match", text)
    condition = f"{function}(text, '{words}')"
    frame = spark.read.format("lance").load(case.uri)
    with_words = set(case.scores(text))
    assert sorted(ids(frame.where(F.expr(condition)))) == sorted(with_words)
    assert sorted(ids(frame.where(F.expr(f"{condition} AND {CONDITION}")))) == sorted(i for i in with_words if i % 3 == 0)
    others = set(case.vectors) - with_words
    assert sorted(ids(frame.where(F.expr(f"NOT {condition}")))) == sorted(others)


def hybrid_by_option(spark: SparkSession, uri: str, query: list[float], cell: Cell) -> DataFrame:
    nearest = {"column": "v", "q": query, "k": K}
    routes = [{"nearest": nearest}, {"full_text_query": text_query("blue"), "k": K}]
    return read(spark, uri, cell, (K, 0, K), hybrid={"routes": routes, "k": K})


def hybrid_by_function(spark: SparkSession, uri: str, query: list[float], cell: Cell) -> DataFrame:
    given = f"'{uri}', 'v', {array(query)}, 'text', 'blue'" + arguments(cell, (K, 0, K))
    return spark.sql(f"SELECT * FROM lance_hybrid_search({given})")


def hybrid_by_verb(spark: SparkSession, uri: str, query: list[float], cell: Cell) -> DataFrame:
    routes: list[dict[str, Any]] = [{"nearest": {"q": query, "k": K}}, {"full_text_query": text_query("blue"), "k": K}]
    search = LanceTable.forPath(spark, uri).search("v").hybrid(routes, k=K)
    return (search.where(CONDITION, prefilter=cell.filter == "before") if cell.filter else search).toDF()


HYBRID_DOORS = {"option": hybrid_by_option, "function": hybrid_by_function, "verb": hybrid_by_verb}


@pytest.mark.parametrize("door", HYBRID_DOORS)
def test_each_route_of_a_hybrid_search_meets_the_condition(spark: SparkSession, case: Case, door: str) -> None:
    query = [0.3, -0.2, 0.5, 0.1]
    distances, scores = case.distances(query), case.scores("blue")
    for filter in (None, "before", "after"):
        cell = Cell("none", filter, False, None)
        near = first(distances, cell, (K, 0, K))
        found = {row.id: row for row in HYBRID_DOORS[door](spark, case.uri, query, cell).collect()}
        measured = {i: row["_distance"] for i, row in found.items() if row["_distance"] is not None}
        assert set(measured) <= set(near)
        np.testing.assert_allclose([*measured.values()], [distances[i] for i in measured], rtol=1e-4)
        scored = {i: row["_score"] for i, row in found.items() if row["_score"] is not None}
        np.testing.assert_allclose([*scored.values()], [scores[i] for i in scored], rtol=1e-5)
        assert all(i % 3 == 0 for i in found) or filter is None
        assert near[0] in found if near else True
        if filter == "before":
            assert len(found) == K


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(str(tmp_path_factory.mktemp("lost") / "t"))


def test_a_lost_file_of_an_index_is_named_or_the_rows_are_the_same(spark: SparkSession, whole: str, tmp_path: Path) -> None:
    search = Asked(Cell("lower", "before", False, None), [0.3, -0.2, 0.5, 0.1], (2.0, None))
    plain = Cell("none", None, False, None)

    def join(uri: str) -> list[int]:
        questions = spark.createDataFrame([(0, search.query)], "question INT, q ARRAY<DOUBLE>")
        table = LanceTable.forPath(spark, uri)
        joined = table.nearestJoin(questions, ("q", "v"), k=K, filter=CONDITION, **search.nearest)
        return ids(joined.orderBy("_distance"))

    def condition(uri: str) -> list[int]:
        frame = spark.read.format("lance").load(uri)
        return sorted(ids(frame.where(F.expr("lance_match_phrase(text, 'red sea')"))))

    def near(door: str, uri: str) -> list[int]:
        return ids(DOORS[door](spark, uri, search))

    def text(door: str, uri: str) -> list[int]:
        return sorted(ids(TEXT_DOORS[door](spark, uri, '"red sea"', plain, (EVERY, 0, EVERY))))

    asks: dict[str, Callable[[str], list[int]]] = {"join": join, "condition": condition}
    asks |= {f"vector by {door}": partial(near, door) for door in DOORS}
    asks |= {f"text by {door}": partial(text, door) for door in TEXT_DOORS}
    wanted = {name: ask(whole) for name, ask in asks.items()}
    assert all(wanted.values())
    files = sorted(Path(whole, "_indices").glob("*/*"))
    assert len(files) >= 5
    wrong = []
    for number, file in enumerate(files):
        uri = shutil.copytree(whole, tmp_path / str(number))
        Path(uri, file.relative_to(whole)).unlink()
        for name, ask in asks.items():
            try:
                same = ask(str(uri)) == wanted[name]
            except SPARK_ERRORS as e:
                same = file.name in str(e)
            if not same:
                wrong.append((file.name, name))
    assert not wrong
