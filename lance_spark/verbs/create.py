"""CREATE and REPLACE: a table without rows, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from lance_spark.errors import InvalidOptionError, TableAlreadyExistsError, TableNotFoundError
from lance_spark.options.field import used
from lance_spark.spark.options.known import is_of_columns, main_name, parse_options
from lance_spark.spark.options.write import OF_EACH_WRITE, SparkWriteOptions
from lance_spark.spark.stopped import named
from lance_spark.spark.write.rows import commit_empty
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import NOTED, WriteOptions
from lance_spark.table.write.target import Mode
from lance_spark.verbs.target import PLACE, Target, is_of_place, locating, named_target

Kind = Literal["create", "create if not exists", "replace", "create or replace"]


@dataclass(frozen=True)
class Creation:
    """The definition of a new table. `options` are write options, such as `stable_row_ids`; `config` is the table's config."""

    spark: SparkSession
    kind: Kind
    path: str | None = None
    name: str | None = None
    schema: StructType = field(default_factory=StructType)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    config: Mapping[str, str] = field(default_factory=dict)

    def with_column(self, name: str, data_type: str | DataType, nullable: bool) -> Creation:
        """The definition with one more column. Raises ValueError for a duplicate name."""
        if name.lower() in {known.lower() for known in self.schema.names}:
            raise ValueError(f"column {name!r} is duplicated")
        return replace(self, schema=StructType([*self.schema.fields, StructField(name, named(data_type), nullable)]))


def create(creation: Creation) -> Target:
    """Create the table, and register it in the session catalog if it has a name.

    Raises TableAlreadyExistsError if the table may only be created, TableNotFoundError if it may only be replaced, and InvalidOptionError
    for an option that does not apply.
    """
    if not creation.schema.fields:
        raise ValueError("a table needs at least one column: .addColumn(name, type) or .addColumns(schema)")
    options = parse_options(SparkWriteOptions, _of_write(creation.options))
    options = replace(options, write=replace(options.write, config=dict(creation.config)))
    target = _place(creation)
    there = _latest(target)
    if there is None and creation.kind == "replace":
        raise TableNotFoundError(f"no Lance table exists at {target.uri}; use create or createOrReplace")
    if there is None and "branch" in target.options:
        raise TableNotFoundError(f"no Lance table exists at {target.uri}; a branch starts at a version of a table: use createBranch")
    mode: Mode = "create" if creation.kind.startswith("create if") or creation.kind == "create" else "overwrite"
    try:
        commit_empty(target.store() if there is None else there.store, creation.schema, mode, options)
    except TableAlreadyExistsError:
        if creation.kind == "create":
            raise
    if creation.name is not None and not creation.spark.catalog.tableExists(creation.name):
        creation.spark.catalog.createTable(creation.name, target.uri, "lance", None, None, **target.options)
    if creation.name is not None:
        named_target(creation.spark, creation.name).refreshed(None, columns=True)
    return target


def _of_write(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the write. Raises InvalidOptionError for those that do not apply to a table without rows."""
    of_tables = [name for name in used(WriteOptions, "new table") if name not in OF_EACH_WRITE]
    applicable = {*NOTED, *of_tables}
    parse_options(SparkWriteOptions, options)
    for key in options:
        known = main_name(key) in applicable or is_of_columns(key) or is_of_place(key)
        if not known:
            raise InvalidOptionError(
                f"the option {key!r} does not apply to the creation of a table without rows; expected: {', '.join(sorted(applicable))}, "
                f"<col>.*, {PLACE}"
            )
    return {key: value for key, value in options.items() if not is_of_place(key)}


def _place(creation: Creation) -> Target:
    options = locating({key: value for key, value in creation.options.items() if is_of_place(key)})
    named = None
    if creation.name is not None and creation.spark.catalog.tableExists(creation.name):
        named = named_target(creation.spark, creation.name)
        options = {**named.options, **options}
    if creation.path is None and creation.name is None:
        raise InvalidOptionError("a table needs a location or a name: .location(path), .tableName(name)")
    if creation.path is None and named is None:
        raise InvalidOptionError(f"the session catalog has no table {creation.name}; a new table also needs a location: .location(path)")
    if named is not None and creation.path is not None and named.store().uri != Store(creation.path, {}).uri:
        raise InvalidOptionError(f"the table {creation.name} of the session catalog is at {named.uri}, not at {creation.path}")
    return Target(creation.spark, creation.path or (named.uri if named is not None else ""), options)


def _latest(target: Target) -> Snapshot | None:
    try:
        return target.latest()
    except TableNotFoundError:
        return None
