"""The statements of lance tables that Spark does not know, such as OPTIMIZE: each is a call of a procedure.

StatementText.java divides a statement into tokens, and LanceStatement.java finds out that its table is a lance table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pyarrow as pa

from lance_spark.actions.all import ACTIONS
from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError, TableAlreadyExistsError, TableNotFoundError, UnsupportedFeatureError
from lance_spark.spark.catalog import copy_into, views
from lance_spark.spark.catalog.calls import IF_NOT_EXISTS, LOCATION, NEW_TABLE, PROPERTIES
from lance_spark.spark.catalog.partitions import show_partitions
from lance_spark.spark.catalog.refused_statements import REFUSED
from lance_spark.spark.catalog.spark_statements import (
    ColumnValues,
    SparkStatement,
    analyzed,
    check_fields,
    columns_of_a_view,
    inserted,
    replaced_rows,
    retyped,
    write_order,
)
from lance_spark.spark.catalog.statement_tokens import Token, Tokens
from lance_spark.spark.catalog.tables import current_at
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions

_LOG = logging.getLogger("lance_spark")
_MICROS_PER_HOUR = 3_600_000_000
Column = Mapping[str, str]
"""A column of the rows that a statement returns: its `name`, and the `column` of the procedure's rows, or a constant `text`."""


@dataclass(frozen=True)
class Call:
    """What a statement means: the arguments of a procedure, and the columns that the statement returns (None: those of the procedure).

    `times` are arguments whose values are expressions of Spark. `branch` is another one than that of the table, unless it is None.
    """

    procedure: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    columns: Sequence[Column] | None = None
    times: Mapping[str, str] = field(default_factory=dict)
    branch: str | None = None


def statement(
    catalog: Catalog,
    text: str,
    head: Sequence[str],
    name: str,
    tokens: Sequence[Sequence[Any]],
    place: Mapping[str, Any],
    made: Sequence[str] = (),
    index: str = "",
) -> dict[str, Any]:
    """The call that a statement means, the statement of Spark's own, or the query for values of columns.

    `head` are the words before the name of the table, `tokens` those after it. `made` is the id of a table to be made from it, and `index`
    the name of an index that comes before the table. Raises InvalidOptionError for a statement that is wrong.
    """
    rest = Tokens(text, [Token(*token) for token in tokens], name, lambda: _schema(catalog, place))
    if _kind(head) == "SHOW PARTITIONS":
        shown = show_partitions(catalog, place)
        rest.end()
        return {"sql": shown.sql}
    if _kind(head) == "COPY":
        _check_whole(place)
        return {"copy": copy_into.parsed(rest)}
    if index:
        call: Call | SparkStatement | ColumnValues = index_on(head[0], index, rest)
    else:
        call = _cloned(head, rest, made) if made else _STATEMENTS[_kind(head)](rest)
    rest.end()
    if isinstance(call, SparkStatement):
        return {"sql": call.sql}
    if isinstance(call, ColumnValues):
        _check_whole(place)
        return {"rows": call.query, "kind": call.kind, "assigned": call.columns}
    action = ACTIONS[call.procedure]
    if action.effect != "reads":
        _check_whole(place)
    columns = _same(*action.columns) if call.columns is None else call.columns
    at = place if call.branch is None else _on_branch(place, call.branch)
    return {"procedure": call.procedure, "arguments": call.arguments, "columns": columns, "times": call.times, "place": at}


def statement_of_catalog(
    catalog: Catalog,
    id: Sequence[str],
    text: str,
    head: Sequence[str],
    name: str,
    tokens: Sequence[Sequence[Any]],
    called: str,
) -> dict[str, Any]:
    """What a statement means that names no table: one about views (see `views.statement`), or about a table that was dropped."""
    rest = Tokens(text, [Token(*token) for token in tokens], name)
    if head[0] != "UNDROP":
        return views.statement(catalog, id, head, rest, called)
    rest.end()
    try:
        catalog.namespace.undrop_table(id)
    except TableAlreadyExistsError:
        if not catalog.asked.is_again:
            raise
    except TableNotFoundError as e:
        raise UnsupportedFeatureError(
            f"UNDROP TABLE {name}: {e}; DROP TABLE deletes the files of a table at once, and leaves those of a table with a LOCATION: "
            f"if they are elsewhere, write CREATE TABLE {name} USING lance LOCATION '/path'"
        ) from None
    return views.NO_ROWS


