"""Opening a namespace by a URI or by the name of an implementation and its properties."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.protocol import Namespace
from lance_spark.storage.store import Store

STORAGE = "storage."
_DIRECTORY_PROPERTIES = ("root", "manifest_enabled", "dir_listing_enabled", "dir_listing_to_manifest_migration_enabled")
_WITHOUT_EFFECT = ("inline_optimization_enabled", "commit_retries", "ops_metrics_enabled")
"""Properties of pylance's directory namespace that change no result."""


def namespace(
    uri_or_implementation: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None, **properties: Any
) -> Namespace:
    """Open a namespace: the directory namespace at a URI or path, or an implementation by its name, such as "dir".

    The properties are those of pylance: for "dir" `root`, `manifest_enabled`, `dir_listing_enabled` and
    `dir_listing_to_manifest_migration_enabled`. Storage options are given as a mapping or as properties `storage.x`.
    Raises InvalidOptionError for unknown properties. Nothing is written.

    Examples:
        >>> import lance_spark
        >>> lake = lance_spark.namespace("/tmp/lake")
        >>> lake.list_tables()
        []
    """
    texts = {name: _text(value) for name, value in properties.items() if value is not None}
    options = {name.removeprefix(STORAGE): texts.pop(name) for name in list(texts) if name.startswith(STORAGE)} | dict(
        storage_options or {}
    )
    place = os.fspath(uri_or_implementation)
    if place != "dir":
        if "root" in texts:
            raise InvalidOptionError(f"the root is given twice: {place!r} and {texts['root']!r}")
        texts["root"] = place
    return _directory(texts, options)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _directory(properties: Mapping[str, str], storage_options: Mapping[str, str]) -> DirectoryNamespace:
    for name in properties:
        if name not in _DIRECTORY_PROPERTIES and name not in _WITHOUT_EFFECT:
            near = difflib.get_close_matches(name, _DIRECTORY_PROPERTIES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidOptionError(f"a directory namespace has no property {name!r}{hint}")
    if "root" not in properties:
        raise InvalidOptionError("the property root is missing: the folder that the tables are in")
    flags = [_flag(properties, name, default) for name, default in zip(_DIRECTORY_PROPERTIES[1:], (True, True, False))]
    if not flags[0] and not flags[1]:
        raise InvalidOptionError("manifest_enabled and dir_listing_enabled are both false: no table could be found")
    return DirectoryNamespace(Store(properties["root"], storage_options), flags[0], flags[1], flags[2] and flags[0])


def _flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    text = properties.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidOptionError(f"the property {name!r} takes true or false, not {text!r}")
    return text == "true"
