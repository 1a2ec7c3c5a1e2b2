"""The catalog as its settings describe it: a namespace, or none, and the tables in it or at paths."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lance_spark.errors import InvalidOptionError, NamespaceNotFoundError, TableNotFoundError
from lance_spark.namespace.protocol import TRANSACTION, Namespace, shown
from lance_spark.spark.again import NEVER, Asked
from lance_spark.spark.options.given import hidden
from lance_spark.spark.options.known import is_of_new_table, parse_options
from lance_spark.spark.options.place import NAMESPACE, STORAGE
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.options.table_location import namespace_of, store_of
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.storage.store import Store

_BRANCH, _TAG = "branch_", "tag_"
_REFERENCE = re.compile(r"(.+?)(?:__branch__(?P<branch>.+)|__tag__(?P<tag>.+)|@v(?P<version>[0-9]+))")
"""Names of the JVM connector for branches and tags, and those of Delta Lake for versions."""
_SINGLE_LEVEL, _DEFAULT = "single_level_ns", "default"
_SHOWN = ("root", "namespace", "impl", _SINGLE_LEVEL)


@dataclass(frozen=True)
class Catalog:
    """A catalog with the settings `spark.sql.catalog.<name>.*`.

    `root` is the URI of a directory namespace, `namespace` a URI or implementation as in `lance_spark.namespace`, `storage.*` are storage
    options, and all others are properties of the namespace. Without `root` and `namespace`, the catalog has only tables at paths.

    As in the JVM connector, `impl` is another name of `namespace`, `single_level_ns` gives the tables of the root a second name in a
    namespace `default`, which does not exist, and options of new tables apply to all tables that are created. `asked` is the request.
    """

    settings: Mapping[str, str] = field(repr=False)
    asked: Asked = NEVER

    @property
    def storage(self) -> dict[str, str]:
        """The settings that are storage options, with their prefix."""
        return {key: value for key, value in self.settings.items() if key.lower().startswith(STORAGE)}

    def source_options(self, id: Sequence[str]) -> dict[str, str]:
        """The options with which the format lance reads and writes a table. Raises InvalidOptionError without a namespace."""
        if is_path(id):
            return {**self.storage, "path": id[0]}
        left_out = (*self.storage, *self.new_table_options, _SINGLE_LEVEL)
        given = {key: value for key, value in self.settings.items() if key not in left_out}
        place = given.pop("impl" if "namespace" not in given else "namespace", "dir" if "root" in given else None)
        if place is None:
            raise InvalidOptionError(
                "the catalog has no namespace: set its root (a folder or URI) or namespace, or name a table by its path"
            )
        properties = {NAMESPACE + key: value for key, value in given.items()}
        return {**self.storage, **properties, "namespace": place, "table": json.dumps(list(id))}

    @property
    def outside(self) -> Catalog:
        """The catalog as it is outside of its open transaction."""
        return replace(self, settings={key: value for key, value in self.settings.items() if key != TRANSACTION})

    @property
    def configured(self) -> dict[str, str]:
        """The settings for Spark's configuration: under aliases, so that Spark hides the values of all that may be secret."""
        shown = {*_SHOWN, *self.new_table_options}
        return {key if key in shown else hidden(key): value for key, value in self.settings.items()}

    @property
    def new_table_options(self) -> dict[str, str]:
        """The settings that are options of new tables."""
        return {key: value for key, value in self.settings.items() if "." not in key and is_of_new_table(key)}

    @property
    def is_single_level(self) -> bool:
        """True if `default.t` is the table `t` of the root. Raises InvalidOptionError for a setting that is neither true nor false."""
        text = self.settings.get(_SINGLE_LEVEL, "false").lower()
        if text not in ("true", "false"):
            raise InvalidOptionError(f"the setting {_SINGLE_LEVEL!r} of the catalog takes true or false, not {text!r}")
        return text == "true"

    def own_id(self, id: Sequence[str]) -> Sequence[str]:
        """The id in the namespace of a table or namespace that Spark calls `id`."""
        return id[1:] if self.is_single_level and list(id[:1]) == [_DEFAULT] else id

    def list_namespaces(self, id: Sequence[str]) -> list[str]:
        """The names of the namespaces directly in the namespace that Spark calls `id`."""
        if self.is_single_level:
            return [] if id else [_DEFAULT]
        return self.namespace.list_namespaces(id)

    @property
    def namespace(self) -> Namespace:
        """The namespace."""
        return namespace_of(parse_options(ReadOptions, self.source_options(["-"])))

    def check(self) -> None:
        """Raise InvalidOptionError for settings that are unknown or invalid."""
        parse_options(SparkWriteOptions, self.new_table_options)
        self.own_id(())
        namespace_of(parse_options(ReadOptions, self.source_options(["-"])))

    def store(self, id: Sequence[str]) -> Store:
        """The folder of a table. Raises TableNotFoundError; a table that is only declared has a folder."""
        with contextlib.suppress(NamespaceNotFoundError):
            return store_of(parse_options(ReadOptions, self.source_options(id)))
        raise TableNotFoundError(f"there is no table {shown(id)}")

    def at(self, location: str) -> Store:
        """The folder at a location, with the storage options of the catalog."""
        return store_of(parse_options(ReadOptions, {**self.storage, "path": location}))


def is_path(id: Sequence[str]) -> bool:
    """True for the name of a table that is its path, as in lance.`/data/t.lance`."""
    return len(id) == 1 and "/" in id[0]


def branch_of(id: Sequence[str]) -> tuple[Sequence[str], str] | None:
    """The id of the table and the name of the branch in `t.branch_<name>`; None for other ids."""
    if len(id) < 2 or not id[-1].startswith(_BRANCH) or id[-1] == _BRANCH:
        return None
    return id[:-1], id[-1].removeprefix(_BRANCH)


def reference_of(id: Sequence[str]) -> tuple[Sequence[str], dict[str, str]] | None:
    """The id of the table in `t__branch__b`, `t__tag__x`, `t@v5` and `t.tag_x`, and the option that selects this of it; None for others."""
    if len(id) > 1 and id[-1].startswith(_TAG) and id[-1] != _TAG:
        return id[:-1], {"tag": id[-1].removeprefix(_TAG)}
    found = _REFERENCE.fullmatch(id[-1])
    if found is None:
        return None
    return (*id[:-1], found[1]), {key: value for key, value in found.groupdict().items() if value is not None}


def is_lance_catalog(cls: Any) -> bool:
    """Whether a Java class is the catalog of lance tables or extends it, as the catalog with changes does."""
    while cls is not None and cls.getName() != "lancespark.catalog.NamespaceCatalog":
        cls = cls.getSuperclass()
    return cls is not None
