"""The table functions of SQL that search a table or return its changes: their arguments, from SearchFunction.java, as options of a read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError
from lance_spark.predicate import both
from lance_spark.spark.options.known import KNOWN
from lance_spark.spark.options.read import JOINS, SEARCHES
from lance_spark.spark.options.registered import RegisteredFunction
from lance_spark.table.search.hybrid_query import FUSES
from lance_spark.table.search.nearest import DEFAULT_K

_READ = ("filter", "prefilter", "fast_search", "columns", "offset", "version", "tag", "branch", "timestamp", "with_row_id")
"""Arguments that have the meaning of the options of the same names."""
_NEAREST = ("metric", *JOINS, "use_index", "distance_range")
"""Arguments that have the meaning of the parameters of nearest."""
_RANGE = ("lower_bound", "upper_bound", "bypass_vector_index")
_FUSION = ("candidates", "fuse", "fuse_columns", "rrf_k", "weights")
_CHANGES = {
    "begin": "startingVersion",
    "end": "endingVersion",
    "starting_timestamp": "startingTimestamp",
    "ending_timestamp": "endingTimestamp",
    "net_changes": "netChanges",
    "compute_updates": "computeUpdates",
    "filter": "filter",
    "columns": "columns",
    "branch": "branch",
    "with_row_id": "with_row_id",
}
"""The arguments of a change feed, and the options that they stand for."""
_ALIASES = {
    "num_results": "k",
    "limit": "k",
    "distance_type": "metric",
    "nprobs": "nprobes",
    "num_candidates": "candidates",
    "candidate_count": "candidates",
}


@dataclass(frozen=True)
class _Function:
    """A function: the arguments without a name, in order, and others. `meaning` gives arguments the names of those of other functions;
    those with the names in `needed` must be given.
    """

    positional: tuple[str, ...]
    others: tuple[str, ...]
    meaning: Mapping[str, str]
    needed: tuple[str, ...]


BRANCH_DIFF = "branch_diff"
_FEEDS = ("lance_changes", "table_changes", "table_changes_by_path")
_VECTOR = {"query": "vector", "column": "vector_column"}
_FUNCTIONS = {
    "lance_vector_search": _Function(("table", "column", "query", "k"), (*_NEAREST, *_RANGE, *_READ), _VECTOR, ("vector",)),
    "vector_search": _Function(
        ("table", "query_vector", "k"), ("vector_column", *_NEAREST, *_RANGE, *_READ), {"query_vector": "vector"}, ("vector",)
    ),
    "lance_fts": _Function(("table", "column", "query", "k"), _READ, {"column": "search_columns"}, ("query",)),
    "search": _Function(("table", "query", "k"), ("search_columns", "search_query", *_READ), {"search_query": "query"}, ("query",)),
    "lance_hybrid_search": _Function(
        ("table", "vector_column", "vector", "text_column", "query", "k"),
        (*_FUSION, *_NEAREST, *_RANGE, *_READ),
        {"text_column": "search_columns"},
        ("vector", "query"),
    ),
    "hybrid_search": _Function(
        ("table", "query_vector", "query", "k"),
        ("vector_column", "search_columns", "search_query", *_FUSION, *_NEAREST, *_RANGE, *_READ),
        {"query_vector": "vector", "search_query": "query"},
        ("vector", "query"),
    ),
    BRANCH_DIFF: _Function(("table", "before", "after"), (), {"before": "diffFrom", "after": "branch"}, ("diffFrom", "branch")),
    **dict.fromkeys(_FEEDS, _Function(("table", "begin", "end"), tuple(_CHANGES)[2:], {}, ())),
}


def chooses_version(call: Mapping[str, Any]) -> bool:
    """Whether the call of a function says which version it reads. Raises InvalidOptionError."""
    given = _arguments(call["name"], call["positional"], call["named"])
    return not given.keys().isdisjoint({"version", "tag", "timestamp"})


def has_chosen_columns(options: Mapping[str, str]) -> bool:
    """Whether the options of a view choose its columns: a function may name no others."""
    return any(name.lower() in _OF_COLUMNS for name in options)


def with_options(options: Mapping[str, str], call: Mapping[str, Any]) -> dict[str, str]:
    """The options of a read, with those that the call of a function stands for. Raises InvalidOptionError."""
    given = _arguments(call["name"], call["positional"], call["named"])
    found = dict(options)
    if chooses_version(call):
        found = {name: value for name, value in found.items() if name.lower() not in _OF_VERSIONS}
    is_feed = call["name"] in _FEEDS
    if not is_feed and any(name.lower() in _OF_SEARCHES for name in found):
        raise InvalidOptionError(f"{call['name']} cannot search a view of a path with the option limit, or of a search; give it the path")
    if not is_feed and call.get("hides_rows"):
        _check_version_of_view(call["name"], given)
        if found.get("prefilter") == "true":
            _check_stays_in_view(call["name"], given)
    if has_chosen_columns(found):
        _check_columns_of_view(call["name"], given, is_feed)
    own = next((name for name in found if name.lower() == "filter"), None)
    if own is not None and "filter" in given:
        found["filter"] = both(found.pop(own), given.pop("filter"))
    if is_feed:
        return {**found, "readChangeFeed": "true", **_feed_options(given)}
    if call["name"] == BRANCH_DIFF:
        return {**found, **{option: _text(value) for option, value in given.items()}}
    return {**found, **_options(call["name"], given)}


def _check_columns_of_view(name: str, given: Mapping[str, Any], is_feed: bool) -> None:
    """Raise InvalidOptionError for arguments that may name columns which a view of chosen columns hides."""
    if "columns" in given:
        raise InvalidOptionError(f"{name} cannot give a view of chosen columns others: leave out columns, and select some")
    if is_feed and "filter" in given:
        raise InvalidOptionError(f"{name} cannot filter a view of chosen columns: leave out filter, and write WHERE")


def _check_version_of_view(name: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidOptionError for arguments by which a search would find rows of other versions than that of a view."""
    if others := [argument for argument in _OF_OTHER_ROWS if argument in given]:
        raise InvalidOptionError(f"{name} searches a view, which has the rows of one version: leave out {others[0]}")


