"""CREATE and REPLACE: a table without rows, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from lance_spark.errors import InvalidOptionError, TableAlreadyExistsError, TableNotFoundError
from lance_spark.file.supported_types import WRITABLE, check_supported
from lance_spark.metadata.operations import Overwrite
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.types import stored
from lance_spark.table.build.manifest_builder import DEFAULT_FORMAT, TableSettings
from lance_spark.table.commit.commit import commit_operation
from lance_spark.table.versions.history import COMMIT_MESSAGE
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.new_schema import new_schema
from lance_spark.verbs.target import Target, named_target

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
        kind = DataType.fromDDL(data_type) if isinstance(data_type, str) else data_type
        return replace(self, schema=StructType([*self.schema.fields, StructField(name, kind, nullable)]))


def create(creation: Creation) -> Target:
    """Create the table, and register it in the session catalog if it has a name.

    Raises TableAlreadyExistsError if the table may only be created, and TableNotFoundError if it may only be replaced.
    """
    target = _place(creation)
    there = _latest(target)
    if there is not None and creation.kind == "create":
        raise TableAlreadyExistsError(f"a Lance table already exists at {target.uri}; use createIfNotExists, replace or createOrReplace")
    if there is None and creation.kind == "replace":
        raise TableNotFoundError(f"no Lance table exists at {target.uri}; use create or createOrReplace")
    if there is None or creation.kind != "create if not exists":
        _commit(creation, target, there)
    if creation.name is not None and not creation.spark.catalog.tableExists(creation.name):
        path = target.uri.replace("'", "\\'")
        creation.spark.sql(f"CREATE TABLE {creation.name} USING lance LOCATION '{path}'")
    return target


def _place(creation: Creation) -> Target:
    if creation.path is not None:
        return Target(creation.spark, creation.path, {k: v for k, v in creation.options.items() if k.lower().startswith("storage.")})
    if creation.name is None:
        raise InvalidOptionError("a table needs a location or a name: .location(path), .tableName(name)")
    if creation.spark.catalog.tableExists(creation.name):
        return named_target(creation.spark, creation.name)
    raise InvalidOptionError(f"the session catalog has no table {creation.name}; a new table also needs a location: .location(path)")


def _latest(target: Target) -> Snapshot | None:
    try:
        return target.latest()
    except TableNotFoundError:
        return None


def _commit(creation: Creation, target: Target, there: Snapshot | None) -> None:
    if not creation.schema.fields:
        raise ValueError("a table needs at least one column: .addColumn(name, type) or .addColumns(schema)")
    options = WriteOptions.parse({"path": target.uri, **creation.options})
    data_format = options.data_storage_version or (there.manifest.data_format if there is not None else DEFAULT_FORMAT)
    if data_format not in WRITABLE:
        data_format = DEFAULT_FORMAT
    schema = new_schema(stored(creation.schema, options.sizes), WRITABLE[data_format], options.column_options)
    check_supported(schema, WRITABLE[data_format])
    settings = TableSettings(data_format, bool(options.stable_row_ids))
    version = 0 if there is None else there.version
    noted = {} if options.commit_message is None else {COMMIT_MESSAGE: options.commit_message}
    commit_operation(target.store(), Overwrite((), schema, dict(creation.config)), version, noted, settings)
