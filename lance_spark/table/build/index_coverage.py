"""Which fragments the indexes of a table cover, updated with each change. Pure.

Implements "Fragment Bitmaps" of the row id and lineage specification and "Index Remapping" of the index pages, as pylance does. A bitmap
names the fragments whose rows an index segment was built from, possibly including removed ones. The contents of an index are not
read, and its files are never changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, InvalidOperationError, UnsupportedFeatureError
from lance_spark.index.kinds import FIXED, kind_of
from lance_spark.metadata.bitmaps import read_bitmap
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.metadata.operations import RewriteGroup, RewrittenIndex
from lance_spark.schema.schema import Schema
from lance_spark.table.build.reuse_history import FRAGMENT_REUSE, is_reuse_readable, reuse_history

Indexes = tuple[IndexMetadata, ...]

MEM_WAL = "__lance_mem_wal"
SYSTEM_INDEXES = frozenset({FRAGMENT_REUSE, MEM_WAL})


def through_reuse(indexes: Indexes) -> Indexes:
    """The indexes with bitmaps of the current fragments, if a fragment reuse index records how rows were moved.

    Only the bitmaps change; the reuse index remains, because readers of the index files still need it.
    """
    groups = [(_digests(g.old_fragments), _digests(g.new_fragments)) for v in reuse_history(indexes) or () for g in v.groups]
    if not groups:
        return indexes
    done = []
    for index in indexes:
        covered = None if index.name in SYSTEM_INDEXES else fragments_of(index)
        moved = covered
        for old, new in groups:
            if moved is not None and old & moved:
                # In a partly covered group, the covered rows cannot be identified after they have moved.
                moved = moved - old | (new if old <= moved else BitMap())
        done.append(index if moved is None or moved == covered else _covering(index, moved))
    return tuple(done)


def with_compacted(indexes: Indexes, compacted: Iterable[bytes], version: int) -> Indexes:
    """The indexes after the update `version` that has merged SSTables of the write-ahead log: its entry names the last ones of each shard.

    Raises InvalidOperationError if there is no log.
    """
    place = next((i for i, index in enumerate(indexes) if index.name == MEM_WAL), None)
    if place is None:
        raise InvalidOperationError("the update merges a write-ahead log, but the table has none")
    own = indexes[place]
    details = parse_message(pb.MemWalIndexDetails, own.details, f"the details of index {MEM_WAL!r}")
    for data in compacted:
        table = parse_message(pb.CompactedSsTable, data, "a compacted SSTable")
        known = next((t for t in details.compacted_sstables if t.shard_id.uuid == table.shard_id.uuid), None)
        if known is None:
            details.compacted_sstables.append(table)
        else:
            known.generation = max(known.generation, table.generation)
    changed = replace(own, uuid=uuid.uuid4().bytes, dataset_version=version, details=details.SerializeToString(), base_id=None)
    return (*indexes[:place], changed, *indexes[place + 1 :])


def with_catchup(before: Indexes, after: Indexes, fragments: Iterable[int]) -> Indexes:
    """The indexes `after` a commit, whose log notes how far each index has caught up with what was merged into the table.

    An index that covers all `fragments` of the version before has all rows that were merged there. Otherwise one that the commit has not
    changed keeps its position, and any other has none: readers then look into SSTables. See `index_catchup` of the specification.
    """
    place = next((i for i, index in enumerate(after) if index.name == MEM_WAL), None)
    known = next((index for index in before if index.name == MEM_WAL), None)
    if place is None or known is None:
        return after
    live, own = BitMap(fragments), after[place]
    old, new = (parse_message(pb.MemWalIndexDetails, i.details, f"the details of index {MEM_WAL!r}") for i in (known, own))
    positions = {progress.index_name: progress.caught_up_generations for progress in old.index_catchup}
    found = []
    for name in dict.fromkeys(index.name for index in after if index.name not in SYSTEM_INDEXES):
        segments, were = ([i for i in indexes if i.name == name] for indexes in (after, before))
        covered = BitMap().union(*(fragments_of(i) or BitMap() for i in segments))
        same = {(i.uuid, i.fragment_bitmap) for i in segments} == {(i.uuid, i.fragment_bitmap) for i in were}
        caught_up = old.compacted_sstables if live and live <= covered else positions.get(name, ()) if same else ()
        if caught_up:
            found.append(pb.IndexCatchupProgress(index_name=name, caught_up_generations=caught_up))
    if found == list(new.index_catchup):
        return after
    del new.index_catchup[:]
    new.index_catchup.extend(found)
    return (*after[:place], replace(own, details=new.SerializeToString(deterministic=True)), *after[place + 1 :])


def with_new_log(indexes: Indexes) -> Indexes:
    """The indexes of a clone or branch: its write-ahead log is its own, of which nothing has been merged, as its shards are new."""

    def own(index: IndexMetadata) -> IndexMetadata:
        details = parse_message(pb.MemWalIndexDetails, index.details, f"the details of index {MEM_WAL!r}")
        del details.compacted_sstables[:]
        del details.index_catchup[:]
        return replace(index, details=details.SerializeToString())

    return tuple(own(index) if index.name == MEM_WAL else index for index in indexes)


def with_reuse(indexes: Indexes, entry: IndexMetadata) -> Indexes:
    """The indexes, with the moves in `entry` added to the fragment reuse index; the same ones if there is one that cannot be read."""
    known = reuse_history(indexes)
    if known is None:
        return indexes
    details, new = pb.FragmentReuseIndexDetails(), reuse_history((entry,)) or ()
    details.inline.versions.extend((*known, *new))
    before = [fragments_of(i) or BitMap() for i in indexes if i.name == FRAGMENT_REUSE]
    entry = _covering(entry, (fragments_of(entry) or BitMap()).union(*before))
    entry = replace(entry, details=details.SerializeToString(deterministic=True))
    return (*(i for i in indexes if i.name != FRAGMENT_REUSE), entry)


def _digests(fragments: Iterable[pb.FragmentReuseIndexDetails.FragmentDigest]) -> BitMap:
    try:
        return BitMap(f.id for f in fragments)
    except OverflowError as e:
        raise CorruptFileError(f"the fragment reuse index has fragment ids that do not fit 32 bits: {e}") from e


def fragments_of(index: IndexMetadata) -> BitMap | None:
    """The ids of the fragments that the index covers; None if they are not recorded."""
    return read_bitmap(index.fragment_bitmap, f"the fragment bitmap of index {index.name!r}") if index.fragment_bitmap else None


def _covering(index: IndexMetadata, fragments: BitMap) -> IndexMetadata:
    return replace(index, fragment_bitmap=fragments.serialize())


def useful(indexes: Indexes, schema: Schema, fragments: Iterable[int]) -> Indexes:
    """The indexes without those of dropped fields, and without segments that no longer cover any fragment of the table,
    whose fragments have the ids `fragments`.

    If no segment of an index covers a fragment, the oldest stays as its definition. If a fragment reuse index cannot be
    read, the coverage is unknown and no segment is removed for it.
    """
    if not indexes:
        return indexes
    kept, live = of_fields(indexes, schema), BitMap(fragments)
    groups: dict[str, list[IndexMetadata]] = {}
    for index in kept:
        groups.setdefault(index.name, []).append(index)
    useless: set[bytes] = set()
    for name, segments in groups.items():
        known = [i for i in segments if i.fragment_bitmap]
        empty = [i for i in known if not (fragments_of(i) or BitMap()) & live]
        if name in SYSTEM_INDEXES or not empty or not is_reuse_readable(indexes):
            continue
        oldest = min(empty, key=lambda i: i.dataset_version)
        useless.update(i.uuid for i in empty if len(empty) < len(known) or i is not oldest)
    return tuple(i for i in kept if i.uuid not in useless)


def of_fields(indexes: Indexes, schema: Schema) -> Indexes:
    """The indexes without those of fields that the table does not have. pylance cannot filter or delete while there is such an index."""
    if not indexes:
        return indexes
    fields = {f.id for f in schema.walk()}
    return tuple(i for i in indexes if i.name in SYSTEM_INDEXES or fields.issuperset(i.fields))


def without(indexes: Indexes, changes: Mapping[int, Collection[int]]) -> Indexes:
    """The indexes without the fragments in which fields that they depend on have new values: `changes` is fragment id -> field ids."""
    if any(changes.values()) and not is_reuse_readable(indexes):
        raise UnsupportedFeatureError(
            "the fragment reuse index is stored in a newer form, or its file cannot be read; changing values in place is not supported then"
        )
    done = []
    for index in indexes:
        stale = [fragment for fragment, fields in changes.items() if not set(fields).isdisjoint(index.fields)]
        covered = fragments_of(index)
        done.append(_covering(index, covered - BitMap(stale)) if covered is not None and stale else index)
    return tuple(done)


def _paths(fragment: Fragment) -> dict[int, str]:
    """The data file of each field."""
    return {i: file.path for file in fragment.files for i in file.fields}


def changed_fields(before: Iterable[Fragment], after: Iterable[Fragment]) -> dict[int, set[int]]:
    """Fragment id -> the ids of the fields that are now in another data file, for existing fragments."""
    old = {f.id: f for f in before}
    changes = {}
    for fragment in after:
        was = old.get(fragment.id, fragment)
        if was.files != fragment.files:
            old_paths, paths = _paths(was), _paths(fragment)
            changes[fragment.id] = {i for i, path in old_paths.items() if i >= 0 and paths.get(i, path) != path}
    return changes


def rewritten(indexes: Indexes, groups: Iterable[RewriteGroup], segments: Iterable[RewrittenIndex], stable_row_ids: bool) -> Indexes:
    """The indexes after a Rewrite that rewrote their `segments`.

    Other segments still cover the moved rows if they refer to stable ids, but not if they refer to addresses. In tables
    without stable row ids they still name the old fragments: a fragment reuse index may record where the rows went. Readers do not
    look there for the rows of some kinds, which cover them no more. Beside a segment that was rebuilt, the others of its index keep only
    the rows that stay.
    """
    by_uuid, groups = {s.old_id: s for s in segments}, tuple(groups)
    moved = BitMap(f.id for g in groups for f in g.old_fragments)
    new = BitMap(f.id for g in groups for f in g.new_fragments)
    rebuilt = {index.name for index in indexes if index.uuid in by_uuid and by_uuid[index.uuid].rebuilt}
    done = []
    for index in indexes:
        segment, covered = by_uuid.get(index.uuid), fragments_of(index)
        if segment is not None:
            if covered is None:
                raise InvalidOperationError(f"the index {index.name!r} was rewritten, but lacks the bitmap of the fragments that it covers")
            now = (covered - moved) | new if segment.rebuilt else _replaced(covered, groups)
            # The new files are in the table's own folder, wherever the old ones were: in that of a clone or a branch.
            index = replace(_covering(index, now), uuid=segment.new_id, files=segment.files, base_id=None)
            if segment.rebuilt:
                index = replace(index, details=segment.details, index_version=segment.index_version)
        elif (stable_row_ids or _is_fixed(index)) and covered is not None and covered & moved:
            follows = not _has_addresses(index) and index.name not in rebuilt
            index = _covering(index, _replaced(covered, groups, strict=False) if follows else covered - moved)
        done.append(index)
    return tuple(done)


def with_moved(indexes: Indexes, sources: Iterable[int], targets: Iterable[int], changed: Iterable[int]) -> Indexes:
    """The indexes of a table with stable row ids after an update that moved rows of the fragments `sources` to the new ones `targets`,
    which hold nothing else, and gave them new values in the fields `changed`.

    An index that covers all sources, depends on none of the fields and refers to row ids covers the targets as well.
    """
    old, new, fields = BitMap(sources), BitMap(targets), frozenset(changed)
    done = []
    for index in indexes:
        covered = fragments_of(index)
        follows = covered is not None and new and old <= covered and fields.isdisjoint(index.fields) and not _has_addresses(index)
        done.append(_covering(index, covered | new) if covered is not None and follows else index)
    return tuple(done)


def _has_addresses(index: IndexMetadata) -> bool:
    """Whether an index refers to row addresses even in a table with stable row ids."""
    if _is_fixed(index):
        return True
    kind = kind_of(index.details_type, index.details)
    return kind is not None and kind.has_addresses(index.index_version, stable_row_ids=True)


def _is_fixed(index: IndexMetadata) -> bool:
    """Whether readers do not find the rows of an index where they have moved, whatever a fragment reuse index says."""
    return index.details_type.rpartition(".")[2] in FIXED


def _ids(fragments: Iterable[Fragment]) -> BitMap:
    return BitMap(f.id for f in fragments)


def _replaced(covered: BitMap, groups: Iterable[RewriteGroup], strict: bool = True) -> BitMap:
    """`covered` with the new fragments of each group instead of the old ones, if it has all of these.

    Of a group of which it has a part, nothing is covered then; if `strict`, this raises InvalidOperationError.
    """
    for group in groups:
        old, new = _ids(group.old_fragments), _ids(group.new_fragments)
        if strict and old & covered and not old <= covered:
            raise InvalidOperationError(
                f"the fragments {sorted(old)} were rewritten together, but an index covers only {sorted(old & covered)}"
            )
        if old & covered:
            covered = (covered - old) | (new if old <= covered else BitMap())
    return covered
