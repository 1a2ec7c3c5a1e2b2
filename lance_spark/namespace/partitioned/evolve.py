"""Creating a partitioned namespace, and changing its schema and its spec.

Implements "Partition Evolution" and "Schema Evolution" of the partitioning specification. One change of the table metadata of `__manifest`
activates a spec. The columns that it needs are added before; without the spec they have no meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidOptionError,
    NamespaceAlreadyExistsError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lance_spark.metadata.row_columns import check_new_names, check_not_reserved
from lance_spark.namespace.manifest_table import GUARD, NAMESPACE, WRITER_FLAGS, ManifestTable, change, change_metadata
from lance_spark.namespace.partitioned.json_arrow import schema_from_json, schema_to_json
from lance_spark.namespace.partitioned.root import PIN_COLUMNS, PartitionedVersion, opened, parsed, with_columns
from lance_spark.namespace.partitioned.spec import FIELD_ID, SCHEMA, SPEC, FieldDefinition, Form, PartitionSpec, new_spec
from lance_spark.schema.logical_types import EXTENSION_NAME
from lance_spark.schema.schema import from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import list_versions

NEXT_FIELD_ID = "lance_spark:next_field_id"
"""The property with the lowest id that was never used for a column."""
_WIDER: Mapping[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.uint8(): (pa.uint16(), pa.uint32(), pa.uint64()),
    pa.uint16(): (pa.uint32(), pa.uint64()),
    pa.uint32(): (pa.uint64(),),
    pa.float16(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
    pa.string(): (pa.large_string(),),
    pa.binary(): (pa.large_binary(),),
}


def create(
    store: Store, schema: pa.Schema, fields: Sequence[FieldDefinition], guard: bool = True, form: Form = "published"
) -> PartitionedVersion:
    """Create a partitioned namespace at `store`, which must be no table and no other partitioned namespace.

    The specs of the namespace have the `form`. With `guard`, writers that would drop the columns of `__manifest` that they do not know are
    told not to write (a feature flag).
    Raises NamespaceAlreadyExistsError, TableAlreadyExistsError, InvalidOptionError and UnsupportedFeatureError.
    """
    columns = _numbered(_plain(schema), 0)
    spec = new_spec(1, fields, columns, form=form)
    text = json.dumps(schema_to_json(columns))
    try:
        list_versions(store)
        raise TableAlreadyExistsError(f"{store.uri} is a Lance table; a namespace needs a folder of its own")
    except TableNotFoundError:
        pass

    def check(table: ManifestTable) -> None:
        if parsed(table) is not None:
            raise NamespaceAlreadyExistsError(f"there already is a partitioned namespace at {store.uri}")

    def properties(table: ManifestTable) -> Mapping[str, str | None]:
        check(table)
        flags = {WRITER_FLAGS: str(int(table.metadata.get(WRITER_FLAGS, "0")) | GUARD)} if guard else {}
        return {SCHEMA: text, SPEC + "1": spec.to_json(), NEXT_FIELD_ID: str(len(columns)), **flags}

    _with_spec(store, spec, check)
    change_metadata(store, properties)
    return opened(store)


def add_spec(store: Store, fields: Sequence[FieldDefinition]) -> PartitionedVersion:
    """Create a new spec for all future rows; existing partitions stay unchanged.

    Raises InvalidOptionError, also if the newest spec has the same fields.
    """
    now = opened(store)
    spec = new_spec(max(now.specs) + 1, fields, now.schema, now.specs, now.spec.form)
    if [f.rule for f in spec.fields] == [f.rule for f in now.spec.fields]:
        raise InvalidOptionError(f"{now}: the newest spec has these fields already")
    _with_spec(store, spec, lambda table: None)

    def properties(table: ManifestTable) -> Mapping[str, str | None]:
        latest = parsed(table)
        if latest is None or set(latest.specs) != set(now.specs):
            raise CommitConflictError(f"{now}: another writer has made a new spec meanwhile; make yours again", retryable=True)
        return {f"{SPEC}{spec.id}": spec.to_json()}

    change_metadata(store, properties)
    return opened(store)


def _with_spec(store: Store, spec: PartitionSpec, check: Callable[[ManifestTable], None]) -> None:
    """Add the columns of a spec to `__manifest`, and the namespace of its partitions."""

    def edit(table: ManifestTable) -> pa.Table | None:
        check(table)
        wanted = [*PIN_COLUMNS, *(pa.field(f.column, f.type) for f in spec.fields)]
        there = {f.name: f.type for f in table.rows.schema}
        if differing := [f.name for f in wanted if there.get(f.name, f.type) != f.type]:
            raise InvalidOptionError(f"{table.store.uri} has columns {', '.join(differing)} of other types")
        missing = spec.namespace not in set(table.rows["object_id"].to_pylist())
        if not missing and all(f.name in there for f in wanted):
            return None
        added = [{"object_id": spec.namespace, "object_type": NAMESPACE}] if missing else []
        return with_columns(table.with_rows(added), wanted)

    change(store, edit)


@dataclass(frozen=True)
class Alteration:
    """A change of a column: a new name or a wider type."""

    name: str | None = None
    type: pa.DataType | None = None


def add_columns(store: Store, columns: pa.Schema | Sequence[pa.Field]) -> PartitionedVersion:
    """Add columns, which are null in existing rows. Only the namespace's schema changes, no table."""

    def edit(schema: pa.Schema, free: int) -> pa.Schema:
        new = _plain(pa.schema(list(columns)))
        if required := [f.name for f in new if not f.nullable]:
            raise SchemaMismatchError(f"columns that are added must be nullable; these are not: {', '.join(required)}")
        return pa.schema([*schema, *_numbered(new, free)])

    return _altered(store, edit)


