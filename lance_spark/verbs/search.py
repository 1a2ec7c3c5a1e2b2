"""SEARCH: the rows with the nearest vectors, the best matches of a text, or the best of several searches, as a DataFrame."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame

from lance_spark.display.arguments import known_arguments
from lance_spark.errors import InvalidOptionError
from lance_spark.spark.columns.types import to_spark
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.protocol import identified
from lance_spark.spark.read.opened import open_version
from lance_spark.spark.read.search import SearchRead
from lance_spark.storage.location import absolute
from lance_spark.table.search.hybrid_query import RRF_K
from lance_spark.table.search.nearest import DEFAULT_K
from lance_spark.table.search.request import NO_SEARCH, SearchRequest
from lance_spark.table.versions.tags_and_branches import Reference, resolve
from lance_spark.verbs.job import OnExecutors
from lance_spark.verbs.subqueries import with_values
from lance_spark.verbs.target import Target

_NAME = re.compile(r"\w+")
"""A name of a column that stands for nothing else, such as all columns or a field of a struct."""


@known_arguments
class SearchVerbs:
    """How a `LanceTable` is searched."""

    _target: Target

    def search(self, column: str | None = None, version: Reference | None = None) -> Search:
        """Search the table: `search("vector").nearest([0.1, 0.2], k=5).where("id > 3").toDF()`.

        `column` has the vectors; without it, the only column with vectors is searched. `version` is a number or a tag (None: the latest).

        Examples:
            >>> from lance_spark import LanceTable
            >>> rows = [(1, [0.0, 1.0], "red sea"), (2, [3.0, 4.0], "red sky")]
            >>> rows = spark.createDataFrame(rows, "id INT, vector ARRAY<FLOAT>, text STRING")
            >>> rows.write.format("lance").option("vector.arrow.fixed-size-list.size", 2).mode("append").save("/tmp/t.lance")
            >>> table = LanceTable.forPath(spark, "/tmp/t.lance")
            >>> table.search("vector").nearest([3, 3], k=1).select("id", "_distance").collect()
            [Row(id=2, _distance=1.0)]
            >>> table.search().fullText("sky", columns=["text"]).select("id").collect()
            [Row(id=2)]
        """
        return Search(self._target, column, version)


@known_arguments
@dataclass(frozen=True)
class Search:
    """A search that is being described; each method returns another one. `toDF` and `select` return the rows, best first.

    The version is chosen when the DataFrame is made. What Spark does with the DataFrame comes after the search.
    """

    _target: Target
    _column: str | None = None
    _version: Reference | None = None
    _request: SearchRequest = NO_SEARCH
    _options: Mapping[str, str] = field(default_factory=dict)

    def nearest(self, q: Any, k: int | None = None, **parameters: Any) -> Search:
        """The `k` rows whose vectors are nearest to the vector `q`, or to each of several, with their `_distance`.

        Without `k`, as many as `limit` says, or 10. `parameters` are others of `Dataset.scan(nearest=)`, such as `metric`, `nprobes` and
        `refine_factor`.
        """
        return self._of(nearest={**parameters, "column": self._column, "q": q, "k": k})

    def fullText(self, query: str | Mapping[str, Any], columns: Sequence[str] | None = None) -> Search:
        """The rows with the words of `query` in the `columns` (None: those with a full-text index), with their `_score`.

        A dictionary says more, see `Dataset.scan(full_text_query=)`; it names its columns itself. `limit` sets the number of rows.
        """
        if columns is None:
            return self._of(full_text_query=query)
        if not isinstance(query, str):
            raise InvalidOptionError("a query as a dictionary names its columns; give it without columns")
        return self._of(full_text_query={"query": query, "columns": [columns] if isinstance(columns, str) else list(columns)})

    def hybrid(self, routes: Sequence[Mapping[str, Any]], k: int = DEFAULT_K, fuse: str = "rrf", rrf_k: float = RRF_K) -> Search:
        """The `k` rows that are best by all routes together, with their `_relevance_score`, `_distance` and `_score`.

        A route is `{"nearest": {..}}` or `{"full_text_query": ..}`, with `k` and `weight`. `fuse` is "rrf", "weighted_score" or "mrr".
        """
        return self._of(hybrid={"routes": routes, "k": k, "fuse": fuse, "rrf_k": rrf_k})

    def where(self, condition: str, prefilter: bool = False) -> Search:
        """Only rows that satisfy `condition`, SQL text: of the rows that are found, or with `prefilter`, of those that are searched.

        It may have queries, as in `id IN (SELECT id FROM mine)`: they run now, and their values are part of the search.
        """
        if "filter" in self._options:
            raise InvalidOptionError("a search has one condition; combine several with AND")
        told = with_values(self._target.spark, condition)
        return replace(self, _request=replace(self._request, prefilter=prefilter), _options={**self._options, "filter": told})

    def limit(self, num: int, offset: int = 0) -> Search:
        """At most `num` rows of the result, without the first `offset`."""
        return replace(self, _options={**self._options, "limit": str(num), "offset": str(offset)})

    def fastSearch(self) -> Search:
        """Only rows that an index covers."""
        return replace(self, _request=replace(self._request, fast_search=True))

    def toDF(self) -> DataFrame:
        """The rows with all columns, best first. Raises InvalidOptionError for what cannot be searched for.

        The nearest vectors are searched for here, unless their rows take more than 32 MB: in the driver, or if much is to be compared, by
        tasks over segments and partitions of an index, and over fragments without one. All other searches run with the DataFrame.
        """
        return self._rows({})

    def _rows(self, chosen: Mapping[str, str]) -> DataFrame:
        """The rows, read with further options."""
        target, snapshot = self._target, self._target.latest()
        place = {**target.options}
        if self._version is not None:
            snapshot = resolve(snapshot, self._version)
            place.pop("branch", None)
            if snapshot.manifest.branch is not None:
                place["branch"] = snapshot.manifest.branch
        request = self._request.with_column(snapshot)
        if request.query(snapshot) is None:
            raise InvalidOptionError("nothing is searched for: call nearest, fullText or hybrid before")
        given = {"nearest": request.nearest, "fullTextQuery": request.full_text_query, "hybrid": request.hybrid}
        options = {name: json.dumps(value, default=_plain) for name, value in given.items() if value is not None}
        options |= {"prefilter": str(request.prefilter).lower(), "fast_search": str(request.fast_search).lower(), **self._options}
        options |= {**place, "version": str(snapshot.version), **chosen}
        df = self._found({**options, "path": absolute(target.uri)}, snapshot.identity)
        if df is None:
            options = identified(options, snapshot.identity)
            df = target.spark.read.format("lance").options(**options).load(absolute(target.uri))
        return df.alias(target.alias) if target.alias else df

    def _found(self, options: Mapping[str, str], identity: str) -> DataFrame | None:
        """The rows that this process finds; None if it is not to find them. See `SearchRead.found`."""
        spark = self._target.spark
        given = parse_options(ReadOptions, options)
        read = SearchRead(open_version(given, identity), given)
        rows = read.found(OnExecutors(spark, self._target.cores()))
        return None if rows is None else spark.createDataFrame(cast(Any, rows), to_spark(read.columns()))

    def select(self, *columns: str | Column) -> DataFrame:
        """The rows with these columns, names or expressions as in `DataFrame.select`. Only the columns that they need are read."""
        names = [name for name in columns if isinstance(name, str) and _NAME.fullmatch(name)]
        chosen = {"columns": json.dumps(names)} if len(set(names)) == len(columns) else {}
        return self._rows(chosen).select(*columns)

    def _of(self, **given: Any) -> Search:
        kinds = (self._request.nearest, self._request.full_text_query, self._request.hybrid)
        if any(kind is not None for kind in kinds):
            raise InvalidOptionError("the search is for something already; use hybrid to search for several")
        return replace(self, _request=replace(self._request, **given))


def _plain(value: Any) -> Any:
    """What JSON has not, as a list: arrays of numpy and Arrow."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.to_pylist()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    raise InvalidOptionError(f"a {type(value).__name__} cannot be part of a search")
