"""Writing rows into the partitions of a namespace: executors write data files, the driver commits all of them at once.

target = begin(store, schema, "append")              # driver: pins the version of the namespace
written = write_partitions(target, batches)          # executors, any number of times
commit.commit_partitions(target, written)            # driver: all or nothing
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import pyarrow as pa

from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError, UnsupportedFeatureError, logged, on_failure
from lance_spark.file.supported_types import WRITABLE, check_supported, warn_if_unstable
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import check_writable
from lance_spark.namespace.partitioned.destinations import Key, Place, Places, groups, keys
from lance_spark.namespace.partitioned.leaves import Leaf, matched, open_leaf
from lance_spark.namespace.partitioned.root import PartitionedVersion, leaf_store, opened, with_flags
from lance_spark.namespace.partitioned.spec import FIELD_ID, PartitionSpec
from lance_spark.predicate import Predicate
from lance_spark.schema.schema import Field, Schema, from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import DEFAULT_FORMAT
from lance_spark.table.build.old_writers import completed
from lance_spark.table.commit.same_table import check_continues
from lance_spark.table.versions.field_ids import next_field_id
from lance_spark.table.versions.snapshot import check_identity
from lance_spark.table.write.conform import check_fits
from lance_spark.table.write.fragment_writer import FragmentWriter
from lance_spark.table.write.generated import check_not_generated
from lance_spark.table.write.new_schema import new_schema
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.rules import Kind, Rules, rules_of
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import delete_data_files, discard, files_of

PartitionMode = Literal["append", "overwrite", "dynamic", "replace"]
"""The effect on existing rows: keep all; replace all; replace partitions with new rows; replace rows of a condition."""
CHUNK_BYTES = 16 << 20
"""Bytes that are collected before rows are divided among partitions."""
PENDING_BYTES = 128 << 20
"""Maximum size of buffered rows; above it, the rows of the largest partitions are written."""
OPEN_FILES = 8
"""Maximum number of open data files of a task."""


@dataclass(frozen=True)
class PartitionedTarget:
    """The target of a write, for executors and the commit; `version` is that of the namespace, `names` are the columns of the data.

    `spec` is the number of the spec that divides the rows, and `rules` are those of the namespace.
    `identity` is that of the version (see `table.versions.identity`).
    """

    root: Store
    version: int
    spec: int
    mode: PartitionMode
    names: tuple[str, ...]
    options: WriteOptions
    rules: Rules
    job: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    since: float = field(default_factory=time.time)
    identity: str = ""

    def open(self) -> PartitionedVersion:
        """The version of the namespace that the write is based on."""
        found = with_flags(opened(self.root, self.version), False, True)
        check_identity(found, self.identity)
        return found


@dataclass(frozen=True)
class WrittenPartition:
    """The fragments that a task has written for one partition.

    `values` is one row of partition values by column of `__manifest`. `target` is the table: its `read_version` is 0 if it is new.
    """

    key: Key
    values: pa.RecordBatch
    place: Place
    target: WriteTarget
    fragments: tuple[Fragment, ...]


def begin(
    root: Store,
    schema: pa.Schema,
    mode: PartitionMode,
    options: WriteOptions = NO_OPTIONS,
    held: PartitionedVersion | None = None,
    within: Predicate | None = None,
) -> PartitionedTarget:
    """Prepare to write data of the schema `schema`; nothing is written yet. `held` is a version that the writer has opened before.

    All rows must satisfy `within`.

    Raises SchemaMismatchError for data that does not fit the namespace, UnsupportedFeatureError for a spec that cannot be written, and
    CommitConflictError if the namespace of `held` was dropped and made anew.
    """
    version = opened(root)
    if held is not None and version.manifest.snapshot is not None:
        check_continues(version.manifest.snapshot, held.version, held.identity)
    if options.merge_schema:
        raise InvalidOptionError("mergeSchema does not apply to partitioned namespaces; add columns with PartitionedNamespace.add_columns")
    if options.initial_bases or options.targets:
        raise InvalidOptionError("base paths are those of one table; the tables of a partitioned namespace are in its own folder")
    shape = from_arrow(version.schema)
    check_not_generated(shape, str(version))
    check_fits(schema, shape)
    check_divides(version, version.spec)
    if mode == "dynamic" and any(number != version.spec.id for number in version.leaves["spec"].to_pylist()):
        what = "partitions of older specs may have rows that a dynamic overwrite would have to replace"
        raise UnsupportedFeatureError(f"{version}: {what}; overwrite all, or use replaceWhere")
    rules = replace(rules_of(shape, {}), within=within)
    filled = (default.field.name for default in rules.defaults if default.field.name not in schema.names)
    names = (*schema.names, *filled)
    return PartitionedTarget(root, version.version, version.spec.id, mode, names, options, rules, identity=version.identity)


def check_divides(version: PartitionedVersion, spec: PartitionSpec) -> None:
    """Raise UnsupportedFeatureError if the partition values of a spec cannot be calculated."""
    for f in spec.fields:
        source = next((s for s in version.schema if (s.metadata or {}).get(FIELD_ID, b"").decode() == f.source_id), None)
        if f.transform is None or source is None:
            raise UnsupportedFeatureError(
                f"{version}: the partition field {f.field_id!r} cannot be written ({f.expression or f.transform})"
            )
        f.transform.result_type(source.type)


def write_partitions(target: PartitionedTarget, batches: Iterable[pa.RecordBatch]) -> list[WrittenPartition]:
    """Write the rows of `batches` to new data files, which no version refers to yet. If this fails, the files are deleted."""
    writer = PartitionWriter(target)
    with on_failure(writer.abort):
        for batch in batches:
            writer.add(batch)
        return writer.finish()


@dataclass
class _Pending:
    """A partition of a task: buffered rows and complete fragments."""

    key: Key
    values: pa.RecordBatch
    place: Place
    target: WriteTarget
    rows: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0
    fragments: list[Fragment] = field(default_factory=list)


class PartitionWriter:
    """Divides rows among partitions, with bounded memory and open files in any order of the rows."""

    def __init__(self, target: PartitionedTarget) -> None:
        self._target = target
        self._version = target.open()
        self._shape = from_arrow(self._version.schema)
        self._spec = self._version.specs[target.spec]
        self._places = Places(self._version, self._spec, target.job)
        self._partitions: dict[Key, _Pending] = {}
        self._open: dict[Key, FragmentWriter] = {}
        self._chunk: list[pa.RecordBatch] = []
        self._chunk_size = 0

    def add(self, batch: pa.RecordBatch) -> None:
        rows = self._target.rules.apply(batch, self._shape, Kind.INSERTED)
        self._chunk.append(rows)
        self._chunk_size += rows.nbytes
        if self._chunk_size >= CHUNK_BYTES:
            self._divide()

    def finish(self) -> list[WrittenPartition]:
        """Write the buffered rows, and return the partitions with their fragments."""
        self._divide()
        for key in [*self._open, *(key for key in self._partitions if key not in self._open)]:
            self._write(key)
            self._close(key)
        written = [p for p in self._partitions.values() if p.fragments]
        return [WrittenPartition(p.key, p.values, p.place, p.target, tuple(p.fragments)) for p in written]

    def abort(self) -> None:
        """Delete all files. Best effort."""
        for key, writer in self._open.items():
            self._partitions[key].fragments += writer.abort()
        for partition in self._partitions.values():
            delete_data_files(partition.target, files_of(partition.fragments))

    def _divide(self) -> None:
        if not self._chunk:
            return
        chunk = pa.Table.from_batches(self._chunk).combine_chunks()
        self._chunk, self._chunk_size = [], 0
        for batch in chunk.to_batches():
            values = partition_values(self._spec, self._shape, batch)
            for positions in groups(values.columns, batch.num_rows):
                partition = self._partition(values.slice(int(positions[0]), 1))
                rows = batch.take(pa.array(positions))
                partition.rows.append(rows)
                partition.size += rows.nbytes
        waiting = sum(p.size for p in self._partitions.values())
        for partition in sorted(self._partitions.values(), key=lambda p: -p.size) if waiting > PENDING_BYTES else ():
            if waiting <= PENDING_BYTES // 2:
                break
            waiting -= partition.size
            self._write(partition.key)

    def _partition(self, values: pa.RecordBatch) -> _Pending:
        (key,) = keys(values.columns, 1)
        if key not in self._partitions:
            place = self._places.place(key, fresh=self._target.mode != "append")
            values = values.take(pa.array([0]))  # a copy instead of a view of all rows
            self._partitions[key] = _Pending(key, values, place, leaf_target(self._target, self._version, place))
        return self._partitions[key]

    def _write(self, key: Key) -> None:
        partition = self._partitions[key]
        if not partition.rows:
            return
        if key not in self._open:
            while len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open)))
            self._open[key] = FragmentWriter(partition.target)
        writer = self._open[key] = self._open.pop(key)  # move to the end, so that it is closed last
        schema = partition.target.schema
        for batch in pa.Table.from_batches(partition.rows).combine_chunks().to_batches():
            writer.write(as_leaf(batch, self._shape, schema), Kind.INSERTED)
        writer.end_portion()
        partition.rows, partition.size = [], 0

    def _close(self, key: Key) -> None:
        writer = self._open.pop(key, None)
        if writer is not None:
            self._partitions[key].fragments += writer.finish()


def sources(spec: PartitionSpec, shape: Schema) -> list[str]:
    """The names of the columns that the values of each field of a spec are calculated of."""
    names = {f.metadata.get(FIELD_ID, b"").decode(): f.name for f in shape.fields}
    return [names[f.source_id or ""] for f in spec.fields]


def partition_values(spec: PartitionSpec, shape: Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The partition values of rows that have the sources of the spec, by column of `__manifest`."""
    columns = []
    for f, name in zip(spec.fields, sources(spec, shape), strict=True):
        assert f.transform is not None
        columns.append(f.transform.apply(rows.column(name)).cast(f.type))
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.nulls(rows.num_rows, pa.struct([])).fill_null({}))
    return pa.RecordBatch.from_arrays(columns, names=[f.column for f in spec.fields])


