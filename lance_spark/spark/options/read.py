"""The options of reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lance_spark.errors import InvalidOptionError
from lance_spark.options.field import NotWith, changed, check_together, made, option, options_of, used
from lance_spark.schema.blobs import BLOB_HANDLINGS, BlobHandling
from lance_spark.spark.options.given import Given
from lance_spark.spark.options.place import Place
from lance_spark.table.feed.options import NO_FEED, FeedOptions
from lance_spark.table.scan.plan import MAX_TASK_BYTES
from lance_spark.table.search.nearest import APPROX_MODES
from lance_spark.table.versions.snapshot import MEM_WALS, MemWal

BRANCH = "The branch to read or write; `version` and `timestamp` refer to it."
_ROUTES = "hybrid can have routes of both"
_JOIN = "For a join [APPROX NEAREST](nearest-join.md#in-sparks-own-words) with the table:"
"""Spark's own words have none for how indexes are searched for such a join."""


@dataclass(frozen=True)
class ReadOptions(Place):
    """The options of a read. None: not given."""

    version: int | None = option(
        None,
        "count",
        "The version to read (default: the latest).",
        aliases=("versionAsOf",),
        least=1,
        use=("batch", "version"),
        not_with=(NotWith(("tag", "timestamp")),),
    )
    tag: str | None = option(
        None,
        "text",
        "The tag to read.",
        use=("batch", "version"),
        not_with=(NotWith(("timestamp",)), NotWith(("branch",))),
    )
    branch: str | None = option(None, "text", BRANCH, use=("place", "version"))
    diffFrom: str | None = option(
        None,
        "text",
        "Read the changes that lead from this branch to the one that is read (see [branches](branches-and-tags.md#comparing)).",
        aliases=("diff_from",),
        use=("batch",),
        not_with=(
            NotWith(("version", "tag", "timestamp"), because="the latest versions of two branches are compared"),
            NotWith(("nearest", "fullTextQuery", "hybrid", "readChangeFeed"), because="a comparison is not searched, and has no versions"),
            NotWith(("fragments", "with_row_id", "with_row_address"), because="rows are those of two branches"),
            NotWith(("columns", "filter", "limit", "blob_handling"), because="Spark chooses columns and rows of a comparison"),
        ),
    )
    timestamp: datetime | None = option(
        None,
        "moment",
        "Read the latest version at this time, in ISO 8601 (UTC if it has no zone).",
        aliases=("timestampAsOf", "asof"),
        use=("batch", "version"),
    )
    columns: tuple[str, ...] | None = option(
        None,
        "columns",
        "The columns to read, separated by commas or as a JSON list; nested columns with dots.",
    )
    filter: str | None = option(
        None,
        "text",
        "The rows to read, as a SQL condition with Spark's semantics, such as `id > 3 AND name LIKE 'a%'`.",
    )
    limit: int | None = option(None, "count", "Maximum number of rows of the whole read.", use=("batch",))
    nearest: Mapping[str, Any] | None = option(
        None,
        "JSON",
        "Search for the nearest vectors: the parameters as JSON, such as "
        '`{"column": "vector", "q": [0.5, 1], "k": 10}` (see [search](searching.md)).',
        use=("batch", "search"),
    )
    fullTextQuery: str | Mapping[str, Any] | None = option(
        None,
        "words or JSON",
        "Search for the best matches of words, or of a query as JSON (see [search](searching.md)).",
        aliases=("full_text_query",),
        use=("batch", "search"),
        not_with=(NotWith(("hybrid", "nearest"), advice=_ROUTES),),
    )
    hybrid: Mapping[str, Any] | None = option(
        None,
        "JSON",
        "Search by several routes: their parameters and how they are put into one order, as JSON (see [search](searching.md)).",
        use=("batch", "search"),
        not_with=(NotWith(("nearest",), advice=_ROUTES),),
    )
    prefilter: bool = option(
        False,
        "flag",
        "`true` searches the rows of the `filter`; `false` (default) applies it to the rows that are found.",
        use=("of search",),
    )
    fast_search: bool = option(
        False,
        "flag",
        "`true` leaves out of a search what no index covers (default: `false`).",
        use=("of search",),
    )
    offset: int = option(
        0,
        "count",
        "Number of rows at the start of the result of a search that are left out.",
        use=("of search",),
    )
    nprobes: int | None = option(
        None,
        "count",
        f"{_JOIN} how many partitions of each segment of an index are searched for each row of the left side.",
        least=1,
        use=("join", "how"),
    )
    minimum_nprobes: int | None = option(None, "count", f"{_JOIN} how many are searched at least.", least=1, use=("join", "how"))
    maximum_nprobes: int | None = option(None, "count", f"{_JOIN} how many are searched at most.", least=1, use=("join", "how"))
    search_effort: float | None = option(
        None,
        "share",
        f"{_JOIN} from 0, which searches the least number at first, over 0.5 (default) to 1, which searches all.",
        use=("join", "how"),
    )
    recall_target: float | None = option(
        None,
        "share",
        f"{_JOIN} the share of the nearest rows that is to be found, from 0 to 1: chooses the other ones.",
        use=("join", "how"),
    )
    approx_mode: str | None = option(
        None,
        "word",
        f"{_JOIN} `fast`, `normal` (default) or `accurate`: how codes of IVF_RQ are compared.",
        words=APPROX_MODES,
        use=("join", "how"),
    )
    refine_factor: int | None = option(
        None,
        "count",
        f"{_JOIN} takes `k` times this number of candidates from an index and ranks them by the distances of their vectors.",
        least=1,
        use=("join", "how"),
    )
    ef: int | None = option(
        None,
        "count",
        f"{_JOIN} how many rows the search in a graph (HNSW) keeps.",
        least=1,
        use=("join", "how"),
    )
    batch_size: int | None = option(None, "count", "Maximum number of rows in one Arrow batch.", least=1, use=("how",))
    max_partition_bytes: int = option(
        MAX_TASK_BYTES,
        "count",
        f"Approximate maximum number of bytes that a task reads (default: {MAX_TASK_BYTES}, as in Spark's file sources).",
        least=1,
        use=("how",),
    )
    fragments: frozenset[int] | None = option(
        None,
        "fragments",
        "Ids of the fragments to read, separated by commas. Each fragment is read by one task, in row order.",
        use=("batch",),
        not_with=(NotWith(("nearest", "fullTextQuery", "hybrid"), because="a search is of all fragments"),),
    )
    with_row_id: bool = option(False, "flag", "`true` adds the column `_rowid`.")
    with_row_address: bool = option(
        False,
        "flag",
        "`true` adds the column `_rowaddr` (the fragment and the position in it).",
    )
    nanoseconds: str = option(
        "error",
        "word",
        "`truncate` rounds nanoseconds down to microseconds; `error` (default) rejects them.",
        words=("error", "truncate"),
        use=("how",),
    )
    blob_handling: BlobHandling = option(
        "bytes",
        "word",
        "Blob columns: `bytes` (default) returns the values, `descriptor` their positions and sizes, `none` omits the columns.",
        words=BLOB_HANDLINGS,
    )
    use_scalar_index: bool = option(
        True,
        "flag",
        "`false` does not look the rows of a filter up in the indexes of the table (default: `true`; see [indexes](indexes.md)).",
        use=("how",),
    )
    allow_other_stores: bool = option(
        False,
        "flag",
        "`true` permits base paths and blob URIs in other stores or buckets than the table's, in reads and writes.",
        use=("place", "how"),
    )
    verify_checksums: bool = option(
        True,
        "flag",
        "`false` skips the verification of checksums (default: `true`; see [checksums](checksums.md)).",
        use=("place", "how"),
    )
    mem_wal: MemWal = option(
        "merged",
        "word",
        "How a table with a write-ahead log is read: `merged` (default) with the rows of the log, "
        "or only the table, its `base` (see [write-ahead logs](mem-wal.md)).",
        words=MEM_WALS,
        use=("place", "how"),
    )
    feed: FeedOptions = NO_FEED
    storage: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def chooses_version(self) -> bool:
        """Whether a version is chosen, so that there must be a table."""
        return any(getattr(self, name) is not None for name in VERSIONS)

    @property
    def truncates(self) -> bool:
        """Whether nanoseconds are rounded down to microseconds."""
        return self.nanoseconds == "truncate"

    @property
    def searches(self) -> bool:
        """Whether the rows are those that a search finds."""
        return any(getattr(self, name) is not None for name in SEARCHES)

    @property
    def joins(self) -> dict[str, int | float | str | None]:
        """How indexes are searched for joins by nearness."""
        return {name: getattr(self, name) for name in JOINS}

    def check_stream(self) -> None:
        """Raise InvalidOptionError for options that do not describe what a stream reads."""
        self.feed.check_stream()
        found = changed(self)
        for name in used(ReadOptions, "batch"):
            if name in found:
                raise InvalidOptionError(f"the option {name!r} does not apply to readStream; startingVersion chooses where a stream begins")

    @classmethod
    def of(cls, options: Given) -> ReadOptions:
        """Those among the options that are given. Raises InvalidOptionError if they make no read."""
        values = options.values
        searches = [name for name in SEARCHES if name in values]
        for name in used(cls, "of search"):
            if name in values and not searches:
                raise InvalidOptionError(f"the option {name} is for a search: give nearest, fullTextQuery or hybrid, too")
        check_together([*options_of(FeedOptions).values(), *options_of(cls).values()], values)
        if searches and (own := [name for name in JOINS if name in values]):
            raise InvalidOptionError(f"the option {own[0]} is for joins; of a search, it is a parameter in the JSON of {searches[0]}")
        return made(
            cls,
            values,
            feed=made(FeedOptions, values),
            namespace_properties=options.namespace,
            storage=options.storage,
        )


VERSIONS = used(ReadOptions, "version")
"""The options that choose a version."""
SEARCHES = used(ReadOptions, "search")
"""The options that make a search of a read."""
JOINS = used(ReadOptions, "join")
"""The options of joins by nearness."""