def _schema(catalog: Catalog, place: Mapping[str, Any]) -> pa.Schema:
    return current_at(catalog, place).shape.manifest.schema.to_arrow()


def refusal(
    catalog: Catalog,
    text: str,
    head: Sequence[str],
    name: str,
    tokens: Sequence[Sequence[Any]],
) -> str:
    """What to say of a statement that has no meaning for lance tables."""
    words = [word for word in head if word not in ("OR", "REPLACE")]
    return REFUSED[" ".join(words[:2])].format(name=name)


def _check_whole(place: Mapping[str, Any]) -> None:
    """Raise InvalidOptionError for a view with an option that selects rows, columns or a version: a change is one of the table."""
    options = parse_options(ReadOptions, place.get("options", {}))
    for name in ("version", "tag", "timestamp", "filter", "columns", "limit", "fragments", "nearest", "fullTextQuery", "hybrid"):
        if getattr(options, name) is not None:
            raise InvalidOptionError(f"the table has the option {name!r}, which selects a part of it; name the whole table")


def _kind(head: Sequence[str]) -> str:
    first, *others = head
    if first == "SHOW":
        return f"SHOW {others[0]}"
    return f"DESCRIBE {others[0]}" if first in ("DESCRIBE", "DESC") else first


def _on_branch(place: Mapping[str, Any], branch: str) -> dict[str, Any]:
    if "id" in place:
        return {"id": [*place["id"], f"branch_{branch}"]}
    return {"options": {**place["options"], "branch": branch}}


_OWN_NAMES: Mapping[str, str] = {}
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "bigint": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "double": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
}


def _checked(
    verb: str, given: Mapping[str, Any], procedure: str, names: Mapping[str, str] = _OWN_NAMES, without_effect: Sequence[str] = ()
) -> dict[str, Any]:
    """The options as arguments of a procedure; `names` are those of options that have other names than its arguments."""
    known = {p.name: p.type for p in ACTIONS[procedure].at("statement") if p.type in _KINDS}
    found = {}
    for option, value in given.items():
        name = names.get(option, option)
        if option in without_effect:
            _LOG.warning("the option %s of %s has no effect", option, verb)
        elif name not in known:
            names_known = sorted({*known, *names, *without_effect})
            hint = did_you_mean(option, names_known) or f"; its options are: {', '.join(names_known)}"
            raise InvalidOptionError(f"{verb} has no option {option!r}{hint}")
        elif not _KINDS[known[name]](value):
            raise InvalidOptionError(f"the option {option!r} of {verb} takes a value of the type {known[name]}, not {value!r}")
        else:
            found[name] = value
    return found


def _defaults(procedure: str) -> dict[str, Any]:
    """The defaults of a statement that are not those of CALL."""
    action = ACTIONS[procedure]
    of_call = {p.name: p.default for p in action.at("CALL")}
    return {p.name: p.default for p in action.at("statement") if p.default != of_call[p.name]}


def _same(*names: str) -> list[Column]:
    return [{"name": name, "column": name} for name in names]


_CLUSTERED = _same("fragments_removed", "fragments_added", "rows")


def _auto(rest: Tokens) -> Call:
    """OPTIMIZE t AUTO [DRY RUN]."""
    given = {"dry_run": True} if rest.take("DRY RUN") else {}
    return Call("maintain", {**_checked("OPTIMIZE AUTO", rest.options(), "maintain"), **given})


def _optimize(rest: Tokens) -> Call:
    if rest.take("AUTO"):
        return _auto(rest)
    full = rest.take("FULL")
    arguments: dict[str, Any] = {"where": rest.until("ZORDER BY", "WITH (")} if rest.take("WHERE") else {}
    if full or rest.take("ZORDER BY"):
        arguments |= {"full": True} if full else {"columns": rest.paths()}
        arguments |= _checked("OPTIMIZE", rest.options(), "cluster")
        return Call("cluster", arguments, _CLUSTERED)
    options = rest.options()
    if "where" in arguments and "where" in options:
        raise InvalidOptionError("OPTIMIZE has two conditions: one after WHERE, and the option where")
    arguments |= _checked("OPTIMIZE", options, "compact", without_effect=("max_rows_per_group", "num_threads", "batch_size"))
    return Call("compact", arguments, _same("fragments_removed", "fragments_added", "files_removed", "files_added"))