def leaf_target(target: PartitionedTarget, version: PartitionedVersion, place: Place) -> WriteTarget:
    """The table for rows of a partition: the version of an existing table that is read, or a new table."""
    shape, store = from_arrow(version.schema), leaf_store(target.root, place.location)
    options = replace(target.options, txn_app_id=None, txn_version=None, storage_options={})
    snapshot = None if place.leaf is None else open_leaf(version, place.leaf)
    if place.leaf is None or snapshot is None:
        data_format = options.data_storage_version or DEFAULT_FORMAT
        warn_if_unstable(data_format, store.uri)
        schema = new_schema(version.schema, WRITABLE[data_format], options.column_options)
        check_supported(schema, WRITABLE[data_format])
        rules = rules_of(schema, {})
        return WriteTarget(store, schema, data_format, "append", 0, options, rules, job=target.job, since=target.since)
    current = completed(snapshot.manifest)
    check_writable(current, store.uri)
    if current.data_format not in WRITABLE:
        raise UnsupportedFeatureError(f"{snapshot}: writing data files of storage version {current.data_format} is not supported")
    whole = widened(shape, current.schema, place.leaf, target.names, partial(next_field_id, snapshot))
    found = matched(shape, whole)
    ids = {f.id for f in found.values()}
    if required := [f.name for f in whole.fields if f.id not in ids and not f.nullable]:
        raise SchemaMismatchError(f"{snapshot}: the columns {', '.join(required)} may not be null, and are not in the namespace")
    schema = replace(whole, fields=tuple(f for f in whole.fields if f.id in ids))
    table_schema = whole if len(whole.fields) > len(current.schema.fields) else None
    rules, data_format = rules_of(whole, current.config), current.data_format
    there = WriteTarget(snapshot.store, schema, data_format, "append", 0, options, rules, table_schema, target.job, target.since)
    return there.based_on(snapshot)


