"""Opening a namespace by a URI or by the name of an implementation and its properties."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.catalogs.known import kind_of, open_catalog, refuse_misspelt
from lance_spark.namespace.client import ClientNamespace
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.library import Library
from lance_spark.namespace.protocol import TRANSACTION, Namespace
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store

STORAGE = "storage."
_HEADERS = ("header.", "headers.")
_CLASS = re.compile(r"[a-z_]\w*(\.\w+)*\.[A-Z]\w*")
_DIRECTORY_PROPERTIES = ("root", "manifest_enabled", "dir_listing_enabled", "dir_listing_to_manifest_migration_enabled")
_WITHOUT_EFFECT = ("inline_optimization_enabled", "commit_retries", "ops_metrics_enabled")
"""Properties of pylance's directory namespace that do not change results."""


def namespace(
    uri_or_implementation: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None, **properties: Any
) -> Namespace:
    """Open a namespace: a directory by its URI or path, a REST service at http(s)://, a catalog, or an implementation by its name.

    "dir" takes pylance's properties `root`, `manifest_enabled`, `dir_listing_enabled` and `dir_listing_to_manifest_migration_enabled`;
    "rest" takes `uri`, `delimiter` and `header.x`; the catalogs "glue", "hive2", "hive3", "unity", "polaris" and "iceberg" take the
    properties of docs/namespaces.md. Other names are those of `lance_namespace.connect`: registered ones and class paths, such as
    "package.Class". Storage options are given as a mapping or as properties `storage.x`.
    Raises InvalidOptionError for unknown properties. Nothing is written.

    Examples:
        >>> import lance_spark
        >>> lake = lance_spark.namespace("/tmp/lake")
        >>> lake.list_tables()
        []
    """
    return connect(os.fspath(uri_or_implementation), storage_options or {}, properties)


def connect(place: str, storage_options: Mapping[str, str], properties: Mapping[str, object]) -> Namespace:
    """`namespace`, with the properties as a mapping."""
    texts = {name: _text(value) for name, value in properties.items() if value is not None}
    options = {n.removeprefix(STORAGE): value for n, value in texts.items() if n.startswith(STORAGE)} | dict(storage_options)
    own = {name: value for name, value in texts.items() if not name.startswith(STORAGE)}
    is_service = place.lower().startswith(("http://", "https://"))
    if place == "rest" or is_service:
        return _rest(_with_place(own, "uri", place) if is_service else own, options)
    if catalog := kind_of(place):
        return open_catalog(catalog, own, options)
    if place != "dir" and (implementation := _implementation(place)):
        passed = {**own, **{STORAGE + name: value for name, value in options.items()}}
        return ClientNamespace(Library(implementation, tuple(sorted(passed.items()))), options)
    refuse_misspelt(place)
    return _directory(own if place == "dir" else _with_place(own, "root", place), options)


def _with_place(properties: Mapping[str, str], name: str, place: str) -> dict[str, str]:
    if name in properties:
        raise InvalidOptionError(f"the property {name} is given twice: {shown(place)!r} and {shown(properties[name])!r}")
    return {**properties, name: place}


def _implementation(name: str) -> str:
    """The implementation with this name in `lance_namespace.connect` (a class path or a registered name); "" if there is none."""
    if _CLASS.fullmatch(name):
        return name
    registered = getattr(sys.modules.get("lance_namespace"), "_REGISTERED_IMPLS", {})
    return str(registered.get(name, ""))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rest(properties: Mapping[str, str], storage_options: Mapping[str, str]) -> ClientNamespace:
    from lance_spark.namespace.rest import Rest  # loads the HTTP client, which directories do not need

    headers = {n.partition(".")[2]: value for n, value in properties.items() if n.startswith(_HEADERS)}
    _check({name: value for name, value in properties.items() if not name.startswith(_HEADERS)}, "REST", ("uri", "delimiter"))
    uri = properties["uri"]
    if not uri.lower().startswith(("http://", "https://")) or shown(uri) != uri:
        raise InvalidOptionError(f"the property uri is {shown(uri)!r}, expected http(s)://host/path; credentials are headers")
    if not properties.get("delimiter", "$"):
        raise InvalidOptionError("the property delimiter is empty")
    return ClientNamespace(Rest(uri, tuple(sorted(headers.items())), properties.get("delimiter", "$")), storage_options)


def _check(properties: Mapping[str, str], kind: str, known: Sequence[str]) -> None:
    """Raise InvalidOptionError for unknown properties, and if the first of the known ones is missing."""
    for name in properties:
        if name not in known:
            hint = nearest(name, known) or f"; expected: {', '.join(known)}"
            raise InvalidOptionError(f"a {kind} namespace has no property {name!r}{hint}")
    if known[0] not in properties:
        raise InvalidOptionError(f"a {kind} namespace needs the property {known[0]!r}")


def _directory(properties: Mapping[str, str], storage_options: Mapping[str, str]) -> Namespace:
    given = {name: value for name, value in properties.items() if name not in (*_WITHOUT_EFFECT, TRANSACTION)}
    _check(given, "directory", _DIRECTORY_PROPERTIES)
    flags = [_flag(properties, name, default) for name, default in zip(_DIRECTORY_PROPERTIES[1:], (True, True, False))]
    if not flags[0] and not flags[1]:
        raise InvalidOptionError("manifest_enabled and dir_listing_enabled are both false; enable at least one of them")
    found = DirectoryNamespace(Store(properties["root"], storage_options), flags[0], flags[1], flags[2] and flags[0])
    return found.seen_by(properties[TRANSACTION]) if TRANSACTION in properties else found


def _flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    text = properties.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidOptionError(f"the property {name!r} takes true or false, not {text!r}")
    return text == "true"
