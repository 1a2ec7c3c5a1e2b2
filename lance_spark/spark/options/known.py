"""All options of reads and writes through Spark, and how Spark's map of texts becomes them.

Spark passes option keys in lower case. An option that would change the result is never ignored: an
unknown option raises InvalidOptionError, and an option of another connector that is not implemented
raises UnsupportedFeatureError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError
from lance_spark.options.field import Option, options_of, used
from lance_spark.options.values import count
from lance_spark.spark.columns.types import FIXED_SIZE
from lance_spark.spark.options.given import Given, namespace_properties, storage_options
from lance_spark.spark.options.others import check_built, is_ignored
from lance_spark.spark.options.place import NAMESPACE, STORAGE
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.storage.location import of_hadoop
from lance_spark.storage.options import TABLES as STORAGE_OPTIONS
from lance_spark.table.feed.options import FeedOptions
from lance_spark.table.write.new_schema import COLUMN_OPTIONS
from lance_spark.table.write.options import WriteOptions

Options = TypeVar("Options", ReadOptions, SparkWriteOptions)
CLASSES: tuple[type, ...] = (ReadOptions, FeedOptions, WriteOptions, SparkWriteOptions)
KNOWN: Mapping[str, Option] = {o.name: o for cls in CLASSES for o in options_of(cls).values()}
"""The options by name. Those of reads and of writes with one name are one option."""
PATHS = "paths"
"""What Spark calls the paths of `load([..])`, as JSON."""
SIZE_SUFFIX = f".{FIXED_SIZE}"
_COLUMN_SUFFIXES = tuple(f".{name}" for name in COLUMN_OPTIONS)
_KEYS = {name.lower(): option for option in KNOWN.values() for name in option.names}
_OF_NEW_TABLES = used(WriteOptions, "new table")
_OF_CATALOG_TABLES = "option."
_PROPERTY = "tblproperties."
"""Before the TBLPROPERTIES of a table of Spark's own catalog, as SessionEntry.java passes them on."""


def parse_options(cls: type[Options], options: Mapping[str, str]) -> Options:
    """The options of a read, or of a write, from Spark's map.

    A view has one map for reads and INSERT: a read checks the options of writes, and ignores them;
    a write refuses options that select what to read.
    """
    return cls.of(_given(_own(options)))


def main_name(key: str) -> str:
    """The name of an option that may be given by an alias, and in any case."""
    option = _KEYS.get(key.lower())
    return key.lower() if option is None else option.name


def is_of_new_table(key: str) -> bool:
    """True for an option that TBLPROPERTIES can give, too: it says how a new table is written."""
    return main_name(key) in _OF_NEW_TABLES or is_of_columns(key)


def is_of_columns(key: str) -> bool:
    """True for an option of a single column of a new table."""
    return key.lower().endswith((SIZE_SUFFIX, *_COLUMN_SUFFIXES))


def _given(options: Mapping[str, str]) -> Given:
    values: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    columns: dict[str, str] = {}
    for key, text in options.items():
        name = key.lower()
        if name.startswith((STORAGE, NAMESPACE)):
            continue
        if name.endswith(SIZE_SUFFIX) and name != SIZE_SUFFIX:
            sizes[name.removesuffix(SIZE_SUFFIX)] = _size(key, text)
        elif name.endswith(_COLUMN_SUFFIXES):
            columns[key] = text
        elif name in _KEYS:
            option = _KEYS[name]
            _check_once(option.name, values)
            values[option.name] = option.value(key, text)
        elif name == PATHS:
            _check_once("path", values)
            values["path"] = _single_path(text)
        elif not is_ignored(key):
            check_built(key)
            raise _unknown(key)
    properties = namespace_properties(options)
    if "table" not in values and ("namespace" in values or properties):
        raise InvalidOptionError("the option namespace requires the option table, the id of a table in it")
    return Given(values, storage_options(options), properties, sizes, columns)


def _check_once(name: str, values: Mapping[str, Any]) -> None:
    if name in values:
        raise InvalidOptionError(f"the option {name!r} is given twice, under different names; give it once")


def _own(options: Mapping[str, str]) -> Mapping[str, str]:
    """The user's own options.

    CREATE TABLE ... USING lance mixes them with table properties and repeats them with a prefix.
    """
    if not {"provider", "owner"} <= options.keys():
        return _with_properties(options)
    prefix = _OF_CATALOG_TABLES
    own = {k.removeprefix(prefix): v for k, v in options.items() if k.startswith(prefix)}
    return {**own, **{k: of_hadoop(options[k]) for k in ("path",) if k in options}}


def _with_properties(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options, and those among the table's properties that have no option.

    Other properties are the user's own.
    """
    given, properties = {}, {}
    for key, text in options.items():
        if key.lower().startswith(_PROPERTY):
            properties[key[len(_PROPERTY) :]] = text
        else:
            given[key] = text
    names = {main_name(key) for key in given}
    for key, text in properties.items():
        if is_of_new_table(key) and main_name(key) not in names:
            given[key] = text
    return given


def table_properties(options: Mapping[str, str]) -> dict[str, str]:
    """The TBLPROPERTIES of a table of Spark's own catalog, among these options."""
    return {key[len(_PROPERTY) :]: text for key, text in options.items() if key.lower().startswith(_PROPERTY)}


def _size(key: str, text: str) -> int:
    try:
        return count(text, 1, 2**31 - 1)
    except ValueError as e:
        raise InvalidOptionError(f"the option {key!r} takes {e}, not {text!r}") from None


def _single_path(text: str) -> str:
    paths = json.loads(text)
    if len(paths) != 1:
        raise InvalidOptionError(f"expected one path, found {len(paths)}; load each table and combine them with union")
    return str(paths[0])


def _unknown(key: str) -> InvalidOptionError:
    name = key.lower()
    if any(name in table for table in STORAGE_OPTIONS.values()):
        return InvalidOptionError(f"unknown option {key!r}; storage options are named '{STORAGE}{name}'")
    known = [name for option in KNOWN.values() for name in option.names]
    expected = f"; expected: {', '.join(known)}, {STORAGE}*, <col>{SIZE_SUFFIX}"
    return InvalidOptionError(f"unknown option {key!r}{nearest(name, known) or expected}")
