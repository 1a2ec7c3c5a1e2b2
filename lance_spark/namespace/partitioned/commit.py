"""The commit of a write to many tables: a new version of each table, then one version of `__manifest` that makes all of them visible.

Implements "Transaction Guarantee" of the partitioning specification. If another writer changes `__manifest` first, only the tables
whose referenced version has changed are committed again. Only the history of `__manifest` decides whether a numbered write is a repetition.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import (
    AmbiguousMergeError,
    CommitConflictError,
    CorruptFileError,
    InvalidOptionError,
    LanceError,
    logged,
    on_refusal,
)
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.metadata.fragment import Fragment
from lance_spark.namespace.manifest_table import NAMESPACE, TABLE, ManifestTable, change
from lance_spark.namespace.partitioned import leaf_commit
from lance_spark.namespace.partitioned.changes import ChangedLeaf, ChangePart, ChangeTarget, in_namespace
from lance_spark.namespace.partitioned.destinations import Key, Places
from lance_spark.namespace.partitioned.leaf_commit import LeafChange
from lance_spark.namespace.partitioned.leaves import Leaf, Pin, leaves_of, matched, open_leaf
from lance_spark.namespace.partitioned.pruning import may_match
from lance_spark.namespace.partitioned.root import LEAF, PIN_COLUMNS, PartitionedVersion, opened, parsed, with_columns
from lance_spark.namespace.partitioned.rows_at import LeafRows
from lance_spark.namespace.partitioned.spec import FIELD_ID, PartitionSpec
from lance_spark.namespace.partitioned.write import PartitionedTarget, WrittenPartition, discard_written, merged
from lance_spark.predicate import Predicate, evaluate
from lance_spark.predicate.bind import kind
from lance_spark.predicate.tree import Column, walk
from lance_spark.schema.schema import Schema
from lance_spark.table.changes.deletions import discard as discard_deletions
from lance_spark.table.changes.deletions import without_rows
from lance_spark.table.changes.delta import united
from lance_spark.table.changes.row_changes import RowChanges, noted
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.commit.same_table import check_continues
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard

_CONNECTIONS = 8
"""Tables that are committed at once: each commit waits for the store most of the time."""


def commit_partitions(
    target: PartitionedTarget,
    written: Iterable[WrittenPartition],
    replaced: Predicate | None = None,
    properties: Mapping[str, str] | None = None,
) -> PartitionedVersion:
    """Add the rows of `written` to the namespace in one new version. An append of no rows changes nothing.

    `replaced` is the condition of the mode "replace"; `properties` (None: those of the options) are stored in the transaction.
    Raises CommitConflictError, InvalidOptionError for a condition that is true for only a part of a partition, and
    CommitStateUnknownError. Only in the last case, the files must be kept.
    """
    partitions = list(merged(written))
    if not partitions and target.mode in ("append", "dynamic"):
        return opened(target.root)
    return _published(_Commit(target, partitions, replaced), target.options.noted if properties is None else properties)


def commit_changes(
    target: ChangeTarget, parts: Sequence[ChangePart], properties: Mapping[str, str], *, has_keys: bool = False
) -> RowChanges:
    """Change the rows as `parts` say, in one new version with these properties and the figures of the change.

    No new version if nothing changes. With `has_keys`, new rows have keys that no other row may have: then a change of any table since
    the version that was read is a conflict. Raises CommitConflictError, AmbiguousMergeError if a row is changed more than once, and
    CommitStateUnknownError. Only in the last case, the files must be kept.
    """
    partitions = list(merged(p for part in parts for p in part.partitions))
    moved = sum(part.moved for part in parts)
    base = target.open()
    changed: dict[str, LeafChange] = {}

    def undo() -> None:
        discard_written(partitions)
        for own in changed.values():
            _discard_change(target.write, own)

    widened = {p.place.location for p in partitions if p.target.table_schema is not None}
    with on_refusal(undo):
        _unite(target, base, parts, changed, widened)
    files = [file for part in parts for fragment in part.fragments for file in fragment.files]
    deleted = sum(own.delta.num_deleted for own in changed.values()) - moved
    updated, inserted = (sum(getattr(part, name) for part in parts) for name in ("num_updated", "num_inserted"))
    size = sum(file.size or 0 for file in files)
    changes = RowChanges(base.version, deleted, updated, inserted, len(files), size)
    if not partitions and not changed:
        return changes
    work = _Commit(target.write, partitions, None, changed, base if has_keys else None)
    return replace(changes, version=_published(work, {**properties, **noted(changes)}).version)


def _unite(
    target: ChangeTarget,
    base: PartitionedVersion,
    parts: Sequence[ChangePart],
    changed: dict[str, LeafChange],
    widened: Container[str],
) -> None:
    """Add the changes of each table that changes to `changed`, by location. Writes their deletion files.

    New rows of the tables at the locations `widened` have columns that these lack.
    """
    rows, by_number = LeafRows(base), dict[int, list[ChangedLeaf]]()
    for part in parts:
        for own in part.leaves:
            by_number.setdefault(own.number, []).append(own)
    for number, leaves in by_number.items():
        leaf, snapshot = rows.table(number)
        if {own.read_version for own in leaves} != {snapshot.version}:
            raise LanceError(f"the tasks have read other versions than {snapshot}; run the operation again")
        try:
            delta = united([own.part for own in leaves], target.repeats)
        except AmbiguousMergeError as e:
            raise in_namespace(e, rows.addresses, number, snapshot) from e
        schema = leaves[0].schema if delta.moved or leaf.location in widened else None
        assigned = tuple(f for name, f in matched(rows.shape, snapshot.manifest.schema).items() if name in target.assigned)
        ids = tuple(f.id for f in Schema(assigned).walk())
        updated: list[Fragment] = []
        start = LeafChange(snapshot, delta, ids, schema, (), ())
        changed[leaf.location] = start
        gone = ((i, offsets_of(offsets)) for i, offsets in delta.left.items())
        try:
            removed = without_rows(snapshot, gone, updated, keep_empty=schema is not None)
        finally:
            changed[leaf.location] = replace(start, updated=tuple(updated))
        changed[leaf.location] = replace(start, updated=tuple(updated), removed=removed)


def _discard_change(target: PartitionedTarget, change: LeafChange) -> None:
    """Delete the files of a change of a table that no version refers to. Best effort: never raises."""
    discard_deletions(change.read.store, change.updated)
    write = WriteTarget(change.read.store, change.read.manifest.schema, "", "append", 0, target.options, target.rules)
    discard(write, change.delta.moved)


def _published(work: _Commit, properties: Mapping[str, str]) -> PartitionedVersion:
    """Run a commit. If it has certainly failed, or was done before, its files are deleted."""
    root = work.target.root

    def undo() -> None:
        work.discard_files()
        with logged(f"{root.uri}: removing tables that were not needed"):
            work.remove_unused(None)

    with on_refusal(undo):
        done = change(root, work.edit, properties)
    if not done.applied:
        work.discard_files()
    with logged(f"{root.uri}: removing tables that were not needed"):
        work.remove_unused(done.table if done.applied else None)
    return parsed(done.table) or opened(root)


@dataclass
class _Commit:
    """One commit, with the new versions of the tables so far, by the location of the table that the rows were written to.

    `changed` are the changes of the rows of tables, by their location. If no table may have changed since a version, that is `unchanged`.
    """

    target: PartitionedTarget
    partitions: Sequence[WrittenPartition]
    replaced: Predicate | None
    changed: Mapping[str, LeafChange] = field(default_factory=dict)
    unchanged: PartitionedVersion | None = None
    made: dict[str, tuple[str, Pin | None, Snapshot]] = field(default_factory=dict)
    """The location of the rows, the version that they were added to, and the new version."""

    def edit(self, table: ManifestTable) -> pa.Table:
        """The rows of `__manifest` with the new versions of the tables."""
        version = parsed(table)
        if version is None:
            raise CommitConflictError(f"{self.target.root.uri} is no partitioned namespace any more", retryable=False)
        if table.snapshot is not None:
            check_continues(table.snapshot, self.target.version, self.target.identity)
        spec = version.specs[self.target.spec]
        places = Places(version, spec, self.target.job)
        gone = self._gone(version, places)
        if self.unchanged is not None and _pins(self.unchanged) != _pins(version):
            what = "other rows were written since the operation began, which may have the keys of the new rows"
            raise CommitConflictError(f"{version}: {what}; run the operation again", retryable=True)
        leaves = {leaf.location: leaf for leaf in leaves_of(version, version.leaves)} if self.changed else {}
        added = [p for p in self.partitions if p.place.location not in self.changed]
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(lambda partition: self._commit_leaf(version, places, partition), added))
            list(pool.map(lambda location: self._change_leaf(version, leaves.get(location), location), self.changed))
        rows = table.rows if self.target.mode == "append" else _without(table.rows, version, gone)
        return self._with_versions(with_columns(rows, list(PIN_COLUMNS)), places, spec)

    def discard_files(self) -> None:
        """Delete the files of tables of which the commit has made no version. Best effort: never raises."""
        discard_written(p for p in self.partitions if p.place.location not in self.made)
        for location, leaf_change in self.changed.items():
            if location not in self.made:
                _discard_change(self.target, leaf_change)

    def remove_unused(self, table: ManifestTable | None) -> None:
        """Remove the tables of new partitions that `__manifest` does not refer to (None: all of them)."""
        named = set(table.rows["location"].to_pylist()) if table is not None else set()
        for partition in self.partitions:
            if partition.place.leaf is None and partition.place.location not in named:
                leaf_commit.remove_table(partition.target.store)

    def _gone(self, version: PartitionedVersion, places: Places) -> list[Leaf]:
        """The tables whose rows are replaced."""
        if self.target.mode == "append":
            return []
        leaves = leaves_of(version, version.leaves)
        if self.target.mode == "overwrite":
            return leaves
        if self.target.mode == "dynamic":
            before = Places(self.target.open(), places.spec, self.target.job)
            found = []
            for partition in self.partitions:
                if _pinned(places, partition.key) != _pinned(before, partition.key):
                    what = f"the partition {partition.key} has changed since the write began; run the write again"
                    raise CommitConflictError(f"{version}: {what}", retryable=True)
                found += places.leaves.get(partition.key, [])
            return found
        assert self.replaced is not None
        matching = [matching_leaves(version, spec, self.replaced) for spec in version.specs.values()]
        return [leaf for some in matching for leaf in some]

    def _commit_leaf(self, version: PartitionedVersion, places: Places, partition: WrittenPartition) -> None:
        """Commit the rows of a partition to its table in `version`, unless this was done before."""
        leaf = self._leaf(version, places, partition) if self.target.mode == "append" else None
        own = partition.place.location
        if leaf is None:
            if own not in self.made or self.made[own][0] != own or self.made[own][1] is not None:
                self.made[own] = own, None, leaf_commit.create(partition)
            return
        if own in self.made and self.made[own][:2] == (leaf.location, leaf.pin) and leaf.pin != Pin():
            return
        pinned = open_leaf(version, leaf)
        if pinned is None:  # only declared
            self.made[own] = leaf.location, leaf.pin, leaf_commit.create(partition)
            return
        elsewhere = leaf.location != own
        fragments = leaf_commit.copied(partition, pinned.store) if elsewhere else partition.fragments
        if leaf.pin != Pin():
            leaf_commit.keep(pinned)
        self.made[own] = leaf.location, leaf.pin, leaf_commit.append(pinned, partition, fragments, exact=leaf.pin != Pin())

    def _change_leaf(self, version: PartitionedVersion, leaf: Leaf | None, location: str) -> None:
        """Commit the change of a table's rows, and its new rows, to the table in `version`, unless this was done before."""
        if leaf is None:
            what = f"the table {location} was replaced or dropped since the operation began; run the operation again"
            raise CommitConflictError(f"{version}: {what}", retryable=True)
        if location in self.made and self.made[location][:2] == (location, leaf.pin) and leaf.pin != Pin():
            return
        pinned = open_leaf(version, leaf)
        if pinned is None:
            raise CorruptFileError(f"{version}: the table {location} has no version any more")
        inserted = [f for p in self.partitions if p.place.location == location for f in p.fragments]
        leaf_commit.keep(pinned)
        files = NewFiles(since=self.target.since)
        self.made[location] = location, leaf.pin, leaf_commit.change(pinned, self.changed[location], inserted, files)

    def _leaf(self, version: PartitionedVersion, places: Places, partition: WrittenPartition) -> Leaf | None:
        """The table with the partition's values; None if it does not exist yet."""
        there = places.leaves.get(partition.key, [])
        same = [leaf for leaf in there if leaf.location == partition.place.location]
        if partition.place.leaf is not None and not same:
            what = f"the table {partition.place.location} was replaced or dropped since the write began; run the write again"
            raise CommitConflictError(f"{version}: {what}", retryable=True)
        return same[0] if same else there[0] if there else None

    def _with_versions(self, rows: pa.Table, places: Places, spec: PartitionSpec) -> pa.Table:
        """The rows with the new versions: rows of known tables are changed, others are added with the namespaces that they need."""
        made = {location: snapshot for location, _, snapshot in self.made.values()}
        locations = rows["location"].to_pylist()
        pins: dict[str, Mapping[str, object]] = {
            "read_version": {location: s.version for location, s in made.items()},
            "read_branch": {location: s.manifest.branch for location, s in made.items()},
            "read_tag": dict.fromkeys(made),
        }
        for name, values in pins.items():
            rows = _set(rows, name, locations, values)
        there = set(rows["object_id"].to_pylist())
        parts = [rows]
        for partition in self.partitions:
            location, _, snapshot = self.made[partition.place.location]
            if location not in locations:
                parts.append(_rows_of(rows, places, spec, partition, snapshot, there))
        return pa.concat_tables(parts)


