"""The tables of a partitioned namespace: opening the pinned version, and mapping its columns to those of the namespace.

A column is matched by its id (`lance:field_id`), or by name if the table has no ids. A missing column is null. A missing source of an
identity field has the partition's value in every row, since other writers omit such columns. Other columns are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lance_spark.errors import CorruptFileError, SchemaMismatchError, TableNotFoundError
from lance_spark.namespace.partitioned.root import READ_BRANCH, READ_TAG, READ_VERSION, PartitionedVersion, column_or_nulls, leaf_store
from lance_spark.namespace.partitioned.spec import FIELD_ID, PartitionSpec
from lance_spark.options.tag_names import is_tag_name
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.versions.ref_files import is_branch_name
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot

_CONNECTIONS = 16
_FREE_ID = 2**31 - 1
"""The first of the descending ids of fields that are in no file."""


@dataclass(frozen=True)
class Pin:
    """The version of a table that a row of `__manifest` refers to; all None: the latest."""

    version: int | None = None
    branch: str | None = None
    tag: str | None = None


@dataclass(frozen=True)
class Leaf:
    """A table of the namespace: its row in `__manifest`.

    `values` are the partition values by column of `__manifest`, each as an array of one value.
    """

    object_id: str
    location: str
    pin: Pin
    spec: PartitionSpec
    values: Mapping[str, pa.Array]


def leaves_of(version: PartitionedVersion, rows: pa.Table) -> list[Leaf]:
    """The leaves of some rows of `version.leaves`. Raises CorruptFileError for a row with an invalid version."""
    ids, specs = rows["object_id"].to_pylist(), rows["spec"].to_pylist()
    locations = column_or_nulls(rows, "location", pa.string()).to_pylist()
    types = {READ_VERSION: pa.int64(), READ_BRANCH: pa.string(), READ_TAG: pa.string()}
    pins = [column_or_nulls(rows, name, t).to_pylist() for name, t in types.items()]
    values = {f.column: column_or_nulls(rows, f.column, f.type) for spec in version.specs.values() for f in spec.fields}
    leaves = []
    for i, (object_id, location, number, *pinned) in enumerate(zip(ids, locations, specs, *pins, strict=True)):
        pin, spec = Pin(*pinned), version.specs[number]
        has_both = pin.tag is not None and (pin.version, pin.branch) != (None, None)
        if has_both or (pin.branch is not None and pin.version is None):
            raise CorruptFileError(f"{version}: the row of {object_id!r} names {pin}; expected a version, a branch and a version, or a tag")
        if (pin.branch is not None and not is_branch_name(pin.branch)) or (pin.tag is not None and not is_tag_name(pin.tag)):
            raise CorruptFileError(f"{version}: the row of {object_id!r} names {pin}, which is no valid name of a branch or tag")
        if location is None:
            raise CorruptFileError(f"{version}: the table {object_id!r} has no location")
        own = {f.column: values[f.column].slice(i, 1) for f in spec.fields}
        leaves.append(Leaf(object_id, location, pin, spec, own))
    return leaves


def open_leaf(version: PartitionedVersion, leaf: Leaf) -> Snapshot | None:
    """Open the pinned version of a table; None for a table that is only declared."""
    store = leaf_store(version.root, leaf.location)
    pin = leaf.pin
    try:
        found = open_snapshot(store, version=pin.version, branch=pin.branch, tag=pin.tag, allow_other_stores=version.allow_other_stores)
    except TableNotFoundError:
        if pin != Pin():
            raise CorruptFileError(f"{version}: the table {leaf.object_id!r} at {store.uri} is missing") from None
        return None
    return replace(found, verify_checksums=version.verify_checksums)


def open_leaves(version: PartitionedVersion, leaves: Sequence[Leaf]) -> list[Snapshot | None]:
    """Call `open_leaf` for each leaf, concurrently."""
    if len(leaves) < 2:
        return [open_leaf(version, leaf) for leaf in leaves]
    with ThreadPoolExecutor(min(_CONNECTIONS, len(leaves))) as pool:
        return list(pool.map(lambda leaf: open_leaf(version, leaf), leaves))


@dataclass(frozen=True)
class LeafView:
    """The view of a table as a part of the namespace.

    `location` is that of the table, below the root.
    `snapshot` is its version with the names and the order of the namespace's columns; missing columns have ids that no file has.
    `constants` are the columns with the same value in every row, `casts` the columns with another type in the table; both by name.
    """

    location: str
    snapshot: Snapshot
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    casts: frozenset[str] = frozenset()


def view_of(version: PartitionedVersion, shape: Schema, leaf: Leaf, snapshot: Snapshot) -> LeafView:
    """The view of a table's version; `shape` is the namespace's schema."""
    free = iter(range(_FREE_ID, 0, -1))
    found = matched(shape, snapshot.manifest.schema)
    identities = {}
    for rule in leaf.spec.fields:
        if rule.transform is not None and rule.transform.kind == "identity" and rule.source_id:
            identities[rule.source_id] = rule.column
    fields: list[Field] = []
    constants: dict[str, pa.Scalar] = {}
    casts: set[str] = set()
    for own in shape.fields:
        there, column = found.get(own.name), identities.get(own.metadata.get(FIELD_ID, b"").decode())
        if there is None:
            fields.append(_missing(own, free))
            if column is not None:
                constants[own.name] = leaf.values[column].cast(_arrow_type(own))[0]
            elif not own.nullable:
                raise SchemaMismatchError(f"{snapshot}: the column {own.name!r} is missing, which the namespace requires (not nullable)")
            continue
        same = _as(own, there, free)
        fields.append(same or replace(there, name=own.name))
        if same is None:
            casts.add(own.name)
    manifest = replace(snapshot.manifest, schema=Schema(tuple(fields), shape.metadata))
    return LeafView(leaf.location, replace(snapshot, manifest=manifest), constants, frozenset(casts))


def matched(shape: Schema, table: Schema) -> dict[str, Field]:
    """The table's field for each column of the namespace that it has, by the namespace's name.

    Columns are matched by name if either side has no ids.
    """
    by_id = {f.metadata[FIELD_ID]: f for f in table.fields if FIELD_ID in f.metadata}
    found: dict[str, Field] = {}
    for own in shape.fields:
        own_id = own.metadata.get(FIELD_ID)
        if own_id in by_id:
            found[own.name] = by_id[own_id]
            continue
        without_id = [f for f in table.fields if own_id is None or FIELD_ID not in f.metadata]
        named = [f for f in without_id if f.name.lower() == own.name.lower()]
        for f in sorted(named, key=lambda f: f.name == own.name):
            found[own.name] = f
    return found


def _missing(own: Field, free: Iterable[int]) -> Field:
    ids = iter(free)
    children = tuple(_missing(child, ids) for child in own.children)
    return replace(own, id=next(ids), children=children)


def _as(own: Field, there: Field, free: Iterable[int]) -> Field | None:
    """The table's field with the namespace's names and order of children; None if its type differs."""
    ids = iter(free)
    renamed = _renamed(own, there, ids)
    return renamed if renamed is not None and _arrow_type(renamed) == _arrow_type(own) else None


def _renamed(own: Field, there: Field, free: Iterable[int]) -> Field | None:
    if own.logical_type.split(":")[0] != there.logical_type.split(":")[0]:
        return None
    if not own.children or not there.children:
        return replace(there, name=own.name, nullable=own.nullable)
    by_name = {child.name: child for child in there.children}
    children = []
    for i, child in enumerate(own.children):
        match = by_name.get(child.name) if own.logical_type == "struct" else there.children[i]
        renamed = _missing(child, free) if match is None else _renamed(child, match, free)
        if renamed is None:
            return None
        children.append(renamed)
    return replace(there, name=own.name, nullable=own.nullable, children=tuple(children))


def _arrow_type(field: Field) -> pa.DataType:
    return Schema((field,)).to_arrow().field(0).type
