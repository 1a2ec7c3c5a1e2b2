"""A read is one of several kinds, and is asked for nothing but its abilities."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lance_spark.spark.read as reads_in
from lance_spark import Dataset, create_partitioned_namespace
from lance_spark.spark.columns.types import to_spark
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.kind import Read, checked_reader
from lance_spark.spark.read.kinds import Asked, read_of
from lance_spark.spark.read.opened import open_version
from lance_spark.spark.read.request import Request

VECTORS = pa.array([[0.0, 1.0], [1.0, 0.0]], pa.list_(pa.float32(), 2))
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "s": ["red sea", "blue sky"], "v": VECTORS})
SCAN = {"filter", "limit", "exact_limit", "top", "aggregates", "count"}
KINDS: dict[str, tuple[dict[str, str], str | None, set[str]]] = {
    "a scan": ({}, None, {*SCAN, "join"}),
    "a scan with a filter": ({"filter": "id > 1"}, None, {*SCAN, "join", "is_filtered"}),
    "a scan with a limit": ({"limit": "1"}, None, set()),
    "a scan of a partitioned namespace": ({}, None, {*SCAN, "has_tables"}),
    "a search": ({"nearest": '{"column": "v", "q": [1, 0], "k": 1}'}, None, {"found"}),
    "a search of texts": ({"fullTextQuery": '{"match": {"query": "sea", "column": "s"}}'}, None, set()),
    "a change feed": ({"readChangeFeed": "true", "startingVersion": "1"}, None, set()),
    "a metadata table": ({}, "refs", set()),
    "a comparison of branches": ({"diffFrom": "dev"}, None, set()),
}
"""The options that mean a kind, or the name of the table about the table; and its abilities."""
REQUESTS: dict[str, Any] = {
    "filter": {"filter": [[">", ["c", "id"], ["l", "bigint", 1]]]},
    "limit": {"limit": 1},
    "top": {"top": [[["c", "id"], True, True]]},
    "aggregates": {"aggregates": [["count"]]},
    "join": {"join": {"column": ["v"]}},
    "found": {"results": []},
}
MakeRead = Callable[[str], Read]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MakeRead:
    """Makes a read of a kind."""
    table, namespace = (str(tmp_path_factory.mktemp("tables") / name) for name in ("t", "p"))
    Dataset.write(table, ROWS).create_branch("dev")
    create_partitioned_namespace(namespace, ROWS.schema, ["id"])

    def make(kind: str) -> Read:
        given, about, _ = KINDS[kind]
        uri = namespace if kind.endswith("namespace") else table
        options = parse_options(ReadOptions, {**given, "path": uri})
        return read_of(Asked(open_version(options), options, about))

    return make


def test_every_kind_is_here(made: MakeRead) -> None:
    reads = [importlib.import_module(f"{reads_in.__name__}.{found.name}") for found in pkgutil.iter_modules(reads_in.__path__)]
    classes = {c for module in reads for _, c in inspect.getmembers(module, inspect.isclass) if hasattr(c, "kind") and c is not Read}
    assert {type(made(kind)) for kind in KINDS} == classes


@pytest.mark.parametrize("kind", KINDS)
def test_the_options_mean_a_kind(made: MakeRead, kind: str) -> None:
    read = made(kind)
    assert kind.startswith(read.kind)
    assert {*read.abilities.names.split(), *["join"] * read.abilities.join} == KINDS[kind][2]
    assert read.columns().names[0] in ("id", "name")
    checked_reader(read, to_spark(read.columns()), Request())


@pytest.mark.parametrize("ability", REQUESTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_read_refuses_what_it_is_not_able_to(made: MakeRead, kind: str, ability: str) -> None:
    read, request = made(kind), Request(**REQUESTS[ability])
    assert getattr(read.abilities, ability) is (ability in KINDS[kind][2])
    assert request.needs == [ability]
    if ability not in KINDS[kind][2]:
        with pytest.raises(ValueError, match=f"must not push {ability} into {read.kind}"):
            checked_reader(read, to_spark(read.columns()), request)