def _pins(version: PartitionedVersion) -> set[tuple[str, Pin]]:
    """The tables of a version of the namespace, with their versions."""
    return {(leaf.location, leaf.pin) for leaf in leaves_of(version, version.leaves)}


def _set(rows: pa.Table, name: str, locations: Sequence[str | None], values: Mapping[str, object]) -> pa.Table:
    at = rows.schema.get_field_index(name)
    old = rows[name].to_pylist()
    new = [values.get(location or "", value) for location, value in zip(locations, old, strict=True)]
    return rows.set_column(at, rows.schema.field(at), pa.array(new, rows.schema.field(at).type))


def _rows_of(rows: pa.Table, places: Places, spec: PartitionSpec, partition: WrittenPartition, made: Snapshot, there: set[str]) -> pa.Table:
    """The row of a new table, and the rows of its missing parent namespaces, whose ids are added to `there`."""
    path = places.namespaces(partition.key)
    found: list[dict[str, object]] = []
    for level, object_id in enumerate(path):
        if object_id not in there:
            there.add(object_id)
            found.append({"object_id": object_id, "object_type": NAMESPACE, "level": level})
    leaf_id = f"{path[-1]}${LEAF}"
    if leaf_id in there:  # another writer's table, in the same namespaces but with other values
        raise CommitConflictError(f"the id {leaf_id!r} is taken by another table; run the write again", retryable=True)
    there.add(leaf_id)
    pin = {"read_version": made.version, "read_branch": made.manifest.branch}
    found.append({"object_id": leaf_id, "object_type": TABLE, "location": partition.place.location, "level": len(path), **pin})
    level_of = {f.column: level for level, f in enumerate(spec.fields, 1)}
    columns = []
    for f in rows.schema:
        if f.name in level_of:
            value, null = partition.values.column(f.name).cast(f.type), pa.nulls(1, f.type)
            has_value = [int(str(row["level"])) >= level_of[f.name] for row in found]
            columns.append(pa.concat_arrays([value if has else null for has in has_value]))
        else:
            columns.append(pa.array([row.get(f.name) for row in found], f.type))
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _pinned(places: Places, key: Key) -> list[tuple[str, Pin]]:
    """The tables of a partition, with their versions."""
    return [(leaf.location, leaf.pin) for leaf in places.leaves.get(key, [])]


