"""Views of the SQL catalog: CREATE, ALTER, DROP and SHOW VIEW, and what Spark is told of a view when a query names it.

CatalogStatement.java lets Spark analyze the query of a new view as that of a temporary one, whose entry is
what is kept: its text, its columns, and properties such as the catalog and namespace that it was made in.
"""

from __future__ import annotations

import fnmatch
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lance_spark.errors import (
    CorruptFileError,
    InvalidOptionError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.protocol import shown
from lance_spark.spark.catalog.statement_tokens import Tokens
from lance_spark.spark.catalog_settings import Catalog, is_path

Id = Sequence[str]
View = Mapping[str, Any]
"""The definition of a view: its query as `text`, its columns as JSON in `schema`, the `properties` of Spark's entry, those of the
user in `own`, and its `comment`."""
_SCHEMA_MODE = "view.schemaMode"
_HANDED_OVER = {"handedOver": True}
NO_ROWS: dict[str, Any] = {"columns": [], "rows": []}
_LIST = {"namespace": "string", "viewName": "string", "isTemporary": "boolean"}


def found(catalog: Catalog, id: Id) -> View | None:
    """The view with an id; None if there is none. Raises CorruptFileError for a definition that is not one of ours."""
    if not id or is_path(id) or is_path(id[:-1]):
        return None
    try:
        text = catalog.namespace.view(id)
    except (NamespaceNotFoundError, InvalidOptionError):
        return None
    if text is None:
        return None
    try:
        view = json.loads(text)
        kinds = {"text": str, "schema": str, "properties": dict, "own": dict, "comment": str}
        is_one = all(isinstance(view[key], kind) for key, kind in kinds.items())
    except (ValueError, TypeError, KeyError, RecursionError):
        is_one = False
    if not is_one:
        raise CorruptFileError(f"the definition of the view {shown(id)} in the metadata of __manifest is not one: {text[:60]!r}")
    return dict(view)


def check_no_view(catalog: Catalog, id: Id, verb: str) -> None:
    """Raise UnsupportedFeatureError if what should be a table is a view."""
    if found(catalog, id) is not None:
        raise UnsupportedFeatureError(f"{shown(id)} is a view, and no table: write {verb}")


def statement(catalog: Catalog, id: Id, head: Sequence[str], rest: Tokens, called: str) -> dict[str, Any]:
    """What a statement about a view, or about those of a namespace, means; `called` is the name of the catalog.

    That are `columns` and `rows`, or the `query` of a temporary view which `put` then makes a view of the catalog.
    """
    if head[:2] == ["SHOW", "VIEWS"]:
        return _listed(catalog, id, rest)
    if head[0] == "SHOW":
        return _shown(catalog, id, rest)
    if head[0] == "CREATE":
        return _created(head, rest)
    if head[0] == "DROP":
        return _dropped(catalog, id, rest, if_exists="IF" in head)
    return _altered(catalog, id, rest, called)


def put(catalog: Catalog, id: Id, view: View, replace: bool, if_not_exists: bool) -> None:
    """Make a view, or another one of the same name. Raises TableAlreadyExistsError."""
    try:
        is_made = catalog.namespace.put_view(id, json.dumps(view), replace=replace)
    except TableAlreadyExistsError:
        if not if_not_exists:
            raise
        return
    if not is_made and not if_not_exists and not catalog.asked.is_again:
        raise TableAlreadyExistsError(f"there is a view {shown(id)} already")


def _created(head: Sequence[str], rest: Tokens) -> dict[str, Any]:
    replace, if_not_exists = "REPLACE" in head, "IF" in head
    if replace and if_not_exists:
        raise InvalidOptionError("CREATE OR REPLACE VIEW replaces a view that exists: leave out IF NOT EXISTS")
    columns = f"({rest.in_parentheses()})" if rest.comes("(") else ""
    kept: dict[str, Any] = {"comment": "", "own": {}}
    mode = "COMPENSATION"
    while not rest.comes("AS"):
        if rest.take("COMMENT"):
            kept["comment"] = rest.text()
        elif rest.take("WITH SCHEMA"):
            mode = _mode(rest)
        elif rest.comes("TBLPROPERTIES"):
            kept["own"] = rest.texts("TBLPROPERTIES")
        else:
            rest.expected("COMMENT, TBLPROPERTIES, WITH SCHEMA or AS")
    return {**_to_analyze(columns, rest), **kept, "mode": mode, "replace": replace, "if_not_exists": if_not_exists}


def _mode(rest: Tokens) -> str:
    """What happens to the columns of the view when those of its tables change."""
    mode = rest.take_one_of("BINDING", "COMPENSATION", "TYPE", "EVOLUTION")
    if mode in ("TYPE", "EVOLUTION"):
        what = "WITH SCHEMA EVOLUTION: the columns of a view are those that it was made with"
        raise UnsupportedFeatureError(f"{what}; leave it out, and write ALTER VIEW v AS SELECT .. after its tables have changed")
    return mode


def _to_analyze(columns: str, rest: Tokens) -> dict[str, Any]:
    rest.need("AS")
    temporary = f"__view_{uuid.uuid4().hex}"
    return {"query": f"CREATE TEMPORARY VIEW {temporary} {columns} AS {rest.until()}", "temporary": temporary}


def _altered(catalog: Catalog, id: Id, rest: Tokens, called: str) -> dict[str, Any]:
    """`ALTER VIEW v AS query`, `SET | UNSET TBLPROPERTIES (..)`, `WITH SCHEMA ..` and `RENAME TO v2`."""
    view = _existing(catalog, id)
    if rest.comes("AS"):
        kept = {"comment": view["comment"], "own": view["own"], "mode": view["properties"][_SCHEMA_MODE]}
        return {**_to_analyze("", rest), **kept, "replace": True, "if_not_exists": False}
    if rest.take("RENAME TO"):
        _rename(catalog, id, rest, called)
        return NO_ROWS
    if rest.take("WITH SCHEMA"):
        changed = {"properties": {**view["properties"], _SCHEMA_MODE: _mode(rest)}}
    elif rest.take("SET"):
        changed = {"own": {**view["own"], **rest.texts("TBLPROPERTIES")}}
    elif rest.take("UNSET"):
        changed = {"own": _without(view["own"], rest)}
    else:
        rest.expected("AS, SET TBLPROPERTIES, UNSET TBLPROPERTIES, WITH SCHEMA or RENAME TO")
    rest.end()
    put(catalog, id, {**view, **changed}, replace=True, if_not_exists=False)
    return NO_ROWS


def _without(properties: Mapping[str, str], rest: Tokens) -> dict[str, str]:
    rest.need("TBLPROPERTIES")
    if_exists = rest.take("IF EXISTS")
    names = rest.list_of_texts()
    if missing := [name for name in names if name not in properties and not if_exists]:
        raise InvalidOptionError(f"the view has no property {missing[0]!r}; write UNSET TBLPROPERTIES IF EXISTS")
    return {key: value for key, value in properties.items() if key not in names}


def _rename(catalog: Catalog, id: Id, rest: Tokens, called: str) -> None:
    to = [rest.name()]
    while rest.take("."):
        to.append(rest.name())
    rest.end()
    if len(to) == 1:
        to = [*id[:-1], *to]
    elif to[0] == called:
        to = to[1:]
    if catalog.asked.is_again and found(catalog, id) is None and found(catalog, to) is not None:
        return
    catalog.namespace.rename_view(id, catalog.own_id(to))


def _dropped(catalog: Catalog, id: Id, rest: Tokens, if_exists: bool) -> dict[str, Any]:
    rest.end()
    try:
        catalog.namespace.drop_view(id)
    except TableNotFoundError:
        if catalog.namespace.table_exists(id):
            raise UnsupportedFeatureError(f"{shown(id)} is a table, and no view: write DROP TABLE") from None
        if not if_exists and not catalog.asked.is_again:
            raise
    return NO_ROWS


def _existing(catalog: Catalog, id: Id) -> View:
    view = found(catalog, id)
    if view is None:
        raise TableNotFoundError(f"there is no view {shown(id)}")
    return view


def _listed(catalog: Catalog, id: Id, rest: Tokens) -> dict[str, Any]:
    """`SHOW VIEWS [IN namespace] [[LIKE] pattern]`, where `*` stands for any text and `|` for or."""
    rest.take("LIKE")
    pattern = "*" if rest.is_done else rest.text()
    rest.end()
    matches = [re.compile(fnmatch.translate(part.strip()), re.IGNORECASE).match for part in pattern.split("|")]
    names = [name for name in catalog.namespace.list_views(id) if any(match(name) for match in matches)]
    return {"columns": list(_LIST.items()), "rows": [[".".join(id), name, False] for name in names]}


def _shown(catalog: Catalog, id: Id, rest: Tokens) -> dict[str, Any]:
    """`SHOW CREATE TABLE v`. That of a table is Spark's."""
    view = found(catalog, id)
    if view is None or rest.take("AS SERDE"):
        return _HANDED_OVER
    rest.end()
    fields = json.loads(view["schema"])["fields"]
    lines = [f"CREATE VIEW {rest.table} (", ",\n".join(f"  {_column(f)}" for f in fields) + ")"]
    if view["comment"]:
        lines.append(f"COMMENT {_text(view['comment'])}")
    if view["own"]:
        lines.append("TBLPROPERTIES (" + ", ".join(f"{_text(k)} = {_text(v)}" for k, v in view["own"].items()) + ")")
    lines.append(f"WITH SCHEMA {view['properties'][_SCHEMA_MODE]}")
    lines.append(f"AS {view['text']}")
    return {"columns": [("createtab_stmt", "string")], "rows": [["\n".join(lines)]]}


def _column(field: Mapping[str, Any]) -> str:
    name = "`" + field["name"].replace("`", "``") + "`"
    comment = field["metadata"].get("comment")
    return name if comment is None else f"{name} COMMENT {_text(comment)}"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