def _vacuum(rest: Tokens) -> Call:
    arguments: dict[str, Any] = {}
    if rest.take("USING INVENTORY"):
        raise UnsupportedFeatureError("VACUUM lists the folder of the table itself; leave out USING INVENTORY")
    # Delta's two ways to find files: here, both are one.
    rest.take("FULL") or rest.take("LITE")
    if rest.take("RETAIN"):
        arguments["older_than"] = min(round(rest.number() * _MICROS_PER_HOUR), 2**63 - 1)  # no table is older
        rest.take_one_of("HOURS", "HOUR")
    if rest.take("DRY RUN"):
        arguments["dry_run"] = True
    options = rest.options()
    millis = options.pop("before_timestamp_millis", None)
    if millis is not None and not _KINDS["bigint"](millis):
        raise InvalidOptionError(f"the option 'before_timestamp_millis' of VACUUM takes milliseconds since 1970, not {millis!r}")
    arguments |= {} if millis is None else {"before_timestamp": millis * 1000}
    arguments |= {**_defaults("cleanup"), **_checked("VACUUM", options, "cleanup")}
    return Call("cleanup", arguments, _same("bytes_removed", "old_versions", *(["files"] if arguments.get("dry_run") else [])))


def _restore(rest: Tokens) -> Call:
    rest.need("TO")
    if rest.take_one_of("VERSION", "TIMESTAMP") == "VERSION":
        rest.need("AS OF")
        return Call("restore", {"version": rest.version()})
    rest.need("AS OF")
    return Call("restore", times={"timestamp": rest.until()})


def _history(rest: Tokens) -> Call:
    return Call("history", {"limit": rest.count()} if rest.take("LIMIT") else {})


def _alter(rest: Tokens) -> Call | SparkStatement | ColumnValues:
    if rest.take("WRITE"):
        return write_order(rest)
    check_fields(rest)
    if rest.take("CLUSTER BY AUTO"):
        raise UnsupportedFeatureError("CLUSTER BY AUTO: columns are not chosen for you; write ALTER TABLE t CLUSTER BY (a, b)")
    if rest.take("DROP FEATURE"):
        raise UnsupportedFeatureError(
            "DROP FEATURE: a lance table has no features of a protocol to drop; each version says what its readers need"
        )
    for verb in ("ADD", "UPDATE"):
        if rest.take(f"{verb} COLUMNS"):
            return columns_of_a_view(verb, rest)
    if rest.take("ADD CONSTRAINT"):
        return _constraint(rest)
    if rest.take("DROP CONSTRAINT"):
        if_exists = rest.take("IF EXISTS")
        return Call("drop_constraint", {"name": rest.name(), "if_exists": if_exists}, [])
    if rest.take("SET"):
        rest.need("UNENFORCED PRIMARY KEY")
        columns = rest.paths()
        shown = [{"name": "status", "text": "OK"}, {"name": "primary_key_columns", "text": ", ".join(columns)}]
        return Call("set_primary_key", {"columns": columns}, shown)
    if rest.take("ALTER") or rest.take("CHANGE"):
        return _not_null(rest)
    verb = rest.take_one_of("CREATE", "REPLACE", "DROP", "REFRESH", "OPTIMIZE")
    or_replace = verb == "CREATE" and rest.take("OR REPLACE")
    of_verb = {"CREATE": ("INDEX", "TAG", "BRANCH"), "DROP": ("INDEX", "TAG", "BRANCH"), "REPLACE": ("TAG", "BRANCH")}
    kind = rest.take_one_of(*of_verb.get(verb, ("INDEX",)))
    if kind == "INDEX":
        return _index(verb, rest)
    if verb == "DROP":
        return _dropped(kind, rest)
    if (verb, kind) == ("REPLACE", "TAG"):
        return _reference("update_tag", rest, {})
    arguments = {"or_replace": True} if or_replace or verb == "REPLACE" else {"if_not_exists": rest.take("IF NOT EXISTS")}
    return _reference(f"create_{kind.lower()}", rest, arguments)


