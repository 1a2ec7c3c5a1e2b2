"""Searches, `take` and samples of a table with a write-ahead log: what they find in a plain table with the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.mem_wal import LsmPointLookupPlanner, ShardSnapshot

from lance_spark import Dataset
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.storage.store import Store
from lance_spark.table.versions.write_ahead_log import shards_of
from tests import write_ahead_logs as logs

SCHEMA = pa.schema(
    [
        logs.SCHEMA.field("id"),
        pa.field("text", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), 4)),
        pa.field("other", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)
WORDS = ["ash", "birch", "cedar", "elm", "fir", "oak"]
SHARDS = ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002")


def rows(ids: list[int], seed: int) -> pa.Table:
    random_values = np.random.default_rng([seed, *ids])
    vectors = random_values.normal(size=(len(ids), 4)).astype(np.float32)
    texts = [" ".join(random_values.choice(WORDS, 3)) for _ in ids]
    other = [None if i % 7 == 0 else {"x": i, "y": str(seed)} for i in ids]
    return pa.table({"id": ids, "text": texts, "vector": list(vectors), "other": other}, SCHEMA)


@dataclass
class Pair:
    """A table with a log, and a plain table with the same rows. `entries` are the ids of rows that are in no SSTable yet."""

    logged: Dataset
    plain: Dataset
    is_indexed: bool
    entries: set[int]


@pytest.fixture(scope="module", params=["indexed", "not indexed", "stable row ids", "by our writer", "stable row ids, by our writer"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """300 rows; the log has updates, deletions and new rows in three generations of two shards, and in entries."""
    uri = str(tmp_path_factory.mktemp("searches") / "t.lance")
    stable, is_ours = "stable row ids" in request.param, "our writer" in request.param
    dataset = lance.write_dataset(rows([*range(300)], 0), uri, max_rows_per_file=100, enable_stable_row_ids=stable)
    if request.param != "not indexed":
        dataset.create_index("vector", "IVF_FLAT", num_partitions=3)
        dataset.create_scalar_index("text", "INVERTED", with_position=True)
        dataset.create_scalar_index("id", "BTREE")
    dataset.initialize_mem_wal()
    choice = random.Random(1)
    open_writers = []
    entries: set[int] = set()
    for step in range(4):
        shard = step % 2
        dataset = Dataset.open(uri) if is_ours else lance.dataset(uri)
        writer = dataset.mem_wal_writer(SHARDS[shard])
        own = [i for i in range(330) if i % 2 == shard]
        put, deleted, again = (sorted(choice.sample(own, count)) for count in (25, 6, 5))
        writer.put(rows(put, step + 1))
        writer.delete(pa.table({"id": pa.array(deleted, pa.int64())}))
        if step < 3:
            writer.close()
        else:
            writer.put(rows(again, 9))
            open_writers.append(writer)
            entries = {*put} - {*deleted} | {*again}
    logged = Dataset.open(uri)
    plain = Dataset.write(f"{uri}.plain", logged.to_table().sort_by("id"))
    yield Pair(logged, plain, request.param != "not indexed", entries)
    for writer in open_writers:
        writer.close()


def found(table: pa.Table) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))


QUERY = [0.1, -0.2, 0.3, 0.05]
NEAREST: dict[str, dict[str, Any]] = {
    "nearest": {"nearest": {"column": "vector", "q": QUERY, "k": 20}},
    "nearest with a filter before": {"nearest": {"column": "vector", "q": QUERY, "k": 20}, "filter": "id % 3 = 0", "prefilter": True},
    "nearest with a filter after": {"nearest": {"column": "vector", "q": QUERY, "k": 40}, "filter": "other.x > 100"},
    "several vectors": {"nearest": {"column": "vector", "q": [QUERY, [1, 1, 1, 1]], "k": 7}},
    "within a distance": {"nearest": {"column": "vector", "q": QUERY, "k": 50, "distance_range": (0.2, 1.5)}},
    "beyond a distance": {"nearest": {"column": "vector", "q": QUERY, "k": 20, "distance_range": (1.5, None), "refine_factor": 2}},
    "beyond a distance, with a filter before": {
        "nearest": {"column": "vector", "q": QUERY, "k": 8, "distance_range": (1.5, None)},
        "filter": "id % 3 = 0",
        "prefilter": True,
    },
    "a part of the nearest": {"nearest": {"column": "vector", "q": QUERY, "k": 20}, "limit": 5, "offset": 3},
    "by cosine": {"nearest": {"column": "vector", "q": QUERY, "k": 20, "metric": "cosine"}},
    "more rows than there are": {"nearest": {"column": "vector", "q": QUERY, "k": 1000}},
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", NEAREST)
def test_the_nearest_rows_are_found_in_the_table_and_in_the_log(name: str, pair: Pair) -> None:
    search = NEAREST[name]
    columns = ["id", "text", "other.x"]
    assert found(pair.logged.to_table(columns, **search)) == found(pair.plain.to_table(columns, **search))
    assert pair.logged.scan(columns, **search).count_rows() == pair.plain.scan(columns, **search).count_rows()


def test_explain_tells_what_a_search_finds_in_the_log(pair: Pair) -> None:
    of_log = pair.logged.count_rows("_rowid IS NULL")
    replaced = 300 - pair.logged.count_rows("_rowid IS NOT NULL")
    explained = pair.logged.scan(nearest={"column": "vector", "q": QUERY}).explain()
    assert f"write-ahead log: {of_log} rows; {replaced} of the table are left out" in explained
    if pair.is_indexed:
        assert f"compared with every vector: {len(pair.entries)} rows in 1 fragments" in explained


def test_the_indexes_of_sstables_are_asked_for_a_filter(pair: Pair) -> None:
    explained = pair.logged.scan(filter="id = 7").explain()
    assert ("indexes of an SSTable: id_idx (BTREE): " in explained) == pair.is_indexed
    words = {"match": {"query": "oak", "column": "text"}}
    explained = pair.logged.scan(full_text_query=words).explain()
    assert ("scanned: column 'text' in 1 fragments" in explained) == pair.is_indexed, "only the entries"


def test_rows_that_no_index_covers_are_left_out_on_request(pair: Pair) -> None:
    """These are those that are in no SSTable yet."""
    nearest = {"column": "vector", "q": QUERY, "k": 400}
    left = pair.logged.to_table(["id"], nearest=nearest, fast_search=True)["id"].to_pylist()
    all_rows = {*pair.logged.to_table(["id"])["id"].to_pylist()}
    assert {*left} == (all_rows - pair.entries if pair.is_indexed else set())
    text = {"match": {"query": "oak", "column": "text"}}
    if pair.is_indexed:
        words = pair.logged.to_table(["id"], full_text_query=text)["id"].to_pylist()
        fast = pair.logged.to_table(["id"], full_text_query=text, fast_search=True)["id"].to_pylist()
        assert {*fast} == {*words} - pair.entries


TEXTS: dict[str, Any] = {
    "one word": "oak",
    "two words": "oak fir",
    "all words": {"match": {"query": "oak fir", "operator": "And"}},
    "boolean": {"boolean": {"must": [{"match": {"query": "elm"}}], "must_not": [{"match": {"query": "ash"}}]}},
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", TEXTS)
def test_words_are_found_in_the_table_and_in_the_log(name: str, pair: Pair) -> None:
    query = TEXTS[name]
    if isinstance(query, dict):
        query = _of_column(query)
    else:
        query = {"match": {"query": query, "column": "text"}}
    for more in ({}, {"filter": "id < 150"}):
        own, plain = (table.to_table(["id", "text"], full_text_query=query, **more) for table in (pair.logged, pair.plain))
        assert found(own.select(["id", "text"])) == found(plain.select(["id", "text"]))
        assert own.num_rows


@pytest.mark.matrix
@pytest.mark.parametrize("name", TEXTS)
def test_a_filter_changes_no_score(name: str, pair: Pair) -> None:
    query = _of_column(TEXTS[name]) if isinstance(TEXTS[name], dict) else {"match": {"query": TEXTS[name], "column": "text"}}
    found = pair.logged.to_table(["id", "_score"], full_text_query=query)
    scores = dict(zip(found["id"].to_pylist(), found["_score"].to_pylist()))
    few = sorted((score for i, score in scores.items() if i < 150), reverse=True)
    assert few
    for limit in (None, 10):
        filtered = pair.logged.to_table(["id", "_score"], full_text_query=query, filter="id < 150", prefilter=True, limit=limit)
        assert filtered["_score"].to_pylist() == few[:limit]
        assert [scores[i] for i in filtered["id"].to_pylist()] == few[:limit]


def _of_column(query: dict[str, Any]) -> dict[str, Any]:
    """The query, whose parts are of the column `text`."""
    return {
        name: {**part, "column": "text"} if name == "match" else {k: [_of_column(q) for q in v] for k, v in part.items()}
        for name, part in query.items()
    }


def test_a_search_by_both_routes(pair: Pair) -> None:
    routes = [{"nearest": {"column": "vector", "q": QUERY, "k": 400}}, {"full_text_query": _of_column({"match": {"query": "oak"}})}]
    hybrid = {"routes": routes, "k": 400}
    assert found(pair.logged.to_table(["id"], hybrid=hybrid).select(["id"])) == found(pair.plain.to_table(["id"]))


def test_rows_by_number_are_those_of_a_scan(pair: Pair) -> None:
    scanned = pair.logged.to_table()
    numbers = [0, 5, scanned.num_rows - 1, 250, 5, *range(scanned.num_rows - 40, scanned.num_rows)]
    assert pair.logged.take(numbers).to_pylist() == scanned.take(numbers).to_pylist()
    assert pair.logged.take(numbers, ["other.y"]).to_pylist() == [
        {"other": None if o is None else {"y": o["y"]}} for o in scanned["other"].take(numbers).to_pylist()
    ]
    with pytest.raises(IndexError, match=f"has {scanned.num_rows} rows"):
        pair.logged.take([scanned.num_rows])


def test_a_sample_is_of_all_rows(pair: Pair) -> None:
    whole = pair.logged.sample(1000)
    assert found(whole) == found(pair.logged.to_table())
    some = pair.logged.sample(50, ["id"])["id"].to_pylist()
    assert len({*some}) == 50
    assert {*some} <= {*pair.logged.to_table()["id"].to_pylist()}
    assert pair.logged.recall("vector", [QUERY], k=10) == 1.0


def test_a_condition_of_a_search_on_addresses_is_refused(pair: Pair) -> None:
    nearest = {"column": "vector", "q": QUERY}
    with pytest.raises(UnsupportedFeatureError, match=r"_rowaddr.*mem_wal=base"):
        pair.logged.to_table(filter="_rowaddr > 5", nearest=nearest)
    addresses = pair.logged.to_table(["id", "_rowaddr"], nearest={**nearest, "k": 400})
    expected = pair.logged.to_table(["id", "_rowaddr"])
    assert found(addresses.select(["id", "_rowaddr"])) == found(expected)


def test_rows_by_key_are_those_of_pylance(pair: Pair) -> None:
    """pylance looks up what is flushed."""
    uri = pair.logged.uri
    shards = []
    for shard in shards_of(pair.logged.snapshot):
        own = ShardSnapshot(shard.name)
        for generation, folder in shard.sstables:
            own = own.with_sstable(generation, folder)
        shards.append(own.with_current_generation(len(shard.sstables) + 1))
    planner = LsmPointLookupPlanner(lance.dataset(uri), shards)
    for key in range(0, 330, 22):  # the shard of even numbers has no entries
        wanted = planner.plan_lookup(pa.array([key], pa.int64())).to_table()
        own_rows = pair.logged.to_table(filter=f"id = {key}")
        assert found(own_rows) == found(wanted.select(own_rows.column_names)), key


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The bytes that are read of each file, by its address."""
    found: Counter[str] = Counter()
    whole, ranges = Store.read, Store.read_ranges

    def read_whole(store: Store, path: str) -> bytes:
        data = whole(store, path)
        found[f"{store.uri}/{path}"] += len(data)
        return data

    def read_ranges(store: Store, path: str, wanted: Sequence[ByteRange]) -> list[Any]:
        data = ranges(store, path, wanted)
        found[f"{store.uri}/{path}"] += sum(len(one) for one in data)
        return data

    monkeypatch.setattr(Store, "read", read_whole)
    monkeypatch.setattr(Store, "read_ranges", read_ranges)
    return found