def _check_stays_in_view(name: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidOptionError for a filter that would come after the search of a view with a condition."""
    is_after = not given["prefilter"] if "prefilter" in given else "filter" in given
    if is_after:
        raise InvalidOptionError(
            f"{name} searches a view with a condition, which comes before the search: give the filter with prefilter => true"
        )


def _feed_options(given: Mapping[str, Any]) -> dict[str, str]:
    """The options of a change feed. As in Delta Lake, its ends are numbers of versions, or else times."""
    options: dict[str, str] = {}
    for argument, value in given.items():
        option = _CHANGES[argument]
        if option.endswith("Version") and not isinstance(value, int) and not str(value).isdecimal():
            option = option.replace("Version", "Timestamp")
        if option in options:
            raise InvalidOptionError(f"the changes have two values for {option}: {options[option]} and {value}")
        options[option] = _text(value)
    return options


def _keys(*options: str) -> frozenset[str]:
    """All names of some options, as Spark has them."""
    return frozenset(name.lower() for option in options for name in KNOWN[option].names)


_OF_VERSIONS = _keys("version", "tag", "timestamp")
_OF_SEARCHES = _keys("limit", *SEARCHES)
_OF_COLUMNS = _keys("columns")
_OF_OTHER_ROWS = ("version", "tag", "timestamp", "branch")
"""Arguments that read other rows of the table than those that a view of it has."""


def _arguments(name: str, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are given, by their own names."""
    function = _FUNCTIONS[name]
    known = (*function.positional, *function.others)
    if len(positional) > len(function.positional):
        raise InvalidOptionError(
            f"{name} has {len(positional)} arguments without a name, but takes at most {', '.join(function.positional)}; name the others"
        )
    found: dict[str, Any] = {}
    for given, value in [*zip(function.positional, positional), *named.items()]:
        argument = _ALIASES.get(given.lower(), given.lower())
        if argument not in known:
            hint = did_you_mean(given, [*known, *_ALIASES]) or f"; its arguments are: {', '.join(known)}"
            raise InvalidOptionError(f"{name} has no argument {given!r}{hint}")
        own = function.meaning.get(argument, argument)
        if own in found:
            raise InvalidOptionError(f"{name} has the argument {given!r} twice")
        found[own] = value
    for needed in function.needed:
        if found.get(needed) is None:
            own = next((argument for argument, meaning in function.meaning.items() if meaning == needed), needed)
            raise InvalidOptionError(f"{name} needs the argument {own!r}")
    return {argument: value for argument, value in found.items() if value is not None and argument != "table"}


def _options(name: str, given: dict[str, Any]) -> dict[str, str]:
    """The options of a read that the arguments stand for."""
    options = {option: _text(given[option]) for option in _READ if option in given and option != "version"}
    if "version" in given:
        version = str(given["version"])
        options["version" if version.isdecimal() else "tag"] = version
    k, offset = given.get("k", DEFAULT_K), given.get("offset", 0)
    options["limit"] = str(k)
    is_count = all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in (k, offset))
    if not is_count or k < 1:
        raise InvalidOptionError(f"k must be an integer of at least 1 and offset one of at least 0, not {k!r} and {offset!r}")
    if "hybrid" in name:
        return {**options, "hybrid": json.dumps(_hybrid(given, k + offset))}
    if "vector" in given:
        # Each of several vectors has its own rows; a limit would count those of all.
        if isinstance(given["vector"], list) and given["vector"] and isinstance(given["vector"][0], list):
            del options["limit"]
            if offset:
                raise InvalidOptionError("an offset counts the rows of one vector; give one vector, or no offset")
        return {**options, "nearest": json.dumps(_nearest(given, k + offset))}
    return {**options, "fullTextQuery": json.dumps(_text_query(given))}


