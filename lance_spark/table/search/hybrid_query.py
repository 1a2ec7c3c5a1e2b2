"""The routes of a hybrid search, as users give them, and how their rows are put into one order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, cast

import pyarrow as pa

from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.index.text.queries import TextQuery
from lance_spark.table.search.nearest import DEFAULT_K, Nearest, nearest_of
from lance_spark.table.search.text_query import text_query_of
from lance_spark.table.versions.snapshot import Snapshot

Reranker = Callable[[pa.RecordBatch], Any]
"""A function of a user: how relevant the rows of a batch are, a number for each."""
Fuse = Literal["rrf", "weighted_score", "mrr"] | Reranker
FUSES = ("rrf", "weighted_score", "mrr")
RRF_K = 60.0
"""The usual constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)."""
_KEYS = ("routes", "k", "fuse", "rrf_k", "columns")
_ROUTE_KEYS = ("nearest", "full_text_query", "k", "weight")
_MOST_ROUTES = 64
_MOST_ROWS = 1 << 31
"""Numbers of rows are below this."""


@dataclass(frozen=True)
class Route:
    """One of the searches, of `k` rows, and the `weight` of its rows."""

    query: Nearest | TextQuery
    k: int
    weight: float


@dataclass(frozen=True)
class Hybrid:
    """The `k` rows that are best by all routes together.

    `fuse` says what each route adds to the score of a row, times the weight of the route; ranks start at 0. "rrf": 1 / (rank + rrf_k).
    "mrr": 1 / (rank + 1), divided by the sum of all weights. "weighted_score": how good the distance or the score is, from 0 for the last
    row of the route to 1 for the first, divided by the sum of all weights. A function gets all rows that the routes have found, with
    their distances and scores and the `columns` of the table, and returns their scores.
    """

    routes: tuple[Route, ...]
    k: int
    fuse: Fuse
    rrf_k: float
    columns: tuple[str, ...] = ()


def hybrid_of(snapshot: Snapshot, given: Mapping[str, Any]) -> Hybrid:
    """Check the parameters of a hybrid search: `routes`, `k`, `fuse` and `rrf_k`, and `columns` for a function.

    A route is `{"nearest": {..}}` or `{"full_text_query": ..}`, with `k` (default: that of the whole search) and `weight` (default: 1).
    Raises InvalidOptionError, or SchemaMismatchError for a column that does not exist.
    """
    check_type("hybrid", given, Mapping, "a mapping such as {'routes': [{'nearest': {..}}, {'full_text_query': 'words'}], 'k': 10}")
    _check_keys("hybrid", given, _KEYS)
    routes, fuse = given.get("routes"), given.get("fuse", "rrf")
    if not isinstance(routes, Sequence) or isinstance(routes, str) or not 0 < len(routes) <= _MOST_ROUTES:
        raise InvalidOptionError(f"the parameter 'routes' of hybrid must be a list of 1 to {_MOST_ROUTES} searches, not {routes!r}")
    if not callable(fuse) and fuse not in FUSES:
        raise InvalidOptionError(f"the parameter 'fuse' of hybrid must be one of {', '.join(FUSES)}, or a function, not {fuse!r}")
    columns = given.get("columns") or ()
    if isinstance(columns, str) or not isinstance(columns, Sequence) or (columns and not callable(fuse)):
        raise InvalidOptionError("the parameter 'columns' of hybrid names the columns that a function as 'fuse' gets")
    for name in columns:
        snapshot.manifest.schema.resolve(name)
    k, rrf_k = _rows(given.get("k"), DEFAULT_K), _number("rrf_k", given.get("rrf_k"), RRF_K)
    if not rrf_k:
        raise InvalidOptionError("rrf_k must be greater than 0")
    found = tuple(_route(snapshot, route, k) for route in routes)
    if not any(route.weight for route in found):
        raise InvalidOptionError("one of the routes of hybrid must have a weight greater than 0")
    return Hybrid(found, k, cast(Fuse, fuse), rrf_k, tuple(columns))


def _route(snapshot: Snapshot, given: object, k: int) -> Route:
    check_type("a route of hybrid", given, Mapping, "a mapping such as {'full_text_query': 'words', 'k': 50, 'weight': 0.5}")
    route = cast(Mapping[str, Any], given)
    _check_keys("a route of hybrid", route, _ROUTE_KEYS)
    nearest, text = route.get("nearest"), route.get("full_text_query")
    if (nearest is None) == (text is None):
        raise InvalidOptionError("a route of hybrid has either nearest or full_text_query")
    rows, weight = _rows(route.get("k"), k), _number("the weight of a route", route.get("weight"), 1.0)
    if nearest is None:
        return Route(text_query_of(text, snapshot.manifest.schema), rows, weight)
    if isinstance(nearest, Mapping):
        if nearest.get("k") is not None and route.get("k") is not None:
            raise InvalidOptionError("a route of hybrid has two numbers k, its own and that of nearest; give one")
        nearest = {**nearest, "k": nearest.get("k") or rows} if nearest.get("k") != 0 else nearest
    query = nearest_of(snapshot, nearest)
    if query.many:
        raise InvalidOptionError("a route of hybrid searches for one vector, but q has several; give each a route")
    return Route(query, query.k, weight)


def _check_keys(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"; its parameters are: {', '.join(known)}"
            raise InvalidOptionError(f"{what} has no parameter {key!r}{hint}")


def _rows(value: object, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, Integral) or isinstance(value, bool) or not 1 <= int(value) < _MOST_ROWS:
        raise InvalidOptionError(f"k must be an integer of at least 1, not {value!r}")
    return int(value)


def _number(what: str, value: object, default: float) -> float:
    if value is None:
        return default
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(float(value)) or float(value) < 0:
        raise InvalidOptionError(f"{what} must be a number of at least 0, not {value!r}")
    return float(value)
