"""The options of reads and writes through Spark: names, aliases and help texts. docs/options.md is generated from these tables.

Spark passes option keys in lower case. An option that would change the result is never ignored: an unknown option raises
InvalidOptionError, and an option of another connector that is not implemented raises UnsupportedFeatureError.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.namespace.protocol import parse_id
from lance_spark.schema.blobs import BLOB_HANDLINGS, BlobHandling
from lance_spark.spark.columns.types import FIXED_SIZE
from lance_spark.spark.options.values import (
    choice,
    columns,
    flag,
    fragments,
    json_object,
    moment,
    nonempty,
    number,
    number_or_word,
    share,
    storage_version,
    tag_part,
    time_span,
    words_or_json,
)
from lance_spark.storage.location import of_hadoop
from lance_spark.storage.options import TABLES as STORAGE_OPTIONS
from lance_spark.table.feed.options import DESCRIBED as FEED
from lance_spark.table.feed.options import LATEST, NO_FEED, FeedOption, FeedOptions
from lance_spark.table.scan.plan import MAX_TASK_BYTES
from lance_spark.table.search.nearest import APPROX_MODES
from lance_spark.table.versions.snapshot import MEM_WALS, MemWal
from lance_spark.table.write.new_schema import COLUMN_OPTIONS
from lance_spark.table.write.options import DESCRIBED, NO_OPTIONS, WriteOption, WriteOptions

STORAGE = "storage."
NAMESPACE = "namespace."
_HIDDEN = "secret."
"""`storage.secret.x` is an alias of `storage.x`: by default, Spark hides the values of options with "secret" in their names."""
_SIZE_SUFFIX = f".{FIXED_SIZE}"
_COLUMN_SUFFIXES = tuple(f".{name}" for name in COLUMN_OPTIONS)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Option:
    """An option: its name, whether it applies to reads or writes, the parser of its text, its help text and its aliases."""

    name: str
    use: Literal["read", "write", "both"]
    parse: Callable[[str], Any]
    help: str
    aliases: tuple[str, ...] = ()


def _parser(option: WriteOption) -> Callable[[str], Any]:
    return {"text": nonempty, "count": number(option.least), "flag": flag, "storage version": storage_version, "columns": columns}[
        option.kind
    ]


def _help(field: str, option: WriteOption) -> str:
    default = getattr(NO_OPTIONS, field)
    return option.help if option.kind != "count" or default is None else f"{option.help[:-1]} (default: {default})."


def _feed_parser(option: FeedOption) -> Callable[[str], Any]:
    parsers = {
        "flag": flag,
        "version": number(0),
        "start": number_or_word(0, LATEST),
        "count": number(1),
        "moment": moment,
        "tag": tag_part,
        "duration": time_span,
    }
    return parsers[option.kind]


JOINS = {
    "nprobes": "how many partitions of each segment of an index are searched for each row of the left side.",
    "minimum_nprobes": "how many are searched at least.",
    "maximum_nprobes": "how many are searched at most.",
    "search_effort": "from 0, which searches the least number at first, over 0.5 (default) to 1, which searches all.",
    "approx_mode": "`fast`, `normal` (default) or `accurate`: how codes of IVF_RQ are compared.",
    "refine_factor": "so many times `k` rows are taken from an index, and their distances are computed from the vectors.",
    "ef": "how many rows the search in a graph (HNSW) keeps.",
}
"""How indexes are searched for joins by nearness in Spark's own words, which have no words for it."""
_JOIN_PARSERS: Mapping[str, Callable[[str], Any]] = {"search_effort": share, "approx_mode": choice(*APPROX_MODES)}
"""Those of them that are not counts."""
_JOIN = "For a join [APPROX NEAREST](nearest-join.md#in-sparks-own-words) with the table:"
_OF_FEEDS = tuple(Option(o.name, "read", _feed_parser(o), o.help) for o in FEED.values())
_OF_WRITES = tuple(Option(o.name, "write", _parser(o), _help(field, o), o.aliases) for field, o in DESCRIBED.items())
OPTIONS = (
    Option(
        "path", "both", nonempty, "The location of the table: a local path or a URI (s3://, gs://, az://, ...). `load` and `save` set it."
    ),
    Option(
        "table",
        "both",
        parse_id,
        "The id of a table of the namespace at `path`, or of `namespace`: its names, separated by dots (see [namespaces](namespaces.md)).",
    ),
    Option(
        "namespace",
        "both",
        nonempty,
        "The namespace of `table`: a URI, `dir`, `rest` or a class, as in `lance_spark.namespace` (default: the namespace at `path`).",
    ),
    Option("version", "read", number(1), "The version to read (default: the latest).", ("versionAsOf",)),
    Option("tag", "read", nonempty, "The tag to read."),
    Option("branch", "both", nonempty, "The branch to read or write; `version` and `timestamp` refer to it."),
    Option(
        "timestamp",
        "read",
        moment,
        "Read the latest version at this time, in ISO 8601 (UTC if it has no zone).",
        ("timestampAsOf", "asof"),
    ),
    Option("columns", "read", columns, "The columns to read, separated by commas or as a JSON list; nested columns with dots."),
    Option("filter", "read", nonempty, "The rows to read, as a SQL condition with Spark's semantics, such as `id > 3 AND name LIKE 'a%'`."),
    Option("limit", "read", number(0), "Maximum number of rows of the whole read."),
    Option(
        "nearest",
        "read",
        json_object,
        'Search for the nearest vectors: the parameters as JSON, such as `{"column": "vector", "q": [0.5, 1], "k": 10}` '
        "(see [search](searching.md)).",
    ),
    Option(
        "fullTextQuery",
        "read",
        words_or_json,
        "Search for the best matches of words, or of a query as JSON (see [search](searching.md)).",
        ("full_text_query",),
    ),
    Option(
        "hybrid",
        "read",
        json_object,
        "Search by several routes: their parameters and how they are put into one order, as JSON (see [search](searching.md)).",
    ),
    Option("prefilter", "read", flag, "`true` searches the rows of the `filter`; `false` (default) applies it to the rows that are found."),
    Option("fast_search", "read", flag, "`true` leaves out of a search what no index covers (default: `false`)."),
    Option("offset", "read", number(0), "Number of rows at the start of the result of a search that are left out."),
    *(Option(name, "read", _JOIN_PARSERS.get(name, number(1)), f"{_JOIN} {text}") for name, text in JOINS.items()),
    Option("batch_size", "read", number(1), "Maximum number of rows in one Arrow batch."),
    Option(
        "max_partition_bytes",
        "read",
        number(1),
        f"Approximate maximum number of bytes that a task reads (default: {MAX_TASK_BYTES}, as in Spark's file sources).",
    ),
    Option(
        "fragments",
        "read",
        fragments,
        "Ids of the fragments to read, separated by commas. Each fragment is read by one task, in row order.",
    ),
    Option("with_row_id", "read", flag, "`true` adds the column `_rowid`."),
    Option("with_row_address", "read", flag, "`true` adds the column `_rowaddr` (the fragment and the position in it)."),
    Option(
        "nanoseconds",
        "read",
        choice("error", "truncate"),
        "`truncate` rounds nanoseconds down to microseconds; `error` (default) rejects them.",
    ),
    Option(
        "blob_handling",
        "read",
        choice(*BLOB_HANDLINGS),
        "Blob columns: `bytes` (default) returns the values, `descriptor` their positions and sizes, `none` omits the columns.",
    ),
    Option(
        "use_scalar_index",
        "read",
        flag,
        "`false` does not look the rows of a filter up in the indexes of the table (default: `true`; see [indexes](indexes.md)).",
    ),
    Option(
        "allow_other_stores",
        "read",
        flag,
        "`true` permits reading base paths and blob URIs in other stores or buckets than the table's.",
    ),
    Option(
        "verify_checksums",
        "read",
        flag,
        "`false` skips the verification of checksums (default: `true`; see [checksums](checksums.md)).",
    ),
    Option(
        "mem_wal",
        "read",
        choice(*MEM_WALS),
        "How a table with a write-ahead log is read: `merged` (default) with the rows of the log, or only the table, its `base` "
        "(see [write-ahead logs](mem-wal.md)).",
    ),
    *_OF_FEEDS,
    *_OF_WRITES,
    Option(
        "replaceWhere",
        "write",
        nonempty,
        "With mode overwrite: replace only the rows that satisfy this condition. New rows must satisfy it, too. The columns stay the same.",
    ),
    Option(
        "partitionOverwriteMode",
        "write",
        choice("static", "dynamic"),
        "With mode overwrite of a partitioned namespace: `dynamic` replaces only the partitions that contain new rows.",
    ),
    Option("checkpointLocation", "write", nonempty, "With `writeStream`: the folder in which Spark notes the progress of the query."),
    Option("queryName", "write", nonempty, "With `writeStream`: the name of the query."),
    Option("write_mode", "write", choice("create"), "`create`, with Spark's mode append: raise an error if the table exists."),
)
OF_STREAMS = ("checkpointLocation", "queryName")
"""Spark's own options of a stream, which it also gives to the source."""