@pytest.mark.parametrize("grows_by", ["an entry", "an SSTable"])
def test_a_search_after_the_log_has_grown_reads_the_keys_of_what_is_new(grows_by: str, tmp_path: Path, read: Counter[str]) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows([*range(3000)], 0), uri).initialize_mem_wal()
    with lance.dataset(uri).mem_wal_writer(SHARDS[0]) as writer:
        writer.put(rows([*range(2000, 4000)], 1))
    with lance.dataset(uri).mem_wal_writer(SHARDS[1]) as writer:
        writer.put(rows([*range(5000, 7000)], 1))
    entries = lance.dataset(uri).mem_wal_writer(SHARDS[0])
    entries.put(rows([*range(3000, 4500)], 2))
    table = Dataset.open(uri)
    search = {"nearest": {"column": "vector", "q": QUERY, "k": 5}}
    table.to_table(["id"], **search)
    read.clear()
    table.to_table(["id"], **search)
    before, old = read.copy(), [str(file) for file in Path(uri).rglob("*") if file.suffix in (".lance", ".arrow")]
    if grows_by == "an entry":
        entries.put(rows([1, 2, 9000], 3))
    else:
        with lance.dataset(uri).mem_wal_writer(SHARDS[1]) as writer:
            writer.put(rows([1, 2, 9000], 3))
    read.clear()
    table.to_table(["id"], **search)
    assert [file for file in old if read[file] > before[file]] == []
    plain = Dataset.write(f"{uri}.plain", table.to_table())
    assert found(table.to_table(["id"], **search)) == found(plain.to_table(["id"], **search))
    entries.close()
