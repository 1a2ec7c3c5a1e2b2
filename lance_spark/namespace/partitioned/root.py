"""One version of a partitioned namespace: its schema, its specs, and the rows of `__manifest` with its tables.

Implements "Metadata Definition" and "Manifest Table Schema" of the partitioning specification. Properties are read from the table
metadata of `__manifest`, or from its Arrow schema's metadata, where Daft stores them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError, NamespaceNotFoundError, TableNotFoundError
from lance_spark.metadata.locations import check_relative
from lance_spark.metadata.manifest import Manifest
from lance_spark.namespace.manifest_table import TABLE, ManifestTable, open_manifest
from lance_spark.namespace.partitioned.json_arrow import VAGUE, schema_from_json
from lance_spark.namespace.partitioned.spec import SCHEMA, PartitionSpec, specs_of
from lance_spark.schema.schema import from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot

READ_VERSION, READ_BRANCH, READ_TAG = "read_version", "read_branch", "read_tag"
PIN_COLUMNS = pa.schema([(READ_VERSION, pa.uint64()), (READ_BRANCH, pa.string()), (READ_TAG, pa.string())])
"""The columns of `__manifest` with the version of a table."""
_KINDS = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time)
LEAF = "dataset"
"""The name of every table of a partitioned namespace."""


@dataclass(frozen=True)
class PartitionedVersion:
    """A version of a partitioned namespace.

    `specs` are by number; `schema` is that of the rows, with ids of the columns in their metadata. The flags are those of
    `table.versions.snapshot.Snapshot`, for all of its tables.
    """

    manifest: ManifestTable
    specs: Mapping[int, PartitionSpec]
    schema: pa.Schema
    allow_other_stores: bool = False
    verify_checksums: bool = True

    @property
    def root(self) -> Store:
        """The root of the namespace."""
        return self.manifest.root

    @property
    def version(self) -> int:
        """The version of `__manifest`."""
        return self.manifest.version

    @property
    def spec(self) -> PartitionSpec:
        """The newest spec, which applies to new rows."""
        return self.specs[max(self.specs)]

    def __str__(self) -> str:
        return f"{self.root.uri}, version {self.version}"

    @property
    def shape(self) -> Snapshot:
        """An empty table with the namespace's schema, for planning scans."""
        return Snapshot(self.root, Manifest(self.version, from_arrow(self.schema)), "", self.allow_other_stores, self.verify_checksums)

    @property
    def identity(self) -> str:
        """What distinguishes the version from that of another namespace at the same root; see `table.versions.identity`."""
        return self.manifest.snapshot.identity if self.manifest.snapshot is not None else ""

    @cached_property
    def leaves(self) -> pa.Table:
        """The rows of the namespace's tables, with the number of their spec in the column `spec`. Rows of other tables are omitted."""
        rows = self.manifest.rows
        ids, is_table = rows["object_id"], pc.equal(rows["object_type"], TABLE)
        numbers = np.zeros(rows.num_rows, np.int32)
        levels = pc.count_substring(ids, "$")
        for spec in self.specs.values():
            named = pc.and_(pc.starts_with(ids, f"{spec.namespace}$"), pc.ends_with(ids, f"${LEAF}"))
            here = pc.and_(pc.and_(is_table, named), pc.equal(levels, len(spec.fields) + 1))
            numbers[here.to_numpy()] = spec.id
        found = np.flatnonzero(numbers)
        return rows.take(pa.array(found)).append_column("spec", pa.array(numbers[found]))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The places in `leaves` of the tables, by location."""
        return {location: number for number, location in enumerate(self.leaves["location"].to_pylist())}


def open_partitioned(store: Store, version: int | None = None, timestamp: datetime | str | None = None) -> PartitionedVersion | None:
    """Open the partitioned namespace at `store`: its latest version, or that of a number or time; None if there is none.

    Raises VersionNotFoundError, UnsupportedFeatureError for unknown reader features, and CorruptFileError for properties that cannot be
    read.
    """
    return parsed(open_manifest(store, version, timestamp))


def opened(store: Store, version: int | None = None, timestamp: datetime | str | None = None) -> PartitionedVersion:
    """Like `open_partitioned`, but raises NamespaceNotFoundError if there is no partitioned namespace."""
    found = open_partitioned(store, version, timestamp)
    if found is None:
        raise NamespaceNotFoundError(f"there is no partitioned namespace at {store.uri}; create_partitioned_namespace makes one")
    return found


def parsed(table: ManifestTable) -> PartitionedVersion | None:
    """The namespace that a version of `__manifest` describes; None if it is not partitioned."""
    if table.snapshot is None:
        return None
    where = f"{table.store.uri}, version {table.version}"
    properties = properties_of(table)
    specs = specs_of(properties, where)
    if not specs:
        return None
    try:
        text = json.loads(properties[SCHEMA])
        schema = schema_from_json(text)
    except KeyError:
        raise CorruptFileError(f"{where}: the namespace has partition specs but no schema") from None
    except (ValueError, RecursionError) as e:
        raise CorruptFileError(f"{where}: the schema of the namespace is not JSON") from e
    except CorruptFileError as e:
        raise CorruptFileError(f"{where}: {e}") from e
    version = PartitionedVersion(table, specs, schema)
    vague = {f["name"] for f in text["fields"] if f["type"]["type"] in VAGUE}
    return replace(version, schema=_as_in_a_table(version, vague)) if vague and version.leaves.num_rows else version


def _as_in_a_table(version: PartitionedVersion, names: set[str]) -> pa.Schema:
    """The schema with the units and time zones of the columns `names` taken from the first table, where other writers leave them out.

    Partition values depend on the time zone.
    """
    location = version.leaves["location"][0].as_py()
    if location is None:
        return version.schema
    try:
        table = open_snapshot(leaf_store(version.root, location)).manifest.schema.to_arrow()
    except TableNotFoundError:
        return version.schema
    types = {f.name.lower(): f.type for f in table}
    fields = []
    for f in version.schema:
        there = types.get(f.name.lower(), f.type)
        alike = f.name in names and any(kind(f.type) and kind(there) for kind in _KINDS)
        fields.append(f.with_type(there) if alike else f)
    return pa.schema(fields)


def leaf_store(root: Store, location: str) -> Store:
    """The folder of a table, whose location is relative to the root."""
    path = location.partition("?")[0].rstrip("/")
    check_relative(path, "table of a namespace")
    return root.at(f"{root.uri.rstrip('/')}/{path}")


def properties_of(table: ManifestTable) -> dict[str, str]:
    """The properties of the root namespace."""
    stored = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in table.schema.metadata.items()}
    return {**stored, **table.metadata}


def with_flags(version: PartitionedVersion, allow_other_stores: bool, verify_checksums: bool) -> PartitionedVersion:
    """The version with these flags for its tables."""
    return replace(version, allow_other_stores=allow_other_stores, verify_checksums=verify_checksums)


def column_or_nulls(rows: pa.Table, name: str, t: pa.DataType) -> pa.Array:
    """A column of `rows` as `t`; nulls if it is missing. Raises CorruptFileError for a column of another type."""
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, t)
    try:
        return rows[name].combine_chunks().cast(t)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise CorruptFileError(f"the column {name!r} of __manifest is {rows.schema.field(name).type}; expected {t}: {e}") from e


def with_columns(rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Add missing columns to `rows`, as nulls."""
    for f in fields:
        if f.name not in rows.schema.names:
            rows = rows.append_column(f, pa.nulls(rows.num_rows, f.type))
    return rows