def _without(rows: pa.Table, version: PartitionedVersion, gone: Sequence[Leaf]) -> pa.Table:
    """The rows without those of the tables `gone`, and without partition namespaces that become empty."""
    ids = {leaf.object_id for leaf in gone}
    roots = {spec.namespace for spec in version.specs.values()}
    pairs = list(zip(rows["object_id"].to_pylist(), rows["object_type"].to_pylist(), strict=True))
    needed = {prefix for i, t in pairs if t == TABLE and i not in ids for prefix in _above(i)}
    kept = []
    for i, t in pairs:
        is_of_partitions = t == NAMESPACE and "$" in i and i.partition("$")[0] in roots
        kept.append(i not in ids and (i in needed or not is_of_partitions))
    return rows.filter(pa.array(kept, pa.bool_()))


def _above(object_id: str) -> list[str]:
    parts = object_id.split("$")
    return ["$".join(parts[:n]) for n in range(1, len(parts))]


def matching_leaves(version: PartitionedVersion, spec: PartitionSpec, predicate: Predicate) -> list[Leaf]:
    """The tables of a spec whose rows all satisfy the predicate.

    Raises InvalidOptionError if it may be true for some rows of a table and not for others.
    """
    rows = version.leaves
    rows = rows.filter(pc.equal(rows["spec"], spec.id))
    if not rows.num_rows:
        return []
    names = {f.name: f for f in version.schema}
    by_id = {(f.metadata or {}).get(FIELD_ID, b"").decode(): f for f in version.schema}
    own = [f for f in spec.fields if f.transform is not None and f.transform.kind == "identity" and f.source_id in by_id]
    identities = {by_id[f.source_id or ""].name: f.column for f in own}
    used = {node.path[0] for node in walk(predicate.root) if isinstance(node, Column)}
    if not used or any(name not in identities or kind(names[name].type) == "float" for name in used):
        if may_match(predicate, spec, version.schema, rows).any():
            columns = ", ".join(sorted(identities)) or "none"
            what = f"divides partitions of spec {spec.id}; use columns that are partition values: {columns}"
            raise InvalidOptionError(f"{version}: the condition {predicate.text!r} {what}")
        return []
    batch = pa.table({name: rows[column] for name, column in identities.items()})
    selected = pc.fill_null(evaluate(predicate, batch), False)
    at = np.flatnonzero(np.asarray(selected.to_numpy(zero_copy_only=False), bool))
    return leaves_of(version, rows.take(pa.array(at)))
