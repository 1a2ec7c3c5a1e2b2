"""What users give for options, as values; and the options whose names begin with a prefix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lance_spark.spark.options.place import NAMESPACE, STORAGE

HIDDEN = "secret."
"""`storage.secret.x` is an alias of `storage.x`.

By default, Spark hides the values of options with "secret" in their names.
"""


@dataclass(frozen=True)
class Given:
    """The options that are given.

    `values` are by the main names of options, `storage` and `namespace` by keys without a prefix,
    `sizes` of fixed-size lists by lower-cased column path, and `columns` by whole keys.
    """

    values: Mapping[str, Any]
    storage: Mapping[str, str] = field(repr=False)
    namespace: Mapping[str, str] = field(repr=False)
    sizes: Mapping[str, int]
    columns: Mapping[str, str]


def hidden(key: str) -> str:
    """The alias whose value Spark hides.

    Of a storage option, with its prefix, or of a namespace's property, without.
    """
    prefix = STORAGE if key.lower().startswith(STORAGE) else ""
    name = key[len(prefix) :]
    return key if name.lower().startswith(HIDDEN) else f"{prefix}{HIDDEN}{name}"


def storage_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The storage options among Spark's options, without their prefix.

    `storage.x` takes precedence over `storage.secret.x`.
    """
    return _prefixed(options, STORAGE)


def namespace_properties(options: Mapping[str, Any]) -> dict[str, str]:
    """The properties of a namespace among Spark's options, likewise."""
    return _prefixed(options, NAMESPACE)


def _prefixed(options: Mapping[str, Any], prefix: str) -> dict[str, str]:
    found, aliases = {}, {}
    for key, value in options.items():
        name = key.lower()
        if name.startswith(prefix + HIDDEN):
            aliases[name.removeprefix(prefix + HIDDEN)] = str(value)
        elif name.startswith(prefix):
            found[name.removeprefix(prefix)] = str(value)
    return aliases | found