def _nearest(given: Mapping[str, Any], k: int) -> dict[str, Any]:
    found = {name: given[name] for name in _NEAREST if name in given}
    bounds = given.get("lower_bound"), given.get("upper_bound")
    if bounds != (None, None):
        if "distance_range" in found:
            raise InvalidOptionError("give either distance_range, or lower_bound and upper_bound")
        found["distance_range"] = list(bounds)
    if "bypass_vector_index" in given:
        if "use_index" in found:
            raise InvalidOptionError("give either use_index or bypass_vector_index")
        found["use_index"] = not given["bypass_vector_index"]
    return {**found, "column": given.get("vector_column"), "q": given["vector"], "k": k}


def _text_query(given: Mapping[str, Any]) -> Any:
    query, columns = given["query"], given.get("search_columns")
    if not isinstance(query, str):
        raise InvalidOptionError(f"the query must be text, not {query!r}")
    if query.lstrip().startswith("{"):
        if columns is not None:
            raise InvalidOptionError("a query as JSON names its columns; give it without columns")
        try:
            return json.loads(query)
        except (ValueError, RecursionError) as e:
            raise InvalidOptionError(f"the query starts with a brace, but is not JSON: {e}") from None
    if columns is None:
        return {"match": {"query": query}}
    return {"query": query, "columns": [columns] if isinstance(columns, str) else columns}


def _hybrid(given: Mapping[str, Any], k: int) -> dict[str, Any]:
    candidates = given.get("candidates", k)
    weights = given.get("weights", [1, 1])
    if not isinstance(weights, list) or len(weights) != 2:
        raise InvalidOptionError(f"weights must be those of the vector and of the text, such as array(0.7, 0.3), not {weights!r}")
    routes = [
        {"nearest": _nearest(given, candidates), "weight": weights[0]},
        {"full_text_query": _text_query(given), "k": candidates, "weight": weights[1]},
    ]
    fusion = {name: given[name] for name in ("fuse", "rrf_k") if name in given}
    if "fuse_columns" in given:
        fusion["columns"] = given["fuse_columns"]
    return {"routes": routes, "k": k, **fusion}


def with_function(hybrid: Mapping[str, Any], call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a hybrid search with the function of the user that `fuse` names in the call of a table function.

    Raises InvalidOptionError if the session has no such function.
    """
    fuse = hybrid.get("fuse")
    if not isinstance(fuse, str) or fuse in FUSES:
        return hybrid
    if call.get("function") is None:
        raise InvalidOptionError(
            f"fuse must be one of {', '.join(FUSES)}, or a Python function of the session, not {fuse!r}; "
            f"register it with spark.udf.register({fuse!r}, ..)"
        )
    return {**hybrid, "fuse": RegisteredFunction.of(fuse, call["function"])}


def _text(value: Any) -> str:
    """The text of an option with this value."""
    return value if isinstance(value, str) else json.dumps(value)
