"""What a user searches a version for: nearest vectors, texts, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.predicate import Filter, Predicate, parse_filter
from lance_spark.schema.schema import Schema, from_arrow
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.search.hybrid import HybridSearch
from lance_spark.table.search.hybrid_query import hybrid_of
from lance_spark.table.search.nearest import Nearest, default_k, nearest_of, only_column
from lance_spark.table.search.search import Query, Search, only_found
from lance_spark.table.search.similar_texts import similar_texts_of
from lance_spark.table.search.text_query import text_query_of, with_columns
from lance_spark.table.search.text_search import TextSearch, indexed_columns
from lance_spark.table.search.vector_search import VectorSearch
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class SearchRequest:
    """The arguments of `Dataset.scan` that make a search of it. At most one of `nearest`, `full_text_query` and `hybrid` is given."""

    nearest: Mapping[str, Any] | None = field(default=None, hash=False)
    full_text_query: str | Mapping[str, Any] | None = field(default=None, hash=False)
    hybrid: Mapping[str, Any] | None = field(default=None, hash=False)
    prefilter: bool = False
    fast_search: bool = False

    def up_to(self, limit: int | None, offset: int) -> SearchRequest:
        """The request for as many nearest rows as are returned and left out, if it does not say how many, as in pylance."""
        if not isinstance(self.nearest, Mapping) or self.nearest.get("k") is not None:
            return self
        if not isinstance(limit, int) or not isinstance(offset, int) or limit < 1 or offset < 0:
            return self  # Without a limit, or with a wrong one, which the scan refuses.
        return replace(self, nearest={**self.nearest, "k": default_k(limit, offset)})

    def with_column(self, snapshot: Snapshot) -> SearchRequest:
        """The request with the only column that has vectors where it names none. Raises InvalidOptionError."""

        def named(nearest: Mapping[str, Any]) -> Mapping[str, Any]:
            return nearest if nearest.get("column") is not None else {**nearest, "column": only_column(snapshot)}

        if self.nearest is not None:
            return replace(self, nearest=named(self.nearest))
        if self.hybrid is None:
            return self
        routes = [{**route, "nearest": named(route["nearest"])} if "nearest" in route else route for route in self.hybrid["routes"]]
        return replace(self, hybrid={**self.hybrid, "routes": routes})

    def query(self, snapshot: Snapshot) -> Query | None:
        """What is searched for; None for a plain scan. Raises InvalidOptionError, or SchemaMismatchError for an unknown column."""
        for name, value in (("prefilter", self.prefilter), ("fast_search", self.fast_search)):
            check_type(name, value, bool, "True or False")
        given = {"nearest": self.nearest, "full_text_query": self.full_text_query, "hybrid": self.hybrid}
        if len(names := [name for name, value in given.items() if value is not None]) > 1:
            raise InvalidOptionError(f"a scan searches for {names[0]} or for {names[1]}, not for both; the routes of hybrid may be of both")
        if self.nearest is not None:
            check_type("nearest", self.nearest, Mapping, "a mapping such as {'column': 'vector', 'q': [0.1, 0.2], 'k': 10}")
            if (texts := similar_texts_of(snapshot, self.nearest, self.prefilter, self.fast_search)) is not None:
                return texts
            return VectorSearch(nearest_of(snapshot, self.nearest), self.prefilter, self.fast_search)
        if self.full_text_query is not None:
            return TextSearch(text_query_of(self.full_text_query, snapshot.manifest.schema), self.prefilter, self.fast_search)
        return None if self.hybrid is None else HybridSearch(hybrid_of(snapshot, self.hybrid), self.prefilter, self.fast_search)


NO_SEARCH = SearchRequest()


def seen_in(snapshot: Snapshot, plan: ScanPlan) -> Snapshot:
    """The version as if it had only the columns of the plan: what a user of a view may name."""
    return replace(snapshot, manifest=replace(snapshot.manifest, schema=plan.fields(snapshot)))


def naming_columns(query: Query, seen: Snapshot) -> Query:
    """The query with the columns of `seen` where it searches those with a full-text index and names none."""
    if isinstance(query, TextSearch):
        return replace(query, query=with_columns(query.query, indexed_columns(seen)))
    if not isinstance(query, HybridSearch):
        return query
    routes = []
    for route in query.hybrid.routes:
        if not isinstance(route.query, Nearest):
            route = replace(route, query=with_columns(route.query, indexed_columns(seen)))
        routes.append(route)
    return replace(query, hybrid=replace(query.hybrid, routes=tuple(routes)))


def own_columns(query: Query | None, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The requested columns without those that the search adds."""
    return columns if query is None or columns is None else tuple(name for name in columns if name not in query.columns.names)


def condition(snapshot: Snapshot, plan: ScanPlan, query: Query, text: Filter, zone: str | None = "UTC") -> Predicate:
    """The condition of a search: of its rows, which have the columns that the search adds, or with `prefilter`, of the table's rows.

    Raises InvalidOptionError or SchemaMismatchError.
    """
    known = plan.known(snapshot)
    own = {f.name for f in known.fields}
    added = from_arrow(pa.schema([field for field in query.columns if field.name not in own]))
    found = parse_filter(text, Schema((*known.fields, *added.fields), known.metadata), zone)
    if query.prefilter and (early := only_found(snapshot, query, found)):
        raise InvalidOptionError(f"the prefilter {text!r} has the column {early[0]!r}, which is known only after the search")
    return found


def search_of(snapshot: Snapshot, plan: ScanPlan, query: Query, columns: tuple[str, ...] | None) -> Search:
    """A search whose columns have been checked."""
    search = Search(snapshot, plan, query, columns)
    _ = search.schema
    return search