_BY_NAME = {name.lower(): option for option in OPTIONS for name in (option.name, *option.aliases)}

IGNORED = (
    *("use_queued_write_buffer", "queue_depth", "max_batch_bytes", "max_rows_per_group", "block_size", "index_cache_size"),
    *("metadata_cache_size", "pushDownFilters", "topN_push_down", "executor_credential_refresh"),
)
"""Tuning options of the JVM connector, which do not change results."""
_IGNORED = {name.lower() for name in IGNORED}

UNBUILT = {
    "streamingQueryId": "",
    "blob_pack_file_size_threshold": "",
    "use_large_var_types": "string and binary values of any length are supported without it",
    "lance.partition.spec": "",
    "backfill_columns": "",
    "update_columns": "",
    "withEventTimeOrder": "the first rows of a stream come fragment by fragment; give a watermark that spans their times, "
    "or read them by a batch, and stream with startingVersion",
}
"""Options of other connectors that would change the result, with the alternative if there is one."""
_UNBUILT = {name.lower(): (name, hint) for name, hint in UNBUILT.items()}

_FOR_READING_ONLY_AND_HARMLESS = (
    *("batch_size", "max_partition_bytes", "nanoseconds", *JOINS),
    *("use_scalar_index", "allow_other_stores", "verify_checksums", "mem_wal"),
)
_SEARCHES = {"nearest", "fullTextQuery", "hybrid"}
"""The options that make a search of a read; LanceTable.java has them, too."""
_NOT_OF_CHANGES = {
    **dict.fromkeys(("version", "tag", "timestamp"), "startingVersion and endingVersion choose the changes"),
    **dict.fromkeys(sorted(_SEARCHES), "changes cannot be searched"),
    "fragments": "changes are those of all fragments",
    "limit": "limit the DataFrame",
}
"""The options that cannot be combined with a change feed, and what to do instead."""
_OF_CATALOG_TABLES = "option."
_PROPERTY = "tblproperties."
"""Before the TBLPROPERTIES of a catalog table, as CatalogTables.java passes them on."""
_BY_PROPERTY = {option.name for option in DESCRIBED.values() if option.of_tables}
"""Options that TBLPROPERTIES can give, besides those of single columns: they say how a new table is written."""
OF_EACH_WRITE = {option.name for option in DESCRIBED.values() if option.of_files}
"""Options of new tables that apply to their later writes, too."""


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read. None: not given."""

    path: str | None = None
    table: tuple[str, ...] | None = None
    namespace: str | None = None
    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    timestamp: datetime | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    limit: int | None = None
    nearest: Mapping[str, Any] | None = field(default=None, hash=False)
    fullTextQuery: str | Mapping[str, Any] | None = field(default=None, hash=False)
    hybrid: Mapping[str, Any] | None = field(default=None, hash=False)
    prefilter: bool = False
    fast_search: bool = False
    offset: int = 0
    nprobes: int | None = None
    minimum_nprobes: int | None = None
    maximum_nprobes: int | None = None
    search_effort: float | None = None
    approx_mode: str | None = None
    refine_factor: int | None = None
    ef: int | None = None
    batch_size: int | None = None
    max_partition_bytes: int = MAX_TASK_BYTES
    fragments: frozenset[int] | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    nanoseconds: str = "error"
    use_scalar_index: bool = True
    allow_other_stores: bool = False
    verify_checksums: bool = True
    mem_wal: MemWal = "merged"
    blob_handling: BlobHandling = "bytes"
    feed: FeedOptions = NO_FEED
    namespace_properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def chooses_version(self) -> bool:
        """Whether a version is chosen, so that there must be a table."""
        return any(given is not None for given in (self.version, self.tag, self.branch, self.timestamp))

    @property
    def searches(self) -> bool:
        """Whether the rows are those that a search finds."""
        return any(getattr(self, name) is not None for name in _SEARCHES)

    @property
    def joins(self) -> dict[str, int | float | str | None]:
        """How indexes are searched for joins by nearness."""
        return {name: getattr(self, name) for name in JOINS}

    def check_stream(self) -> None:
        """Raise InvalidOptionError for options that do not describe what a stream reads."""
        self.feed.check_stream()
        for name in ("version", "tag", "timestamp", "limit", "fragments", *sorted(_SEARCHES)):
            if getattr(self, name) is not None:
                raise InvalidOptionError(f"the option {name!r} does not apply to readStream; startingVersion chooses where a stream begins")

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse Spark's option map. Write options are validated and ignored, since a view has one map for reads and INSERT."""
        values = _parse(options)
        for alternatives in (("version", "tag", "timestamp"), ("tag", "branch")):
            given = [name for name in alternatives if name in values]
            if len(given) > 1:
                raise InvalidOptionError(f"give only one of the options {', '.join(given)}")
        for name in ("prefilter", "fast_search", "offset"):
            if name in values and not _SEARCHES & values.keys():
                raise InvalidOptionError(f"the option {name} is for a search: give nearest, fullTextQuery or hybrid, too")
        if len(searches := [name for name in values if name in _SEARCHES]) > 1:
            raise InvalidOptionError(f"give only one of the options {', '.join(sorted(searches))}; hybrid can have routes of both")
        if searches and (own := [name for name in JOINS if name in values]):
            raise InvalidOptionError(f"the option {own[0]} is for joins; of a search, it is a parameter in the JSON of {searches[0]}")
        if "fragments" in values and searches:
            raise InvalidOptionError(f"the options fragments and {searches[0]} cannot be combined; a search is of all fragments")
        feed = FeedOptions(**{name: values[option.name] for name, option in FEED.items() if option.name in values})
        if feed.changes and (others := [name for name in values if name in _NOT_OF_CHANGES]):
            raise InvalidOptionError(f"the options readChangeFeed and {others[0]} cannot be combined; {_NOT_OF_CHANGES[others[0]]}")
        names = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names}, feed=feed)