def _cloned(head: Sequence[str], rest: Tokens, made: Sequence[str]) -> Call:
    """`CREATE TABLE [IF NOT EXISTS] x [SHALLOW | DEEP] CLONE t [VERSION | TIMESTAMP AS OF ..]`."""
    depth = "shallow" if head[-2] == "SHALLOW" else "deep"  # a clone without a word is a deep one, as in Delta
    replaces = "REPLACE" in head[:3]
    arguments: dict[str, Any] = {NEW_TABLE: list(made), IF_NOT_EXISTS: None if replaces else "IF" in head[2:3]}
    times = {}
    if rest.take("VERSION AS OF"):
        arguments["version"] = rest.version()
    elif rest.take("TIMESTAMP AS OF"):
        times["timestamp"] = rest.until()
    while not rest.is_done:
        if rest.take("LOCATION"):
            arguments[LOCATION] = rest.text()
        else:
            arguments[PROPERTIES] = rest.texts("TBLPROPERTIES")
    return Call(f"{depth}_clone", arguments, times=times)


def _verified(rest: Tokens) -> Call:
    """`FSCK REPAIR TABLE t [DRY RUN]` reports, and repairs nothing."""
    rest.take("DRY RUN")
    return Call("verify")


def _reorganized(rest: Tokens) -> Call:
    """`REORG TABLE t [WHERE condition] APPLY (PURGE)`: deleted rows leave the files."""
    purging: dict[str, Any] = {"where": rest.until("APPLY (")} if rest.take("WHERE") else {}
    rest.need("APPLY (")
    if rest.take("UPGRADE"):
        raise UnsupportedFeatureError(
            "REORG TABLE .. APPLY (UPGRADE ..): files of other formats are not kept beside a lance table; leave it out"
        )
    rest.need("PURGE )")
    purging |= {"materialize_deletions": True, "materialize_deletions_threshold": 0.0}
    return Call("compact", purging, _same("fragments_removed", "fragments_added", "files_removed", "files_added"))


def _upgraded(rest: Tokens) -> NoReturn:
    raise UnsupportedFeatureError("UPGRADE TABLE: a lance table needs no upgrade; OPTIMIZE writes new files in its storage version")


def _generated(rest: Tokens) -> NoReturn:
    raise UnsupportedFeatureError(
        "GENERATE .. FOR TABLE: readers of Parquet cannot read the files of a lance table; write its rows as Parquet"
    )


def _not_repaired(rest: Tokens) -> NoReturn:
    raise UnsupportedFeatureError("MSCK REPAIR TABLE: a version of a lance table names its files, so none must be found; leave it out")


def _constraint(rest: Tokens) -> Call:
    name = rest.name()
    if rest.take("PRIMARY KEY"):
        return Call("set_primary_key", {"columns": rest.paths()}, [])
    if not rest.take("CHECK ("):
        raise UnsupportedFeatureError("a lance table has the constraints NOT NULL, CHECK and PRIMARY KEY; leave out others")
    condition = rest.until(")")
    rest.need(")")
    rest.take("ENFORCED")
    return Call("add_constraint", {"name": name, "condition": condition}, [])


def _not_null(rest: Tokens) -> Call | SparkStatement:
    rest.take("COLUMN") or rest.take("COLUMNS")
    if rest.comes("SYNC IDENTITY", after=1):
        column = rest.path()
        rest.need("SYNC IDENTITY")
        return Call("sync_identity", {"column": column}, [])
    if rest.comes("TYPE", after=1) and not rest.comes("COMMENT", after=3):
        return retyped(rest)
    if rest.comes("COMMENT", after=3):
        raise UnsupportedFeatureError("ALTER COLUMN .. TYPE .. COMMENT: write two statements, one with TYPE and one with COMMENT")
    columns: list[str] = []
    while not columns or rest.take(","):
        columns.append(rest.path())
        rest.need("SET NOT NULL")
    return Call("set_not_null", {"columns": columns}, [])


