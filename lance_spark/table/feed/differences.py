"""The rows that one commit has inserted, updated and deleted, from the manifests of two versions.

Only fragments that differ are looked at, and of them only deletion files, row ids and versions of rows; values are read where a file of a
column was replaced without a record of the rows. Rows are the same in both versions if they have the same row id; in a table without stable
row ids, if they have the same address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lance_spark.arrow.equal_keys import value_numbers
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.bitmaps import offsets_of, read_bitmap
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import TOMBSTONE, Fragment
from lance_spark.metadata.operations import Merge, Operation, Overwrite, Restore, Rewrite, Unknown, Update
from lance_spark.metadata.row_address import addresses_of, by_fragment
from lance_spark.metadata.row_ids import load_sequence, parse_versions, row_ids_of
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.scan.fragment_reader import FragmentReader, physical_rows
from lance_spark.table.scan.plan import BATCH_ROWS
from lance_spark.table.scan.projection import Projection
from lance_spark.table.versions.history import operation_of
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.versions.spilled_lineage import with_inline_lineage

NEEDS_ROW_IDS = "write the table with stable row ids (enable_stable_row_ids=True) to have them"


@dataclass(frozen=True)
class Part:
    """Rows of a fragment of one version: ascending offsets, none of them deleted."""

    snapshot: Snapshot
    fragment: Fragment
    offsets: Rows

    @property
    def addresses(self) -> np.ndarray:
        """The addresses of the rows (uint64)."""
        return addresses_of(self.fragment.id, self.offsets)

    def row_ids(self) -> np.ndarray:
        """The stable ids of the rows (uint64)."""
        return row_ids_of(self.fragment, self.snapshot.locations).at(self.offsets)

    def updated_at(self) -> np.ndarray | None:
        """The version that updated each row last (uint64); None if it is not recorded."""
        sequence = self.fragment.updated_at
        if sequence is None:
            return None
        total = _physical_rows(self.snapshot, self.fragment)
        return parse_versions(load_sequence(sequence, self.snapshot.locations), total).at(self.offsets)

    def chosen(self, mask: np.ndarray) -> Part:
        """Some of the rows."""
        return Part(self.snapshot, self.fragment, _numbers(self.offsets)[mask])

    def read(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """The fields of the rows, by their ids."""
        deleted = read_deletions(self.fragment, self.snapshot.locations)
        positions: Rows = self.offsets
        if len(deleted):
            numbers = _numbers(self.offsets)
            positions = numbers - np.searchsorted(deleted, numbers)
        reader = FragmentReader(self.fragment, self.snapshot.locations, self.snapshot.manifest.has_stable_row_ids)
        yield from reader.read(positions, Projection(schema), BATCH_ROWS)


@dataclass(frozen=True)
class Differences:
    """What a commit did to rows: `deleted` ones as in the version before, `inserted` ones as in the version after, and the addresses
    (uint64) of `updated` ones in both.

    If `commit` is given, it is the commit that has changed the rows, and the versions are earlier and later ones.
    """

    before: Snapshot | None
    after: Snapshot
    deleted: Sequence[Part] = ()
    inserted: Sequence[Part] = ()
    updated: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (np.empty(0, np.uint64), np.empty(0, np.uint64)))
    commit: Snapshot | None = None

    @property
    def changed_by(self) -> Snapshot:
        """The version that the commit made."""
        return self.commit or self.after


@dataclass
class Touched:
    """Rows that left their places, rows that came to theirs, and the addresses of rows that were updated where they are."""

    left: list[Part] = field(default_factory=list)
    came: list[Part] = field(default_factory=list)
    updated: list[np.ndarray] = field(default_factory=list)


def differences(before: Snapshot | None, after: Snapshot) -> Differences:
    """Compare a version with the one before it (None: there is none, and all rows are new).

    Raises UnsupportedFeatureError if a table without stable row ids does not tell which rows are the same.
    """
    if before is None:
        return Differences(None, after, inserted=[part for f in after.manifest.fragments if (part := _all(after, f))])
    operation = operation_of(after)
    if isinstance(operation, Rewrite):
        return Differences(before, after)
    found = touched(before, after, operation)
    stable = after.manifest.has_stable_row_ids and before.manifest.has_stable_row_ids
    if stable and found.left and found.came:
        return _by_row_id(before, after, found)
    if not stable and isinstance(operation, Restore | Unknown) and _has_whole(found.left) and _has_whole(found.came):
        raise UnsupportedFeatureError(
            f"{after}: the commit ({type(operation).__name__}) replaced fragments, and without stable row ids nothing tells which rows "
            f"are the same; {NEEDS_ROW_IDS}"
        )
    return Differences(before, after, found.left, found.came, _in_place(found))


def unchanged(found: Differences) -> tuple[np.ndarray, np.ndarray]:
    """The addresses (uint64), in both versions, of the rows that are in both and that the commit has not updated."""
    before, after = found.before, found.after
    none = np.empty(0, np.uint64)
    if before is None:
        return none, none
    parts = rows_of(after, after.manifest.lazy_fragments.ids.tolist())
    new = np.concatenate([none, *(part.addresses for part in parts)])
    changed = np.concatenate([found.updated[1], *(part.addresses for part in found.inserted)])
    is_kept = ~np.isin(new, changed)
    if not (after.manifest.has_stable_row_ids and before.manifest.has_stable_row_ids):
        return new[is_kept], new[is_kept]
    ids = np.concatenate([none, *(part.row_ids() for part in parts)])
    return addresses_of_ids(before, ids[is_kept]), new[is_kept]


def _in_place(touched: Touched) -> tuple[np.ndarray, np.ndarray]:
    addresses = np.concatenate([np.empty(0, np.uint64), *touched.updated])
    return addresses, addresses


def _has_whole(parts: Sequence[Part]) -> bool:
    """True if a part has all rows of its fragment."""
    return any(isinstance(part.offsets, range) for part in parts)


def _by_row_id(before: Snapshot, after: Snapshot, touched: Touched) -> Differences:
    """Rows that left and came with the same id were updated, or have only moved."""
    left, came = (np.concatenate([part.row_ids() for part in parts]) for parts in (touched.left, touched.came))
    _, at_left, at_came = np.intersect1d(left, came, return_indices=True)
    gone, new = np.ones(len(left), bool), np.ones(len(came), bool)
    gone[at_left], new[at_came] = False, False
    marks = [_marks(parts) for parts in (touched.left, touched.came)]
    # Without marks, a row is not known to be the same.
    changed = (marks[0][at_left] != marks[1][at_came]) | (marks[0][at_left] == 0)
    old = np.concatenate([part.addresses for part in touched.left])[at_left[changed]]
    moved = np.concatenate([part.addresses for part in touched.came])[at_came[changed]]
    here, _ = _in_place(touched)
    updated = np.concatenate([here, old]), np.concatenate([here, moved])
    return Differences(before, after, _chosen(touched.left, gone), _chosen(touched.came, new), updated)


def _marks(parts: Sequence[Part]) -> np.ndarray:
    """The version that updated each row last; 0 where it is not recorded."""
    found = ((part, part.updated_at()) for part in parts)
    return np.concatenate([np.zeros(len(part.offsets), np.uint64) if marks is None else marks for part, marks in found])


def _chosen(parts: Sequence[Part], mask: np.ndarray) -> list[Part]:
    ends = np.cumsum([len(part.offsets) for part in parts])
    masks = np.split(mask, ends[:-1])
    return [part if chosen.all() else part.chosen(chosen) for part, chosen in zip(parts, masks) if chosen.any()]


def touched(before: Snapshot, after: Snapshot, operation: Operation) -> Touched:
    """The rows of fragments that differ in two versions. A commit with this `operation` made the second one of the first."""
    old, new = before.manifest.lazy_fragments, after.manifest.lazy_fragments
    for snapshot, fragments in ((before, old), (after, new)):
        if len(fragments.shared_ids):
            raise UnsupportedFeatureError(f"{snapshot}: fragments share the id {fragments.shared_ids[0]}; compact the table first")
    # Unchanged fragments have the same message in both manifests.
    old_messages = dict(zip(old.ids.tolist(), old.messages()))
    new_messages = dict(zip(new.ids.tolist(), new.messages()))
    differing = [i for i in old_messages.keys() | new_messages.keys() if old_messages.get(i) != new_messages.get(i)]
    was, is_now = old.of_ids(differing), new.of_ids(differing)
    found = Touched()
    for i in sorted(differing):
        f, g = was.get(i), is_now.get(i)
        if f is not None and g is not None:
            # The ids may have moved from a column of a data file to the manifest.
            f, g = with_inline_lineage(f, before.locations), with_inline_lineage(g, after.locations)
            if f == g:
                continue
        if f is not None and g is not None and _same_rows(f, g, operation):
            _compare(found, before, f, after, g, operation)
            continue
        if f is not None and (part := _all(before, f)):
            found.left.append(part)
        if g is not None and (part := _all(after, g)):
            found.came.append(part)
    return found


def rows_of(snapshot: Snapshot, ids: Iterable[int]) -> list[Part]:
    """All rows of the fragments with these ids, in the order of the ids."""
    return [part for _, fragment in sorted(snapshot.manifest.lazy_fragments.of_ids(ids).items()) if (part := _all(snapshot, fragment))]


def _same_rows(old: Fragment, new: Fragment, operation: Operation) -> bool:
    """True if two fragments with the same id are versions of one fragment. An Overwrite begins again with the first id."""
    if old.row_ids is not None and new.row_ids is not None:
        return old.row_ids == new.row_ids
    if isinstance(operation, Overwrite):
        return False
    if not isinstance(operation, Restore | Unknown):
        return True
    paths = {(file.base_id, file.path) for file in old.files}
    return any((file.base_id, file.path) in paths for file in new.files)


def _all(snapshot: Snapshot, fragment: Fragment) -> Part | None:
    """All rows of a fragment; None if it has none."""
    total = _physical_rows(snapshot, fragment)
    deleted = read_deletions(fragment, snapshot.locations)
    rows: Rows = np.setdiff1d(np.arange(total), deleted, assume_unique=True) if len(deleted) else range(total)
    return Part(snapshot, fragment, rows) if len(rows) else None


def _physical_rows(snapshot: Snapshot, fragment: Fragment) -> int:
    return physical_rows(fragment, snapshot.locations)


def _compare(
    touched: Touched, before: Snapshot, fragment_before: Fragment, after: Snapshot, fragment_after: Fragment, operation: Operation
) -> None:
    """Two versions of one fragment."""
    if fragment_before.overlays != fragment_after.overlays:
        raise UnsupportedFeatureError(f"{after}: fragment {fragment_after.id} has new overlays, whose changes cannot be read")
    was_deleted, is_deleted = read_deletions(fragment_before, before.locations), read_deletions(fragment_after, after.locations)
    if len(left := np.setdiff1d(is_deleted, was_deleted, assume_unique=True)):
        touched.left.append(Part(before, fragment_before, left))
    if len(came := np.setdiff1d(was_deleted, is_deleted, assume_unique=True)):
        touched.came.append(Part(after, fragment_after, came))
    # A field that the commit has added changes no row. One that was there without a file was null.
    known = {field.id for field in before.manifest.schema.walk()}
    there = [field for field in after.manifest.schema.walk() if field.id in known]
    changed = {field.id for field in there if _place(fragment_before, field) != _place(fragment_after, field)}
    if not changed:
        return
    both = np.setdiff1d(np.arange(_physical_rows(after, fragment_after)), np.union1d(was_deleted, is_deleted), assume_unique=True)
    old, new = Part(before, fragment_before, both), Part(after, fragment_after, both)
    compared = only(after.manifest.schema.fields, known)
    fields = Schema(tuple(field for field in compared if not changed.isdisjoint(c.id for c in field.walk())))
    if not fields.fields:
        return  # the commit has cast the only field of a struct
    updated = _updated(old, new, fields, operation)
    if len(updated):
        touched.updated.append(addresses_of(fragment_after.id, updated))


def _place(fragment: Fragment, field: Field) -> object:
    """Where the values of a field are; None if they are in no file."""
    for file in fragment.files:
        if field.id in file.fields and field.id != TOMBSTONE:
            return file.base_id, file.path, file.columns.get(field.id)
    return None


def only(fields: Sequence[Field], known: Collection[int]) -> tuple[Field, ...]:
    """The fields without those, also within them, that are not among `known`."""
    found = []
    for f in fields:
        children = only(f.children, known)
        if f.id in known and bool(children) == bool(f.children):
            found.append(replace(f, children=children))
    return tuple(found)


def _updated(old: Part, new: Part, fields: Schema, operation: Operation) -> np.ndarray:
    """The offsets of rows that have been updated where they are: as recorded, or else those whose values of `fields` differ."""
    rows: np.ndarray = _numbers(new.offsets)
    recorded = operation.updated_fragment_offsets.get(new.fragment.id, b"") if isinstance(operation, Update) else b""
    if recorded:
        known: np.ndarray = np.intersect1d(rows, offsets_of(read_bitmap(recorded, f"{new.snapshot}: updated_fragment_offsets")))
        return known
    # pylance marks all rows as updated when it adds a column.
    marks = (None, None) if isinstance(operation, Merge) else (old.updated_at(), new.updated_at())
    if marks[0] is not None and marks[1] is not None and (differ := marks[0] != marks[1]).any():
        marked: np.ndarray = rows[differ]
        return marked
    batches = zip(old.read(fields), new.read(fields), strict=True)
    masks = [differing(was.columns, now.columns) for was, now in batches]
    changed_rows: np.ndarray = rows[np.concatenate([np.empty(0, bool), *masks])]
    return changed_rows


def marks_of(snapshot: Snapshot, addresses: np.ndarray) -> np.ndarray:
    """The version that updated each of these rows last (uint64); 0 where it is not recorded."""
    order = np.argsort(addresses, kind="stable")
    marks = np.empty(len(addresses), np.uint64)
    found = [_marks([part]) for part in parts_at(snapshot, addresses)]
    marks[order] = np.concatenate([np.empty(0, np.uint64), *found])
    return marks


def addresses_of_ids(snapshot: Snapshot, ids: np.ndarray) -> np.ndarray:
    """The addresses (uint64) of the rows with these distinct stable ids. Raises CorruptFileError if the version lacks one of them."""
    order = np.argsort(ids)
    wanted = ids[order]
    found, addresses = np.zeros(len(ids), bool), np.empty(len(ids), np.uint64)
    for fragment in snapshot.manifest.fragments if len(ids) else ():
        which, offsets = row_ids_of(fragment, snapshot.locations).find(wanted)
        if not len(which):
            continue
        alive = ~np.isin(offsets, read_deletions(fragment, snapshot.locations))
        at = order[which[alive]]
        found[at], addresses[at] = True, addresses_of(fragment.id, offsets[alive])
    if not found.all():
        raise CorruptFileError(f"{snapshot} has no row with the id {ids[~found][0]}, which later versions have changed")
    return addresses


def parts_at(snapshot: Snapshot, addresses: np.ndarray) -> Iterator[Part]:
    """The rows at these addresses, which exist, fragment by fragment, in the order of their addresses."""
    groups = list(by_fragment(np.sort(addresses)))
    fragments = snapshot.manifest.lazy_fragments.of_ids([i for i, _ in groups])
    return (Part(snapshot, fragments[i], offsets.astype(np.int64)) for i, offsets in groups)


def differing(a: Sequence[pa.Array], b: Sequence[pa.Array]) -> np.ndarray:
    """Which rows differ in one of the columns, of the same types in `a` and in `b`; nulls are equal to each other."""
    found = np.zeros(len(a[0]), bool)
    for x, y in zip(a, b, strict=True):
        if len(x) != len(y):
            raise CorruptFileError(f"batches of {len(x)} and {len(y)} rows of one fragment")
        numbers = value_numbers(pa.concat_arrays([c.storage if isinstance(c, pa.ExtensionArray) else c for c in (x, y)]))
        found |= numbers[: len(x)] != numbers[len(x) :]
    return found


def _numbers(rows: Rows) -> np.ndarray:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