@dataclass(frozen=True)
class SparkWriteOptions:
    """The options of a write through Spark: those of the write itself, and where and when it applies. None: not given.

    `sizes` are the sizes of fixed-size lists by lower-cased column path. `given` are the names of all options that are given.
    """

    path: str | None = None
    table: tuple[str, ...] | None = None
    namespace: str | None = None
    branch: str | None = None
    replaceWhere: str | None = None
    partitionOverwriteMode: str | None = None
    write_mode: str | None = None
    checkpointLocation: str | None = None
    queryName: str | None = None
    write: WriteOptions = NO_OPTIONS
    sizes: Mapping[str, int] = field(default_factory=dict, hash=False)
    namespace_properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    given: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def storage(self) -> Mapping[str, str]:
        """The storage options, without their prefix."""
        return self.write.storage_options

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SparkWriteOptions:
        """Parse Spark's option map. Raises InvalidOptionError for options that select what to read."""
        values = _parse(options)
        own, fields_of = {f.name for f in fields(cls)}, {option.name: name for name, option in DESCRIBED.items()}
        fields_of |= {"storage": "storage_options", "column_options": "column_options"}
        for name in values:
            if name not in own and name not in fields_of and name not in _FOR_READING_ONLY_AND_HARMLESS:
                raise InvalidOptionError(f"the option {name!r} applies only to reads; a write uses the latest version and all columns")
        write = WriteOptions(**{fields_of[name]: value for name, value in values.items() if name in fields_of})
        return cls(**{name: value for name, value in values.items() if name in own}, write=write, given=frozenset(values))


