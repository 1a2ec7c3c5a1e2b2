"""Reading the rows that a search finds. What Spark filters, limits and aggregates is these rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import of_json, promised, to_spark
from lance_spark.spark.options.functions import with_function
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.kind import Abilities, check_ids, plan_of, selected, shown
from lance_spark.spark.read.opened import Opened
from lance_spark.spark.read.reader import LanceReader, Parts, Returned
from lance_spark.spark.read.request import Request
from lance_spark.spark.read.text_columns import TextColumns
from lance_spark.table.scan.runner import Runner
from lance_spark.table.search.request import SearchRequest, condition, naming_columns, own_columns, search_of, seen_in
from lance_spark.table.search.search import Search
from lance_spark.table.search.task import search_task


@dataclass(frozen=True)
class SearchRead:
    """The rows that the options search for.

    `call` is that of a table function, which need not name the column, and may have a function of the user; `hides_columns`: it
    searches a view with the columns of the options, and may name no others.
    """

    opened: Opened
    options: ReadOptions
    call: Mapping[str, Any] | None = None
    hides_columns: bool = False
    kind = "a search"

    @property
    def abilities(self) -> Abilities:
        # Other searches are quicker in tasks than while Spark plans.
        return Abilities(found=self.options.nearest is not None)

    def columns(self) -> pa.Schema:
        return _columns(self._search())

    def reader(self, schema: StructType, request: Request) -> DataSourceReader:
        if request.schema is not None:
            schema = of_json(request.schema)
        reader = self._reader(schema, request)
        if request.results is None:
            return reader
        from lance_spark.spark.read.search_reader import SearchReader  # most reads are scans

        return SearchReader(reader.found, request.results, request.parallelism or 1)

    def found(self, runner: Runner) -> pa.Table | None:
        """The rows, if this process is to find them, with the tasks of `runner`; None if not."""
        return self._reader(to_spark(self.columns()), Request()).found(runner)

    def _reader(self, schema: StructType, request: Request) -> LanceReader:
        search = self._search()
        texts = TextColumns.of(schema, search.snapshot, self.opened.table_for)
        added = search.query.columns.names
        wanted = texts.rest(schema)
        plan = selected(search.plan, search.snapshot, _columns(search), added, wanted)
        plan = texts.read_by(plan)
        check_ids(search.snapshot, plan)
        task = search_task(replace(search, plan=plan, columns=None))
        conversion = Conversion(promised(schema), self.options.truncates)
        parts = Parts(lambda cores, most: [task], request.rows_only)
        return LanceReader(parts, Returned(conversion, None, texts, request.reports))

    def _search(self) -> Search:
        given, plan = self.options, plan_of(self.opened, self.options)
        snapshot = self.opened.table_for(", which cannot be searched; search its tables")
        hybrid = given.hybrid if self.call is None or given.hybrid is None else with_function(given.hybrid, self.call)
        asked = SearchRequest(given.nearest, given.fullTextQuery, hybrid, given.prefilter, given.fast_search).up_to(
            given.limit, given.offset
        )
        seen = seen_in(snapshot, plan) if self.hides_columns else snapshot
        query = (asked.with_column(seen) if self.call is not None else asked).query(seen)
        assert query is not None
        if self.hides_columns:
            query = naming_columns(query, seen)
        plan = replace(plan, columns=own_columns(query, given.columns), offset=given.offset)
        if given.filter is not None:
            predicate = condition(seen, plan, query, given.filter, None)
            plan = replace(plan, predicate=predicate)
        return search_of(snapshot, plan.checked(snapshot), query, given.columns)


def _columns(search: Search) -> pa.Schema:
    own = shown(search.plan.fields(search.snapshot))
    return pa.schema([own.field(f.name) if f.name in own.names else f for f in search.schema])
