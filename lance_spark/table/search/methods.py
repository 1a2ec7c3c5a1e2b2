"""The methods of `Dataset` that read rows by scans and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.display.arguments import known_arguments
from lance_spark.errors import InvalidOptionError, check_at_least, check_type
from lance_spark.predicate import Filter, Predicate
from lance_spark.schema.blobs import BlobHandling
from lance_spark.table.mem_wal.scan import MergedScan, count_rows
from lance_spark.table.mem_wal.version import with_log
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import ScanPlan, names
from lance_spark.table.scan.scan import Scan
from lance_spark.table.scan.take import take
from lance_spark.table.search.evaluation import Evaluation, evaluation, gains_of
from lance_spark.table.search.nearest import DEFAULT_K, nearest_of, only_column
from lance_spark.table.search.replay import SearchSnapshot, search_snapshot, version_searched
from lance_spark.table.search.request import SearchRequest, condition, own_columns, search_of
from lance_spark.table.versions.snapshot import Snapshot


@known_arguments
class SearchMethods:
    """How a `Dataset` finds rows; names are those of pylance."""

    snapshot: Snapshot

    def count_rows(self, filter: Filter | None = None) -> int:
        """The number of rows, or of those that satisfy `filter`. Without a filter, only the manifest is read."""
        if filter is None:
            return count_rows(self.snapshot)
        return self.scan(columns=(), filter=filter).count_rows()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int = 0,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_size: int | None = None,
        blob_handling: BlobHandling = "bytes",
        use_scalar_index: bool = True,
        nearest: Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        full_text_query: str | Mapping[str, Any] | None = None,
        hybrid: Mapping[str, Any] | None = None,
    ) -> Scan:
        """Scan this version, or search it for the nearest vectors, the best matches of a full-text query, or both.

        `columns` are names, nested ones with dots; `filter` is a Spark SQL condition, or an expression of pyarrow, which means what it does
        there. `limit` and `offset` count rows of the result.
        `blob_handling` returns blobs as "bytes", as a "descriptor" (position and size), or omits their columns ("none").
        `use_scalar_index` looks the rows of the filter up in the table's indexes where this helps; `Scan.explain` tells which ones.

        `nearest` are the parameters of a search, see docs/searching.md: the `column`, the vector `q`, or several, and `k`, the
        number of rows for each, by default what `limit` and `offset` count, or 10. The rows come in order of their `_distance`, which is
        added to the columns; with several vectors, also `query_index`. With `prefilter`, the nearest rows among those that satisfy the
        filter are returned, otherwise those of the nearest rows that satisfy it; then it may have columns that the search adds.
        `fast_search` leaves out rows that the index does not cover.

        A text as `q`, for a `column` of texts, searches for the `k` rows that share most of their shingles with it. An
        index of the kind MINHASHLSH has their signatures; those of other rows are computed.

        `full_text_query` are words, or a query as a dictionary, see docs/searching.md. The rows come in order of their `_score`,
        highest first, which is added to the columns; `limit` is the number of rows that are searched for.

        `hybrid` are the `routes`, which are searches of both kinds, and how their rows are put into one order, see
        docs/searching.md. The rows come in order of their `_relevance_score`, highest first, which is added to the columns.

        Examples:
            >>> import pyarrow as pa
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3, 4], "v": [0.5, 1.5, None, 3.5]}))
            >>> table.scan(columns=["id"], filter="v > 1", limit=1).to_table().to_pylist()
            [{'id': 2}]
            >>> vectors = pa.array([[0.0, 1.0], [3.0, 4.0], [6.0, 8.0]], pa.list_(pa.float32(), 2))
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3], "vector": vectors}), mode="overwrite")
            >>> table.scan(columns=["id"], nearest={"column": "vector", "q": [3, 3], "k": 2}).to_table().to_pylist()
            [{'id': 2, '_distance': 1.0}, {'id': 1, '_distance': 13.0}]
        """
        request = SearchRequest(nearest, full_text_query, hybrid, prefilter, fast_search)
        query = request.up_to(limit, offset).query(self.snapshot)
        snapshot = self.snapshot if query is None else with_log(self.snapshot)
        chosen = names(columns)
        plan = ScanPlan(
            own_columns(query, chosen),
            filter if isinstance(filter, Predicate) else None,
            limit,
            offset,
            with_row_id,
            with_row_address,
            batch_size,
            blob_handling,
            use_scalar_index=use_scalar_index,
        )
        if filter is not None and not isinstance(filter, Predicate):
            predicate = plan.condition(snapshot, filter) if query is None else condition(snapshot, plan, query, filter)
            plan = replace(plan, predicate=predicate)
        plan = plan.checked(snapshot)
        return MergedScan(snapshot, plan) if query is None else search_of(snapshot, plan, query, chosen)

    def to_table(self, columns: Sequence[str] | None = None, filter: Filter | None = None, **scan: Any) -> pa.Table:
        """The rows in memory: `scan(columns, filter, ..).to_table()`, as pylance calls it."""
        return self.scan(columns, filter, **scan).to_table()

    def to_batches(self, columns: Sequence[str] | None = None, filter: Filter | None = None, **scan: Any) -> pa.RecordBatchReader:
        """The rows batch by batch: `scan(columns, filter, ..).to_batches()`, as pylance calls it."""
        return self.scan(columns, filter, **scan).to_batches()

    def to_pandas(self, columns: Sequence[str] | None = None, filter: Filter | None = None, **scan: Any) -> Any:
        """The rows as a DataFrame of pandas, which must be installed."""
        return self.scan(columns, filter, **scan).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, filter: Filter | None = None, **scan: Any) -> Any:
        """The rows as a DataFrame of polars, which must be installed; `lance_spark.polars.scan_lance` reads lazily."""
        return self.scan(columns, filter, **scan).to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows as a stream of the Arrow PyCapsule interface, so that other libraries read them; see `ArrowStream`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def head(self, num_rows: int, columns: Sequence[str] | None = None, **scan: Any) -> pa.Table:
        """The first rows.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3]})).head(2)["id"].to_pylist()
            [1, 2]
        """
        return self.scan(columns, limit=num_rows, **scan).to_table()

    def sample(self, num_rows: int, columns: Sequence[str] | None = None, randomize_order: bool = True) -> pa.Table:
        """Rows chosen at random, each at most once; all rows if there are fewer. Without `randomize_order`, in the order of the table."""
        check_at_least("num_rows", num_rows, 0)
        snapshot = with_log(self.snapshot)
        total = int(all_live_rows(snapshot).sum())
        chosen = np.random.default_rng().choice(total, min(num_rows, total), replace=False, shuffle=randomize_order)
        return take(snapshot, chosen if randomize_order else np.sort(chosen), ScanPlan(names(columns)).checked(snapshot))

    def recall(self, column: str, queries: Any, k: int = DEFAULT_K, **parameters: Any) -> float:
        """The share of the `k` nearest rows of each of the `queries` that a search finds, from 0 to 1: of those that brute force finds.

        `parameters` are others of `scan(nearest=)`, such as `nprobes` and `refine_factor`. Rows as far away as the last one that brute
        force finds count as found.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> vectors = pa.array([[0.0, 1.0], [3.0, 4.0], [6.0, 8.0]], pa.list_(pa.float32(), 2))
            >>> Dataset.write("/tmp/t.lance", pa.table({"vector": vectors})).recall("vector", [[3, 3], [5, 5]], k=2)
            1.0
        """
        from lance_spark.table.search.recall import recall  # loads the decoders

        return recall(with_log(self.snapshot), nearest_of(self.snapshot, {**parameters, "column": column, "q": queries, "k": k}))

    def evaluate_search(
        self,
        queries: Any,
        truth: Sequence[Any] | None = None,
        *,
        key: str | None = None,
        column: str | None = None,
        k: int = DEFAULT_K,
        **parameters: Any,
    ) -> Evaluation:
        """Search for each of the queries, and compare the rows with those that are right: recall, MRR, nDCG and time.

        `queries` are vectors, texts, or dictionaries with arguments of `scan`. `column` has the vectors or the texts; `k` rows
        are searched for. `truth` has, for each query, the values of the column `key` of the relevant rows, or a mapping from them
        to how relevant they are. Without it, the relevant rows of vectors are those that a search without an index finds.
        `parameters` are others of `scan(nearest=)`.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> vectors = pa.array([[0.0, 1.0], [3.0, 4.0], [6.0, 8.0]], pa.list_(pa.float32(), 2))
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [7, 8, 9], "vector": vectors}))
            >>> found = table.evaluate_search([[3, 3], [5, 5]], [[8], [8, 7]], key="id", column="vector", k=1)
            >>> found.queries["recall"].to_pylist()
            [1.0, 0.5]
        """
        if isinstance(queries, str | Mapping) or not hasattr(queries, "__iter__"):
            raise InvalidOptionError(f"queries must be a list of vectors, texts or dictionaries, not {queries!r}")
        asked = [self._asked(query, column, k, parameters) for query in queries]

        def found(arguments: Mapping[str, Any]) -> list[Any]:
            if key is None:
                return list(self.scan([], with_row_id=True, **arguments).to_table()["_rowid"].to_pylist())
            return list(self.scan([key], **arguments).to_table()[key].to_pylist())

        if truth is None:
            if not all("nearest" in arguments for arguments in asked):
                raise InvalidOptionError("only for vectors it is known which rows are right: give the truth")
            chosen = ("column", "q", "k", "metric", "distance_range")
            plain = [{name: a["nearest"][name] for name in chosen if name in a["nearest"]} for a in asked]
            truth = [found({**a, "nearest": {**own, "use_index": False}}) for a, own in zip(asked, plain)]
        return evaluation([partial(found, arguments) for arguments in asked], [gains_of(own) for own in truth])

    def _asked(self, query: Any, column: str | None, k: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `scan` for a query of `evaluate_search`."""
        if isinstance(query, Mapping):
            if column is not None or parameters:
                raise InvalidOptionError("queries that are dictionaries name their columns and parameters themselves")
            return dict(query)
        if isinstance(query, str):
            if parameters:
                raise InvalidOptionError(f"a search for texts has no parameter {next(iter(parameters))!r}")
            columns = {} if column is None else {"columns": [column]}
            return {"full_text_query": {"query": query, **columns}, "limit": k}
        return {"nearest": {**parameters, "column": column or only_column(self.snapshot), "q": query, "k": k}}

    def search_snapshot(self, columns: Sequence[str] | None = None, filter: str | None = None, **scan: Any) -> SearchSnapshot:
        """A search of this version as a value that can be logged, and run again by `replay`; the arguments are those of `scan`.

        It has the number of the version, the indexes, all arguments and a digest of these; `str` is JSON. Raises InvalidOptionError
        for what is no search, for arguments that are not texts, numbers, lists or dictionaries, and for a table with rows in a
        write-ahead log, which no version keeps.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> vectors = pa.array([[0.0, 1.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [7, 8], "vector": vectors}))
            >>> logged = str(table.search_snapshot(["id"], nearest={"column": "vector", "q": [3, 3], "k": 1}))
            >>> table.delete("id = 8").replay(logged).to_table()["id"].to_pylist()
            [8]
        """
        search = self.scan(columns, filter, **scan)
        return search_snapshot(search.snapshot, {"columns": columns, "filter": filter, **scan})

    def replay(self, search: SearchSnapshot | str) -> Scan:
        """The search that `search_snapshot` has described, of the version that it was made of, also if this one is another.

        Raises VersionNotFoundError if that version was cleaned up, and CorruptFileError if it has other indexes than then.
        """
        check_type("search", search, (SearchSnapshot, str), "a SearchSnapshot or its text")
        told = SearchSnapshot.of(search) if isinstance(search, str) else search
        searched: Any = self  # a Dataset, which is a dataclass
        found: Scan = replace(searched, snapshot=version_searched(self.snapshot, told)).scan(**told.arguments)
        return found