def hidden(key: str) -> str:
    """The alias of a storage option, with its prefix, or of a namespace's property, without: Spark hides its value."""
    prefix = STORAGE if key.lower().startswith(STORAGE) else ""
    name = key[len(prefix) :]
    return key if name.lower().startswith(_HIDDEN) else f"{prefix}{_HIDDEN}{name}"


def storage_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The storage options among Spark's options, without their prefix. `storage.x` takes precedence over `storage.secret.x`."""
    return _prefixed(options, STORAGE)


def _prefixed(options: Mapping[str, Any], prefix: str) -> dict[str, str]:
    settings = {key[len(prefix) :].lower(): str(value) for key, value in options.items() if key.lower().startswith(prefix)}
    hidden = {key.removeprefix(_HIDDEN): value for key, value in settings.items() if key.startswith(_HIDDEN)}
    return hidden | {key: value for key, value in settings.items() if not key.startswith(_HIDDEN)}


def _parse(options: Mapping[str, str]) -> dict[str, Any]:
    """Parse all options. The result has their main names; `storage.*`, list sizes and column options become mappings."""
    values: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    column_options: dict[str, str] = {}
    own = _given(options)
    for key, text in own.items():
        name = key.lower()
        if name.startswith((STORAGE, NAMESPACE)):
            continue
        if name.endswith(_SIZE_SUFFIX) and name != _SIZE_SUFFIX:
            sizes[name.removesuffix(_SIZE_SUFFIX)] = _value(key, text, number(1, 2**31 - 1))
        elif name.endswith(_COLUMN_SUFFIXES):
            column_options[key] = text
        elif name in _BY_NAME:
            option = _BY_NAME[name]
            if option.name in values:
                raise InvalidOptionError(f"the option {option.name!r} is given twice, under different names; give it once")
            values[option.name] = _value(key, text, option.parse)
        elif name == "paths":
            values["path"] = _single_path(text)
        elif name in _IGNORED:
            _ignore(key)
        else:
            raise _unknown(key)
    if "table" not in values and ("namespace" in values or _prefixed(own, NAMESPACE)):
        raise InvalidOptionError("the option namespace requires the option table, the id of a table in it")
    given = {"sizes": sizes, "column_options": column_options, "namespace_properties": _prefixed(own, NAMESPACE)}
    return {**values, "storage": storage_options(own), **{name: value for name, value in given.items() if value}}