def _index(verb: str, rest: Tokens) -> Call:
    name = rest.name()
    shown: Column = {"name": "index_name", "text": name}
    if verb == "DROP":
        return Call("drop_index", {"name": name}, [shown, {"name": "status", "text": "dropped"}])
    indexed: Column = {"name": "fragments_indexed", "column": "fragments_indexed"}
    if verb == "CREATE":
        rest.need("USING")
        kind = rest.name()
        columns = rest.paths()
        if len(columns) > 1:
            raise InvalidOptionError(f"an index has one column, not {', '.join(columns)}; make an index of each")
        options = _checked("CREATE INDEX", rest.options(), "create_index", _INDEX_OPTIONS, _OF_BUILDS)
        named = {**_defaults("create_index"), "column": columns[0], "kind": kind, "name": name}
        return Call("create_index", {**named, **options}, [indexed, shown])
    arguments: dict[str, Any] = {"index_names": [name]}
    if verb == "REFRESH":
        added: Column = {"name": "segments_added", "column": "segments_added"}
        # New segments are made like those that are there.
        _checked("REFRESH INDEX", rest.options(), "create_index", _INDEX_OPTIONS, _OF_BUILDS)
        return Call("optimize_indices", {**arguments, "num_indices_to_merge": 0}, [indexed, added, shown])
    arguments |= _checked("OPTIMIZE INDEX", rest.options(), "optimize_indices")
    return Call("optimize_indices", arguments, [shown, indexed, *_same("segments_before", "segments_after")])


def index_on(verb: str, name: str, rest: Tokens) -> Call:
    """`CREATE INDEX i ON t [USING method] (column) [OPTIONS (..)]` and `DROP INDEX i ON t` of Spark's grammar."""
    if verb == "DROP":
        return Call("drop_index", {"name": name}, [])
    kind = rest.name() if rest.take("USING") else "BTREE"
    columns = rest.paths()
    if len(columns) > 1:
        raise InvalidOptionError(f"an index has one column, not {', '.join(columns)}; make an index of each")
    kinds = {p.name: p.type for p in ACTIONS["create_index"].at("statement")}
    texts = {option.lower(): value for option, value in rest.options("OPTIONS").items()}
    given = {option: rest.value_of(value, kinds.get(_INDEX_OPTIONS.get(option, option), "string")) for option, value in texts.items()}
    options = _checked("CREATE INDEX", given, "create_index", _INDEX_OPTIONS, _OF_BUILDS)
    return Call("create_index", {"column": columns[0], "kind": kind, "name": name, **options}, [])


_OF_BUILDS = ("zone_size", "build_mode", "rows_per_range", "num_segments", "prefetch_distance")
"""Options that say how the JVM connector builds an index."""
_INDEX_OPTIONS = {"distance_type": "metric"}


def _dropped(kind: str, rest: Tokens) -> Call:
    if_exists = rest.take("IF EXISTS")
    return Call(f"delete_{kind.lower()}", {"name": rest.name(), "if_exists": if_exists})


def _reference(procedure: str, rest: Tokens, arguments: dict[str, Any]) -> Call:
    """A new tag or branch of the latest version, or of the one after AS OF."""
    arguments["name"] = rest.name()
    branch = None
    if rest.take("AS OF"):
        what = rest.take_one_of("VERSION", "BRANCH", "TAG")
        branch = rest.name() if what == "BRANCH" else None
        if what == "TAG":
            arguments["version"] = rest.name()
        elif what == "VERSION" or rest.take("VERSION"):
            arguments["version"] = rest.version()
    if rest.take("RETAIN") or rest.take("WITH SNAPSHOT RETENTION"):
        raise UnsupportedFeatureError("branches and tags stay until they are dropped; leave out RETAIN and WITH SNAPSHOT RETENTION")
    return Call(procedure, arguments, _same("name"), branch=branch)


_STATEMENTS: Mapping[str, Callable[[Tokens], Call | SparkStatement | ColumnValues]] = {
    "OPTIMIZE": _optimize,
    "VACUUM": _vacuum,
    "RESTORE": _restore,
    "ALTER": _alter,
    "REPLACE": replaced_rows,
    "ANALYZE": analyzed,
    "FSCK": _verified,
    "REORG": _reorganized,
    "UPGRADE": _upgraded,
    "GENERATE": _generated,
    "INSERT": inserted,
    "MSCK": _not_repaired,
    "DESCRIBE HISTORY": _history,
    "DESCRIBE DETAIL": lambda rest: Call("detail"),
    **dict.fromkeys(("SHOW INDEXES", "SHOW INDEX"), lambda rest: Call("show_indexes")),
    **dict.fromkeys(("SHOW TAGS", "SHOW TAG"), lambda rest: Call("show_tags")),
    **dict.fromkeys(("SHOW BRANCHES", "SHOW BRANCH"), lambda rest: Call("show_branches")),
}