def alter_column(store: Store, name: str, alteration: Alteration) -> PartitionedVersion:
    """Rename a column, or give it a wider type, which the source of a partition field cannot get: its values would change theirs."""

    def edit(schema: pa.Schema, _: int) -> pa.Schema:
        at, f = _column(schema, name)
        new = f
        if alteration.name is not None:
            new = new.with_name(alteration.name)
        if alteration.type is not None and alteration.type != f.type:
            if alteration.type not in _WIDER.get(f.type, ()):
                raise SchemaMismatchError(f"column {name!r} is {f.type}; {alteration.type} is not wider")
            _check_no_source(opened(store), f, "get another type")
            new = new.with_type(alteration.type)
        return schema.set(at, new)

    return _altered(store, edit)


def drop_column(store: Store, name: str) -> PartitionedVersion:
    """Remove a column from the namespace; the tables keep it. The newest spec must not use it."""

    def edit(schema: pa.Schema, _: int) -> pa.Schema:
        at, f = _column(schema, name)
        if any(f.metadata[FIELD_ID].decode() in field.source_ids for field in opened(store).spec.fields):
            raise SchemaMismatchError(f"column {name!r} is the source of a partition field; make a new spec without it first")
        return schema.remove(at)

    return _altered(store, edit)


def _next_field_id(store: Store, table: ManifestTable) -> int:
    """The field id that the namespace says is the next one; 0 if it says none. Raises CorruptFileError."""
    text = table.metadata.get(NEXT_FIELD_ID, "0")
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise CorruptFileError(f"{store.uri}: {NEXT_FIELD_ID} is {text!r}, expected a field id")
    return int(text)


def _altered(store: Store, edit: Callable[[pa.Schema, int], pa.Schema]) -> PartitionedVersion:
    def properties(table: ManifestTable) -> Mapping[str, str | None]:
        now = parsed(table) or opened(store)
        ids = [int(f.metadata[FIELD_ID]) for f in now.schema if FIELD_ID in (f.metadata or {})]
        sources = [int(i) for spec in now.specs.values() for f in spec.fields for i in f.source_ids]
        free = max([*ids, *sources, _next_field_id(store, table) - 1], default=-1) + 1
        schema = edit(now.schema, free)
        _check_names(schema)
        last = max([int(f.metadata[FIELD_ID]) for f in schema if FIELD_ID in (f.metadata or {})], default=-1)
        return {SCHEMA: json.dumps(schema_to_json(schema)), NEXT_FIELD_ID: str(max(free, last + 1))}

    change_metadata(store, properties)
    return opened(store)


def _column(schema: pa.Schema, name: str) -> tuple[int, pa.Field]:
    found = [i for i, n in enumerate(schema.names) if n.lower() == name.lower()]
    if len(found) != 1:
        raise SchemaMismatchError(f"no column {name!r}; there are: {', '.join(schema.names)}")
    f = schema.field(found[0])
    if FIELD_ID not in (f.metadata or {}):
        raise SchemaMismatchError(f"column {name!r} has no id in the namespace's schema, so tables would not know it by another name")
    return found[0], f


def _check_no_source(now: PartitionedVersion, removed: pa.Field, what: str) -> None:
    if any(removed.metadata[FIELD_ID].decode() in field.source_ids for spec in now.specs.values() for field in spec.fields):
        raise SchemaMismatchError(f"column {removed.name!r} is the source of a partition field and cannot {what}")


def _plain(schema: pa.Schema) -> pa.Schema:
    """The columns with their storage types, and with the names of extension types in their metadata, for JSON."""
    lance = from_arrow(schema)
    check_not_reserved(lance)
    check_new_names(lance.fields)
    fields = []
    for f, own in zip(schema, lance.fields):
        t, metadata = f.type, dict(own.metadata)
        if own.logical_type == "json":
            t, metadata = pa.string(), {**metadata, EXTENSION_NAME: b"arrow.json"}
        elif isinstance(t, pa.BaseExtensionType):
            t = t.storage_type
        fields.append(pa.field(f.name, t.value_type if pa.types.is_dictionary(t) else t, f.nullable, metadata or None))
    plain = pa.schema(fields)
    _check_names(plain)
    return plain


def _check_names(schema: pa.Schema) -> None:
    names = [name.lower() for name in schema.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchemaMismatchError(f"there would be two columns called {', '.join(map(repr, twice))} (case is ignored)")
    schema_from_json(schema_to_json(schema))


def _numbered(schema: pa.Schema, first: int) -> pa.Schema:
    """Give the columns ids, starting at `first`, in their metadata."""
    fields = []
    for i, f in enumerate(schema, first):
        fields.append(f.with_metadata({**(f.metadata or {}), FIELD_ID: str(i).encode()}))
    return pa.schema(fields)