def _given(options: Mapping[str, str]) -> Mapping[str, str]:
    """The user's own options. CREATE TABLE ... USING lance mixes them with table properties and repeats them with a prefix."""
    if not {"provider", "owner"} <= options.keys():
        return _with_properties(options)
    own = {k[len(_OF_CATALOG_TABLES) :]: v for k, v in options.items() if k.startswith(_OF_CATALOG_TABLES)}
    return {**own, **{k: of_hadoop(options[k]) for k in ("path",) if k in options}}


def _with_properties(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options, and those among the table's properties that have no option. Other properties are the user's own."""
    properties = {k[len(_PROPERTY) :]: v for k, v in options.items() if k.lower().startswith(_PROPERTY)}
    given = {k: v for k, v in options.items() if not k.lower().startswith(_PROPERTY)}
    names = {main_name(k) for k in given}
    return given | {k: v for k, v in properties.items() if is_of_new_table(k) and main_name(k) not in names}


def main_name(key: str) -> str:
    """The name of an option that may be given by an alias, and in any case."""
    option = _BY_NAME.get(key.lower())
    return key.lower() if option is None else option.name


def is_of_new_table(key: str) -> bool:
    """True for an option that TBLPROPERTIES can give, too: it says how a new table is written."""
    return main_name(key) in _BY_PROPERTY or is_of_columns(key)


def is_of_columns(key: str) -> bool:
    """True for an option of a single column of a new table."""
    return key.lower().endswith((_SIZE_SUFFIX, *_COLUMN_SUFFIXES))


def _value(key: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as e:
        raise InvalidOptionError(f"the option {key!r} takes {e}, not {text!r}") from None


def _single_path(text: str) -> str:
    paths = json.loads(text)
    if len(paths) != 1:
        raise InvalidOptionError(f"expected one path, found {len(paths)}; load each table and combine them with union")
    return str(paths[0])


def _unknown(key: str) -> InvalidOptionError | UnsupportedFeatureError:
    name = key.lower()
    if name in _UNBUILT:
        shown, hint = _UNBUILT[name]
        return UnsupportedFeatureError(f"the option {shown!r} is not implemented" + (f": {hint}" if hint else ""))
    if any(name in table for table in STORAGE_OPTIONS.values()):
        return InvalidOptionError(f"unknown option {key!r}; storage options are named '{STORAGE}{name}'")
    known = [known for option in OPTIONS for known in (option.name, *option.aliases)]
    hint = nearest(name, known) or f"; expected: {', '.join(known)}, {STORAGE}*, <col>{_SIZE_SUFFIX}"
    return InvalidOptionError(f"unknown option {key!r}{hint}")


_ignored_before: set[str] = set()


def _ignore(key: str) -> None:
    """Warn once per process that the option has no effect."""
    if key.lower() not in _ignored_before:
        _ignored_before.add(key.lower())
        _LOG.warning("the option %r of the JVM connector has no effect here", key)


def table() -> str:
    """The options as a Markdown table, for docs/options.md."""
    rows = ["| option | aliases | applies to | meaning |", "|---|---|---|---|"]
    words = {"read": "reads", "write": "writes", "both": "both"}
    for o in OPTIONS:
        rows.append(f"| `{o.name}` | {', '.join(f'`{a}`' for a in o.aliases)} | {words[o.use]} | {o.help} |")
    rows.append(
        f"| `{STORAGE}<key>` | `{STORAGE}{_HIDDEN}<key>` | both | A storage option, such as `storage.endpoint`; the keys are "
        "those of pylance. Spark hides the value of the alias. |"
    )
    rows.append(
        f"| `{NAMESPACE}<key>` | `{NAMESPACE}{_HIDDEN}<key>` | both | A property of the namespace, such as `namespace.uri`. "
        "Spark hides the value of the alias. |"
    )
    rows.append(f"| `<col>{_SIZE_SUFFIX}` | | writes | The size of a fixed-size list: the type of an array column of a new table. |")
    rows += [f"| `<col>.{name}` | | writes | For a column of a new table. {o.help} |" for name, o in COLUMN_OPTIONS.items()]
    rows += ["", f"Options of the JVM connector that have no effect here: {', '.join(f'`{n}`' for n in IGNORED)}.", ""]
    rows.append(f"Options of other connectors that are not implemented and raise an error: {', '.join(f'`{n}`' for n in UNBUILT)}.")
    return "\n".join(rows)