def widened(shape: Schema, table: Schema, leaf: Leaf, names: Sequence[str], free: Callable[[], int]) -> Schema:
    """The table's schema with missing columns of the data, except columns that are constant in the partition."""
    found, wanted = matched(shape, table), {name.lower() for name in names}
    constant = {f.source_id for f in leaf.spec.fields if f.transform is not None and f.transform.kind == "identity"}
    lacking = []
    for f in shape.fields:
        is_constant = f.metadata.get(FIELD_ID, b"").decode() in constant
        if f.name not in found and f.name.lower() in wanted and not is_constant:
            lacking.append(f)
    if clash := [f.name for f in lacking if f.name.lower() in {there.name.lower() for there in table.fields}]:
        raise SchemaMismatchError(f"the table {leaf.location} has other columns with the names {', '.join(clash)}")
    if not lacking:
        return table
    added = from_arrow(Schema(tuple(replace(f, nullable=True) for f in lacking)).to_arrow(), free())
    return replace(table, fields=(*table.fields, *added.fields))


def as_leaf(rows: pa.RecordBatch, shape: Schema, table: Schema) -> pa.RecordBatch:
    """Convert rows of the namespace to rows of a table, whose columns may have other names and types.

    Raises SchemaMismatchError, naming the column, for a value that the table's type cannot hold.
    """
    names = {there.id: own for own, there in matched(shape, table).items()}
    columns = [as_field(rows.column(names[f.id]), f) for f in table.fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([f.to_arrow() for f in table.fields]))


def as_field(values: pa.Array, field: Field) -> pa.Array:
    """The values in the type of a table's field. Raises SchemaMismatchError for a value that it cannot hold."""
    if values.type == field.type:
        return values
    try:
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise SchemaMismatchError(f"column {field.name!r} is {field.type} in the table of this partition: {e}") from e


def discard_written(written: Iterable[WrittenPartition]) -> None:
    """Delete the files of partitions that no version refers to. Best effort: never raises."""
    for partition in written:
        discard(partition.target, partition.fragments)


def discard_job(target: PartitionedTarget) -> None:
    """Delete all files of a write that was never committed, including those of lost tasks. Best effort: never raises."""
    with logged(f"{target.root.uri}: deleting the files of a write that was given up"):
        for entry in target.root.walk(""):
            if entry.name.endswith(f"{target.job}.lance") or f"{target.job}/" in entry.name:
                target.root.delete(entry.name)


def merged(written: Iterable[WrittenPartition]) -> Iterator[WrittenPartition]:
    """Combine parts of the same partition from several tasks."""
    by_location: dict[str, list[WrittenPartition]] = {}
    for partition in written:
        by_location.setdefault(partition.place.location, []).append(partition)
    for parts in by_location.values():
        if len({part.target.read_version for part in parts}) > 1:
            raise LanceError(f"the tasks have read different versions of {parts[0].target.store.uri}; run the write again")
        yield replace(parts[0], fragments=tuple(f for part in parts for f in part.fragments))
