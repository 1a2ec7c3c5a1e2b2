"""The catalogs by their names, and their properties."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.catalogs.metastore import Metastore, MetastoreNamespace, whole_number
from lance_spark.namespace.protocol import names_of

_PARENT, _DELIMITER = "parent", "parent_delimiter"
_LIMITS = ("connect_timeout_millis", "read_timeout_millis", "max_retries")
_NUMBERS = frozenset(_LIMITS)
_NEAR = 0.8
"""How similar a word is to a name that was meant: `hive` to hive2, but not `blue` to glue."""

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Kind:
    """A kind of catalog: how it is made, its properties, and other names of these, by which users of other connectors know them."""

    make: Callable[[Options], Metastore]
    properties: tuple[str, ...]
    required: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()


def _glue(options: Options) -> Metastore:
    from lance_spark.namespace.catalogs.glue import Glue  # imports are late, since a directory needs none of these

    return Glue(options)


def _hive(has_catalogs: bool) -> Callable[[Options], Metastore]:
    def make(options: Options) -> Metastore:
        from lance_spark.namespace.catalogs.hive import Hive

        return Hive(options, has_catalogs)

    return make


def _unity(options: Options) -> Metastore:
    from lance_spark.namespace.catalogs.unity import Unity

    return Unity(options)


def _iceberg(options: Options) -> Metastore:
    from lance_spark.namespace.catalogs.iceberg import Iceberg

    return Iceberg(options)


def _polaris(options: Options) -> Metastore:
    from lance_spark.namespace.catalogs.polaris import Polaris

    return Polaris(options)


def _prefixed(prefix: str, properties: tuple[str, ...]) -> dict[str, str]:
    return {prefix + name: name for name in properties}


_KEYS = ("access_key_id", "secret_access_key", "session_token", "profile_name")
GLUE = Kind(_glue, ("region", "endpoint", "catalog_id", *_KEYS, "max_retries", "retry_mode", "root"))
_HIVE = ("uri", "root", "ugi")
_HIVE_ALSO = {"hadoop.hive.metastore.uris": "uri"}
HIVE2 = Kind(_hive(False), _HIVE, also=_HIVE_ALSO, without_effect=("client.pool-size",))
HIVE3 = Kind(_hive(True), _HIVE, also=_HIVE_ALSO, without_effect=("client.pool-size",))
_UNITY = ("endpoint", "auth_token", "root", *_LIMITS)
UNITY = Kind(_unity, _UNITY, ("endpoint",), _prefixed("unity.", _UNITY))
_REST = ("endpoint", "auth_token", "credential", "scope", "root", *_LIMITS)
POLARIS = Kind(_polaris, _REST, ("endpoint",), _prefixed("polaris.", _REST))
ICEBERG = Kind(_iceberg, _REST, ("endpoint",), {"connect_timeout": _LIMITS[0], "read_timeout": _LIMITS[1]})

CATALOGS: Mapping[str, Kind] = {
    "glue": GLUE, "hive2": HIVE2, "hive3": HIVE3, "unity": UNITY, "polaris": POLARIS, "iceberg": ICEBERG,
}  # fmt: skip
_CLASSES = {f"lance_namespace_impls.{name.title()}Namespace": name for name in CATALOGS}
"""Class paths of the package lance-namespace-impls, for which these catalogs stand."""


def kind_of(name: str) -> str | None:
    """The name of a catalog, for this name or for the class path that users of lance-namespace-impls write; None for other names."""
    return name if name in CATALOGS else _CLASSES.get(name)


def refuse_misspelt(place: str) -> None:
    """Raise InvalidOptionError for a word that is almost the name of a catalog, unless it is a folder: none is made by mistake."""
    near = difflib.get_close_matches(place.lower(), CATALOGS, n=1, cutoff=_NEAR) if place.isalnum() else []
    if near and not os.path.isdir(place):
        raise InvalidOptionError(f"there is no kind of namespace {place!r}; did you mean {near[0]!r}? For a new folder, write './{place}'")


def open_catalog(name: str, properties: Mapping[str, str], storage_options: Mapping[str, str]) -> MetastoreNamespace:
    """The namespace of a catalog. Raises InvalidOptionError for properties that are unknown, missing or wrong."""
    kind = CATALOGS[name]
    given = dict(properties)
    parent, delimiter = given.pop(_PARENT, None), given.pop(_DELIMITER, ".")
    options = _checked(name, kind, given)
    above = names_of(parent.split(delimiter) if delimiter else [parent]) if parent else ()
    return MetastoreNamespace(kind.make(tuple(sorted(options.items()))), storage_options, above)


def _checked(name: str, kind: Kind, given: Mapping[str, str]) -> dict[str, str]:
    """The properties by their own names."""
    options: dict[str, str] = {}
    for key, value in given.items():
        own = kind.also.get(key, key)
        if own in options:
            raise InvalidOptionError(f"the property {own} of the catalog {name} is given twice")
        if own in kind.properties:
            options[own] = value
        elif own not in kind.without_effect:
            known = (*kind.properties, *kind.also, _PARENT, _DELIMITER)
            hint = nearest(key, known) or f"; expected: {', '.join(kind.properties)}"
            raise InvalidOptionError(f"the catalog {name} has no property {key!r}{hint}")
    for key in kind.required:
        if not options.get(key):
            raise InvalidOptionError(f"the catalog {name} needs the property {key!r}")
    for key in _NUMBERS.intersection(options):
        whole_number(options, key)
    return options
