"""The definition of a new table: what CREATE TABLE, REPLACE TABLE and their forms with AS SELECT say."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import StructField, StructType

from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.declared_types import COLLATIONS
from lance_spark.schema.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION, from_arrow
from lance_spark.spark.columns.field_metadata import constant_default, printable
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.known import is_of_new_table, main_name, parse_options
from lance_spark.spark.options.write import OF_EACH_WRITE, SparkWriteOptions
from lance_spark.spark.protocol import DECLARED_COLUMN
from lance_spark.storage.location import of_hadoop
from lance_spark.table.build.declared_log import PROPERTY, declared_spec
from lance_spark.table.compaction.clustered import Clustered
from lance_spark.table.compaction.curve import check_columns
from lance_spark.table.write.constraints import constraints
from lance_spark.table.write.new_schema import split_key
from lance_spark.table.write.properties import check_properties

OPTION = "option."
"""Before the statement's OPTIONS among Spark's table properties, which have them a second time without it."""
_KEY = "lance_spark.primary_key"
"""The property in which Constraints.java passes the columns of the primary key, as JSON."""
NOTHING: Mapping[str, str] = {}
_OF_COLUMN = re.compile(r"([^.]+)(?:\..+)?\.(?:arrow|lance)\..+")
COLLATION = "collation"
"""The property with the collation of columns that declare none. Spark reads it when columns are added."""
_OF_SPARK = ("owner", "provider", "location", "is_managed_location", "external", "table_type")


@dataclass(frozen=True)
class Definition:
    """A new table: its columns, its config (the TBLPROPERTIES and the comment), options of its first write, and its LOCATION."""

    schema: StructType
    config: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    location: str | None = None

    @classmethod
    def parse(
        cls, schema: str, properties: Mapping[str, str], options: Mapping[str, str] = NOTHING, defaults: Mapping[str, str] = NOTHING
    ) -> Definition:
        """The definition from Spark's JSON of the columns, the table properties, the options of a write, and those of the catalog."""
        if (provider := properties.get("provider", "lance").lower()) != "lance":
            advice = "leave USING and .format() out, or name lance"
            raise UnsupportedFeatureError(f"this catalog has only lance tables: USING {provider} is not possible in it, {advice}")
        columns = with_primary_key(declared_columns(schema), properties.get(_KEY, "[]"))
        of_statement = {key.removeprefix(OPTION): value for key, value in properties.items() if key.startswith(OPTION)}
        config = {
            key: value
            for key, value in properties.items()
            if key not in _OF_SPARK and key != _KEY and not key.startswith(OPTION) and of_statement.get(key) != value
        }
        check_properties(config)
        _check_columns(config, columns.names)
        if clustered := Clustered.in_config(config).columns:
            check_columns(from_arrow(stored(columns, {})), clustered)
        constraints(config, from_arrow(stored(columns, {})))  # raises errors of conditions
        if PROPERTY in config:
            declared_spec(config[PROPERTY], from_arrow(stored(columns, {})))
        chosen = {key: value for key, value in config.items() if is_of_new_table(key)}
        own = {**chosen, **of_statement, **options}
        names = {main_name(key) for key in own}
        own |= {key: value for key, value in defaults.items() if main_name(key) not in names}
        return cls(columns, config, own, location_of(properties))

    @property
    def write_options(self) -> SparkWriteOptions:
        """The options of the table's first write. Raises InvalidOptionError for unknown ones, and for those that are the catalog's."""
        options = parse_options(SparkWriteOptions, self.options)
        if options.storage or options.table or options.namespace or options.path not in (None, self.location):
            raise InvalidOptionError(
                "the catalog says where its tables are and how their store is opened: give LOCATION instead of the option path, and "
                "storage options to lance_spark.catalog"
            )
        return dataclasses.replace(options, write=dataclasses.replace(options.write, config=self.config))


def location_of(properties: Mapping[str, str]) -> str | None:
    """The LOCATION of a statement, None without."""
    location = properties.get("location")
    return None if location is None else of_hadoop(location)


def options_of_each_write(config: Mapping[str, str]) -> dict[str, str]:
    """The options in a table's config that apply to each of its writes, without those that have no valid value."""
    found = {}
    for key, value in config.items():
        if main_name(key) in OF_EACH_WRITE:
            with contextlib.suppress(InvalidOptionError):
                parse_options(SparkWriteOptions, {key: value})
                found[key] = value
    return found


def shown_properties(config: Mapping[str, str]) -> dict[str, str]:
    """The properties that Spark may see of a table's config: not those that it acts on, unless they are checked."""
    return {key: printable(value) for key, value in config.items() if _may_be_shown(key, value)}


def _may_be_shown(key: str, value: str) -> bool:
    if key == COLLATION:
        return re.fullmatch(COLLATIONS, value) is not None
    return key not in _OF_SPARK and not key.startswith(OPTION)


def declared_columns(schema: str) -> StructType:
    """The columns of a statement from Spark's JSON; a default is a constant or one of the functions that are known.

    Raises UnsupportedFeatureError for CHAR and VARCHAR with a collation, of which PySpark knows nothing, and for other defaults.
    """
    given = json.loads(schema)
    for f in given["fields"]:
        collations = f.get("metadata", {}).get("__COLLATIONS", {})
        if str(f["type"]).startswith(("char(", "varchar(")) and any(not name.endswith(".UTF8_BINARY") for name in collations.values()):
            raise UnsupportedFeatureError(f"column {f['name']!r}: {f['type']} cannot have a collation in a lance table; use STRING COLLATE")
    return StructType([constant_default(f) for f in StructType.fromJson(given).fields])


def as_declared(columns: StructType) -> StructType:
    """The columns of a statement, marked as such: so CHAR, defaults and what may be null are those of the table."""
    marked = (StructField(f.name, f.dataType, f.nullable, {**f.metadata, DECLARED_COLUMN: "true"}) for f in columns.fields)
    return StructType(list(marked))


def with_primary_key(columns: StructType, names: str) -> StructType:
    """The columns, of which those with the names in a list as JSON are the primary key, in this order, and have no nulls.

    Raises SchemaMismatchError for other names.
    """
    key = [name.lower() for name in json.loads(names)]
    if unknown := [name for name in key if name not in [f.name.lower() for f in columns.fields]]:
        raise SchemaMismatchError(f"PRIMARY KEY: the table has no column {unknown[0]!r}; its columns are {', '.join(columns.names)}")
    fields = []
    for f in columns.fields:
        if f.name.lower() in key:
            metadata = {PRIMARY_KEY.decode(): "true", PRIMARY_KEY_POSITION.decode(): str(key.index(f.name.lower()) + 1)}
            f = StructField(f.name, f.dataType, False, {**f.metadata, **metadata})
        fields.append(f)
    return StructType(fields)


def _check_columns(config: Mapping[str, str], columns: Sequence[str]) -> None:
    """Raise InvalidOptionError for a property that looks like an option of a column, but is none."""
    for key in config:
        named = _OF_COLUMN.fullmatch(key)
        if named and named[1] in columns and not is_of_new_table(key):
            split_key(key)
